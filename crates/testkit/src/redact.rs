//! Makes output comparable: what differs from run to run becomes a word.

use regex::Regex;

use crate::Workspace;

/// Replacements, applied in order.
#[derive(Debug, Default, Clone)]
pub struct Redaction {
    literal: Vec<(String, String)>,
    patterns: Vec<(Regex, String)>,
}

impl Redaction {
    /// Replaces nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The usual ones: a workspace's root, durations, process numbers, ports, identifiers, versions of ours.
    pub fn usual(workspace: &Workspace) -> Self {
        Self::new()
            .text(&workspace.root().to_string_lossy(), "[workspace]")
            .pattern(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "[uuid]")
            .pattern(r"\b127\.0\.0\.1:\d+", "127.0.0.1:[port]")
            .pattern(r"\bpid \d+", "pid [pid]")
            .pattern(r"\b\d+(\.\d+)? ?(ns|µs|us|ms|s)\b", "[time]")
            .pattern(r"\b\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})", "[instant]")
    }

    /// Also replaces this text.
    #[must_use]
    pub fn text(mut self, text: &str, by: &str) -> Self {
        self.literal.push((text.to_owned(), by.to_owned()));
        self
    }

    /// Also replaces what this regular expression finds.
    ///
    /// # Panics
    /// When the expression is wrong.
    #[must_use]
    pub fn pattern(mut self, pattern: &str, by: &str) -> Self {
        match Regex::new(pattern) {
            Ok(regex) => self.patterns.push((regex, by.to_owned())),
            Err(problem) => panic!("{problem}"),
        }
        self
    }

    /// The text with everything replaced.
    pub fn apply(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (from, to) in &self.literal {
            text = text.replace(from, to);
        }
        for (pattern, to) in &self.patterns {
            text = pattern.replace_all(&text, to.as_str()).into_owned();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_what_differs_between_runs() {
        let workspace = Workspace::new();
        let text = format!(
            "{}/a.txt in 12.5 ms, pid 77, http://127.0.0.1:4711/mcp, 2026-11-15T20:00:00Z, 3 files",
            workspace.root().display()
        );
        let expected =
            "[workspace]/a.txt in [time], pid [pid], http://127.0.0.1:[port]/mcp, [instant], 3 files";
        assert_eq!(Redaction::usual(&workspace).apply(&text), expected);
    }
}
