//! A client's messages, one a line.
//!
//! The SDK tries every kind of message on every line until one fits, and answers what fits none without saying which
//! request is meant. Here a call of a tool, which is nearly all that ever comes, is read as what it is, and a request
//! that cannot be read gets its answer.

use super::misfit;
use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequest, CallToolRequestMethod, CallToolRequestParams, ClientRequest, JsonRpcMessage,
        JsonRpcVersion2_0, RequestId,
    },
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::{
        Transport,
        async_rw::{AsyncRwTransport, DEFAULT_MAX_LINE_LENGTH},
    },
};
use serde::Deserialize;
use std::io;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, BufReader, Empty};

/// A byte order mark, which some clients begin with.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Messages in both directions. Those that leave are the SDK's to write.
pub(super) struct Lines<R, W: AsyncWrite> {
    from: BufReader<R>,
    /// What came of the next line so far.
    line: Vec<u8>,
    to: AsyncRwTransport<RoleServer, Empty, W>,
}

/// What a line is.
enum Line {
    Message(Box<RxJsonRpcMessage<RoleServer>>),
    /// Nothing that can be answered.
    Nothing,
    /// Not a message, and the answer that says so.
    Misfit(ErrorData, Option<RequestId>),
}

/// A call of a tool, field by field as it stands on the line.
#[derive(Deserialize)]
struct ToolCall {
    #[serde(rename = "jsonrpc")]
    _version: JsonRpcVersion2_0,
    id: RequestId,
    #[serde(rename = "method")]
    _method: CallToolRequestMethod,
    params: CallToolRequestParams,
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin + 'static> Lines<R, W> {
    pub(super) fn new((from, to): (R, W)) -> Self {
        let to = AsyncRwTransport::new(tokio::io::empty(), to);
        Self { from: BufReader::new(from), line: Vec::new(), to }
    }

    /// Reads on to the end of a line; nothing when the client has left. Given up in between, it goes on where it was.
    async fn next_line(&mut self) -> Option<()> {
        loop {
            let came = match self.from.fill_buf().await {
                Ok([]) => return None,
                Ok(came) => came,
                Err(error) => {
                    tracing::error!("the client cannot be read: {error}");
                    return None;
                }
            };
            let end = came.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(came.len(), |at| at + 1);
            // A line that is too long is known by what is beyond; more of it is not needed.
            if self.line.len() <= DEFAULT_MAX_LINE_LENGTH {
                self.line.extend_from_slice(&came[..taken]);
            }
            self.from.consume(taken);
            if end.is_some() {
                return Some(());
            }
        }
    }
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin + 'static> Transport<RoleServer>
    for Lines<R, W>
{
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.to.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            self.next_line().await?;
            let line = read(&self.line);
            self.line.clear();
            match line {
                Line::Message(message) => return Some(*message),
                Line::Nothing => {}
                // In a task, since this future may be given up at any time. A client that has left needs no answer.
                Line::Misfit(error, id) => drop(tokio::spawn(self.to.send(JsonRpcMessage::error(error, id)))),
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.to.close().await
    }
}

fn read(line: &[u8]) -> Line {
    if line.len() > DEFAULT_MAX_LINE_LENGTH {
        let why = format!("the message is longer than {DEFAULT_MAX_LINE_LENGTH} bytes");
        return Line::Misfit(ErrorData::invalid_request(why, None), None);
    }
    let line = line.strip_prefix(MARK).unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return Line::Nothing;
    }
    if let Ok(call) = serde_json::from_slice::<ToolCall>(line) {
        return Line::Message(Box::new(call.into()));
    }
    match serde_json::from_slice(line) {
        Ok(message) => Line::Message(Box::new(message)),
        Err(error) if error.is_data() => serde_json::from_slice(line)
            .ok()
            .and_then(|message| misfit::answer(&message))
            .map_or(Line::Nothing, |(error, id)| Line::Misfit(error, id)),
        // No request can be found in it. An answer might come back as more of the same.
        Err(error) => {
            tracing::debug!("a line that is not JSON: {error}");
            Line::Nothing
        }
    }
}

impl From<ToolCall> for RxJsonRpcMessage<RoleServer> {
    fn from(call: ToolCall) -> Self {
        let ToolCall { id, mut params, .. } = call;
        let meta = params.meta.take();
        let mut request = CallToolRequest::new(params);
        if let Some(meta) = meta {
            request.extensions.insert(meta);
        }
        Self::request(ClientRequest::CallToolRequest(request), id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A message that fits, as it would be written, read by us and by the SDK.
    fn both(line: &Value) -> [Value; 2] {
        let ours = match read(line.to_string().as_bytes()) {
            Line::Message(message) => serde_json::to_value(*message).unwrap(),
            _ => panic!("{line} is a message"),
        };
        let theirs: RxJsonRpcMessage<RoleServer> = serde_json::from_value(line.clone()).unwrap();
        [ours, serde_json::to_value(theirs).unwrap()]
    }

    #[test]
    fn a_call_is_read_as_the_sdk_reads_it() {
        for params in [
            json!({"name": "Read"}),
            json!({"name": "Read", "arguments": null, "further": 1}),
            json!({"name": "Read", "arguments": {"file_path": "a", "n": 1.5, "deep": [{"x": null}]}}),
            json!({"name": "Read", "arguments": {}, "_meta": {"progressToken": 7, "other": "x"}}),
            json!({"name": "Read", "_meta": null}),
        ] {
            for id in [json!(1), json!("one")] {
                let line = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
                assert!(serde_json::from_value::<ToolCall>(line.clone()).is_ok(), "{line}");
                let [ours, theirs] = both(&line);
                assert_eq!(ours, theirs, "{line}");
            }
        }
    }

    #[test]
    fn what_is_no_call_is_the_sdks() {
        for line in [
            json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}),
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 7}}),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
        ] {
            let [ours, theirs] = both(&line);
            assert_eq!(ours, theirs, "{line}");
        }
    }

    #[test]
    fn a_request_that_cannot_be_read_is_answered_by_its_id() {
        let misfit = |line: &[u8]| match read(line) {
            Line::Misfit(error, id) => Some((error.code.0, id.map(|id| id.to_string()))),
            Line::Nothing => None,
            Line::Message(message) => panic!("{message:?}"),
        };
        let params = br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":[]}"#;
        assert_eq!(misfit(params), Some((-32602, Some("7".to_owned()))));
        let version = br#"{"jsonrpc":"1.0","id":"a","method":"tools/call","params":{"name":"Read"}}"#;
        assert_eq!(misfit(version), Some((-32600, Some("a".to_owned()))));
        assert_eq!(misfit(b"[1]"), Some((-32600, None)));
        assert_eq!(misfit(br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}"#), None);
        assert_eq!(misfit(b"no json"), None);
        assert_eq!(misfit(b" \r\n"), None);
        assert_eq!(misfit(&vec![b' '; DEFAULT_MAX_LINE_LENGTH + 1]), Some((-32600, None)));
    }

    #[tokio::test]
    async fn lines_come_whole_however_they_arrive() {
        let (ours, theirs) = tokio::io::duplex(64);
        let (from, to) = tokio::io::split(ours);
        let mut lines = Lines::new((from, to));
        let (mut answers, mut client) = tokio::io::split(theirs);
        let feed = tokio::spawn(async move {
            use tokio::io::AsyncWriteExt as _;
            let bytes = b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r\n\
                {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\",\"params\":[]}\n\
                {\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\",\"params\":{\"name\":\"Read\"}}\n";
            for byte in bytes {
                client.write_all(&[*byte]).await.unwrap();
            }
            client.shutdown().await.unwrap();
        });
        let mut ids = Vec::new();
        loop {
            // Given up at every pause, as the SDK does.
            tokio::select! {
                biased;
                message = lines.receive() => match message {
                    Some(JsonRpcMessage::Request(request)) => ids.push(request.id.to_string()),
                    Some(other) => panic!("{other:?}"),
                    None => break,
                },
                () = tokio::task::yield_now() => {}
            }
        }
        feed.await.unwrap();
        assert_eq!(ids, ["1", "3"]);
        let mut answer = String::new();
        tokio::io::AsyncBufReadExt::read_line(&mut BufReader::new(&mut answers), &mut answer).await.unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(2), &json!(-32602)));
    }
}
