//! How the script at the far side says that its command has ended, and how.
//!
//! A client reports its own failures by exit code and on stderr, just as the command does. So the script has the
//! last word, behind a mark no program knows; whatever the client adds after it is not the command's.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, ReadBuf};

/// The script's last word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastWord {
    /// The command's exit code, as a shell has it.
    Code(i32),
    /// There is no such command.
    Missing,
    /// There is no such working directory.
    Cwd,
    /// The command was not begun: its guard is gone, or its variables did not arrive.
    Unbegun,
}

impl LastWord {
    fn parse(word: &[u8]) -> Option<Self> {
        let word = String::from_utf8_lossy(word);
        match word.lines().next()?.trim() {
            "missing" => Some(Self::Missing),
            "cwd" => Some(Self::Cwd),
            "unbegun" => Some(Self::Unbegun),
            code => code.parse().ok().map(Self::Code),
        }
    }
}

/// More than this after the mark is no last word, with whatever remark of the client.
const LONGEST: usize = 4096;

fn needle(mark: &str) -> Vec<u8> {
    format!("\u{1e}{mark} ").into_bytes()
}

/// Takes the last word out of what was collected.
pub(super) fn take(stderr: &mut Vec<u8>, mark: &str) -> Option<LastWord> {
    let needle = needle(mark);
    let at = stderr.windows(needle.len()).rposition(|window| window == needle)?;
    let word = LastWord::parse(&stderr[at + needle.len()..]);
    stderr.truncate(at);
    word
}

/// Whether a script ended without having begun its command.
pub(super) fn is_unbegun(said: &[u8], mark: &str) -> bool {
    let word = [&needle(mark)[..], b"unbegun"].concat();
    said.windows(word.len()).any(|window| window == word)
}

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

/// Shared between the stream and the handle of a live command.
pub(super) type Hearing = Arc<Mutex<Heard>>;

pub(super) fn heard(hearing: &Hearing) -> Heard {
    *hearing.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A stream without the last word, which it passes on.
pub(super) struct Listener {
    inner: Box<dyn AsyncRead + Send + Unpin>,
    needle: Vec<u8>,
    /// Read but not given out yet: `ready` bytes can go, the others may be the beginning of the last word.
    held: Vec<u8>,
    ready: usize,
    ended: bool,
    hearing: Hearing,
}

impl Listener {
    pub(super) fn new(inner: Box<dyn AsyncRead + Send + Unpin>, mark: &str) -> (Self, Hearing) {
        let hearing = Arc::new(Mutex::new(Heard::NotYet));
        let listener = Self {
            inner,
            needle: needle(mark),
            held: Vec::new(),
            ready: 0,
            ended: false,
            hearing: Arc::clone(&hearing),
        };
        (listener, hearing)
    }

    /// How much of what is held can be given out.
    fn sort(&mut self) {
        let suspicious = |at: &usize| {
            let rest = &self.held[*at..];
            let common = rest.len().min(self.needle.len());
            rest.len() <= LONGEST && rest[..common] == self.needle[..common]
        };
        self.ready = (0..self.held.len()).find(suspicious).unwrap_or(self.held.len());
    }

    fn finish(&mut self) {
        self.ended = true;
        let word = self.held[self.ready..].strip_prefix(&self.needle[..]).and_then(LastWord::parse);
        match word {
            Some(_) => self.held.truncate(self.ready),
            None => self.ready = self.held.len(),
        }
        let heard = word.map_or(Heard::Silence, Heard::Word);
        *self.hearing.lock().unwrap_or_else(PoisonError::into_inner) = heard;
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
            ready!(Pin::new(&mut self.inner).poll_read(cx, &mut chunk))?;
            if chunk.filled().is_empty() {
                self.finish();
            } else {
                self.held.extend_from_slice(chunk.filled());
                self.sort();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt as _;

    #[test]
    fn the_last_word_is_taken_out_of_stderr() {
        let mut stderr = b"warning\n\x1em1. 0\nfake\n\x1em1. 7\ncommand terminated\n".to_vec();
        assert_eq!(take(&mut stderr, "m1."), Some(LastWord::Code(7)));
        assert_eq!(stderr, b"warning\n\x1em1. 0\nfake\n");
        assert_eq!(take(&mut stderr, "m2."), None);
    }

    /// Reads in the given pieces; what came through, and what was heard.
    async fn listened(pieces: &[&'static [u8]]) -> (Vec<u8>, Heard) {
        let mut chain: Box<dyn AsyncRead + Send + Unpin> = Box::new(tokio::io::empty());
        for piece in pieces.iter().rev() {
            chain = Box::new((*piece).chain(chain));
        }
        let (mut listener, hearing) = Listener::new(chain, "m1.");
        let mut text = Vec::new();
        listener.read_to_end(&mut text).await.unwrap();
        (text, heard(&hearing))
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
        assert_eq!(listened(&[b"\x1em1. missing\n"]).await, (Vec::new(), Heard::Word(LastWord::Missing)));
    }
}
