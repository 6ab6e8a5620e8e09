//! Every limit is hit, and says which flag raises it.

use crate::support::{eventually, initialize, launch, post, printed, stateless, stateless_call, text};
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
fn a_line_may_be_only_so_long() {
    let workspace = Workspace::with(&[]);
    let mut client = launch(&workspace).args(["--max-body", "2MiB"]).stdio();
    client.initialize();
    // The id stands at its end, as many clients write it.
    let long = format!(
        r#"{{"jsonrpc":"2.0","method":"tools/call","params":{{"name":"test_length","arguments":{{"text":"{}","id":1}}}},"id":77}}"#,
        "x".repeat(3 << 20)
    );
    client.send_line(long.as_bytes());
    let error = client.answer(77).unwrap_err();
    let why = error["message"].as_str().unwrap();
    assert_eq!(error["code"], -32600);
    assert!(why.contains("2097152 bytes") && why.contains("--max-body"), "{why}");
    assert_eq!(client.call("test_length", json!({"text": "x".repeat(1 << 20)})).ok(), "1048576");
    let mut client = launch(&workspace).stdio();
    client.initialize();
    let size = 17 << 20;
    assert_eq!(client.call("test_length", json!({"text": "x".repeat(size)})).ok(), size.to_string());
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
fn who_takes_no_answers_loses_the_connection_and_who_waits_for_news_does_not() {
    let workspace = Workspace::with(&[]);
    let served = launch(&workspace)
        .args(["--max-connections", "3", "--connection-idle", "2s", "--log", "debug"])
        .serve();
    let address = served.address();
    let quiet = Request::get("/sse").header("accept", "text/event-stream").send(address).unwrap();
    let mut news = quiet.events();
    let endpoint = news.next().unwrap().data;
    // More answers than all buffers on the way hold.
    let list = stateless("/mcp", "raw", "tools/list", json!({})).bytes(address);
    let list = String::from_utf8(list).unwrap().replace("connection: close\r\n", "");
    let greedy: Vec<TcpStream> = (0..2)
        .map(|_| {
            let connection = TcpStream::connect(address).unwrap();
            let (mut sender, asked) = (connection.try_clone().unwrap(), list.repeat(2000));
            // Not all of it is taken: whoever answers nobody reads nothing more.
            std::thread::spawn(move || drop(sender.write_all(asked.as_bytes())));
            connection
        })
        .collect();
    eventually("places become free", || initialize().send(address).is_ok_and(|answer| answer.status == 200));
    printed(served.process(), "took nothing for 2s (--connection-idle)");
    drop(greedy);
    let hello = json!({"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {
        "protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}
    }});
    eventually("the quiet stream is still there", || {
        Request::post_json(&endpoint, hello.to_string())
            .send(address)
            .is_ok_and(|answer| answer.status == 202)
    });
    assert!(news.next().unwrap().data.contains("\"id\":7"));
}

#[test]
fn a_legacy_stream_that_nobody_uses_gives_up_its_session() {
    let workspace = Workspace::with(&[]);
    let served = launch(&workspace).args(["--max-sessions", "3", "--session-idle", "3s"]).serve();
    let mut busy = served.sse();
    busy.initialize();
    let running = busy.start_call("test_hold", json!({}));
    printed(served.process(), "test_hold begun");
    let silent: Vec<_> = (0..2)
        .map(|_| Request::get("/sse").header("accept", "text/event-stream").send(served.address()).unwrap())
        .collect();
    eventually("places become free", || {
        initialize().send(served.address()).is_ok_and(|answer| answer.status == 200)
    });
    for stream in silent {
        let events: Vec<_> = stream.events().map(|event| event.name).collect();
        assert_eq!(events, ["endpoint"], "the stream has ended");
    }
    assert!(!served.process().printed().contains("test_hold gone"), "a session whose call runs is used");
    busy.cancel(running);
    printed(served.process(), "test_hold gone");
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
