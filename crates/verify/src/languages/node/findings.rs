//! Readers for linters and type checkers of JavaScript.

use crate::{
    Captured, End, Finding, LintRun, Severity,
    reporters::Paths,
    text::{bound, cut, lossy, one_line, strip_ansi},
};
use regex::Regex;
use serde::Deserialize;
use std::{borrow::Cow, sync::LazyLock};

/// One file of eslint's JSON, and of the event that our formatter writes.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EslintFile {
    file_path: String,
    messages: Vec<EslintMessage>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EslintMessage {
    #[serde(default)]
    rule_id: Option<String>,
    #[serde(default)]
    severity: u8,
    message: String,
    #[serde(default)]
    line: Option<u32>,
    #[serde(default)]
    column: Option<u32>,
    #[serde(default)]
    fix: Option<serde_json::Value>,
    #[serde(default)]
    fatal: Option<bool>,
}

/// What the plan's tool said. Where it worked on a copy below `copies`, it means the original.
pub(super) fn read(runner: &str, paths: &Paths, copies: &str, captured: &Captured) -> LintRun {
    let stdout = lossy(&captured.stdout);
    let mut stdout = strip_ansi(&stdout);
    if stdout.contains(copies) {
        stdout = Cow::Owned(stdout.replace(copies, ""));
    }
    let mut run = LintRun::default();
    let understood = match runner {
        "eslint" => eslint(&stdout, paths, &mut run),
        "biome" => biome(&stdout, paths, &mut run),
        "oxlint" => oxlint(&stdout, paths, &mut run),
        "tsc" => tsc(&stdout, paths, &mut run),
        _ => script(&stdout, paths, captured, &mut run),
    };
    run.findings.sort();
    run.findings.dedup();
    let said = || words(&stdout, &captured.stderr);
    match captured.end {
        End::Exited(0) if understood => {}
        End::Exited(0) if runner == "script" => {}
        End::Exited(2) if runner == "eslint" && run.findings.is_empty() => {
            let said = said();
            run.config_error = Some(eslint_stopped(&said).unwrap_or(said));
        }
        End::Exited(_) if run.config_error.is_some() => {}
        End::Exited(code) if run.findings.is_empty() => {
            let which = if runner == "script" { "the script" } else { runner };
            if runner == "script"
                && let Some(why) = eslint_stopped(&said())
            {
                run.config_error = Some(why);
            } else if runner == "script" || understood {
                let failed = format!("{which} exited with {code} and its output was not understood:");
                run.incomplete = Some(format!("{failed}\n{}", said()));
            } else {
                run.config_error = Some(said());
            }
        }
        End::Exited(_) => {}
        End::TimedOut => run.incomplete = Some("timed out".to_owned()),
        End::Cancelled => run.incomplete = Some("cancelled".to_owned()),
        End::OutOfMemory => run.incomplete = Some("out of memory".to_owned()),
        End::Signaled(signal) => run.incomplete = Some(format!("killed by signal {signal}")),
    }
    run
}

/// What a tool said for people, bounded.
fn words(stdout: &str, stderr: &[u8]) -> String {
    let stderr = String::from_utf8_lossy(stderr);
    let stderr = strip_ansi(&stderr);
    let said = |text: &str| {
        let lines = text.lines().filter(|line| !line.starts_with("npm ") && !line.starts_with("> "));
        lines.collect::<Vec<_>>().join("\n").trim().to_owned()
    };
    let (errors, output) = (said(&stderr), said(stdout));
    bound(if errors.is_empty() { &output } else { &errors }, 1500)
}

/// Why eslint gave up and what to do about it, out of the banner that it prints around its reason.
fn eslint_stopped(said: &str) -> Option<String> {
    let (_, rest) = said.split_once("Oops! Something went wrong! :(")?;
    let (version, rest) = rest.trim_start().strip_prefix("ESLint: ")?.split_once('\n')?;
    let reason = rest.trim_start().lines().take_while(|line| !line.trim_start().starts_with("at "));
    let reason: Vec<&str> =
        reason.filter(|line| !line.trim().is_empty() && !line.contains("https://")).collect();
    let reason = reason.join("\n");
    let missing = ["Cannot find package '", "Cannot find module '"]
        .iter()
        .find_map(|start| reason.split_once(start)?.1.split('\'').next());
    let (reason, next) = match missing {
        _ if reason.contains("couldn't find an eslint.config") => {
            let first = reason.lines().next().unwrap_or_default();
            (first, "write an eslint.config.js (`npm init @eslint/config` makes one)".to_owned())
        }
        Some(name) if !name.starts_with(['.', '/']) => {
            (reason.as_str(), format!("npm install --save-dev {name}, or take it out of the configuration"))
        }
        _ if reason.contains("Occurred while linting ") => (
            reason.as_str(),
            "this rule broke, not the code: update its plugin, or turn the rule off".to_owned(),
        ),
        _ => (reason.as_str(), "mend the configuration of eslint (eslint.config.*)".to_owned()),
    };
    Some(format!("eslint {} could not run: {}\nnext: {next}", version.trim(), bound(reason, 1200)))
}

fn eslint(stdout: &str, paths: &Paths, run: &mut LintRun) -> bool {
    let start = stdout.find('[').unwrap_or(0);
    let Ok(files) = serde_json::from_str::<Vec<EslintFile>>(stdout[start..].trim()) else { return false };
    for file in files {
        eslint_file(file, paths, run);
    }
    true
}

fn eslint_file(file: EslintFile, paths: &Paths, run: &mut LintRun) {
    let name = paths.relative(&file.file_path);
    for message in file.messages {
        if message.line.is_none() && message.rule_id.is_none() && message.fatal != Some(true) {
            // No finding: eslint was asked about a file that its configuration leaves out.
            run.incomplete = Some(format!("{name}: {}", message.message));
            continue;
        }
        let syntax = if message.fatal == Some(true) { "syntax" } else { "eslint" };
        run.findings.push(Finding {
            file: name.clone(),
            line: message.line.unwrap_or(1),
            col: message.column.unwrap_or(1),
            rule: message.rule_id.unwrap_or_else(|| syntax.to_owned()),
            message: one_line(&message.message),
            severity: if message.severity >= 2 { Severity::Error } else { Severity::Warning },
            fixable: message.fix.is_some_and(|fix| !fix.is_null()),
        });
    }
}

#[derive(Debug, Deserialize)]
struct Biome {
    diagnostics: Vec<BiomeDiagnostic>,
}

#[derive(Debug, Deserialize)]
struct BiomeDiagnostic {
    severity: String,
    message: serde_json::Value,
    category: Option<String>,
    #[serde(default)]
    location: Option<BiomeLocation>,
    #[serde(default)]
    tags: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct BiomeLocation {
    path: Option<serde_json::Value>,
    #[serde(default)]
    start: Option<BiomePosition>,
}

#[derive(Debug, Deserialize)]
struct BiomePosition {
    line: u32,
    column: u32,
}

fn biome(stdout: &str, paths: &Paths, run: &mut LintRun) -> bool {
    let documents = documents(stdout);
    let found: Vec<Biome> =
        documents.into_iter().filter_map(|value| serde_json::from_value(value).ok()).collect();
    for report in &found {
        for one in &report.diagnostics {
            let category = one.category.as_deref().unwrap_or("biome");
            let message = one.message.as_str().map_or_else(|| one.message.to_string(), str::to_owned);
            let location = one.location.as_ref();
            let path = location.and_then(|place| place.path.as_ref());
            let path = path.and_then(|path| path.as_str().or_else(|| path.get("file")?.as_str()));
            let Some(path) = path.filter(|path| !path.is_empty() && !category.starts_with("configuration"))
            else {
                if one.severity != "information" && one.severity != "hint" {
                    run.config_error = Some(bound(&message, 1500));
                }
                continue;
            };
            let start = location.and_then(|place| place.start.as_ref());
            run.findings.push(Finding {
                file: paths.relative(path),
                line: start.map_or(1, |start| start.line.max(1)),
                col: start.map_or(1, |start| start.column.max(1)),
                rule: category.to_owned(),
                message: one_line(&message),
                severity: match one.severity.as_str() {
                    "error" | "fatal" => Severity::Error,
                    "warning" => Severity::Warning,
                    _ => Severity::Info,
                },
                fixable: one.tags.iter().any(|tag| tag == "fixable"),
            });
        }
    }
    !found.is_empty()
}

#[derive(Debug, Deserialize)]
struct Oxlint {
    diagnostics: Vec<OxlintDiagnostic>,
}

#[derive(Debug, Deserialize)]
struct OxlintDiagnostic {
    message: String,
    #[serde(default)]
    code: Option<String>,
    severity: String,
    filename: String,
    #[serde(default)]
    labels: Vec<OxlintLabel>,
}

#[derive(Debug, Deserialize)]
struct OxlintLabel {
    span: OxlintSpan,
}

#[derive(Debug, Deserialize)]
struct OxlintSpan {
    #[serde(default)]
    line: u32,
    #[serde(default)]
    column: u32,
}

fn oxlint(stdout: &str, paths: &Paths, run: &mut LintRun) -> bool {
    let documents = documents(stdout);
    let found: Vec<Oxlint> =
        documents.into_iter().filter_map(|value| serde_json::from_value(value).ok()).collect();
    for report in &found {
        for one in &report.diagnostics {
            let span = one.labels.first().map(|label| &label.span);
            // "eslint(no-unused-vars)" is the rule no-unused-vars of the plugin eslint.
            let rule = one.code.as_deref().map_or("syntax".to_owned(), |code| match code.split_once('(') {
                Some(("eslint", rule)) => rule.trim_end_matches(')').to_owned(),
                Some((plugin, rule)) => format!("{plugin}/{}", rule.trim_end_matches(')')),
                None => code.to_owned(),
            });
            run.findings.push(Finding {
                file: paths.relative(&one.filename),
                line: span.map_or(1, |span| span.line.max(1)),
                col: span.map_or(1, |span| span.column.max(1)),
                rule,
                message: one_line(&one.message),
                severity: if one.severity == "error" { Severity::Error } else { Severity::Warning },
                fixable: false,
            });
        }
    }
    !found.is_empty()
}

static TSC_PLAIN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^error (TS\d+): (.*)$").ok());
static STYLISH: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^\s+(\d+):(\d+)\s+(error|warning)\s+(.*?)(?:\s{2,}(\S+))?$").ok());
static UNIX: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^(\S[^:\s]*\.\w+):(\d+):(\d+):?\s+(.*)$").ok());

/// `src/a.ts(1,14): error TS2322: message`.
fn tsc_line(line: &str, paths: &Paths) -> Option<Finding> {
    let (place, rest) = cut(line, "): ")?;
    let (file, place) = place.rsplit_once('(')?;
    let (row, col) = place.split_once(',')?;
    let (severity, rest) = rest.split_once(' ')?;
    let (rule, message) = cut(rest, ": ")?;
    let severity = match severity {
        "error" => Severity::Error,
        "warning" | "message" => Severity::Warning,
        _ => return None,
    };
    let number = rule.strip_prefix("TS")?;
    let known = !file.is_empty() && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    known.then_some(())?;
    Some(Finding {
        file: paths.relative(file),
        line: row.parse().ok()?,
        col: col.parse().ok()?,
        rule: rule.to_owned(),
        message: message.to_owned(),
        severity,
        fixable: false,
    })
}

/// Lines of tsc with `--pretty false`; what is indented continues the line above.
fn tsc(stdout: &str, paths: &Paths, run: &mut LintRun) -> bool {
    let mut understood = false;
    for line in stdout.lines() {
        if let Some(found) = tsc_line(line, paths) {
            understood = true;
            run.findings.push(found);
        } else if let Some(found) = TSC_PLAIN
            .as_ref()
            .filter(|_| line.starts_with("error TS"))
            .as_ref()
            .and_then(|pattern| pattern.captures(line))
        {
            understood = true;
            run.config_error = Some(format!("{}: {}", &found[1], bound(&found[2], 600)));
        } else if line.starts_with("  ")
            && understood
            && let Some(last) = run.findings.last_mut()
            && last.message.len() < 600
        {
            last.message.push(' ');
            last.message.push_str(line.trim());
        }
    }
    understood || stdout.trim().is_empty()
}

/// A project's own script: our formatter's events, and whatever else is recognised.
fn script(stdout: &str, paths: &Paths, captured: &Captured, run: &mut LintRun) -> bool {
    let report = captured.report.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
    let mut understood = false;
    for line in report.lines() {
        if let Ok(file) = serde_json::from_str::<EslintFile>(line) {
            eslint_file(file, paths, run);
        }
        understood |= line.contains("\"eslint_end\"") || line.contains("\"eslint\"");
    }
    understood |= biome(stdout, paths, run);
    understood |= oxlint(stdout, paths, run);
    let before = run.findings.len();
    let stderr = String::from_utf8_lossy(&captured.stderr);
    tsc(stdout, paths, run);
    printed(stdout, paths, run);
    prettier(&strip_ansi(&stderr), paths, run);
    prettier(stdout, paths, run);
    understood || run.findings.len() > before
}

/// What eslint prints for people, and `file:line:col: message` of many others.
fn printed(stdout: &str, paths: &Paths, run: &mut LintRun) {
    let mut file: Option<String> = None;
    for line in stdout.lines() {
        if let Some(found) = STYLISH.as_ref().and_then(|pattern| pattern.captures(line))
            && let Some(file) = &file
        {
            run.findings.push(Finding {
                file: paths.relative(file),
                line: found[1].parse().unwrap_or(1),
                col: found[2].parse().unwrap_or(1),
                rule: found.get(5).map_or("eslint", |rule| rule.as_str()).to_owned(),
                message: found[4].to_owned(),
                severity: if &found[3] == "error" { Severity::Error } else { Severity::Warning },
                fixable: false,
            });
        } else if let Some(found) = UNIX.as_ref().and_then(|pattern| pattern.captures(line)) {
            run.findings.push(Finding {
                file: paths.relative(&found[1]),
                line: found[2].parse().unwrap_or(1),
                col: found[3].parse().unwrap_or(1),
                rule: "lint".to_owned(),
                message: found[4].trim().to_owned(),
                severity: Severity::Error,
                fixable: false,
            });
        } else if !line.is_empty() && !line.starts_with(' ') {
            file = Some(line.trim().to_owned()).filter(|line| line.contains('.') && !line.contains(' '));
        }
    }
}

/// Files that `prettier --check` would change.
fn prettier(text: &str, paths: &Paths, run: &mut LintRun) {
    for line in text.lines() {
        let Some(file) = line.strip_prefix("[warn] ") else { continue };
        if file.contains(' ') {
            continue;
        }
        run.findings.push(Finding {
            file: paths.relative(file),
            line: 1,
            col: 1,
            rule: "prettier".to_owned(),
            message: "not formatted".to_owned(),
            severity: Severity::Warning,
            fixable: true,
        });
    }
}

/// Every JSON object that starts a line of the text, however many lines it takes.
fn documents(text: &str) -> Vec<serde_json::Value> {
    let mut found = Vec::new();
    let mut at = 0;
    // A text full of braces must not be parsed once per brace.
    let mut failures = 0;
    while let Some(start) = next_object(text, at) {
        let mut stream = serde_json::Deserializer::from_str(&text[start..]).into_iter::<serde_json::Value>();
        if let Some(Ok(value)) = stream.next() {
            at = start + stream.byte_offset().max(1);
            found.push(value);
        } else {
            failures += 1;
            at = start + 1;
        }
        if failures > 20 {
            break;
        }
    }
    found
}

fn next_object(text: &str, from: usize) -> Option<usize> {
    let rest = text.get(from..)?;
    if from == 0 && rest.starts_with('{') {
        return Some(0);
    }
    rest.find("\n{").map(|at| from + at + 1)
}
