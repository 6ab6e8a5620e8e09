//! `call`, `tools` and the rest of the command line.

use crate::support::{launch, plain};
use std::{
    io::Write,
    process::{Output, Stdio},
};
use testkit::Workspace;

fn call(workspace: &Workspace, words: &[&str]) -> (Option<i32>, String, String) {
    outcome(launch(workspace).command("call").args(words).output().unwrap())
}

fn outcome(output: Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn flags_come_from_the_schema() {
    let workspace = Workspace::with(&[]);
    assert_eq!(call(&workspace, &["test_length", "--text", "four"]), (Some(0), "4\n".into(), String::new()));
    assert_eq!(call(&workspace, &["test_length", "--text=--x"]).1, "3\n");
    assert_eq!(call(&workspace, &["test_length", "--json", r#"{"text": "sixsix"}"#]).1, "6\n");
    assert_eq!(call(&workspace, &["test_hold", "--milliseconds", "1"]).1, "held\n");
}

#[test]
fn what_became_of_a_restore_that_was_cut_short_is_told() {
    let workspace = Workspace::with(&[("f", "one")]);
    let state = tempfile::tempdir().unwrap();
    let call = |words: &[&str]| {
        let mut command = launch(&workspace).command("call");
        outcome(command.args(words).env("XDG_STATE_HOME", state.path()).output().unwrap())
    };
    assert_eq!(call(&["snapshot_create", "--name", "a"]).0, Some(0));
    let all = state.path().join("codegen-sandbox/snapshots");
    let store = std::fs::read_dir(all).unwrap().next().unwrap().unwrap().path();
    std::fs::write(store.join("restore-in-progress"), format!("{} whole\n", "0".repeat(40))).unwrap();
    let (code, out, err) = call(&["snapshot_list"]);
    assert!(code == Some(0) && out.contains('a'), "{out}{err}");
    assert!(
        err.contains("a restore that was cut short in ") && err.contains(" cannot be finished: "),
        "{err}"
    );
    assert_eq!(call(&["snapshot_restore", "--name", "a"]).2, "", "it is told once");
}

#[test]
fn exit_codes_tell_a_failed_tool_from_wrong_usage() {
    let workspace = Workspace::with(&[]);
    let (code, out, err) = call(&workspace, &["Read", "--file_path", "absent"]);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(err.contains("absent"), "{err}");
    let (code, _, err) = call(&workspace, &["Bash", "--handle", "h9"]);
    assert_eq!(code, Some(1), "who goes on waiting repeats nothing: {err}");
    for (words, hint) in [
        (vec!["test_length"], "test_length needs --text\ntry: codegen-sandbox call test_length --help"),
        (vec!["Edit", "--json", r#"{"file_path": "a"}"#], "Edit needs --old_string, --new_string"),
        (vec!["test_lenght"], "; did you mean \"test_length\"?"),
        (vec!["test_length", "--txt", "x"], "test_length takes no --txt; did you mean \"text\"?"),
        (vec!["test_length", "--text"], "--text needs a value"),
        (vec!["test_length", "four"], "\"four\" is not a flag"),
        (vec!["test_length", "--json", "[]"], "not a JSON object"),
        (vec!["test_hold", "--milliseconds", "soon"], "--milliseconds must be a whole number, got \"soon\""),
        (vec!["test_length", "--workspace", "."], "put it before the tool"),
        (vec!["test_length", "--json", r#"{"text": 7}"#], "`text` must be a string, got 7"),
        (vec!["test_length", "--json", r#"{"text": "x", "txt": 1}"#], "unknown field `txt`"),
        (vec!["Bash", "--json", r#"{"command": "true", "wait": "soon"}"#], "`wait` must be a number"),
        // Nothing of a line is done when a part of it cannot be.
        (vec!["Write", "--json", r#"{"file_path": "x", "content": "x"}"#, "--then", "Read"], "Read needs"),
    ] {
        let (code, _, err) = call(&workspace, &words);
        assert_eq!(code, Some(2), "{words:?}");
        assert!(err.contains(hint), "{words:?}: {err}");
    }
    assert_eq!(outcome(plain(&workspace).command("call").output().unwrap()).0, Some(2));
}

#[test]
fn help_teaches_a_tool() {
    let workspace = Workspace::with(&[]);
    let (code, help, _) = call(&workspace, &["test_length", "--help"]);
    assert_eq!(code, Some(0));
    assert!(
        help.contains("A probe.") && help.contains("--text <string>") && help.contains("(required)"),
        "{help}"
    );
}

#[test]
fn arguments_may_come_from_standard_input() {
    let workspace = Workspace::with(&[]);
    let mut command = launch(&workspace).command("call");
    command.args(["test_length", "--json", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(br#"{"text": "piped"}"#).unwrap();
    assert_eq!(outcome(child.wait_with_output().unwrap()).1, "5\n");
}

#[test]
fn calls_of_one_line_share_a_session() {
    let workspace = Workspace::with(&[]);
    let (code, out, _) = call(&workspace, &["test_session", "--then", "test_length", "--text", "x"]);
    assert_eq!((code, out.as_str()), (Some(0), "call\n1\n"));
    let (code, out, err) = call(&workspace, &["test_panic", "--then", "test_session"]);
    assert_eq!((code, out.as_str()), (Some(1), ""), "the first failure ends it: {err}");
}

#[test]
fn results_may_be_json() {
    let workspace = Workspace::with(&[]);
    let (_, out, _) = call(&workspace, &["--format", "json", "test_length", "--text", "x"]);
    let value: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        value,
        serde_json::json!({"content": [{"type": "text", "text": "1"}], "structured": null, "is_error": false})
    );
}

#[test]
fn tools_are_listed_for_people_and_programs() {
    let workspace = Workspace::with(&[]);
    let (code, table, _) = outcome(launch(&workspace).command("tools").output().unwrap());
    assert_eq!(code, Some(0));
    assert!(table.lines().any(|line| line.starts_with("test_length") && line.contains("read")), "{table}");
    let (_, json, _) = outcome(launch(&workspace).command("tools").arg("--json").output().unwrap());
    let listed: serde_json::Value = serde_json::from_str(&json).unwrap();
    let mut client = launch(&workspace).stdio();
    client.initialize();
    let served: Vec<_> = client.tools();
    let own: Vec<_> = served.iter().filter(|tool| listed.as_array().unwrap().contains(tool)).collect();
    assert_eq!(own.len(), listed.as_array().unwrap().len(), "as clients see them");
}

#[test]
fn groups_and_names_choose_what_is_registered() {
    let workspace = Workspace::with(&[]);
    let names =
        |tools: &str| outcome(launch(&workspace).args(["--tools", tools]).command("tools").output().unwrap());
    assert!(names("test_length").1.lines().count() == 1);
    assert!(!names("state,-test_hold").1.contains("test_hold"));
    let (code, _, err) = names("stat");
    assert_eq!(code, Some(2));
    assert!(err.contains("\"stat\" is neither a group"), "{err}");
    let (_, table, _) = outcome(launch(&workspace).arg("--readonly").command("tools").output().unwrap());
    assert!(table.contains("test_length") && !table.contains("test_hold"), "{table}");
}

#[test]
fn the_rest_of_the_command_line() {
    let workspace = Workspace::with(&[]);
    let binary = env!("CARGO_BIN_EXE_codegen-sandbox");
    let run = |words: &[&str]| outcome(std::process::Command::new(binary).args(words).output().unwrap());
    assert_eq!(run(&["version"]).1, concat!("codegen-sandbox ", env!("CARGO_PKG_VERSION"), "\n"));
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&["completions", shell]).1;
        assert!(script.contains("workspace") && script.contains("require"), "{shell}: {script}");
        assert!(!script.contains("conformance"), "{shell} offers what is hidden");
    }
    assert_eq!(run(&["serv"]).0, Some(2));
    let (code, _, err) = run(&["stdio", "--workspace", "/no/such/place"]);
    assert_eq!(code, Some(2));
    assert!(err.contains("/no/such/place") && err.contains("--workspace"), "{err}");
    let (code, _, err) = outcome(
        launch(&workspace).args(["--log", "loud"]).command("call").arg("test_session").output().unwrap(),
    );
    assert_eq!(code, Some(2));
    assert!(err.contains("--log loud"), "{err}");
}
