//! Searching text: ripgrep's engine over files opened below the root, results in path order however many threads work.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use grep_matcher::{LineTerminator, Matcher as _};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};
use ignore::overrides::{Override, OverrideBuilder};
use rustix::fs::{FileType, Mode, OFlags};

use crate::error::FileError;
use crate::live::trigram::Need;
use crate::path::ContainedPath;
use crate::root::Workspace;
use crate::text::{self, Encoding};
use crate::walk::{Reach, files, threads};

/// Files up to this are read whole and searched in memory; larger ones pass through a small window.
pub(crate) const WHOLE: u64 = 1 << 20;
/// What one line, or one file in multiline mode, may take.
const HEAP_LIMIT: usize = 64 << 20;
/// Bytes of a line that are shown.
const SHOWN: usize = 1000;
/// Bytes shown before the match in a line that is too long.
const LEAD: usize = 200;
/// Below this many files one thread is quicker than starting others.
const ALONE: usize = 160;
/// Files that a thread takes at a time.
const BLOCK: usize = 16;
/// Blocks that threads may run ahead of the one that is next to be shown.
const AHEAD: usize = 64;

/// What a search gives back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputMode {
    /// Matching lines.
    #[default]
    Content,
    /// Files that match.
    FilesWithMatches,
    /// Files with the number of their matching lines.
    Count,
}

/// What to search for, and where.
#[derive(Clone, Debug)]
pub struct GrepQuery {
    /// A regular expression in Rust's syntax.
    pub pattern: String,
    /// A folder or a file.
    pub path: ContainedPath,
    /// Only files that match this glob, as `rg -g` takes it; `!` in front leaves them out.
    pub glob: Option<String>,
    /// Whether upper and lower case are the same.
    pub case_insensitive: bool,
    /// What to give back.
    pub mode: OutputMode,
    /// How many matching lines (or files) to give back; 0 for all.
    pub head_limit: usize,
    /// Lines of context before and after a match.
    pub context: usize,
    /// Whether a match may span lines; `.` then matches line ends too.
    pub multiline: bool,
    /// Whether to trust stat data alone and no event, for this one call.
    pub fresh: bool,
}

impl GrepQuery {
    /// Searches for `pattern` below `path`, with everything else at its default.
    pub fn new(pattern: impl Into<String>, path: ContainedPath) -> Self {
        Self {
            pattern: pattern.into(),
            path,
            glob: None,
            case_insensitive: false,
            mode: OutputMode::default(),
            head_limit: 0,
            context: 0,
            multiline: false,
            fresh: false,
        }
    }
}

/// A line of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HitLine {
    /// Its number, from 1.
    pub number: u64,
    /// Its text, cut when it is long.
    pub text: String,
    /// Whether it stands there only as context.
    pub context: bool,
    /// Whether lines were left out between the one before and this one (with context only).
    pub gap: bool,
    /// Whether a match starts in it; the further lines of a match that spans several are neither this nor context.
    pub starts: bool,
}

/// What was found in one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHits {
    /// The file, relative to the workspace's root.
    pub path: Box<Path>,
    /// Matching lines with their context; empty unless content was asked for.
    pub lines: Vec<HitLine>,
    /// Matching lines; 1 when only the file was asked for.
    pub count: u64,
}

/// What a search did.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct GrepSummary {
    /// Files that were looked at.
    pub candidates: usize,
    /// Files given back.
    pub files: usize,
    /// Matches given back.
    pub matches: u64,
    /// Whether `head_limit` stopped the search; there may be more.
    pub limited: bool,
    /// Files that could not be searched to their end, and why.
    pub unsearched: Vec<(String, String)>,
}

/// A search that could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GrepError {
    /// The pattern is no regular expression; the message holds the reason and a caret.
    #[error("{0}")]
    Pattern(String),
    /// The `glob` is none.
    #[error("invalid glob: {0}")]
    Glob(String),
    /// The place cannot be searched.
    #[error(transparent)]
    File(#[from] FileError),
}

impl Workspace {
    /// Searches the live index, or by walking the tree. `sink` gets the files in path order as they become known and
    /// may stop the search.
    pub fn grep(
        &self,
        query: &GrepQuery,
        cancel: &AtomicBool,
        sink: &mut dyn FnMut(FileHits) -> ControlFlow<()>,
    ) -> Result<GrepSummary, GrepError> {
        let plan = Plan::new(query, &self.matchers)?;
        let start = query.path.relative();
        let stat = self.lstat(start).map_err(|errno| FileError::from_errno(errno, "search", &query.path))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            crate::read::check_regular(&stat, &query.path)?;
            return search_all(self, &plan, &[start], cancel, sink);
        }
        let need = Need::of(&query.pattern, query.case_insensitive, query.multiline);
        if let Some(mut candidates) = self.live_candidates(start, &need, query.fresh) {
            candidates.retain(|path| plan.wants(path.as_ref()));
            return search_all(self, &plan, &candidates, cancel, sink);
        }
        let mut candidates = files(self, &Reach { start, depth: usize::MAX, cancel });
        candidates.retain(|path| plan.wants(path));
        search_all(self, &plan, &candidates, cancel, sink)
    }
}

/// Compiled patterns that were used lately: one with a Unicode class costs milliseconds to compile.
#[derive(Default)]
pub(crate) struct Matchers(Mutex<VecDeque<(MatcherKey, RegexMatcher)>>);

type MatcherKey = (String, bool, bool);

impl Matchers {
    const KEPT: usize = 32;

    fn get(&self, query: &GrepQuery) -> Result<RegexMatcher, grep_regex::Error> {
        let key = (query.pattern.clone(), query.case_insensitive, query.multiline);
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, matcher)) = kept().iter().find(|(other, _)| *other == key) {
            return Ok(matcher.clone());
        }
        let made = matcher(query)?;
        let mut kept = kept();
        kept.truncate(Self::KEPT - 1);
        kept.push_front((key, made.clone()));
        Ok(made)
    }
}

/// A query made ready: compiled once, used by every thread.
pub(crate) struct Plan<'q> {
    query: &'q GrepQuery,
    matcher: RegexMatcher,
    filter: Option<Override>,
}

impl<'q> Plan<'q> {
    pub(crate) fn new(query: &'q GrepQuery, matchers: &Matchers) -> Result<Self, GrepError> {
        let matcher = matchers.get(query).map_err(|error| GrepError::Pattern(explain(&error, query)))?;
        let filter = match &query.glob {
            Some(glob) if !glob.is_empty() => Some(
                OverrideBuilder::new("")
                    .add(glob.strip_prefix("./").unwrap_or(glob))
                    .and_then(|builder| builder.build())
                    .map_err(|error| GrepError::Glob(error.to_string()))?,
            ),
            _ => None,
        };
        Ok(Self { query, matcher, filter })
    }

    /// Whether the query's glob lets a file through, by its path from the root or from the folder searched.
    pub(crate) fn wants(&self, path: &Path) -> bool {
        let Some(filter) = &self.filter else { return true };
        let passes = |path: &Path| !filter.matched(path, false).is_ignore();
        passes(path) || path.strip_prefix(self.query.path.relative()).is_ok_and(passes)
    }

    fn searcher(&self) -> Searcher {
        let context = if self.query.mode == OutputMode::Content { self.query.context } else { 0 };
        SearcherBuilder::new()
            .line_terminator(self.matcher.line_terminator().unwrap_or(LineTerminator::byte(b'\n')))
            .line_number(self.query.mode == OutputMode::Content)
            // where a file turns binary is decided before the searcher sees it, the same way for all sizes
            .binary_detection(BinaryDetection::none())
            .heap_limit(Some(HEAP_LIMIT))
            .multi_line(self.query.multiline)
            .before_context(context)
            .after_context(context)
            .build()
    }
}

fn matcher(query: &GrepQuery) -> Result<RegexMatcher, grep_regex::Error> {
    let mut builder = RegexMatcherBuilder::new();
    builder.case_insensitive(query.case_insensitive).multi_line(true);
    if query.multiline {
        builder.dot_matches_new_line(true);
    } else if query.pattern.contains('$') {
        // `$` stands before the carriage return too, or it would never match in a file with \r\n
        builder.crlf(true);
    } else {
        builder.line_terminator(Some(b'\n'));
    }
    builder.build(&query.pattern)
}

fn explain(error: &grep_regex::Error, query: &GrepQuery) -> String {
    let hint = match query.multiline {
        false if query.pattern.contains("\\n") || query.pattern.contains('\n') => {
            "\nset multiline=true to match across lines"
        }
        _ => "\nescape ( ) [ ] { } . * + ? | ^ $ with a backslash to match them literally",
    };
    // the engine wraps the pattern before it parses it; alone, the caret points at the right place
    let alone = regex_syntax::Parser::new().parse(&query.pattern).err().map(|error| error.to_string());
    format!("invalid pattern: {}{hint}", alone.unwrap_or_else(|| error.to_string()))
}

/// Searches these files, which must be in path order, and hands on what is found in that order.
pub(crate) fn search_all<P: AsRef<Path> + Sync>(
    workspace: &Workspace,
    plan: &Plan<'_>,
    candidates: &[P],
    cancel: &AtomicBool,
    sink: &mut dyn FnMut(FileHits) -> ControlFlow<()>,
) -> Result<GrepSummary, GrepError> {
    let mut out = Collected { limit: plan.query.head_limit, mode: plan.query.mode, ..Collected::new(sink) };
    out.summary.candidates = candidates.len();
    let alone = ALONE.min(candidates.len());
    let mut worker = Worker::new(workspace, plan, cancel);
    for path in &candidates[..alone] {
        if cancel.load(Ordering::Relaxed) {
            return Err(FileError::Cancelled.into());
        }
        let left = out.left();
        if out.take(worker.search(path.as_ref(), left)).is_break() {
            return Ok(out.summary);
        }
    }
    if alone < candidates.len() {
        in_parallel(workspace, plan, &candidates[alone..], cancel, &mut out);
    }
    if cancel.load(Ordering::Relaxed) {
        return Err(FileError::Cancelled.into());
    }
    Ok(out.summary)
}

/// What threads have finished and the caller has not yet taken.
struct Shelf {
    blocks: Mutex<BTreeMap<usize, Vec<Found>>>,
    changed: Condvar,
    next: AtomicUsize,
    taken: AtomicUsize,
    stop: AtomicBool,
}

fn in_parallel<P: AsRef<Path> + Sync>(
    workspace: &Workspace,
    plan: &Plan<'_>,
    candidates: &[P],
    cancel: &AtomicBool,
    out: &mut Collected<'_>,
) {
    let total = candidates.len().div_ceil(BLOCK);
    let shelf = Shelf {
        blocks: Mutex::new(BTreeMap::new()),
        changed: Condvar::new(),
        next: AtomicUsize::new(0),
        taken: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
    };
    std::thread::scope(|scope| {
        for _ in 0..threads() {
            scope.spawn(|| shelf.fill(workspace, plan, candidates, cancel));
        }
        for wanted in 0..total {
            let mut blocks = shelf.blocks.lock().unwrap_or_else(PoisonError::into_inner);
            let block = loop {
                if let Some(block) = blocks.remove(&wanted) {
                    break block;
                }
                if cancel.load(Ordering::Relaxed) {
                    shelf.halt();
                    return;
                }
                blocks = shelf.changed.wait(blocks).unwrap_or_else(PoisonError::into_inner);
            };
            drop(blocks);
            shelf.taken.store(wanted + 1, Ordering::Relaxed);
            shelf.changed.notify_all();
            for found in block {
                if out.take(found).is_break() {
                    shelf.halt();
                    return;
                }
            }
        }
    });
}

impl Shelf {
    fn halt(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    fn fill<P: AsRef<Path>>(
        &self,
        workspace: &Workspace,
        plan: &Plan<'_>,
        candidates: &[P],
        cancel: &AtomicBool,
    ) {
        let mut worker = Worker::new(workspace, plan, cancel);
        let limit = match plan.query.head_limit {
            0 => usize::MAX,
            n => n,
        };
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let from = number * BLOCK;
            if from >= candidates.len() || self.stop.load(Ordering::Relaxed) {
                return;
            }
            let until = (from + BLOCK).min(candidates.len());
            let block = candidates[from..until].iter().map(|path| worker.search(path.as_ref(), limit));
            let block: Vec<Found> = block.filter(|found| !matches!(found, Found::Nothing)).collect();
            let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
            // the block that is wanted next always has room, so this cannot wait for itself
            while number > self.taken.load(Ordering::Relaxed) + AHEAD && !self.stop.load(Ordering::Relaxed) {
                blocks = self.changed.wait(blocks).unwrap_or_else(PoisonError::into_inner);
            }
            blocks.insert(number, block);
            drop(blocks);
            self.changed.notify_all();
            if cancel.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}

/// Counts what is handed on and says when it is enough.
struct Collected<'s> {
    sink: &'s mut dyn FnMut(FileHits) -> ControlFlow<()>,
    summary: GrepSummary,
    limit: usize,
    mode: OutputMode,
}

impl<'s> Collected<'s> {
    fn new(sink: &'s mut dyn FnMut(FileHits) -> ControlFlow<()>) -> Self {
        Self { sink, summary: GrepSummary::default(), limit: 0, mode: OutputMode::Content }
    }

    fn used(&self) -> usize {
        match self.mode {
            OutputMode::Content => self.summary.matches as usize,
            OutputMode::FilesWithMatches | OutputMode::Count => self.summary.files,
        }
    }

    /// Matches that may still be handed on.
    fn left(&self) -> usize {
        if self.limit == 0 { usize::MAX } else { self.limit - self.used() }
    }

    fn take(&mut self, found: Found) -> ControlFlow<()> {
        match found {
            Found::Nothing => ControlFlow::Continue(()),
            Found::Failed(path, why) => {
                self.summary.unsearched.push((path, why));
                ControlFlow::Continue(())
            }
            Found::Hits(mut hits) => {
                if self.mode == OutputMode::Content {
                    trim(&mut hits, self.left());
                }
                self.summary.files += 1;
                self.summary.matches += hits.count;
                (self.sink)(hits)?;
                if self.left() == 0 {
                    self.summary.limited = true;
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            }
        }
    }
}

/// Keeps the first `left` matches and their context.
fn trim(hits: &mut FileHits, left: usize) {
    if hits.count <= left as u64 {
        return;
    }
    let mut seen = 0;
    let extra = hits.lines.iter().position(|line| {
        seen += usize::from(line.starts);
        seen > left
    });
    hits.lines.truncate(extra.unwrap_or(hits.lines.len()));
    hits.count = left as u64;
}

enum Found {
    Nothing,
    Hits(FileHits),
    Failed(String, String),
}

/// One thread's tools.
struct Worker<'w> {
    workspace: &'w Workspace,
    plan: &'w Plan<'w>,
    cancel: &'w AtomicBool,
    searcher: Searcher,
    buffer: Vec<u8>,
}

impl<'w> Worker<'w> {
    fn new(workspace: &'w Workspace, plan: &'w Plan<'w>, cancel: &'w AtomicBool) -> Self {
        Self { workspace, plan, cancel, searcher: plan.searcher(), buffer: Vec::new() }
    }

    fn search(&mut self, path: &Path, limit: usize) -> Found {
        let limit = if self.plan.query.mode == OutputMode::Content { limit as u64 } else { u64::MAX };
        let mut hits = Hits { plan: self.plan, lines: Vec::new(), count: 0, gap: false, limit };
        match self.search_file(path, &mut hits) {
            Err(error) if !self.cancel.load(Ordering::Relaxed) => {
                Found::Failed(crate::path::quoted(path).into_owned(), error.to_string())
            }
            _ if hits.count == 0 => Found::Nothing,
            _ => Found::Hits(FileHits { path: path.into(), lines: hits.lines, count: hits.count }),
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
            self.buffer.reserve(len as usize + 1);
            file.read_to_end(&mut self.buffer)?;
            return self.search_buffer(hits);
        }
        file.by_ref().take(text::BINARY_WINDOW as u64).read_to_end(&mut self.buffer)?;
        if text::is_binary(&self.buffer) {
            return Ok(());
        }
        let utf16 = text::encoding_of(&self.buffer).0 != Encoding::Utf8;
        let rest = Tail { file, cancel: self.cancel, until_nul: !utf16, ended: false };
        self.searcher.search_reader(&self.plan.matcher, Cursor::new(&self.buffer[..]).chain(rest), hits)
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
        self.searcher.search_slice(&self.plan.matcher, text, hits)
    }
}

/// The rest of a large file. It ends at the first NUL, and when the call is cancelled.
struct Tail<'c> {
    file: File,
    cancel: &'c AtomicBool,
    until_nul: bool,
    ended: bool,
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
    fn push(&mut self, number: u64, line: &[u8], context: bool, starts: bool) {
        let gap = std::mem::take(&mut self.gap);
        self.lines.push(HitLine { number, text: self.shown(line, starts), context, gap, starts });
    }

    /// A line as it is shown: without its end, and when it is long only the part around the match.
    fn shown(&self, line: &[u8], starts: bool) -> String {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.len() <= SHOWN {
            return String::from_utf8_lossy(line).into_owned();
        }
        let hit = if starts { self.plan.matcher.find(line).ok().flatten() } else { None };
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
        format!("{before}{}{after}", String::from_utf8_lossy(&line[from..until]))
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
