//! Sessions are found again by whatever a client sends, and end when nobody needs them.

use crate::support::{ANN, BOB, eventually, initialize, launch, post, printed, stateless_call, text, tokens};
use serde_json::json;
use testkit::{Workspace, http::Request};

fn id(served: &testkit::Served) -> String {
    let response = initialize().send(served.address()).unwrap();
    assert_eq!(response.status, 200);
    response.header("mcp-session-id").unwrap().to_owned()
}

fn call(id: &str, tool: &str) -> Request {
    post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": {}}}))
        .header("mcp-session-id", id)
}

#[test]
fn a_session_on_the_wire_is_one_session() {
    let workspace = Workspace::with(&[]);
    let served = launch(&workspace).serve();
    let (one, other) = (id(&served), id(&served));
    let first = text(&call(&one, "test_session"), &served);
    assert_eq!(text(&call(&one, "test_session"), &served), first);
    assert_ne!(text(&call(&other, "test_session"), &served), first);
}

#[test]
fn clients_without_a_session_are_known_by_what_they_say() {
    let workspace = Workspace::with(&[]);
    let served = launch(&workspace).serve();
    let who =
        |path: &str, client: &str| text(&stateless_call(path, client, "test_session", json!({})), &served);
    let first = who("/mcp", "editor");
    assert_eq!(who("/mcp", "editor"), first, "a new connection, the same client");
    assert_ne!(who("/mcp", "script"), first, "another program");
    assert_ne!(who("/mcp?session=two", "editor"), first, "the same program told apart by its address");
    assert_eq!(who("/mcp?session=two", "editor"), who("/mcp?session=two", "editor"));
}

#[test]
fn a_deleted_session_is_gone_with_its_calls() {
    let workspace = Workspace::with(&[]);
    let served = launch(&workspace).serve();
    let id = id(&served);
    let running = call(&id, "test_hold").send(served.address()).unwrap();
    printed(served.process(), "test_hold begun");
    let deleted =
        Request::new("DELETE", "/mcp").header("mcp-session-id", &id).send(served.address()).unwrap();
    assert_eq!(deleted.status, 202);
    printed(served.process(), "test_hold gone");
    assert_eq!(call(&id, "test_session").send(served.address()).unwrap().status, 404);
    drop(running);
}

#[test]
fn a_session_belongs_to_whoever_opened_it() {
    let workspace = Workspace::with(&[]);
    let served = launch(&workspace).args(["--auth-token-file", &tokens(&workspace)]).serve();
    let opened =
        initialize().header("authorization", &format!("Bearer {ANN}")).send(served.address()).unwrap();
    let id = opened.header("mcp-session-id").unwrap().to_owned();
    let with = |token: &str| {
        let request = call(&id, "test_session").header("authorization", &format!("Bearer {token}"));
        request.send(served.address()).unwrap().status
    };
    assert_eq!(with(ANN), 200);
    assert_eq!(with(BOB), 404);
}

#[test]
fn idle_sessions_are_closed_and_busy_ones_are_not() {
    let workspace = Workspace::with(&[]);
    let served = launch(&workspace).args(["--session-idle", "300ms"]).serve();
    let busy = id(&served);
    let running = call(&busy, "test_hold").send(served.address()).unwrap();
    printed(served.process(), "test_hold begun");
    let idle = id(&served);
    printed(served.process(), "idle session closed");
    assert_eq!(call(&idle, "test_session").send(served.address()).unwrap().status, 404);
    assert_eq!(
        call(&busy, "test_session").send(served.address()).unwrap().status,
        200,
        "its call still runs"
    );
    drop(running);
    eventually("the busy session becomes idle once its client has left", || {
        served.process().printed().matches("idle session closed").count() == 2
    });
}

#[test]
fn an_answer_can_be_fetched_after_a_lost_stream() {
    let workspace = Workspace::with(&[]);
    let served = launch(&workspace).serve();
    let id = id(&served);
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                         "params": {"name": "test_hold", "arguments": {"milliseconds": 1500}}});
    let lost = post(&message).header("mcp-session-id", &id).send(served.address()).unwrap();
    let mut events = lost.events();
    let last = events.next().unwrap().id;
    printed(served.process(), "test_hold begun");
    drop(events);
    let again = Request::get("/mcp")
        .header("accept", "text/event-stream")
        .header("mcp-session-id", &id)
        .header("last-event-id", &last);
    let answer = again.send(served.address()).unwrap().events().find(|event| event.data.contains("held"));
    assert!(answer.is_some(), "the call went on and its answer came on the new stream");
}
