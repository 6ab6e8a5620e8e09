//! Reads runners nobody knows: TAP and JUnit XML are recognised; anything else is shown, not counted.

use crate::{
    End, Facts, Failure, FailureKind, Kept, Lines, Problem, ProblemKind, Progress, Stream, TestId,
    TestReader, TestRun, bound,
    junit::{self, Case, CaseEnd},
    relative, strip_ansi,
    tap::Tap,
    text::lossy,
};

/// Bytes of a JUnit report that are read, and of output that is shown.
const XML: usize = 16 << 20;
const SHOWN: usize = 4000;

/// A reader for whatever a script of the project prints. `unit` names the command, for messages and reruns.
#[derive(Debug)]
pub struct UnknownReader {
    unit: String,
    stdout: Lines,
    stderr: Lines,
    tap: Tap,
    xml: Vec<u8>,
    in_xml: bool,
    kept: Kept,
}

impl UnknownReader {
    /// A reader of the output of `unit`.
    #[must_use]
    pub fn new(unit: &str) -> Self {
        Self {
            unit: unit.to_owned(),
            stdout: Lines::default(),
            stderr: Lines::default(),
            tap: Tap::default(),
            xml: Vec::new(),
            in_xml: false,
            kept: Kept::new(SHOWN),
        }
    }

    fn line(&mut self, line: &[u8]) {
        let text = lossy(line);
        let text = strip_ansi(&text);
        self.in_xml |= text.starts_with("<testsuite") || (text.starts_with("<?xml") && self.xml.is_empty());
        if self.in_xml && self.xml.len() < XML {
            self.xml.extend_from_slice(text.as_bytes());
            self.xml.push(b'\n');
            self.in_xml = !text.contains("</testsuites>");
        }
        self.tap.line(&text);
        self.kept.push(&text);
    }

    fn read_tap(&self, facts: &dyn Facts) -> TestRun {
        let count = |number| u32::try_from(number).unwrap_or(u32::MAX);
        let mut run = TestRun {
            passed: count(self.tap.passed()),
            skipped: count(self.tap.skipped()),
            ..TestRun::default()
        };
        run.failures.extend(self.tap.failures().iter().map(|point| {
            let mut failure = point.failure(&self.unit);
            failure.file = failure.file.map(|file| relative(facts.root(), facts.root(), &file));
            failure
        }));
        run.incomplete = self.tap.broken();
        run
    }

    /// The report, when there is one.
    fn read_junit(&self, facts: &dyn Facts) -> Option<TestRun> {
        let (mut run, mut count) = (TestRun::default(), 0);
        let complete = junit::each(&self.xml, |case| {
            count += 1;
            match case.end {
                CaseEnd::Passed => run.passed += 1,
                CaseEnd::Skipped => run.skipped += 1,
                CaseEnd::Failed | CaseEnd::Error => run.failures.push(case_failure(&self.unit, case, facts)),
            }
        });
        if !complete {
            run.incomplete = Some("the report is cut off".to_owned());
        }
        (complete || count > 0).then_some(run)
    }
}

fn case_failure(unit: &str, case: &Case, facts: &dyn Facts) -> Failure {
    let mut path = case.suites.clone();
    path.retain(|name| !name.is_empty());
    path.push(case.name.clone());
    let output = [case.stdout.trim_end(), case.stderr.trim_end()].join("\n");
    let output = output.trim_matches('\n');
    Failure {
        id: TestId { unit: unit.to_owned(), path },
        name: if case.class.is_empty() { case.name.clone() } else { format!("{} {}", case.class, case.name) },
        file: case.file.as_ref().map(|file| relative(facts.root(), facts.root(), file)),
        line: case.line,
        message: bound(if case.message.is_empty() { case.text.trim() } else { &case.message }, 2000),
        expected: None,
        actual: None,
        output: (!output.is_empty()).then(|| bound(output, 2000)),
        kind: if case.end == CaseEnd::Error { FailureKind::Error } else { FailureKind::Failed },
    }
}

impl TestReader for UnknownReader {
    fn feed(&mut self, stream: Stream, bytes: &[u8]) {
        let source = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
            Stream::Report => {
                let room = XML.saturating_sub(self.xml.len());
                return self.xml.extend_from_slice(&bytes[..bytes.len().min(room)]);
            }
        };
        let mut lines = std::mem::take(source);
        lines.feed(bytes, |line| self.line(line));
        match stream {
            Stream::Stderr => self.stderr = lines,
            _ => self.stdout = lines,
        }
    }

    fn progress(&self) -> Progress {
        let count = |number| u32::try_from(number).unwrap_or(u32::MAX);
        let (done, failed) = (count(self.tap.count()), count(self.tap.failures().len()));
        Progress { done, failed, total: None }
    }

    fn finish(mut self: Box<Self>, end: &End, facts: &dyn Facts) -> TestRun {
        for mut lines in [std::mem::take(&mut self.stdout), std::mem::take(&mut self.stderr)] {
            lines.end(|line| self.line(line));
        }
        let mut run = if let Some(run) = self.read_junit(facts) {
            run
        } else if self.tap.recognised() {
            self.read_tap(facts)
        } else {
            let shown = self.kept.lines().join("\n");
            let what =
                format!("the results of {} could not be read; it printed:\n{}", self.unit, shown.trim());
            TestRun { unread: Some(what), ..TestRun::default() }
        };
        run.failed = u32::try_from(run.failures.len()).unwrap_or(u32::MAX);
        match end {
            End::Exited(0) => {}
            End::Exited(code) if run.failures.is_empty() && run.unread.is_none() => {
                run.problems.push(Problem {
                    kind: ProblemKind::Script,
                    file: None,
                    line: None,
                    col: None,
                    message: format!("{} exited with {code} though no test failed", self.unit),
                })
            }
            End::Exited(_) => {}
            End::Signaled(signal) => run.incomplete = Some(format!("killed by signal {signal}")),
            End::TimedOut => run.incomplete = Some("timed out".to_owned()),
            End::Cancelled => run.incomplete = Some("cancelled".to_owned()),
            End::OutOfMemory => run.incomplete = Some("out of memory".to_owned()),
        }
        run
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MapFacts;

    fn read(text: &str, code: i32) -> TestRun {
        let mut reader = Box::new(UnknownReader::new("npm test"));
        text.as_bytes().chunks(5).for_each(|chunk| reader.feed(Stream::Stdout, chunk));
        reader.finish(&End::Exited(code), &MapFacts::default())
    }

    #[test]
    fn tap_and_junit_are_counted() {
        let run = read("> build\nTAP version 13\nok 1 a\nnot ok 2 b\n1..2\n", 1);
        assert_eq!((run.passed, run.failed, run.unread), (1, 1, None));
        let run = read(
            "log\n<testsuites><testsuite name=\"s\">\n<testcase name=\"a\"/>\n</testsuite></testsuites>\nbye\n",
            0,
        );
        assert_eq!((run.passed, run.failed), (1, 0));
        assert!(run.green());
    }

    #[test]
    fn anything_else_is_shown_and_not_counted() {
        for code in [0, 1] {
            let run = read("5 tests passed\n", code);
            assert_eq!((run.passed, run.failed), (0, 0));
            assert!(!run.green());
            assert!(run.unread.is_some_and(|text| text.contains("5 tests passed")));
        }
    }

    #[test]
    fn a_failed_script_after_green_tests_is_neither_green_nor_a_failed_test() {
        let run = read("TAP version 13\nok 1\n1..1\nlint: error\n", 2);
        assert_eq!((run.passed, run.failed, run.problems.len()), (1, 0, 1));
        assert!(!run.green());
    }
}
