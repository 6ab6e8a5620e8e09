//! What libtest prints about one failing test.

use crate::{Facts, Failure, TestId, bound, relative};
use regex::Regex;
use std::{path::Path, sync::LazyLock};

/// Bytes of a message and of captured output.
pub(super) const MESSAGE: usize = 2000;
const OUTPUT: usize = 2000;

#[expect(clippy::unwrap_used, reason = "the pattern is a constant, compiled by the tests")]
static PANIC: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^thread '(.*)' (?:\(\d+\) )?panicked at (.+?):(\d+):(\d+):?$").unwrap());
/// Before Rust 1.73 the message stood on the same line.
#[expect(clippy::unwrap_used, reason = "the pattern is a constant, compiled by the tests")]
static OLD_PANIC: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^thread '(.*)' panicked at '(.*)', (.+?):(\d+):(\d+)$").unwrap());
#[expect(clippy::unwrap_used, reason = "the pattern is a constant, compiled by the tests")]
static NO_PANIC: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^note: test did not panic as expected(?: at (.+?):(\d+):\d+)?$").unwrap());

/// A panic's place and words, and what was printed before it.
pub(super) struct Panic {
    pub(super) file: String,
    pub(super) line: u32,
    pub(super) message: Vec<String>,
    pub(super) before: Vec<String>,
}

/// The panic that ended a test: the last one of the test's own thread, else the last one.
pub(super) fn panic_in(lines: &[String], thread: &str) -> Option<Panic> {
    let header = |line: &String| {
        // Regular expressions on every line would cost more than all the rest.
        line.starts_with("thread '") && (PANIC.is_match(line) || OLD_PANIC.is_match(line))
    };
    let own = format!("thread '{thread}' ");
    let at = lines
        .iter()
        .rposition(|line| line.starts_with(&own) && header(line))
        .or_else(|| lines.iter().rposition(header))?;
    let mut message: Vec<String> = lines[at + 1..]
        .iter()
        .take_while(|line| !line.starts_with("note: ") && !line.starts_with("stack backtrace:"))
        .cloned()
        .collect();
    while message.last().is_some_and(|line| line.trim().is_empty()) {
        message.pop();
    }
    let number = |text: &str| text.parse().unwrap_or(1);
    let before = lines[..at].to_vec();
    if lines[at].contains("' panicked at '")
        && let Some(parts) = OLD_PANIC.captures(&lines[at])
    {
        message.insert(0, parts[2].to_owned());
        let (file, line) = (parts[3].to_owned(), number(&parts[4]));
        return Some(Panic { file, line, message, before });
    }
    let parts = PANIC.captures(&lines[at])?;
    let (file, line) = (parts[2].to_owned(), number(&parts[3]));
    Some(Panic { file, line, message, before })
}

/// Reads the block of a test in `source`, the root file of its target.
pub(super) fn read(
    id: TestId,
    name: &str,
    lines: &[String],
    source: &str,
    facts: &dyn Facts,
    base: &Path,
) -> Failure {
    let mut failure = Failure::new(id, name);
    let mut output: Vec<String> = Vec::new();
    if let Some(panic) = panic_in(lines, name) {
        failure.file = Some(relative(facts.root(), base, &panic.file));
        failure.line = Some(panic.line);
        tell(&mut failure, &panic.message);
        output.extend(panic.before);
        wrong_panic(&mut failure, lines);
    } else if let Some((at, parts)) = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.starts_with("note: test did not panic"))
        .find_map(|(at, line)| NO_PANIC.captures(line).map(|parts| (at, parts)))
    {
        failure.message = "did not panic as expected".to_owned();
        failure.file = parts.get(1).map(|file| relative(facts.root(), base, file.as_str()));
        failure.line = parts.get(2).and_then(|line| line.as_str().parse().ok());
        output.extend_from_slice(&lines[..at]);
    } else if let Some(at) = lines.iter().rposition(|line| line.starts_with("Error: ")) {
        failure.message = bound(lines[at..].join("\n").trim_end(), MESSAGE);
        output.extend_from_slice(&lines[..at]);
    } else {
        failure.message = "failed without a message".to_owned();
        output.extend_from_slice(lines);
    }
    let outside = failure.file.as_deref().is_none_or(|file| file.starts_with('/'));
    if outside && let (Some(file), line) = locate(facts, source, name) {
        (failure.file, failure.line) = (Some(file), line);
    }
    keep_output(&mut failure, &output);
    failure
}

/// Keeps what a test printed before it failed.
pub(super) fn keep_output(failure: &mut Failure, lines: &[String]) {
    let text = lines.join("\n");
    let text = text.trim_matches('\n');
    failure.output = (!text.is_empty()).then(|| bound(text, OUTPUT));
}

/// Splits the words of `assert_eq!` into message, expected (right) and actual (left).
pub(super) fn tell(failure: &mut Failure, message: &[String]) {
    let first = message.first().map(String::as_str).unwrap_or_default();
    let left = message.iter().position(|line| line.starts_with("  left: "));
    let right = message.iter().position(|line| line.starts_with(" right: "));
    if let (true, Some(left), Some(right)) = (first.starts_with("assertion `left == right`"), left, right)
        && left < right
    {
        failure.message = bound(&message[..left].join("\n"), MESSAGE);
        let value = |lines: &[String]| bound(&lines.join("\n")["  left: ".len()..], MESSAGE);
        failure.actual = Some(value(&message[left..right]));
        failure.expected = Some(value(&message[right..]));
    } else {
        failure.message = bound(&message.join("\n"), MESSAGE);
    }
}

/// A panic that came, but with other words than `should_panic` wants.
fn wrong_panic(failure: &mut Failure, lines: &[String]) {
    let after =
        lines.iter().skip_while(|line| !line.starts_with("note: panic did not contain expected string"));
    for line in after {
        let line = line.trim_start();
        if let Some(text) = line.strip_prefix("panic message: ") {
            failure.actual = Some(text.trim_end_matches(',').to_owned());
        } else if let Some(text) = line.strip_prefix("expected substring: ") {
            failure.expected = Some(text.to_owned());
            failure.message = "panicked with other words than expected".to_owned();
        }
    }
}

/// Where a test is defined, for failures that say no place: in the file of its module, or of one above.
pub(super) fn locate(facts: &dyn Facts, source: &str, name: &str) -> (Option<String>, Option<u32>) {
    let mut parts: Vec<&str> = name.split("::").collect();
    let Some(function) = parts.pop() else { return (None, None) };
    let folder = match source.rsplit_once('/') {
        Some((folder, _)) => folder,
        None => "",
    };
    let mut files: Vec<String> = Vec::new();
    for depth in (1..=parts.len()).rev() {
        let module = parts[..depth].join("/");
        files.push(format!("{folder}/{module}.rs"));
        files.push(format!("{folder}/{module}/mod.rs"));
    }
    files.push(source.to_owned());
    let definition = format!("fn {function}(");
    for file in files {
        let file = file.trim_start_matches('/');
        let Some(text) = facts.read(file) else { continue };
        let found = text.lines().position(|line| {
            line.find(&definition).is_some_and(|at| {
                line[..at].trim().split(' ').all(|word| ["", "pub", "async"].contains(&word))
            })
        });
        if let Some(at) = found {
            return (Some(file.to_owned()), u32::try_from(at + 1).ok());
        }
    }
    (None, None)
}
