//! The command line, as a newcomer meets it.
#![expect(clippy::disallowed_methods, clippy::expect_used, reason = "tests drive real programs and may fail")]

use std::process::{Command, Output};

fn xtask(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(arguments);
    command
}

fn run(command: &mut Command) -> (bool, String) {
    let Output { status, stdout, stderr } = command.output().expect("xtask starts");
    (status.success(), String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned())
}

#[test]
fn help_names_every_command() {
    let (ok, text) = run(&mut xtask(&[]));
    assert!(ok);
    for command in ["test", "check", "setup", "architecture", "generate", "budget"] {
        assert!(text.contains(&format!("\n  {command} ")), "{command} in {text}");
    }
}

#[test]
fn a_wrong_command_says_where_the_right_ones_are() {
    let (ok, text) = run(&mut xtask(&["tset"]));
    assert!(!ok);
    assert_eq!(text, "error: `tset` is not understood (near `tset`); see `cargo xtask --help`\n");
}

#[test]
fn an_unknown_tool_gets_the_list_of_known_ones() {
    let (ok, text) = run(&mut xtask(&["setup", "eslint9"]));
    assert!(!ok);
    assert!(
        text.starts_with("error: no tool is called eslint9: there are system, browser, rust, clients"),
        "{text}"
    );
}

#[test]
fn a_missing_installer_fails_and_says_how_to_get_it() {
    let cache = tempfile::tempdir().expect("a temporary folder");
    let mut command = xtask(&["setup", "node", "gopls"]);
    let (ok, text) = run(command.env("XDG_CACHE_HOME", cache.path()).env("PATH", "/nowhere"));
    assert!(!ok);
    assert!(text.contains("node: npm is not on the PATH: install Node.js 20 with npm"), "{text}");
    assert!(text.contains("gopls: go is not on the PATH: install Go 1.26 or newer"), "{text}");
    let (_, list) = run(xtask(&["setup", "--list"]).env("XDG_CACHE_HOME", cache.path()));
    let node = list.lines().find(|line| line.starts_with("node ")).expect("node is listed");
    assert!(node.contains("missing"), "a failed set-up must not count as done: {node}");
}
