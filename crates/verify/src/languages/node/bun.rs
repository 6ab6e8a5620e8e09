//! What `bun test` reports: JUnit XML at the end, and lines for people while it runs.

use crate::{
    End, Facts, Failure, FailureKind, Plan, Problem, ProblemKind, Progress, Stream, TestId, TestReader,
    TestRun,
    junit::{self, Case, CaseEnd},
    reporters::{Memo, Paths, locate, value},
    text::{Lines, bound, lossy, strip_ansi},
};
use std::collections::BTreeSet;

/// Reads one run of bun.
pub(super) struct BunReader {
    memo: Memo,
    paths: Paths,
    lines: Lines,
    report: Vec<u8>,
    told: Vec<Told>,
    /// Lines since the last result.
    since: Vec<String>,
    file: String,
    printed: Vec<String>,
}

/// A test that the lines told of.
struct Told {
    file: String,
    name: String,
    passed: bool,
    output: String,
}

/// How many of the printed lines are kept.
const PRINTED: usize = 200;
impl BunReader {
    pub(super) fn new(plan: &Plan, facts: &dyn Facts) -> Self {
        Self {
            memo: serde_json::from_value(plan.memo.clone()).unwrap_or_default(),
            paths: Paths::new(&facts.root().to_string_lossy()),
            lines: Lines::default(),
            report: Vec::new(),
            told: Vec::new(),
            since: Vec::new(),
            file: String::new(),
            printed: Vec::new(),
        }
    }
}

/// The name in a line such as `(fail) group > name [1.20ms]`.
fn result(line: &str) -> Option<(&str, bool)> {
    let (name, passed) = match line.strip_prefix("(pass) ") {
        Some(name) => (name, true),
        None => (line.strip_prefix("(fail) ")?, false),
    };
    let timed = name.rsplit_once(" [").filter(|(_, time)| time.ends_with("ms]") || time.ends_with("s]"));
    Some((timed.map_or(name, |(name, _)| name), passed))
}

impl TestReader for BunReader {
    fn feed(&mut self, stream: Stream, bytes: &[u8]) {
        match stream {
            Stream::Report => self.report.extend_from_slice(bytes),
            _ => {
                let mut lines = std::mem::take(&mut self.lines);
                lines.feed(bytes, |line| self.line(&strip_ansi(&lossy(line))));
                self.lines = lines;
            }
        }
    }

    fn progress(&self) -> Progress {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Progress {
            done: count(self.told.len()),
            failed: count(self.told.iter().filter(|one| !one.passed).count()),
            total: None,
        }
    }

    fn finish(mut self: Box<Self>, end: &End, _facts: &dyn Facts) -> TestRun {
        let mut last = Vec::new();
        self.lines.end(|line| last.extend_from_slice(line));
        if !last.is_empty() {
            self.printed.push(String::from_utf8_lossy(&last).into_owned());
        }
        let mut told = TestRun { notes: self.memo.notes.clone(), ..TestRun::default() };
        let only: BTreeSet<&TestId> = self.memo.only.iter().collect();
        let (mut neighbours, mut ran) = (0, BTreeSet::new());
        let complete = junit::each(&self.report, |case| {
            neighbours += u32::from(!self.count(case, &only, &mut told));
            if self.selects() && case.end != CaseEnd::Skipped {
                ran.insert(self.identify(case));
            }
        });
        let mut run = TestRun { notes: self.memo.notes.clone(), ..TestRun::default() };
        if complete {
            run = told;
            run.failed = u32::try_from(run.failures.len()).unwrap_or(u32::MAX);
            if neighbours > 0 {
                run.notes.push(format!("{neighbours} more ran than were asked for; they are not counted"));
            }
            self.beyond_tests(end, &mut run);
        } else {
            self.read_lines(end, &mut run);
        }
        self.missing(&ran, &mut run);
        run
    }
}

impl BunReader {
    fn line(&mut self, line: &str) {
        if let Some((name, passed)) = result(line) {
            let output = if passed { String::new() } else { printed_by_test(&self.since) };
            self.since.clear();
            self.told.push(Told { file: self.file.clone(), name: name.to_owned(), passed, output });
        } else if let Some(name) =
            line.strip_suffix(':').filter(|name| name.contains('.') && !name.contains(' '))
        {
            self.file = name.to_owned();
            self.since.clear();
        } else {
            self.since.push(bound(line, 500));
            if self.since.len() > PRINTED {
                self.since.remove(0);
            }
        }
        if self.printed.len() >= PRINTED {
            self.printed.remove(0);
        }
        self.printed.push(bound(line, 500));
    }

    fn selects(&self) -> bool {
        !self.memo.only.is_empty() || !self.memo.names.is_empty()
    }

    /// Counts a case; false when it ran though it was not asked for.
    fn count(&self, case: &Case, only: &BTreeSet<&TestId>, run: &mut TestRun) -> bool {
        if only.is_empty() && case.end == CaseEnd::Passed {
            run.passed += 1;
            return true;
        }
        let id = self.identify(case);
        if !only.is_empty() && !only.contains(&id) {
            return case.end == CaseEnd::Skipped;
        }
        match case.end {
            CaseEnd::Passed => run.passed += 1,
            CaseEnd::Skipped if self.selects() => {}
            CaseEnd::Skipped => run.skipped += 1,
            CaseEnd::Failed | CaseEnd::Error if run.failures.len() < crate::model::DETAILED => {
                run.failures.push(self.failure(id, case));
            }
            CaseEnd::Failed | CaseEnd::Error => run.failures.push(bare(id)),
        }
        true
    }

    /// The first suite is the file; the others are what `describe` names.
    fn identify(&self, case: &Case) -> TestId {
        let unit = case.file.clone().or_else(|| case.suites.first().cloned()).unwrap_or_default();
        let mut path: Vec<String> = case.suites.iter().skip(1).cloned().collect();
        path.push(case.name.clone());
        TestId { unit: self.paths.relative(&unit), path }
    }

    fn failure(&self, id: TestId, case: &Case) -> Failure {
        let text = strip_ansi(if case.text.is_empty() { &case.message } else { &case.text }).into_owned();
        let place = locate(&text, &self.paths).place;
        let message = strip_ansi(if case.message.is_empty() { &text } else { &case.message }).into_owned();
        let (expected, actual) = compared(&message);
        let message = match (&expected, message.lines().next()) {
            (Some(_), Some(first)) => first.to_owned(),
            _ => bound(message.trim(), 1200),
        };
        let (name, unit) = (id.path.join(" > "), id.unit.clone());
        Failure {
            name: name.clone(),
            file: Some(place.as_ref().map_or_else(|| id.unit.clone(), |(file, ..)| file.clone())),
            line: place.map(|(_, line, _)| line).or(case.line),
            id,
            message,
            expected,
            actual,
            output: self.output_of(&name, &unit),
            kind: FailureKind::Failed,
        }
    }

    fn output_of(&self, name: &str, file: &str) -> Option<String> {
        let told = self.told.iter().find(|one| one.name == name && one.file.ends_with(file))?;
        Some(bound(&told.output, 1500)).filter(|output| !output.is_empty())
    }

    /// Errors between tests, and a code that no failure explains.
    fn beyond_tests(&self, end: &End, run: &mut TestRun) {
        let text = self.printed.join("\n");
        for part in text.split("# Unhandled error between tests").skip(1) {
            let part = part.split("\n-----").nth(1).unwrap_or(part);
            self.problem(ProblemKind::Collection, part, run);
        }
        match end {
            End::Exited(0) => {}
            End::Exited(code) if run.failures.is_empty() && run.problems.is_empty() && run.passed > 0 => {
                let parts: Vec<String> = self.memo.parts.iter().map(|part| format!("`{part}`")).collect();
                let parts = if parts.is_empty() { "bun test".to_owned() } else { parts.join(" or ") };
                let message =
                    format!("{parts} failed although every test passed (exit {code}):\n{}", self.tail());
                run.problems.push(Problem {
                    kind: ProblemKind::Script,
                    file: None,
                    line: None,
                    col: None,
                    message,
                });
            }
            End::Exited(_) => {}
            _ => self.read_end(end, run),
        }
    }

    fn tail(&self) -> String {
        let lines = &self.printed[self.printed.len().saturating_sub(12)..];
        bound(lines.join("\n").trim(), 800)
    }

    fn problem(&self, kind: ProblemKind, text: &str, run: &mut TestRun) {
        let found = locate(text, &self.paths);
        let (file, line, col) = match found.place {
            Some((file, line, col)) => (Some(file), Some(line), Some(col).filter(|col| *col > 0)),
            None => (None, None, None),
        };
        let message =
            text.lines().find_map(|line| line.strip_prefix("error: ")).map_or(found.message, str::to_owned);
        run.problems.push(Problem { kind, file, line, col, message });
    }

    /// Without a report the lines are all there is, and the run is not over.
    fn read_lines(&self, end: &End, run: &mut TestRun) {
        for Told { file: unit, name, passed, .. } in &self.told {
            if *passed {
                run.passed += 1;
                continue;
            }
            run.failed += 1;
            let path = name.split(" > ").map(str::to_owned).collect();
            let mut failure = bare(TestId { unit: unit.clone(), path });
            failure.message = "failed; bun ended before it reported why".to_owned();
            run.failures.push(failure);
        }
        self.read_end(end, run);
    }

    fn read_end(&self, end: &End, run: &mut TestRun) {
        let during = if self.file.is_empty() { None } else { Some(self.file.clone()) };
        let how = match end {
            End::TimedOut => {
                let after = self.memo.timeout_seconds;
                run.incomplete = Some(if after > 0 {
                    format!("timed out after {after}s")
                } else {
                    "timed out".to_owned()
                });
                "did not end in time".to_owned()
            }
            End::Cancelled => {
                run.incomplete = Some("cancelled".to_owned());
                return;
            }
            End::OutOfMemory => {
                run.incomplete = Some("out of memory".to_owned());
                "out of memory".to_owned()
            }
            End::Signaled(signal) => format!("bun was killed by signal {signal}"),
            End::Exited(code) => {
                // A file that cannot be loaded, a selection that matches nothing, or an exit in a test.
                let text = self.printed.join("\n");
                let failed = text.lines().any(|line| line.starts_with("error:"));
                if failed && during.is_none() {
                    self.problem(ProblemKind::Config, &text, run);
                    return;
                }
                format!("bun ended without a result (exit {code}): {}", self.tail())
            }
        };
        run.problems.push(Problem {
            kind: ProblemKind::Crash,
            file: during,
            line: None,
            col: None,
            message: how,
        });
    }

    fn missing(&self, ran: &BTreeSet<TestId>, run: &mut TestRun) {
        for id in self.memo.only.iter().filter(|id| !ran.contains(id)) {
            run.missing.push(format!("{} ({})", id.path.join(" > "), id.unit));
        }
        if !self.memo.names.is_empty() && run.passed + run.failed == 0 {
            run.missing.extend(self.memo.names.iter().cloned());
        }
    }
}

/// A failure of which only the name is told.
fn bare(id: TestId) -> Failure {
    let (name, file) = (id.path.join(" > "), Some(id.unit.clone()));
    Failure { file, ..Failure::new(id, name) }
}

/// What a test printed, before bun shows the code and the error.
fn printed_by_test(lines: &[String]) -> String {
    let code = |line: &String| {
        let number = line.trim_start().split(" | ").next().unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let own = lines.iter().take_while(|line| !code(line) && !line.starts_with("error: "));
    own.cloned().collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// What a matcher wanted and got: `Expected: 3` and `Received: 2`, or the lines of a diff.
fn compared(message: &str) -> (Option<String>, Option<String>) {
    let after = |start: &str| {
        message.lines().find_map(|line| line.strip_prefix(start)).map(|text| value(text.trim()))
    };
    let plain = (after("Expected: "), after("Received: "));
    if plain.0.is_some() && plain.1.is_some() {
        return plain;
    }
    let side = |mark: char| {
        let lines = message.lines().filter(|line| line.starts_with(mark) && !is_legend(line));
        let lines: Vec<&str> = lines.map(|line| line[1..].trim()).collect();
        (!lines.is_empty()).then(|| bound(&lines.join(" "), 600))
    };
    match (side('-'), side('+')) {
        (Some(expected), Some(actual)) => (Some(expected), Some(actual)),
        _ => (None, None),
    }
}

fn is_legend(line: &str) -> bool {
    line.starts_with("- Expected") || line.starts_with("+ Received")
}
