//! Two ends of a connection that notice when the other one is gone.

use super::frame::Frame;
use std::time::Duration;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader, BufWriter},
    sync::mpsc,
    time::timeout,
};

/// Whoever has nothing to say says so this often.
const BEAT: Duration = Duration::from_secs(1);

/// Whoever says nothing at all for this long is gone.
pub(super) const SILENCE: Duration = Duration::from_secs(5);

/// Frames to and from the peer. The connection closes when every sender is dropped.
pub(super) struct Link {
    /// What the peer said; ends when it is gone. Beats are not passed on.
    pub(super) heard: mpsc::Receiver<Frame>,
    /// What the peer is to hear.
    pub(super) say: mpsc::Sender<Frame>,
}

impl Link {
    pub(super) fn new(stream: impl AsyncRead + AsyncWrite + Send + 'static) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        let (hear, heard) = mpsc::channel(16);
        let (say, said) = mpsc::channel(16);
        tokio::spawn(listen(BufReader::new(reader), hear));
        tokio::spawn(speak(BufWriter::new(writer), said));
        Self { heard, say }
    }
}

async fn listen(mut reader: impl AsyncRead + Unpin, hear: mpsc::Sender<Frame>) {
    while let Ok(Ok(frame)) = timeout(SILENCE, Frame::read(&mut reader)).await {
        if frame != Frame::Beat && hear.send(frame).await.is_err() {
            return;
        }
    }
}

async fn speak(mut writer: impl AsyncWrite + Unpin, mut said: mpsc::Receiver<Frame>) {
    loop {
        let frame = match timeout(BEAT, said.recv()).await {
            Ok(Some(frame)) => frame,
            Ok(None) => break,
            Err(_) => Frame::Beat,
        };
        let sent = frame.write(&mut writer).await;
        if sent.is_err() || (said.is_empty() && writer.flush().await.is_err()) {
            return;
        }
    }
    // The peer sees the end either way.
    let _ = writer.shutdown().await;
}
