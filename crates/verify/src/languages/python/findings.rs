//! Readers for linters and type checkers of Python.

use crate::{
    Captured, End, Finding, LintRun, Severity,
    reporters::Paths,
    text::{bound, lossy, one_line, strip_ansi},
};
use serde::Deserialize;
use std::borrow::Cow;

/// What the plan's tool said.
pub(super) fn read(runner: &str, paths: &Paths, captured: &Captured) -> LintRun {
    let stdout = lossy(&captured.stdout);
    let mut run = LintRun::default();
    let understood = match runner {
        "ruff" => ruff(&stdout, paths, &mut run),
        "mypy" => mypy(&stdout, paths, &mut run),
        "ty" => ty(&stdout, paths, &mut run),
        _ => pyright(&stdout, paths, &mut run),
    };
    run.findings.sort();
    run.findings.dedup();
    match captured.end {
        End::Exited(0) if understood => {}
        End::Exited(1) if understood && (runner != "mypy" || !run.findings.is_empty()) => {}
        // mypy ends with 2 for a syntax error too, and still lists it.
        End::Exited(2) if runner == "mypy" && !run.findings.is_empty() => {}
        End::Exited(_) => run.config_error = Some(said(&stdout, &captured.stderr, runner)),
        End::TimedOut => run.incomplete = Some("timed out".to_owned()),
        End::Cancelled => run.incomplete = Some("cancelled".to_owned()),
        End::OutOfMemory => run.incomplete = Some("out of memory".to_owned()),
        End::Signaled(signal) => run.incomplete = Some(format!("killed by signal {signal}")),
    }
    run
}

fn said(stdout: &str, stderr: &[u8], runner: &str) -> String {
    let errors = String::from_utf8_lossy(stderr);
    let text = [errors.trim(), stdout.trim()].into_iter().find(|text| !text.is_empty());
    text.map_or_else(|| format!("{runner} said nothing"), |text| bound(&strip_ansi(text), 1500))
}

#[derive(Debug, Deserialize)]
struct Ruff {
    filename: String,
    #[serde(default)]
    code: Option<String>,
    message: String,
    #[serde(default)]
    location: Option<RuffLocation>,
    #[serde(default)]
    fix: Option<RuffFix>,
    #[serde(default)]
    severity: Option<String>,
}

#[derive(Debug, Deserialize)]
struct RuffLocation {
    row: u32,
    column: u32,
}

#[derive(Debug, Deserialize)]
struct RuffFix {
    #[serde(default)]
    applicability: Option<String>,
}

fn ruff(stdout: &str, paths: &Paths, run: &mut LintRun) -> bool {
    let Ok(found) = serde_json::from_str::<Vec<Ruff>>(stdout.trim()) else { return false };
    for one in found {
        let (line, col) = one.location.map_or((1, 1), |place| (place.row, place.column));
        run.findings.push(Finding {
            file: paths.relative(&one.filename),
            line,
            col,
            rule: one.code.unwrap_or_else(|| "invalid-syntax".to_owned()),
            message: one_line(&one.message),
            severity: match one.severity.as_deref() {
                Some("warning") => Severity::Warning,
                Some("info") => Severity::Info,
                _ => Severity::Error,
            },
            // Unsafe fixes are not applied by `--fix` alone.
            fixable: one.fix.is_some_and(|fix| fix.applicability.is_none_or(|how| how == "safe")),
        });
    }
    true
}

#[derive(Debug, Deserialize)]
struct Mypy<'a> {
    #[serde(borrow)]
    file: Cow<'a, str>,
    line: i64,
    column: i64,
    #[serde(borrow)]
    message: Cow<'a, str>,
    #[serde(default, borrow)]
    hint: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    code: Option<Cow<'a, str>>,
    #[serde(borrow)]
    severity: Cow<'a, str>,
}

/// Mypy's lines; its columns start at 0, but at 1 where Python's own parser speaks.
fn mypy(stdout: &str, paths: &Paths, run: &mut LintRun) -> bool {
    let mut understood = true;
    for line in stdout.lines().filter(|line| !line.trim().is_empty()) {
        let Ok(one) = serde_json::from_str::<Mypy<'_>>(line) else {
            understood &= line.starts_with("Success") || line.starts_with("Found ");
            continue;
        };
        let message = match &one.hint {
            Some(hint) => one_line(&format!("{} ({})", one.message, hint.trim())),
            None => one_line(&one.message),
        };
        let syntax = one.code.as_deref() == Some("syntax");
        run.findings.push(Finding {
            file: paths.relative(&one.file),
            line: from_one(one.line),
            col: from_one(one.column.saturating_add(i64::from(!syntax))),
            rule: one.code.map_or_else(|| "mypy".to_owned(), Cow::into_owned),
            message,
            severity: match one.severity.as_ref() {
                "error" => Severity::Error,
                "warning" => Severity::Warning,
                _ => Severity::Info,
            },
            fixable: false,
        });
    }
    understood
}

fn from_one(number: i64) -> u32 {
    u32::try_from(number.max(1)).unwrap_or(u32::MAX)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pyright {
    general_diagnostics: Vec<PyrightDiagnostic>,
}

#[derive(Debug, Deserialize)]
struct PyrightDiagnostic {
    #[serde(default)]
    file: String,
    severity: String,
    message: String,
    #[serde(default)]
    range: Option<PyrightRange>,
    #[serde(default)]
    rule: Option<String>,
}

#[derive(Debug, Deserialize)]
struct PyrightRange {
    start: PyrightPosition,
}

#[derive(Debug, Deserialize)]
struct PyrightPosition {
    line: u32,
    character: u32,
}

/// Pyright's document; its lines and columns start at 0.
fn pyright(stdout: &str, paths: &Paths, run: &mut LintRun) -> bool {
    let start = stdout.find('{').unwrap_or(0);
    let Ok(found) = serde_json::from_str::<Pyright>(stdout[start..].trim()) else { return false };
    for one in found.general_diagnostics {
        let start = one.range.map(|range| range.start);
        let (line, col) =
            start.map_or((1, 1), |at| (at.line.saturating_add(1), at.character.saturating_add(1)));
        run.findings.push(Finding {
            file: paths.relative(&one.file),
            line,
            col,
            rule: one.rule.unwrap_or_else(|| "pyright".to_owned()),
            message: one_line(&one.message),
            severity: match one.severity.as_str() {
                "error" => Severity::Error,
                "warning" => Severity::Warning,
                _ => Severity::Info,
            },
            fixable: false,
        });
    }
    true
}

#[derive(Debug, Deserialize)]
struct Ty {
    check_name: String,
    description: String,
    severity: String,
    location: TyLocation,
}

#[derive(Debug, Deserialize)]
struct TyLocation {
    path: String,
    #[serde(default)]
    positions: Option<TyPositions>,
}

#[derive(Debug, Deserialize)]
struct TyPositions {
    begin: TyPosition,
}

#[derive(Debug, Deserialize)]
struct TyPosition {
    line: u32,
    column: u32,
}

/// Ty's findings in GitLab's code-quality format; lines and columns start at 1.
fn ty(stdout: &str, paths: &Paths, run: &mut LintRun) -> bool {
    let start = stdout.find('[').unwrap_or(0);
    let Ok(found) = serde_json::from_str::<Vec<Ty>>(stdout[start..].trim()) else { return false };
    for one in found {
        let (line, col) = one.location.positions.map_or((1, 1), |at| (at.begin.line, at.begin.column));
        let prefix = format!("{}: ", one.check_name);
        let message = one.description.strip_prefix(&prefix).unwrap_or(&one.description);
        run.findings.push(Finding {
            file: paths.relative(&one.location.path),
            line,
            col,
            message: one_line(message),
            rule: one.check_name,
            severity: match one.severity.as_str() {
                "major" | "critical" | "blocker" => Severity::Error,
                "minor" => Severity::Warning,
                _ => Severity::Info,
            },
            fixable: false,
        });
    }
    true
}
