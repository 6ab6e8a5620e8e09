//! Reads golangci-lint and `go vet`.

use super::failure::build_problems;
use crate::{Captured, End, Facts, Finding, LintRun, Severity, bound, relative};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Report {
    issues: Option<Vec<Issue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Issue {
    from_linter: String,
    text: String,
    #[serde(default)]
    severity: String,
    pos: Position,
    #[serde(default)]
    suggested_fixes: serde_json::Value,
    #[serde(default)]
    replacement: serde_json::Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Position {
    filename: String,
    #[serde(default)]
    line: u32,
    #[serde(default)]
    column: u32,
}

/// Reads golangci-lint's report file.
pub(super) fn golangci(facts: &dyn Facts, captured: &Captured) -> LintRun {
    let said = String::from_utf8_lossy(&captured.stderr);
    let mut run = LintRun::default();
    let report = captured.report.as_deref().and_then(|bytes| serde_json::from_slice::<Report>(bytes).ok());
    for issue in report.as_ref().and_then(|report| report.issues.as_ref()).into_iter().flatten() {
        if issue.from_linter == "typecheck" && compile_errors(facts, &issue.text, &mut run.findings) {
            run.incomplete =
                Some("the code does not compile, so other linters had nothing to look at".to_owned());
            continue;
        }
        let has = |value: &serde_json::Value| value.as_array().is_some_and(|fixes| !fixes.is_empty());
        run.findings.push(Finding {
            file: relative(facts.root(), facts.root(), &issue.pos.filename),
            line: issue.pos.line.max(1),
            col: issue.pos.column.max(1),
            rule: issue.from_linter.clone(),
            message: bound(issue.text.trim(), 2000),
            severity: if issue.from_linter == "typecheck" || issue.severity == "error" {
                Severity::Error
            } else {
                Severity::Warning
            },
            fixable: has(&issue.suggested_fixes) || issue.replacement.is_object(),
        });
    }
    run.findings.sort();
    match captured.end {
        End::Exited(0 | 1) if report.is_some() => {}
        End::Exited(_) if said.contains("unsupported version of the configuration") => {
            run.config_error = Some(
                "the configuration is for golangci-lint v1 and this is v2: run `golangci-lint migrate`"
                    .to_owned(),
            );
        }
        End::Exited(3) if said.contains("can't load config") || said.contains("configuration") => {
            run.config_error = Some(last_words(&said));
        }
        End::Exited(4) => run.incomplete = Some("golangci-lint hit its own timeout".to_owned()),
        End::Exited(5) => run.incomplete = Some("golangci-lint found no Go files to check".to_owned()),
        ref end => run.incomplete = Some(why_incomplete("golangci-lint", end, &said)),
    }
    run
}

/// Takes compile errors out of the text that golangci-lint passes on as one issue.
fn compile_errors(facts: &dyn Facts, text: &str, findings: &mut Vec<Finding>) -> bool {
    let lines: Vec<String> = text.lines().map(|line| line.trim_start_matches(": ").to_owned()).collect();
    let before = findings.len();
    for problem in build_problems(facts.root(), &lines) {
        let Some(file) = problem.file else { continue };
        findings.push(Finding {
            file,
            line: problem.line.unwrap_or(1),
            col: problem.col.unwrap_or(1),
            rule: "typecheck".to_owned(),
            message: problem.message,
            severity: Severity::Error,
            fixable: false,
        });
    }
    findings.len() > before
}

/// Why a tool's findings may be missing.
fn why_incomplete(tool: &str, end: &End, said: &str) -> String {
    match end {
        End::TimedOut => "timed out".to_owned(),
        End::Cancelled => "cancelled".to_owned(),
        End::OutOfMemory => "out of memory".to_owned(),
        End::Signaled(signal) => format!("{tool} was killed by signal {signal}"),
        End::Exited(code) => format!("{tool} exited with {code}: {}", last_words(said)),
    }
}

fn last_words(said: &str) -> String {
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    bound(&lines[lines.len().saturating_sub(6)..].join("\n"), 1000)
}

#[derive(Deserialize)]
struct VetFinding {
    posn: String,
    message: String,
    #[serde(default)]
    suggested_fixes: Vec<serde_json::Value>,
}

/// What `go vet -json` says of one analysis: findings, or an error of its own.
#[derive(Deserialize)]
#[serde(untagged)]
enum Analysis {
    Findings(Vec<VetFinding>),
    Error { error: String },
}

/// Reads `go vet -json`: JSON objects on stderr up to Go 1.25 and on stdout from 1.26, type errors in plain
/// text on stderr.
pub(super) fn vet(facts: &dyn Facts, captured: &Captured) -> LintRun {
    let mut run = LintRun::default();
    let stderr = String::from_utf8_lossy(&captured.stderr);
    let stdout = String::from_utf8_lossy(&captured.stdout);
    let (mut json, mut plain) = (String::new(), Vec::new());
    let mut inside = false;
    for line in stdout.lines().chain(stderr.lines()) {
        inside |= line.starts_with('{');
        if inside {
            json.push_str(line);
            json.push('\n');
            inside = !(line == "}" || line == "{}");
        } else {
            plain.push(line.to_owned());
        }
    }
    let objects =
        serde_json::Deserializer::from_str(&json).into_iter::<BTreeMap<String, BTreeMap<String, Analysis>>>();
    for (analyzer, analysis) in objects.map_while(Result::ok).flatten().flat_map(|(_, analyses)| analyses) {
        match analysis {
            Analysis::Findings(findings) => {
                for found in findings {
                    let (file, line, col) = position(&found.posn);
                    let fixable = !found.suggested_fixes.is_empty();
                    run.findings.push(finding(facts, (file, line, col), &analyzer, &found.message, fixable));
                }
            }
            Analysis::Error { error } => run.incomplete = Some(format!("{analyzer}: {}", bound(&error, 500))),
        }
    }
    for problem in build_problems(facts.root(), &plain) {
        match problem.file {
            Some(file) => run.findings.push(Finding {
                file,
                line: problem.line.unwrap_or(1),
                col: problem.col.unwrap_or(1),
                rule: "compile".to_owned(),
                message: problem.message,
                severity: Severity::Error,
                fixable: false,
            }),
            None if captured.end == End::Exited(0) => {}
            None => run.config_error = Some(problem.message),
        }
    }
    run.findings.sort();
    run.findings.dedup();
    match &captured.end {
        End::Exited(0) => {}
        End::Exited(_) if !run.findings.is_empty() || run.config_error.is_some() => {}
        end => run.incomplete = Some(why_incomplete("go vet", end, &stderr)),
    }
    run
}

fn finding(facts: &dyn Facts, at: (&str, u32, u32), rule: &str, message: &str, fixable: bool) -> Finding {
    Finding {
        file: relative(facts.root(), facts.root(), at.0),
        line: at.1,
        col: at.2,
        rule: rule.to_owned(),
        message: bound(message, 2000),
        severity: Severity::Warning,
        fixable,
    }
}

/// `file:line:col`, from the right: a path may contain colons.
fn position(posn: &str) -> (&str, u32, u32) {
    let Some((rest, col)) = posn.rsplit_once(':') else { return (posn, 1, 1) };
    let Some((file, line)) = rest.rsplit_once(':') else { return (rest, col.parse().unwrap_or(1), 1) };
    (file, line.parse().unwrap_or(1), col.parse().unwrap_or(1))
}
