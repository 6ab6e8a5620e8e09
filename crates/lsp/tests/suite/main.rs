//! The client against a server that says what a test tells it to.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use lsp::{ChangeKind, Client, Encoding, Error, Hello, Kind, OnDisk};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};

/// The server's side of a connection.
struct Server {
    from: BufReader<tokio::io::ReadHalf<DuplexStream>>,
    into: tokio::io::WriteHalf<DuplexStream>,
}

fn pair(kind: Kind, options: Value) -> (Client, Server) {
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let (from, into) = tokio::io::split(ours);
    let client = Client::connect(Hello { kind, root: PathBuf::from("/p"), options }, from, into);
    let (from, into) = tokio::io::split(theirs);
    (client, Server { from: BufReader::new(from), into })
}

impl Server {
    async fn hear(&mut self) -> Value {
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.from.read_line(&mut line).await.unwrap();
            match line.trim().strip_prefix("Content-Length: ") {
                Some(value) => length = value.parse().unwrap(),
                None if line.trim().is_empty() => break,
                None => {}
            }
        }
        let mut body = vec![0; length];
        self.from.read_exact(&mut body).await.unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    async fn say(&mut self, message: Value) {
        let text = message.to_string();
        let frame = format!("Content-Length: {}\r\n\r\n{text}", text.len());
        self.into.write_all(frame.as_bytes()).await.unwrap();
    }

    async fn reply(&mut self, asked: &Value, result: Value) {
        self.say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": result})).await;
    }
}

async fn introduced(kind: Kind, options: Value, capabilities: Value) -> (Client, Server) {
    let (client, mut server) = pair(kind, options);
    let (done, server) = tokio::join!(client.initialize(), async {
        let asked = server.hear().await;
        assert_eq!(asked["params"]["rootUri"], "file:///p");
        assert_eq!(asked["params"]["processId"], Value::Null);
        server.reply(&asked, json!({"capabilities": capabilities})).await;
        assert_eq!(server.hear().await["method"], "initialized");
        server
    });
    done.unwrap();
    (client, server)
}

#[tokio::test]
async fn a_request_is_answered_even_when_things_change_meanwhile() {
    let (client, mut server) = introduced(Kind::Other, json!({}), json!({"positionEncoding": "utf-8"})).await;
    assert_eq!(client.encoding(), Encoding::Utf8);
    let (answer, ()) = tokio::join!(client.request("x", json!({})), async {
        let asked = server.hear().await;
        let error = json!({"code": -32801, "message": "content modified"});
        server.say(json!({"jsonrpc": "2.0", "id": asked["id"], "error": error})).await;
        let again = server.hear().await;
        server.reply(&again, json!(7)).await;
    });
    assert_eq!(answer, Ok(json!(7)));
    let (refused, ()) = tokio::join!(client.request("y", json!({})), async {
        let asked = server.hear().await;
        let error = json!({"code": -32602, "message": "no identifier found"});
        server.say(json!({"jsonrpc": "2.0", "id": asked["id"], "error": error})).await;
    });
    assert_eq!(refused.unwrap_err().to_string(), "no identifier found");
}

#[tokio::test]
async fn a_request_that_is_given_up_is_cancelled_and_a_lost_server_is_noticed() {
    let (client, mut server) = introduced(Kind::Other, json!({}), json!({})).await;
    let waiting =
        tokio::time::timeout(std::time::Duration::from_millis(20), client.request("slow", json!({})));
    assert!(waiting.await.is_err());
    let asked = server.hear().await;
    let cancel = server.hear().await;
    assert_eq!((&cancel["method"], &cancel["params"]["id"]), (&json!("$/cancelRequest"), &asked["id"]));
    let (lost, ()) = tokio::join!(client.request("x", json!({})), async { drop(server) });
    assert_eq!(lost, Err(Error::Gone));
    assert_eq!(client.request("x", json!({})).await, Err(Error::Gone));
    assert!(client.gone());
}

#[tokio::test]
async fn what_a_server_asks_of_its_client_is_answered() {
    let options = json!({"python": {"pythonPath": "/v/python", "analysis": {"x": 1}}});
    let (_client, mut server) = pair(Kind::Pyright, options);
    let items =
        json!({"items": [{"section": "python"}, {"section": "python.analysis"}, {"section": "pyright"}]});
    server
        .say(json!({"jsonrpc": "2.0", "id": "a", "method": "workspace/configuration", "params": items}))
        .await;
    let heard = server.hear().await;
    assert_eq!(heard["result"][0]["pythonPath"], "/v/python");
    assert_eq!((&heard["result"][1]["x"], &heard["result"][2]), (&json!(1), &Value::Null));
    server.say(json!({"jsonrpc": "2.0", "id": 2, "method": "workspace/applyEdit", "params": {}})).await;
    assert_eq!(server.hear().await["result"]["applied"], false);
    server.say(json!({"jsonrpc": "2.0", "id": 3, "method": "no/such", "params": {}})).await;
    assert_eq!(server.hear().await["error"]["code"], -32601);
}

/// ty leaves some questions without an answer.
#[tokio::test]
async fn what_stays_unanswered_is_asked_again() {
    let (client, mut server) = introduced(Kind::Other, json!({}), json!({})).await;
    let answer = async {
        let first = server.hear().await;
        let given_up = server.hear().await;
        assert_eq!(
            (&given_up["method"], &given_up["params"]["id"]),
            (&json!("$/cancelRequest"), &first["id"])
        );
        let again = server.hear().await;
        assert_eq!((&again["method"], &again["params"]), (&first["method"], &first["params"]));
        server.reply(&again, json!(7)).await;
    };
    let both = async { tokio::join!(client.request("textDocument/hover", json!({"x": 1})), answer) };
    let (found, ()) = tokio::time::timeout(Duration::from_secs(30), both).await.expect("it is asked again");
    assert_eq!(found, Ok(json!(7)));
}

/// A server that has yet to say that it can be asked what is wrong tells nothing of its own accord.
#[tokio::test]
async fn what_a_server_offers_later_is_used() {
    let (client, mut server) = introduced(Kind::Other, json!({}), json!({})).await;
    let answer = async {
        let offer = json!({"registrations": [{"id": "d", "method": "textDocument/diagnostic"}]});
        server
            .say(json!({"jsonrpc": "2.0", "id": 9, "method": "client/registerCapability", "params": offer}))
            .await;
        assert_eq!(server.hear().await["id"], 9);
        let asked = server.hear().await;
        assert_eq!(asked["method"], "textDocument/diagnostic");
        let at = json!({"line": 0, "character": 0});
        let wrong = json!({"message": "wrong", "severity": 1, "range": {"start": at, "end": at}});
        server.reply(&asked, json!({"kind": "full", "items": [wrong]})).await;
    };
    let both = async { tokio::join!(client.diagnose(Path::new("/p/a.py")), answer) };
    let (found, ()) = tokio::time::timeout(Duration::from_secs(30), both).await.expect("it is asked");
    assert_eq!(found.unwrap()[0].message, "wrong");
}

#[tokio::test]
async fn rust_analyzer_is_trusted_when_it_rests() {
    let (client, mut server) = introduced(Kind::RustAnalyzer, json!({}), json!({})).await;
    let mut told = Vec::new();
    let (settled, ()) = tokio::join!(client.settle(|doing| told.push(doing.to_owned())), async {
        let value = json!({"kind": "begin", "title": "Indexing", "message": "1/2"});
        let begin = json!({"token": "rustAnalyzer/cachePriming", "value": value});
        server.say(json!({"jsonrpc": "2.0", "method": "$/progress", "params": begin})).await;
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        let rest = json!({"quiescent": true, "health": "warning", "message": "no sysroot"});
        server.say(json!({"jsonrpc": "2.0", "method": "experimental/serverStatus", "params": rest})).await;
    });
    settled.unwrap();
    assert_eq!(told.first().map(String::as_str), Some("loading the project"));
    assert_eq!(told.last().map(String::as_str), Some("Indexing: 1/2"));
    assert_eq!(client.trouble().as_deref(), Some("no sysroot"));
}

/// rust-analyzer says whether it rests.
async fn status(server: &mut Server, quiescent: bool) {
    let params = json!({"quiescent": quiescent, "health": "ok"});
    server.say(json!({"jsonrpc": "2.0", "method": "experimental/serverStatus", "params": params})).await;
}

#[tokio::test]
async fn rust_analyzer_takes_files_once_it_has_loaded_and_tells_first_what_they_make_it_do() {
    let (client, mut server) = introduced(Kind::RustAnalyzer, json!({}), json!({})).await;
    assert!(!client.takes_files());
    let (settled, ()) = tokio::join!(client.settle(|_| {}), status(&mut server, true));
    settled.unwrap();
    assert!(client.takes_files());
    let file = Path::new("/p/new.rs");
    let (shown, ()) = tokio::join!(client.present(file, "fn f() {}"), async {
        assert_eq!(server.hear().await["method"], "textDocument/didOpen");
        let asked = server.hear().await;
        assert_eq!(asked["method"], "rust-analyzer/viewFileText");
        status(&mut server, false).await;
        server.reply(&asked, json!("fn f() {}")).await;
    });
    shown.unwrap();
    assert!(!client.settled() && client.takes_files());
}

#[tokio::test]
async fn rust_analyzer_is_asked_until_it_has_a_file_as_it_is() {
    let (client, mut server) = introduced(Kind::RustAnalyzer, json!({}), json!({})).await;
    let changed = |name: &str| (Path::new("/p").join(name), ChangeKind::Changed);
    let now = |path: &Path| match path.file_name().unwrap().to_str().unwrap() {
        "gone.rs" => OnDisk::Gone,
        "large.rs" => OnDisk::Other,
        "bad.rs" => OnDisk::Text("\u{fffd}".to_owned()),
        _ => OnDisk::Text("two\r\n".to_owned()),
    };
    let all = ["Cargo.toml", "gone.rs", "bad.rs", "large.rs", "notes.txt"].map(changed);
    let (done, ()) = tokio::join!(client.absorb(&all, now), async {
        let told = server.hear().await;
        assert_eq!(told["params"]["changes"].as_array().unwrap().len(), 5);
        let mut asked = server.hear().await;
        for (name, answer) in [("large", json!("x")), ("bad", json!("")), ("gone", Value::Null)] {
            assert_eq!(asked["params"]["uri"], format!("file:///p/{name}.rs"));
            server.reply(&asked, answer).await;
            asked = server.hear().await;
        }
        assert_eq!(asked["params"]["uri"], "file:///p/Cargo.toml");
        // It read the file before that changed once more: it is told again.
        while asked["method"] != "workspace/didChangeWatchedFiles" {
            server.reply(&asked, json!("one\n")).await;
            asked = server.hear().await;
        }
        assert_eq!(asked["params"]["changes"][0]["uri"], "file:///p/Cargo.toml");
        let asked = server.hear().await;
        status(&mut server, false).await;
        server.reply(&asked, json!("\u{feff}two\n")).await;
    });
    done.unwrap();
    assert!(!client.settled());
}

#[tokio::test]
async fn documents_open_once_change_when_they_differ_and_are_told_of_files() {
    let (client, mut server) = introduced(Kind::Gopls, json!({}), json!({})).await;
    let file = Path::new("/p/a.go");
    client.show(file, "package a");
    client.show(file, "package a");
    client.show(file, "package b");
    client.absorb(&[(file.to_owned(), ChangeKind::Created)], |_| OnDisk::Gone).await.unwrap();
    client.hide(file);
    client.hide(file);
    client.notify("end", Value::Null);
    let mut methods = Vec::new();
    loop {
        let heard = server.hear().await;
        if heard["method"] == "end" {
            break;
        }
        methods.push(heard["method"].as_str().unwrap().to_owned());
    }
    assert_eq!(
        methods,
        [
            "textDocument/didOpen",
            "textDocument/didChange",
            "workspace/didChangeWatchedFiles",
            "textDocument/didClose"
        ]
    );
}
