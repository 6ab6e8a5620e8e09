//! What one test executable prints, line by line.

use crate::{Kept, bound};
use regex::Regex;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

/// Bytes kept of each failing test's output, and of a whole target's.
const BLOCK: usize = 32 << 10;
/// Failing tests whose output is kept.
const BLOCKS: usize = 1000;

#[expect(clippy::unwrap_used, reason = "the pattern is a constant, compiled by the tests")]
static SUMMARY: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored; ").unwrap());

/// What kind of target it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Unit or integration tests.
    Binary,
    /// Doctests of a library.
    Doc,
}

/// The counts of a `test result:` line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Summary {
    passed: u32,
    ignored: u32,
}

/// A test executable and what it said so far. Tests can print whatever they like past the harness's capture,
/// so that of everything that could be faked, the last of its kind counts: the harness speaks last.
pub(super) struct Target {
    derived: String,
    /// How cargo itself would rerun it.
    told: Option<String>,
    pub(super) source: String,
    pub(super) kind: Kind,
    /// Whether it announced its tests as libtest does.
    pub(super) harness: bool,
    /// How many it announced.
    pub(super) announced: u32,
    /// cargo said it failed.
    pub(super) failed: bool,
    /// How the process ended, when that is unusual.
    pub(super) cause: Option<String>,
    pub(super) summary: Option<Summary>,
    /// A list, because there may be tens of thousands and nobody looks them up.
    ok: Vec<String>,
    bad: BTreeSet<String>,
    ignored: BTreeSet<String>,
    /// Started, not yet ended: when tests run one by one, the name is printed first.
    pub(super) open: Option<String>,
    begun: BTreeSet<String>,
    /// The thread whose stack overflowed; usually named like the test it runs.
    pub(super) overflowed: Option<String>,
    blocks: BTreeMap<String, Kept>,
    block: Option<String>,
    /// Names after a line `failures:`; the list of the failed, when a summary follows.
    maybe: Option<Vec<String>>,
    listed: Option<Vec<String>>,
    output: Kept,
}

impl Target {
    pub(super) fn new(derived: String, source: String, kind: Kind) -> Self {
        Self {
            derived,
            told: None,
            source,
            kind,
            harness: false,
            announced: 0,
            failed: false,
            cause: None,
            summary: None,
            ok: Vec::new(),
            bad: BTreeSet::new(),
            ignored: BTreeSet::new(),
            open: None,
            begun: BTreeSet::new(),
            overflowed: None,
            blocks: BTreeMap::new(),
            block: None,
            maybe: None,
            listed: None,
            output: Kept::new(BLOCK),
        }
    }

    /// The arguments that make cargo run this target alone.
    pub(super) fn unit(&self) -> String {
        self.told.clone().unwrap_or_else(|| self.derived.clone())
    }

    /// Ended and failed tests so far.
    pub(super) fn seen(&self) -> (u32, u32) {
        let done = self.ok.len() + self.bad.len() + self.ignored.len();
        (u32::try_from(done).unwrap_or(u32::MAX), u32::try_from(self.bad.len()).unwrap_or(u32::MAX))
    }

    /// Whether it is done, one way or the other.
    pub(super) fn over(&self) -> bool {
        self.summary.is_some() || self.failed
    }

    /// Passed and skipped tests.
    pub(super) fn counts(&self) -> (u32, u32) {
        match self.summary {
            Some(summary) => (summary.passed, summary.ignored),
            None => (
                u32::try_from(self.ok.len()).unwrap_or(u32::MAX),
                u32::try_from(self.ignored.len()).unwrap_or(u32::MAX),
            ),
        }
    }

    /// Names of the failed tests: the harness's final list, or the lines so far when there is none.
    pub(super) fn failed_names(&self) -> Vec<String> {
        match (&self.listed, self.summary) {
            (Some(listed), Some(_)) => listed.clone(),
            _ => self.bad.iter().cloned().collect(),
        }
    }

    /// Every test that ended.
    pub(super) fn finished(&self) -> Vec<&String> {
        self.ok.iter().chain(&self.bad).chain(&self.ignored).collect()
    }

    /// Whether a test of this name ran or was skipped.
    pub(super) fn ran(&self, name: &str) -> bool {
        self.ran_any(|test| test == name)
    }

    /// Whether a test of such a name ran or was skipped.
    pub(super) fn ran_any(&self, wanted: impl Fn(&str) -> bool) -> bool {
        self.finished().into_iter().chain(&self.begun).chain(&self.overflowed).any(|name| wanted(name))
    }

    /// What a failing test printed.
    pub(super) fn block(&self, name: &str) -> Vec<String> {
        self.blocks.get(name).map(Kept::lines).unwrap_or_default()
    }

    /// The end of what it printed outside the harness's own lines.
    pub(super) fn last_words(&self) -> Option<String> {
        let lines = self.output.lines();
        let text = lines[lines.len().saturating_sub(20)..].join("\n");
        let text = text.trim_matches('\n');
        (!text.is_empty()).then(|| bound(text, 1500))
    }

    /// Takes the next line.
    pub(super) fn line(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let text = text.as_ref();
        let plain = self.harness && !self.failed && self.block.is_none() && self.maybe.is_none();
        if plain && let Some(name) = text.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... ok"))
        {
            // The commonest line by far takes the shortest way.
            self.open = None;
            return self.ok.push(bare_name(name).to_owned());
        }
        if self.cargo(text) || self.list(text) {
            return;
        }
        if self.block.is_none() && self.result(text) {
            return;
        }
        if text == "failures:" {
            self.maybe = Some(Vec::new());
        } else if let Some(name) = block_of(text).filter(|name| self.bad.contains(*name)) {
            self.block = Some(name.to_owned());
            if self.blocks.len() < BLOCKS {
                self.blocks.insert(name.to_owned(), Kept::new(BLOCK));
            }
        } else {
            self.keep(text);
        }
    }

    fn keep(&mut self, text: &str) {
        match &self.block {
            Some(name) => {
                if let Some(kept) = self.blocks.get_mut(name) {
                    kept.push(text);
                }
            }
            None if !text.is_empty() => self.output.push(text),
            None => {}
        }
    }

    /// Lines of cargo itself, at the end of a target that failed.
    fn cargo(&mut self, text: &str) -> bool {
        if let Some(rest) = text
            .strip_prefix("error: test failed, to rerun pass `")
            .or_else(|| text.strip_prefix("error: doctest failed, to rerun pass `"))
        {
            self.failed = true;
            self.told = rest.strip_suffix('`').map(str::to_owned);
            return true;
        }
        if !self.failed {
            return false;
        }
        if text.starts_with("  process didn't exit successfully: ") {
            self.cause = text.rfind(" (").map(|at| text[at + 2..].trim_end_matches(')').to_owned());
            return true;
        }
        let closing = text.is_empty() || text == "Caused by:" || text.starts_with("    `");
        if closing || (text.starts_with("error: ") && text.contains(" failed:")) {
            return true;
        }
        // The target goes on talking: it was a test that printed the line, not cargo.
        self.failed = false;
        self.told = None;
        false
    }

    /// The list of failed tests and the summary that closes it.
    fn list(&mut self, text: &str) -> bool {
        if text.starts_with("test result: ")
            && let Some(parts) = SUMMARY.captures(text)
        {
            let number = |at: usize| parts[at].parse().unwrap_or(0);
            self.summary = Some(Summary { passed: number(1), ignored: number(3) });
            self.listed = self.maybe.take().filter(|names| !names.is_empty());
            self.block = None;
            return true;
        }
        let Some(names) = &mut self.maybe else { return false };
        if let Some(name) = text.strip_prefix("    ") {
            names.push(name.to_owned());
            return true;
        }
        if text.is_empty() {
            return true;
        }
        // It was no list: whatever test printed it gets its lines back.
        let held = self.maybe.take().unwrap_or_default();
        if self.block.is_some() {
            self.keep("failures:");
            for name in held {
                self.keep(&format!("    {name}"));
            }
        }
        false
    }

    /// `running N tests`, `test x ... ok` and the like.
    fn result(&mut self, text: &str) -> bool {
        if let Some(rest) = text.strip_prefix("running ") {
            let number = rest.strip_suffix(" tests").or_else(|| rest.strip_suffix(" test"));
            if let Some(number) = number.and_then(|number| number.parse().ok()) {
                self.harness = true;
                self.announced = number;
                return true;
            }
        }
        if !self.harness {
            return false;
        }
        if let Some((name, result)) = text.strip_prefix("test ").and_then(|rest| {
            rest.split_once(" ... ").or_else(|| rest.strip_suffix(" ...").map(|name| (name, "")))
        }) {
            self.test(bare_name(name), result);
            return true;
        }
        if let Some(name) = self.open.clone()
            && ["ok", "FAILED", "ignored"].contains(&text)
        {
            self.test(&name, text);
            return true;
        }
        if let Some(name) = text.strip_prefix("thread '").and_then(|rest| {
            let (name, after) = rest.rsplit_once('\'')?;
            let named = !["main", "<unnamed>", "<unknown>"].contains(&name);
            (named && after.ends_with(" has overflowed its stack")).then_some(name)
        }) {
            self.overflowed = Some(name.to_owned());
        }
        false
    }

    fn test(&mut self, name: &str, result: &str) {
        self.open = None;
        let ended = match result {
            "ok" => return self.ok.push(name.to_owned()),
            "FAILED" => &mut self.bad,
            _ if result == "ignored" || result.starts_with("ignored, ") => &mut self.ignored,
            _ if result.starts_with("bench: ") => return self.ok.push(name.to_owned()),
            _ => {
                // Run one by one, the name comes before the test runs: what follows it on the line is the
                // test's own, or cargo's last words about it.
                self.open = Some(name.to_owned());
                self.begun.insert(name.to_owned());
                if !self.cargo(result) {
                    self.keep(result);
                }
                return;
            }
        };
        ended.insert(name.to_owned());
    }
}

/// The test whose output a line announces.
fn block_of(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

/// A test's name without what the harness adds about its kind.
fn bare_name(name: &str) -> &str {
    [" - should panic", " - compile fail", " - compile"]
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix))
        .unwrap_or(name)
}
