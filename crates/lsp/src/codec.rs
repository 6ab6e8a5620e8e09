//! Frames: a header that tells the length, then that many bytes of JSON.

use std::io;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};

/// A longer message is no message.
const LARGEST: usize = 256 << 20;
/// A longer header line is no header.
const LONGEST_LINE: u64 = 4096;

/// The next message; `None` at the end.
pub(crate) async fn read(from: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Vec<u8>>> {
    let mut length = None;
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut *from).take(LONGEST_LINE).read_until(b'\n', &mut line).await?;
        if read == 0 {
            return Ok(None);
        }
        let text = line.trim_ascii();
        if text.is_empty() {
            match length {
                Some(_) => break,
                // A blank line before any header is noise.
                None => continue,
            }
        }
        // Anything else is a header nobody needs, or a line that a careless program printed.
        if let Some(value) = header(text) {
            length = Some(value);
        }
    }
    let length = length.unwrap_or_default();
    if length > LARGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a message of {length} bytes")));
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body).await?;
    Ok(Some(body))
}

fn header(line: &[u8]) -> Option<usize> {
    let (name, value) = std::str::from_utf8(line).ok()?.split_once(':')?;
    name.trim().eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
}

/// A message as it goes over the wire.
pub(crate) fn frame(body: &[u8]) -> Vec<u8> {
    let mut out = format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    out.extend_from_slice(body);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(mut bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        while let Ok(Some(message)) = read(&mut bytes).await {
            found.push(message);
        }
        found
    }

    #[tokio::test]
    async fn frames_come_apart_again() {
        let mut wire = frame(b"{\"a\":1}");
        wire.extend(b"a stray line\r\nContent-Type: x\r\ncontent-length:2\r\n\r\n{}");
        wire.extend(frame(b""));
        assert_eq!(all(&wire).await, [b"{\"a\":1}".to_vec(), b"{}".to_vec(), Vec::new()]);
    }

    #[tokio::test]
    async fn a_cut_or_a_huge_message_is_an_error_not_a_panic() {
        assert!(read(&mut &b"Content-Length: 10\r\n\r\nabc"[..]).await.is_err());
        assert!(read(&mut &b"Content-Length: 99999999999\r\n\r\n"[..]).await.is_err());
        assert!(all(b"").await.is_empty());
    }
}
