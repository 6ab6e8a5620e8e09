//! Whoever no longer waits, or is no longer there, stops the work.

use crate::support::{
    ANN, BOB, eventually, every_transport, initialize, launch, post, printed, stateless, stateless_call,
    tokens,
};
use serde_json::json;
use std::time::Duration;
use testkit::{Workspace, http::Request};

#[test]
fn a_notification_cancels() {
    let workspace = Workspace::with(&[]);
    let launch = launch(&workspace);
    let (served, clients) = every_transport(&launch);
    for (count, (transport, mut client)) in clients.into_iter().enumerate() {
        let id = client.start_call("test_hold", json!({}));
        let process = if transport == "stdio" { client.process() } else { served.process() };
        let before = count.saturating_sub(1);
        crate::support::eventually("begun", || {
            process.printed().matches("test_hold begun").count() == before + 1
        });
        client.cancel(id);
        let process = if transport == "stdio" { client.process() } else { served.process() };
        crate::support::eventually("gone", || {
            process.printed().matches("test_hold gone").count() == before + 1
        });
        assert_eq!(
            client.answer_within(id, Duration::from_millis(100)),
            None,
            "{transport}: nobody waits for it"
        );
        assert_eq!(client.call("test_length", json!({"text": "on"})).ok(), "2", "{transport}");
    }
}

#[test]
fn a_client_that_leaves_cancels_in_a_session() {
    let workspace = Workspace::with(&[]);
    let served = launch(&workspace).serve();
    let opened = initialize().send(served.address()).unwrap();
    let id = opened.header("mcp-session-id").unwrap();
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "test_hold", "arguments": {}}});
    let stream = post(&message).header("mcp-session-id", id).send(served.address()).unwrap();
    printed(served.process(), "test_hold begun");
    drop(stream);
    printed(served.process(), "test_hold gone");
}

#[test]
fn a_client_that_leaves_cancels_without_a_session() {
    let workspace = Workspace::with(&[]);
    let served = launch(&workspace).serve();
    let address = served.address();
    let mut connection = std::net::TcpStream::connect(address).unwrap();
    let request = stateless_call("/mcp", "raw", "test_hold", json!({}));
    std::io::Write::write_all(&mut connection, &request.bytes(address)).unwrap();
    printed(served.process(), "test_hold begun");
    drop(connection);
    printed(served.process(), "test_hold gone");
}

#[test]
fn a_notification_cancels_without_a_session_where_only_one_call_can_be_meant() {
    let workspace = Workspace::with(&[]);
    let scopes = tokens(&workspace);
    let served = launch(&workspace).args(["--auth-token-file", &scopes]).serve();
    let address = served.address();
    let with = |token: &str, request: Request| request.header("authorization", &format!("Bearer {token}"));
    let hold = |client: &str| {
        let request = with(ANN, stateless_call("/mcp", client, "test_hold", json!({})));
        let begun = || served.process().printed().matches("test_hold begun").count();
        let before = begun();
        let answer = std::thread::spawn(move || request.send(address).unwrap().text().unwrap());
        eventually("begun", || begun() == before + 1);
        answer
    };
    let cancel = |token: &str, client: &str, id: u64| {
        let said = stateless("/mcp", client, "notifications/cancelled", json!({"requestId": id}));
        assert_eq!(with(token, said).send(address).unwrap().status, 202);
    };
    let (editor, script) = (hold("editor"), hold("script"));
    // Of another holder, of another client, of another id: nobody's.
    cancel(BOB, "editor", 1);
    cancel(ANN, "browser", 1);
    cancel(ANN, "editor", 2);
    // Of whoever has that id: two have.
    let message = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    let anybody = || {
        let said = post(&message)
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "notifications/cancelled");
        assert_eq!(with(ANN, said).send(address).unwrap().status, 202);
    };
    anybody();
    cancel(ANN, "editor", 1);
    assert!(editor.join().unwrap().contains("cancelled"));
    printed(served.process(), "test_hold gone");
    assert_eq!(served.process().printed().matches("test_hold gone").count(), 1, "the other one runs on");
    assert!(!script.is_finished());
    cancel(ANN, "script", 1);
    assert!(script.join().unwrap().contains("cancelled"));
}

#[test]
fn a_legacy_client_that_leaves_cancels() {
    let workspace = Workspace::with(&[]);
    let served = launch(&workspace).serve();
    let stream = Request::get("/sse").header("accept", "text/event-stream").send(served.address()).unwrap();
    let mut events = stream.events();
    let endpoint = events.next().unwrap().data;
    let say = |message: serde_json::Value| {
        assert_eq!(
            Request::post_json(&endpoint, message.to_string()).send(served.address()).unwrap().status,
            202
        );
    };
    say(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}
    }}));
    assert!(events.next().is_some());
    say(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    say(
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "test_hold", "arguments": {}}}),
    );
    printed(served.process(), "test_hold begun");
    drop(events);
    printed(served.process(), "test_hold gone");
}

#[test]
fn a_client_that_closes_stdin_gets_short_answers_and_then_the_server_ends() {
    let workspace = Workspace::with(&[]);
    let mut client = launch(&workspace).stdio();
    client.initialize();
    let id = client.start_call("test_hold", json!({"milliseconds": 300}));
    client.close();
    assert_eq!(client.reply(id).ok(), "held");
    assert!(client.process().wait().success());
}

#[test]
fn a_client_that_closes_stdin_ends_long_calls() {
    let workspace = Workspace::with(&[]);
    let mut client = launch(&workspace).args(["--grace", "100ms"]).stdio();
    client.initialize();
    client.start_call("test_hold", json!({}));
    printed(client.process(), "test_hold begun");
    client.close();
    assert!(client.process().wait().success());
    printed(client.process(), "test_hold gone");
}
