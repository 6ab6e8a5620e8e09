//! Runs plans for real: a copy of a fixture project, the facts a detector sees there, and the commands it plans.

use std::{
    ffi::OsString,
    fs,
    io::Read,
    os::unix::{fs::symlink, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use verify::{Captured, Detector, End, Facts, Languages, LintAsk, LintRun, Plan, TestAsk, TestId, TestRun};

/// A copy of a fixture project with tools next to it.
pub(crate) struct Project {
    _folder: tempfile::TempDir,
    pub(crate) root: PathBuf,
    scratch: PathBuf,
    path: OsString,
    language: &'static str,
    env: Vec<(&'static str, String)>,
}

impl Project {
    /// A copy of `fixtures/projects/<name>`.
    pub(crate) fn copy(name: &str) -> Self {
        let language = name.split('/').next().and_then(|id| Languages::shipped().get(id));
        let project = Self::empty(language.expect("a language").language());
        if name == "python/unittest" {
            project.bare_environment();
        }
        copy(&super::support::fixtures().join("projects").join(name), &project.root);
        project
    }

    /// An empty project with the tools of a language.
    pub(crate) fn empty(language: &'static str) -> Self {
        // A space in the name, because users have some.
        let folder = tempfile::Builder::new().prefix("verify ").tempdir().expect("a folder");
        let base = folder.path().canonicalize().expect("a path");
        let (root, scratch) = (base.join("work"), base.join("scratch"));
        fs::create_dir_all(&root).expect("a folder");
        fs::create_dir_all(&scratch).expect("a folder");
        match language {
            "node" => symlink(testkit::tools::node_modules(), root.join("node_modules")).expect("a link"),
            "python" => {
                let environment = testkit::tools::python("python");
                let environment = environment.parent().and_then(Path::parent).expect("an environment");
                symlink(environment, root.join(".venv")).expect("a link");
            }
            _ => {}
        }
        let env = match language {
            "rust" => vec![("CARGO_TARGET_DIR", root.join("target").to_string_lossy().into_owned())],
            _ => Vec::new(),
        };
        Self { _folder: folder, root, scratch, path: search_path(), language, env }
    }

    /// An environment without packages, so without pytest.
    fn bare_environment(&self) {
        let python = testkit::tools::python("python").canonicalize().expect("an interpreter");
        let home = python.parent().expect("a folder").to_string_lossy().into_owned();
        self.remove(".venv").write(".venv/pyvenv.cfg", format!("home = {home}\n"));
        self.write(".venv/lib/python3/site-packages/none", "").write(".venv/bin/none", "");
        symlink(&python, self.root.join(".venv/bin/python")).expect("a link");
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> &Self {
        let path = self.root.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
        self
    }

    pub(crate) fn remove(&self, name: &str) -> &Self {
        fs::remove_file(self.root.join(name)).expect("a file");
        self
    }

    /// A variable for every command.
    pub(crate) fn set(&mut self, name: &'static str, value: &str) {
        self.env.push((name, value.to_owned()));
    }

    /// Programs in this folder are found before all others.
    pub(crate) fn find_first(&mut self, folder: &Path) -> &mut Self {
        let paths = std::env::split_paths(&self.path).collect::<Vec<_>>();
        let all = std::iter::once(folder.to_owned()).chain(paths);
        self.path = std::env::join_paths(all).expect("a path");
        self
    }

    /// Runs a command of the test's own in the project.
    pub(crate) fn shell(&self, command: &str) {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(&self.root).env("PATH", &self.path).env_remove("VIRTUAL_ENV");
        let output = shell.output().expect("sh");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let cried = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{command}: {said}{cried}");
    }

    pub(crate) fn detector(&self) -> &'static dyn Detector {
        super::support::language(self.language)
    }

    /// Runs every test.
    pub(crate) fn test(&self) -> TestRun {
        self.test_with(&TestAsk { timeout_seconds: 100, ..TestAsk::default() })
    }

    /// Runs exactly these again.
    pub(crate) fn rerun(&self, only: Vec<TestId>) -> TestRun {
        self.test_with(&TestAsk { only, timeout_seconds: 100, ..TestAsk::default() })
    }

    /// Runs what is named.
    pub(crate) fn named(&self, names: &[&str]) -> TestRun {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        self.test_with(&TestAsk { names, timeout_seconds: 100, ..TestAsk::default() })
    }

    pub(crate) fn test_with(&self, ask: &TestAsk) -> TestRun {
        let mut run: Option<TestRun> = None;
        let limit = Duration::from_secs(if ask.timeout_seconds == 0 { 120 } else { ask.timeout_seconds });
        for plan in self.detector().test_cmd(self, ask).expect("a plan") {
            let mut plan = plan;
            let mut one = self.detector().read_tests(&plan, self, &self.execute(&plan, limit));
            while let Some(next) = self.detector().follow_up(self, &plan, &mut one) {
                one.merge(self.detector().read_tests(&next, self, &self.execute(&next, limit)));
                plan = next;
            }
            match &mut run {
                Some(run) => run.merge(one),
                None => run = Some(one),
            }
        }
        run.expect("a run")
    }

    pub(crate) fn lint(&self, ask: &LintAsk) -> LintRun {
        let plan = self.detector().lint_cmd(self, ask).expect("a plan");
        let captured = self.execute(&plan, Duration::from_secs(60));
        self.detector().parse_lint(&plan, self, &captured)
    }

    pub(crate) fn typecheck(&self) -> LintRun {
        let plan = self.detector().typecheck_cmd(self, &LintAsk::default()).expect("a plan");
        let captured = self.execute(&plan, Duration::from_secs(60));
        self.detector().parse_typecheck(&plan, self, &captured)
    }

    pub(crate) fn format(&self, file: &str, text: &str) -> Result<String, String> {
        let plan = self.detector().format_cmd(self, file, text.as_bytes()).expect("a plan");
        let captured = self.execute(&plan, Duration::from_secs(60));
        self.detector().parse_format(&plan, &captured).map(|text| String::from_utf8(text).expect("text"))
    }

    /// Runs one command the way the product does: files written, report deleted, everything it started killed
    /// when its time is over.
    pub(crate) fn execute(&self, plan: &Plan, limit: Duration) -> Captured {
        for file in &plan.inject {
            fs::write(self.scratch.join(&file.name), file.content.as_bytes()).expect("a file");
        }
        let report = plan.report.as_ref().map(|name| self.scratch.join(name));
        if let Some(report) = &report {
            let _ = fs::remove_file(report);
        }
        let mut command = Command::new(&plan.program);
        command.args(&plan.args).current_dir(self.root.join(&plan.cwd)).env("PATH", &self.path);
        for name in ["NODE_OPTIONS", "PYTHONPATH", "VIRTUAL_ENV"] {
            command.env_remove(name);
        }
        command.envs(plan.env.iter().map(|(name, value)| (name, value)));
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.stdin(if plan.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let merged = plan.merged.then(|| {
            let (reader, writer) = std::io::pipe().expect("a pipe");
            command.stdout(writer.try_clone().expect("a pipe")).stderr(writer);
            reader
        });
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{}: {error}", plan.program));
        // The command holds the writing ends of the pipe.
        drop(command);
        if let (Some(bytes), Some(mut stdin)) = (&plan.stdin, child.stdin.take()) {
            std::io::Write::write_all(&mut stdin, bytes).expect("a pipe");
        }
        let stdout = merged.map_or_else(|| drain(child.stdout.take()), |pipe| drain(Some(pipe)));
        let readers = [stdout, drain(child.stderr.take())];
        let end = wait(&mut child, limit, &self.root.join("started"));
        let [stdout, stderr] = readers.map(|reader| reader.join().expect("a reader"));
        let report = report.and_then(|path| fs::read(path).ok());
        Captured { stdout, stderr, report, end }
    }

    /// What git says was changed or made since it was asked first, ignored files included.
    pub(crate) fn changed_files(&self) -> String {
        let git = |arguments: &[&str]| {
            let output = Command::new("git").args(arguments).current_dir(&self.root).output().expect("git");
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        if !self.root.join(".git").exists() {
            git(&["init", "-q"]);
            git(&["add", "-A"]);
            git(&["-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "x"]);
        }
        git(&["status", "--porcelain", "--ignored"])
    }
}

/// The tools of these languages before what is there already; the others' may still be missing.
fn search_path() -> OsString {
    let ours = ["jest", "ruff", "uv"].map(testkit::tools::path);
    let theirs = std::env::var_os("PATH").unwrap_or_default();
    let folders = ours.iter().filter_map(|path| path.parent()).map(Path::to_owned);
    std::env::join_paths(folders.chain(std::env::split_paths(&theirs))).expect("a path")
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

/// Waits for the end, at most for `limit`; a test that means to hang says so with the file `started`, and what
/// it has reported by then has two seconds to arrive.
fn wait(child: &mut Child, limit: Duration, started: &Path) -> End {
    let mut until = Instant::now() + limit;
    let mut hanging = false;
    loop {
        if let Some(status) = child.try_wait().expect("a child") {
            let signal = std::os::unix::process::ExitStatusExt::signal(&status);
            return signal.map_or_else(|| End::Exited(status.code().unwrap_or(-1)), End::Signaled);
        }
        if !hanging && started.exists() {
            hanging = true;
            until = until.min(Instant::now() + Duration::from_secs(2));
        }
        if Instant::now() >= until {
            let group = format!("-{}", child.id());
            Command::new("kill").args(["-9", "--", &group]).status().expect("kill");
            let _ = child.wait();
            return End::TimedOut;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap_or_else(|error| panic!("{}: {error}", from.display())) {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.path().ends_with("target") {
            continue;
        }
        if entry.path().is_dir() {
            fs::create_dir_all(&target).expect("a folder");
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a file");
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
        !relative.starts_with("../") && self.root.join(relative).exists()
    }

    fn read(&self, relative: &str) -> Option<String> {
        if relative.starts_with("../") { None } else { fs::read_to_string(self.root.join(relative)).ok() }
    }

    fn list(&self, relative: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(relative)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn which(&self, binary: &str) -> Option<PathBuf> {
        std::env::split_paths(&self.path).map(|folder| folder.join(binary)).find(|file| file.is_file())
    }

    fn env(&self, name: &str) -> Option<String> {
        (name == "PATH").then(|| self.path.to_string_lossy().into_owned())
    }
}

/// A run as one text, for snapshots.
pub(crate) fn told(run: &TestRun) -> String {
    let mut text = format!("{} passed, {} failed, {} skipped", run.passed, run.failed, run.skipped);
    for failure in &run.failures {
        let place = format!("{}:{}", failure.file.as_deref().unwrap_or("?"), failure.line.unwrap_or(0));
        text += &format!("\n{:?} {} [{place}]\n  {}", failure.kind, failure.name, failure.message);
        if let (Some(expected), Some(actual)) = (&failure.expected, &failure.actual) {
            text += &format!("\n  expected {expected}\n  actual {actual}");
        }
        if let Some(output) = &failure.output {
            text += &format!("\n  output {output:?}");
        }
    }
    for problem in &run.problems {
        let file = problem.file.as_deref().unwrap_or("?");
        text += &format!(
            "\n{:?} problem [{file}:{}] {}",
            problem.kind,
            problem.line.unwrap_or(0),
            problem.message
        );
    }
    for (what, lines) in [("note", &run.notes), ("missing", &run.missing)] {
        for line in lines {
            text += &format!("\n{what}: {line}");
        }
    }
    for (what, line) in [("unread", &run.unread), ("incomplete", &run.incomplete)] {
        if let Some(line) = line {
            text += &format!("\n{what}: {line}");
        }
    }
    text
}

/// Findings as one text, for snapshots.
pub(crate) fn lint_told(run: &LintRun) -> String {
    let mut text = String::new();
    for one in &run.findings {
        let fix = if one.fixable { " (fixable)" } else { "" };
        let place = format!("{}:{}:{}", one.file, one.line, one.col);
        text += &format!("{place}:{}: {} [{:?}]{fix}\n", one.rule, one.message, one.severity);
    }
    for (what, line) in [("incomplete", &run.incomplete), ("config error", &run.config_error)] {
        if let Some(line) = line {
            text += &format!("{what}: {line}\n");
        }
    }
    text
}
