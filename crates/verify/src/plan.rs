//! What to run, decided from facts, with the reasons.

use crate::TestId;
use std::borrow::Cow;

/// One command, complete: whoever runs it needs to know nothing about the language.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// The runner, linter or tool this plan drives ("pytest", "clippy"); readers are chosen by it.
    pub runner: &'static str,
    /// The program.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Further programs that must be on the PATH for it to work ("cargo-clippy").
    pub needs: Vec<String>,
    /// Variables set for it.
    pub env: Vec<(String, String)>,
    /// Where it runs, relative to the project folder.
    pub cwd: String,
    /// Bytes for its stdin.
    pub stdin: Option<Vec<u8>>,
    /// stdout and stderr share one pipe, because their order carries meaning.
    pub merged: bool,
    /// Files written into the scratch folder before the run.
    pub inject: Vec<Injected>,
    /// Name of the machine-readable report in the scratch folder: deleted before the run, followed while it
    /// grows, read at the end.
    pub report: Option<String>,
    /// Why this command and no other, one short sentence each.
    pub why: Vec<String>,
    /// Facts a reader needs again (a selection, the targets expected), opaque to whoever runs the plan.
    pub memo: serde_json::Value,
}

/// A file written next to nothing of the user's: into the scratch folder.
#[derive(Debug, Clone)]
pub struct Injected {
    /// File name.
    pub name: String,
    /// Content.
    pub content: Cow<'static, str>,
}

/// Which tests are wanted.
#[derive(Debug, Clone, Default)]
pub struct TestAsk {
    /// Exactly these, as an earlier run identified them.
    pub only: Vec<TestId>,
    /// These, as a person named them; empty means all.
    pub names: Vec<String>,
    /// Only these packages or files, as [`crate::Affected`] names them; empty means all.
    pub units: Vec<String>,
    /// How long the caller will wait, in seconds; some runners want to know.
    pub timeout_seconds: u64,
}

/// What is to be checked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Scope {
    /// The whole project.
    #[default]
    Project,
    /// One file, relative to the project folder; checkers that work by package check its package.
    File(String),
}

/// What is wanted of a linter or type checker.
#[derive(Debug, Clone, Default)]
pub struct LintAsk {
    /// What is checked.
    pub scope: Scope,
    /// Apply the tool's own fixes.
    pub fix: bool,
}

/// Where bytes came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output, or both streams when the plan merged them.
    Stdout,
    /// Standard error.
    Stderr,
    /// The report file.
    Report,
}
