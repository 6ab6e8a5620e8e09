//! What goes over the wire: frames of a kind, a length and so many bytes.

use serde_json::Value;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// No frame is larger, so that a peer cannot make us keep more than this at once.
const LARGEST: usize = 16 << 20;

/// Output and stdin travel in pieces of at most this size.
pub(super) const PIECE: usize = 64 << 10;

/// One message, in either direction.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Frame {
    /// Near to far: what to run.
    Start(Value),
    /// Near to far: bytes for stdin.
    Stdin(Vec<u8>),
    /// Near to far: no more stdin.
    StdinEnd,
    /// Near to far: end it.
    Kill,
    /// Near to far: the terminal's new size.
    Resize(u16, u16),
    /// Far to near: it runs.
    Started,
    /// Far to near: so many bytes of stdin were taken.
    Taken(u32),
    /// Far to near: what it wrote.
    Stdout(Vec<u8>),
    /// Far to near: what it wrote to stderr.
    Stderr(Vec<u8>),
    /// Far to near: how it ended.
    End(Value),
    /// Either: still here.
    Beat,
}

impl Frame {
    fn encode(self) -> (u8, Vec<u8>) {
        match self {
            Self::Start(value) => (1, value.to_string().into_bytes()),
            Self::Stdin(bytes) => (2, bytes),
            Self::StdinEnd => (3, Vec::new()),
            Self::Kill => (4, Vec::new()),
            Self::Resize(cols, rows) => (5, [cols.to_be_bytes(), rows.to_be_bytes()].concat()),
            Self::Started => (6, Vec::new()),
            Self::Taken(count) => (7, count.to_be_bytes().to_vec()),
            Self::Stdout(bytes) => (8, bytes),
            Self::Stderr(bytes) => (9, bytes),
            Self::End(value) => (10, value.to_string().into_bytes()),
            Self::Beat => (11, Vec::new()),
        }
    }

    fn decode(kind: u8, bytes: Vec<u8>) -> Option<Self> {
        let json = |bytes: &[u8]| serde_json::from_slice(bytes).ok();
        match (kind, bytes.as_slice()) {
            (1, _) => json(&bytes).map(Self::Start),
            (2, _) => Some(Self::Stdin(bytes)),
            (3, []) => Some(Self::StdinEnd),
            (4, []) => Some(Self::Kill),
            (5, &[a, b, c, d]) => Some(Self::Resize(u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))),
            (6, []) => Some(Self::Started),
            (7, &[a, b, c, d]) => Some(Self::Taken(u32::from_be_bytes([a, b, c, d]))),
            (8, _) => Some(Self::Stdout(bytes)),
            (9, _) => Some(Self::Stderr(bytes)),
            (10, _) => json(&bytes).map(Self::End),
            (11, []) => Some(Self::Beat),
            _ => None,
        }
    }

    /// Writes it, without flushing.
    pub(super) async fn write(self, writer: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let (kind, bytes) = self.encode();
        let length = u32::try_from(bytes.len()).ok().filter(|_| bytes.len() <= LARGEST);
        let length = length.ok_or_else(|| io::Error::other("a message is too large"))?;
        writer.write_u8(kind).await?;
        writer.write_u32(length).await?;
        writer.write_all(&bytes).await
    }

    /// Reads the next one.
    pub(super) async fn read(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let kind = reader.read_u8().await?;
        let length = usize::try_from(reader.read_u32().await?).unwrap_or(usize::MAX);
        if length > LARGEST {
            return Err(io::Error::other("the peer sent a message that is too large"));
        }
        let mut bytes = vec![0; length];
        reader.read_exact(&mut bytes).await?;
        Self::decode(kind, bytes)
            .ok_or_else(|| io::Error::other("the peer sent something we do not understand"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[tokio::test]
    async fn frames_come_out_as_they_went_in() {
        let frames = [
            Frame::Start(json!({"command": "ü"})),
            Frame::Stdin(vec![0, 255]),
            Frame::StdinEnd,
            Frame::Kill,
            Frame::Resize(80, 300),
            Frame::Started,
            Frame::Taken(70_000),
            Frame::Stdout(Vec::new()),
            Frame::Stderr(b"x".to_vec()),
            Frame::End(json!({"outcome": "cancelled"})),
            Frame::Beat,
        ];
        let mut wire = Vec::new();
        for frame in frames.clone() {
            frame.write(&mut wire).await.unwrap();
        }
        let mut reader = wire.as_slice();
        for frame in frames {
            assert_eq!(Frame::read(&mut reader).await.unwrap(), frame);
        }
        assert!(Frame::read(&mut reader).await.is_err());
    }

    #[tokio::test]
    async fn nonsense_is_an_error_and_reserves_no_memory() {
        for wire in
            [&[99, 0, 0, 0, 0][..], &[2, 255, 255, 255, 255], &[5, 0, 0, 0, 1, 0], &[1, 0, 0, 0, 1, b'{']]
        {
            assert!(Frame::read(&mut &*wire).await.is_err(), "{wire:?}");
        }
    }
}
