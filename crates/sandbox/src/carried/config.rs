//! Configuration blocks read key by key, so that an error names the key.

use crate::FactoryError;
use serde_json::{Map, Value};

/// One mode's block.
pub(crate) struct Block<'a> {
    config: &'a Map<String, Value>,
}

impl<'a> Block<'a> {
    /// Checks that every key is known.
    pub(crate) fn new(config: &'a Map<String, Value>, known: &[&str]) -> Result<Self, FactoryError> {
        match config.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => {
                let mut known: Vec<String> = known.iter().map(|key| (*key).to_owned()).collect();
                known.sort();
                Err(FactoryError::UnknownKey { key: key.clone(), known })
            }
            None => Ok(Self { config }),
        }
    }

    pub(crate) fn text(&self, key: &str) -> Result<Option<String>, FactoryError> {
        match self.config.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(bad(key, format!("must be a string, not {other}"))),
        }
    }

    pub(crate) fn needed(&self, key: &str) -> Result<String, FactoryError> {
        self.text(key)?
            .filter(|text| !text.is_empty())
            .ok_or_else(|| FactoryError::MissingKey(key.to_owned()))
    }

    pub(crate) fn texts(&self, key: &str) -> Result<Vec<String>, FactoryError> {
        let wrong = || bad(key, "must be a list of strings".to_owned());
        match self.config.get(key) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(items)) => {
                items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
            }
            Some(_) => Err(wrong()),
        }
    }
}

fn bad(key: &str, why: String) -> FactoryError {
    FactoryError::BadValue { key: key.to_owned(), why }
}
