//! Searching one file.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Cursor, Read, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use grep_matcher::Matcher as _;
use grep_searcher::{Searcher, Sink, SinkContext, SinkContextKind, SinkMatch};
use rustix::fs::{FileType, Mode, OFlags};

use super::plan::{HEAP_LIMIT, Plan};
use super::watched::Watched;
use super::{Cut, FileHits, HitLine, OutputMode};
use crate::root::Workspace;
use crate::text::{self, Encoding};

/// Files up to this are read whole and searched in memory; larger ones pass through a small window.
pub(crate) const WHOLE: u64 = 1 << 20;
/// Bytes of a line that are shown.
const SHOWN: usize = 1000;
/// Bytes shown before the match in a line that is too long.
const LEAD: usize = 200;
/// Bytes on either side of the part that is shown that are passed on with it.
const NEAR: usize = 4 << 10;

/// What one file had to say.
pub(super) enum Found {
    Nothing,
    Hits(FileHits),
    Failed(String, String),
}

/// One thread's tools.
pub(super) struct Worker<'w> {
    workspace: &'w Workspace,
    plan: &'w Plan<'w>,
    cancel: &'w AtomicBool,
    searcher: Searcher,
    buffer: Vec<u8>,
}

impl<'w> Worker<'w> {
    pub(super) fn new(workspace: &'w Workspace, plan: &'w Plan<'w>, cancel: &'w AtomicBool) -> Self {
        Self { workspace, plan, cancel, searcher: plan.searcher(), buffer: Vec::new() }
    }

    pub(super) fn search(&mut self, path: &Path, limit: usize) -> Found {
        let limit = if self.plan.query.mode == OutputMode::Content { limit as u64 } else { u64::MAX };
        let mut hits = Hits { plan: self.plan, lines: Vec::new(), count: 0, gap: false, limit };
        match self.search_file(path, &mut hits) {
            Err(error) if !self.cancel.load(Ordering::Relaxed) => {
                Found::Failed(crate::path::quoted(path).into_owned(), self.explain(&error))
            }
            _ if hits.count == 0 => Found::Nothing,
            _ => Found::Hits(FileHits { path: path.into(), lines: hits.lines, count: hits.count }),
        }
    }

    /// Why a file could not be searched, and what can be done. The usual engine has but one error of its own: that a
    /// line, or in multiline mode the whole file, does not fit.
    fn explain(&self, error: &io::Error) -> String {
        let most = HEAP_LIMIT >> 20;
        let text = error.to_string();
        match (error.raw_os_error(), self.plan.query.multiline) {
            _ if !text.contains("allocation limit") => text,
            (Some(_), _) => text,
            (None, true) => format!(
                "multiline needs all of it at once, and it has more than {most} MiB; search it without multiline"
            ),
            (None, false) => format!(
                "it has a line of more than {most} MiB; search it in a shell, cut into lines: `tr ',' '\\n'` or `fold`"
            ),
        }
    }

    fn search_file(&mut self, path: &Path, hits: &mut Hits<'_>) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        // what vanished, was swapped or may not be read is not part of the tree
        let Ok(fd) = self.workspace.root.open_at(path, flags, Mode::empty()) else { return Ok(()) };
        let Ok(stat) = rustix::fs::fstat(&fd) else { return Ok(()) };
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(());
        }
        let mut file = File::from(fd);
        self.buffer.clear();
        let len = stat.st_size as u64;
        if len <= WHOLE {
            read_whole(&mut file, len as usize, &mut self.buffer)?;
            return self.search_buffer(hits);
        }
        file.by_ref().take(text::BINARY_WINDOW as u64).read_to_end(&mut self.buffer)?;
        if text::is_binary(&self.buffer) {
            return Ok(());
        }
        let utf16 = text::encoding_of(&self.buffer).0 != Encoding::Utf8;
        let again = file.try_clone()?;
        let longest = if self.plan.query.multiline { u64::MAX } else { self.plan.longest_line() };
        let too_long = Cell::new(false);
        let rest = |file, longest| {
            let line = self.buffer.len() as u64;
            Tail {
                file,
                cancel: self.cancel,
                until_nul: !utf16,
                ended: false,
                line,
                longest,
                too_long: &too_long,
            }
        };
        let start = || Cursor::new(&self.buffer[..]);
        if !self.plan.query.multiline || self.plan.stepwise(len).is_none() {
            let reader = start().chain(rest(file, longest));
            let searched = self.searcher.search_reader(&self.plan.matcher, reader, &mut *hits);
            if !too_long.get() {
                return searched;
            }
            hits.forget();
        }
        // from the beginning, so that a cancel is heard within a line
        let Some(regex) = self.plan.stepwise(u64::MAX) else { return Ok(()) };
        (&again).seek(SeekFrom::Start(self.buffer.len() as u64))?;
        let watched = Watched::new(usable(regex)?, self.cancel);
        self.searcher.search_reader(watched, start().chain(rest(again, u64::MAX)), hits)
    }

    fn search_buffer(&mut self, hits: &mut Hits<'_>) -> io::Result<()> {
        let mut text = &self.buffer[..];
        if text::encoding_of(text).0 == Encoding::Utf8
            && let Some(nul) = memchr::memchr(0, text)
        {
            if nul < text::BINARY_WINDOW {
                return Ok(());
            }
            text = &text[..nul];
        }
        match self.plan.stepwise(text.len() as u64) {
            None => self.searcher.search_slice(&self.plan.matcher, text, hits),
            Some(regex) => self.searcher.search_slice(Watched::new(usable(regex)?, self.cancel), text, hits),
        }
    }
}

/// What a search of a file that was asked for by name passes over without a word in a tree.
pub(super) fn left_out(workspace: &Workspace, path: &Path, cancel: &AtomicBool) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut file = match workspace.root.open_at(path, flags, Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(errno) => return Some(format!("it cannot be opened: {}", io::Error::from(errno))),
    };
    let mut buffer = vec![0; 256 << 10];
    let mut done = 0;
    while !cancel.load(Ordering::Relaxed) {
        let n = file.read(&mut buffer).ok().filter(|n| *n > 0)?;
        if done == 0 && text::encoding_of(&buffer[..n]).0 != Encoding::Utf8 {
            return None;
        }
        if let Some(nul) = memchr::memchr(0, &buffer[..n]) {
            let at = done + nul;
            let what = if at < text::BINARY_WINDOW { "it is binary" } else { "it is binary from there on" };
            return Some(format!(
                "byte {} is NUL, so {what}; `grep -a` in a shell searches all of it",
                at + 1
            ));
        }
        done += n;
    }
    None
}

fn usable<T>(made: &Result<T, String>) -> io::Result<&T> {
    made.as_ref().map_err(|why| io::Error::other(why.clone()))
}

/// Reads a file of about `len` bytes to its end. One call does when it has just that many: a read that stops where
/// the file did, with room for more, has seen the end.
fn read_whole(file: &mut File, len: usize, buffer: &mut Vec<u8>) -> io::Result<()> {
    buffer.resize(len + 1, 0);
    let mut got = 0;
    while got < len {
        match file.read(&mut buffer[got..]) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    buffer.truncate(got);
    // some file systems say 0 for files that hold something
    if got != len || len == 0 {
        file.read_to_end(buffer)?;
    }
    Ok(())
}

/// The rest of a large file. It ends at the first NUL, and when the call is cancelled.
struct Tail<'c> {
    file: File,
    cancel: &'c AtomicBool,
    until_nul: bool,
    ended: bool,
    /// Bytes of the line that is being read, and how many it may have.
    line: u64,
    longest: u64,
    too_long: &'c Cell<bool>,
}

impl Read for Tail<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.load(Ordering::Relaxed) {
            return Err(io::Error::other("cancelled"));
        }
        if self.ended {
            return Ok(0);
        }
        let n = self.file.read(buffer)?;
        self.line = match memchr::memrchr(b'\n', &buffer[..n]) {
            Some(newline) => (n - newline) as u64,
            None => self.line + n as u64,
        };
        if self.line > self.longest {
            self.too_long.set(true);
            return Err(io::Error::other("a line that may take long"));
        }
        match memchr::memchr(0, &buffer[..n]) {
            Some(nul) if self.until_nul => {
                self.ended = true;
                Ok(nul)
            }
            _ => Ok(n),
        }
    }
}

/// Collects the matches of one file.
struct Hits<'p> {
    plan: &'p Plan<'p>,
    lines: Vec<HitLine>,
    count: u64,
    gap: bool,
    limit: u64,
}

impl Hits<'_> {
    fn forget(&mut self) {
        self.lines.clear();
        (self.count, self.gap) = (0, false);
    }

    fn push(&mut self, number: u64, line: &[u8], context: bool, starts: bool) {
        let gap = std::mem::take(&mut self.gap);
        let (text, cut) = self.shown(line, starts);
        self.lines.push(HitLine { number, text, cut, context, gap, starts });
    }

    /// A line as it is shown: without its end, and when it is long only the part around the match.
    fn shown(&self, line: &[u8], starts: bool) -> (String, Option<Box<Cut>>) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.len() <= SHOWN {
            return (String::from_utf8_lossy(line).into_owned(), None);
        }
        let quick = starts && self.plan.stepwise(line.len() as u64).is_none();
        let hit = if quick { self.plan.matcher.find(line).ok().flatten() } else { None };
        let mut from = hit.map_or(0, |hit| hit.start().saturating_sub(LEAD)).min(line.len() - SHOWN);
        while from > 0 && line[from] & 0xC0 == 0x80 {
            from -= 1;
        }
        let mut until = (from + SHOWN).min(line.len());
        while until < line.len() && until > from && line[until] & 0xC0 == 0x80 {
            until -= 1;
        }
        let before = if from > 0 { format!("[{from} bytes] … ") } else { String::new() };
        let after =
            if until < line.len() { format!(" … [{} bytes]", line.len() - until) } else { String::new() };
        let text = String::from_utf8_lossy(&line[from..until]);
        let cut = Cut {
            shown: before.len()..before.len() + text.len(),
            before: String::from_utf8_lossy(&line[from.saturating_sub(NEAR)..from]).into_owned(),
            after: String::from_utf8_lossy(&line[until..(until + NEAR).min(line.len())]).into_owned(),
        };
        (format!("{before}{text}{after}"), Some(Box::new(cut)))
    }
}

impl Sink for Hits<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if self.count >= self.limit {
            return Ok(false);
        }
        self.count += 1;
        match self.plan.query.mode {
            OutputMode::FilesWithMatches => return Ok(false),
            OutputMode::Count => return Ok(true),
            OutputMode::Content => {}
        }
        let first = found.line_number().unwrap_or(0);
        for (number, line) in (first..).zip(found.lines()) {
            self.push(number, line, false, number == first);
        }
        // with context, the lines behind the last match are still to come
        Ok(self.count < self.limit || self.plan.query.context > 0)
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> Result<bool, io::Error> {
        if self.count >= self.limit && *found.kind() == SinkContextKind::Before {
            return Ok(false);
        }
        self.push(found.line_number().unwrap_or(0), found.bytes(), true, false);
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        self.gap = !self.lines.is_empty();
        Ok(true)
    }
}
