//! How the script at the far side says that its command has ended, and how.
//!
//! A client reports its own failures by exit code and on stderr, just as the command does. So the script has the
//! last word on every stream, behind a key that no program knows: what comes before it is the command's, and all of it;
//! whatever the client adds is not.

use std::{
    io::{self, BufRead as _},
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::{
    io::{AsyncRead, ReadBuf},
    sync::watch,
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
        match String::from_utf8_lossy(word).trim() {
            "missing" => Some(Self::Missing),
            "cwd" => Some(Self::Cwd),
            code => code.parse().ok().map(Self::Code),
        }
    }
}

/// More than this is no word.
const LONGEST: usize = 32;

/// Stands before the key.
const OPENING: u8 = 0x1e;

/// Where a last word may begin. The search must not be what a busy machine is short of: where output was fetched slowly, a
/// pod's last kilobytes were seen to be lost after the script had ended.
fn opening(text: &[u8]) -> Option<usize> {
    let last = { text }.skip_until(OPENING).unwrap_or(0).checked_sub(1)?;
    (text[last] == OPENING).then_some(last)
}

/// What is known of a command's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// Its stream has not been read to the end.
    NotYet,
    /// The script had its say.
    Word(LastWord),
    /// The stream ended without it: so did the transport.
    Silence,
}

/// What the reader of a stream has heard.
#[derive(Clone)]
pub(super) struct Hearing(watch::Receiver<Heard>);

impl Hearing {
    pub(super) fn now(&self) -> Heard {
        *self.0.borrow()
    }
}

/// Resolves when the script has had its say on all streams; never when one ends without, or nobody reads it any more.
pub(super) async fn said(hearings: &[Hearing]) {
    for hearing in hearings {
        let mut heard = hearing.0.clone();
        if heard.wait_for(|heard| matches!(heard, Heard::Word(_))).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// A stream up to the last word, which it passes on.
pub(super) struct Listener {
    inner: Box<dyn AsyncRead + Send + Unpin>,
    needle: Vec<u8>,
    /// Read but not given out yet: `ready` bytes can go, the others may be the beginning of the last word.
    held: Vec<u8>,
    ready: usize,
    ended: bool,
    heard: watch::Sender<Heard>,
}

impl Listener {
    pub(super) fn new(inner: Box<dyn AsyncRead + Send + Unpin>, key: &str) -> (Self, Hearing) {
        let (heard, hearing) = watch::channel(Heard::NotYet);
        let needle = [&[OPENING], key.as_bytes(), b" "].concat();
        (Self { inner, needle, held: Vec::new(), ready: 0, ended: false, heard }, Hearing(hearing))
    }

    /// How much of what is held can be given out, and whether the rest is the last word.
    fn sort(&mut self) {
        let mut from = self.ready;
        while let Some(at) = opening(&self.held[from..]) {
            self.ready = from + at;
            let rest = &self.held[self.ready..];
            let common = rest.len().min(self.needle.len());
            if rest[..common] == self.needle[..common] {
                let word = &rest[common..];
                let line = word.iter().position(|byte| *byte == b'\n');
                match line.map(|end| LastWord::parse(&word[..end])) {
                    Some(Some(word)) => return self.finish(Heard::Word(word)),
                    None if word.len() <= LONGEST => return,
                    _ => {}
                }
            }
            from = self.ready + 1;
        }
        self.ready = self.held.len();
    }

    /// Nothing that comes later is given out.
    fn finish(&mut self, heard: Heard) {
        self.ended = true;
        match heard {
            Heard::Word(_) => self.held.truncate(self.ready),
            _ => self.ready = self.held.len(),
        }
        self.heard.send_replace(heard);
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
            if self.ended || buffer.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            let before = buffer.filled().len();
            ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
            let fresh = &buffer.filled()[before..];
            if fresh.is_empty() {
                self.finish(Heard::Silence);
                continue;
            }
            // Most of it never touches what is held.
            let clean = if self.held.is_empty() { opening(fresh).unwrap_or(fresh.len()) } else { 0 };
            self.held.extend_from_slice(&fresh[clean..]);
            buffer.set_filled(before + clean);
            self.sort();
            if clean > 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt as _;

    /// Reads in the given pieces; what came through, and what was heard.
    async fn listened(pieces: &[&'static [u8]]) -> (Vec<u8>, Heard) {
        let mut chain: Box<dyn AsyncRead + Send + Unpin> = Box::new(tokio::io::empty());
        for piece in pieces.iter().rev() {
            chain = Box::new((*piece).chain(chain));
        }
        let (mut listener, hearing) = Listener::new(chain, "k1");
        let mut text = Vec::new();
        listener.read_to_end(&mut text).await.unwrap();
        (text, hearing.now())
    }

    #[tokio::test]
    async fn a_stream_gives_everything_but_the_last_word() {
        let code = |code| Heard::Word(LastWord::Code(code));
        assert_eq!(listened(&[b"err\n\x1ek1 5\nclient's remark\n"]).await, (b"err\n".to_vec(), code(5)));
        assert_eq!(
            listened(&[b"err\x1e", b"k1", b" ", b"12", b"\r\n", b"x"]).await,
            (b"err".to_vec(), code(12))
        );
        assert_eq!(
            listened(&[b"a\x1ek", b"2 x\x1ek1", b"b"]).await,
            (b"a\x1ek2 x\x1ek1b".to_vec(), Heard::Silence)
        );
        assert_eq!(listened(&[b"a\x1e\x1ek1 \x1ek1 3\n"]).await, (b"a\x1e\x1ek1 ".to_vec(), code(3)));
        assert_eq!(listened(&[b"a\x1ek1 5"]).await, (b"a\x1ek1 5".to_vec(), Heard::Silence));
        let long = b"\x1ek1 a line that is too long to be a word, but has no end";
        assert_eq!(listened(&[long, b"\n\x1ek1 0\n"]).await, ([&long[..], b"\n"].concat(), code(0)));
        assert_eq!(listened(&[]).await, (Vec::new(), Heard::Silence));
        assert_eq!(listened(&[b"\x1ek1 missing\n"]).await, (Vec::new(), Heard::Word(LastWord::Missing)));
    }

    /// A client may go on for ever after the last word.
    #[tokio::test]
    async fn the_last_word_is_the_end_of_the_stream() {
        let (near, mut far) = tokio::io::duplex(64);
        let (mut listener, hearing) = Listener::new(Box::new(near), "k1");
        tokio::io::AsyncWriteExt::write_all(&mut far, b"out\x1ek1 0\n").await.unwrap();
        let mut text = String::new();
        listener.read_to_string(&mut text).await.unwrap();
        said(std::slice::from_ref(&hearing)).await;
        assert_eq!((text.as_str(), hearing.now()), ("out", Heard::Word(LastWord::Code(0))));
    }
}
