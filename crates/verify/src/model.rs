//! What came out, in one vocabulary for every language.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Failures kept with all they say; more are counted and named only, which is more than anyone is shown.
pub(crate) const DETAILED: usize = 1000;

/// How a planned command ended, as far as a reader needs to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// With this code.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
    /// It took too long; what was captured is partial.
    TimedOut,
    /// The caller gave up; what was captured is partial.
    Cancelled,
    /// It used too much memory.
    OutOfMemory,
}

/// Everything one command left behind.
#[derive(Debug, Clone)]
pub struct Captured {
    /// Bytes of stdout, or of both streams when merged.
    pub stdout: Vec<u8>,
    /// Bytes of stderr.
    pub stderr: Vec<u8>,
    /// The report file, when the plan named one and the command wrote it.
    pub report: Option<Vec<u8>>,
    /// How it ended.
    pub end: End,
}

/// What identifies a test to its runner, so that exactly it can be run again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct TestId {
    /// The package, test target or file it lives in.
    pub unit: String,
    /// Its name from the outside in (suite, test, subtest).
    pub path: Vec<String>,
}

/// What kind of failure it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// An assertion or an error of the test itself.
    Failed,
    /// Set-up or tear-down went wrong.
    Error,
    /// The process died in it.
    Crashed,
    /// It did not end in time.
    TimedOut,
}

/// One test that did not pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// For an exact rerun.
    pub id: TestId,
    /// As a person would say it.
    pub name: String,
    /// File where the assertion stands, relative to the project folder; absolute when it lies outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// What went wrong.
    pub message: String,
    /// What the test wanted, when the runner knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// What it got, when the runner knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actual: Option<String>,
    /// Captured output that belongs to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// What kind of failure it was.
    pub kind: FailureKind,
}

impl Failure {
    /// A failure of which no more is known than that it is one.
    pub fn new(id: TestId, name: impl Into<String>) -> Self {
        Self {
            id,
            name: name.into(),
            file: None,
            line: None,
            message: String::new(),
            expected: None,
            actual: None,
            output: None,
            kind: FailureKind::Failed,
        }
    }
}

/// What kept tests from running or being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// It does not compile.
    Build,
    /// A test file cannot be loaded.
    Collection,
    /// The runner or a test process died.
    Crash,
    /// The runner's configuration is wrong.
    Config,
    /// A part of the project's script other than the tests failed.
    Script,
}

/// Something other than a failing test that keeps a run from being green.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// What kind.
    pub kind: ProblemKind,
    /// The file, relative to the project folder; absolute when it lies outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Column in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub col: Option<u32>,
    /// What is wrong.
    pub message: String,
}

/// The true picture of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TestRun {
    /// Tests that passed.
    pub passed: u32,
    /// Tests that failed; equals the number of failures unless they were bounded.
    pub failed: u32,
    /// Tests that were skipped or expected to fail.
    pub skipped: u32,
    /// Each failure.
    pub failures: Vec<Failure>,
    /// Build errors, collection errors, crashes.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub problems: Vec<Problem>,
    /// Why the results could not be read, when they could not; counts mean nothing then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
    /// Why the run is partial, when it is ("timed out after 300s").
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
    /// Remarks worth a line ("rerun widened to the file").
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub notes: Vec<String>,
    /// Tests that were asked for and did not run, as they were asked for. A selection that matched nothing
    /// is never a success.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub missing: Vec<String>,
    /// What [`crate::Detector::follow_up`] needs to know, opaque to everybody else.
    #[serde(skip)]
    pub carry: serde_json::Value,
}

impl TestRun {
    /// Whether tests ran, all passed and nothing else went wrong.
    #[must_use]
    pub fn green(&self) -> bool {
        self.passed + self.skipped > 0
            && self.failed == 0
            && self.missing.is_empty()
            && self.failures.is_empty()
            && self.problems.is_empty()
            && self.unread.is_none()
            && self.incomplete.is_none()
    }

    /// Adds the results of a further command of the same run; what is carried over is the other's.
    pub fn merge(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.failures.extend(other.failures);
        self.problems.extend(other.problems);
        self.unread = self.unread.take().or(other.unread);
        self.incomplete = self.incomplete.take().or(other.incomplete);
        let new = other.notes.into_iter().filter(|note| !self.notes.contains(note));
        self.notes.extend(new.collect::<Vec<_>>());
        self.missing.extend(other.missing);
        self.carry = other.carry;
    }
}

/// How far a run has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Tests that ended.
    pub done: u32,
    /// Of them, failed.
    pub failed: u32,
    /// How many there are, when the runner said.
    pub total: Option<u32>,
}

/// Lines of one file that one test reaches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Covered {
    /// The test; a path of nothing means everything in the unit.
    pub test: TestId,
    /// The file, relative to the project folder.
    pub file: String,
    /// First and last line of each stretch.
    pub lines: Vec<(u32, u32)>,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Must be mended.
    Error,
    /// Should be mended.
    Warning,
    /// Worth knowing.
    Info,
}

/// One finding of a linter or type checker.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The file, relative to the project folder; absolute when it lies outside.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub col: u32,
    /// The rule's name.
    pub rule: String,
    /// What it says.
    pub message: String,
    /// How bad.
    pub severity: Severity,
    /// The tool can mend it itself.
    pub fixable: bool,
}

/// What a linter or type checker said.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LintRun {
    /// Sorted by file, line and column.
    pub findings: Vec<Finding>,
    /// Why the list may be short, when it may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
    /// The tool's configuration is wrong; this is no verdict on the code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_error: Option<String>,
}
