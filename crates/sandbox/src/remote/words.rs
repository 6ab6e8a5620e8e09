//! Requests and outcomes as JSON.

use crate::{EnvEntry, Outcome, Stdio, Variables};
use serde_json::{Value, json};
use std::{ffi::OsStr, path::PathBuf, time::Duration};

/// How the far side is to run it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// To its end, with everything it says at once.
    Collected {
        /// How long it may take.
        timeout: Duration,
        /// How many bytes of each stream are kept.
        capture_limit: Option<usize>,
    },
    /// As a live process.
    Live(Stdio),
}

/// What is asked of the far side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) command: String,
    pub(super) args: Vec<String>,
    pub(super) env: Vec<(String, String)>,
    pub(super) cwd: Option<PathBuf>,
    pub(super) way: Way,
}

/// Entries as the far side gets them: what is to be forwarded is this machine's.
pub(super) fn environment(entries: &[EnvEntry], host: &Variables) -> Vec<(String, String)> {
    let resolved = entries.iter().filter_map(|entry| match entry {
        EnvEntry::Set(key, value) => Some((key.clone(), value.clone())),
        EnvEntry::Forward(key) => {
            host.get(OsStr::new(key)).map(|value| (key.clone(), value.to_string_lossy().into_owned()))
        }
    });
    resolved.collect()
}

impl Start {
    pub(super) fn to_json(&self) -> Value {
        let way = match self.way {
            Way::Collected { timeout, capture_limit } => {
                json!({"collected": {"timeout_ms": millis(timeout), "capture_limit": capture_limit}})
            }
            Way::Live(Stdio::Separate) => json!("separate"),
            Way::Live(Stdio::Merged) => json!("merged"),
            Way::Live(Stdio::Terminal { cols, rows }) => json!({"terminal": [cols, rows]}),
        };
        let cwd = self.cwd.as_ref().map(|cwd| cwd.to_string_lossy());
        json!({"command": self.command, "args": self.args, "env": self.env, "cwd": cwd, "way": way})
    }

    pub(super) fn from_json(value: &Value) -> Option<Self> {
        let texts = |value: &Value| -> Option<Vec<String>> {
            value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
        };
        let pair = |value: &Value| {
            let [key, value] = <[String; 2]>::try_from(texts(value)?).ok()?;
            Some((key, value))
        };
        let way = match &value["way"] {
            Value::String(way) if way == "separate" => Way::Live(Stdio::Separate),
            Value::String(way) if way == "merged" => Way::Live(Stdio::Merged),
            way if way["terminal"].is_array() => {
                let side = |at: usize| u16::try_from(way["terminal"][at].as_u64()?).ok();
                Way::Live(Stdio::Terminal { cols: side(0)?, rows: side(1)? })
            }
            way => {
                let way = way["collected"].as_object()?;
                let timeout = Duration::from_millis(way.get("timeout_ms")?.as_u64()?);
                let capture_limit = way.get("capture_limit").and_then(Value::as_u64);
                let capture_limit = capture_limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
                Way::Collected { timeout, capture_limit }
            }
        };
        Some(Self {
            command: value["command"].as_str()?.to_owned(),
            args: texts(&value["args"])?,
            env: value["env"].as_array()?.iter().map(pair).collect::<Option<_>>()?,
            cwd: value["cwd"].as_str().map(PathBuf::from),
            way,
        })
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// How it ended, with whatever else is known then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct End {
    pub(super) outcome: Outcome,
    pub(super) omitted: u64,
    pub(super) notes: Vec<String>,
}

impl End {
    pub(super) fn new(outcome: Outcome) -> Self {
        Self { outcome, omitted: 0, notes: Vec::new() }
    }

    pub(super) fn to_json(&self) -> Value {
        let outcome = match &self.outcome {
            Outcome::Exited(code) => json!({"exited": code}),
            Outcome::Signaled(signal) => json!({"signaled": signal}),
            Outcome::TimedOut => json!("timed_out"),
            Outcome::Cancelled => json!("cancelled"),
            Outcome::OutOfMemory { limit } => json!({"out_of_memory": limit}),
            Outcome::NotFound { command } => json!({"not_found": command}),
            Outcome::Refused { why } => json!({"refused": why}),
            Outcome::Transport { why } => json!({"transport": why}),
        };
        json!({"outcome": outcome, "omitted": self.omitted, "notes": self.notes})
    }

    pub(super) fn from_json(value: &Value) -> Option<Self> {
        let number = |value: &Value| value.as_i64().and_then(|number| i32::try_from(number).ok());
        let outcome = match &value["outcome"] {
            Value::String(word) if word == "timed_out" => Outcome::TimedOut,
            Value::String(word) if word == "cancelled" => Outcome::Cancelled,
            Value::Object(one) => {
                let (word, value) = one.iter().next()?;
                let text = || value.as_str().map(str::to_owned);
                match word.as_str() {
                    "exited" => Outcome::Exited(number(value)?),
                    "signaled" => Outcome::Signaled(number(value)?),
                    "out_of_memory" => Outcome::OutOfMemory { limit: value.as_u64() },
                    "not_found" => Outcome::NotFound { command: text()? },
                    "refused" => Outcome::Refused { why: text()? },
                    "transport" => Outcome::Transport { why: text()? },
                    _ => return None,
                }
            }
            _ => return None,
        };
        let notes = value["notes"].as_array()?.iter().filter_map(|note| note.as_str().map(str::to_owned));
        Some(Self { outcome, omitted: value["omitted"].as_u64()?, notes: notes.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_survives_the_way_there_and_back() {
        let ways = [
            Way::Collected { timeout: Duration::from_millis(1500), capture_limit: Some(7) },
            Way::Collected { timeout: Duration::from_secs(1), capture_limit: None },
            Way::Live(Stdio::Separate),
            Way::Live(Stdio::Merged),
            Way::Live(Stdio::Terminal { cols: 80, rows: 24 }),
        ];
        for way in ways {
            let start = Start {
                command: "a b".into(),
                args: vec!["".into(), "ü\n".into()],
                env: vec![("A".into(), "b=c".into())],
                cwd: Some("/x".into()),
                way,
            };
            assert_eq!(Start::from_json(&start.to_json()), Some(start));
        }
        let outcomes = [
            Outcome::Exited(-1),
            Outcome::Signaled(9),
            Outcome::TimedOut,
            Outcome::Cancelled,
            Outcome::OutOfMemory { limit: Some(1) },
            Outcome::OutOfMemory { limit: None },
            Outcome::NotFound { command: "x".into() },
            Outcome::Refused { why: "y".into() },
            Outcome::Transport { why: "z".into() },
        ];
        for outcome in outcomes {
            let end = End { outcome, omitted: 3, notes: vec!["n".into()] };
            assert_eq!(End::from_json(&end.to_json()), Some(end));
        }
        assert_eq!(Start::from_json(&json!({"command": "x"})), None);
        assert_eq!(End::from_json(&json!({"outcome": {"vanished": 1}})), None);
    }
}
