//! Languages whose programs run in a container, with a real engine.

use crate::support::{eventually, plain};
use serde_json::json;
use std::{fmt::Write as _, fs, path::PathBuf};
use testkit::{Client, Workspace, engines::docker, tools};

/// Where the containers see the workspace.
const INSIDE: &str = "/srv/checkout";

/// Fails in a way that shows where it ran: its message has the folder and a variable that only the container has.
const GO_TEST: &str = r#"package calc

import (
	"os"
	"testing"
)

func TestPlace(t *testing.T) {
	here, _ := os.Getwd()
	t.Fatalf("in %s, container: %s", here, os.Getenv("BOX"))
}
"#;

const PY_TEST: &str = r#"import os


def test_place():
    raise RuntimeError(f"in {os.getcwd()}, container: {os.environ.get('BOX')}")


def test_fine():
    assert True
"#;

fn project() -> Workspace {
    Workspace::with(&[
        ("go.mod", "module example.com/calc\n\ngo 1.21\n"),
        ("calc.go", "package calc\n\nfunc  Add(a, b int) int { return a+b }\n"),
        ("calc_test.go", GO_TEST),
        ("pyproject.toml", "[tool.pytest.ini_options]\n[tool.ruff]\n"),
        ("lib.py", "import os\n"),
        ("tests/test_place.py", PY_TEST),
    ])
}

/// What brings this machine's toolchains into a container, as arguments of `docker run`.
fn toolchains() -> Vec<String> {
    let python = tools::python("python").canonicalize().unwrap();
    let prefix = python.ancestors().nth(2).unwrap().to_owned();
    let go = tools::on_path("go").unwrap().canonicalize().unwrap();
    let goroot = go.ancestors().nth(2).unwrap().to_owned();
    let mut mounts: Vec<(PathBuf, PathBuf)> =
        vec![("/usr".into(), "/usr".into()), ("/usr/lib".into(), "/lib".into())];
    if fs::exists("/usr/lib64").unwrap() {
        mounts.push(("/usr/lib64".into(), "/lib64".into()));
    }
    for folder in [prefix, goroot.clone(), tools::cache_folder()] {
        if !folder.starts_with("/usr") {
            mounts.push((folder.clone(), folder));
        }
    }
    let mut args = Vec::new();
    for (from, to) in mounts {
        args.extend(["-v".to_owned(), format!("{}:{}:ro", from.display(), to.display())]);
    }
    // Compiling the standard library again would take longer than all the rest.
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache"));
    let cache = cache.join("go-build");
    fs::create_dir_all(&cache).unwrap();
    args.extend(["-v".to_owned(), format!("{0}:{0}", cache.display())]);
    let venv = tools::path("pytest").parent().unwrap().to_owned();
    let path = format!("{}:{}:/usr/bin:/bin", venv.display(), goroot.join("bin").display());
    for variable in [
        format!("PATH={path}"),
        format!("GOCACHE={}", cache.display()),
        "HOME=/var/tmp".to_owned(),
        "BOX=blue".to_owned(),
        "GOFLAGS=-vet=off".to_owned(),
        "GOTOOLCHAIN=local".to_owned(),
        "PYTHONDONTWRITEBYTECODE=1".to_owned(),
    ] {
        args.extend(["-e".to_owned(), variable]);
    }
    args
}

/// A client of a server whose Go and Python run in the sandbox that `block` declares.
fn served(workspace: &Workspace, folder: &tempfile::TempDir, block: &str) -> Client {
    let config = folder.path().join("runtime.yaml");
    let mut text = "apiVersion: codegen-sandbox/v1\nkind: RuntimeConfig\nspec:\n  sandboxes:\n".to_owned();
    let _ = write!(text, "    box: {block}\n  languages:\n");
    text.push_str("    go: { sandbox: box }\n    python: { sandbox: box }\n");
    fs::write(&config, text).unwrap();
    let mut client = plain(workspace).arg("--config").arg(&config).stdio();
    client.initialize();
    client
}

#[test]
fn the_programs_of_a_language_run_in_its_container_and_paths_come_back_as_ours() {
    let (workspace, folder) = (project(), tempfile::tempdir().unwrap());
    let root = workspace.root().display().to_string();
    let mount = format!("{root}:{INSIDE}");
    let mut args = vec!["-v".to_owned(), mount];
    args.extend(toolchains());
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let container = docker().container_with(&args);
    let docker_path = docker().client.display();
    let id = &container.id;
    let block = format!(
        "{{ mode: docker_exec, container: {id}, workdir: {INSIDE}/, docker_path: \"{docker_path}\" }}"
    );
    let mut client = served(&workspace, &folder, &block);

    let go = client.call("run_tests", json!({"language": "go"})).ok();
    assert!(go.contains("FAIL TestPlace calc_test.go:10"), "{go}");
    assert!(go.contains(&format!("in {root}, container: blue")) && !go.contains(INSIDE), "{go}");

    // Its reporter is injected, where the container sees it and the project does not.
    let python = client.call("run_tests", json!({"language": "python"})).ok();
    assert!(python.starts_with("python: 1 passed, 1 failed"), "{python}");
    assert!(python.contains("tests/test_place.py:5"), "{python}");
    assert!(python.contains(&format!("in {root}, container: blue")) && !python.contains(INSIDE), "{python}");
    let again = client.call("run_failing_tests", json!({})).ok();
    assert!(again.starts_with("python: 1 failed"), "{again}");

    let why = client.call("run_tests", json!({"language": "go", "explain": true})).ok();
    assert!(why.contains("runs in sandbox \"box\" (spec.languages.go.sandbox)"), "{why}");

    let lint = client.call("run_lint", json!({"language": "python"})).ok();
    assert!(lint.starts_with("lib.py:1:8:F401: "), "{lint}");
    let format = client.call("run_format", json!({"language": "go"})).ok();
    assert_eq!(format, "formatted 1 of 2 files:\ncalc.go");
    let source = fs::read_to_string(workspace.root().join("calc.go")).unwrap();
    assert!(source.contains("func Add(a, b int) int { return a + b }"), "{source}");
    fs::write(workspace.root().join("calc.go"), "package calc\n\nfunc {\n").unwrap();
    let broken = client.call("run_format", json!({"path": "calc.go"})).ok();
    assert!(broken.contains("3:6") && !broken.contains(INSIDE), "{broken}");

    // What is not in the container is missing, whatever this machine has.
    let missing = client.call("run_lint", json!({"language": "go"})).err();
    assert!(missing.starts_with("linter not installed: golangci-lint in sandbox \"box\""), "{missing}");
    let here = client.call("Bash", json!({"command": "echo \"box: $BOX\"; pwd"})).ok();
    assert!(here.contains(&format!("box: \n{root}")), "the shell stays where it was: {here}");

    let left = || docker().run(&["exec", &container.id, "sh", "-c", "ls /tmp"]);
    eventually("the scratch folders are gone", || left().is_empty());
    let ours: Vec<_> =
        fs::read_dir(workspace.root()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(ours.iter().all(|name| !name.to_string_lossy().contains("codegen")), "{ours:?}");
}

#[test]
fn a_fresh_container_for_every_call_is_given_the_workspace_and_a_scratch_folder() {
    let (workspace, folder) = (project(), tempfile::tempdir().unwrap());
    let extra = serde_json::to_string(&toolchains()).unwrap();
    let block = format!(
        "{{ mode: docker_run, image: \"{}\", network: none, workdir: {INSIDE}, docker_path: \"{}\", extra_args: {extra} }}",
        docker().image,
        docker().client.display()
    );
    let mut client = served(&workspace, &folder, &block);
    let python = client.call("run_tests", json!({"language": "python"})).ok();
    assert!(python.starts_with("python: 1 passed, 1 failed"), "{python}");
    assert!(python.contains("FAIL") && python.contains("tests/test_place.py:5"), "{python}");
    let root = workspace.root().display().to_string();
    assert!(python.contains(&format!("in {root}, container: blue")) && !python.contains(INSIDE), "{python}");
}
