//! Reads `cargo test --message-format=json` with both streams on one pipe, while it runs.

use super::{
    diagnostics::{self, Diagnostic},
    doctest, failure,
    target::{Kind, Target},
};
use crate::{
    End, Facts, Failure, FailureKind, Kept, Lines, Plan, Problem, ProblemKind, Progress, Stream, TestId,
    TestReader, TestRun, bound, relative,
};
use regex::bytes::Regex;
use serde::Deserialize;
use std::{borrow::Cow, collections::HashMap, path::PathBuf, sync::LazyLock};

#[expect(clippy::unwrap_used, reason = "the pattern is a constant, compiled by the tests")]
static RUNNING: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^ +Running (?:unittests )?(\S.*) \(([^()]+)\)$").unwrap());

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    reason: Cow<'a, str>,
    #[serde(default)]
    success: bool,
    #[serde(borrow, default)]
    package_id: Cow<'a, str>,
    #[serde(borrow)]
    target: Option<TargetInfo<'a>>,
    #[serde(borrow, default)]
    executable: Option<Cow<'a, str>>,
    message: Option<Diagnostic>,
}

#[derive(Deserialize)]
struct TargetInfo<'a> {
    #[serde(borrow)]
    kind: Vec<Cow<'a, str>>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    src_path: Cow<'a, str>,
}

/// What a test executable was built from.
struct Artifact {
    unit: String,
    source: String,
}

/// The reader.
pub(super) struct Reader {
    lines: Lines,
    base: PathBuf,
    artifacts: HashMap<String, Artifact>,
    libraries: HashMap<String, Artifact>,
    errors: Vec<Diagnostic>,
    /// What cargo said in plain text while building.
    said: Kept,
    built: Option<bool>,
    targets: Vec<Target>,
    culprits: Vec<String>,
    wanted: Vec<(String, bool)>,
    exact: bool,
    crashed_only: Vec<String>,
    /// Tests run one at a time, to name a culprit: a test that began and did not end is it.
    serial: bool,
    list: Option<Listing>,
}

/// A listing of a target's tests, asked for after it hung.
struct Listing {
    unit: String,
    finished: Vec<String>,
    names: Vec<String>,
}

impl Reader {
    pub(super) fn new(plan: &Plan, base: PathBuf) -> Self {
        let strings = |name: &str| -> Vec<String> {
            serde_json::from_value(plan.memo[name].clone()).unwrap_or_default()
        };
        let exact = !strings("only").is_empty();
        let wanted = if exact { strings("only") } else { strings("names") };
        let list = plan.memo["list"].as_str().map(|unit| Listing {
            unit: unit.to_owned(),
            finished: strings("finished"),
            names: Vec::new(),
        });
        Self {
            lines: Lines::default(),
            base,
            artifacts: HashMap::new(),
            libraries: HashMap::new(),
            errors: Vec::new(),
            said: Kept::new(32 << 10),
            built: None,
            targets: Vec::new(),
            culprits: strings("culprits"),
            wanted: wanted.into_iter().map(|name| (name, false)).collect(),
            exact,
            crashed_only: strings("crashed_only"),
            serial: plan.memo["round"].as_u64().unwrap_or(0) > 0,
            list,
        }
    }

    fn line(&mut self, line: &[u8]) {
        if self.built.is_some() {
            return self.after_build(line);
        }
        if line.starts_with(b"{\"reason\":") {
            match std::str::from_utf8(line)
                .ok()
                .and_then(|text| serde_json::from_str::<Message<'_>>(text).ok())
            {
                Some(message) => self.message(message),
                None => self.said.push(&String::from_utf8_lossy(line)),
            }
        } else if !line.is_empty() {
            self.said.push(&String::from_utf8_lossy(line));
        }
    }

    fn message(&mut self, message: Message<'_>) {
        match message.reason.as_ref() {
            "build-finished" => self.built = Some(message.success),
            "compiler-message" => {
                let Some(diagnostic) = message.message else { return };
                if diagnostic.level.starts_with("error") && self.errors.len() < 200 {
                    self.errors.push(diagnostic);
                }
            }
            "compiler-artifact" => {
                let Some(target) = message.target else { return };
                let package = package_name(&message.package_id);
                let source = target.src_path.clone().into_owned();
                let kind = target.kind.first().map(Cow::as_ref).unwrap_or_default();
                let which = match kind {
                    "test" | "bin" | "example" | "bench" => format!("--{kind} {}", target.name),
                    _ => "--lib".to_owned(),
                };
                if let Some(executable) = message.executable {
                    let unit = format!("-p {package} {which}");
                    // Announced relative to the working folder later; the name alone is unique by its hash.
                    self.artifacts.insert(file_name(&executable).to_owned(), Artifact { unit, source });
                } else if which == "--lib" {
                    let unit = format!("-p {package} --doc");
                    self.libraries.insert(target.name.replace('-', "_"), Artifact { unit, source });
                }
            }
            _ => {}
        }
    }

    fn after_build(&mut self, line: &[u8]) {
        if let Some(list) = &mut self.list {
            if let Some(name) = line.strip_suffix(b": test") {
                list.names.push(String::from_utf8_lossy(name).into_owned());
            }
            return;
        }
        if let Some(target) = self.opens(line) {
            return self.targets.push(target);
        }
        let Some(target) = self.targets.last_mut() else {
            return self.said.push(&String::from_utf8_lossy(line));
        };
        target.line(line);
    }

    /// The target that cargo announces in this line.
    fn opens(&self, line: &[u8]) -> Option<Target> {
        if !line.starts_with(b"   ") {
            return None;
        }
        if let Some(name) = line.strip_prefix(b"   Doc-tests ") {
            let library = self.libraries.get(String::from_utf8_lossy(name).as_ref())?;
            return Some(Target::new(library.unit.clone(), library.source.clone(), Kind::Doc));
        }
        let parts = RUNNING.captures(line)?;
        // Only what cargo built itself: a test may print such a line too.
        let artifact = self.artifacts.get(file_name(&String::from_utf8_lossy(&parts[2])))?;
        Some(Target::new(artifact.unit.clone(), artifact.source.clone(), Kind::Binary))
    }

    fn problems(&self, facts: &dyn Facts) -> Vec<Problem> {
        let mut problems: Vec<Problem> = Vec::new();
        for error in &self.errors {
            let Some(problem) = diagnostics::problem(error, facts, &self.base) else { continue };
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        problems
    }
}

/// The package's name in `path+file:///x/one#0.1.0` or `path+file:///x#two-dashed@0.1.0`.
fn package_name(id: &str) -> &str {
    let (place, fragment) = id.split_once('#').unwrap_or((id, ""));
    match fragment.split_once('@') {
        Some((name, _)) => name,
        None => place.rsplit('/').next().unwrap_or(place),
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

impl TestReader for Reader {
    fn feed(&mut self, stream: Stream, bytes: &[u8]) {
        if stream == Stream::Report {
            return;
        }
        let mut lines = std::mem::take(&mut self.lines);
        lines.feed(bytes, |line| self.line(line));
        self.lines = lines;
    }

    fn progress(&self) -> Progress {
        let mut progress = Progress::default();
        for target in &self.targets {
            let (done, failed) = target.seen();
            progress.done += done;
            progress.failed += failed;
        }
        progress
    }

    fn finish(mut self: Box<Self>, end: &End, facts: &dyn Facts) -> TestRun {
        let mut lines = std::mem::take(&mut self.lines);
        lines.end(|line| self.line(line));
        let mut run = TestRun::default();
        if let Some(list) = &self.list {
            self.close_list(list, facts, &mut run);
            return run;
        }
        if self.built != Some(true) {
            run.problems = self.problems(facts);
        }
        let mut dead = Vec::new();
        let last = self.targets.len().saturating_sub(1);
        let targets = std::mem::take(&mut self.targets);
        for (at, target) in targets.iter().enumerate() {
            let cut = at == last && !matches!(end, End::Exited(_));
            self.close(target, cut, facts, &mut run, &mut dead);
        }
        run.failed = u32::try_from(run.failures.len()).unwrap_or(u32::MAX);
        match end {
            End::TimedOut => run.incomplete = Some("timed out".to_owned()),
            End::Cancelled => run.incomplete = Some("cancelled".to_owned()),
            End::OutOfMemory => run.incomplete = Some("out of memory".to_owned()),
            End::Signaled(signal) => run.incomplete = Some(format!("cargo was killed by signal {signal}")),
            End::Exited(code) => self.explain_silence(*code, &targets, &mut run),
        }
        if *end == End::TimedOut
            && let Some(target) = targets.last().filter(|target| target.harness && !target.over())
        {
            run.carry =
                serde_json::json!({ "hung": { "unit": target.unit(), "finished": target.finished() } });
        } else {
            run.carry = serde_json::json!({ "dead": dead });
        }
        if run.problems.is_empty() && run.incomplete.is_none() && run.unread.is_none() {
            run.missing =
                self.wanted.iter().filter(|(_, seen)| !seen).map(|(name, _)| name.clone()).collect();
        }
        run
    }
}

impl Reader {
    /// Turns one target into counts and failures.
    fn close(
        &mut self,
        target: &Target,
        cut: bool,
        facts: &dyn Facts,
        run: &mut TestRun,
        dead: &mut Vec<serde_json::Value>,
    ) {
        for (name, seen) in &mut self.wanted {
            *seen |= match self.exact {
                true => target.ran(name),
                false => target.ran_any(|test| test.contains(name.as_str())),
            };
        }
        let wanted = |test: &str| self.wanted.iter().any(|(name, _)| test.contains(name.as_str()));
        if target.kind == Kind::Doc && !self.wanted.is_empty() && target.ran_any(|test| !wanted(test)) {
            run.notes.push("rustdoc selects examples by a word: others of that name ran too".to_owned());
        }
        let unit = target.unit();
        let file = relative(facts.root(), &self.base, &target.source);
        if !target.harness {
            return self.close_custom(target, cut, &file, run);
        }
        let (passed, skipped) = target.counts();
        run.passed += passed;
        run.skipped += skipped;
        let failed = if cut || target.failed { target.failed_names() } else { Vec::new() };
        for name in &failed {
            let failure = match run.failures.len() < crate::model::DETAILED {
                true => self.failure(target, &unit, name, &file, facts),
                false => Failure::new(id(&unit, name), name),
            };
            run.failures.push(failure);
        }
        // cargo ends a target with a summary; without one the process was gone before its tests were done.
        if cut || target.summary.is_some() {
            return;
        }
        // While tests run side by side, an open line may be the result of another one, cut off by the end.
        let certain = target.open.clone().filter(|_| self.serial || target.announced == 1);
        let culprit = certain.clone().or_else(|| target.overflowed.clone()).or_else(|| target.open.clone());
        let how = target.cause.clone().unwrap_or_else(|| "exit status: 0".to_owned());
        let mut culprits = self.culprits.clone();
        let mut failure = match &culprit {
            Some(name) => {
                culprits.extend(certain);
                let mut failure = Failure::new(id(&unit, name), name);
                failure.message = format!("took the test process down ({how})");
                (failure.file, failure.line) = failure::locate(facts, &file, name);
                failure
            }
            None => {
                let mut failure = Failure::new(TestId { unit: unit.clone(), path: Vec::new() }, &file);
                failure.message = format!("the test process ended before its tests were done ({how})");
                failure.file = Some(file.clone());
                failure
            }
        };
        failure.kind = FailureKind::Crashed;
        failure.output = target.last_words();
        run.failures.push(failure);
        let only: Vec<String> = match self.exact {
            true => self.wanted.iter().map(|(name, _)| name.clone()).collect(),
            false => self.crashed_only.clone(),
        };
        dead.push(serde_json::json!({
            "unit": unit, "passed": passed, "skipped": skipped, "culprits": culprits, "only": only,
        }));
    }

    /// A target with a harness of its own says only whether it failed.
    fn close_custom(&self, target: &Target, cut: bool, file: &str, run: &mut TestRun) {
        if target.failed {
            let mut failure = Failure::new(TestId { unit: target.unit(), path: Vec::new() }, file);
            failure.file = Some(file.to_owned());
            failure.message = match &target.cause {
                Some(cause) => format!("the test program failed ({cause})"),
                None => "the test program failed".to_owned(),
            };
            failure.output = target.last_words();
            run.failures.push(failure);
        } else if !cut && target.kind == Kind::Binary {
            run.passed += 1;
            run.notes.push(format!("{file} has its own harness and counts as one test"));
        }
    }

    fn failure(&self, target: &Target, unit: &str, name: &str, file: &str, facts: &dyn Facts) -> Failure {
        let lines = target.block(name);
        match target.kind {
            Kind::Doc => doctest::read(id(unit, name), name, &lines, facts, &self.base),
            Kind::Binary => failure::read(id(unit, name), name, &lines, file, facts, &self.base),
        }
    }

    /// Exit codes and results must agree; where they do not, say what cargo said.
    fn explain_silence(&self, code: i32, targets: &[Target], run: &mut TestRun) {
        let said = self.said.lines();
        if code != 0 && run.failures.is_empty() && run.problems.is_empty() {
            let errors: Vec<&str> = said
                .iter()
                .map(String::as_str)
                .skip_while(|line| !line.starts_with("error"))
                .filter(|line| !line.trim().is_empty())
                .collect();
            let message = match errors.is_empty() {
                true => bound(&said.join("\n"), 2000),
                false => bound(&errors.join("\n"), 2000),
            };
            if said.is_empty() && targets.is_empty() {
                run.unread = Some(format!("cargo exited with {code} and said nothing"));
                return;
            }
            let kind = if self.built.is_none() { ProblemKind::Config } else { ProblemKind::Crash };
            run.problems.push(Problem { kind, file: None, line: None, col: None, message });
        } else if code == 0 && targets.is_empty() && said.iter().any(|line| line.starts_with("running ")) {
            run.unread = Some("tests ran in targets that cargo did not announce".to_owned());
        } else if code == 0 && self.built.is_none() && !said.is_empty() {
            run.unread = Some("the output is not that of cargo test --message-format=json".to_owned());
        }
        if self.built == Some(false) && !run.problems.is_empty() {
            run.notes.push("nothing was run: cargo needs every test target to compile".to_owned());
        } else if run.passed + run.failed + run.skipped == 0
            && run.problems.is_empty()
            && run.unread.is_none()
        {
            run.notes.push("no tests found".to_owned());
        }
    }

    /// The tests of a target that hung: libtest starts them in order, so the first that did not end was running.
    fn close_list(&self, list: &Listing, facts: &dyn Facts, run: &mut TestRun) {
        let mut open: Vec<&String> = list.names.iter().filter(|name| !list.finished.contains(name)).collect();
        open.sort();
        let Some(first) = open.first() else { return };
        let mut failure = Failure::new(id(&list.unit, first), *first);
        failure.kind = FailureKind::TimedOut;
        failure.message = "still running when the time was up".to_owned();
        let source = self.artifacts.values().find(|artifact| artifact.unit.ends_with(&list.unit));
        if let Some(source) = source {
            let file = relative(facts.root(), &self.base, &source.source);
            (failure.file, failure.line) = failure::locate(facts, &file, first);
        }
        run.failures.push(failure);
        run.failed = 1;
        if open.len() > 1 {
            run.notes.push(format!("{} more tests of {} had not ended", open.len() - 1, list.unit));
        }
    }
}

fn id(unit: &str, name: &str) -> TestId {
    let path = match unit.ends_with("--doc") {
        true => vec![name.to_owned()],
        false => name.split("::").map(str::to_owned).collect(),
    };
    TestId { unit: unit.to_owned(), path }
}
