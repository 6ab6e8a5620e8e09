//! Reads `prove -v --merge`: TAP, file by file.

use verify::{
    End, Facts, Failure, FailureKind, Kept, Lines, Plan, Problem, ProblemKind, Progress, Stream, TestId,
    TestReader, TestRun, bound, tap::Tap,
};

/// One test file.
struct File {
    name: String,
    tap: Tap,
    said: Kept,
    /// prove's own words at its end.
    dubious: bool,
}

/// The reader.
pub(crate) struct Reader {
    lines: Lines,
    files: Vec<File>,
    over: bool,
    said: Kept,
    widened: bool,
}

impl Reader {
    pub(crate) fn new(plan: &Plan) -> Self {
        let widened = plan.why.iter().any(|why| why.contains("widened"));
        Self { lines: Lines::default(), files: Vec::new(), over: false, said: Kept::new(4000), widened }
    }

    fn line(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        if let Some(name) = header(&text) {
            let (tap, said) = (Tap::default(), Kept::new(4000));
            self.files.push(File { name: name.to_owned(), tap, said, dubious: false });
        } else if text == "Test Summary Report" {
            self.over = true;
        } else if self.over {
            // The report repeats what was said.
        } else if let Some(file) = self.files.last_mut() {
            file.dubious |= text.starts_with("Dubious, test returned ");
            // prove sums up each file with a lonely "ok", which is no result of a test.
            if text != "ok" {
                file.tap.line(&text);
            }
            file.said.push(&text);
        } else {
            self.said.push(&text);
        }
    }
}

/// The file that a line such as `t/calc.t .... ` announces.
fn header(line: &str) -> Option<&str> {
    let name = line.trim_end().trim_end_matches('.').strip_suffix(' ')?;
    let dots = &line[name.len()..];
    (dots.trim_start().starts_with("..") && !name.contains(' ') && !name.starts_with('#')).then_some(name)
}

impl TestReader for Reader {
    fn feed(&mut self, _stream: Stream, bytes: &[u8]) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.feed(bytes, |line| self.line(line));
        self.lines = lines;
    }

    fn progress(&self) -> Progress {
        let sum = |of: fn(&Tap) -> usize| count(self.files.iter().map(|file| of(&file.tap)).sum());
        Progress { done: sum(Tap::count), failed: sum(|tap| tap.failures().len()), total: None }
    }

    fn finish(mut self: Box<Self>, end: &End, _facts: &dyn Facts) -> TestRun {
        let mut lines = std::mem::take(&mut self.lines);
        lines.end(|line| self.line(line));
        let mut run = TestRun::default();
        for file in &self.files {
            close(file, &mut run);
        }
        run.failed = count(run.failures.len());
        match end {
            End::Exited(0) if !self.files.is_empty() => {}
            End::Exited(0) => run.notes.push("no tests found".to_owned()),
            End::Exited(_) if !run.failures.is_empty() || !run.problems.is_empty() => {}
            End::Exited(code) => {
                let said = self.said.lines().join("\n");
                run.unread = Some(format!("prove exited with {code}: {}", said.trim()));
            }
            _ => run.incomplete = Some("cut short".to_owned()),
        }
        if self.widened {
            run.notes.push("prove runs whole files: the rerun was widened to them".to_owned());
        }
        run
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn close(file: &File, run: &mut TestRun) {
    let before = run.failures.len();
    run.passed += count(file.tap.passed());
    run.skipped += count(file.tap.skipped());
    run.failures.extend(file.tap.failures().iter().map(|point| point.failure(&file.name)));
    if file.tap.broken().is_none() && !(file.dubious && run.failures.len() == before) {
        return;
    }
    let said = file.said.lines();
    let syntax = said.iter().find_map(|line| {
        let (message, place) = line.split_once(" at ")?;
        let (name, rest) = place.split_once(" line ")?;
        let number = rest.split([',', '.', ' ']).next()?.parse().ok()?;
        said.iter().any(|line| line.contains("compilation errors")).then_some((message, name, number))
    });
    if let Some((message, name, line)) = syntax {
        return run.problems.push(Problem {
            kind: ProblemKind::Build,
            file: Some(name.to_owned()),
            line: Some(line),
            col: None,
            message: message.to_owned(),
        });
    }
    let words: Vec<&str> = said.iter().map(String::as_str).filter(|line| !line.starts_with("ok ")).collect();
    run.failures.push(Failure {
        id: TestId { unit: file.name.clone(), path: Vec::new() },
        name: file.name.clone(),
        file: Some(file.name.clone()),
        line: None,
        message: file.tap.broken().unwrap_or_else(|| "ended with an error".to_owned()),
        expected: None,
        actual: None,
        output: Some(bound(words.join("\n").trim(), 1000)),
        kind: FailureKind::Crashed,
    });
}
