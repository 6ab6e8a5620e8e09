//! What rustdoc prints about one failing example, and where in the source that is.

use super::failure::{self, MESSAGE};
use crate::{Facts, Failure, TestId, bound, relative};
use regex::Regex;
use std::{path::Path, sync::LazyLock};

#[expect(clippy::unwrap_used, reason = "the pattern is a constant, compiled by the tests")]
static NAME: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^(.+?) - (?:.* )?\(line (\d+)\)$").unwrap());
#[expect(clippy::unwrap_used, reason = "the pattern is a constant, compiled by the tests")]
static SNIPPET: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^\s*(\d+) \| (.*)$").unwrap());

/// Reads the block of an example.
pub(super) fn read(id: TestId, name: &str, lines: &[String], facts: &dyn Facts, base: &Path) -> Failure {
    let mut failure = Failure::new(id, name);
    let place = NAME.captures(name);
    let file = place.as_ref().map(|parts| relative(facts.root(), base, &parts[1]));
    let fence: u32 = place.as_ref().and_then(|parts| parts[2].parse().ok()).unwrap_or(1);
    let example = file.as_deref().map(|file| Example::read(facts, file, fence)).unwrap_or_default();
    failure.line = Some(fence);
    if let Some(panic) = failure::panic_in(lines, "main") {
        failure::tell(&mut failure, &panic.message);
        failure.line = Some(example.panic_line(&panic).unwrap_or(fence));
        let before: Vec<String> = panic
            .before
            .into_iter()
            .filter(|line| {
                !(line.starts_with("Test executable failed") || line == "stderr:" || line == "stdout:")
            })
            .collect();
        failure::keep_output(&mut failure, &before);
    } else if let Some(at) = lines.iter().position(|line| line.starts_with("error")) {
        failure.message = format!("does not compile: {}", bound(&lines[at], MESSAGE));
        let shown = lines[at..].iter().find_map(|line| SNIPPET.captures(line));
        failure.line = shown.and_then(|parts| example.find(parts[2].trim())).or(Some(fence));
    } else {
        let said: Vec<&str> = lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty()).collect();
        failure.message = bound(&said.join("\n"), MESSAGE);
    }
    failure.file = file;
    failure
}

/// The lines of an example: number in the file, code.
#[derive(Default)]
struct Example {
    lines: Vec<(u32, String)>,
    fence: u32,
}

impl Example {
    fn read(facts: &dyn Facts, file: &str, fence: u32) -> Self {
        let text = facts.read(file).unwrap_or_default();
        let mut lines = Vec::new();
        for (number, line) in (1..).zip(text.lines()).skip(fence as usize) {
            let line = line.trim_start();
            let code = ["/// ", "//! ", "///", "//!", "* "]
                .iter()
                .find_map(|mark| line.strip_prefix(mark))
                .unwrap_or(line);
            if code.starts_with("```") {
                break;
            }
            lines.push((number, code.to_owned()));
        }
        Self { lines, fence }
    }

    /// The line with this code.
    fn find(&self, code: &str) -> Option<u32> {
        let hidden = |text: &str| text.trim_start_matches("# ").trim() == code;
        self.lines.iter().find(|(_, text)| text.trim() == code || hidden(text)).map(|(number, _)| *number)
    }

    /// The line a panic happened in. rustdoc counts lines in the program it generates around the example, and
    /// in a bundle of several: its number is off by what it put in front, so the words are asked first.
    fn panic_line(&self, panic: &failure::Panic) -> Option<u32> {
        let first = panic.message.first().map(String::as_str).unwrap_or_default();
        let words = if first.starts_with("assertion `left == right`") {
            "assert_eq!"
        } else if first.starts_with("assertion `left != right`") {
            "assert_ne!"
        } else if let Some(condition) = first.strip_prefix("assertion failed: ") {
            condition
        } else if first.contains("called `Result::unwrap()`") || first.contains("called `Option::unwrap()`") {
            ".unwrap()"
        } else {
            first
        };
        let said: Vec<u32> = self
            .lines
            .iter()
            .filter(|(_, text)| !words.is_empty() && text.contains(words))
            .map(|(number, _)| *number)
            .collect();
        // What rustdoc puts in front: attributes and `fn main`.
        let counted = self.fence + panic.line.saturating_sub(2);
        let bundled = panic.file.contains("doctest_bundle");
        match said.as_slice() {
            [] => self.lines.iter().map(|(number, _)| *number).find(|number| !bundled && *number == counted),
            [one] => Some(*one),
            many => {
                many.iter().copied().find(|number| !bundled && *number == counted).or(many.first().copied())
            }
        }
    }
}
