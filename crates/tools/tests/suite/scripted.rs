//! Node and Python through the tools, with the real runners.

use crate::{
    support::{Bench, Client, Setup, none},
    verify::{copy, fixture},
};
use serde_json::{Value, json};
use std::{env, fs, os::unix::fs::symlink, path::Path};
use tokio_util::sync::CancellationToken;
use tools::{Progress, ProgressUpdate};

/// A bench with the tools of Node and Python.
fn bench() -> Bench {
    let mut setup = Setup::default();
    let ours = ["jest", "ruff", "uv"].map(testkit::tools::path);
    let folders = ours.iter().filter_map(|path| path.parent()).map(Path::to_owned);
    let theirs = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths(folders.chain(env::split_paths(&theirs))).unwrap();
    let python = testkit::tools::python("python");
    let environment = python.parent().and_then(Path::parent).unwrap().to_string_lossy().into_owned();
    let variables = &mut setup.settings.environment;
    variables
        .retain(|(name, _)| !["PATH", "VIRTUAL_ENV", "NODE_OPTIONS", "PYTHONPATH"].contains(&name.as_str()));
    variables.push(("PATH".to_owned(), path.into_string().unwrap()));
    variables.push(("VIRTUAL_ENV".to_owned(), environment));
    setup.bench()
}

fn on(project: &str) -> Bench {
    let bench = bench();
    copy(&fixture(project), &bench.root());
    if project.starts_with("node") {
        link(&bench);
    }
    bench
}

fn link(bench: &Bench) {
    symlink(testkit::tools::node_modules(), bench.root().join("node_modules")).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_remembered_and_run_again() {
    for (project, failed) in [
        ("node/jest", 6),
        ("node/vitest", 6),
        ("node/mocha", 6),
        ("node/node-test", 6),
        ("node/bun", 6),
        ("python/pytest", 11),
    ] {
        let bench = on(project);
        let client = bench.client();
        let text = client.ok("run_tests", none()).await;
        assert!(text.contains(&format!("{failed} failed")), "{project}: {text}");
        let last = client.ok("last_test_failures", none()).await;
        assert!(
            last.starts_with(&format!("{failed} test failure(s) from last run_tests call (")),
            "{project}: {last}"
        );
        let again = client.ok("run_failing_tests", none()).await;
        assert!(again.contains(&format!(": {failed} failed (")), "{project}: {again}");
    }
}

async fn structured(client: &Client, tool: &str, args: Value) -> (String, Value) {
    let reply = client.call(tool, args).await;
    assert!(!reply.is_error, "{tool}: {}", reply.all_text());
    (reply.all_text(), reply.structured.unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn node_is_linted_checked_formatted_and_scripted() {
    let bench = bench();
    link(&bench);
    bench.write(".gitignore", "node_modules\n");
    bench.write("package.json", r#"{"type":"module","scripts":{"hello":"node -e 'console.log(6*7)'"},"devDependencies":{"prettier":"3"}}"#);
    bench.write(
        "eslint.config.js",
        "export default [{ rules: { 'prefer-const': 'error', 'no-unused-vars': 'error' } }];\n",
    );
    bench.write("tsconfig.json", r#"{"compilerOptions":{"strict":true,"types":[]},"include":["src"]}"#);
    bench.write("src/a.js", "let a = 1;\nexport default a;\n");
    bench.write("src/t.ts", "export const n: number = 'x';\n");
    let client = bench.client();
    let (lint, _) = structured(&client, "run_lint", none()).await;
    assert!(
        lint.contains("src/a.js:1:5:prefer-const: 'a' is never reassigned") && lint.contains("1 finding"),
        "{lint}"
    );
    let (fixed, _) = structured(&client, "run_lint", json!({"fix": true})).await;
    assert!(fixed.contains("+const a = 1;") && fixed.contains("0 findings"), "{fixed}");
    let types = client.ok("run_typecheck", none()).await;
    assert!(types.contains("src/t.ts:1:14:TS2322: Type 'string' is not assignable"), "{types}");
    bench.write("src/a.js", "const   a=1\nexport default a\n");
    let check = client.ok("run_format", json!({"check": true})).await;
    assert!(check.contains("src/a.js") && check.contains("+const a = 1;"), "{check}");
    client.ok("run_format", none()).await;
    assert_eq!(
        fs::read_to_string(bench.root().join("src/a.js")).unwrap(),
        "const a = 1;\nexport default a;\n"
    );
    assert!(client.ok("run_script", json!({"name": "hello"})).await.contains("42"));
    let unknown = client.err("run_script", json!({"name": "nope"})).await;
    assert!(
        unknown.starts_with("run_script: no script named \"nope\" in package.json; available: hello"),
        "{unknown}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn python_is_linted_checked_formatted_and_scripted() {
    let bench = bench();
    bench.write(
        "pyproject.toml",
        "[tool.mypy]\n[project]\nname = 'calc'\nversion = '1'\n[project.scripts]\nserve = 'calc:main'\n",
    );
    bench.write("Makefile", "hello:\n\t@echo 42\n");
    bench.write("calc.py", "import os\n\n\ndef f(a: int) -> int:\n    return 'x'\n");
    let client = bench.client();
    let lint = client.ok("run_lint", none()).await;
    assert!(
        lint.contains("calc.py:1:8:F401: `os` imported but unused") && lint.contains("1 finding"),
        "{lint}"
    );
    let fixed = client.ok("run_lint", json!({"fix": true})).await;
    assert!(fixed.contains("-import os") && fixed.contains("0 findings"), "{fixed}");
    let types = client.ok("run_typecheck", none()).await;
    assert!(types.contains(":return-value: Incompatible return value type"), "{types}");
    bench.write("calc.py", "def  f( a ):\n  return   a\n");
    let check = client.ok("run_format", json!({"check": true})).await;
    assert!(check.contains("+def f(a):"), "{check}");
    assert!(client.ok("run_script", json!({"name": "hello"})).await.contains("42"));
    let unknown = client.err("run_script", json!({"name": "nope"})).await;
    assert!(unknown.contains("no script named \"nope\"") && unknown.contains("hello, serve"), "{unknown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_package_manager_runs_scripts_and_tests() {
    for (manager, lock, text) in [
        ("pnpm", "pnpm-lock.yaml", "lockfileVersion: '9.0'\n"),
        ("yarn", "yarn.lock", "# yarn lockfile v1\n"),
        ("bun", "bun.lock", "{\"lockfileVersion\":1,\"workspaces\":{\"\":{}},\"packages\":{}}\n"),
        ("npm", "package-lock.json", "{\"lockfileVersion\":3,\"packages\":{}}\n"),
    ] {
        let bench = on("node/mocha");
        bench.write(lock, text);
        bench.write(
            "package.json",
            r#"{"name":"x","scripts":{"test":"mocha","hello":"node -e 'console.log(6*7)'"}}"#,
        );
        let client = bench.client();
        let tests = client.ok("run_tests", none()).await;
        assert!(tests.starts_with("node: 4 passed, 6 failed, 2 skipped ("), "{manager}: {tests}");
        let script = client.ok("run_script", json!({"name": "hello"})).await;
        assert!(script.contains("42"), "{manager}: {script}");
        assert_eq!(fs::read_to_string(bench.root().join(lock)).unwrap(), text, "{manager}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_is_told_while_a_report_grows() {
    let bench = bench();
    bench.write("pyproject.toml", "[tool.pytest.ini_options]\n");
    // The second test ends well only when somebody heard of the first while it was waiting.
    let waits = "import os, time\n\ndef test_first():\n    pass\n\ndef test_second():\n    until = time.time() + 60\n    while not os.path.exists('heard') and time.time() < until:\n        time.sleep(0.05)\n    assert os.path.exists('heard')\n";
    bench.write("test_progress.py", waits);
    let heard = bench.root().join("heard");
    let progress = Progress::to(move |update: ProgressUpdate| {
        if update.message == "1/2" {
            fs::write(&heard, "").unwrap();
        }
    });
    let reply = bench.client().call_with("run_tests", none(), CancellationToken::new(), progress).await;
    assert!(reply.all_text().starts_with("python: 2 passed ("), "{}", reply.all_text());
}
