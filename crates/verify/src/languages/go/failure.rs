//! What the lines of one failing Go test say.

use crate::{Facts, Failure, FailureKind, Problem, ProblemKind, TestId, bound, relative};
use regex::Regex;
use std::{path::Path, sync::LazyLock};

/// Bytes of a message and of captured output.
const MESSAGE: usize = 2000;
const OUTPUT: usize = 2000;

#[expect(clippy::unwrap_used, reason = "the patterns are constants, compiled by the tests")]
static ENTRY: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^ {4}(\S.*?\.go):(\d+): ?(.*)$").unwrap());
#[expect(clippy::unwrap_used, reason = "the patterns are constants, compiled by the tests")]
static POSITION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(?:vet: )?(\S.*?):(\d+):(?:(\d+):)? (.*)$").unwrap());
#[expect(clippy::unwrap_used, reason = "the patterns are constants, compiled by the tests")]
static FRAME: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^\t(/.+\.go):(\d+)(?: \+0x[0-9a-f]+)?$").unwrap());
#[expect(clippy::unwrap_used, reason = "the patterns are constants, compiled by the tests")]
static PAIR: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?i)(?:^|[\s:,;])(?:got|have|actual|=)[:=]? +(.+?)[,;] +(?:want|wanted|expected)[:=]? +(.+)$",
    )
    .unwrap()
});
#[expect(clippy::unwrap_used, reason = "the patterns are constants, compiled by the tests")]
static PAIR_TURNED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)(?:^|[\s:,;])(?:want|wanted|expected)[:=]? +(.+?)(?:[,;]| but) +(?:got|have|actual)[:=]? +(.+)$")
        .unwrap()
});
#[expect(clippy::unwrap_used, reason = "the patterns are constants, compiled by the tests")]
static LABEL: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?i)^\s*(got|have|actual|want|wanted|expected)\s*[:=]\s*(.*)$").unwrap());

/// One line a test printed.
pub(super) struct Line {
    pub(super) text: String,
    error: bool,
    frame: bool,
    typed: bool,
}

impl Line {
    pub(super) fn new(text: &str, kind: &str) -> Self {
        Self {
            text: text.strip_suffix('\n').unwrap_or(text).to_owned(),
            error: kind.starts_with("error"),
            frame: kind == "frame",
            typed: !kind.is_empty(),
        }
    }
}

/// Whether a test that runs others has something of its own to complain about: Go (1.27 and later) marks it, the
/// source tells it otherwise.
pub(super) fn complains(name: &str, lines: &[Line], facts: &dyn Facts) -> bool {
    if lines.iter().any(|line| line.typed) {
        return lines.iter().any(|line| line.error);
    }
    let (entries, ..) = sort(name, lines, false);
    let place = |entry: &Entry| relative(facts.root(), facts.root(), &entry.file);
    entries.iter().any(|entry| !is_log(facts, &place(entry), entry.line))
}

/// One `t.Error` or `t.Log` with the lines that continue it.
struct Entry {
    file: String,
    line: u32,
    text: Vec<String>,
    error: bool,
}

/// Reads a failing test's lines.
pub(super) fn read(id: TestId, name: &str, lines: &[Line], facts: &dyn Facts) -> Failure {
    let typed = lines.iter().any(|line| line.typed);
    let (mut entries, output, example) = sort(name, lines, typed);
    if !typed && entries.len() > 1 {
        for entry in &mut entries {
            let file = relative(facts.root(), facts.root(), &entry.file);
            entry.error = !is_log(facts, &file, entry.line);
        }
        if entries.iter().all(|entry| !entry.error) {
            entries.iter_mut().for_each(|entry| entry.error = true);
        }
    }
    let mut failure = Failure::new(id, name);
    let mut logs = Vec::new();
    let mut messages: Vec<String> = Vec::new();
    for entry in &entries {
        let file = relative(facts.root(), facts.root(), &entry.file);
        if !entry.error {
            logs.push(entry.text.join("\n"));
        } else if failure.file.is_none() {
            failure.file = Some(file);
            failure.line = Some(entry.line);
            let (message, expected, actual) = pair(&entry.text);
            (failure.expected, failure.actual) = (expected, actual);
            messages.push(message);
        } else {
            let text = pair_free(&entry.text);
            messages.push(format!("{}:{}: {text}", base_name(&file), entry.line));
        }
    }
    if let Some((got, want)) = example {
        "the example's output differs".clone_into(&mut failure.message);
        (failure.expected, failure.actual) = (Some(bound(&want, MESSAGE)), Some(bound(&got, MESSAGE)));
    } else {
        failure.message = bound(&messages.join("\n"), MESSAGE);
    }
    let said: Vec<String> = logs.into_iter().chain(output).collect();
    let said = said.join("\n");
    if !said.trim().is_empty() {
        failure.output = Some(bound(said.trim_matches('\n'), OUTPUT));
    }
    failure
}

/// Entries, other output, and what an example printed and should have printed.
type Sorted = (Vec<Entry>, Vec<String>, Option<(String, String)>);

fn sort(name: &str, lines: &[Line], typed: bool) -> Sorted {
    let (mut entries, mut output): (Vec<Entry>, Vec<String>) = (Vec::new(), Vec::new());
    let mut in_entry = false;
    let mut after_end: Vec<&str> = Vec::new();
    let mut ended = false;
    for line in lines {
        let text = line.text.as_str();
        if line.frame || (!typed && is_frame(name, text)) {
            ended |= text.starts_with("--- ");
            in_entry = false;
        } else if ended {
            after_end.push(text);
        } else if let Some(parts) = ENTRY.captures(text) {
            in_entry = true;
            entries.push(Entry {
                file: parts[1].to_owned(),
                line: parts[2].parse().unwrap_or(0),
                text: vec![parts[3].to_owned()],
                error: line.error || !typed,
            });
        } else if let (true, Some(more), Some(entry)) =
            (in_entry, text.strip_prefix("        "), entries.last_mut())
        {
            entry.text.push(more.to_owned());
        } else {
            in_entry = false;
            output.push(text.to_owned());
        }
    }
    let example = name.starts_with("Example").then(|| got_want(&after_end)).flatten();
    (entries, output, example)
}

/// Go's own marks in a test's output.
fn is_frame(name: &str, text: &str) -> bool {
    let Some(rest) =
        ["=== RUN   ", "=== PAUSE ", "=== CONT  ", "=== NAME  ", "--- FAIL: ", "--- PASS: ", "--- SKIP: "]
            .iter()
            .find_map(|mark| text.strip_prefix(mark))
    else {
        return false;
    };
    rest == name || rest.strip_prefix(name).is_some_and(|rest| rest.starts_with(" ("))
}

/// The two halves an example that failed prints.
fn got_want(lines: &[&str]) -> Option<(String, String)> {
    let got = lines.iter().position(|line| *line == "got:")?;
    let want = lines.iter().position(|line| *line == "want:")?;
    (got < want).then(|| (lines[got + 1..want].join("\n"), lines[want + 1..].join("\n")))
}

/// Whether the source line only logs. Before Go 1.27 the output does not tell a log from an error.
fn is_log(facts: &dyn Facts, file: &str, line: u32) -> bool {
    let text = facts.read(file);
    let source = text.as_deref().and_then(|text| text.lines().nth(line.saturating_sub(1) as usize));
    source.is_some_and(|source| source.contains(".Log(") || source.contains(".Logf("))
}

fn base_name(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

fn pair_free(text: &[String]) -> String {
    testify(text).map_or_else(|| text.join("\n"), |(message, _, _)| message)
}

/// A message with what was expected and what came, when the text says so.
fn pair(text: &[String]) -> (String, Option<String>, Option<String>) {
    if let Some(parts) = testify(text) {
        return parts;
    }
    let (mut expected, mut actual, mut rest) = (None, None, Vec::new());
    for line in text {
        match LABEL.captures(line) {
            Some(parts) if text.len() > 1 => {
                let slot = match parts[1].to_lowercase().as_str() {
                    "got" | "have" | "actual" => &mut actual,
                    _ => &mut expected,
                };
                match slot {
                    None => *slot = Some(parts[2].to_owned()),
                    Some(_) => rest.push(line.clone()),
                }
            }
            _ => rest.push(line.clone()),
        }
    }
    if expected.is_some() && actual.is_some() {
        return (rest.join("\n").trim_matches('\n').to_owned(), expected, actual);
    }
    let whole = text.join("\n").trim_matches('\n').to_owned();
    if let Some(parts) = PAIR.captures(&whole) {
        let (actual, expected) = (parts[1].to_owned(), parts[2].to_owned());
        return (whole, Some(expected), Some(actual));
    }
    if let Some(parts) = PAIR_TURNED.captures(&whole) {
        let (expected, actual) = (parts[1].to_owned(), parts[2].to_owned());
        return (whole, Some(expected), Some(actual));
    }
    (whole, None, None)
}

/// The blocks that the testify assertions print: labels in a column, values in the next.
fn testify(text: &[String]) -> Option<(String, Option<String>, Option<String>)> {
    text.iter().find(|line| line.trim_start().starts_with("Error Trace:"))?;
    let (mut section, mut error, mut messages) = ("", Vec::new(), Vec::new());
    for line in text {
        let line = line.trim_start_matches('\t');
        let (label, value) = match line.split_once('\t') {
            Some((label, value)) if label.trim_end().ends_with(':') => (label.trim_end(), value),
            Some((label, value)) if label.trim().is_empty() => ("", value),
            _ => ("", line),
        };
        if !label.is_empty() {
            section = label;
        }
        match section {
            "Error:" => error.push(value.trim_end().to_owned()),
            "Messages:" => messages.push(value.trim_end().to_owned()),
            _ => {}
        }
    }
    let value_of = |name: &str| {
        error.iter().find_map(|line| {
            line.strip_prefix(name)
                .and_then(|rest| rest.trim_start().strip_prefix(':'))
                .map(|v| v.trim().to_owned())
        })
    };
    let (expected, actual) = (value_of("expected"), value_of("actual"));
    let mut message: Vec<String> = error
        .iter()
        .filter(|line| !(line.starts_with("expected") || line.starts_with("actual") || line.is_empty()))
        .cloned()
        .collect();
    message.splice(0..0, messages);
    Some((message.join("\n"), expected, actual))
}

/// A Go process that died: a panic, a fatal error, its own timeout.
pub(super) struct Crash {
    message: String,
    timed_out: bool,
    running: Vec<String>,
    file: Option<String>,
    line: Option<u32>,
    test: Option<String>,
    frames: Vec<String>,
}

impl Crash {
    /// Looks for the runtime's own report: a `panic:` or `fatal error:` line with a goroutine's stack after it.
    pub(super) fn find<'a>(root: &Path, lines: impl Iterator<Item = &'a str>) -> Option<Self> {
        let lines: Vec<&str> = lines.collect();
        let starts = |line: &str| line.starts_with("panic: ") || line.starts_with("fatal error: ");
        let stack = |line: &&str| line.starts_with("goroutine ") && line.ends_with("]:");
        let at =
            (0..lines.len()).find(|at| starts(lines[*at]) && lines[at + 1..].iter().take(60).any(stack))?;
        let head = lines[at].strip_prefix("panic: ").unwrap_or(lines[at]);
        let head = head.split(" [recovered").next().unwrap_or(head);
        let message: Vec<&str> = std::iter::once(head)
            .chain(lines[at + 1..].iter().take_while(|line| !stack(line)).copied())
            .filter(|line| {
                !line.is_empty() && !line.starts_with("\tpanic: ") && !line.starts_with("[signal ")
            })
            .collect();
        let timed_out = head.starts_with("test timed out after ");
        let mut crash = Self {
            message: if timed_out { head.to_owned() } else { bound(&message.join("\n"), MESSAGE) },
            timed_out,
            running: running(&message),
            file: None,
            line: None,
            test: None,
            frames: Vec::new(),
        };
        crash.walk(root, &lines[at..]);
        Some(crash)
    }

    /// Finds the workspace's own frames.
    fn walk(&mut self, root: &Path, lines: &[&str]) {
        let stack = lines.iter().skip_while(|line| !line.starts_with("goroutine "));
        let mut function = "";
        for line in stack.take(4000) {
            let Some(parts) = FRAME.captures(line) else {
                // A timeout shows every goroutine; a panic's first one is the one that matters.
                if !self.timed_out && self.file.is_some() && line.starts_with("goroutine ") {
                    break;
                }
                function = line;
                continue;
            };
            let file = relative(root, root, &parts[1]);
            if file.starts_with('/') {
                continue;
            }
            let name = function.strip_prefix("created by ").unwrap_or(function);
            let name = name.rsplit('/').next().unwrap_or(name).split('(').next().unwrap_or(name);
            if self.file.is_none() {
                self.line = parts[2].parse().ok();
                self.file = Some(file.clone());
            }
            if self.frames.len() < 5 && !function.starts_with("created by ") {
                self.frames.push(format!("{file}:{} {name}", &parts[2]));
            }
            if self.test.is_none() {
                let test = name
                    .split('.')
                    .find(|part| ["Test", "Fuzz", "Example"].iter().any(|k| part.starts_with(k)));
                self.test = test.map(str::to_owned);
            }
        }
    }

    /// The test that the crash belongs to, among the leaves that are left (name, failed).
    pub(super) fn culprit<'a>(&self, leaves: Vec<(&'a String, bool)>) -> Option<&'a str> {
        let named = |name: &str| self.running.iter().any(|running| running == name);
        if let Some((name, _)) = leaves.iter().find(|(name, failed)| !failed && named(name)) {
            return Some(name);
        }
        let top = |name: &str| name.split('/').next().map(str::to_owned);
        let of_test = |name: &str| self.test.is_some() && top(name) == self.test;
        leaves
            .iter()
            .find(|(name, failed)| !failed && of_test(name))
            .or_else(|| leaves.iter().rev().find(|(name, _)| of_test(name)))
            .or_else(|| leaves.iter().rev().find(|(_, failed)| !failed))
            .or_else(|| leaves.last())
            .map(|(name, _)| name.as_str())
    }

    /// Puts the crash's own words into the failure.
    pub(super) fn tell(&self, failure: &mut Failure) {
        failure.kind = if self.timed_out { FailureKind::TimedOut } else { FailureKind::Crashed };
        failure.message =
            if self.timed_out { self.message.clone() } else { format!("panic: {}", self.message) };
        failure.file.clone_from(&self.file);
        failure.line = self.line;
        // The stack printed by the runtime is not what the test said; its workspace frames are enough.
        let said = failure.output.take().unwrap_or_default();
        let own: Vec<&str> = said
            .lines()
            .take_while(|line| !line.starts_with("panic: ") && !line.starts_with("fatal error: "))
            .collect();
        let mut output = own.join("\n");
        if self.frames.len() > 1 && !self.timed_out {
            output = format!("{output}\n{}", self.frames.join("\n"));
        }
        let output = output.trim_matches('\n');
        failure.output = (!output.is_empty()).then(|| bound(output, OUTPUT));
    }
}

/// Where a test is defined, for failures that say no place themselves.
pub(super) fn locate(facts: &dyn Facts, package: &str, test: &str) -> (Option<String>, Option<u32>) {
    let module = facts.read("go.mod").unwrap_or_default();
    let module = module.lines().find_map(|line| line.trim().strip_prefix("module ")).unwrap_or_default();
    let Some(folder) = package.strip_prefix(module.trim().trim_matches('"')) else { return (None, None) };
    let folder = folder.trim_start_matches('/');
    let definition = format!("func {}(", test.split('/').next().unwrap_or(test));
    let names = facts.list(if folder.is_empty() { "." } else { folder });
    for name in names.iter().filter(|name| name.ends_with("_test.go")) {
        let file = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        let text = facts.read(&file).unwrap_or_default();
        if let Some(at) = text.lines().position(|line| line.starts_with(&definition)) {
            return (Some(file), u32::try_from(at + 1).ok());
        }
    }
    (None, None)
}

/// Names under `running tests:` in Go's report of its own timeout.
fn running(message: &[&str]) -> Vec<String> {
    message
        .iter()
        .skip_while(|line| line.trim() != "running tests:")
        .skip(1)
        .filter_map(|line| line.strip_prefix("\t\t"))
        .filter_map(|line| line.rsplit_once(" (").map(|(name, _)| name.to_owned()))
        .collect()
}

/// Compiler and vet errors in plain text.
pub(super) fn build_problems(root: &Path, lines: &[String]) -> Vec<Problem> {
    let mut problems: Vec<Problem> = Vec::new();
    let mut loose: Vec<&str> = Vec::new();
    for line in lines {
        if line.starts_with("# ") || line.is_empty() || line.starts_with("FAIL\t") {
        } else if let Some(parts) = POSITION.captures(line) {
            problems.push(Problem {
                kind: ProblemKind::Build,
                file: Some(relative(root, root, &parts[1])),
                line: parts[2].parse().ok(),
                col: parts.get(3).and_then(|col| col.as_str().parse().ok()),
                message: bound(&parts[4], MESSAGE),
            });
        } else if let (true, Some(problem)) = (line.starts_with('\t'), problems.last_mut()) {
            problem.message = bound(&format!("{}\n{}", problem.message, line.trim()), MESSAGE);
        } else if !line.starts_with("go: downloading ") && !line.trim().starts_with("too many errors") {
            loose.push(line);
        }
    }
    if problems.is_empty() && !loose.is_empty() {
        let message = bound(&loose.join("\n"), MESSAGE);
        problems.push(Problem { kind: ProblemKind::Build, file: None, line: None, col: None, message });
    }
    problems
}
