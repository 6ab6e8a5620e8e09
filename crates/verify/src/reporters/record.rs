//! What the events of one command add up to, while they come.

use super::Paths;
use crate::{FailureKind, ProblemKind, Progress};
use serde::Deserialize;
use std::{borrow::Cow, collections::HashMap};

/// One line of the report.
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
    path: Vec<String>,
    #[serde(borrow)]
    state: Cow<'a, str>,
    line: Option<u32>,
    whole: bool,
    #[serde(borrow)]
    phase: Option<Cow<'a, str>>,
    #[serde(borrow)]
    kind: Option<Cow<'a, str>>,
    message: Option<String>,
    expected: Option<String>,
    actual: Option<String>,
    frames: Vec<Frame>,
    output: Option<String>,
    text: Option<String>,
    code: Option<i32>,
    signal: Option<String>,
    stopped: Option<serde_json::Value>,
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
    pub path: Vec<String>,
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
    pub begun: Vec<Vec<String>>,
    pub open: bool,
    /// Something went wrong in it beyond its tests.
    pub dead: bool,
    output: Vec<(u32, String)>,
}

impl Unit {
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
            failed: 0,
        }
    }

    pub(super) fn progress(&self) -> Progress {
        let cases = || self.units.iter().flat_map(|unit| &unit.cases);
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let totals: Vec<u32> = self.runs.iter().filter_map(|run| run.total).collect();
        Progress {
            done: count(cases().count()),
            failed: count(cases().filter(|case| case.state == State::Fail).count()),
            total: (!totals.is_empty())
                .then(|| totals.iter().fold(0_u32, |sum, one| sum.saturating_add(*one))),
        }
    }

    /// The unit of that name.
    fn unit(&mut self, path: &str) -> &mut Unit {
        let at = match self.index.get(path) {
            Some(at) => *at,
            None => {
                let name = self.paths.relative(path);
                self.index.insert(path.to_owned(), self.units.len());
                self.units.push(Unit { name, ..Unit::default() });
                self.units.len() - 1
            }
        };
        &mut self.units[at]
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
            "begin" => {
                let path = event.path;
                self.unit(unit).begun.push(path);
            }
            "group" => ended(self.unit(unit), &event.path),
            "unit" => {
                let unit = self.unit(unit);
                *unit = Unit { name: std::mem::take(&mut unit.name), ..Unit::default() };
            }
            "output" => {
                let (line, text) = (event.line.unwrap_or(0), event.text.unwrap_or_default());
                self.unit(unit).output.push((line, text));
            }
            "test" => self.test(event),
            "problem" => self.problem(event),
            "end" => {
                let run = self.run(&event.run);
                run.ended = true;
                run.stopped = event.stopped.filter(|why| !why.is_null()).map(|why| match why {
                    serde_json::Value::String(why) => why,
                    _ => "interrupted".to_owned(),
                });
            }
            "exit" => self.run(&event.run).exit = event.code,
            _ => {}
        }
    }

    fn test(&mut self, event: Event<'_>) {
        let state = match event.state.as_ref() {
            "pass" => State::Pass,
            "skip" => State::Skip,
            _ => State::Fail,
        };
        let name = event.unit.as_deref().unwrap_or_default().to_owned();
        let kind = match event.kind.as_deref() {
            Some("error") => FailureKind::Error,
            Some("timed_out") => FailureKind::TimedOut,
            _ => FailureKind::Failed,
        };
        let before = self.failed;
        self.failed += usize::from(state == State::Fail);
        let unit = self.unit(&name);
        ended(unit, &event.path);
        let detail = (state == State::Fail && before < crate::model::DETAILED).then(|| {
            let message = event.message.unwrap_or_default();
            let message = match event.phase.as_deref() {
                Some(phase) => format!("{phase}: {message}"),
                None => message,
            };
            Box::new(Detail {
                message,
                expected: event.expected,
                actual: event.actual,
                frames: event.frames,
                output: event.output.filter(|text| !text.is_empty()),
                file: None,
                kind,
            })
        });
        let case = Case { path: event.path, state, line: event.line, whole: event.whole, detail };
        // A tear-down that fails takes back that its test passed.
        match unit.cases.last_mut() {
            Some(last) if event.phase.is_some() && last.path == case.path && last.state != State::Fail => {
                *last = case
            }
            _ => unit.cases.push(case),
        }
    }

    fn problem(&mut self, event: Event<'_>) {
        let kind = match event.kind.as_deref() {
            Some("crash") => ProblemKind::Crash,
            Some("config") => ProblemKind::Config,
            Some("build") => ProblemKind::Build,
            // A file whose process went wrong before or after its tests.
            Some("file") if event.signal.is_some() => ProblemKind::Crash,
            _ => ProblemKind::Collection,
        };
        let unit = event.unit.as_deref().map(|path| {
            self.unit(path).dead = true;
            self.paths.relative(path)
        });
        self.problems.push(Told {
            kind,
            unit,
            message: event.message.unwrap_or_default(),
            frames: event.frames,
            output: event.output,
            signal: event.signal,
        });
    }
}

/// Something that began is over; it is nearly always the last that began.
fn ended(unit: &mut Unit, path: &[String]) {
    if let Some(at) = unit.begun.iter().rposition(|begun| begun == path) {
        unit.begun.remove(at);
    }
}
