//! Who may come in.

use crate::support::{ANN, BOB, initialize, launch, plain, stateless_call, text, tokens};
use serde_json::json;
use testkit::{Workspace, http::Request};

#[test]
fn a_token_is_needed_when_there_are_tokens() {
    let workspace = Workspace::with(&[]);
    let served = launch(&workspace).args(["--auth-token-file", &tokens(&workspace)]).serve();
    for request in [initialize(), Request::get("/sse"), Request::post_json("/message?sessionId=x", "{}")] {
        for request in [request.clone(), request.header("authorization", "Bearer 0123456789abcdef-eve")] {
            let answer = request.send(served.address()).unwrap();
            assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some("Bearer")));
            assert!(answer.text().unwrap().contains("Authorization: Bearer"));
        }
    }
    let mut ann = served.http_with_token(ANN);
    ann.initialize();
    assert!(!ann.call("test_session", json!({})).ok().is_empty());
    let banner = served.process().printed();
    assert!(banner.contains("bearer tokens of ann, bob (read-only)"), "{banner}");
    assert!(!banner.contains(ANN));
}

#[test]
fn a_readonly_token_sees_and_calls_only_what_changes_nothing() {
    let workspace = Workspace::with(&[]);
    let served = launch(&workspace).args(["--auth-token-file", &tokens(&workspace)]).serve();
    let names = |token: &str| {
        let mut client = served.http_with_token(token);
        client.initialize();
        let tools = client.tools();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let (all, few) = (names(ANN), names(BOB));
    assert!(all.contains(&"test_hold".to_owned()) && !few.contains(&"test_hold".to_owned()));
    assert!(few.contains(&"test_session".to_owned()));
    let mut bob = served.http_with_token(BOB);
    bob.initialize();
    let refused = bob.call("test_hold", json!({})).err();
    assert!(refused.contains("this session is read-only"), "{refused}");
}

#[test]
fn a_token_never_leaves() {
    let workspace = Workspace::with(&[]);
    let tokens = tokens(&workspace);
    let served = launch(&workspace).args(["--auth-token-file", &tokens]).serve();
    let mut ann = served.http_with_token(ANN);
    ann.initialize();
    let echoed = ann.call(&format!("no-such-{ANN}"), json!({})).err();
    assert!(echoed.contains("unknown tool") && !echoed.contains(ANN), "{echoed}");
}

#[test]
fn audit_lines_name_the_holder_of_the_token() {
    let workspace = Workspace::with(&[("a.txt", "a\n")]);
    let secret = "a-very-secret-value-of-mine";
    let served = plain(&workspace)
        .env("CODEGEN_SANDBOX_SECRET_MINE", secret)
        .args(["--auth-token-file", &tokens(&workspace), "--log", "debug"])
        .serve();
    let mut ann = served.http_with_token(ANN);
    ann.initialize();
    ann.call("secret", json!({"name": "MINE"})).ok();
    ann.call("secret", json!({"name": secret})).err();
    let read = stateless_call("/mcp", "raw", "Read", json!({"file_path": "a.txt"}))
        .header("authorization", &format!("Bearer {BOB}"));
    assert!(text(&read, &served).contains('a'));
    let audited = |event: &str, principal: &str| {
        let printed = served.process().printed();
        let events = printed.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        events.filter(|line| line["event"] == event && line["principal"] == principal).count()
    };
    for (event, principal) in [
        ("session_start", "ann"),
        ("secret", "ann"),
        ("call", "ann"),
        ("session_start", "bob"),
        ("call", "bob"),
    ] {
        crate::support::eventually(event, || audited(event, principal) > 0);
    }
    let printed = served.process().printed();
    for value in [secret, ANN, BOB] {
        assert!(!printed.contains(value), "{printed}");
    }
    assert!(printed.contains("[REDACTED:secret:MINE]"), "{printed}");
}

#[test]
fn instructions_fit_the_scope_of_the_token() {
    let workspace = Workspace::with(&[]);
    let served = plain(&workspace).args(["--auth-token-file", &tokens(&workspace)]).serve();
    let told = |token: &str| {
        let hello = served.http_with_token(token).initialize();
        hello["instructions"].as_str().unwrap().to_owned()
    };
    let (all, few) = (told(ANN), told(BOB));
    assert!(all.contains("rename_symbol") && all.contains("Read a file before"), "{all}");
    assert!(few.contains("Grep"), "{few}");
    let discover = crate::support::stateless("/mcp", "raw", "server/discover", json!({}))
        .header("authorization", &format!("Bearer {BOB}"))
        .send(served.address())
        .unwrap()
        .text()
        .unwrap();
    assert!(discover.contains("Search with Grep"), "{discover}");
    for text in [few, discover] {
        for absent in ["rename_symbol", "change it", "run_tests", "Bash", "shell", "run_in_background"] {
            assert!(!text.contains(absent), "{absent}: {text}");
        }
    }
}

#[test]
fn an_open_address_is_refused_without_tokens() {
    let workspace = Workspace::with(&[]);
    let output = plain(&workspace).args(["--addr", "0.0.0.0:0"]).command("serve").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(why.contains("--auth-token-file") && why.contains("--insecure-no-auth"), "{why}");
}

#[test]
fn a_bad_token_file_names_the_line_and_not_the_token() {
    let workspace = Workspace::with(&[("tokens", "ann:0123456789abcdef-ann\nbob:short\n")]);
    let file = workspace.root().join("tokens").display().to_string();
    let output = plain(&workspace).args(["--auth-token-file", &file]).command("serve").output().unwrap();
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(why.contains("line 2") && why.contains("\"bob\"") && !why.contains("short"), "{why}");
}

#[test]
fn foreign_pages_are_refused_on_every_route() {
    let workspace = Workspace::with(&[]);
    let served = launch(&workspace)
        .args(["--allow-host", "box.example", "--allow-origin", "https://ide.example"])
        .serve();
    for request in [initialize(), Request::get("/sse"), Request::post_json("/message?sessionId=x", "{}")] {
        for (name, value, flag) in [
            ("host", "evil.example", "--allow-host evil.example"),
            ("origin", "https://evil.example", "--allow-origin https://evil.example"),
        ] {
            let answer = request.clone().header(name, value).send(served.address()).unwrap();
            assert_eq!(answer.status, 403);
            assert!(answer.text().unwrap().contains(flag));
        }
    }
    for (name, value) in
        [("host", "box.example:80"), ("origin", "https://ide.example"), ("origin", "http://localhost:6274")]
    {
        assert_eq!(initialize().header(name, value).send(served.address()).unwrap().status, 200, "{value}");
    }
}
