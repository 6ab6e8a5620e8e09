//! Every limit is hit, and says which flag raises it.

use crate::support::{initialize, launch, post, printed, stateless_call, text};
use serde_json::json;
use std::{
    io::{Read, Write},
    net::TcpStream,
};
use testkit::{Workspace, http::Request};

#[test]
fn a_body_may_be_only_so_large() {
    let workspace = Workspace::with(&[]);
    let served = launch(&workspace).args(["--max-body", "2k"]).serve();
    for path in ["/mcp", "/message?sessionId=x"] {
        let answer = Request::post_json(path, "x".repeat(4096)).send(served.address()).unwrap();
        assert_eq!(answer.status, 413);
        assert!(answer.text().unwrap().contains("--max-body"));
    }
    let mut endless = TcpStream::connect(served.address()).unwrap();
    let head =
        format!("POST /mcp HTTP/1.1\r\nhost: {}\r\ntransfer-encoding: chunked\r\n\r\n", served.address());
    endless.write_all(head.as_bytes()).unwrap();
    // The server may answer and close before all of it is written.
    let _ =
        endless.write_all(&[b"800\r\n".as_slice(), &[b'x'; 0x800], b"\r\n800\r\n", &[b'x'; 0x800]].concat());
    let mut answer = [0; 12];
    endless.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
    assert_eq!(initialize().send(served.address()).unwrap().status, 200);
}

#[test]
fn a_body_may_take_only_so_long() {
    let workspace = Workspace::with(&[]);
    let served = launch(&workspace).args(["--body-time", "200ms"]).serve();
    let mut slow = TcpStream::connect(served.address()).unwrap();
    let head = format!("POST /mcp HTTP/1.1\r\nhost: {}\r\ncontent-length: 100\r\n\r\n{{", served.address());
    slow.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    slow.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("--body-time"), "{answer}");
}

#[test]
fn a_connection_that_says_nothing_is_closed() {
    let workspace = Workspace::with(&[]);
    let served = launch(&workspace).args(["--connection-idle", "200ms"]).serve();
    for said in ["", "POST /mcp HTTP/1.1\r\nhost: x"] {
        let mut slow = TcpStream::connect(served.address()).unwrap();
        slow.write_all(said.as_bytes()).unwrap();
        let mut rest = Vec::new();
        assert!(slow.read_to_end(&mut rest).is_ok(), "the server closes the connection");
    }
}

#[test]
fn there_are_only_so_many_connections() {
    let workspace = Workspace::with(&[]);
    let served = launch(&workspace).args(["--max-connections", "2"]).serve();
    let held: Vec<_> = (0..2)
        .map(|_| Request::get("/sse").header("accept", "text/event-stream").send(served.address()).unwrap())
        .collect();
    let mut turned_away = TcpStream::connect(served.address()).unwrap();
    let mut answer = String::new();
    turned_away.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("too many connections"), "{answer}");
    printed(served.process(), "--max-connections");
    drop(held);
    crate::support::eventually("a place becomes free", || {
        initialize().send(served.address()).is_ok_and(|answer| answer.status == 200)
    });
}

#[test]
fn there_are_only_so_many_sessions() {
    let workspace = Workspace::with(&[]);
    let served = launch(&workspace).args(["--max-sessions", "2"]).serve();
    let first = initialize().send(served.address()).unwrap();
    let id = first.header("mcp-session-id").unwrap().to_owned();
    let second = Request::get("/sse").header("accept", "text/event-stream").send(served.address()).unwrap();
    for refused in [initialize(), Request::get("/sse").header("accept", "text/event-stream")] {
        let answer = refused.send(served.address()).unwrap();
        assert_eq!(answer.status, 503);
        assert!(answer.text().unwrap().contains("--max-sessions"));
    }
    let stateless = stateless_call("/mcp", "raw", "test_session", json!({})).send(served.address()).unwrap();
    assert!(stateless.text().unwrap().contains("too many sessions (limit 2)"));
    let deleted =
        Request::new("DELETE", "/mcp").header("mcp-session-id", &id).send(served.address()).unwrap();
    assert_eq!(deleted.status, 202);
    assert_eq!(initialize().send(served.address()).unwrap().status, 200, "a place became free");
    drop(second);
}

#[test]
fn there_are_only_so_many_calls() {
    let workspace = Workspace::with(&[]);
    let served = launch(&workspace).args(["--max-calls", "1"]).serve();
    let mut client = served.http();
    client.initialize();
    let holding = client.start_call("test_hold", json!({}));
    printed(served.process(), "test_hold begun");
    let refused = text(&stateless_call("/mcp", "raw", "test_session", json!({})), &served);
    assert!(refused.contains("too many calls at once (limit 1)"), "{refused}");
    client.cancel(holding);
    printed(served.process(), "test_hold gone");
    crate::support::eventually("a place becomes free", || {
        !text(&stateless_call("/mcp", "raw", "test_session", json!({})), &served).contains("too many calls")
    });
}

#[test]
fn limits_must_make_sense() {
    let workspace = Workspace::with(&[]);
    for (flag, value) in [
        ("--max-sessions", "0"),
        ("--max-body", "much"),
        ("--session-idle", "later"),
        ("--max-calls", "many"),
    ] {
        let output = launch(&workspace).args([flag, value]).command("serve").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{flag}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(flag), "{flag}");
    }
    let body = post(&json!({"not": "json-rpc"})).send(launch(&workspace).serve().address()).unwrap();
    assert!(body.status >= 400);
}
