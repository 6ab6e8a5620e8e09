//! Other people's clients complete a session over each transport.

use crate::launch;
use serde_json::json;
use testkit::{
    Workspace,
    clients::{Target, inspector, python_session},
};

const TRANSPORTS: [&str; 3] = ["stdio", "http", "sse"];

/// Runs a check over each transport, on a workspace that holds `hello.txt`.
fn over_each_transport(check: impl Fn(&str, &Target)) {
    let workspace = Workspace::with(&[
        ("hello.txt", "hello there\n"),
        ("test_slow.py", "import time\n\ndef test_slow():\n    time.sleep(60)\n"),
        ("pyproject.toml", "[project]\nname = \"slow\"\nversion = \"1\"\n"),
    ]);
    let launch = launch(&workspace);
    let served = launch.serve();
    for name in TRANSPORTS {
        let target = match name {
            "stdio" => Target::stdio(&launch),
            "http" => Target::http(&served),
            _ => Target::sse(&served),
        };
        check(name, &target);
    }
}

fn python(generation: &str, mode: &str, target: &Target) -> String {
    let calls = [
        ("Read", json!({ "file_path": "hello.txt" })),
        ("Edit", json!({ "file_path": "hello.txt", "old_string": "there", "new_string": "again" })),
        ("Bash", json!({ "command": "cat hello.txt" })),
        ("Edit", json!({ "file_path": "hello.txt", "old_string": "again", "new_string": "there" })),
        ("Read", json!({ "file_path": "missing.txt" })),
        ("run_tests", json!({ "wait": 0 })),
    ];
    let session = python_session(generation, mode, target, &calls);
    assert_eq!(session.seen["server"], "codegen-sandbox");
    assert!(session.seen["instructions"].as_str().is_some_and(|text| !text.is_empty()));
    assert!(session.tools().contains(&"Read"), "{session:?}");
    assert_eq!(session.reply(0), ("1\thello there\n", false), "{session:?}");
    assert!(!session.reply(1).1 && !session.reply(3).1, "{session:?}");
    // The first command of a session also says which isolation is in force.
    let (text, failed) = session.reply(2);
    assert!(!failed && text.starts_with("hello again\n"), "{session:?}");
    let (text, failed) = session.reply(4);
    assert!(failed && text.contains("missing.txt"), "{session:?}");
    // These clients refuse an answer without the structured part that a tool declares.
    let (text, failed) = session.reply(5);
    assert!(
        !failed && text.contains("still running; call run_tests again with handle \"h1\""),
        "{session:?}"
    );
    session.version().to_owned()
}

#[test]
fn the_first_python_client_completes_a_session() {
    over_each_transport(|_, target| assert_eq!(python("mcp1", "legacy", target), "2025-11-25"));
}

#[test]
fn the_second_python_client_completes_a_session() {
    over_each_transport(|name, target| assert_eq!(python("mcp2", "auto", target), "2026-07-28", "{name}"));
}

#[test]
fn the_second_python_client_completes_a_session_the_old_way() {
    over_each_transport(|_, target| assert_eq!(python("mcp2", "legacy", target), "2025-11-25"));
}

#[test]
fn the_inspector_lists_and_calls() {
    over_each_transport(|name, target| {
        // Strict: exit code 6 when a schema would trouble some client.
        let (code, listed) = inspector(target, &["tools/list", "--strict"]);
        assert_eq!(code, Some(0), "{name}: {listed}");
        assert!(
            listed["tools"].as_array().is_some_and(|tools| tools.iter().any(|tool| tool["name"] == "Read"))
        );
        let call = ["tools/call", "--tool-name", "Read", "--tool-arg", "file_path=hello.txt"];
        let (code, reply) = inspector(target, &call);
        assert_eq!(code, Some(0), "{name}: {reply}");
        assert_eq!(reply["content"][0]["text"], "1\thello there\n", "{name}: {reply}");
    });
}
