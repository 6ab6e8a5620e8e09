//! Events of watched processes reach clients that listen, and a flood of them harms nobody.

use crate::support::{initialize, plain, post};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use testkit::{Client, Workspace, http::Request};

const WATCHED: &str = "sleep 0.4; echo 'Error: boom' >&2; sleep 0.4";

fn told(client: &mut Client) -> Value {
    client.notification("notifications/message")["params"].clone()
}

#[test]
fn events_are_pushed_over_pipes_and_streams() {
    let workspace = Workspace::with(&[]);
    let launch = plain(&workspace);
    let served = launch.serve();
    for (transport, mut client) in [("stdio", launch.stdio()), ("sse", served.sse())] {
        let hello = client.initialize();
        assert_eq!(hello["capabilities"]["logging"], json!({}), "{transport}");
        client.call("watch_process", json!({"command": WATCHED})).ok();
        let (started, error, exited) = (told(&mut client), told(&mut client), told(&mut client));
        assert_eq!(started["logger"], "watch_process");
        assert!(started["data"].as_str().unwrap().ends_with("  started"), "{transport}: {started}");
        assert_eq!(error["level"], "error");
        assert!(error["data"].as_str().unwrap().ends_with("  Error: boom"), "{transport}: {error}");
        assert!(exited["data"].as_str().unwrap().ends_with("  exited  exit=0"), "{transport}: {exited}");
        // A client that asks for less gets less.
        client.request("logging/setLevel", json!({"level": "error"})).unwrap();
        client.call("watch_process", json!({"command": WATCHED})).ok();
        assert_eq!(told(&mut client)["level"], "error", "{transport}");
    }
}

#[test]
fn a_secret_that_came_after_the_process_is_not_pushed() {
    let workspace = Workspace::with(&[("new", "a value that was made today\n")]);
    let secrets = Workspace::with(&[("KEY", "a value of yesterday\n")]);
    let mut client = plain(&workspace).arg("--secrets-dir").arg(secrets.root()).stdio();
    client.initialize();
    let command = "until [ -e go ]; do sleep 0.05; done; echo \"Error: $(cat new)\" >&2; sleep 1000";
    client.call("watch_process", json!({"command": command})).ok();
    assert!(told(&mut client)["data"].as_str().unwrap().ends_with("  started"));
    std::fs::write(secrets.root().join("KEY"), "a value that was made today\n").unwrap();
    // Whoever asks for secrets has their files looked at.
    client.call("secrets_available", json!({})).ok();
    client.call("Write", json!({"file_path": "go", "content": ""})).ok();
    let error = told(&mut client);
    assert!(error["data"].as_str().unwrap().ends_with("  Error: [REDACTED:secret:KEY]"), "{error}");
}

#[test]
fn events_are_pushed_on_the_stream_of_an_http_session() {
    let workspace = Workspace::with(&[]);
    let served = plain(&workspace).serve();
    let hello = initialize().send(served.address()).unwrap();
    let session = hello.header("mcp-session-id").unwrap().to_owned();
    let with = |request: Request| {
        request.header("mcp-session-id", &session).header("mcp-protocol-version", "2025-11-25")
    };
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    with(post(&initialized)).send(served.address()).unwrap();
    let stream =
        with(Request::get("/mcp").header("accept", "text/event-stream")).send(served.address()).unwrap();
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "watch_process", "arguments": {"command": WATCHED}}});
    let answer = with(post(&call)).send(served.address()).unwrap();
    assert_eq!(answer.status, 200);
    drop(answer);
    let events =
        stream.events().map(|event| event.data).filter(|data| data.contains("notifications/message"));
    let told: Vec<String> = events.take(3).collect();
    assert!(
        told[0].contains("started") && told[1].contains("Error: boom") && told[2].contains("exit=0"),
        "{told:?}"
    );
}

#[test]
fn a_flood_of_matching_lines_starves_nobody() {
    let workspace = Workspace::with(&[("f", "content\n")]);
    let served = plain(&workspace).serve();
    let (mut flooded, mut other) = (served.sse(), served.sse());
    flooded.initialize();
    other.initialize();
    let begin = Instant::now();
    let started = flooded.call("watch_process", json!({"command": "yes 'Error: flood' >&2"})).ok();
    let shell = started.trim_start_matches("shell_id: ").to_owned();
    // Both sessions go on working, the flooded one too.
    for _ in 0..30 {
        assert!(other.call("Read", json!({"file_path": "f"})).ok().contains("content"));
        assert!(flooded.call("Bash", json!({"command": "echo alive"})).ok().contains("alive"));
    }
    std::thread::sleep(Duration::from_secs(1));
    let events = flooded.call("watch_process_events", json!({"shell_id": shell})).ok();
    assert!(events.contains("events dropped; the latest 1024 are kept"), "{}", &events[..200]);
    flooded.call("KillShell", json!({"shell_id": shell})).ok();
    let pushed = flooded.notifications().len();
    // Five a second, and a few at the ends: whatever the flood.
    let most = begin.elapsed().as_secs() as usize * 5 + 15;
    assert!((2..=most).contains(&pushed), "{pushed} pushed in {:?}", begin.elapsed());
}
