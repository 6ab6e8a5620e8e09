//! Reads nextest: its JUnit report at the end, its status lines while it runs.

use super::{diagnostics, failure};
use crate::{
    End, Facts, Failure, FailureKind, Kept, Lines, Plan, Problem, ProblemKind, Progress, Stream, TestId,
    TestReader, TestRun, bound,
    junit::{self, Case, CaseEnd},
    text::lossy,
};
use regex::Regex;
use std::{path::Path, sync::LazyLock};

#[expect(clippy::unwrap_used, reason = "the pattern is a constant, compiled by the tests")]
static STATUS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^ *(PASS|FAIL|LEAK|ABORT|TIMEOUT|SIG[A-Z]+|SLOW|SKIP)(?: [A-Z]+)? \[ *>? *[\d.]+s\] (?:\( *\d+/ *(\d+)\) )?(\S+) (.+)$").unwrap()
});

/// Bytes of a report that are read.
const REPORT: usize = 64 << 20;
/// The reader.
pub(super) struct Reader {
    lines: Lines,
    said: Kept,
    report: Vec<u8>,
    progress: Progress,
    ended: Vec<TestId>,
    failed: Vec<TestId>,
    slow: Vec<TestId>,
    wanted: Vec<TestId>,
}

impl Reader {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            lines: Lines::default(),
            said: Kept::new(64 << 10),
            report: Vec::new(),
            progress: Progress::default(),
            ended: Vec::new(),
            failed: Vec::new(),
            slow: Vec::new(),
            wanted: serde_json::from_value(plan.memo["only"].clone()).unwrap_or_default(),
        }
    }

    fn line(&mut self, line: &[u8]) {
        let text = lossy(line);
        let Some(parts) = STATUS.captures(&text) else { return self.said.push(&text) };
        let id = id(&parts[3], &parts[4]);
        match &parts[1] {
            "SLOW" => return self.slow.push(id),
            "SKIP" => return,
            "PASS" | "LEAK" => {}
            _ => {
                self.progress.failed += 1;
                self.failed.push(id.clone());
            }
        }
        self.progress.done += 1;
        self.progress.total = parts.get(2).and_then(|total| total.as_str().parse().ok());
        self.ended.push(id);
    }

    /// Without a report there are the status lines.
    fn read_status(&self, facts: &dyn Facts, run: &mut TestRun) {
        let mut failed = self.failed.clone();
        failed.sort();
        failed.dedup();
        let failed_count = u32::try_from(failed.len()).unwrap_or(u32::MAX);
        run.passed = self.progress.done.saturating_sub(self.progress.failed);
        run.failed = failed_count;
        run.failures.extend(failed.into_iter().map(|id| {
            let name = id.path.join("::");
            let mut failure = Failure::new(id, &name);
            (failure.file, failure.line) = failure::locate(facts, &source(&failure.id.unit), &name);
            failure.message = "failed; its output was lost with the report".to_owned();
            failure
        }));
        for id in self.slow.iter().filter(|id| !self.ended.contains(id)) {
            let name = id.path.join("::");
            if run.failures.iter().any(|failure| failure.id == *id) {
                continue;
            }
            let mut failure = Failure::new(id.clone(), &name);
            failure.kind = FailureKind::TimedOut;
            failure.message = "still running when the time was up".to_owned();
            (failure.file, failure.line) = failure::locate(facts, &source(&failure.id.unit), &name);
            run.failures.push(failure);
            run.failed += 1;
        }
    }
}

fn id(unit: &str, name: &str) -> TestId {
    TestId { unit: unit.to_owned(), path: name.split("::").map(str::to_owned).collect() }
}

/// The root file of a test binary, guessed from its id.
fn source(binary_id: &str) -> String {
    match binary_id.split_once("::") {
        None => "src/lib.rs".to_owned(),
        Some((_, rest)) => match rest.split_once('/') {
            Some(("bin", _)) => "src/main.rs".to_owned(),
            Some((kind, name)) => format!("{kind}s/{name}.rs"),
            None => format!("tests/{rest}.rs"),
        },
    }
}

impl TestReader for Reader {
    fn feed(&mut self, stream: Stream, bytes: &[u8]) {
        if stream == Stream::Report {
            let room = REPORT.saturating_sub(self.report.len());
            return self.report.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        let mut lines = std::mem::take(&mut self.lines);
        lines.feed(bytes, |line| self.line(line));
        self.lines = lines;
    }

    fn progress(&self) -> Progress {
        self.progress
    }

    fn finish(mut self: Box<Self>, end: &End, facts: &dyn Facts) -> TestRun {
        let mut lines = std::mem::take(&mut self.lines);
        lines.end(|line| self.line(line));
        let mut run = TestRun::default();
        let base = super::manifest::base(facts);
        let mut missing = self.wanted.clone();
        let complete = junit::each(&self.report, |case| {
            count(case, facts, &base, &mut run);
            missing.retain(|id| case.class != id.unit || case.name != id.path.join("::"));
        });
        if complete {
            run.failed = u32::try_from(run.failures.len()).unwrap_or(u32::MAX);
            // Tests run side by side: the order in which they ended is chance.
            run.failures.sort_by(|a, b| (&a.id.unit, &a.file, a.line).cmp(&(&b.id.unit, &b.file, b.line)));
            run.missing = missing.iter().map(|id| id.path.join("::")).collect();
        } else {
            run = TestRun::default();
            self.read_status(facts, &mut run);
        }
        self.judge(end, complete, facts, &mut run);
        run
    }
}

impl Reader {
    fn judge(&self, end: &End, reported: bool, facts: &dyn Facts, run: &mut TestRun) {
        let said = self.said.lines();
        let problem = |kind, message: String| Problem { kind, file: None, line: None, col: None, message };
        let words = || {
            let errors: Vec<&str> =
                said.iter().map(String::as_str).skip_while(|line| !line.starts_with("error")).collect();
            bound(errors.join("\n").trim(), 2000)
        };
        match end {
            End::TimedOut => run.incomplete = Some("timed out".to_owned()),
            End::Cancelled => run.incomplete = Some("cancelled".to_owned()),
            End::OutOfMemory => run.incomplete = Some("out of memory".to_owned()),
            End::Signaled(signal) => run.incomplete = Some(format!("nextest was killed by signal {signal}")),
            End::Exited(0 | 100) if reported => {
                if run.passed + run.failed + run.skipped == 0 {
                    run.notes.push("no tests found".to_owned());
                }
            }
            // Nothing matched: no report is written.
            End::Exited(4) => {
                run.missing = self.wanted.iter().map(|id| id.path.join("::")).collect();
                run.notes.push("no tests found".to_owned());
            }
            End::Exited(101) => {
                run.problems = diagnostics::human(&said, facts);
                if run.problems.is_empty() {
                    run.problems.push(problem(ProblemKind::Build, words()));
                }
            }
            End::Exited(104) => run.problems.push(problem(ProblemKind::Crash, words())),
            End::Exited(96) => run.problems.push(problem(ProblemKind::Config, words())),
            End::Exited(code) => run.problems.push(problem(
                ProblemKind::Crash,
                format!("nextest exited with {code} and left no report: {}", words()),
            )),
        }
    }
}

fn count(case: &Case, facts: &dyn Facts, base: &Path, run: &mut TestRun) {
    match case.end {
        CaseEnd::Passed if ended_early(case) => run.failures.push(early(case, facts, base)),
        CaseEnd::Passed => run.passed += 1,
        CaseEnd::Skipped => run.skipped += 1,
        CaseEnd::Failed | CaseEnd::Error if run.failures.len() < crate::model::DETAILED => {
            run.failures.push(read(case, facts, base));
        }
        CaseEnd::Failed | CaseEnd::Error => {
            run.failures.push(Failure::new(id(&case.class, &case.name), &case.name));
        }
    }
}

/// Whether a test that nextest takes for passed by its exit code never came to its end: the harness began,
/// and did not close.
fn ended_early(case: &Case) -> bool {
    let began = case.stdout.lines().any(|line| line == "running 1 test");
    let last = case.stdout.lines().rfind(|line| !line.trim().is_empty());
    began && !last.is_some_and(|line| line.starts_with("test result: ok. "))
}

fn early(case: &Case, facts: &dyn Facts, base: &Path) -> Failure {
    let mut failure = read(case, facts, base);
    failure.kind = FailureKind::Crashed;
    failure.message = "ended the test process before it was done (exit status: 0)".to_owned();
    failure
}

/// One failed case.
fn read(case: &Case, facts: &dyn Facts, base: &Path) -> Failure {
    let frame = |line: &&str| {
        line.trim().is_empty()
            || line.starts_with("running 1 test")
            || line.strip_prefix("test ").is_some_and(|rest| rest.starts_with(&case.name))
            || line.starts_with("test result: ")
            || *line == "failures:"
            || line.strip_prefix("    ") == Some(&case.name)
            || line.strip_prefix("---- ").is_some_and(|rest| rest.starts_with(&case.name))
    };
    let lines: Vec<String> = case
        .stdout
        .lines()
        .filter(|line| !frame(line))
        .chain(case.stderr.lines())
        .map(str::to_owned)
        .collect();
    let mut failure =
        failure::read(id(&case.class, &case.name), &case.name, &lines, &source(&case.class), facts, base);
    if case.kind.contains("abort") {
        failure.kind = FailureKind::Crashed;
        failure.message = bound(&case.message, 500);
    } else if case.kind.contains("timeout") {
        failure.kind = FailureKind::TimedOut;
        failure.message = bound(&case.message, 500);
    }
    failure
}
