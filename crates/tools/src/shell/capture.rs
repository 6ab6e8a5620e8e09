//! What a foreground command prints: a bounded window in memory, the rest in a private file.

use super::{clean, clean::Cleaner, stream::whole_characters};
use crate::bound::middle;
use scrub::Scrubber;
use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Write as _},
    os::unix::fs::FileExt as _,
    sync::{Arc, Mutex, PoisonError},
};

/// What a reply shows of a command's output, half of it the beginning and half the end.
pub(super) const SHOWN: usize = 100 * 1024;
/// Kept in front of the end, so that a secret which begins there is seen whole. Not shown.
const CONTEXT: usize = 64 * 1024;
/// What is shown while the command still runs.
const PREVIEW: usize = 8 * 1024;
/// What is put into the file at once.
const BATCH: usize = 256 * 1024;

/// The beginning and the end of everything printed so far, as it came.
#[derive(Default)]
pub(super) struct Window {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl Window {
    fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(SHOWN - self.head.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(SHOWN / 2 + CONTEXT)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(SHOWN / 2 + CONTEXT);
        self.tail.drain(..over.min(self.tail.len()));
        self.tail.extend(rest);
    }

    /// What still fits before anything has to be left out.
    fn room(&self) -> usize {
        SHOWN - self.head.len()
    }

    /// Everything, when it is all there.
    fn whole(&self) -> Option<&[u8]> {
        (self.total == self.head.len() as u64).then_some(&self.head)
    }

    /// The beginning as clean text. Secrets go before anything is cut, so that none is cut in two.
    fn begin(&self, scrubber: &Scrubber, size: usize) -> String {
        let text = clean::text(&self.head);
        let text = scrubber.scrub(&text);
        text[..text.floor_char_boundary(size)].to_owned()
    }

    /// The end as clean text.
    fn end(&self, scrubber: &Scrubber, size: usize) -> String {
        let bytes: Vec<u8> = self.tail.iter().copied().collect();
        let text = clean::text(&bytes);
        let text = scrubber.scrub(&text);
        text[text.ceil_char_boundary(text.len().saturating_sub(size))..].to_owned()
    }

    /// A glance at it while it grows.
    pub(super) fn preview(&self, scrubber: &Scrubber) -> String {
        if !self.tail.is_empty() {
            let (head, tail) = (self.begin(scrubber, PREVIEW / 2), self.end(scrubber, PREVIEW / 2));
            return preview(&head, self.total, scrubber.settled(&tail));
        }
        let text = clean::text(&self.head);
        let text = scrubber.scrub(scrubber.settled(&text));
        match middle(&text, PREVIEW) {
            None => text.into_owned(),
            Some((head, tail)) => preview(&text[..head], self.total, &text[tail..]),
        }
    }
}

fn preview(head: &str, total: u64, tail: &str) -> String {
    format!("{head}\n… of {total} bytes so far, these are the first and the last …\n{tail}")
}

/// Collects a command's output.
pub(super) struct Capture {
    scrubber: Arc<Scrubber>,
    window: Arc<Mutex<Window>>,
    /// No file grows beyond this.
    limit: u64,
    batch: Vec<u8>,
    spool: Spooling,
}

/// Where what does not fit into the window goes.
enum Spooling {
    NotNeeded,
    On(Box<Spool>),
    /// The command goes on, only its middle is lost.
    Failed(io::Error),
}

/// Everything a command printed.
pub(super) enum Captured {
    /// It is short.
    Whole(String),
    /// Its beginning, its end, and where the rest is, if anywhere.
    Cut { head: String, tail: String, printed: u64, rest: io::Result<Spooled> },
}

impl Capture {
    pub(super) fn new(scrubber: &Arc<Scrubber>, limit: u64) -> Self {
        let (scrubber, window) = (Arc::clone(scrubber), Arc::default());
        Self { scrubber, window, limit, batch: Vec::new(), spool: Spooling::NotNeeded }
    }

    /// For a look at it from outside.
    pub(super) fn window(&self) -> Arc<Mutex<Window>> {
        Arc::clone(&self.window)
    }

    pub(super) async fn push(&mut self, bytes: &[u8]) {
        {
            let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
            if window.room() >= bytes.len() {
                return window.push(bytes);
            }
            if let (Spooling::NotNeeded, Some(whole)) = (&self.spool, window.whole()) {
                self.batch.extend_from_slice(whole);
                self.spool = Spool::new(&self.scrubber, self.limit)
                    .map_or_else(Spooling::Failed, |spool| Spooling::On(Box::new(spool)));
            }
            window.push(bytes);
        }
        if matches!(&self.spool, Spooling::On(spool) if !spool.full) {
            self.batch.extend_from_slice(bytes);
            if self.batch.len() >= BATCH {
                self.flush().await;
            }
        }
    }

    /// Cleaning and writing take a while: off the runtime's threads with it.
    async fn flush(&mut self) {
        if let Spooling::On(mut spool) = std::mem::replace(&mut self.spool, Spooling::NotNeeded) {
            let batch = std::mem::take(&mut self.batch);
            let work = move || {
                let written = spool.push(&batch);
                (written.map(|()| spool), batch)
            };
            self.spool = match tokio::task::spawn_blocking(work).await {
                Ok((Ok(spool), batch)) => {
                    self.batch = batch;
                    self.batch.clear();
                    Spooling::On(spool)
                }
                Ok((Err(error), _)) => Spooling::Failed(error),
                Err(error) => Spooling::Failed(error.into()),
            };
        }
    }

    pub(super) async fn finish(mut self) -> Captured {
        // Most commands print little: waking a thread takes longer than cleaning that.
        if matches!(self.spool, Spooling::NotNeeded) {
            return self.conclude();
        }
        self.flush().await;
        let work = move || self.conclude();
        match tokio::task::spawn_blocking(work).await {
            Ok(captured) => captured,
            Err(error) => Captured::Cut {
                head: String::new(),
                tail: String::new(),
                printed: 0,
                rest: Err(error.into()),
            },
        }
    }

    fn conclude(self) -> Captured {
        let window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = match self.spool {
            Spooling::NotNeeded => return Captured::Whole(clean::text(&window.head)),
            Spooling::On(spool) => spool.finish(),
            Spooling::Failed(error) => Err(error),
        };
        let half = SHOWN / 2;
        let shown = match &rest {
            Ok(spool) if spool.complete && spool.length <= SHOWN as u64 => match spool.part(0, SHOWN) {
                Ok((text, _)) => return Captured::Whole(text),
                Err(error) => Err(error),
            },
            Ok(spool) if spool.complete => spool
                .part(0, half)
                .and_then(|(head, _)| Ok((head, spool.part(spool.length - half as u64, half)?.0))),
            Ok(spool) => spool.part(0, half).map(|(head, _)| (head, window.end(&self.scrubber, half))),
            Err(_) => Ok((window.begin(&self.scrubber, half), window.end(&self.scrubber, half))),
        };
        match shown {
            Ok((head, tail)) => Captured::Cut { head, tail, printed: window.total, rest },
            Err(error) => Captured::Cut {
                head: window.begin(&self.scrubber, half),
                tail: window.end(&self.scrubber, half),
                printed: window.total,
                rest: Err(error),
            },
        }
    }
}

/// A private file with a command's clean output. It has no name, so nothing is left when it is closed.
struct Spool {
    cleaner: Cleaner,
    file: File,
    limit: u64,
    length: u64,
    full: bool,
}

impl Spool {
    fn new(scrubber: &Scrubber, limit: u64) -> io::Result<Self> {
        let (cleaner, file) = (Cleaner::new(scrubber), tempfile::tempfile()?);
        Ok(Self { cleaner, file, limit, length: 0, full: false })
    }

    fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        let clean = self.cleaner.push(bytes);
        self.write(&clean)
    }

    fn finish(mut self) -> io::Result<Spooled> {
        if !self.full {
            let clean = self.cleaner.finish();
            self.write(&clean)?;
        }
        Ok(Spooled { file: self.file, length: self.length, complete: !self.full })
    }

    fn write(&mut self, clean: &str) -> io::Result<()> {
        let room = usize::try_from(self.limit.saturating_sub(self.length)).unwrap_or(usize::MAX);
        let fits = clean.floor_char_boundary(room);
        // Nothing more to write does not make room.
        self.full |= fits < clean.len();
        self.file.write_all(&clean.as_bytes()[..fits])?;
        self.length += fits as u64;
        Ok(())
    }
}

/// A finished command's output that was too long to show.
pub(super) struct Spooled {
    file: File,
    pub(super) length: u64,
    /// Whether it is everything that was printed.
    pub(super) complete: bool,
}

impl Spooled {
    /// At most about `limit` bytes from `from` on, and where the next part begins.
    pub(super) fn part(&self, from: u64, limit: usize) -> io::Result<(String, u64)> {
        let from = from.min(self.length);
        let size = usize::try_from(self.length - from).unwrap_or(usize::MAX).min(limit);
        let mut bytes = vec![0; size];
        self.file.read_exact_at(&mut bytes, from)?;
        let (text, whole) = whole_characters(&bytes);
        Ok((text, from + whole as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_out_stays_left_out() {
        let mut spool = Spool::new(&Scrubber::default(), 10).unwrap();
        for part in ["0123456789 and more\n", "", "more\n", ""] {
            spool.push(part.as_bytes()).unwrap();
        }
        let spooled = spool.finish().unwrap();
        assert!(!spooled.complete);
        assert_eq!(spooled.length, 10);
    }
}
