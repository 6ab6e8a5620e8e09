//! `doctor`: what works, what is missing, and the exit code.

use crate::support::plain;
use serde_json::Value;
use std::{fs, process::Output};
use testkit::{Workspace, tools};

fn project() -> Workspace {
    let workspace = Workspace::with(&[
        ("go.mod", "module example.com/calc\n\ngo 1.21\n"),
        ("package.json", r#"{"devDependencies": {"vitest": "3"}, "scripts": {"test": "vitest run"}}"#),
        ("node_modules/.bin/vitest", "#!/bin/sh\necho vitest/3.2.1\n"),
        ("node_modules/.bin/eslint", "#!/bin/sh\necho no such module >&2\nexit 3\n"),
    ]);
    for name in ["vitest", "eslint"] {
        let path = workspace.path(&format!("node_modules/.bin/{name}"));
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(path, mode).unwrap();
    }
    workspace
}

fn doctor(workspace: &Workspace, path: &str, args: &[&str]) -> (Option<i32>, String, String) {
    let launch = plain(workspace).env("PATH", path);
    let Output { status, stdout, stderr } = launch.command("doctor").args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code(), text(stdout), text(stderr))
}

fn everything() -> String {
    tools::search_path().to_string_lossy().into_owned()
}

fn item<'a>(report: &'a Value, section: &str, name: &str) -> &'a Value {
    let sections = report["sections"].as_array().unwrap();
    let section = sections.iter().find(|it| it["name"] == section).unwrap();
    let items = section["items"].as_array().unwrap();
    items.iter().find(|it| it["name"] == name).unwrap_or_else(|| panic!("no {name} in {items:#?}"))
}

#[test]
fn it_says_what_there_is_and_where() {
    let workspace = project();
    let (code, out, err) = doctor(&workspace, &everything(), &["--json", "--require", "go,isolation"]);
    assert_eq!(code, Some(0), "{out}{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["ok"], true);
    assert_eq!(item(&report, "isolation", "isolation")["state"], "ok");
    assert_eq!(item(&report, "isolation", "syscalls")["state"], "ok");
    let memory = item(&report, "isolation", "cap memory")["text"].as_str().unwrap();
    assert!(memory.contains("MiB, held by a "), "{memory}");
    let go = item(&report, "languages", "go/go")["text"].as_str().unwrap();
    assert!(go.contains("/bin/go, go version go1."), "{go}");
    // The project's own comes before the one on the PATH, and one that does not run is no use.
    let own = item(&report, "languages", "node/vitest")["text"].as_str().unwrap();
    let place = workspace.path("node_modules/.bin/vitest").display().to_string();
    assert!(own.starts_with(&format!("{place}, the project's own, vitest/3.2.1")), "{own}");
    let broken = item(&report, "languages", "node/eslint");
    assert_eq!(broken["state"], "missing");
    assert!(broken["text"].as_str().unwrap().ends_with("does not run: exit 3: no such module"), "{broken}");
    assert_eq!(broken["get"], "npm install --save-dev eslint");
    let plan = item(&report, "languages", "node run_tests")["text"].as_str().unwrap();
    assert!(plan.starts_with("vitest: ") && plan.contains("package.json"), "{plan}");
    let kept = item(&report, "workspaces", "default")["text"].as_str().unwrap();
    assert!(kept.contains("files, index"), "{kept}");
    assert_eq!(item(&report, "features", "graphviz")["state"], "ok");
    let browser = item(&report, "features", "browser")["text"].as_str().unwrap();
    assert!(browser.ends_with("(for render_mermaid)"), "{browser}");
    let mermaid = item(&report, "features", "mermaid");
    assert!(
        mermaid["get"].is_null() || mermaid["get"].as_str().unwrap().contains("mermaid-cli"),
        "{mermaid}"
    );
}

#[test]
fn what_was_asked_for_and_is_missing_decides_the_exit_code() {
    let workspace = project();
    let bare = "/usr/bin:/bin";
    let (code, out, _) = doctor(&workspace, bare, &[]);
    assert_eq!(code, Some(0), "nobody asked for anything: {out}");
    assert!(out.contains("-- go/golangci-lint") && out.contains("get it: go install github.com"), "{out}");
    let (code, out, _) = doctor(&workspace, bare, &["--require", "go:run_lint"]);
    assert_eq!(code, Some(1), "{out}");
    let last = out.lines().last().unwrap();
    assert!(last.starts_with("missing: go/golangci-lint: not found (for run_lint); go install"), "{last}");
    // What everything of a language needs is asked for with each of its tools.
    let (code, out, err) = doctor(&workspace, "/nowhere", &["--require", "node:run_tests,python:run_tests"]);
    assert_eq!(code, Some(1), "{out}{err}");
    for wanted in ["missing: node/node: not found", "missing: python/python3: not found"] {
        assert!(out.contains(wanted), "{wanted}: {out}");
    }
    let (code, _, err) = doctor(&workspace, bare, &["--require", "isolaton"]);
    assert_eq!(code, Some(2));
    assert!(err.contains("did you mean \"isolation\"?"), "{err}");
}

#[test]
fn what_the_configuration_names_must_answer() {
    let workspace = project();
    let config = workspace.write(
        "runtime.yaml",
        "apiVersion: codegen-sandbox/v1\nkind: RuntimeConfig\nspec:\n  sandboxes:\n    \
         box: { mode: docker_exec, container: gone, workdir: /w, docker_path: /no/such/docker }\n  \
         languages:\n    go: { sandbox: box }\n    node: { sandbox: box }\n  hooks:\n    \
         gate: { hook: tool, phases: [before_execution], command: ./gate.py }\n",
    );
    let args = ["--config", config.to_str().unwrap()];
    let (code, out, err) = doctor(&workspace, "/usr/bin:/bin", &args);
    assert_eq!(code, Some(1), "{out}{err}");
    for wanted in
        ["missing: go: box: ", "missing: hook gate: ", "missing: go/go: not found", "missing: node/node: "]
    {
        assert!(out.contains(wanted), "{wanted}: {out}");
    }
}
