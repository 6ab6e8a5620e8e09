//! Whoever no longer waits, or is no longer there, stops the work.

use crate::support::{every_transport, initialize, launch, post, printed, stateless_call};
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
