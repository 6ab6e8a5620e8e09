//! A JSON-RPC client that hides nothing.

use std::collections::HashMap;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::process::Process;
use crate::transport::{Incoming, Transport};

/// How long an answer may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(55);

/// The protocol version that [`Client::initialize`] asks for.
const VERSION: &str = "2025-11-25";

/// A connection to a server, over whichever transport.
#[derive(Debug)]
pub struct Client {
    transport: Box<dyn Transport>,
    process: Option<Process>,
    answers: HashMap<u64, Value>,
    notifications: Vec<Value>,
    last: u64,
}

impl Client {
    pub(crate) fn new(transport: Box<dyn Transport>, process: Option<Process>) -> Self {
        Self { transport, process, answers: HashMap::new(), notifications: Vec::new(), last: 0 }
    }

    /// The server's process, for a client that started its own.
    ///
    /// # Panics
    /// When the server belongs to someone else.
    pub fn process(&self) -> &Process {
        match &self.process {
            Some(process) => process,
            None => panic!("this client did not start its server: ask `Served::process`"),
        }
    }

    /// Shakes hands, and gives what the server says of itself.
    pub fn initialize(&mut self) -> Value {
        self.initialize_as(VERSION)
    }

    /// Shakes hands with a given version of the protocol.
    ///
    /// # Panics
    /// When the server refuses.
    pub fn initialize_as(&mut self, version: &str) -> Value {
        let client = json!({ "name": "testkit", "version": "1" });
        let parameters = json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": client });
        let hello = match self.request("initialize", parameters) {
            Ok(hello) => hello,
            Err(error) => panic!("initialize: {error}"),
        };
        self.transport.agreed(hello["protocolVersion"].as_str().unwrap_or(version));
        self.notify("notifications/initialized", json!({}));
        hello
    }

    /// The tools the server offers.
    ///
    /// # Panics
    /// When the server refuses.
    pub fn tools(&mut self) -> Vec<Value> {
        match self.request("tools/list", json!({})) {
            Ok(result) => result["tools"].as_array().cloned().unwrap_or_default(),
            Err(error) => panic!("tools/list: {error}"),
        }
    }

    /// Calls a tool and waits for its reply.
    ///
    /// # Panics
    /// When the answer is a JSON-RPC error: a tool's failure is a reply, so this is a fault of the server.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Reply {
        let id = self.start_call(tool, arguments);
        self.reply(id)
    }

    /// Calls a tool without waiting; [`Client::reply`] waits.
    pub fn start_call(&mut self, tool: &str, arguments: Value) -> u64 {
        self.start("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// Waits for the reply to a call that was started.
    ///
    /// # Panics
    /// As [`Client::call`].
    pub fn reply(&mut self, id: u64) -> Reply {
        match self.answer(id) {
            Ok(result) => Reply { result },
            Err(error) => panic!("the call failed in the protocol: {error}"),
        }
    }

    /// Sends a request and waits for its result, or its error.
    ///
    /// # Errors
    /// The JSON-RPC error object.
    pub fn request(&mut self, method: &str, parameters: Value) -> Result<Value, Value> {
        let id = self.start(method, parameters);
        self.answer(id)
    }

    /// Sends a request without waiting.
    pub fn start(&mut self, method: &str, parameters: Value) -> u64 {
        self.last += 1;
        let id = self.last;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters }));
        id
    }

    /// Waits for the answer to a request that was sent.
    ///
    /// # Errors
    /// The JSON-RPC error object.
    ///
    /// # Panics
    /// When none comes within 55 s, or the connection breaks.
    pub fn answer(&mut self, id: u64) -> Result<Value, Value> {
        let arrived = self.wait_until(PATIENCE, |client| client.answers.contains_key(&id));
        match self.answers.remove(&id).filter(|_| arrived) {
            Some(mut answer) if answer.get("error").is_some() => Err(answer["error"].take()),
            Some(mut answer) => Ok(answer["result"].take()),
            None => panic!("no answer to request {id} after {} s{}", PATIENCE.as_secs(), self.server_says()),
        }
    }

    /// The answer to a request when it comes within that time: for requests that must not be answered.
    pub fn answer_within(&mut self, id: u64, limit: Duration) -> Option<Value> {
        self.wait_until(limit, |client| client.answers.contains_key(&id));
        self.answers.remove(&id)
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, parameters: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": parameters }));
    }

    /// Asks the server to give up a request.
    pub fn cancel(&mut self, id: u64) {
        self.notify("notifications/cancelled", json!({ "requestId": id, "reason": "test" }));
    }

    /// Sends whatever a test likes.
    pub fn send(&mut self, message: &Value) {
        self.transport.send(message);
    }

    /// Sends a line that need not be JSON, over stdio.
    ///
    /// # Panics
    /// Over any other transport.
    pub fn send_line(&mut self, line: &[u8]) {
        self.transport.send_line(line);
    }

    /// Notifications and requests of the server that came so far.
    pub fn notifications(&mut self) -> &[Value] {
        self.wait_until(Duration::ZERO, |_| false);
        &self.notifications
    }

    /// Waits for a notification by method and takes it.
    ///
    /// # Panics
    /// When none comes within 55 s.
    pub fn notification(&mut self, method: &str) -> Value {
        let is_it = |message: &Value| message["method"] == method;
        self.wait_until(PATIENCE, |client| client.notifications.iter().any(is_it));
        match self.notifications.iter().position(is_it) {
            Some(index) => self.notifications.remove(index),
            None => panic!("no notification {method}{}", self.server_says()),
        }
    }

    /// Closes the sending side: a server over stdio ends then.
    pub fn close(&mut self) {
        self.transport.close();
    }

    /// Takes in messages until the condition holds or the time is up; says which.
    fn wait_until(&mut self, limit: Duration, condition: impl Fn(&Self) -> bool) -> bool {
        let deadline = Instant::now() + limit;
        while !condition(self) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.transport.incoming().recv_timeout(left) {
                Ok(Incoming::Message(Value::Array(batch))) => {
                    batch.into_iter().for_each(|one| self.sort(one))
                }
                Ok(Incoming::Message(message)) => self.sort(message),
                Ok(Incoming::Broken(text)) => panic!("the server sent {text:?}{}", self.server_says()),
                Err(RecvTimeoutError::Timeout) => return false,
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("the server closed the connection{}", self.server_says())
                }
            }
        }
        true
    }

    fn sort(&mut self, message: Value) {
        match message.get("id").and_then(Value::as_u64) {
            Some(id) if message.get("method").is_none() => drop(self.answers.insert(id, message)),
            _ => self.notifications.push(message),
        }
    }

    fn server_says(&self) -> String {
        self.process
            .as_ref()
            .map(|process| format!("; it printed:\n{}", process.printed()))
            .unwrap_or_default()
    }
}

/// A tool's reply.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The result object as it came.
    pub result: Value,
}

impl Reply {
    /// All of its text.
    pub fn text(&self) -> String {
        let content = self.result["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        let texts: Vec<&str> = content.iter().filter_map(|part| part["text"].as_str()).collect();
        texts.join("\n")
    }

    /// Whether the tool failed.
    pub fn is_error(&self) -> bool {
        self.result["isError"] == true
    }

    /// Its structured content; null when there is none.
    pub fn structured(&self) -> &Value {
        &self.result["structuredContent"]
    }

    /// Its text, of a call that must have succeeded.
    ///
    /// # Panics
    /// When the tool failed.
    pub fn ok(self) -> String {
        assert!(!self.is_error(), "the tool failed: {}", self.text());
        self.text()
    }

    /// Its text, of a call that must have failed.
    ///
    /// # Panics
    /// When the tool succeeded.
    pub fn err(self) -> String {
        assert!(self.is_error(), "the tool should have failed: {}", self.text());
        self.text()
    }
}
