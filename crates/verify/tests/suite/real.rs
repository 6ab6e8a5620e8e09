//! Plans carried out by the real tools on the fixture projects.

use crate::support::{fixtures, language};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};
use verify::{Captured, End, Facts, Plan, TestAsk, TestRun};

/// A fixture project copied to a place of its own.
pub(crate) struct Project {
    folder: tempfile::TempDir,
    root: PathBuf,
    scratch: PathBuf,
}

impl Project {
    pub(crate) fn copy(name: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let base = folder.path().canonicalize().expect("its real name");
        let (root, scratch) = (base.join("project"), base.join("scratch"));
        copy_tree(&fixtures().join("projects").join(name), &root);
        fs::create_dir_all(&scratch).expect("a scratch folder");
        Self { folder, root, scratch }
    }

    /// Carries out one plan.
    pub(crate) fn run(&self, plan: &Plan, env: &[(&str, &str)], limit: Duration) -> Captured {
        for injected in &plan.inject {
            fs::write(self.scratch.join(&injected.name), injected.content.as_bytes())
                .expect("an injected file");
        }
        let out = self.folder.path().join("stdout");
        let err = self.folder.path().join("stderr");
        let stdout = fs::File::create(&out).expect("a file");
        let stderr = match plan.merged {
            true => stdout.try_clone().expect("the same file"),
            false => fs::File::create(&err).expect("a file"),
        };
        let mut child = Command::new(&plan.program)
            .args(&plan.args)
            .envs(plan.env.iter().map(|(name, value)| (name, value)))
            .envs(env.iter().copied())
            .env("CARGO_TARGET_DIR", self.root.join("target"))
            .current_dir(self.root.join(&plan.cwd))
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", plan.program));
        let start = Instant::now();
        let end = loop {
            if let Some(status) = child.try_wait().expect("a status") {
                break status.code().map_or(End::Signaled(0), End::Exited);
            }
            if start.elapsed() > limit {
                child.kill().expect("a kill");
                child.wait().expect("an end");
                break End::TimedOut;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        Captured {
            stdout: fs::read(&out).expect("output"),
            stderr: if plan.merged { Vec::new() } else { fs::read(&err).expect("output") },
            report: plan.report.as_ref().and_then(|name| fs::read(self.scratch.join(name)).ok()),
            end,
        }
    }

    /// Runs tests to the end, with every follow-up.
    pub(crate) fn test(&self, id: &str, ask: &TestAsk) -> TestRun {
        self.test_with(id, ask, &[], Duration::from_secs(120))
    }

    /// The same with variables and a limit for each command.
    pub(crate) fn test_with(
        &self,
        id: &str,
        ask: &TestAsk,
        env: &[(&str, &str)],
        limit: Duration,
    ) -> TestRun {
        let detector = language(id);
        let mut total = TestRun::default();
        for plan in detector.test_cmd(self, ask).expect("a plan") {
            let mut plan = plan;
            let mut run = detector.read_tests(&plan, self, &self.run(&plan, env, limit));
            while let Some(next) = detector.follow_up(self, &plan, &mut run) {
                run.merge(detector.read_tests(&next, self, &self.run(&next, env, limit)));
                plan = next;
            }
            total.merge(run);
        }
        total
    }
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        let target = to.join(entry.file_name().expect("a name"));
        match entry.is_dir() {
            true if entry.ends_with("target") => {}
            true => copy_tree(&entry, &target),
            false => drop(fs::copy(&entry, &target).expect("a copy")),
        }
    }
}

impl Facts for Project {
    fn root(&self) -> &Path {
        &self.root
    }
    fn scratch(&self) -> &Path {
        &self.scratch
    }
    fn exists(&self, relative: &str) -> bool {
        self.root.join(relative).exists()
    }
    fn read(&self, relative: &str) -> Option<String> {
        fs::read_to_string(self.root.join(relative)).ok()
    }
    fn list(&self, relative: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(relative)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
    fn which(&self, binary: &str) -> Option<PathBuf> {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|folder| folder.join(binary)).find(|file| file.is_file())
    }
    fn env(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

/// Everything that failed, to be run again.
fn again(run: &TestRun) -> TestAsk {
    let only = run.failures.iter().map(|failure| failure.id.clone()).collect();
    TestAsk { only, timeout_seconds: 60, ..TestAsk::default() }
}

fn names(run: &TestRun) -> Vec<String> {
    run.failures.iter().map(|failure| failure.name.clone()).collect()
}

#[test]
fn go_reruns_exactly_what_failed() {
    let project = Project::copy("go/mixed");
    let first = project.test("go", &TestAsk::default());
    assert_eq!((first.passed, first.failed, first.skipped), (5, 19, 1), "{:?}", names(&first));
    let second = project.test("go", &again(&first));
    assert_eq!(names(&second), names(&first));
    assert_eq!((second.passed, second.missing.len()), (0, 0), "{:?}", second.missing);
}

#[test]
fn rust_reruns_exactly_what_failed() {
    let project = Project::copy("rust/mixed");
    let first = project.test("rust", &TestAsk::default());
    assert_eq!((first.passed, first.failed, first.skipped), (8, 15, 1), "{:?}", names(&first));
    let second = project.test("rust", &again(&first));
    let sorted = |run: &TestRun| {
        let mut names = names(run);
        names.sort();
        names
    };
    assert_eq!(sorted(&second), sorted(&first));
    // Other examples of the same items come along: rustdoc selects by a word of the name.
    assert_eq!((second.passed, second.missing.len()), (3, 0), "{:?}", second.missing);
}

#[test]
fn rust_names_every_test_that_took_its_process_down() {
    let project = Project::copy("rust/deadly");
    let run = project.test("rust", &TestAsk::default());
    let crashed: Vec<String> = run
        .failures
        .iter()
        .filter(|failure| failure.kind == verify::FailureKind::Crashed)
        .map(|failure| failure.name.clone())
        .collect();
    assert_eq!(crashed, ["aborts", "z_segfaults", "exits_zero", "overflows"], "{run:#?}");
    assert_eq!((run.passed, run.failed), (6, 5), "{run:#?}");
}

#[test]
fn a_hanging_rust_test_is_named() {
    let project = Project::copy("rust/deadly");
    let ask = TestAsk { names: vec!["hangs".to_owned(), "quick".to_owned()], ..TestAsk::default() };
    // Built beforehand, so that the limit is spent on the test.
    project.test("rust", &ask);
    let run = project.test_with("rust", &ask, &[("FIXTURE_HANG", "1")], Duration::from_secs(5));
    assert_eq!(names(&run), ["hangs"], "{run:#?}");
    assert_eq!((run.passed, run.incomplete.as_deref()), (1, Some("timed out")));
}

#[test]
fn a_vanished_test_is_never_a_success() {
    for (id, name, unit) in [("go", "go/green", "example.com/green"), ("rust", "rust/green", "--lib")] {
        let project = Project::copy(name);
        let gone = verify::TestId { unit: unit.to_owned(), path: vec!["TestGone".to_owned()] };
        let run = project.test(id, &TestAsk { only: vec![gone], ..TestAsk::default() });
        assert!(!run.green(), "{id}");
        assert_eq!(run.missing, ["TestGone"], "{id}");
    }
}

#[test]
fn green_and_empty_projects() {
    for (id, name, passed) in [
        ("go", "go/green", 300),
        ("rust", "rust/green", 300),
        ("go", "go/empty", 0),
        ("rust", "rust/empty", 0),
    ] {
        let run = Project::copy(name).test(id, &TestAsk::default());
        assert_eq!((run.passed, run.failed), (passed, 0), "{name}: {run:#?}");
        assert_eq!(run.green(), passed > 0, "{name}");
        assert_eq!(run.notes.is_empty(), passed > 0, "{name}");
    }
}
