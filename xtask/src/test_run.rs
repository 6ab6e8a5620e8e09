//! The test step: every test binary and the examples in the documentation.
//!
//! `cargo test` runs one binary after the other and waits for the last test of each. Many tests wait for programs they
//! started, so two binaries run at once here, and those that take longest begin first.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, bail};
use serde_json::Value;

use crate::steps::{Printed, Verdict, capture, program};
use crate::suite::cargo;

/// Crates whose tests take long, the longest first.
const LONG: [&str; 5] = ["sandbox", "tools", "verify", "workspace", "server"];

/// How many binaries run at once.
const LANES: usize = 2;

const EVERYTHING: [&str; 4] = ["test", "--quiet", "--locked", "--workspace"];

/// Builds them all, and the product with them.
pub(crate) fn build(root: &Path) -> Result<Verdict> {
    program(cargo(root).args(EVERYTHING).arg("--no-run"))
}

/// Runs them all, whatever fails.
pub(crate) fn run(root: &Path) -> Result<Verdict> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from) + 1;
    let mut commands: Vec<Command> = binaries(root)?.iter().map(Binary::command).collect();
    let mut examples = cargo(root);
    examples.args(EVERYTHING).args(["--no-fail-fast", "--doc"]);
    commands.push(examples);
    for command in &mut commands {
        command.env("RUST_TEST_THREADS", threads.to_string());
    }
    let printed = all(commands)?;
    let failed: Vec<&str> = printed.iter().filter(|run| !run.success).map(|run| run.text.as_str()).collect();
    if !failed.is_empty() {
        return Ok(Verdict::Failed(failed.join("\n\n")));
    }
    let (mut passed, mut ignored) = (0, 0);
    for run in &printed {
        let (more, others) = count(&run.text);
        passed += more;
        ignored += others;
    }
    // Held by the architecture step: what is ignored says which test runs it.
    let helpers = if ignored > 0 { format!(", {ignored} helpers of others") } else { String::new() };
    Ok(Verdict::Passed(format!("{passed} tests{helpers}")))
}

/// Runs commands in their order, some at once.
fn all(commands: Vec<Command>) -> Result<Vec<Printed>> {
    let queue = Mutex::new(commands.into_iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let lane = || -> Result<Vec<Printed>> {
        let mut printed = Vec::new();
        while let Some(mut command) = next() {
            printed.push(capture(&mut command)?);
        }
        Ok(printed)
    };
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES).map(|_| scope.spawn(lane)).collect();
        let mut printed = Vec::new();
        for lane in lanes {
            let Ok(result) = lane.join() else { bail!("whoever runs the tests has panicked") };
            printed.extend(result?);
        }
        Ok(printed)
    })
}

/// A test binary, and the folder of its package: where `cargo test` would run it, and what it would tell it.
#[derive(Debug, PartialEq)]
struct Binary {
    program: PathBuf,
    folder: PathBuf,
}

impl Binary {
    /// From a line that cargo prints about what it has built; there are others.
    fn parse(line: &str) -> Option<Self> {
        let built: Value = serde_json::from_str(line).ok()?;
        if built["reason"] != "compiler-artifact" || built["profile"]["test"] != true {
            return None;
        }
        let folder = Path::new(built["manifest_path"].as_str()?).parent()?.to_owned();
        Some(Self { program: built["executable"].as_str()?.into(), folder })
    }

    /// Its place in the order of beginning.
    fn rank(&self) -> usize {
        let suite = self.program.file_name().is_some_and(|name| name.to_string_lossy().starts_with("suite-"));
        let long = |name: &&str| suite && self.folder.ends_with(name);
        LONG.iter().position(long).unwrap_or(LONG.len())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--quiet").current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }
}

/// What the step before has built, in the order in which it is to begin.
fn binaries(root: &Path) -> Result<Vec<Binary>> {
    let printed = capture(cargo(root).args(EVERYTHING).args(["--no-run", "--message-format=json"]))?;
    if !printed.success {
        bail!("{}", printed.text);
    }
    let mut binaries: Vec<Binary> = printed.text.lines().filter_map(Binary::parse).collect();
    binaries.sort_by_key(Binary::rank);
    match LONG.iter().find(|name| !binaries.iter().any(|binary| binary.folder.ends_with(name))) {
        Some(name) => bail!("cargo names no test binary of crates/{name} among what it has built"),
        None => Ok(binaries),
    }
}

/// Passed and ignored tests in what a test binary printed.
fn count(output: &str) -> (usize, usize) {
    let mut totals = (0, 0);
    for line in output.lines().filter(|line| line.starts_with("test result:")) {
        let number = |word: &str| {
            let part = line.split(';').find(|part| part.trim().ends_with(word))?;
            part.trim().trim_end_matches(word).split_whitespace().last()?.parse::<usize>().ok()
        };
        totals.0 += number("passed").unwrap_or(0);
        totals.1 += number("ignored").unwrap_or(0);
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::{Binary, all, count};
    use std::process::Command;

    #[test]
    fn counts_what_tests_say() {
        let output = "\nrunning 2 tests\n..\n\
            test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
            test result: ok. 40 passed; 0 failed; 3 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
        assert_eq!(count(output), (42, 3));
    }

    #[test]
    fn test_binaries_are_told_from_what_else_was_built_and_long_ones_begin_first() {
        let line = |test: bool, folder: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/p/crates/{folder}/Cargo.toml",
                "profile":{{"test":{test}}},"executable":"/t/suite-1"}}"#
            )
        };
        assert_eq!(Binary::parse(&line(false, "sandbox")), None);
        assert_eq!(Binary::parse("warning: no JSON"), None);
        assert_eq!(Binary::parse(r#"{"reason":"build-finished","success":true}"#), None);
        let [sandbox, scrub] = ["sandbox", "scrub"].map(|folder| Binary::parse(&line(true, folder)).unwrap());
        let command = sandbox.command();
        assert_eq!(command.get_current_dir().unwrap(), "/p/crates/sandbox");
        assert!(command.get_envs().any(|(name, value)| name == "CARGO_MANIFEST_DIR" && value.is_some()));
        assert!(sandbox.rank() < scrub.rank());
    }

    #[test]
    fn a_failure_among_many_is_kept_and_the_others_run() {
        let commands = ["echo one", "echo two; exit 1", "echo three"].map(|script| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        });
        let printed = all(commands.into()).unwrap();
        let failed: Vec<&str> =
            printed.iter().filter(|run| !run.success).map(|run| run.text.as_str()).collect();
        assert_eq!(printed.len(), 3);
        assert!(matches!(failed[..], [only] if only.contains("two")), "{failed:?}");
    }
}
