//! Programs that are asked, or told, when something happens.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// When a hook is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// A tool is about to run.
    BeforeExecution,
    /// A tool has run, and its result is about to leave.
    AfterExecution,
    /// A session makes its first call.
    SessionStart,
    /// A session has made a call.
    SessionUpdate,
    /// A session has ended.
    SessionEnd,
}

impl Phase {
    /// As written in files and payloads.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::BeforeExecution => "before_execution",
            Self::AfterExecution => "after_execution",
            Self::SessionStart => "session_start",
            Self::SessionUpdate => "session_update",
            Self::SessionEnd => "session_end",
        }
    }
}

/// What a hook is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookKind {
    /// Calls of tools.
    Tool,
    /// Sessions.
    Session,
}

/// What a hook may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookMode {
    /// It may deny; whatever goes wrong with it denies.
    #[default]
    Filter,
    /// It is told and never waited for.
    Observe,
}

/// One hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookSpec {
    /// Its name in the file.
    pub name: String,
    /// What it is about.
    pub kind: HookKind,
    /// When it is run.
    pub phases: Vec<Phase>,
    /// What it may do.
    pub mode: HookMode,
    /// Which tools it sees: names, `*` stands for anything; empty means all.
    pub tools: Vec<String>,
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// `KEY=value`, or a bare `KEY` to forward.
    pub env: Vec<String>,
    /// How long it may take.
    pub timeout: Duration,
    /// The sandbox it runs in; `direct` when absent.
    pub sandbox: Option<String>,
}

impl HookSpec {
    /// Whether it sees this tool.
    #[must_use]
    pub fn sees(&self, tool: &str) -> bool {
        self.tools.is_empty() || self.tools.iter().any(|pattern| tool_matches(pattern, tool))
    }
}

/// Whether a hook's pattern means this tool: `*` stands for any characters, also none.
#[must_use]
pub fn tool_matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, rest)) => name.strip_prefix(head).is_some_and(|left| {
            (0..=left.len()).any(|at| left.is_char_boundary(at) && tool_matches(rest, &left[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::tool_matches;

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, name) in
            [("Bash", "Bash"), ("run_*", "run_tests"), ("*", "x"), ("*_*s", "run_tests"), ("a*", "a")]
        {
            assert!(tool_matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("Bash", "BashOutput"), ("run_*", "rerun_tests"), ("*x", "y"), ("", "a")] {
            assert!(!tool_matches(pattern, name), "{pattern} {name}");
        }
    }
}
