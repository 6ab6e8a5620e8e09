//! The environment a program gets.

use crate::EnvEntry;
use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
};

/// Variables by name.
pub type Variables = BTreeMap<OsString, OsString>;

/// The variables of this process.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "a sandbox hands the environment on; it takes no setting from it"
)]
pub fn host_variables() -> Variables {
    std::env::vars_os().collect()
}

/// What programs get without asking, and what they may ask to have forwarded.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment {
    pub(crate) baseline: Variables,
    pub(crate) host: Variables,
}

impl Environment {
    /// Everything this process has.
    pub(crate) fn inherit() -> Self {
        let host = host_variables();
        Self { baseline: host.clone(), host }
    }

    /// The baseline with `entries` merged over it, the last of several for one name winning.
    pub(crate) fn merge<'a>(&'a self, entries: &'a [EnvEntry]) -> Vec<(&'a OsStr, &'a OsStr)> {
        let mut merged = Vec::with_capacity(self.baseline.len() + entries.len());
        merged.extend(self.baseline.iter().map(|(key, value)| (key.as_os_str(), value.as_os_str())));
        for entry in entries {
            let (key, value) = match entry {
                EnvEntry::Set(key, value) => (OsStr::new(key), OsStr::new(value)),
                EnvEntry::Forward(key) => match self.host.get(OsStr::new(key)) {
                    Some(value) => (OsStr::new(key), value.as_os_str()),
                    None => continue,
                },
            };
            // The baseline is in order, and stays so.
            match merged.binary_search_by_key(&key, |(known, _)| *known) {
                Ok(at) => merged[at].1 = value,
                Err(at) => merged.insert(at, (key, value)),
            }
        }
        merged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_go_over_the_baseline_and_the_last_one_wins() {
        let variables = |pairs: &[(&str, &str)]| -> Variables {
            pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect()
        };
        let environment = Environment {
            baseline: variables(&[("A", "1"), ("B", "2")]),
            host: variables(&[("B", "host"), ("H", "host")]),
        };
        let entries = ["A=x", "A=y=z", "H", "MISSING"].map(EnvEntry::parse);
        let expected = [("A", "y=z"), ("B", "2"), ("H", "host")].map(|(k, v)| (OsStr::new(k), OsStr::new(v)));
        assert_eq!(environment.merge(&entries), expected);
    }
}
