//! A bare HTTP/1.1 client: one connection per request, so that a test can break it wherever it likes.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Long enough for every call a test makes, short enough to end a test that hangs.
const READ_LIMIT: Duration = Duration::from_secs(60);

/// A request to send.
#[derive(Debug, Clone)]
pub struct Request {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    /// `GET`.
    pub fn get(path: &str) -> Self {
        Self::new("GET", path)
    }

    /// `POST` of a JSON text.
    pub fn post_json(path: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::new("POST", path).header("content-type", "application/json").body(body)
    }

    /// Any method.
    pub fn new(method: &str, path: &str) -> Self {
        Self { method: method.to_owned(), path: path.to_owned(), headers: Vec::new(), body: Vec::new() }
    }

    /// Adds a header. A `host` given here replaces the usual one.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sends it and reads the answer's head.
    ///
    /// # Errors
    /// When the connection fails or the answer is not HTTP.
    pub fn send(&self, address: SocketAddr) -> io::Result<Response> {
        let mut connection = TcpStream::connect(address)?;
        connection.set_nodelay(true)?;
        connection.set_read_timeout(Some(READ_LIMIT))?;
        connection.write_all(&self.bytes(address))?;
        Response::read(connection)
    }

    /// The request as it goes over the wire.
    pub fn bytes(&self, address: SocketAddr) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        if !self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head.push_str(&format!("host: {address}\r\n"));
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !self.body.is_empty() || self.method == "POST" {
            head.push_str(&format!("content-length: {}\r\n", self.body.len()));
        }
        head.push_str("connection: close\r\n\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// An answer: its head, and its body as it comes.
#[derive(Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    headers: Vec<(String, String)>,
    body: Body,
}

impl Response {
    fn read(connection: TcpStream) -> io::Result<Self> {
        let mut reader = BufReader::new(connection);
        let status_line = read_line(&mut reader)?;
        let status = status_line.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("not HTTP: {status_line:?}")))?;
        let mut headers = Vec::new();
        loop {
            let line = read_line(&mut reader)?;
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':') {
                headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
            }
        }
        let find =
            |wanted: &str| headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
        let length = if find("transfer-encoding").is_some_and(|value| value.contains("chunked")) {
            Length::Chunks { left: 0, ended: false }
        } else {
            find("content-length").and_then(|value| value.parse().ok()).map_or(Length::Open, Length::Known)
        };
        Ok(Self { status, headers, body: Body { reader, length } })
    }

    /// A header's value; its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// Whether it is a stream of events.
    pub fn is_event_stream(&self) -> bool {
        self.header("content-type").is_some_and(|value| value.starts_with("text/event-stream"))
    }

    /// The whole body.
    ///
    /// # Errors
    /// When the connection breaks before its end.
    pub fn text(mut self) -> io::Result<String> {
        let mut bytes = Vec::new();
        self.body.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The body as server-sent events, one at a time. Dropping it closes the connection.
    pub fn events(self) -> Events {
        Events { lines: BufReader::new(self.body) }
    }
}

#[derive(Debug)]
enum Length {
    Known(usize),
    Chunks { left: usize, ended: bool },
    Open,
}

/// The body's bytes, with the transfer encoding undone.
#[derive(Debug)]
struct Body {
    reader: BufReader<TcpStream>,
    length: Length,
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.length {
            Length::Open => self.reader.read(buffer),
            Length::Known(left) => {
                let wanted = buffer.len().min(*left);
                let count = self.reader.read(buffer.get_mut(..wanted).unwrap_or_default())?;
                *left -= count;
                Ok(count)
            }
            Length::Chunks { ended: true, .. } => Ok(0),
            Length::Chunks { left, ended } => {
                if *left == 0 {
                    let size = read_line(&mut self.reader)?;
                    let size = size.split(';').next().unwrap_or_default().trim();
                    *left = usize::from_str_radix(size, 16).map_err(io::Error::other)?;
                    if *left == 0 {
                        *ended = true;
                        return Ok(0);
                    }
                }
                let wanted = buffer.len().min(*left);
                let count = self.reader.read(buffer.get_mut(..wanted).unwrap_or_default())?;
                if count == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                *left -= count;
                if *left == 0 {
                    read_line(&mut self.reader)?;
                }
                Ok(count)
            }
        }
    }
}

/// One server-sent event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    /// Its name; empty when it has none.
    pub name: String,
    /// Its data.
    pub data: String,
    /// Its identifier; empty when it has none.
    pub id: String,
}

/// Server-sent events as they come.
#[derive(Debug)]
pub struct Events {
    lines: BufReader<Body>,
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let mut event = Event::default();
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end_matches(['\r', '\n']);
            if line.is_empty() {
                if event != Event::default() {
                    return Some(event);
                }
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "event" => event.name = value.to_owned(),
                "id" => event.id = value.to_owned(),
                "data" if event.data.is_empty() => event.data = value.to_owned(),
                "data" => event.data = format!("{}\n{value}", event.data),
                _ => {}
            }
        }
    }
}

fn read_line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    /// Answers one connection with these bytes.
    fn answering(bytes: &'static [u8]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            assert!(connection.read(&mut request).unwrap() > 0);
            connection.write_all(bytes).unwrap();
        });
        address
    }

    #[test]
    fn reads_a_body_of_known_length() {
        let address = answering(b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\ngoneXXXX");
        let response = Request::get("/").send(address).unwrap();
        assert_eq!((response.status, response.header("content-length")), (404, Some("4")));
        assert_eq!(response.text().unwrap(), "gone");
    }

    #[test]
    fn reads_events_in_chunks() {
        let address = answering(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n\
              5\r\ndata:\r\n14\r\n a\n\n: ping\n\nevent: x\r\n14\r\n\ndata: 1\ndata: 2\n\n\n\n\r\n0\r\n\r\n",
        );
        let response = Request::get("/").send(address).unwrap();
        assert!(response.is_event_stream());
        let events: Vec<(String, String)> = response.events().map(|event| (event.name, event.data)).collect();
        assert_eq!(events, [("".into(), "a".into()), ("x".into(), "1\n2".into())]);
    }
}
