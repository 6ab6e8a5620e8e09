//! Tests, linters, type checkers, formatters and scripts over the fixture projects, with the real tools.

use crate::support::{Bench, Client, Setup, none, watched};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
};
use tokio_util::sync::CancellationToken;

/// A bench whose commands find every tool the tests set up.
pub(crate) fn equipped(project: &str) -> Bench {
    equipped_with(project, Setup::default())
}

/// The same with limits of the test's own.
pub(crate) fn equipped_with(project: &str, setup: Setup) -> Bench {
    let bench = equipment(setup);
    copy(&fixture(project), &bench.root());
    bench
}

/// The tools, and an empty workspace.
pub(crate) fn equipment(mut setup: Setup) -> Bench {
    setup.settings.environment.retain(|(name, _)| name != "PATH");
    let path = testkit::tools::search_path().to_string_lossy().into_owned();
    setup.settings.environment.push(("PATH".to_owned(), path));
    let python = testkit::tools::python("python");
    let environment = python.parent().and_then(Path::parent).unwrap().display().to_string();
    setup.settings.environment.push(("VIRTUAL_ENV".to_owned(), environment));
    setup.bench()
}

/// The same over these files.
pub(crate) fn equipped_over(files: &[(&str, &str)]) -> Bench {
    let bench = equipment(Setup::default());
    for (file, text) in files {
        bench.write(file, text);
    }
    bench
}

/// A bench whose workspace is a copy of a fixture project.
pub(crate) fn on(project: &str) -> Bench {
    let bench = Bench::new();
    copy(&fixture(project), &bench.root());
    bench
}

pub(crate) fn fixture(project: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/projects").join(project)
}

pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path()) {
        let target = to.join(entry.file_name().unwrap());
        match entry.is_dir() {
            true if entry.ends_with("target") || entry.ends_with("node_modules") => {}
            true => copy(&entry, &target),
            false => drop(fs::copy(&entry, &target).unwrap()),
        }
    }
}

pub(crate) async fn tests(client: &Client, args: Value) -> (String, Value) {
    let reply = client.call("run_tests", args).await;
    assert!(!reply.is_error, "{}", reply.all_text());
    (reply.all_text(), reply.structured.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn go_says_everything_about_a_mixed_project() {
    let bench = on("go/mixed");
    let client = bench.client();
    let (text, facts) = tests(&client, none()).await;
    assert!(text.starts_with("go: 5 passed, 19 failed, 1 skipped, 3 build errors ("), "{text}");
    assert!(text.ends_with("\nexit: 1"), "{text}");
    for wanted in [
        "\nbroken/b.go:3:23: cannot use \"s\"",
        "\nFAIL TestFail calc/calc_test.go:17\n  mismatch\n  expected: 3\n  actual: 2\n  | about to add\n  | after\n",
        "\nFAIL TestGotWant calc/calc_test.go:25\n  Add(2, 2) = 4, want 5\n  | printed by the test\n",
        "\nCRASH TestPanic/sub panicky/p_test.go:10\n  panic: assignment to entry in nil map\n",
        "\nERROR example.com/mixed/tmain (package)\n",
    ] {
        assert!(text.contains(wanted), "{wanted:?} in\n{text}");
    }
    assert!(!text.contains("Ghost"), "{text}");
    assert_eq!((&facts["exit"], &facts["languages"][0]["failed"]), (&json!(1), &json!(19)));

    let again = client.ok("last_test_failures", json!({"limit": 2})).await;
    assert!(again.starts_with("19 test failure(s) from last run_tests call (go, "), "{again}");
    assert!(again.contains("\n1. FAIL TestFail ") && again.contains("\n… 17 more; raise `limit`"), "{again}");

    let rerun = client.ok("run_failing_tests", none()).await;
    assert!(rerun.starts_with("go: 19 failed ("), "{rerun}");
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_that_are_mended_are_forgotten() {
    let bench = Bench::new();
    bench.write("go.mod", "module example.com/m\n\ngo 1.21\n");
    let test = |body: &str| {
        format!(
            "package m\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {{ {body} }}\n\nfunc TestB(t *testing.T) {{ t.Error(\"b\") }}\n\nfunc TestC(t *testing.T) {{}}\n"
        )
    };
    bench.write("a_test.go", test("t.Error(1)"));
    let client = bench.client();
    assert_eq!(client.ok("last_test_failures", none()).await, "no run_tests call yet in this session");
    assert_eq!(
        client.err("run_failing_tests", none()).await,
        "no run_tests call yet in this session\ncall run_tests first"
    );
    tests(&client, none()).await;
    bench.write("a_test.go", test(""));
    let text = client.ok("run_failing_tests", none()).await;
    assert!(text.starts_with("go: 1 passed, 1 failed ("), "{text}");
    let text = client.ok("run_failing_tests", none()).await;
    assert!(text.starts_with("go: 1 failed ("), "{text}");
    bench.write("broken.go", "package m\n\nfunc (\n");
    assert!(client.ok("run_failing_tests", none()).await.contains("build error"));
    assert!(client.ok("last_test_failures", none()).await.contains("not a test: broken.go:"));
    bench.write("broken.go", "package m\n");
    client.ok("run_failing_tests", none()).await;
    assert!(!client.ok("last_test_failures", none()).await.contains("not a test"));
    bench.write("a_test.go", "package m\n");
    let text = client.ok("run_failing_tests", none()).await;
    assert!(text.contains("not found, so not run: TestB") && text.ends_with("exit: 1"), "{text}");
    // Nothing that ran is not the same as nothing that failed.
    tests(&client, json!({"tests": ["TestNope"]})).await;
    let text = client.ok("last_test_failures", none()).await;
    assert!(text.starts_with("last run_tests ran nothing: no test matched TestNope"), "{text}");
    // A test that runs others may complain itself.
    let body =
        "t.Cleanup(func() { t.Error(\"after\") }); t.Run(\"s\", func(t *testing.T) { t.Error(\"s\") })";
    bench.write("a_test.go", test(body));
    let (text, _) = tests(&client, none()).await;
    assert!(text.contains("FAIL TestA/s ") && text.contains("FAIL TestA a_test.go:5\n  after"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rust_names_the_tests_that_take_their_process_down() {
    let bench = on("rust/deadly");
    let (text, _) = tests(&bench.client(), none()).await;
    assert!(text.starts_with("rust: 7 passed, 5 failed ("), "{text}");
    for name in ["aborts", "z_segfaults", "exits_zero", "overflows"] {
        assert!(text.contains(&format!("\nCRASH {name} tests/")), "{name} in\n{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn build_errors_are_no_zero_tests() {
    let bench = on("rust/broken");
    let client = bench.client();
    let (text, _) = tests(&client, none()).await;
    assert!(text.starts_with("rust: 2 build errors, no tests ran ("), "{text}");
    assert!(
        text.contains("\ntests/bad.rs:3:18: error[E0308]: mismatched types: expected `i32`, found `&str`\n"),
        "{text}"
    );
    assert!(text.ends_with("\nexit: 101"), "{text}");
    let last = client.ok("last_test_failures", none()).await;
    assert!(last.contains("not a test: tests/bad.rs:3:18"), "{last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn time_runs_out_with_what_was_done_and_what_hangs() {
    for (language, hanging) in
        [("go/mixed", "TIMEOUT TestHang hang/h_test.go:"), ("rust/deadly", "TIMEOUT hangs tests/hangs.rs:")]
    {
        let mut setup = Setup::default();
        setup.settings.environment.push(("FIXTURE_HANG".to_owned(), "1".to_owned()));
        let bench = setup.bench();
        copy(&fixture(language), &bench.root());
        let client = bench.client();
        let names = if language.starts_with("go") { json!(["./hang"]) } else { json!(["hangs", "quick"]) };
        if language.starts_with("rust") {
            // Built beforehand, so that the time is spent on the test.
            client.ok("Bash", json!({"command": "cargo test --no-run 2>&1"})).await;
        }
        let (text, _) = tests(&client, json!({"timeout": 6, "tests": names})).await;
        assert!(text.contains(hanging), "{text}");
        assert!(text.contains("1 passed"), "{text}");
        assert!(text.contains("timed out after"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_run_leaves_what_it_had_found() {
    let mut setup = Setup::default();
    setup.settings.environment.push(("FIXTURE_HANG".to_owned(), "1".to_owned()));
    let bench = setup.bench();
    copy(&fixture("go/mixed/hang"), &bench.root().join("hang"));
    bench.write("go.mod", "module example.com/mixed\n\ngo 1.21\n");
    let client = bench.client();
    let (progress, seen) = watched();
    let cancel = CancellationToken::new();
    let begun = async {
        let counted = || seen.lock().unwrap().iter().any(|update| update.message.starts_with("1 tests done"));
        crate::support::until(async || counted().then_some(())).await;
        cancel.cancel();
    };
    let (reply, ()) = tokio::join!(client.call_with("run_tests", none(), cancel.clone(), progress), begun);
    assert_eq!(reply.all_text(), "run_tests: cancelled");
    let last = client.ok("last_test_failures", none()).await;
    assert!(last.starts_with("last run_tests had no failures (1 tests passed, go, "), "{last}");
    assert!(last.ends_with("; but it was cancelled"), "{last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_a_change_affects_is_run() {
    let bench = equipped("go/green");
    bench.write("go.mod", "module example.com/m\n\ngo 1.21\n");
    fs::remove_file(bench.root().join("green_test.go")).unwrap();
    let test = |name: &str| format!("func Test{name}(t *testing.T) {{}}\n");
    bench.write("a/a.go", "package a\n\nfunc A() {}\n");
    bench.write("a/a_test.go", format!("package a\n\nimport \"testing\"\n\n{}", test("A")));
    let uses = "package b\n\nimport (\n\t\"testing\"\n\n\t\"example.com/m/a\"\n)\n\nvar _ = a.A\n\n";
    bench.write("b/b_test.go", format!("{uses}{}", test("B")));
    bench.write("c/c_test.go", format!("package c\n\nimport \"testing\"\n\n{}", test("C")));
    let client = bench.client();
    client.ok("snapshot_create", json!({"name": "start"})).await;
    let since = json!({"affected_since": "start"});
    let text = client.ok("run_tests", since.clone()).await;
    assert_eq!(text, "go: no tests affected, none run: nothing changed since start\nexit: 0");
    bench.write("c/c_test.go", format!("package c\n\nimport \"testing\"\n\n{}", test("D")));
    let (text, _) = tests(&client, since.clone()).await;
    assert!(text.starts_with("go: 1 passed ("), "{text}");
    assert!(
        text.contains("\nnote: only what is affected: 1 of 3 packages, by imports (go list); 1 file changed"),
        "{text}"
    );
    bench.write("a/a.go", "package a\n\n// A is more.\nfunc A() {}\n");
    let (text, _) = tests(&client, since.clone()).await;
    assert!(text.starts_with("go: 3 passed ("), "{text}");
    bench.write("go.mod", "module example.com/m\n\ngo 1.22\n");
    let (text, _) = tests(&client, since).await;
    assert!(text.contains("note: everything is run: go.mod changed"), "{text}");
    let text = client.err("run_tests", json!({"affected_since": "HEAD~1"})).await;
    assert!(text.contains("\"HEAD~1\" is no snapshot (start) and no git revision"), "{text}");

    let git = "git init -q && git add -A && git -c user.name=t -c user.email=t@example.org commit -qm x";
    client.ok("Bash", json!({"command": git})).await;
    bench.write("b/new.go", "package b\n");
    let (text, _) = tests(&client, json!({"affected_since": "HEAD"})).await;
    assert!(text.starts_with("go: 1 passed (") && text.contains("1 file changed since HEAD"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn packages_that_depend_on_a_changed_one_are_run() {
    let bench = on("rust/family");
    bench.write("two/Cargo.toml", fs::read_to_string(bench.root().join("two/Cargo.toml")).unwrap() + "\n");
    let client = bench.client();
    client.ok("snapshot_create", json!({"name": "s"})).await;
    let one = fs::read_to_string(bench.root().join("one/src/lib.rs")).unwrap();
    bench.write("one/src/lib.rs", one + "\n// more\n");
    let (text, _) = tests(&client, json!({"affected_since": "s"})).await;
    assert!(text.contains("note: only what is affected: 1 of 2 packages, by dependencies"), "{text}");
    assert!(!text.contains("two/"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn test_files_that_reach_a_changed_one_are_run() {
    for project in ["node/jest", "node/vitest", "node/mocha", "node/node-test", "node/bun", "python/pytest"] {
        let (language, _) = project.split_once('/').unwrap();
        let bench = equipped(project);
        bench.write(".gitignore", "node_modules\n.venv\n__pycache__\n");
        let (source, other, text) = match language {
            "node" => {
                let modules = testkit::tools::node_modules();
                std::os::unix::fs::symlink(modules, bench.root().join("node_modules")).unwrap();
                let runner = project.trim_start_matches("node/");
                let import = match runner {
                    "vitest" => "import { test } from 'vitest';\n",
                    "node-test" => "import { test } from 'node:test';\n",
                    "bun" => "import { test } from 'bun:test';\n",
                    "mocha" => "const test = it;\n",
                    _ => "",
                };
                ("src/calc.js", "test/other.test.js", format!("{import}test('alone', () => {{}});\n"))
            }
            _ => {
                let text = "import unittest\n\n\nclass Alone(unittest.TestCase):\n    def test_alone(self):\n        pass\n";
                ("calc/__init__.py", "tests/test_alone.py", text.to_owned())
            }
        };
        bench.write(other, text);
        let client = bench.client();
        client.ok("snapshot_create", json!({"name": "s"})).await;
        bench.write(other, fs::read_to_string(bench.root().join(other)).unwrap() + "\n");
        let since = json!({"affected_since": "s"});
        let (text, _) = tests(&client, since.clone()).await;
        assert!(text.starts_with(&format!("{language}: 1 passed (")), "{project}: {text}");
        assert!(text.contains("note: only what is affected: 1 test "), "{project}: {text}");
        client.ok("snapshot_create", json!({"name": "t"})).await;
        bench.write(source, fs::read_to_string(bench.root().join(source)).unwrap() + "\n");
        let (text, _) = tests(&client, json!({"affected_since": "t"})).await;
        assert!(!text.contains("alone") && text.contains(" failed"), "{project}: {text}");
        assert!(text.contains("1 test "), "{project}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn languages_are_chosen_as_agreed() {
    let bench = on("go/green");
    copy(&fixture("rust/empty"), &bench.root());
    let client = bench.client();
    assert_eq!(
        client.err("run_tests", none()).await,
        "polyglot workspace: 2 project types detected (go, rust) — pass `language` to pick one"
    );
    assert_eq!(
        client.err("run_lint", json!({"language": "python"})).await,
        "language \"python\" not detected in workspace; detected: go, rust"
    );
    let (text, facts) = tests(&client, json!({"language": " ALL "})).await;
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("go: 300 passed") && lines[1].starts_with("rust: no tests found"), "{text}");
    assert_eq!((facts["languages"].as_array().map(Vec::len), lines.len()), (Some(2), 3));

    let bench = Bench::new();
    bench.write("web/go.mod", "module m\n");
    let text = bench.client().err("run_tests", none()).await;
    assert!(text.contains("looked for go.mod") && text.contains("found markers: web/go.mod"), "{text}");
    let text = bench.client().ok("run_tests", json!({"path": "web"})).await;
    assert!(text.starts_with("go: no tests found"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_is_told_while_tests_run() {
    let bench = Bench::new();
    bench.write("go.mod", "module example.com/slow\n\ngo 1.21\n");
    let slow: String = (0..6)
        .map(|n| format!("func TestSlow{n}(t *testing.T) {{ time.Sleep(200 * time.Millisecond) }}\n"))
        .collect();
    bench.write("s_test.go", format!("package slow\n\nimport (\n\t\"testing\"\n\t\"time\"\n)\n\n{slow}"));
    let (progress, seen) = watched();
    let client = bench.client();
    let reply = client.call_with("run_tests", none(), CancellationToken::new(), progress).await;
    assert!(!reply.is_error);
    let seen = seen.lock().unwrap();
    assert!(seen.iter().any(|update| update.message.ends_with(" tests done")), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nested_projects_are_reached_by_path() {
    let bench = Bench::new();
    copy(&fixture("go/mixed"), &bench.root().join("services/api"));
    let client = bench.client();
    let (text, _) = tests(&client, json!({"path": "services/api", "tests": ["TestFail"]})).await;
    assert!(text.contains("\nFAIL TestFail services/api/calc/calc_test.go:17\n"), "{text}");
    // The package whose TestMain fails does so whatever is selected.
    let text = client.ok("run_failing_tests", none()).await;
    assert!(text.starts_with("go: 2 failed ("), "{text}");
    assert_eq!(
        client.err("run_tests", json!({"path": "services/none"})).await,
        "run_tests: no such folder: services/none; pass one relative to the workspace's root"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_program_is_named() {
    let mut setup = Setup::default();
    setup.settings.environment = vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
    let bench = setup.bench();
    bench.write("go.mod", "module m\n");
    bench.write("Cargo.toml", "[package]\nname = \"m\"\n");
    let client = bench.client();
    let go = json!({"language": "go"});
    assert_eq!(
        client.err("run_tests", go.clone()).await,
        "run_tests: go: not found on PATH\nget it: https://go.dev/doc/install"
    );
    assert!(
        client
            .err("run_lint", go.clone())
            .await
            .starts_with("linter not installed: golangci-lint\nget it: go install ")
    );
    assert!(
        client
            .err("run_lint", json!({"language": "rust"}))
            .await
            .starts_with("linter not installed: cargo-clippy\n")
    );
    assert!(client.err("run_typecheck", go).await.starts_with("run_typecheck: go: not found on PATH\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn lint_and_typecheck_findings() {
    let bench = on("rust/lint");
    let client = bench.client();
    let text = client.ok("run_lint", none()).await;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "src/lib.rs:4:5:clippy::needless_return: unneeded `return` statement",
            "src/lib.rs:4:12:clippy::len_zero: length comparison to zero",
            "src/lib.rs:7:4:dead_code: function `unused` is never used",
            "tests/integ.rs:3:5:clippy::bool_assert_comparison: used `assert_eq!` with a literal bool",
            "4 findings (3 fixable: fix=true)",
        ],
    );
    let fixed = client.ok("run_lint", json!({"fix": true})).await;
    assert!(fixed.contains("\n-    return v.len() == 0;\n+    v.is_empty()\n"), "{fixed}");
    assert!(fixed.contains("\n1 findings"), "{fixed}");
    let text = client.ok("run_typecheck", none()).await;
    assert!(
        text.starts_with("src/lib.rs:7:4:dead_code: ") && text.ends_with("\n1 findings\nexit: 1"),
        "{text}"
    );

    let bench = on("go/lint");
    let text = bench.client().ok("run_typecheck", none()).await;
    assert_eq!(
        text,
        "broken/b.go:5:23:compile: cannot use \"s\" (untyped string constant) as int value in return statement\n\
         lint.go:13:14:printf: fmt.Printf format %d has arg \"s\" of wrong type string\n2 findings\nexit: 1"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn formatting_changes_what_it_should() {
    for (project, file, formatted) in [
        ("go/lint", "ugly.go", "package lint\n\nfunc Ugly() {}\n"),
        ("rust/lint", "src/ugly.rs", "pub fn x() {\n    let a = 1;\n}\n"),
    ] {
        let bench = on(project);
        let client = bench.client();
        let text = client.ok("run_format", json!({"check": true})).await;
        assert!(text.contains(&format!("--- a/{file}\n+++ b/{file}\n")), "{text}");
        assert!(text.contains("\n1 of ") && text.ends_with(" files would change"), "{text}");
        let text = client.ok("run_format", none()).await;
        assert!(text.ends_with(&format!(" files:\n{file}")), "{text}");
        assert_eq!(fs::read_to_string(bench.root().join(file)).unwrap(), formatted);
        let text = client.ok("run_format", json!({"path": file})).await;
        assert_eq!(text, "1 files, nothing to change");
        bench.write(file, "this is {{ no code");
        let text = client.ok("run_format", json!({"path": file})).await;
        assert!(text.starts_with(&format!("cannot format {file}: ")), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_is_formatted_as_the_project_it_is() {
    let bench = on("go/green");
    copy(&fixture("rust/lint"), &bench.root().join("native/core"));
    let client = bench.client();
    let text = client.ok("run_format", json!({"path": "native/core/src", "check": true})).await;
    assert!(text.contains("--- a/native/core/src/ugly.rs\n"), "{text}");
    let text = client.ok("run_format", json!({"path": "native", "language": "go"})).await;
    assert_eq!(text, "0 files, nothing to change");
    let text = client.ok("run_format", json!({"path": "native/core/src/ugly.rs"})).await;
    assert!(text.starts_with("formatted 1 of 1 files:"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_are_what_the_project_defines() {
    let bench = on("go/green");
    let client = bench.client();
    assert_eq!(
        client.err("run_script", json!({"name": "build"})).await,
        "run_script: run_script is not supported for go: the project has no Makefile or justfile with targets; use Bash"
    );
    bench.write("Makefile", "hello:\n\t@echo hi there; exit 3\nother:\n\ttrue\n");
    let text = client.ok("run_script", json!({"name": "hello"})).await;
    assert!(text.starts_with("hi there\n") && text.ends_with("\nexit: 2"), "{text}");
    assert_eq!(
        client.err("run_script", json!({"name": "nope"})).await,
        "run_script: no script named \"nope\" in Makefile; available: hello, other"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_explained_without_running_it() {
    let bench = on("rust/family");
    let text = bench.client().ok("run_tests", json!({"explain": true})).await;
    assert!(text.contains("cargo test --no-fail-fast --message-format=json --workspace\n"), "{text}");
    assert!(
        text.contains("\n  - --workspace: without it a root package would hide the other members"),
        "{text}"
    );
    assert!(!bench.root().join("target").exists());
    for (project, command) in [
        ("go/mixed", "go test -json -fullpath -count=1 -timeout=297s ./..."),
        ("node/jest", "npm run test"),
        ("node/bun", "bun"),
        ("python/pytest", "-m pytest -p codegen_sandbox_pytest"),
    ] {
        let bench = equipped(project);
        let text = bench.client().ok("run_tests", json!({"explain": true})).await;
        assert!(text.contains(command) && text.contains("\n  - "), "{project}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hoisted_tools_serve_the_packages_of_a_workspace() {
    let workspaces = "{\"name\": \"root\", \"private\": true, \"workspaces\": [\"packages/*\"]}";
    for (manager, lock, text) in [
        ("npm", "package-lock.json", "{\"lockfileVersion\": 3, \"packages\": {}}"),
        ("pnpm", "pnpm-lock.yaml", "lockfileVersion: '9.0'\n"),
        ("bun", "bun.lock", "{\"lockfileVersion\": 1, \"workspaces\": {\"\": {}}, \"packages\": {}}"),
    ] {
        let bench = equipped("go/empty");
        copy(&fixture("node/mocha"), &bench.root().join("packages/app"));
        bench.write("package.json", workspaces);
        bench.write("pnpm-workspace.yaml", "packages: ['packages/*']\n");
        bench.write(lock, text);
        let modules = bench.root().join("node_modules/.bin");
        fs::create_dir_all(&modules).unwrap();
        std::os::unix::fs::symlink(testkit::tools::node_modules().join(".bin/mocha"), modules.join("mocha"))
            .unwrap();
        let client = bench.client();
        let (text, _) = tests(&client, json!({"path": "packages/app"})).await;
        assert!(text.starts_with("node: 4 passed, 6 failed, 2 skipped ("), "{manager}: {text}");
        assert!(text.contains(" packages/app/test/calc.test.js:"), "{manager}: {text}");
        let explained = client.ok("run_tests", json!({"path": "packages/app", "explain": true})).await;
        assert!(explained.contains(&format!("{manager} because of ../../{lock}")), "{explained}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn golangci_lint_finds_fixes_and_knows_a_wrong_configuration() {
    let bench = equipped("go/lint");
    let client = bench.client();
    let text = client.ok("run_lint", none()).await;
    assert!(text.starts_with("broken/b.go:5:23:typecheck: cannot use \"s\""), "{text}");
    assert!(text.contains("\n1 findings\n(lint incomplete: the code does not compile, "), "{text}");
    fs::remove_dir_all(bench.root().join("broken")).unwrap();
    let text = client.ok("run_lint", none()).await;
    assert!(text.contains("lint.go:14:11:errcheck: "), "{text}");
    assert!(text.contains("lint.go:13:14:govet: "), "{text}");
    assert!(text.contains("lint.go:9:6:unused: "), "{text}");

    let bench = equipped("go/oldconfig");
    let text = bench.client().err("run_lint", none()).await;
    assert!(text.contains("configuration error") && text.contains("golangci-lint migrate"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nextest_is_used_where_it_is_configured() {
    let bench = equipped("rust/family");
    bench.write(".config/nextest.toml", "");
    let client = bench.client();
    let (text, _) = tests(&client, none()).await;
    assert!(text.starts_with("rust: 1 passed, 6 failed ("), "{text}");
    assert!(text.contains("\nFAIL fails one/src/lib.rs:15\n"), "{text}");
    assert!(text.contains("\nFAIL in_the_binary two/src/main.rs:5\n"), "{text}");
    assert!(text.contains("\nFAIL two/src/lib.rs - n (line 5) two/src/lib.rs:7\n"), "{text}");
    let again = client.ok("run_failing_tests", none()).await;
    // An example called `n` cannot be told from the `line` in every example's name.
    assert!(again.starts_with("rust: 1 passed, 6 failed ("), "{again}");
    assert!(
        again.contains("\nnote: rustdoc selects examples by a word: others of that name ran too\n"),
        "{again}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nextest_is_not_believed_where_a_test_left_early_or_lists_nothing() {
    let bench = equipped("rust/deadly");
    // A report of the project's own does not take ours away.
    bench.write(".config/nextest.toml", "[profile.default.junit]\npath = \"theirs.xml\"\n");
    bench.write("tests/abort.rs", "");
    bench.write("tests/overflow.rs", "fn main() { println!(\"no list\"); std::process::exit(3) }");
    let manifest = fs::read_to_string(bench.root().join("Cargo.toml")).unwrap();
    bench.write("Cargo.toml", manifest + "\n[[test]]\nname = \"overflow\"\nharness = false\n");
    let client = bench.client();
    let (text, _) = tests(&client, none()).await;
    assert!(text.starts_with("rust: 4 passed, 2 failed ("), "{text}");
    assert!(text.contains("\nCRASH exits_zero tests/exits.rs:"), "{text}");
    assert!(text.contains("\nFAIL tests/overflow.rs\n") && text.contains("exit status: 3"), "{text}");
    let again = client.ok("run_failing_tests", none()).await;
    assert!(again.starts_with("rust: 2 failed ("), "{again}");
}

/// Every tool in every language, on a machine that has none of their programs: whatever cannot be done is said,
/// and nothing is taken for an empty success.
#[tokio::test(flavor = "multi_thread")]
async fn no_tool_is_silent_in_any_language() {
    let bin = tempfile::tempdir().unwrap();
    for program in ["sh", "cat", "mkdir", "rm", "env"] {
        let real = testkit::tools::on_path(program).unwrap();
        std::os::unix::fs::symlink(real, bin.path().join(program)).unwrap();
    }
    let projects = [
        ("go", "go.mod", "module m\n", "a.go"),
        ("rust", "Cargo.toml", "[package]\nname = \"m\"\n", "src/lib.rs"),
        ("node", "package.json", "{\"devDependencies\": {\"jest\": \"*\", \"prettier\": \"*\"}}", "a.js"),
        ("python", "pyproject.toml", "[project]\nname = \"m\"\n", "a.py"),
    ];
    assert_eq!(projects.len(), verify::Languages::shipped().all().len(), "a language is missing here");
    for (language, marker, text, source) in projects {
        let mut setup = Setup::default();
        setup.settings.environment = vec![("PATH".to_owned(), bin.path().display().to_string())];
        let bench = setup.bench();
        bench.write(marker, text);
        bench.write(source, "x\n");
        let client = bench.client();
        for tool in [
            "run_tests",
            "run_lint",
            "run_typecheck",
            "run_format",
            "run_script",
            "run_failing_tests",
            "tests_covering",
        ] {
            let args = match tool {
                "run_script" => json!({"name": "nope"}),
                "tests_covering" => json!({"file": source}),
                _ => none(),
            };
            let reply = client.call(tool, args).await;
            assert!(reply.is_error, "{tool} for {language}: {}", reply.all_text());
            assert!(reply.all_text().len() > 10, "{tool} for {language}: {}", reply.all_text());
        }
        assert_eq!(client.ok("last_test_failures", none()).await, "no run_tests call yet in this session");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tests_are_told_by_the_lines_they_reach() {
    let bench = equipped("python/pytest");
    let client = bench.client();
    let text = client.ok("tests_covering", json!({"file": "calc/__init__.py", "line": 9})).await;
    assert!(text.starts_with("1 test reach calc/__init__.py:9 (precision: test; recorded "), "{text}");
    assert!(text.ends_with("\ntests/test_calc.py\n  TestGroup::test_raises_in_calc"), "{text}");
    let text = client.ok("tests_covering", json!({"file": "calc/__init__.py", "line": 1})).await;
    assert_eq!(text, "no coverage found for calc/__init__.py:1");
    let read_only = bench.client_with(tools::Access::ReadOnly);
    let text = read_only.ok("tests_covering", json!({"file": "calc/__init__.py"})).await;
    assert_eq!(text, "no coverage data yet — run run_tests first");

    let bench = on("go/mixed");
    let text = bench.client().ok("tests_covering", json!({"file": "calc/calc.go", "line": 7})).await;
    assert!(text.starts_with("1 package reach calc/calc.go:7 (precision: package; "), "{text}");
    assert!(text.ends_with("\n./calc"), "{text}");

    for runner in ["jest", "vitest", "mocha", "node-test", "bun"] {
        let bench = equipped(&format!("node/{runner}"));
        let modules = testkit::tools::node_modules();
        std::os::unix::fs::symlink(modules, bench.root().join("node_modules")).unwrap();
        let text = bench.client().ok("tests_covering", json!({"file": "src/calc.js", "line": 1})).await;
        assert!(text.starts_with("1 test file reach src/calc.js:1 (precision: file; "), "{runner}: {text}");
        assert!(text.ends_with("\ntest/calc.test.js"), "{runner}: {text}");
    }

    let bench = on("rust/green");
    let text = bench.client().err("tests_covering", json!({"file": "src/lib.rs"})).await;
    assert!(text.starts_with("coverage is not supported for rust: it needs cargo-llvm-cov"), "{text}");
}

/// A package's tests may reach another package, and one that fails reaches lines, too.
#[tokio::test(flavor = "multi_thread")]
async fn lines_of_rust_are_told_by_the_packages_that_reach_them() {
    let bench = equipment(Setup::default());
    bench.write("Cargo.toml", "[workspace]\nresolver = \"2\"\nmembers = [\"app\", \"lib\"]\n");
    let manifest = |name: &str| {
        format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\n")
    };
    bench.write("lib/Cargo.toml", manifest("lib"));
    bench.write("app/Cargo.toml", manifest("app") + "lib = { path = \"../lib\" }\n");
    bench.write(
        "lib/src/lib.rs",
        "pub fn yes() -> bool {\n    true\n}\npub fn no() -> bool {\n    false\n}\npub fn never() -> bool {\n    true\n}\n\
         #[test]\nfn own() {\n    assert!(!no());\n}\n",
    );
    bench.write("app/src/lib.rs", "#[test]\nfn fails() {\n    assert!(!lib::yes());\n}\n");
    let client = bench.client();
    for (line, package) in [(2, "app"), (5, "lib")] {
        let text = client.ok("tests_covering", json!({"file": "lib/src/lib.rs", "line": line})).await;
        let start = format!("1 package reach lib/src/lib.rs:{line} (precision: package; ");
        assert!(text.starts_with(&start) && text.ends_with(&format!("\n-p {package}")), "{text}");
    }
    let text = client.ok("tests_covering", json!({"file": "lib/src/lib.rs", "line": 8})).await;
    assert_eq!(text, "no coverage found for lib/src/lib.rs:8");
}
