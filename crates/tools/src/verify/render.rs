//! What the agent reads: the summary first, every failure as a block, nothing twice.

use super::tests::Tests;
use ::verify::{Failure, FailureKind, Plan, Problem, ProblemKind, TestRun};
use std::{fmt::Write as _, time::Duration};

/// Text spent on failures with all they say; beyond it they are one line each.
const DETAILS: usize = 24 << 10;
/// Failures that are named at all.
const NAMED: usize = 500;
/// Build errors that are shown.
const PROBLEMS: usize = 50;

/// One language's report, without its `exit:` line.
pub(super) fn report(language: &str, tests: &Tests) -> String {
    let run = &tests.run;
    let mut text = summary(language, run, tests.took);
    for problem in run.problems.iter().take(PROBLEMS) {
        let _ = write!(text, "\n{}", problem_line(problem));
    }
    if run.problems.len() > PROBLEMS {
        let _ = write!(text, "\n… {} more", run.problems.len() - PROBLEMS);
    }
    failures(&mut text, &run.failures);
    if let Some(unread) = &run.unread {
        let _ = write!(text, "\n{unread}");
    }
    if !run.missing.is_empty() {
        let names: Vec<&str> = run.missing.iter().take(20).map(String::as_str).collect();
        let more = run.missing.len().saturating_sub(names.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let _ = write!(text, "\nnot found, so not run: {}{more}", names.join(", "));
    }
    for note in run.notes.iter().chain(&tests.notes).take(10) {
        if note != "no tests found" {
            let _ = write!(text, "\nnote: {note}");
        }
    }
    text
}

/// `go: 300 passed, 3 failed (1.2s)`.
pub(super) fn summary(language: &str, run: &TestRun, took: Duration) -> String {
    let mut parts = Vec::new();
    for (count, word) in [(run.passed, "passed"), (run.failed, "failed"), (run.skipped, "skipped")] {
        if count > 0 {
            parts.push(format!("{count} {word}"));
        }
    }
    for (kind, one, many) in [
        (ProblemKind::Build, "build error", "build errors"),
        (ProblemKind::Collection, "collection error", "collection errors"),
        (ProblemKind::Crash, "crash", "crashes"),
        (ProblemKind::Config, "configuration error", "configuration errors"),
        (ProblemKind::Script, "script error", "script errors"),
    ] {
        let count = run.problems.iter().filter(|problem| problem.kind == kind).count();
        if count > 0 {
            parts.push(format!("{count} {}", if count == 1 { one } else { many }));
        }
    }
    if run.passed + run.failed + run.skipped == 0 {
        match (&run.unread, run.problems.is_empty(), &run.incomplete) {
            (Some(_), ..) => parts.push("results unknown".to_owned()),
            (None, false, _) => parts.push("no tests ran".to_owned()),
            (None, true, Some(_)) => parts.push("no test ended".to_owned()),
            (None, true, None) if !run.missing.is_empty() => parts.push("no test matched".to_owned()),
            (None, true, None) => parts.push("no tests found".to_owned()),
        }
    }
    let incomplete = run.incomplete.as_ref().map(|why| format!(", {why}")).unwrap_or_default();
    format!("{language}: {}{incomplete} ({:.1}s)", parts.join(", "), took.as_secs_f64())
}

pub(super) fn problem_line(problem: &Problem) -> String {
    let place = match (&problem.file, problem.line, problem.col) {
        (Some(file), Some(line), Some(col)) => format!("{file}:{line}:{col}: "),
        (Some(file), Some(line), None) => format!("{file}:{line}: "),
        (Some(file), None, _) => format!("{file}: "),
        (None, ..) => String::new(),
    };
    format!("{place}{}", problem.message.trim_end())
}

/// Blocks while there is room, then a line each.
fn failures(text: &mut String, failures: &[Failure]) {
    let begin = text.len();
    for failure in failures.iter().take(NAMED) {
        let block = match text.len() - begin < DETAILS {
            true => block(failure),
            false => line(failure),
        };
        let _ = write!(text, "\n{block}");
    }
    if failures.len() > NAMED {
        let more = failures.len() - NAMED;
        let _ = write!(
            text,
            "\n… {more} more failed; last_test_failures (limit) or run_tests (path, tests) shows them"
        );
    }
}

fn head(failure: &Failure) -> String {
    let word = match failure.kind {
        FailureKind::Failed => "FAIL",
        FailureKind::Error => "ERROR",
        FailureKind::Crashed => "CRASH",
        FailureKind::TimedOut => "TIMEOUT",
    };
    let place = match (&failure.file, failure.line) {
        (Some(file), Some(line)) => format!(" {file}:{line}"),
        (Some(file), None) if *file != failure.name => format!(" {file}"),
        _ => String::new(),
    };
    format!("{word} {}{place}", failure.name)
}

/// A failure with everything it says.
pub(super) fn block(failure: &Failure) -> String {
    let mut text = head(failure);
    for line in failure.message.lines().filter(|line| !line.trim().is_empty()) {
        let _ = write!(text, "\n  {line}");
    }
    let said = |value: &str| failure.message.contains(value);
    if let (Some(expected), Some(actual)) = (&failure.expected, &failure.actual) {
        // `Add(2, 2) = 4, want 5` says it already.
        if !(said(expected) && said(actual)) {
            let _ = write!(text, "\n  expected: {}", indented(expected));
            let _ = write!(text, "\n  actual: {}", indented(actual));
        }
    } else if let Some(expected) = failure.expected.as_ref().filter(|value| !said(value)) {
        let _ = write!(text, "\n  expected: {}", indented(expected));
    } else if let Some(actual) = failure.actual.as_ref().filter(|value| !said(value)) {
        let _ = write!(text, "\n  actual: {}", indented(actual));
    }
    for line in failure.output.iter().flat_map(|output| output.lines()) {
        let _ = write!(text, "\n  | {line}");
    }
    text
}

fn indented(value: &str) -> String {
    value.replace('\n', "\n    ")
}

/// A failure in one line.
fn line(failure: &Failure) -> String {
    let message: String = failure.message.lines().next().unwrap_or_default().chars().take(100).collect();
    format!("{} — {message}", head(failure)).trim_end_matches([' ', '—']).to_owned()
}

/// Why a command was chosen.
pub(super) fn explain(plans: &[Plan]) -> String {
    let mut text = String::new();
    for plan in plans {
        text.push_str(&command(plan));
        if !plan.cwd.is_empty() {
            let _ = write!(text, "\n  in {}", plan.cwd);
        }
        for why in &plan.why {
            let _ = write!(text, "\n  - {why}");
        }
        for injected in &plan.inject {
            let _ = write!(text, "\n  - with {} injected from outside the project", injected.name);
        }
        text.push('\n');
    }
    text.trim_end().to_owned()
}

/// A plan's command as one would type it.
pub(super) fn command(plan: &Plan) -> String {
    let quoted: Vec<String> =
        std::iter::once(&plan.program).chain(&plan.args).map(|word| quote(word)).collect();
    let env: Vec<String> = plan.env.iter().map(|(name, value)| format!("{name}={} ", quote(value))).collect();
    format!("{}{}", env.concat(), quoted.join(" "))
}

fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// "12s", "3m", "2h".
pub(super) fn ago(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3600 => format!("{}m", seconds / 60),
        seconds => format!("{}h", seconds / 3600),
    }
}
