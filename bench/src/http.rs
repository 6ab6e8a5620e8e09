//! A session over streamable HTTP on a kept connection, for many sessions with one process.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::client::initialize;

/// One session.
pub(crate) struct Session {
    connection: BufReader<TcpStream>,
    address: SocketAddr,
    id: Option<String>,
    number: u64,
}

impl Session {
    /// Opens one.
    pub(crate) fn open(address: SocketAddr) -> Result<Self> {
        let connection = TcpStream::connect(address)?;
        connection.set_nodelay(true)?;
        let mut session = Self { connection: BufReader::new(connection), address, id: None, number: 0 };
        let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": initialize() });
        session.post(&body.to_string())?;
        session.post(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string())?;
        Ok(session)
    }

    /// The body of the answer to a tool call.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Result<Vec<u8>> {
        self.number += 1;
        let params = json!({ "name": tool, "arguments": arguments });
        let body = json!({ "jsonrpc": "2.0", "id": self.number, "method": "tools/call", "params": params });
        let answer = self.post(&body.to_string())?;
        if memchr::memmem::find(&answer, b"\"result\"").is_none()
            || memchr::memmem::find(&answer, b"\"isError\":true").is_some()
        {
            bail!("{tool}: {}", String::from_utf8_lossy(&answer));
        }
        Ok(answer)
    }

    fn post(&mut self, body: &str) -> Result<Vec<u8>> {
        let session = self.id.as_ref().map(|id| format!("mcp-session-id: {id}\r\n")).unwrap_or_default();
        let request = format!(
            "POST /mcp HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\naccept: application/json, \
             text/event-stream\r\nmcp-protocol-version: 2025-06-18\r\n{session}content-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        self.connection.get_mut().write_all(request.as_bytes())?;
        let status = self.line()?;
        let mut length = None;
        let mut chunked = false;
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(':') else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().ok(),
                "transfer-encoding" => chunked = true,
                "mcp-session-id" => self.id = Some(value.trim().to_owned()),
                _ => {}
            }
        }
        let answer = if chunked { self.chunks()? } else { self.exactly(length.unwrap_or(0))? };
        if !status.contains(" 200 ") && !status.contains(" 202 ") {
            bail!("{status}: {}", String::from_utf8_lossy(&answer));
        }
        Ok(answer)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.connection.read_line(&mut line)? == 0 {
            bail!("the server closed the connection");
        }
        Ok(line.trim_end().to_owned())
    }

    fn exactly(&mut self, length: usize) -> Result<Vec<u8>> {
        let mut body = vec![0; length];
        self.connection.read_exact(&mut body)?;
        Ok(body)
    }

    fn chunks(&mut self) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            let length =
                usize::from_str_radix(&line, 16).with_context(|| format!("a chunk's length: {line:?}"))?;
            body.extend(self.exactly(length)?);
            self.line()?;
            if length == 0 {
                return Ok(body);
            }
        }
    }
}
