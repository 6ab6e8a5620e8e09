//! The three ways to a server, reduced to one: send a message, messages come in.

use std::fmt::Debug;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde_json::Value;

use crate::http::{Event, Request, Response};

/// What came in.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// A message of the protocol.
    Message(Value),
    /// Something that is none, or an answer by status code.
    Broken(String),
}

/// A way to a server.
pub(crate) trait Transport: Debug + Send {
    /// Sends one message; answers come through [`Transport::incoming`].
    fn send(&mut self, message: &Value);
    /// Sends whatever stands on one line.
    fn send_line(&mut self, _line: &[u8]) {
        panic!("only stdio has lines")
    }
    /// What came in.
    fn incoming(&self) -> &Receiver<Incoming>;
    /// Tells the way that a protocol version was agreed on.
    fn agreed(&mut self, _version: &str) {}
    /// Closes the sending side.
    fn close(&mut self) {}
}

/// Lines over pipes.
#[derive(Debug)]
pub(crate) struct StdioPipes {
    input: Option<ChildStdin>,
    incoming: Receiver<Incoming>,
}

impl StdioPipes {
    pub(crate) fn new(input: ChildStdin, output: ChildStdout) -> Self {
        let (sender, incoming) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { break };
                if sender.send(parse(&line)).is_err() {
                    break;
                }
            }
        });
        Self { input: Some(input), incoming }
    }
}

impl Transport for StdioPipes {
    fn send(&mut self, message: &Value) {
        self.send_line(message.to_string().as_bytes());
    }

    fn send_line(&mut self, line: &[u8]) {
        if let Some(input) = &mut self.input {
            // When the server is gone, the wait for its answer says so.
            let _ = input.write_all(&[line, b"\n"].concat());
            let _ = input.flush();
        }
    }

    fn incoming(&self) -> &Receiver<Incoming> {
        &self.incoming
    }

    fn close(&mut self) {
        self.input = None;
    }
}

/// Streamable HTTP: every message is a POST, whose answer is one message or a stream of them.
#[derive(Debug)]
pub(crate) struct StreamableHttp {
    address: SocketAddr,
    headers: Vec<(String, String)>,
    session: Arc<Mutex<Option<String>>>,
    sender: Sender<Incoming>,
    incoming: Receiver<Incoming>,
}

impl StreamableHttp {
    pub(crate) fn new(address: SocketAddr, token: Option<&str>) -> Self {
        let (sender, incoming) = mpsc::channel();
        Self { address, headers: authorization(token), session: Arc::default(), sender, incoming }
    }
}

impl Transport for StreamableHttp {
    fn send(&mut self, message: &Value) {
        let mut request = Request::post_json("/mcp", message.to_string())
            .header("accept", "application/json, text/event-stream");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(session) = &session {
            request = request.header("mcp-session-id", session);
        }
        let (address, sender, session) = (self.address, self.sender.clone(), Arc::clone(&self.session));
        let answer = move || match request.send(address) {
            Ok(response) => {
                if let Some(id) = response.header("mcp-session-id") {
                    *session.lock().unwrap_or_else(PoisonError::into_inner) = Some(id.to_owned());
                }
                deliver(response, &sender);
            }
            Err(problem) => drop(sender.send(Incoming::Broken(problem.to_string()))),
        };
        // What follows a notification relies on its having arrived.
        if message.get("id").is_none() { answer() } else { drop(thread::spawn(answer)) }
    }

    fn incoming(&self) -> &Receiver<Incoming> {
        &self.incoming
    }

    fn agreed(&mut self, version: &str) {
        self.headers.push(("mcp-protocol-version".to_owned(), version.to_owned()));
    }
}

/// The older way: one stream of events in, a POST for each message out.
#[derive(Debug)]
pub(crate) struct Sse {
    address: SocketAddr,
    headers: Vec<(String, String)>,
    endpoint: String,
    sender: Sender<Incoming>,
    incoming: Receiver<Incoming>,
}

impl Sse {
    pub(crate) fn new(address: SocketAddr, token: Option<&str>) -> Self {
        let headers = authorization(token);
        let mut request = Request::get("/sse").header("accept", "text/event-stream");
        for (name, value) in &headers {
            request = request.header(name, value);
        }
        let mut events = match request.send(address) {
            Ok(response) if response.is_event_stream() => response.events(),
            other => panic!("/sse did not answer with a stream of events: {other:?}"),
        };
        let endpoint = match events.next() {
            Some(Event { name, data, .. }) if name == "endpoint" => data,
            other => panic!("the first event must be `endpoint`, not {other:?}"),
        };
        let (sender, incoming) = mpsc::channel();
        let messages = sender.clone();
        thread::spawn(move || {
            for event in events {
                if messages.send(parse(&event.data)).is_err() {
                    break;
                }
            }
        });
        Self { address, headers, endpoint, sender, incoming }
    }
}

impl Transport for Sse {
    fn send(&mut self, message: &Value) {
        let mut request = Request::post_json(&self.endpoint, message.to_string());
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let problem = match request.send(self.address) {
            Ok(response) if response.status == 202 => return,
            Ok(response) => {
                let status = response.status;
                format!("status {status}: {}", response.text().unwrap_or_default())
            }
            Err(problem) => problem.to_string(),
        };
        // The receiver is ours and lives as long as we do.
        let _ = self.sender.send(Incoming::Broken(problem));
    }

    fn incoming(&self) -> &Receiver<Incoming> {
        &self.incoming
    }
}

fn authorization(token: Option<&str>) -> Vec<(String, String)> {
    token.map(|token| ("authorization".to_owned(), format!("Bearer {token}"))).into_iter().collect()
}

fn deliver(response: Response, sender: &Sender<Incoming>) {
    let status = response.status;
    if response.is_event_stream() {
        for event in response.events().filter(|event| !event.data.is_empty()) {
            if sender.send(parse(&event.data)).is_err() {
                break;
            }
        }
        return;
    }
    let text = response.text().unwrap_or_default();
    let incoming = match parse(&text) {
        Incoming::Broken(_) if text.is_empty() && (200..300).contains(&status) => return,
        Incoming::Broken(text) => Incoming::Broken(format!("status {status}: {text}")),
        message => message,
    };
    // Whoever asked may have stopped waiting.
    let _ = sender.send(incoming);
}

fn parse(text: &str) -> Incoming {
    match serde_json::from_str(text) {
        Ok(value) => Incoming::Message(value),
        Err(_) => Incoming::Broken(text.to_owned()),
    }
}
