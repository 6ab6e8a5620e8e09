//! What the events of one command add up to, while they come.

use super::Paths;
use crate::{FailureKind, ProblemKind, Progress, TestId};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use std::{borrow::Cow, collections::HashMap};

/// One line of the report. Most tell of a test that passed, of which hardly anything is ever looked at: what is long
/// is found here and read when it is needed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Event<'a> {
    #[serde(borrow)]
    ev: Cow<'a, str>,
    #[serde(borrow)]
    run: Cow<'a, str>,
    #[serde(borrow)]
    runner: Option<Cow<'a, str>>,
    #[serde(borrow)]
    root: Option<Cow<'a, str>>,
    total: Option<u32>,
    #[serde(borrow)]
    unit: Option<Cow<'a, str>>,
    #[serde(borrow)]
    path: Raw<'a>,
    #[serde(borrow)]
    state: Cow<'a, str>,
    line: Option<u32>,
    whole: bool,
    #[serde(borrow)]
    phase: Option<Cow<'a, str>>,
    #[serde(borrow)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    message: Raw<'a>,
    #[serde(borrow)]
    expected: Raw<'a>,
    #[serde(borrow)]
    actual: Raw<'a>,
    #[serde(borrow)]
    frames: Raw<'a>,
    #[serde(borrow)]
    output: Raw<'a>,
    #[serde(borrow)]
    text: Raw<'a>,
    code: Option<i32>,
    #[serde(borrow)]
    signal: Raw<'a>,
    #[serde(borrow)]
    stopped: Raw<'a>,
}

/// A value as the report writes it.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(transparent)]
struct Raw<'a>(#[serde(borrow)] Option<&'a RawValue>);

impl<'a> Raw<'a> {
    fn written(self) -> &'a str {
        self.0.map_or("", RawValue::get)
    }

    fn read<T: DeserializeOwned>(self) -> Option<T> {
        read(self.0?.get())
    }

    fn text(self) -> String {
        self.read().unwrap_or_default()
    }
}

fn read<T: DeserializeOwned>(json: &str) -> Option<T> {
    let value = serde_json::from_str(json);
    value.or_else(|_| serde_json::from_str(&without_surrogates(json))).ok()
}

/// Half a surrogate pair is an escape that JSON has and text has not.
pub(super) fn without_surrogates(text: &str) -> Cow<'_, str> {
    if !text.contains("\\ud") && !text.contains("\\uD") {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\\u") {
        let escaped = rest[..at].bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1;
        let code = rest.get(at + 2..at + 6).and_then(|hex| u32::from_str_radix(hex, 16).ok());
        clean.push_str(&rest[..at]);
        match code {
            Some(0xD800..=0xDFFF) if !escaped => clean.push('\u{fffd}'),
            _ => clean.push_str(rest.get(at..at + 2).unwrap_or_default()),
        }
        let used = if matches!(code, Some(0xD800..=0xDFFF)) && !escaped { 6 } else { 2 };
        rest = &rest[at + used..];
    }
    clean.push_str(rest);
    Cow::Owned(clean)
}

/// A test's name from the outside in, as the report writes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Path(Box<str>);

impl Path {
    pub(super) fn parts(&self) -> Vec<String> {
        read(&self.0).unwrap_or_default()
    }
}

/// File, line and column.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Frame(pub String, pub u32, pub u32);

/// How a test ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum State {
    Pass,
    #[default]
    Fail,
    Skip,
}

/// What a failure brings.
#[derive(Debug, Clone)]
pub(super) struct Detail {
    pub message: String,
    pub expected: Option<String>,
    pub actual: Option<String>,
    pub frames: Vec<Frame>,
    pub output: Option<String>,
    pub file: Option<String>,
    pub kind: FailureKind,
}

impl Default for Detail {
    fn default() -> Self {
        Self {
            message: String::new(),
            expected: None,
            actual: None,
            frames: Vec::new(),
            output: None,
            file: None,
            kind: FailureKind::Failed,
        }
    }
}

/// One test that ended.
#[derive(Debug, Clone, Default)]
pub(super) struct Case {
    pub path: Path,
    pub state: State,
    pub line: Option<u32>,
    /// The runner tells of a whole file as if it were a test.
    pub whole: bool,
    pub detail: Option<Box<Detail>>,
}

/// One test file, or module.
#[derive(Debug, Default)]
pub(super) struct Unit {
    pub name: String,
    pub cases: Vec<Case>,
    pub begun: Vec<Path>,
    /// How many of the cases failed.
    failed: usize,
    pub open: bool,
    /// Something went wrong in it beyond its tests.
    pub dead: bool,
    output: Vec<(u32, String)>,
}

impl Unit {
    /// The tests that ran, or began to.
    pub(super) fn ran(&self) -> impl Iterator<Item = TestId> {
        let ended = self.cases.iter().filter(|case| case.state != State::Skip).map(|case| &case.path);
        let all = ended.chain(&self.begun);
        all.map(|path| TestId { unit: self.name.clone(), path: path.parts() })
    }

    /// What was printed, in the order of the lines that printed it.
    pub(super) fn outputs(&self) -> Outputs<'_> {
        let mut printed: Vec<(u32, &str)> =
            self.output.iter().map(|(line, text)| (*line, text.as_str())).collect();
        printed.sort_by_key(|(line, _)| *line);
        let mut starts = Vec::new();
        if !printed.is_empty() {
            starts.extend(self.cases.iter().filter_map(|case| case.line));
            starts.sort_unstable();
        }
        Outputs { printed, starts }
    }
}

/// What the tests of a file printed.
pub(super) struct Outputs<'a> {
    printed: Vec<(u32, &'a str)>,
    /// The lines at which tests begin, sorted.
    starts: Vec<u32>,
}

impl Outputs<'_> {
    /// What was printed from the lines between this test's first and the next test's.
    pub(super) fn of(&self, case: &Case) -> Option<String> {
        let start = case.line.filter(|_| !self.printed.is_empty())?;
        let next = self.starts.get(self.starts.partition_point(|line| *line <= start));
        let from = self.printed.partition_point(|(line, _)| *line < start);
        let to =
            next.map_or(self.printed.len(), |next| self.printed.partition_point(|(line, _)| line < next));
        let text: String = self.printed[from..to.max(from)].iter().map(|(_, text)| *text).collect();
        (!text.is_empty()).then_some(text)
    }
}

/// One process of a runner.
#[derive(Debug, Default)]
pub(super) struct Run {
    id: String,
    runner: Option<String>,
    pub started: bool,
    pub ended: bool,
    pub exit: Option<i32>,
    total: Option<u32>,
    stopped: Option<String>,
}

impl Run {
    pub(super) fn name<'a>(&'a self, otherwise: &'a str) -> &'a str {
        self.runner.as_deref().unwrap_or(otherwise)
    }

    /// Why it did not run all its tests, when it chose not to (`--bail`, `-x`).
    pub(super) fn stopped_early(&self) -> Option<String> {
        self.stopped.as_ref().map(|why| format!("{} stopped early: {why}", self.name("the runner")))
    }
}

/// Something that belongs to no test.
#[derive(Debug)]
pub(super) struct Told {
    pub kind: ProblemKind,
    pub unit: Option<String>,
    pub message: String,
    pub frames: Vec<Frame>,
    pub output: Option<String>,
    pub signal: Option<String>,
}

/// Everything the events said.
#[derive(Debug)]
pub(super) struct Record {
    pub paths: Paths,
    pub runs: Vec<Run>,
    pub units: Vec<Unit>,
    pub problems: Vec<Told>,
    index: HashMap<String, usize>,
    /// Whose events came last, as they name it: most come in a row.
    latest: (String, usize),
    /// Tests that failed so far.
    failed: usize,
}

impl Record {
    pub(super) fn new(paths: Paths) -> Self {
        Self {
            paths,
            runs: Vec::new(),
            units: Vec::new(),
            problems: Vec::new(),
            index: HashMap::new(),
            latest: (String::new(), usize::MAX),
            failed: 0,
        }
    }

    pub(super) fn progress(&self) -> Progress {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let totals: Vec<u32> = self.runs.iter().filter_map(|run| run.total).collect();
        Progress {
            done: count(self.units.iter().map(|unit| unit.cases.len()).sum()),
            failed: count(self.units.iter().map(|unit| unit.failed).sum()),
            total: (!totals.is_empty())
                .then(|| totals.iter().fold(0_u32, |sum, one| sum.saturating_add(*one))),
        }
    }

    /// The unit of that name.
    fn unit(&mut self, path: &str) -> &mut Unit {
        if self.latest.0 != path || self.latest.1 == usize::MAX {
            let at = match self.index.get(path) {
                Some(at) => *at,
                None => {
                    let name = self.paths.relative(path);
                    self.index.insert(path.to_owned(), self.units.len());
                    self.units.push(Unit { name, ..Unit::default() });
                    self.units.len() - 1
                }
            };
            self.latest = (path.to_owned(), at);
        }
        &mut self.units[self.latest.1]
    }

    fn run(&mut self, id: &str) -> &mut Run {
        let at = self.runs.iter().position(|run| run.id == id).unwrap_or_else(|| {
            self.runs.push(Run { id: id.to_owned(), ..Run::default() });
            self.runs.len() - 1
        });
        &mut self.runs[at]
    }

    pub(super) fn take(&mut self, event: Event<'_>) {
        let unit = event.unit.as_deref().unwrap_or_default();
        match event.ev.as_ref() {
            "found" | "start" => {
                if let Some(root) = &event.root {
                    self.paths.add(root);
                }
                let run = self.run(&event.run);
                run.started |= event.ev == "start";
                run.total = event.total.or(run.total);
                if let Some(runner) = event.runner {
                    run.runner = Some(runner.into_owned());
                }
            }
            "total" => self.run(&event.run).total = event.total,
            "open" => self.unit(unit).open = true,
            "close" => self.unit(unit).open = false,
            "begin" => self.unit(unit).begun.push(Path(event.path.written().into())),
            "group" => drop(ended(self.unit(unit), event.path)),
            "unit" => {
                let unit = self.unit(unit);
                *unit = Unit { name: std::mem::take(&mut unit.name), ..Unit::default() };
            }
            "output" => {
                let (line, text) = (event.line.unwrap_or(0), event.text.text());
                self.unit(unit).output.push((line, text));
            }
            "test" => self.test(&event),
            "problem" => self.problem(&event),
            "end" => {
                let run = self.run(&event.run);
                run.ended = true;
                run.stopped =
                    event.stopped.0.map(|_| event.stopped.read().unwrap_or_else(|| "interrupted".to_owned()));
            }
            "exit" => self.run(&event.run).exit = event.code,
            _ => {}
        }
    }

    fn test(&mut self, event: &Event<'_>) {
        let state = match event.state.as_ref() {
            "pass" => State::Pass,
            "skip" => State::Skip,
            _ => State::Fail,
        };
        let kind = match event.kind.as_deref() {
            Some("error") => FailureKind::Error,
            Some("timed_out") => FailureKind::TimedOut,
            _ => FailureKind::Failed,
        };
        let before = self.failed;
        self.failed += usize::from(state == State::Fail);
        let unit = self.unit(event.unit.as_deref().unwrap_or_default());
        let path = ended(unit, event.path).unwrap_or_else(|| Path(event.path.written().into()));
        let detail = (state == State::Fail && before < crate::model::DETAILED).then(|| {
            let message = event.message.text();
            let message = match event.phase.as_deref() {
                Some(phase) => format!("{phase}: {message}"),
                None => message,
            };
            Box::new(Detail {
                message,
                expected: event.expected.read(),
                actual: event.actual.read(),
                frames: event.frames.read().unwrap_or_default(),
                output: event.output.read().filter(|text: &String| !text.is_empty()),
                file: None,
                kind,
            })
        });
        let case = Case { path, state, line: event.line, whole: event.whole, detail };
        unit.failed += usize::from(state == State::Fail);
        // A tear-down that fails takes back that its test passed.
        match unit.cases.last_mut() {
            Some(last) if event.phase.is_some() && last.path == case.path && last.state != State::Fail => {
                *last = case
            }
            _ => unit.cases.push(case),
        }
    }

    fn problem(&mut self, event: &Event<'_>) {
        let kind = match event.kind.as_deref() {
            Some("crash") => ProblemKind::Crash,
            Some("config") => ProblemKind::Config,
            Some("build") => ProblemKind::Build,
            // A file whose process went wrong before or after its tests.
            Some("file") if event.signal.0.is_some() => ProblemKind::Crash,
            _ => ProblemKind::Collection,
        };
        let unit = event.unit.as_deref().map(|path| {
            self.unit(path).dead = true;
            self.paths.relative(path)
        });
        self.problems.push(Told {
            kind,
            unit,
            message: event.message.text(),
            frames: event.frames.read().unwrap_or_default(),
            output: event.output.read(),
            signal: event.signal.read(),
        });
    }
}

/// Something that began is over; it is nearly always the last that began.
fn ended(unit: &mut Unit, path: Raw<'_>) -> Option<Path> {
    let at = unit.begun.iter().rposition(|begun| *begun.0 == *path.written())?;
    Some(unit.begun.remove(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_surrogate_pair_does_not_cost_the_text() {
        assert_eq!(without_surrogates(r#""a\ud800b""#), "\"a\u{fffd}b\"");
        assert_eq!(without_surrogates(r#""a\\ud800b\u00e9""#), r#""a\\ud800b\u00e9""#);
        assert_eq!(read::<String>(r#""a\ud800b""#).as_deref(), Some("a\u{fffd}b"));
    }
}
