//! Reads `go test -json` while it runs.

use super::failure::{self, Crash, Line};
use crate::{
    End, Facts, Failure, FailureKind, Kept, Lines, Plan, Problem, ProblemKind, Progress, Stream, TestId,
    TestReader, TestRun, bound,
};
use serde::Deserialize;
use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet},
};

/// Bytes of output kept per test and per package.
const KEPT: usize = 64 << 10;
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Event<'a> {
    #[serde(borrow)]
    action: Cow<'a, str>,
    #[serde(borrow, default)]
    package: Cow<'a, str>,
    #[serde(borrow, default)]
    test: Cow<'a, str>,
    #[serde(borrow, default)]
    output: Cow<'a, str>,
    #[serde(borrow, default)]
    output_type: Cow<'a, str>,
    #[serde(borrow, default)]
    import_path: Cow<'a, str>,
    #[serde(borrow, default)]
    failed_build: Cow<'a, str>,
}

/// A test that runs or did not pass.
#[derive(Default)]
struct Test {
    order: usize,
    parent: bool,
    paused: bool,
    failed: bool,
    lines: Vec<Line>,
    bytes: usize,
}

impl Test {
    /// Keeps what the test prints, within bounds: a head and the latest.
    fn push(&mut self, text: &str, kind: &str) {
        let line = Line::new(text, kind);
        self.bytes += line.text.len();
        self.lines.push(line);
        if self.bytes > KEPT {
            let (from, to) = (self.lines.len() / 3, self.lines.len() * 2 / 3);
            self.lines.drain(from..to.max(from + 1).min(self.lines.len()));
            self.bytes = self.lines.iter().map(|line| line.text.len()).sum();
        }
    }
}

struct Package {
    tests: HashMap<String, Test>,
    output: Kept,
    started: usize,
    done: bool,
    failed: bool,
    built: bool,
}

impl Default for Package {
    fn default() -> Self {
        Self {
            tests: HashMap::new(),
            output: Kept::new(KEPT),
            started: 0,
            done: false,
            failed: false,
            built: true,
        }
    }
}

/// The reader.
pub(super) struct Reader {
    stdout: Lines,
    stderr: Lines,
    stderr_text: Kept,
    foreign: Kept,
    packages: BTreeMap<String, Package>,
    builds: BTreeMap<String, Vec<String>>,
    events: usize,
    passed: u32,
    skipped: u32,
    failed: u32,
    wanted: Vec<Wanted>,
}

/// A test that was asked for.
struct Wanted {
    package: Option<String>,
    name: String,
    asked: String,
    seen: bool,
}

impl Reader {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            stdout: Lines::default(),
            stderr: Lines::default(),
            stderr_text: Kept::new(KEPT),
            foreign: Kept::new(KEPT),
            packages: BTreeMap::new(),
            builds: BTreeMap::new(),
            events: 0,
            passed: 0,
            skipped: 0,
            failed: 0,
            wanted: wanted(plan),
        }
    }

    fn line(&mut self, line: &[u8]) {
        if line.first() != Some(&b'{') {
            return self.other(line);
        }
        // go test writes valid UTF-8 whatever the tests print; anything else is not its line.
        match std::str::from_utf8(line).ok().and_then(|text| serde_json::from_str::<Event<'_>>(text).ok()) {
            Some(event) => self.event(&event),
            None => self.other(line),
        }
    }

    fn other(&mut self, line: &[u8]) {
        if !line.is_empty() {
            self.foreign.push(&String::from_utf8_lossy(line));
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        self.events += 1;
        match event.action.as_ref() {
            "build-output" => {
                let lines = self.builds.entry(event.import_path.clone().into_owned()).or_default();
                if lines.len() < 500 {
                    lines.push(event.output.trim_end_matches('\n').to_owned());
                }
                return;
            }
            "build-fail" => return,
            _ => {}
        }
        if !self.packages.contains_key(event.package.as_ref()) {
            self.packages.insert(event.package.clone().into_owned(), Package::default());
        }
        let Some(package) = self.packages.get_mut(event.package.as_ref()) else { return };
        if event.test.is_empty() {
            match event.action.as_ref() {
                "output" => package.output.push(event.output.trim_end_matches('\n')),
                "pass" | "skip" => package.done = true,
                "fail" => {
                    package.done = true;
                    package.failed = true;
                    package.built &= event.failed_build.is_empty();
                }
                _ => {}
            }
            return;
        }
        match event.action.as_ref() {
            "output" => {
                if let Some(test) = package.tests.get_mut(event.test.as_ref()) {
                    test.push(&event.output, &event.output_type);
                }
            }
            "run" => self.run(event),
            "pause" | "cont" => {
                if let Some(test) = package.tests.get_mut(event.test.as_ref()) {
                    test.paused = event.action == "pause";
                }
            }
            "pass" | "skip" => {
                let leaf = package.tests.remove(event.test.as_ref()).is_none_or(|test| !test.parent);
                match event.action.as_ref() {
                    _ if !leaf => {}
                    "pass" => self.passed += 1,
                    _ => self.skipped += 1,
                }
            }
            "fail" => {
                let test = package.tests.entry(event.test.clone().into_owned()).or_default();
                test.failed = true;
                self.failed += u32::from(!test.parent);
            }
            _ => {}
        }
    }

    fn run(&mut self, event: &Event<'_>) {
        for wanted in &mut self.wanted {
            let here = wanted.package.as_ref().is_none_or(|package| *package == event.package);
            wanted.seen |= here && wanted.name == event.test;
        }
        let Some(package) = self.packages.get_mut(event.package.as_ref()) else { return };
        if let Some((parent, _)) = event.test.rsplit_once('/') {
            // A subtest's own name may contain slashes: the nearest running prefix is the parent.
            let mut name = parent;
            loop {
                if let Some(test) = package.tests.get_mut(name) {
                    test.parent = true;
                    break;
                }
                match name.rsplit_once('/') {
                    Some((shorter, _)) => name = shorter,
                    None => break,
                }
            }
        }
        package.started += 1;
        let test = Test { order: package.started, ..Test::default() };
        package.tests.insert(event.test.clone().into_owned(), test);
    }

    fn problems(&self, facts: &dyn Facts) -> Vec<Problem> {
        let mut problems: Vec<Problem> = Vec::new();
        let mut add = |lines: &[String]| {
            for problem in failure::build_problems(facts.root(), lines) {
                if !problems.contains(&problem) {
                    problems.push(problem);
                }
            }
        };
        self.builds.values().for_each(|lines| add(lines));
        // Before Go 1.24 build errors are plain text on stderr.
        let unbuilt = |package: &Package| {
            package.failed && package.output.lines().iter().any(|line| line.ends_with(" failed]"))
        };
        if self.builds.is_empty() && self.packages.values().any(unbuilt) {
            add(&self.stderr_text.lines());
        }
        problems
    }
}

impl TestReader for Reader {
    fn feed(&mut self, stream: Stream, bytes: &[u8]) {
        match stream {
            Stream::Stdout => {
                let mut lines = std::mem::take(&mut self.stdout);
                lines.feed(bytes, |line| self.line(line));
                self.stdout = lines;
            }
            Stream::Stderr => {
                let kept = &mut self.stderr_text;
                self.stderr.feed(bytes, |line| kept.push(&String::from_utf8_lossy(line)));
            }
            Stream::Report => {}
        }
    }

    fn progress(&self) -> Progress {
        Progress { done: self.passed + self.skipped + self.failed, failed: self.failed, total: None }
    }

    fn finish(mut self: Box<Self>, end: &End, facts: &dyn Facts) -> TestRun {
        let mut lines = std::mem::take(&mut self.stdout);
        lines.end(|line| self.line(line));
        let kept = &mut self.stderr_text;
        self.stderr.end(|line| kept.push(&String::from_utf8_lossy(line)));

        let mut run = TestRun { passed: self.passed, skipped: self.skipped, ..TestRun::default() };
        run.problems = self.problems(facts);
        for (name, package) in &self.packages {
            close(name, package, end, facts, &mut run);
        }
        run.failed = u32::try_from(run.failures.len()).unwrap_or(u32::MAX);
        match end {
            End::TimedOut => run.incomplete = Some("timed out".to_owned()),
            End::Cancelled => run.incomplete = Some("cancelled".to_owned()),
            End::OutOfMemory => run.incomplete = Some("out of memory".to_owned()),
            End::Signaled(signal) => run.incomplete = Some(format!("go test was killed by signal {signal}")),
            End::Exited(code) => self.explain_silence(*code, &mut run),
        }
        if run.problems.is_empty() && run.incomplete.is_none() && run.unread.is_none() {
            run.missing =
                self.wanted.iter().filter(|wanted| !wanted.seen).map(|wanted| wanted.asked.clone()).collect();
        }
        run
    }
}

impl Reader {
    /// Exit codes and results must agree; where they do not, say what go said.
    fn explain_silence(&self, code: i32, run: &mut TestRun) {
        let said: Vec<String> = self.stderr_text.lines();
        let empty = said.iter().any(|line| line == "no packages to test");
        if code != 0 && run.failures.is_empty() && run.problems.is_empty() && !empty {
            if self.events == 0 && said.is_empty() {
                run.unread = Some(format!(
                    "go test exited with {code} and wrote no test events: {}",
                    bound(&self.foreign.lines().join("\n"), 2000)
                ));
                return;
            }
            let config = said.iter().any(|line| line.starts_with("go: "));
            let words: Vec<&str> = said
                .iter()
                .map(String::as_str)
                .filter(|line| !line.starts_with("go: downloading "))
                .collect();
            run.problems.push(Problem {
                kind: if config { ProblemKind::Config } else { ProblemKind::Crash },
                file: None,
                line: None,
                col: None,
                message: match words.is_empty() {
                    true => format!("go test exited with {code} without naming a failed test"),
                    false => bound(&words.join("\n"), 2000),
                },
            });
        } else if self.events == 0 && !self.foreign.is_empty() {
            run.unread = Some("the output is not that of go test -json".to_owned());
        }
        if run.passed + run.failed + run.skipped == 0 && run.problems.is_empty() && run.unread.is_none() {
            run.notes.push("no tests found".to_owned());
        }
    }
}

/// Turns what is left of a package into failures.
fn close(name: &str, package: &Package, end: &End, facts: &dyn Facts, run: &mut TestRun) {
    let over = package.done || !matches!(end, End::TimedOut | End::Cancelled);
    let mut left: Vec<(&String, &Test)> = package.tests.iter().collect();
    left.sort_by_key(|(_, test)| test.order);
    let all_lines = left.iter().flat_map(|(_, test)| test.lines.iter().map(|line| line.text.as_str()));
    let package_lines = package.output.lines();
    let crash = Crash::find(facts.root(), all_lines.chain(package_lines.iter().map(String::as_str)));
    let before = run.failures.len();
    let ancestors: HashSet<&str> =
        left.iter().flat_map(|(name, _)| name.match_indices('/').map(|(at, _)| &name[..at])).collect();
    let is_ancestor = |name: &str| ancestors.contains(name);
    let culprit = crash.as_ref().and_then(|crash| {
        let leaves =
            left.iter().filter(|(name, _)| !is_ancestor(name)).map(|(name, test)| (*name, test.failed));
        crash.culprit(leaves.collect())
    });
    for (test_name, test) in &left {
        let id = TestId { unit: name.to_owned(), path: test_name.split('/').map(str::to_owned).collect() };
        let ancestor = is_ancestor(test_name);
        if ancestor && !(test.failed && failure::complains(test_name, &test.lines, facts)) {
            continue;
        }
        if !test.failed && !over && (test.paused || *end == End::Cancelled) {
            continue;
        }
        if run.failures.len() >= crate::model::DETAILED {
            run.failures.push(Failure::new(id, test_name.as_str()));
            continue;
        }
        let mut failure = failure::read(id, test_name, &test.lines, facts);
        if culprit == Some(test_name.as_str()) {
            if let Some(crash) = &crash {
                crash.tell(&mut failure);
            }
        } else if !test.failed {
            failure.kind = if over { FailureKind::Crashed } else { FailureKind::TimedOut };
            failure.message = match (over, culprit) {
                (true, Some(culprit)) => format!("did not finish: {culprit} took the test process down"),
                (true, None) => "did not finish: its test process ended early".to_owned(),
                (false, _) => "still running when the time was up".to_owned(),
            };
        } else if failure.message.is_empty() {
            "failed without a message".clone_into(&mut failure.message);
        }
        if failure.file.is_none() {
            (failure.file, failure.line) = failure::locate(facts, name, test_name);
        }
        run.failures.push(failure);
    }
    if package.failed
        && package.built
        && run.failures.len() == before
        && let Some(failure) = whole_package(name, &package_lines, crash.as_ref())
    {
        run.failures.push(failure);
    }
}

/// A package that fails though none of its tests did: `TestMain`, a panic in a goroutine, a killed process.
fn whole_package(name: &str, lines: &[String], crash: Option<&Crash>) -> Option<Failure> {
    if lines.iter().any(|line| line.ends_with("[build failed]") || line.ends_with("[setup failed]")) {
        return None;
    }
    let said: Vec<&str> = lines
        .iter()
        .map(String::as_str)
        .filter(|line| !line.starts_with("FAIL") && *line != "PASS" && !line.starts_with("coverage: "))
        .collect();
    let id = TestId { unit: name.to_owned(), path: Vec::new() };
    let mut failure = Failure::new(id, format!("{name} (package)"));
    failure.kind = FailureKind::Error;
    match crash {
        Some(crash) => crash.tell(&mut failure),
        None => {
            failure.message = "the package failed outside its tests".to_owned();
            if !said.is_empty() {
                failure.output = Some(bound(&said.join("\n"), 2000));
            }
        }
    }
    Some(failure)
}

fn wanted(plan: &Plan) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    if let Ok(ids) = serde_json::from_value::<Vec<TestId>>(plan.memo["only"].clone()) {
        wanted.extend(ids.into_iter().map(|id| {
            let name = id.path.join("/");
            Wanted { package: Some(id.unit), asked: name.clone(), name, seen: false }
        }));
    }
    if let Ok(names) = serde_json::from_value::<Vec<String>>(plan.memo["names"].clone()) {
        wanted.extend(names.into_iter().map(|asked| {
            // Go itself writes the spaces of a name as underscores.
            let name = super::plan::bare(&asked).replace(char::is_whitespace, "_");
            Wanted { package: None, name, asked, seen: false }
        }));
    }
    wanted
}
