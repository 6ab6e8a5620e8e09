//! run_tests beside the bare runner, and the feedback on an edit beside the slowest tool run by hand.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::client::Client;
use crate::probe::Times;
use crate::report::{Report, ms, times, verdict};
use crate::scrub;
use crate::subjects::Subjects;

const ROUNDS: usize = 5;
/// When a suite has taken this long, three rounds have to do.
const PATIENCE: Duration = Duration::from_secs(10);
/// What one slow test of the long suites takes.
const SLOW_MS: u64 = 1500;
/// Bytes per second that a reader must take in.
const READ: f64 = 100e6;
/// How much more a tiny suite may take.
const TINY: Duration = Duration::from_millis(150);

/// A runner, the project that uses it, and how one would start it by hand.
struct Runner {
    name: &'static str,
    by_hand: &'static [&'static str],
    project: fn(&Path, Suite) -> Result<()>,
}

#[derive(Clone, Copy, PartialEq)]
enum Suite {
    Tiny,
    Long,
}

impl Suite {
    fn tests(self) -> usize {
        if self == Self::Tiny { 10 } else { 300 }
    }

    fn milliseconds(self) -> u64 {
        if self == Self::Tiny { 0 } else { SLOW_MS }
    }
}

const RUNNERS: &[Runner] = &[
    Runner { name: "go test", by_hand: &["go", "test", "-count=1", "./..."], project: go },
    Runner { name: "cargo test", by_hand: &["cargo", "test"], project: cargo },
    Runner { name: "nextest", by_hand: &["cargo", "nextest", "run"], project: nextest },
    Runner { name: "jest", by_hand: &["npm", "test"], project: jest },
    Runner { name: "vitest", by_hand: &["npm", "test"], project: vitest },
    Runner { name: "mocha", by_hand: &["npm", "test"], project: mocha },
    Runner { name: "node:test", by_hand: &["npm", "test"], project: node },
    Runner { name: "bun", by_hand: &["bun", "test"], project: bun },
    Runner { name: "pytest", by_hand: &["python", "-m", "pytest"], project: pytest },
    Runner { name: "unittest", by_hand: &[".venv/bin/python", "-m", "unittest"], project: unittest },
];

/// run_tests beside the bare runner.
pub(crate) fn tests(subjects: &Subjects, report: &mut Report) -> Result<()> {
    report.section(
        "run_tests beside the bare runner",
        &["runner", "suite", "run_tests", "by hand", "more", "asked", ""],
    );
    let wanted = |runner: &&Runner| subjects.part.as_deref().is_none_or(|part| part == runner.name);
    for runner in RUNNERS.iter().filter(wanted) {
        for suite in [Suite::Tiny, Suite::Long] {
            let row = one(subjects, runner, suite).with_context(|| runner.name)?;
            report.row(&row);
        }
    }
    report.note("A tiny suite has 10 tests, a long one 300 and one of them takes 1.5 s.");
    Ok(())
}

fn one(subjects: &Subjects, runner: &Runner, suite: Suite) -> Result<[String; 7]> {
    let folder = subjects.folder()?;
    (runner.project)(folder.path(), suite)?;
    let mut client = product(subjects, folder.path())?;
    let [mut ours, mut bare] = [const { Times::new() }; 2];
    // Built and cached once for both.
    by_hand(folder.path(), runner.by_hand)?;
    client.text("run_tests", &json!({}))?;
    let begin = Instant::now();
    for round in 0..ROUNDS {
        if round >= 3 && begin.elapsed() > PATIENCE {
            break;
        }
        bare.time(|| by_hand(folder.path(), runner.by_hand))?;
        let text = ours.time(|| client.text("run_tests", &json!({})))?;
        let expected = format!(": {} passed", suite.tests());
        ensure!(text.contains(&expected) && text.ends_with("exit: 0"), "run_tests said {text}");
    }
    let (ours, bare) = (ours.median(), bare.median());
    let more = ours.saturating_sub(bare);
    let (asked, met) = match bare >= Duration::from_secs(1) {
        true => ("≤ 5 % more", ours.as_secs_f64() <= bare.as_secs_f64() * 1.05),
        false => ("≤ 150 ms more", more <= TINY),
    };
    let name = if suite == Suite::Tiny { "tiny" } else { "long" };
    Ok([
        runner.name.to_owned(),
        name.to_owned(),
        ms(ours),
        ms(bare),
        format!("{} ({:+.1} %)", ms(more), (ours.as_secs_f64() / bare.as_secs_f64() - 1.0) * 100.0),
        asked.to_owned(),
        verdict(met),
    ])
}

/// The product, with the test tools on its PATH.
fn product(subjects: &Subjects, workspace: &Path) -> Result<Client> {
    let mut command = Command::new(&subjects.product);
    command.arg("stdio").arg("--workspace").arg(workspace).env("PATH", search_path());
    // A project without an environment of its own uses the active one.
    command.env("VIRTUAL_ENV", environment()?);
    Client::start(&mut command)
}

fn search_path() -> OsString {
    testkit::tools::search_path()
}

fn by_hand(folder: &Path, words: &[&str]) -> Result<()> {
    let program = match words[0] {
        "python" => testkit::tools::python("python"),
        inside if inside.contains('/') => folder.join(inside),
        name => name.into(),
    };
    let mut command = Command::new(program);
    command.args(&words[1..]).current_dir(folder).env("PATH", search_path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().with_context(|| format!("starting {words:?}"))?;
    Ok(())
}

fn write(folder: &Path, name: &str, text: impl AsRef<[u8]>) -> Result<()> {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().context("a folder")?)?;
    Ok(fs::write(path, text)?)
}

fn many(suite: Suite, one: impl Fn(usize, u64) -> String) -> String {
    (0..suite.tests()).map(|n| one(n, if n == 0 { suite.milliseconds() } else { 0 })).collect()
}

fn go(folder: &Path, suite: Suite) -> Result<()> {
    write(folder, "go.mod", "module example.com/m\n\ngo 1.21\n")?;
    let tests = many(suite, |n, ms| {
        format!("func TestCase{n}(t *testing.T) {{ time.Sleep({ms} * time.Millisecond) }}\n")
    });
    write(folder, "m_test.go", format!("package m\n\nimport (\n\t\"testing\"\n\t\"time\"\n)\n\n{tests}"))
}

fn cargo(folder: &Path, suite: Suite) -> Result<()> {
    write(
        folder,
        "Cargo.toml",
        "[package]\nname = \"m\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[workspace]\n",
    )?;
    let tests = many(suite, |n, ms| {
        format!(
            "#[test]\nfn case_{n}() {{\n    std::thread::sleep(std::time::Duration::from_millis({ms}));\n}}\n"
        )
    });
    write(folder, "tests/m.rs", tests)?;
    write(folder, "src/main.rs", "fn main() {}\n")
}

fn nextest(folder: &Path, suite: Suite) -> Result<()> {
    cargo(folder, suite)?;
    write(folder, ".config/nextest.toml", "")
}

fn javascript(folder: &Path, suite: Suite, script: &str, import: &str) -> Result<()> {
    symlink(testkit::tools::node_modules(), folder.join("node_modules"))?;
    let module = import.starts_with("import");
    let kind = if module { "\"type\": \"module\", " } else { "" };
    write(
        folder,
        "package.json",
        format!("{{\"name\": \"m\", {kind}\"scripts\": {{\"test\": \"{script}\"}}}}"),
    )?;
    let tests = many(suite, |n, ms| {
        format!("test('case {n}', () => new Promise((done) => setTimeout(done, {ms})));\n")
    });
    write(folder, "test/m.test.js", format!("{import}\n{tests}"))
}

fn jest(folder: &Path, suite: Suite) -> Result<()> {
    javascript(folder, suite, "jest", "")
}

fn vitest(folder: &Path, suite: Suite) -> Result<()> {
    javascript(folder, suite, "vitest run", "import { test } from 'vitest';")
}

fn mocha(folder: &Path, suite: Suite) -> Result<()> {
    javascript(folder, suite, "mocha", "const test = it;")
}

fn node(folder: &Path, suite: Suite) -> Result<()> {
    javascript(folder, suite, "node --test", "import { test } from 'node:test';")
}

fn bun(folder: &Path, suite: Suite) -> Result<()> {
    javascript(folder, suite, "bun test", "import { test } from 'bun:test';")?;
    write(folder, "bun.lock", "{}")
}

/// The environment that has pytest.
fn environment() -> Result<PathBuf> {
    let python = testkit::tools::python("python");
    Ok(python.parent().and_then(Path::parent).context("an environment")?.to_owned())
}

fn pytest(folder: &Path, suite: Suite) -> Result<()> {
    write(folder, "pyproject.toml", "[project]\nname = \"m\"\nversion = \"1\"\n[tool.pytest.ini_options]\n")?;
    let tests = many(suite, |n, ms| format!("def test_{n}():\n    time.sleep({ms} / 1000)\n\n\n"));
    write(folder, "test_m.py", format!("import time\n\n\n{tests}"))
}

fn unittest(folder: &Path, suite: Suite) -> Result<()> {
    let python = testkit::tools::python("python").canonicalize()?;
    let home = python.parent().context("a folder")?.display().to_string();
    write(folder, ".venv/pyvenv.cfg", format!("home = {home}\n"))?;
    write(folder, ".venv/lib/python3/site-packages/none", "")?;
    write(folder, ".venv/bin/none", "")?;
    symlink(&python, folder.join(".venv/bin/python"))?;
    write(folder, "pyproject.toml", "[project]\nname = \"m\"\nversion = \"1\"\n")?;
    let tests = many(suite, |n, ms| format!("    def test_{n}(self):\n        time.sleep({ms} / 1000)\n\n"));
    write(
        folder,
        "test_m.py",
        format!("import time\nimport unittest\n\n\nclass All(unittest.TestCase):\n{tests}"),
    )
}

/// How fast the readers take in what runners and linters print: what the crate's own criterion bench says.
pub(crate) fn readers(_: &Subjects, report: &mut Report) -> Result<()> {
    let cases = scrub::throughput(["verify", "readers"], "readers/")?;
    report.section(
        "Reading the output of runners and linters (criterion, one core)",
        &["", "throughput", "asked", ""],
    );
    scrub::rows(report, cases, READ);
    Ok(())
}

/// A language's linter and formatter on one file.
struct Checked {
    language: &'static str,
    file: &'static str,
    text: &'static str,
    comment: &'static str,
    project: &'static [(&'static str, &'static str)],
    by_hand: &'static [&'static [&'static str]],
}

const CHECKED: &[Checked] = &[
    Checked {
        language: "go",
        file: "lint.go",
        text: "package lint\n\nimport \"os\"\n\nfunc Remove() {\n\tos.Remove(\"x\")\n}\n",
        comment: "//",
        project: &[("go.mod", "module example.com/lint\n\ngo 1.21\n")],
        by_hand: &[&["golangci-lint", "run", "."], &["gofmt", "-d", "lint.go"]],
    },
    Checked {
        language: "rust",
        file: "src/lib.rs",
        text: "pub fn none(v: &[u8]) -> bool {\n    return v.len() == 0;\n}\n",
        comment: "//",
        project: &[(
            "Cargo.toml",
            "[package]\nname = \"m\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[workspace]\n",
        )],
        by_hand: &[&["cargo", "clippy", "--lib"], &["rustfmt", "--check", "src/lib.rs"]],
    },
    Checked {
        language: "node",
        file: "a.js",
        text: "const unused = 1;\nexport const b = 2;\n",
        comment: "//",
        project: &[
            ("package.json", "{\"type\": \"module\", \"devDependencies\": {\"prettier\": \"*\"}}"),
            ("eslint.config.js", "export default [{ rules: { 'no-unused-vars': 'error' } }];\n"),
        ],
        by_hand: &[&["eslint", "a.js"], &["prettier", "--check", "a.js"]],
    },
    Checked {
        language: "python",
        file: "a.py",
        text: "import os\n\nx = 1\n",
        comment: "#",
        project: &[("pyproject.toml", "[project]\nname = \"m\"\nversion = \"1\"\n")],
        by_hand: &[&["ruff", "check", "a.py"], &["ruff", "format", "--check", "a.py"]],
    },
];

/// The reply to an edit beside the slowest single tool on the same file.
pub(crate) fn feedback(subjects: &Subjects, report: &mut Report) -> Result<()> {
    report.section(
        "Feedback on an edit beside the slowest tool run by hand",
        &["language", "first Edit of a session", "Edit", "slowest tool", "beside", "asked", ""],
    );
    for checked in CHECKED {
        let row = after_edit(subjects, checked).with_context(|| checked.language)?;
        report.row(&row);
    }
    report.note(
        "Both come after a change of the file. The first Edit of a session also looks at the state before it, once.",
    );
    Ok(())
}

fn after_edit(subjects: &Subjects, checked: &Checked) -> Result<[String; 7]> {
    let folder = subjects.folder()?;
    let place = folder.path();
    for (name, text) in checked.project {
        write(place, name, text)?;
    }
    if checked.language == "node" {
        symlink(testkit::tools::node_modules(), place.join("node_modules"))?;
    }
    let numbered = |n: usize| format!("{}{} {n}\n", checked.text, checked.comment);
    write(place, checked.file, numbered(0))?;
    for words in checked.by_hand {
        by_hand(place, words)?;
    }
    let mut client = product(subjects, place)?;
    client.text("Read", &json!({ "file_path": checked.file }))?;
    let mut slowest: Vec<Times> = checked.by_hand.iter().map(|_| Times::new()).collect();
    let [mut first, mut ours] = [const { Times::new() }; 2];
    let mut now = 0;
    for round in 0..ROUNDS {
        let edit = |now: usize| {
            json!({
                "file_path": checked.file,
                "old_string": format!("{} {now}\n", checked.comment),
                "new_string": format!("{} {}\n", checked.comment, now + 1),
            })
        };
        let times = if round == 0 { &mut first } else { &mut ours };
        let text = times.time(|| client.text("Edit", &edit(now)))?;
        ensure!(text.starts_with("replaced 1"), "Edit said {text}");
        now += 1;
        for (tool, words) in slowest.iter_mut().zip(checked.by_hand) {
            now += 1;
            write(place, checked.file, numbered(now))?;
            tool.time(|| by_hand(place, words))?;
        }
        client.text("Read", &json!({ "file_path": checked.file }))?;
        // The state before the next Edit is known: the session made it.
        client.text("Edit", &edit(now))?;
        now += 1;
    }
    let slowest = slowest.iter_mut().map(Times::median).max().unwrap_or_default();
    let median = ours.median();
    let met = median.as_secs_f64() <= slowest.as_secs_f64() * 1.2;
    Ok([
        checked.language.to_owned(),
        ms(first.median()),
        ms(median),
        ms(slowest),
        times(median, slowest),
        "≤ 1.2 ×".to_owned(),
        verdict(met),
    ])
}
