//! What the tests of this crate share.

use serde_json::{Value, json};
use std::{
    thread,
    time::{Duration, Instant},
};
use testkit::{Client, Launch, Process, Served, Workspace, http::Request};

/// How long something that must happen may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The binary on `workspace`, with the probes registered.
pub(crate) fn launch(workspace: &Workspace) -> Launch {
    plain(workspace).arg("--conformance")
}

/// The binary on `workspace` as users start it.
pub(crate) fn plain(workspace: &Workspace) -> Launch {
    Launch::new(env!("CARGO_BIN_EXE_codegen-sandbox")).workspace(workspace)
}

/// Waits until `condition` holds.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until the process has printed `text`.
pub(crate) fn printed(process: &Process, text: &str) {
    let start = Instant::now();
    while !process.printed().contains(text) {
        assert!(start.elapsed() < PATIENCE, "{text:?} was not printed, but:\n{}", process.printed());
        thread::sleep(Duration::from_millis(10));
    }
}

/// Clients over all three transports, each after its hello.
pub(crate) fn every_transport(launch: &Launch) -> (Served, Vec<(&'static str, Client)>) {
    let served = launch.serve();
    let mut clients = vec![("stdio", launch.stdio()), ("http", served.http()), ("sse", served.sse())];
    for (_, client) in &mut clients {
        client.initialize();
    }
    (served, clients)
}

/// A request to `/mcp` as current clients send it.
pub(crate) fn post(message: &Value) -> Request {
    post_to("/mcp", message)
}

/// The same to an address of the caller's.
pub(crate) fn post_to(path: &str, message: &Value) -> Request {
    Request::post_json(path, message.to_string()).header("accept", "application/json, text/event-stream")
}

/// An `initialize` request.
pub(crate) fn initialize() -> Request {
    post(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}
    }}))
}

/// A `tools/call` of a client of 2026-07-28, which has no session on the wire.
pub(crate) fn stateless_call(path: &str, client: &str, tool: &str, arguments: Value) -> Request {
    stateless(path, client, "tools/call", json!({"name": tool, "arguments": arguments}))
        .header("mcp-name", tool)
}

/// A request, or with `notifications/…` a notification, of such a client.
pub(crate) fn stateless(path: &str, client: &str, method: &str, mut params: Value) -> Request {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": client, "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}
    });
    let mut message = json!({"jsonrpc": "2.0", "method": method, "params": params});
    if !method.starts_with("notifications/") {
        message["id"] = 1.into();
    }
    post_to(path, &message).header("mcp-protocol-version", "2026-07-28").header("mcp-method", method)
}

/// The text of the tool's reply in an answer to a raw request.
pub(crate) fn text(request: &Request, served: &Served) -> String {
    let response = request.send(served.address()).unwrap();
    assert_eq!(response.status, 200);
    let data = if response.is_event_stream() {
        response.events().find(|event| event.data.contains("\"result\"")).unwrap().data
    } else {
        response.text().unwrap()
    };
    let answer: Value = serde_json::from_str(&data).unwrap();
    answer["result"]["content"][0]["text"].as_str().unwrap().to_owned()
}

/// The file of bearer tokens that the tests use.
pub(crate) fn tokens(workspace: &Workspace) -> String {
    let file = workspace.root().join("tokens");
    std::fs::write(&file, format!("# holders\nann:{ANN}\n\nbob:{BOB}:readonly\n")).unwrap();
    file.display().to_string()
}

pub(crate) const ANN: &str = "0123456789abcdef-ann";
pub(crate) const BOB: &str = "0123456789abcdef-bob";
