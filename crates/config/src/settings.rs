//! What the rest of the program may know about how it was started.

use crate::RuntimeConfig;
use std::{collections::BTreeMap, path::PathBuf, time::Duration};

/// A workspace by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedRoot {
    /// How calls refer to it; case-sensitive.
    pub name: String,
    /// Its root, canonical.
    pub root: PathBuf,
}

/// A secret and where text must not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secret({})", self.name)
    }
}

/// Which tools are registered: groups or names, `-name` leaves one out; empty means all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolFilter(pub Vec<String>);

/// Bounds, each with a sane default and a flag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Calls running at once over all sessions.
    pub concurrent_calls: usize,
    /// Sessions at once.
    pub sessions: usize,
    /// Connections at once.
    pub connections: usize,
    /// Bytes of one message: an HTTP request's body or a line on stdio.
    pub body_bytes: usize,
    /// A request's body must have arrived within this time.
    pub body_time: Duration,
    /// A session that nobody uses for this long is closed.
    pub idle_session: Duration,
    /// A connection that has not sent its request's head by then, or takes nothing of its answer, is closed.
    pub idle_connection: Duration,
    /// How long calls may go on after SIGTERM.
    pub grace: Duration,
    /// Bytes of one command's output that are kept on disk when it is too long to show.
    pub kept_output: u64,
    /// A language server that nobody asks for this long is ended.
    pub server_idle: Duration,
    /// A language server that does not answer within this time is replaced.
    pub server_answer: Duration,
    /// Bytes of memory that one language server may take, with everything it starts.
    pub server_memory: u64,
    /// Bytes of memory that one workspace's index may take.
    pub index_budget: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            concurrent_calls: 64,
            sessions: 256,
            connections: 1024,
            body_bytes: 64 << 20,
            body_time: Duration::from_secs(60),
            idle_session: Duration::from_secs(3600),
            idle_connection: Duration::from_secs(60),
            grace: Duration::from_secs(5),
            kept_output: 64 << 20,
            server_idle: Duration::from_secs(600),
            server_answer: Duration::from_secs(45),
            server_memory: 4 << 30,
            index_budget: 256 << 20,
        }
    }
}

/// What a flag decided: a file that is read again does not change it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fixed {
    /// Which tools are registered.
    pub tools: bool,
    /// [`Limits::concurrent_calls`].
    pub calls: bool,
    /// [`Limits::grace`].
    pub grace: bool,
    /// [`Limits::sessions`].
    pub sessions: bool,
    /// [`Limits::idle_session`].
    pub idle_session: bool,
}

/// What is kept so that a call can be undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undo {
    /// Whether anything is.
    pub enabled: bool,
    /// How many changes.
    pub keep: usize,
    /// For how long.
    pub age: Duration,
}

impl Default for Undo {
    fn default() -> Self {
        Self { enabled: true, keep: 100, age: Duration::from_secs(7 * 24 * 3600) }
    }
}

/// Everything that was decided at the start.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// At least one.
    pub workspaces: Vec<NamedRoot>,
    /// Only tools of class read.
    pub readonly: bool,
    /// Which tools are registered.
    pub tools: ToolFilter,
    /// Replaces the command denylist when given.
    pub denylist: Option<Vec<String>>,
    /// Bounds.
    pub limits: Limits,
    /// What flags decided.
    pub fixed: Fixed,
    /// What is kept so that a call can be undone.
    pub undo: Undo,
    /// No tool shows a secret's value; commands can still be given them.
    pub hide_secrets: bool,
    /// Values that must never leave, from the environment. They win over files of the same name.
    pub secrets: Vec<Secret>,
    /// Variables that were to be secrets and are none, and why.
    pub misnamed: Vec<String>,
    /// Where files with further ones are; they may change at any time.
    pub secrets_dir: Option<PathBuf>,
    /// Where the server's own tokens are.
    pub auth_token_file: Option<PathBuf>,
    /// Further such values, which no tool may use: the server's own tokens.
    pub withheld: Vec<Secret>,
    /// What the RuntimeConfig file says, when there is one.
    pub runtime: Option<RuntimeConfig>,
    /// Further patterns to scrub: regular expressions by name.
    pub patterns: BTreeMap<String, String>,
    /// Where what outlives a process is kept: snapshots.
    pub state_dir: PathBuf,
    /// The environment commands start from.
    pub environment: Vec<(String, String)>,
    /// Fixture tools for the protocol's conformance suite; off in every normal start.
    pub conformance: bool,
}

impl Settings {
    /// The same start with another content of the file: what can change while sessions go on is the file's,
    /// unless a flag decided it.
    #[must_use]
    pub fn with_file(&self, file: RuntimeConfig) -> Self {
        let (fixed, was, now) = (self.fixed, &self.limits, &file.limits);
        let limits = Limits {
            concurrent_calls: if fixed.calls { was.concurrent_calls } else { now.concurrent_calls },
            grace: if fixed.grace { was.grace } else { now.grace },
            sessions: if fixed.sessions { was.sessions } else { now.sessions },
            idle_session: if fixed.idle_session { was.idle_session } else { now.idle_session },
            ..was.clone()
        };
        Self {
            limits,
            tools: if fixed.tools { self.tools.clone() } else { ToolFilter(file.tools.clone()) },
            denylist: file.denylist.clone(),
            patterns: file.patterns.clone(),
            hide_secrets: file.hide_secrets,
            runtime: Some(file),
            ..self.clone()
        }
    }
}
