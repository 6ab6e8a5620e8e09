//! Every transport says and does the same.

use crate::support::{every_transport, launch, plain};
use serde_json::json;
use testkit::{Workspace, http::Request};

#[test]
fn every_transport_says_the_same_hello() {
    let workspace = Workspace::with(&[("Cargo.toml", "[package]\n")]);
    let launch = launch(&workspace);
    let served = launch.serve();
    let mut stdio = launch.stdio();
    let hello = stdio.initialize();
    assert_eq!(hello["serverInfo"]["name"], "codegen-sandbox");
    assert_eq!(served.http().initialize(), hello);
    assert_eq!(served.sse().initialize(), hello);
}

#[test]
fn every_protocol_version_with_a_handshake_is_agreed_to() {
    let workspace = Workspace::with(&[]);
    let served = launch(&workspace).serve();
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        assert_eq!(served.http().initialize_as(version)["protocolVersion"], version);
        assert_eq!(served.sse().initialize_as(version)["protocolVersion"], version);
        assert_eq!(launch(&workspace).stdio().initialize_as(version)["protocolVersion"], version);
    }
}

#[test]
fn a_wrong_address_says_where_the_right_one_is() {
    let workspace = Workspace::with(&[]);
    let served = plain(&workspace).serve();
    let response = Request::get("/").send(served.address()).unwrap();
    assert_eq!(response.status, 404);
    let text = response.text().unwrap();
    assert!(text.contains("nothing at /;") && text.contains("/mcp") && text.contains("/sse"), "{text}");
}

#[test]
fn a_panic_is_an_answer_and_the_server_goes_on() {
    let workspace = Workspace::with(&[]);
    let (_served, clients) = every_transport(&launch(&workspace));
    for (transport, mut client) in clients {
        let text = client.call("test_panic", json!({})).err();
        assert!(text.contains("internal error"), "{transport}: {text}");
        assert!(!text.contains("a probe that panics"), "{transport}: the bug itself goes to the log: {text}");
        assert_eq!(client.call("test_length", json!({"text": "four"})).ok(), "4", "{transport}");
    }
}

#[test]
fn progress_comes_before_the_answer_and_only_when_asked_for() {
    let workspace = Workspace::with(&[]);
    let (_served, clients) = every_transport(&launch(&workspace));
    for (transport, mut client) in clients {
        assert_eq!(client.call("test_steps", json!({})).ok(), "stepped");
        assert_eq!(client.notifications().len(), 0, "{transport}");
        let params = json!({"name": "test_steps", "arguments": {}, "_meta": {"progressToken": "p"}});
        client.request("tools/call", params).unwrap();
        let told: Vec<_> = client.notifications().iter().map(|note| note["params"].clone()).collect();
        let expected: Vec<_> = (1..=3)
            .map(|n| json!({"progressToken": "p", "progress": f64::from(n), "total": 3.0, "message": format!("step {n}")}))
            .collect();
        assert_eq!(told, expected, "{transport}");
    }
}

#[test]
fn a_large_write_gets_through() {
    let workspace = Workspace::with(&[]);
    let (_served, clients) = every_transport(&launch(&workspace));
    let size = 6 << 20;
    for (transport, mut client) in clients {
        let reply = client.call("test_length", json!({"text": "x".repeat(size)}));
        assert_eq!(reply.ok(), size.to_string(), "{transport}: more than the SDK's own 4 MiB");
    }
}

#[test]
fn failures_are_replies_that_name_the_thing() {
    let workspace = Workspace::with(&[]);
    let (_served, clients) = every_transport(&launch(&workspace));
    for (transport, mut client) in clients {
        let unknown = client.call("test_lenght", json!({})).err();
        assert!(
            unknown.contains("unknown tool \"test_lenght\"") && unknown.contains("test_length"),
            "{transport}: {unknown}"
        );
        let wrong = client.call("test_length", json!({"text": 7})).err();
        assert!(wrong.contains("`text` must be a string, got 7"), "{transport}: {wrong}");
    }
}

#[test]
fn what_is_not_declared_is_not_answered() {
    let workspace = Workspace::with(&[]);
    let mut client = plain(&workspace).stdio();
    let hello = client.initialize();
    assert_eq!(hello["capabilities"], json!({"logging": {}, "tools": {"listChanged": true}}));
    for method in ["prompts/list", "resources/list", "resources/templates/list"] {
        assert_eq!(client.request(method, json!({})).unwrap_err()["code"], -32601, "{method}");
    }
    assert!(!client.tools().iter().any(|tool| tool["name"].as_str().unwrap().starts_with("test_")));
}

#[test]
fn a_call_that_is_none_is_told_what_it_lacks() {
    let workspace = Workspace::with(&[]);
    let (_served, clients) = every_transport(&plain(&workspace));
    for (transport, mut client) in clients {
        for (params, told) in [
            (json!({"name": "Read", "arguments": [1, 2]}), "`arguments` must be an object, as the tool's"),
            (json!({"name": "Read", "arguments": "a.txt"}), "got a string"),
            (json!({"name": 7, "arguments": {}}), "`name` must be a string, the name of a tool"),
            (json!({"arguments": {}}), "got nothing"),
        ] {
            let error = client.request("tools/call", params.clone()).unwrap_err();
            assert_eq!(error["code"], -32602, "{transport}: {params} {error}");
            let message = error["message"].as_str().unwrap();
            assert!(message.starts_with("tools/call: ") && message.contains(told), "{transport}: {message}");
        }
        if transport == "stdio" {
            for (method, params) in [("tools/call", json!([])), ("tools/list", json!("x"))] {
                let error = client.request(method, params).unwrap_err();
                assert_eq!(error["code"], -32602, "{method}: {error}");
            }
        }
        assert_eq!(client.request("tools/kall", json!({})).unwrap_err()["code"], -32601, "{transport}");
    }
}

#[test]
fn a_message_that_cannot_be_read_is_answered_and_the_next_one_too() {
    let workspace = Workspace::with(&[]);
    let (served, clients) = every_transport(&plain(&workspace));
    let write = |content: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"tools/call","params":{{"name":"Write","arguments":{{"file_path":"a","content":{content}}}}},"id":99}}"#
        )
        .into_bytes()
    };
    let mut not_utf8 = write("\"x\"");
    let x = not_utf8.iter().rposition(|byte| *byte == b'x').unwrap();
    not_utf8[x] = 0xff;
    let faults = [
        (write(r#""cut \ud83d here""#), r"lone surrogate \ud83d at byte "),
        (write("1e999"), "number out of range at byte "),
        (write("\"a\tb\""), "control character"),
        (write("[1,]"), "trailing comma"),
        (write(&("[".repeat(200) + &"]".repeat(200))), "recursion limit"),
        (not_utf8, "UTF-8"),
    ];
    let right = |error: &serde_json::Value, what: &str| {
        assert_eq!(error["code"], -32700, "{error}");
        assert!(error["message"].as_str().unwrap().contains(what), "{what}: {error}");
    };
    for (transport, mut client) in clients {
        if transport != "stdio" {
            continue;
        }
        for (line, what) in &faults {
            client.send_line(line);
            right(&client.answer(99).unwrap_err(), what);
        }
        assert!(client.call("Glob", json!({"pattern": "*"})).ok().is_empty(), "nothing was written");
    }
    let stream = Request::get("/sse").header("accept", "text/event-stream").send(served.address()).unwrap();
    let mut events = stream.events();
    let endpoint = events.next().unwrap().data;
    for path in ["/mcp", &endpoint] {
        for (body, what) in &faults {
            let request = Request::post_json(path, body.clone())
                .header("accept", "application/json, text/event-stream");
            let response = request.send(served.address()).unwrap();
            assert_eq!(response.status, 400, "{path}: {what}");
            let answer: serde_json::Value = serde_json::from_str(&response.text().unwrap()).unwrap();
            right(&answer["error"], what);
            assert_eq!(answer["id"], 99, "{path}: {what}");
        }
    }
}

#[test]
fn an_unknown_method_is_named_without_secrets() {
    let workspace = Workspace::with(&[]);
    let secret = "a-very-secret-value-of-mine";
    let launch = plain(&workspace).env("CODEGEN_SANDBOX_SECRET_MINE", secret).args(["--log", "trace"]);
    let (served, clients) = every_transport(&launch);
    for (transport, mut client) in clients {
        let error = client.request(&format!("tools/{secret}"), json!({})).unwrap_err();
        assert_eq!(error["code"], -32601, "{transport}");
        let told = error["message"].as_str().unwrap();
        assert!(
            told.contains("tools/[REDACTED:secret:MINE]") && told.contains("tools/list"),
            "{transport}: {told}"
        );
        // Lists where objects belong: what cannot be read at all.
        if transport == "stdio" {
            let error = client.request(&format!("tools/{secret}"), json!([])).unwrap_err();
            assert!(!error.to_string().contains(secret), "{error}");
            let log = client.process().printed();
            assert!(!log.contains(secret), "{log}");
        }
    }
    let log = served.process().printed();
    assert!(!log.contains(secret), "{log}");
}

#[test]
fn tools_carry_annotations_and_lean_schemas() {
    let workspace = Workspace::with(&[]);
    let mut client = launch(&workspace).stdio();
    client.initialize();
    let tools = client.tools();
    let length = tools.iter().find(|tool| tool["name"] == "test_length").unwrap();
    assert_eq!(
        *length,
        json!({
            "name": "test_length",
            "description": "A probe.",
            "inputSchema": {
                "type": "object", "properties": {"text": {"type": "string"}},
                "required": ["text"], "additionalProperties": false
            },
            "annotations": {
                "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false
            }
        })
    );
}

#[test]
fn nothing_follows_the_endpoint_of_a_legacy_stream_until_the_client_speaks() {
    let workspace = Workspace::with(&[]);
    let served = launch(&workspace).serve();
    let stream = Request::get("/sse").header("accept", "text/event-stream").send(served.address()).unwrap();
    let mut events = stream.events();
    let endpoint = events.next().unwrap();
    assert_eq!(endpoint.name, "endpoint");
    assert!(endpoint.data.starts_with("/message?sessionId="), "{}", endpoint.data);
    let ping = json!({"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {
        "protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}
    }});
    let posted = Request::post_json(&endpoint.data, ping.to_string()).send(served.address()).unwrap();
    assert_eq!(posted.status, 202);
    let first = events.next().unwrap();
    assert_eq!(first.name, "message");
    assert!(first.data.contains("\"id\":7"), "the first thing after it is the answer: {}", first.data);
}
