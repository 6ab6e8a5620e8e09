//! A client's messages, one a line.
//!
//! The SDK tries every kind of message on every line until one fits, and answers what fits none without saying which
//! request is meant. Here a call of a tool, which is nearly all that ever comes, is read as what it is, and a request
//! that cannot be read gets its answer.

use super::{misfit, unread::Look};
use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequest, CallToolRequestMethod, CallToolRequestParams, ClientRequest, JsonRpcMessage,
        JsonRpcVersion2_0, RequestId,
    },
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::{Transport, async_rw::AsyncRwTransport},
};
use serde::Deserialize;
use std::io;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, BufReader, Empty};

/// A byte order mark, which some clients begin with.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Room for a line that is kept for the next one.
const KEPT_ROOM: usize = 1 << 20;

/// Messages in both directions. Those that leave are the SDK's to write.
pub(super) struct Lines<R, W: AsyncWrite> {
    from: BufReader<R>,
    /// What came of the next line so far.
    line: Vec<u8>,
    /// The line is too long: nothing of it is kept but whose it is.
    too_long: Option<Look>,
    /// Bytes of the longest line.
    limit: usize,
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
    /// `limit`: the bytes of one message.
    pub(super) fn new((from, to): (R, W), limit: usize) -> Self {
        let to = AsyncRwTransport::new(tokio::io::empty(), to);
        Self { from: BufReader::new(from), line: Vec::new(), too_long: None, limit, to }
    }

    /// Reads on to the end of a line; nothing when the client has left. Given up in between, it goes on where it was.
    async fn next_line(&mut self) -> Option<()> {
        loop {
            let came = match self.from.fill_buf().await {
                // The last line needs no end.
                Ok([]) => return (!self.line.is_empty() || self.too_long.is_some()).then_some(()),
                Ok(came) => came,
                Err(error) => {
                    tracing::error!("the client cannot be read: {error}");
                    return None;
                }
            };
            let end = came.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(came.len(), |at| at + 1);
            match &mut self.too_long {
                Some(look) => look.take(&came[..taken]),
                None => self.line.extend_from_slice(&came[..taken]),
            }
            self.from.consume(taken);
            if self.line.len() > self.limit {
                let mut look = Look::default();
                look.take(without_mark(&std::mem::take(&mut self.line)));
                self.too_long = Some(look);
            }
            if end.is_some() {
                return Some(());
            }
        }
    }

    /// What the line is that was just read.
    fn take(&mut self) -> Line {
        if let Some(look) = self.too_long.take() {
            let why = format!(
                "the message is longer than {} bytes; send less at once, or raise the limit with --max-body",
                self.limit
            );
            return Line::Misfit(ErrorData::invalid_request(why, None), look.id(None));
        }
        let line = read(&self.line);
        self.line.clear();
        self.line.shrink_to(KEPT_ROOM);
        line
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
            match self.take() {
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

fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(MARK).unwrap_or(line)
}

fn read(line: &[u8]) -> Line {
    let line = without_mark(line).trim_ascii();
    if line.is_empty() {
        return Line::Nothing;
    }
    if let Ok(call) = serde_json::from_slice::<ToolCall>(line) {
        return Line::Message(Box::new(call.into()));
    }
    match serde_json::from_slice(line) {
        Ok(message) => Line::Message(Box::new(message)),
        Err(_) => misfit::answer(line).map_or(Line::Nothing, |(error, id)| Line::Misfit(error, id)),
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
        assert_eq!(misfit(b"no json"), Some((-32700, None)));
        let comma = br#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"Read",},"id":"b"}"#;
        assert_eq!(misfit(comma), Some((-32700, Some("b".to_owned()))));
        assert_eq!(misfit(b" \r\n"), None);
    }

    /// What comes of `bytes` that arrive one by one: the ids of requests, and the answers that were sent.
    async fn fed(bytes: &'static [u8], limit: usize) -> (Vec<String>, Vec<Value>) {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let (ours, theirs) = tokio::io::duplex(64);
        let (from, to) = tokio::io::split(ours);
        let mut lines = Lines::new((from, to), limit);
        let (mut answers, mut client) = tokio::io::split(theirs);
        let feed = tokio::spawn(async move {
            for byte in bytes {
                client.write_all(&[*byte]).await.unwrap();
            }
            client.shutdown().await.unwrap();
        });
        let heard = tokio::spawn(async move {
            let mut heard = String::new();
            answers.read_to_string(&mut heard).await.unwrap();
            heard.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
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
        drop(lines);
        (ids, heard.await.unwrap())
    }

    #[tokio::test]
    async fn lines_come_whole_however_they_arrive() {
        let bytes = b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r\n\
            {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\",\"params\":[]}\n\
            {\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\",\"params\":{\"name\":\"Read\"}}";
        let (ids, answers) = fed(bytes, 1000).await;
        assert_eq!(ids, ["1", "3"], "the last line needs no end");
        assert_eq!((&answers[0]["id"], &answers[0]["error"]["code"]), (&json!(2), &json!(-32602)));
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_answered_by_its_id_and_the_next_is_read() {
        let bytes = b"\xef\xbb\xbf{\"method\":\"ping\",\"params\":{\"id\":8,\"x\":\"ssssssssssssssssssssssssssss\"},\"id\":7}\r\n\
            {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
        let (ids, answers) = fed(bytes, 50).await;
        assert_eq!(ids, ["1"]);
        assert_eq!((&answers[0]["id"], &answers[0]["error"]["code"]), (&json!(7), &json!(-32600)));
        let why = answers[0]["error"]["message"].as_str().unwrap();
        assert!(why.contains("longer than 50 bytes") && why.contains("--max-body"), "{why}");
    }
}
