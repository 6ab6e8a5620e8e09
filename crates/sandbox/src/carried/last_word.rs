//! How the script at the far side says that its command has ended, and how.
//!
//! A client reports its own failures by exit code and on stderr, just as the command does. So the script has the
//! last word, behind a mark no program knows; whatever the client adds after it is not the command's.

use std::{
    future::Future as _,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, ReadBuf},
    sync::watch,
    time::Sleep,
};

/// The script's last word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastWord {
    /// The command's exit code, as a shell has it.
    Code(i32),
    /// There is no such command.
    Missing,
    /// There is no such working directory.
    Cwd,
}

impl LastWord {
    fn parse(word: &[u8]) -> Option<Self> {
        let word = String::from_utf8_lossy(word);
        match word.lines().next()?.trim() {
            "missing" => Some(Self::Missing),
            "cwd" => Some(Self::Cwd),
            code => code.parse().ok().map(Self::Code),
        }
    }
}

/// More than this after the mark is no last word, with whatever remark of the client.
const LONGEST: usize = 4096;

fn needle(mark: &str) -> Vec<u8> {
    format!("\u{1e}{mark} ").into_bytes()
}

/// A word that nothing has followed for so long is the last one. Engines lose the end of a short program now and then,
/// and their clients would wait for it for ever.
const SETTLED: Duration = Duration::from_secs(3);

/// What is known of a live command's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// Its stream has not been read to the end.
    NotYet,
    /// The script had its say.
    Word(LastWord),
    /// The stream ended without it: so did the transport.
    Silence,
}

/// Told by the stream to whoever waits for the command.
pub(super) type Hearing = watch::Receiver<Heard>;

/// The code of a command that has ended, while its client does not see that.
pub(super) async fn lingering(hearing: &Hearing) -> i32 {
    let mut hearing = hearing.clone();
    let heard =
        hearing.wait_for(|heard| matches!(heard, Heard::Word(LastWord::Code(_)))).await.map(|heard| *heard);
    match heard {
        Ok(Heard::Word(LastWord::Code(code))) => {
            tokio::time::sleep(SETTLED).await;
            code
        }
        _ => std::future::pending().await,
    }
}

/// A stream without the last word, which it passes on.
pub(super) struct Listener {
    inner: Box<dyn AsyncRead + Send + Unpin>,
    needle: Vec<u8>,
    /// Read but not given out yet: `ready` bytes can go, the others may be the beginning of the last word.
    held: Vec<u8>,
    ready: usize,
    /// Since when a word has been the last one.
    settling: Option<Pin<Box<Sleep>>>,
    ended: bool,
    told: watch::Sender<Heard>,
}

impl Listener {
    pub(super) fn new(inner: Box<dyn AsyncRead + Send + Unpin>, mark: &str) -> (Self, Hearing) {
        let (told, hearing) = watch::channel(Heard::NotYet);
        let (held, ready, settling, ended) = (Vec::new(), 0, None, false);
        (Self { inner, needle: needle(mark), held, ready, settling, ended, told }, hearing)
    }

    /// How much of what is held can be given out.
    fn sort(&mut self) {
        let first = self.held.len().saturating_sub(LONGEST);
        let suspicious = |at: &usize| {
            let rest = &self.held[*at..];
            let common = rest.len().min(self.needle.len());
            rest[..common] == self.needle[..common]
        };
        self.ready = (first..self.held.len()).find(suspicious).unwrap_or(self.held.len());
    }

    /// The last word, if it is that, and where it stands. A program may have said something like it before.
    fn word(&self) -> Option<(usize, LastWord)> {
        let at = self.held.windows(self.needle.len()).rposition(|window| window == self.needle)?;
        Some((at, LastWord::parse(&self.held[at + self.needle.len()..])?))
    }

    fn finish(&mut self) {
        self.ended = true;
        let heard = match self.word() {
            Some((at, word)) => {
                self.held.truncate(at);
                Heard::Word(word)
            }
            None => Heard::Silence,
        };
        self.ready = self.held.len();
        // Nobody may be waiting.
        let _ = self.told.send(heard);
    }

    /// Whether a whole word has been the last one for long enough.
    fn poll_settled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.held.last() != Some(&b'\n') || self.word().is_none() {
            return Poll::Pending;
        }
        let settling = self.settling.get_or_insert_with(|| Box::pin(tokio::time::sleep(SETTLED)));
        settling.as_mut().poll(cx)
    }
}

impl AsyncRead for Listener {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if self.ready > 0 {
                let count = self.ready.min(buffer.remaining());
                buffer.put_slice(&self.held[..count]);
                self.held.drain(..count);
                self.ready -= count;
                return Poll::Ready(Ok(()));
            }
            if self.ended {
                return Poll::Ready(Ok(()));
            }
            let mut chunk = [0; 16 * 1024];
            let mut chunk = ReadBuf::new(&mut chunk);
            let Poll::Ready(read) = Pin::new(&mut self.inner).poll_read(cx, &mut chunk) else {
                ready!(self.poll_settled(cx));
                self.finish();
                continue;
            };
            read?;
            if chunk.filled().is_empty() {
                self.finish();
            } else {
                self.settling = None;
                self.held.extend_from_slice(chunk.filled());
                self.sort();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// Reads in the given pieces; what came through, and what was heard.
    async fn listened(pieces: &[&'static [u8]]) -> (Vec<u8>, Heard) {
        let mut chain: Box<dyn AsyncRead + Send + Unpin> = Box::new(tokio::io::empty());
        for piece in pieces.iter().rev() {
            chain = Box::new((*piece).chain(chain));
        }
        let (mut listener, hearing) = Listener::new(chain, "m1.");
        let mut text = Vec::new();
        listener.read_to_end(&mut text).await.unwrap();
        let heard = *hearing.borrow();
        (text, heard)
    }

    #[tokio::test]
    async fn a_stream_gives_everything_but_the_last_word() {
        let code = |code| Heard::Word(LastWord::Code(code));
        assert_eq!(listened(&[b"err\n\x1em1. 5\nclient's remark\n"]).await, (b"err\n".to_vec(), code(5)));
        assert_eq!(listened(&[b"err\x1e", b"m1", b". ", b"12", b"\r\n"]).await, (b"err".to_vec(), code(12)));
        assert_eq!(
            listened(&[b"a\x1em", b"2. x\x1em1", b"b"]).await,
            (b"a\x1em2. x\x1em1b".to_vec(), Heard::Silence)
        );
        assert_eq!(listened(&[]).await, (Vec::new(), Heard::Silence));
        assert_eq!(
            listened(&[b"w\n\x1em1. 0\nfake\n\x1em1. 7\nit ended\n"]).await,
            (b"w\n\x1em1. 0\nfake\n".to_vec(), code(7))
        );
        assert_eq!(listened(&[b"\x1em1. missing\n"]).await, (Vec::new(), Heard::Word(LastWord::Missing)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_whose_end_is_lost_ends_with_the_last_word() {
        let (mut near, far) = tokio::io::duplex(64);
        let (mut listener, hearing) = Listener::new(Box::new(far), "m1.");
        near.write_all(b"all\x1em1. 0\n").await.unwrap();
        let mut text = Vec::new();
        let early = tokio::time::timeout(SETTLED / 2, listener.read_to_end(&mut text)).await;
        assert!(early.is_err() && *hearing.borrow() == Heard::NotYet, "something may follow");
        near.write_all(b"not\x1em1. 3\n").await.unwrap();
        listener.read_to_end(&mut text).await.unwrap();
        assert_eq!(text, b"all\x1em1. 0\nnot");
        assert_eq!(*hearing.borrow(), Heard::Word(LastWord::Code(3)));
        assert_eq!(lingering(&hearing).await, 3);
    }
}
