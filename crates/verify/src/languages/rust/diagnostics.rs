//! Reads the compiler's and clippy's messages.

use crate::{Captured, End, Facts, Finding, LintRun, Plan, Problem, ProblemKind, Severity, bound, relative};
use regex::Regex;
use serde::Deserialize;
use std::{path::Path, sync::LazyLock};

/// A message of the compiler, as cargo passes it on.
#[derive(Debug, Deserialize)]
pub(super) struct Diagnostic {
    pub(super) level: String,
    message: String,
    code: Option<Code>,
    #[serde(default)]
    spans: Vec<Span>,
    #[serde(default)]
    children: Vec<Diagnostic>,
}

#[derive(Debug, Deserialize)]
struct Code {
    code: String,
}

#[derive(Debug, Deserialize)]
struct Span {
    file_name: String,
    line_start: u32,
    column_start: u32,
    #[serde(default)]
    is_primary: bool,
    label: Option<String>,
    suggestion_applicability: Option<String>,
    expansion: Option<Box<Expansion>>,
}

#[derive(Debug, Deserialize)]
struct Expansion {
    span: Span,
}

impl Diagnostic {
    /// Where it points in the project: through macros of other crates to the place that used them.
    fn place(&self, facts: &dyn Facts, base: &Path) -> Option<(String, u32, u32)> {
        let first = self.spans.iter().find(|span| span.is_primary).or_else(|| self.spans.first())?;
        let mut span = first;
        loop {
            let file = relative(facts.root(), base, &span.file_name);
            let inside = !file.starts_with('/') && !file.starts_with('<');
            match &span.expansion {
                Some(expansion) if !inside => span = &expansion.span,
                _ => return Some((file, span.line_start, span.column_start)),
            }
        }
    }

    /// The message with what the compiler wrote under the code.
    fn text(&self) -> String {
        let label = self.spans.iter().find(|span| span.is_primary).and_then(|span| span.label.as_deref());
        match label {
            Some(label) if !label.is_empty() && !self.message.contains(label) => {
                bound(&format!("{}: {label}", self.message), 2000)
            }
            _ => bound(&self.message, 2000),
        }
    }

    fn fixable(&self) -> bool {
        let machine = |span: &Span| span.suggestion_applicability.as_deref() == Some("MachineApplicable");
        self.children.iter().any(|child| child.spans.iter().any(machine))
    }
}

/// A compile error that kept tests from running.
pub(super) fn problem(error: &Diagnostic, facts: &dyn Facts, base: &Path) -> Option<Problem> {
    let place = error.place(facts, base);
    if place.is_none() && error.message.starts_with("aborting due to ") {
        return None;
    }
    let code = error.code.as_ref().map(|code| format!("[{}]", code.code)).unwrap_or_default();
    let (file, line, col) = match place {
        Some((file, line, col)) => (Some(file), Some(line), Some(col)),
        None => (None, None, None),
    };
    let message = format!("error{code}: {}", error.text());
    Some(Problem { kind: ProblemKind::Build, file, line, col, message })
}

#[expect(clippy::unwrap_used, reason = "the pattern is a constant, compiled by the tests")]
static ARROW: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^ +--> (.+):(\d+):(\d+)$").unwrap());

/// Compile errors as the compiler writes them for people.
pub(super) fn human(lines: &[String], facts: &dyn Facts) -> Vec<Problem> {
    let base = super::manifest::base(facts);
    let mut problems: Vec<Problem> = Vec::new();
    let mut head: Option<&String> = None;
    for line in lines {
        if line.starts_with("error: ") || line.starts_with("error[") {
            head = Some(line);
        } else if let (Some(message), Some(parts)) = (head, ARROW.captures(line)) {
            head = None;
            let problem = Problem {
                kind: ProblemKind::Build,
                file: Some(relative(facts.root(), &base, &parts[1])),
                line: parts[2].parse().ok(),
                col: parts[3].parse().ok(),
                message: bound(message, 2000),
            };
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
    }
    problems
}

#[derive(Deserialize)]
struct Message {
    reason: String,
    message: Option<Diagnostic>,
    #[serde(default)]
    success: bool,
}

/// Reads `cargo clippy` or `cargo check`.
pub(super) fn lint(plan: &Plan, facts: &dyn Facts, captured: &Captured) -> LintRun {
    let base = super::manifest::base(facts);
    let mut run = LintRun::default();
    let mut finished = None;
    for line in captured.stdout.split(|byte| *byte == b'\n') {
        if !line.starts_with(b"{\"reason\":") {
            continue;
        }
        let Ok(message) = serde_json::from_slice::<Message>(line) else { continue };
        if message.reason == "build-finished" {
            finished = Some(message.success);
        }
        let Some(found) = message.message.filter(|_| message.reason == "compiler-message") else { continue };
        // Summaries ("2 warnings emitted") have no place.
        let Some((file, line, col)) = found.place(facts, &base) else { continue };
        run.findings.push(Finding {
            file,
            line,
            col,
            rule: found.code.as_ref().map_or_else(|| found.level.clone(), |code| code.code.clone()),
            message: found.text(),
            severity: match found.level.as_str() {
                "warning" => Severity::Warning,
                level if level.starts_with("error") => Severity::Error,
                _ => Severity::Info,
            },
            fixable: found.fixable(),
        });
    }
    // The same code is compiled for the library and for its tests.
    run.findings.sort();
    run.findings.dedup();
    let said = String::from_utf8_lossy(&captured.stderr);
    match &captured.end {
        End::Exited(0) if finished.is_some() => {}
        End::Exited(_) if finished == Some(false) && !run.findings.is_empty() => {}
        End::Exited(code) => {
            let words: Vec<&str> = said.lines().skip_while(|line| !line.starts_with("error")).collect();
            let words = if words.is_empty() { said.trim().to_owned() } else { words.join("\n") };
            let words = bound(words.trim(), 1500);
            // cargo stopped before it compiled anything: its own configuration is at fault.
            match finished {
                None if *code != 0 => run.config_error = Some(words),
                _ => run.incomplete = Some(format!("cargo {} exited with {code}: {words}", plan.runner)),
            }
        }
        End::TimedOut => run.incomplete = Some("timed out".to_owned()),
        End::Cancelled => run.incomplete = Some("cancelled".to_owned()),
        End::OutOfMemory => run.incomplete = Some("out of memory".to_owned()),
        End::Signaled(signal) => run.incomplete = Some(format!("cargo was killed by signal {signal}")),
    }
    run
}
