//! What a session cannot reach: other workspaces, and anything to change when it only reads.

use crate::support::{ANN, BOB, plain};
use serde_json::json;
use std::{fs, path::Path};
use testkit::{Launch, Workspace, tools};

/// What is in a folder, with its content.
fn content(folder: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(content(&entry.path())),
            false => found.push((entry.path(), fs::read(entry.path()).unwrap())),
        }
    }
    found.sort();
    found
}

#[test]
fn bash_in_one_workspace_does_not_reach_another() {
    let (one, two) = (Workspace::with(&[]), Workspace::with(&[("secret", "of two")]));
    let settings = Workspace::with(&[(
        "runtime.yaml",
        "apiVersion: codegen-sandbox/v1\nkind: RuntimeConfig\nspec:\n  sandboxes:\n    locked: { mode: isolated, pids: 100 }\n  tools: { default_sandbox: locked }\n",
    )]);
    let both = format!("one={},two={}", one.root().display(), two.root().display());
    let launch = Launch::new(env!("CARGO_BIN_EXE_codegen-sandbox")).args(["--workspaces", &both]);
    let configured = launch.clone().arg("--config").arg(settings.path("runtime.yaml"));
    for launch in [launch, configured] {
        let mut client = launch.stdio();
        client.initialize();
        let script = format!("echo own > mine; cat {0}/secret; echo x > {0}/from-one", two.root().display());
        let text = client.call("Bash", json!({"workspace": "one", "command": script})).text();
        assert!(!text.contains("of two") && text.contains("another workspace"), "{text}");
        assert_eq!(one.read("mine"), "own\n");
        assert!(!two.path("from-one").exists());
        let text = client.call("Bash", json!({"workspace": "two", "command": "cat secret"})).ok();
        assert!(text.starts_with("of two"), "{text}");
        fs::remove_file(one.path("mine")).unwrap();
    }
}

#[test]
fn a_session_that_only_reads_changes_nothing_whatever_the_project_runs() {
    let rust = Workspace::with(&[
        ("Cargo.toml", "[package]\nname = \"p\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
        (
            "build.rs",
            "fn main() {\n    let _ = std::fs::write(\"written\", \"\");\n    println!(\"cargo:rustc-cfg=built\");\n}\n",
        ),
        ("src/lib.rs", "pub fn add() {}\n#[cfg(built)]\npub fn user() { add() }\n"),
    ]);
    let before = content(rust.root());
    let secrets = Workspace::with(&[("tokens", &format!("ann:{ANN}\nbob:{BOB}:readonly\n"))]);
    let tokens = secrets.path("tokens").display().to_string();
    let served = plain(&rust).args(["--auth-token-file", &tokens]).env("PATH", tools::search_path()).serve();
    let mut bob = served.http_with_token(BOB);
    bob.initialize();
    let text = bob.call("find_references", json!({"file_path": "src/lib.rs", "symbol": "add"})).ok();
    // The build script ran: what it says is known.
    assert!(text.starts_with("Found 2 reference(s)") && text.contains("src/lib.rs:3:"), "{text}");
    assert_eq!(content(rust.root()), before);

    let go = Workspace::with(&[
        ("go.mod", "module m\n\ngo 1.21\n"),
        ("m.go", "package m\n\nfunc F() int { return 1 }\n"),
        (
            "m_test.go",
            "package m\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestF(t *testing.T) {\n\tF()\n\tos.WriteFile(\"written\", nil, 0o644)\n}\n",
        ),
    ]);
    let before = content(go.root());
    let words = ["tests_covering", "--file", "m.go", "--line", "3"];
    let output = plain(&go).arg("--readonly").command("call").args(words).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text.trim(), "no coverage data yet — run run_tests first");
    assert_eq!(content(go.root()), before);
}
