//! The reader of the events that the injected reporters write.

use super::{
    Paths,
    record::{Case, Event, Path, Record, Run, State, Unit, without_surrogates},
    text::{Located, locate},
};
use crate::{
    End, Facts, Failure, FailureKind, Plan, Problem, ProblemKind, Progress, Stream, TestId, TestReader,
    TestRun, UnknownReader,
    text::{Lines, bound, lossy, strip_ansi},
};
use serde::{Deserialize, Serialize};
use std::{collections::HashSet, sync::LazyLock};

/// How much of the streams is kept for the case that the report does not explain the end.
const HEAD: usize = 4 << 10;
const TAIL: usize = 12 << 10;
const MESSAGE: usize = 1200;
const VALUE: usize = 600;
const OUTPUT: usize = 1500;

/// What a plan tells the reader.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Memo {
    /// Exactly these tests were asked for.
    pub only: Vec<TestId>,
    /// These names were asked for.
    pub names: Vec<String>,
    /// How long the caller waits.
    pub timeout_seconds: u64,
    /// The commands of the project's script, when one is run.
    pub parts: Vec<String>,
    /// Which of them runs the tests.
    pub test_part: Option<usize>,
    /// What stands between the parts of a test's name.
    pub separator: String,
    /// Said with the results.
    pub notes: Vec<String>,
}

/// Reads a run of any runner that one of our reporters was injected into.
pub(crate) struct EventsReader {
    runner: &'static str,
    memo: Memo,
    lines: Lines,
    record: Record,
    head: Vec<u8>,
    tail: Vec<u8>,
    /// Reads a script in which no runner was recognised.
    unknown: Option<Box<UnknownReader>>,
}

impl EventsReader {
    /// For what `plan` starts.
    pub(crate) fn new(plan: &Plan, facts: &dyn Facts) -> Self {
        let memo: Memo = serde_json::from_value(plan.memo.clone()).unwrap_or_default();
        let unknown = (plan.runner == "script").then(|| Box::new(UnknownReader::new("test")));
        Self {
            unknown,
            runner: plan.runner,
            memo,
            lines: Lines::default(),
            record: Record::new(Paths::new(&facts.root().to_string_lossy())),
            head: Vec::new(),
            tail: Vec::new(),
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = HEAD.saturating_sub(self.head.len());
        let (first, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(first);
        self.tail.extend_from_slice(&rest[rest.len().saturating_sub(TAIL)..]);
        if self.tail.len() > 2 * TAIL {
            self.tail.drain(..self.tail.len() - TAIL);
        }
    }

    fn printed(&self) -> String {
        let bytes = [&self.head[..], &self.tail[self.tail.len().saturating_sub(TAIL)..]].concat();
        let text = String::from_utf8_lossy(&bytes);
        strip_ansi(&text)
            .lines()
            .filter(|line| !chatter(line))
            .collect::<Vec<_>>()
            .join("\n")
            .trim()
            .to_owned()
    }
}

/// What package managers say about themselves.
fn chatter(line: &str) -> bool {
    let line = line.trim_start();
    ["npm warn", "npm notice", "npm error", "npm ERR!", "error Command failed", "info Visit", " ELIFECYCLE"]
        .iter()
        .any(|start| line.starts_with(start.trim_start()))
}

impl TestReader for EventsReader {
    fn feed(&mut self, stream: Stream, bytes: &[u8]) {
        if stream == Stream::Report {
            let record = &mut self.record;
            self.lines.feed(bytes, |line| take(record, line));
        } else {
            self.keep(bytes);
            if let Some(unknown) = &mut self.unknown {
                unknown.feed(stream, bytes);
            }
        }
    }

    fn progress(&self) -> Progress {
        match &self.unknown {
            Some(unknown) if self.record.runs.is_empty() => unknown.progress(),
            _ => self.record.progress(),
        }
    }

    fn finish(mut self: Box<Self>, end: &End, facts: &dyn Facts) -> TestRun {
        let record = &mut self.record;
        self.lines.end(|line| take(record, line));
        if let Some(unknown) = self.unknown.take()
            && self.record.runs.is_empty()
        {
            let mut run = unknown.finish(end, facts);
            run.notes.extend(self.memo.notes.iter().cloned());
            run.missing.extend(self.memo.only.iter().map(|id| id.path.join(" > ")));
            run.missing.extend(self.memo.names.iter().cloned());
            return run;
        }
        let printed = self.printed();
        Books {
            runner: self.runner,
            memo: &self.memo,
            record: &self.record,
            printed,
            end,
            stray_failures: false,
            run: TestRun::default(),
        }
        .close()
    }
}

fn take(record: &mut Record, line: &[u8]) {
    let text = lossy(line);
    match serde_json::from_str::<Event<'_>>(&text) {
        Ok(event) => record.take(event),
        Err(_) => {
            if let Ok(event) = serde_json::from_str::<Event<'_>>(&without_surrogates(&text)) {
                record.take(event);
            }
        }
    }
}

/// Everything known at the end, on its way to becoming a [`TestRun`].
struct Books<'a> {
    runner: &'static str,
    memo: &'a Memo,
    record: &'a Record,
    printed: String,
    end: &'a End,
    /// A test that was not asked for ran all the same and failed.
    stray_failures: bool,
    run: TestRun,
}

impl Books<'_> {
    fn close(mut self) -> TestRun {
        self.run.notes.clone_from(&self.memo.notes);
        self.count();
        self.problems();
        self.unfinished();
        if self.record.runs.is_empty() {
            self.no_report();
        } else {
            self.script();
        }
        self.missing();
        self.incomplete();
        self.run
    }

    fn selected(&self) -> bool {
        !self.memo.only.is_empty() || !self.memo.names.is_empty()
    }

    /// Whether one of the names that were asked for means this test; every one does when none was.
    fn named(&self, id: &TestId) -> bool {
        self.memo.names.is_empty() || self.memo.names.iter().any(|name| means(name, id))
    }

    fn count(&mut self) {
        let only: HashSet<&TestId> = self.memo.only.iter().collect();
        let mut neighbours = 0;
        for unit in &self.record.units {
            let dead = unit.dead;
            let outputs = unit.outputs();
            for case in &unit.cases {
                // Most tests pass, and most runs are of everything: these are only counted.
                if !self.selected() && case.state != State::Fail {
                    match case.state {
                        State::Skip => self.run.skipped += 1,
                        _ => self.run.passed += u32::from(!(case.whole && dead)),
                    }
                    continue;
                }
                let id = TestId { unit: unit.name.clone(), path: case.path.parts() };
                let listed = only.is_empty() || only.contains(&id) || within(&only, &id);
                if !listed || !self.named(&id) {
                    neighbours += u32::from(case.state != State::Skip);
                    self.stray_failures |= case.state == State::Fail;
                    continue;
                }
                match case.state {
                    State::Pass if case.whole && dead => {}
                    State::Pass => self.run.passed += 1,
                    // What a selection leaves out is told as skipped.
                    State::Skip if self.selected() => {}
                    State::Skip => self.run.skipped += 1,
                    State::Fail => {
                        let failure = self.failure(id, case, outputs.of(case));
                        self.run.failures.push(failure);
                    }
                }
            }
        }
        self.run.failed = u32::try_from(self.run.failures.len()).unwrap_or(u32::MAX);
        if neighbours > 0 {
            self.run.notes.push(format!("{neighbours} more ran than were asked for; they are not counted"));
        }
    }

    fn name(&self, path: &[String]) -> String {
        let separator = if self.memo.separator.is_empty() { " > " } else { &self.memo.separator };
        path.join(separator)
    }

    fn failure(&self, id: TestId, case: &Case, printed: Option<String>) -> Failure {
        static NOTHING: LazyLock<super::record::Detail> = LazyLock::new(Default::default);
        let detail = case.detail.as_deref().unwrap_or(&NOTHING);
        let place = self.record.paths.first_own(detail.frames.iter().map(|f| (f.0.as_str(), f.1, f.2)));
        let (file, line) = match place {
            Some((file, line, _)) => (Some(file), Some(line)),
            None => (detail.file.clone().filter(|file| !file.is_empty()), case.line),
        };
        let compared = detail.expected.is_some() && detail.actual.is_some();
        let output = detail
            .output
            .as_deref()
            .or(printed.as_deref())
            .map(|text| strip_ansi(text).trim_end().to_owned());
        Failure {
            name: self.name(&id.path),
            file: file.or_else(|| id.unit.contains('.').then(|| id.unit.clone())),
            id,
            line,
            message: message(&detail.message, compared),
            expected: detail.expected.as_deref().map(value),
            actual: detail.actual.as_deref().map(value),
            output: output.filter(|text| !text.is_empty()).map(|text| bound(&text, OUTPUT)),
            kind: detail.kind,
        }
    }

    fn problems(&mut self) {
        let mut known = HashSet::new();
        for told in &self.record.problems {
            let mut place = self.record.paths.first_own(told.frames.iter().map(|f| (f.0.as_str(), f.1, f.2)));
            let mut message = told.message.clone();
            for text in [Some(&told.message), told.output.as_ref()].into_iter().flatten() {
                let found = locate(text, &self.record.paths);
                // A runner that only says that a file failed leaves the reason to what was printed.
                if message.is_empty() || message == "test failed" || text.contains("Details:\n\n") {
                    message = found.message;
                }
                place = place.or(found.place);
            }
            if told.kind == ProblemKind::Crash && message == "test failed" {
                message = "the test process died".to_owned();
            }
            if let Some(signal) = &told.signal {
                message = format!("{message} (killed by {signal})");
            }
            let (file, line, col) = match place {
                Some((file, line, col)) => (Some(file), Some(line), Some(col).filter(|col| *col > 0)),
                None => (told.unit.clone().filter(|unit| !unit.is_empty()), None, None),
            };
            let problem =
                Problem { kind: told.kind, file, line, col, message: bound(message.trim(), MESSAGE) };
            if known.insert(problem.clone()) {
                self.run.problems.push(problem);
            }
        }
    }

    /// Tests that began and did not end.
    fn unfinished(&mut self) {
        let over = self.record.runs.iter().all(|run| run.ended);
        let (kind, message) = match self.end {
            End::TimedOut => (FailureKind::TimedOut, "did not end in time".to_owned()),
            End::Cancelled => return,
            _ if over => return,
            _ => (FailureKind::Crashed, format!("the process ended during this test ({})", self.how())),
        };
        let mut named = false;
        for unit in &self.record.units {
            // The innermost of those that began inside one another is the one that was running.
            let begun: Vec<Vec<String>> = unit.begun.iter().map(Path::parts).collect();
            let running = begun.iter().filter(|path| {
                !begun.iter().any(|other| other.len() > path.len() && other.starts_with(path))
            });
            for path in running {
                let id = TestId { unit: unit.name.clone(), path: path.clone() };
                let detail = super::record::Detail { message: message.clone(), kind, ..Default::default() };
                let case = Case { detail: Some(Box::new(detail)), ..Case::default() };
                let failure = self.failure(id, &case, None);
                self.run.failures.push(failure);
                self.run.failed += 1;
                named = true;
            }
        }
        if named {
            return;
        }
        let open: Vec<&str> = self.record.units.iter().filter(|u| u.open).map(|u| u.name.as_str()).collect();
        for unit in open {
            let problem = Problem {
                kind: ProblemKind::Crash,
                file: Some(unit.to_owned()),
                line: None,
                col: None,
                message: message.replace("this test", "this file"),
            };
            self.run.problems.push(problem);
            named = true;
        }
        if !named && *self.end != End::TimedOut {
            let stopped = self
                .record
                .runs
                .iter()
                .find(|run| !run.ended)
                .map_or(self.runner, |run| run.name(self.runner));
            self.broken(stopped);
        }
    }

    /// The runner was there and told nothing, or stopped telling.
    fn broken(&mut self, runner: &str) {
        let started = self.record.runs.iter().any(|run| run.started);
        let Located { message, place } = locate(&self.printed, &self.record.paths);
        let (file, line, col) = match place {
            Some((file, line, col)) => (Some(file), Some(line), Some(col).filter(|col| *col > 0)),
            None => (None, None, None),
        };
        let kind = match (started, self.end, &file) {
            (false, End::Exited(0), _) => ProblemKind::Crash,
            (false, End::Exited(_), Some(_)) => ProblemKind::Collection,
            (false, End::Exited(_), None) => ProblemKind::Config,
            _ => ProblemKind::Crash,
        };
        let message = if kind == ProblemKind::Crash {
            let last = self.printed.lines().last().unwrap_or_default();
            format!("{runner} ended without a result ({}): {}", self.how(), bound(last.trim(), 300))
        } else if kind == ProblemKind::Config {
            bound(&self.printed, MESSAGE)
        } else {
            message
        };
        self.run.problems.push(Problem { kind, file, line, col, message });
    }

    fn how(&self) -> String {
        match self.end {
            End::Exited(code) => format!("exit {code}"),
            End::Signaled(signal) => format!("signal {signal}"),
            End::TimedOut => "timed out".to_owned(),
            End::Cancelled => "cancelled".to_owned(),
            End::OutOfMemory => "out of memory".to_owned(),
        }
    }

    /// No runner of ours was reached.
    fn no_report(&mut self) {
        if matches!(self.end, End::TimedOut | End::Cancelled) {
            return;
        }
        match self.memo.test_part {
            _ if self.memo.parts.is_empty() => self.broken(self.runner),
            Some(part) if *self.end != End::Exited(0) && part > 0 => {
                let parts = self.memo.parts.get(..part).unwrap_or_default();
                self.blame(parts, "before the tests");
            }
            _ => self.broken(self.runner),
        }
    }

    /// The tests are told; the rest of the script may have failed.
    fn script(&mut self) {
        let quiet = self.run.failures.is_empty() && self.run.problems.is_empty();
        let End::Exited(code) = *self.end else { return };
        if code == 0 || !quiet || self.stray_failures || self.run.passed + self.run.skipped == 0 {
            return;
        }
        let clean = self.record.runs.iter().all(|run| run.exit.is_none_or(|code| code == 0));
        let part = self.memo.test_part.unwrap_or(0);
        let after = self.memo.parts.get(part + 1..).unwrap_or_default();
        let before = self.memo.parts.get(..part).unwrap_or_default();
        if clean && !after.is_empty() {
            self.blame(after, "after the tests passed");
        } else if clean && !before.is_empty() && after.is_empty() {
            self.blame(&self.memo.parts, "although the tests passed");
        } else {
            let whole = self.memo.parts.get(part).cloned().unwrap_or_else(|| self.runner.to_owned());
            self.blame(std::slice::from_ref(&whole), "although every test passed");
        }
    }

    fn blame(&mut self, parts: &[String], when: &str) {
        let parts: Vec<String> = parts.iter().map(|part| format!("`{part}`")).collect();
        let Located { place, .. } = locate(&self.printed, &self.record.paths);
        let (file, line, col) = match place {
            Some((file, line, col)) => (Some(file), Some(line), Some(col).filter(|col| *col > 0)),
            None => (None, None, None),
        };
        let printed = self.printed.lines().rev().take(12).collect::<Vec<_>>();
        let printed = printed.into_iter().rev().collect::<Vec<_>>().join("\n");
        self.run.problems.push(Problem {
            kind: ProblemKind::Script,
            file,
            line,
            col,
            message: format!(
                "{} failed {when} ({}):\n{}",
                parts.join(" or "),
                self.how(),
                bound(&printed, 800)
            ),
        });
    }

    fn missing(&mut self) {
        if !self.selected() {
            return;
        }
        let ids: Vec<TestId> = self.record.units.iter().flat_map(Unit::ran).collect();
        let ran = |wanted: &dyn Fn(&TestId) -> bool| ids.iter().any(wanted);
        for id in &self.memo.only {
            let found = ran(&|TestId { unit, path }| {
                id.unit == *unit && (path.starts_with(&id.path) || id.path.starts_with(path))
            });
            if !found {
                self.run.missing.push(format!("{} ({})", self.name(&id.path), id.unit));
            }
        }
        for name in &self.memo.names {
            if !ran(&|id| means(name, id)) {
                self.run.missing.push(name.clone());
            }
        }
    }

    fn incomplete(&mut self) {
        self.run.incomplete = match self.end {
            End::TimedOut if self.memo.timeout_seconds > 0 => {
                Some(format!("timed out after {}s", self.memo.timeout_seconds))
            }
            End::TimedOut => Some("timed out".to_owned()),
            End::Cancelled => Some("cancelled".to_owned()),
            End::OutOfMemory => Some("out of memory".to_owned()),
            _ => self.record.runs.iter().find_map(Run::stopped_early),
        };
    }
}

/// Whether a name, as a person gives it, means a test: its file, its folder, its name or a part of it.
fn means(name: &str, id: &TestId) -> bool {
    let path = name.trim_end_matches('/').trim_start_matches("./");
    if id.unit == path || id.unit.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')) {
        return true;
    }
    let plain = name.replace(" > ", " ").replace(" › ", " ");
    id.path.join(" ").contains(&plain)
        || format!("{}::{}", id.unit, id.path.join("::")).contains(name)
        || format!("{}.{}", id.unit, id.path.join(".")).contains(name)
}

/// Whether one of the selected is an enclosing unit of this test.
fn within(only: &HashSet<&TestId>, id: &TestId) -> bool {
    (0..id.path.len()).any(|length| {
        let above = TestId { unit: id.unit.clone(), path: id.path[..length].to_vec() };
        only.contains(&above)
    })
}

/// The message without what `expected` and `actual` say already.
fn message(text: &str, compared: bool) -> String {
    let text = strip_ansi(text);
    let text = text.trim();
    if !compared {
        return bound(text, MESSAGE);
    }
    let first = text.lines().next().unwrap_or_default();
    let first = first.split(" // ").next().unwrap_or(first);
    bound(first.trim_end_matches(':'), MESSAGE)
}

/// A value on one line when it fits.
pub(crate) fn value(text: &str) -> String {
    let text = strip_ansi(text);
    let structured = text.starts_with(['{', '[', '(']) && text.contains('\n');
    if structured {
        let flat = text.lines().map(str::trim).collect::<Vec<_>>().join(" ");
        if flat.len() <= 200 {
            return flat;
        }
    }
    bound(&text, VALUE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_flat_when_short() {
        assert_eq!(value("{\n  \"a\": 1,\n}"), "{ \"a\": 1, }");
        assert_eq!(value("two\nlines"), "two\nlines");
    }

    #[test]
    fn a_message_does_not_repeat_what_was_compared() {
        assert_eq!(message("expected 2 to be 3 // Object.is equality", true), "expected 2 to be 3");
        assert_eq!(message("Expected values to be equal:\n\n2 !== 3\n", true), "Expected values to be equal");
        assert_eq!(message("a\nb", false), "a\nb");
    }
}
