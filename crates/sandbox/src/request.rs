//! What a caller asks of a sandbox, and what it gets back.

use crate::Outcome;
use std::{path::PathBuf, time::Duration};
use tokio_util::sync::CancellationToken;

/// One environment entry, merged over the sandbox's baseline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvEntry {
    /// `KEY=value`: taken literally.
    Set(String, String),
    /// A bare `KEY`: the host's value is forwarded when it is set.
    Forward(String),
}

impl EnvEntry {
    /// Reads `KEY=value` or a bare `KEY`.
    #[must_use]
    pub fn parse(entry: &str) -> Self {
        match entry.split_once('=') {
            Some((key, value)) => Self::Set(key.to_owned(), value.to_owned()),
            None => Self::Forward(entry.to_owned()),
        }
    }
}

/// A single command to run to its end.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The program.
    pub command: String,
    /// Its arguments, not including the program's name.
    pub args: Vec<String>,
    /// Entries merged over the sandbox's baseline environment.
    pub env: Vec<EnvEntry>,
    /// Bytes for stdin, not kept after the call. Empty means a closed stdin.
    pub stdin: Vec<u8>,
    /// Zero means the sandbox's own default (10 seconds).
    pub timeout: Duration,
    /// Where it runs; the sandbox's own default when absent.
    pub cwd: Option<PathBuf>,
    /// Stops the command and all its descendants when cancelled.
    pub cancel: CancellationToken,
    /// How many bytes of each stream are kept, head and tail; `None` keeps everything.
    pub capture_limit: Option<usize>,
}

impl Request {
    /// A request for `command` with nothing else set.
    #[must_use]
    pub fn new(command: impl Into<String>) -> Self {
        Self { command: command.into(), ..Self::default() }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }
}

/// What came back from a [`Request`].
#[derive(Debug, Clone)]
pub struct Response {
    /// Bytes of stdout.
    pub stdout: Vec<u8>,
    /// Bytes of stderr; empty when the transport cannot keep them apart.
    pub stderr: Vec<u8>,
    /// Bytes of either stream that `capture_limit` left out.
    pub omitted: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// Remarks of the sandbox for the reader: the isolation in force, a denial and how to allow it.
    pub notes: Vec<String>,
}

impl Response {
    /// The response of a sandbox that started nothing.
    #[must_use]
    pub fn nothing(outcome: Outcome) -> Self {
        Self { stdout: Vec::new(), stderr: Vec::new(), omitted: 0, outcome, notes: Vec::new() }
    }
}
