//! A client of a server on pipes: a request line out, an answer line in, nothing else, so that the client does
//! not hide the difference between servers.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// A server process and the session with it.
pub(crate) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    line: Vec<u8>,
    id: u64,
}

/// Starts a program that is spoken to over its pipes.
pub(crate) fn piped(command: &mut Command) -> Result<(Child, ChildStdin, ChildStdout)> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("starting {command:?}"))?;
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        bail!("{command:?} has no pipes")
    };
    Ok((child, input, output))
}

impl Client {
    /// Starts the server and opens a session.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let (child, input, output) = piped(command)?;
        let output = BufReader::with_capacity(1 << 16, output);
        let mut client = Self { child, input: Some(input), output, line: Vec::new(), id: 0 };
        client.request("initialize", &initialize())?;
        client.send(INITIALIZED)?;
        Ok(client)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.input.as_mut().context("the session is over")?.write_all(bytes)?)
    }

    /// Ends the session as a client does that has no more to ask, and waits until the server has cleaned up.
    pub(crate) fn leave(mut self) -> Result<()> {
        drop(self.input.take());
        self.child.wait()?;
        Ok(())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The answer to a tool call, as it came.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Result<&[u8]> {
        self.request("tools/call", &json!({ "name": tool, "arguments": arguments }))?;
        if memchr::memmem::find(&self.line, b"\"isError\":true").is_some()
            || memchr::memmem::find(&self.line, b"\"error\":{").is_some()
        {
            bail!("{tool} {arguments}: {}", String::from_utf8_lossy(&self.line));
        }
        Ok(&self.line)
    }

    /// The text of a tool's answer.
    pub(crate) fn text(&mut self, tool: &str, arguments: &Value) -> Result<String> {
        let answer: Value = serde_json::from_slice(self.call(tool, arguments)?)?;
        let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
        Ok(text.to_owned())
    }

    fn request(&mut self, method: &str, params: &Value) -> Result<()> {
        self.id += 1;
        let request =
            format!("{}\n", json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params }));
        self.send(request.as_bytes())?;
        let id = format!("\"id\":{}", self.id);
        loop {
            self.line.clear();
            if self.output.read_until(b'\n', &mut self.line)? == 0 {
                bail!("the server left during {method}");
            }
            // Requests and notifications of the server's own may come in between.
            let own = memchr::memmem::find(&self.line, b"\"method\":").is_some();
            if !own && memchr::memmem::find(&self.line, id.as_bytes()).is_some() {
                return Ok(());
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What follows `initialize`.
pub(crate) const INITIALIZED: &[u8] = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";

/// Parameters of `initialize`.
pub(crate) fn initialize() -> Value {
    json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": { "name": "bench", "version": "1" },
    })
}
