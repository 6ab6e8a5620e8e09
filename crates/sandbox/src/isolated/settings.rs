//! The configuration block of mode `isolated`.

use super::{
    Builder,
    guarantee::{GUARANTEES, Guarantee},
    plan::Network,
};
use crate::FactoryError;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// The keys, sorted.
pub const KEYS: &[&str] =
    &["cpu", "env", "file_size", "memory", "network", "pids", "read", "require", "write"];

fn bad(key: &str, why: impl Into<String>) -> FactoryError {
    FactoryError::BadValue { key: key.to_owned(), why: why.into() }
}

fn strings(key: &str, value: &Value) -> Result<Vec<String>, FactoryError> {
    let list = value.as_array().ok_or_else(|| bad(key, "expected a list of strings"))?;
    list.iter()
        .map(|item| item.as_str().map(str::to_owned).ok_or_else(|| bad(key, "expected a list of strings")))
        .collect()
}

fn number(key: &str, value: &Value) -> Result<u64, FactoryError> {
    value.as_u64().filter(|n| *n > 0).ok_or_else(|| bad(key, "expected a whole number above 0"))
}

/// `2GiB`, `512 MB`, `1000`: bytes.
fn size(key: &str, value: &Value) -> Result<u64, FactoryError> {
    let text = match value {
        Value::String(text) => text.trim(),
        other => return number(key, other),
    };
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (count, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "kb" => 1000,
        "m" | "mib" => 1 << 20,
        "mb" => 1_000_000,
        "g" | "gib" => 1 << 30,
        "gb" => 1_000_000_000,
        "t" | "tib" => 1 << 40,
        _ => {
            return Err(bad(
                key,
                format!("\"{text}\" is no size; write for example 2GiB, 512MiB or 1000000"),
            ));
        }
    };
    let bytes = count.parse::<u64>().ok().and_then(|n| n.checked_mul(factor)).filter(|n| *n > 0);
    bytes.ok_or_else(|| bad(key, format!("\"{text}\" is no size; write for example 2GiB, 512MiB or 1000000")))
}

/// `90`, `90s`, `5m`, `1h`: seconds.
fn seconds(key: &str, value: &Value) -> Result<u64, FactoryError> {
    let Value::String(text) = value else { return number(key, value) };
    let text = text.trim();
    let (count, factor) = match text.char_indices().last() {
        Some((at, 's')) => (&text[..at], 1),
        Some((at, 'm')) => (&text[..at], 60),
        Some((at, 'h')) => (&text[..at], 3600),
        _ => (text, 1),
    };
    let seconds = count.trim().parse::<u64>().ok().and_then(|n| n.checked_mul(factor)).filter(|n| *n > 0);
    seconds.ok_or_else(|| bad(key, format!("\"{text}\" is no time; write for example 90s, 5m or 1h")))
}

/// `~/x` is below HOME, a relative path below the first workspace.
fn path(text: &str, builder: &Builder) -> PathBuf {
    if let Some(rest) = text.strip_prefix("~/")
        && let Some(home) = &builder.profile.home
    {
        return home.join(rest);
    }
    builder.profile.workspaces.first().map_or_else(|| PathBuf::from(text), |workspace| workspace.join(text))
}

fn network(value: &Value) -> Result<Network, FactoryError> {
    let word = value.as_str().unwrap_or_default();
    [Network::None, Network::Loopback, Network::Host]
        .into_iter()
        .find(|network| network.name() == word)
        .ok_or_else(|| bad("network", "expected none, loopback or host"))
}

fn existing(key: &str, paths: &[String], builder: &Builder) -> Result<Vec<PathBuf>, FactoryError> {
    let missing = |p: &Path| bad(key, format!("{} does not exist; make it first", p.display()));
    let resolved = paths.iter().map(|p| path(p, builder));
    resolved.map(|p| if p.exists() { Ok(p) } else { Err(missing(&p)) }).collect()
}

impl Builder {
    /// Adds a configuration block; paths may begin with `~/` and are otherwise relative to the workspace.
    ///
    /// # Errors
    /// An unknown key, or a value that cannot be used.
    pub fn configure(mut self, config: &Map<String, Value>) -> Result<Self, FactoryError> {
        for (key, value) in config {
            match key.as_str() {
                "read" => {
                    // What does not exist cannot be hidden either.
                    let paths: Vec<PathBuf> = strings(key, value)?.iter().map(|p| path(p, &self)).collect();
                    self.profile.read.extend(paths);
                }
                "write" => {
                    let paths = existing(key, &strings(key, value)?, &self)?;
                    let whole =
                        |path: &PathBuf| std::fs::canonicalize(path).is_ok_and(|p| p.parent().is_none());
                    if paths.iter().any(whole) {
                        let why = "/ as a whole cannot be made writable: nothing would be fenced in; name the \
                                   folders below it, or use mode direct";
                        return Err(bad(key, why));
                    }
                    self.profile.write.extend(paths);
                }
                "env" => self.allowed.extend(strings(key, value)?),
                "network" => self.profile.network = network(value)?,
                "memory" => self.profile.caps.memory = Some(size(key, value)?),
                "pids" => self.profile.caps.pids = Some(number(key, value)?),
                "cpu" => self.profile.caps.cpu_seconds = Some(seconds(key, value)?),
                "file_size" => self.profile.caps.file_size = Some(size(key, value)?),
                "require" => {
                    for name in strings(key, value)? {
                        let known = || GUARANTEES.iter().map(|g| g.name).collect::<Vec<_>>().join(", ");
                        let found = Guarantee::named(&name).ok_or_else(|| {
                            bad(key, format!("unknown guarantee \"{name}\"; known: {}", known()))
                        })?;
                        self.required.push(found);
                    }
                }
                _ => {
                    let known = KEYS.iter().map(|k| (*k).to_owned()).collect();
                    return Err(FactoryError::UnknownKey { key: key.clone(), known });
                }
            }
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sizes_and_times() {
        assert_eq!(size("memory", &json!("2GiB")), Ok(2 << 30));
        assert_eq!(size("memory", &json!("512 mb")), Ok(512_000_000));
        assert_eq!(size("memory", &json!(4096)), Ok(4096));
        assert!(size("memory", &json!("two")).is_err());
        assert!(size("memory", &json!("0")).is_err());
        assert_eq!(seconds("cpu", &json!("5m")), Ok(300));
        assert_eq!(seconds("cpu", &json!("90s")), Ok(90));
        assert_eq!(seconds("cpu", &json!(7)), Ok(7));
        assert!(seconds("cpu", &json!("soon")).is_err());
    }
}
