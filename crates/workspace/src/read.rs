//! Reading: windows of lines, images, descriptions of what is neither; never more memory than the window needs.

use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FileType, Mode, OFlags, Stat};

use crate::error::FileError;
use crate::path::ContainedPath;
use crate::root::Workspace;
use crate::text::{self, Encoding};
use crate::version::{HASH_LIMIT, Hasher, Version};

/// Images above this are described instead of returned: some clients choke on a line of 1 MiB, and four
/// characters stand for three bytes.
const IMAGE_LIMIT: u64 = 700 << 10;
/// Contents up to this are kept with the version, so that a later change can be shown.
const KEEP_LIMIT: u64 = 256 << 10;
const CHUNK: usize = 128 << 10;
/// What is kept of the text in front of a window.
const BEFORE: usize = 64 << 10;
/// What is kept of a line behind the place where it is cut.
const AFTER: usize = 16 << 10;

/// Which lines of a file to read.
#[derive(Clone, Copy, Debug)]
pub struct WindowSpec {
    /// The first line, from 1.
    pub offset: u64,
    /// How many lines.
    pub limit: u64,
    /// Bytes of a line that are shown; the rest is counted.
    pub max_line: usize,
    /// Bytes of all lines together; the window ends with the line that reaches it.
    pub max_bytes: usize,
}

impl Default for WindowSpec {
    fn default() -> Self {
        Self { offset: 1, limit: 2000, max_line: 2000, max_bytes: 1 << 20 }
    }
}

/// A file as it was read.
#[derive(Debug)]
pub struct Read {
    /// What it holds.
    pub content: Content,
    /// Which version that was.
    pub version: Version,
    /// The whole content, when the file is small.
    pub bytes: Option<Arc<[u8]>>,
}

/// What a file holds.
#[derive(Debug)]
#[non_exhaustive]
pub enum Content {
    /// Lines of text.
    Text(Window),
    /// An image that a client can show.
    Image {
        /// Its media type.
        mime: &'static str,
        /// The file.
        bytes: Arc<[u8]>,
    },
    /// Something that is not text.
    Binary {
        /// What it looks like, `ELF binary` for example.
        kind: &'static str,
        /// Its size.
        len: u64,
    },
}

/// Some lines of a text file.
#[derive(Debug, Default)]
pub struct Window {
    /// The lines, each as number, tab, text, newline.
    pub numbered: String,
    /// The first line's number.
    pub first: u64,
    /// How many lines are in `numbered`.
    pub lines: u64,
    /// Lines in the file, when it was read to its end.
    pub total_lines: Option<u64>,
    /// Lines that were cut.
    pub cuts: Vec<Cut>,
    /// What stands in front of the first line, at most the last 64 KiB of it.
    pub before: String,
    /// Bytes in the file.
    pub len: u64,
}

/// A line that was too long to show.
#[derive(Debug)]
pub struct Cut {
    /// Where in `numbered` the part of it stands that is shown.
    pub shown: Range<usize>,
    /// What comes behind that part, at most 16 KiB of it: whoever looks for something in the line has to know whether
    /// it goes on.
    pub after: String,
}

impl Window {
    /// Whether lines follow behind the window.
    pub fn has_more(&self) -> bool {
        self.total_lines.is_none_or(|total| self.first + self.lines <= total)
    }
}

impl Workspace {
    /// Reads a window of a text file, an image, or what can be said about another file.
    pub fn read(&self, path: &ContainedPath, spec: &WindowSpec) -> Result<Read, FileError> {
        let (file, stat) = self.open_file(path).map_err(|error| self.explain(error, path))?;
        read_open(file, &stat, path, spec)
    }

    /// The same for the plain case in one go: a path without symlinks to a regular file of at most `limit` bytes.
    /// `None` for everything else, which [`resolve`](Self::resolve) and [`read`](Self::read) are for.
    pub fn read_small(
        &self,
        path: impl AsRef<Path>,
        spec: &WindowSpec,
        limit: u64,
    ) -> Option<(ContainedPath, Result<Read, FileError>)> {
        let path = self.plain(path.as_ref())?;
        let (file, stat) = self.open_file(&path).ok().filter(|(_, stat)| stat.st_size as u64 <= limit)?;
        let read = read_open(file, &stat, &path, spec);
        Some((path, read))
    }

    /// Reads a whole file of at most `limit` bytes.
    pub fn read_bytes(&self, path: &ContainedPath, limit: u64) -> Result<Vec<u8>, FileError> {
        let (mut file, stat) = self.open_file(path)?;
        read_whole(&mut file, &stat, path, limit)
    }

    /// The same for what a path leads to, resolved only when it must be; `None` for whatever reason.
    pub fn bytes_of(&self, path: impl AsRef<Path>, limit: u64) -> Option<Vec<u8>> {
        let path = path.as_ref();
        match self.plain(path).map(|plain| self.read_bytes(&plain, limit)) {
            Some(Ok(bytes)) => Some(bytes),
            Some(Err(FileError::NotFound { .. })) => None,
            _ => self.read_bytes(&self.resolve(path).ok()?, limit).ok(),
        }
    }

    /// Opens what a path leads to, to read parts of it; `None` for whatever reason.
    pub fn parts_of(&self, path: impl AsRef<Path>) -> Option<Parts> {
        let path = path.as_ref();
        let (file, _) = match self.plain(path).map(|plain| self.open_file(&plain)) {
            Some(Ok(open)) => open,
            Some(Err(FileError::NotFound { .. })) => return None,
            _ => self.open_file(&self.resolve(path).ok()?).ok()?,
        };
        Some(Parts(file))
    }

    /// Opens a regular file for reading. Opening a FIFO or a device neither blocks nor succeeds.
    pub(crate) fn open_file(&self, path: &ContainedPath) -> Result<(File, Stat), FileError> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let fd = match self.root.open_at(&path.relative, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(errno) => return Err(FileError::from_errno(errno, "open", path)),
        };
        let stat = rustix::fs::fstat(&fd).map_err(|errno| FileError::Io {
            action: "stat",
            path: path.to_string(),
            source: errno.into(),
        })?;
        check_regular(&stat, path)?;
        Ok((File::from(fd), stat))
    }

    /// Adds the nearest existing name to "does not exist".
    fn explain(&self, error: FileError, path: &ContainedPath) -> FileError {
        match error {
            FileError::NotFound { path: shown, .. } => {
                let hint = match crate::walk::near_names(self, &path.relative) {
                    names if names.is_empty() && path.relative.starts_with("~") => {
                        "; `~` means nothing here, give a path relative to the workspace's root".to_owned()
                    }
                    names if names.is_empty() => "; look for it with Glob".to_owned(),
                    names => format!("; did you mean {}?", names.join(" or ")),
                };
                FileError::NotFound { path: shown, hint }
            }
            other => other,
        }
    }
}

/// A file of which parts are read.
pub struct Parts(File);

impl Parts {
    /// What is at these bytes, less where the file ends.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&self, at: Range<usize>) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; at.len()];
        let (mut got, mut more) = (0, 1);
        while got < bytes.len() && more > 0 {
            more = match self.0.read_at(&mut bytes[got..], (at.start + got) as u64) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            got += more;
        }
        bytes.truncate(got);
        Ok(bytes)
    }
}

/// Reads from an open regular file.
fn read_open(
    mut file: File,
    stat: &Stat,
    path: &ContainedPath,
    spec: &WindowSpec,
) -> Result<Read, FileError> {
    let io = |source| FileError::Io { action: "read", path: path.to_string(), source };
    let len = stat.st_size as u64;
    let mut start = vec![0; CHUNK.min(len as usize + 1)];
    let filled = fill(&mut file, &mut start, 0).map_err(io)?;
    let ended = filled < start.len();
    start.truncate(filled);
    if let Some(mime) = text::image_type(&start)
        && len <= IMAGE_LIMIT
    {
        file.read_to_end(&mut start).map_err(io)?;
        return Ok(Read {
            version: Version::of(&start),
            content: Content::Image { mime, bytes: start.into() },
            bytes: None,
        });
    }
    let binary = text::is_binary(&start);
    let utf16 = text::encoding_of(&start).0 != Encoding::Utf8;
    if binary || (utf16 && len > HASH_LIMIT) {
        let version = version_of_rest(&start, &mut file, stat).map_err(io)?;
        return Ok(Read {
            content: Content::Binary { kind: text::binary_kind(&start), len },
            version,
            bytes: None,
        });
    }
    let mut hasher = Hasher::default();
    let mut lines = Lines::new(*spec);
    let bytes = if utf16 || len <= KEEP_LIMIT {
        if !ended {
            file.read_to_end(&mut start).map_err(io)?;
        }
        hasher.update(&start);
        // Room for the numbers, too: most texts are copied once.
        lines.out.reserve(start.len().min(spec.max_bytes) / 8 * 10);
        lines.push(&text::decode(&start));
        (start.len() as u64 <= KEEP_LIMIT).then(|| Arc::from(start))
    } else {
        let mark = if text::encoding_of(&start).1 { 3 } else { 0 };
        stream(&mut file, start, mark, len, &mut hasher, &mut lines).map_err(io)?;
        None
    };
    let hashed_all = lines.read_to_end || len <= HASH_LIMIT;
    let version = if hashed_all && len <= HASH_LIMIT { hasher.finish() } else { Version::of_stat(stat) };
    let window = lines.finish(len);
    if window.lines == 0 && (spec.offset > 1) {
        return Err(FileError::PastEnd {
            path: path.to_string(),
            offset: spec.offset,
            lines: window.total_lines.unwrap_or_default(),
        });
    }
    Ok(Read { content: Content::Text(window), version, bytes })
}

/// Reads an open regular file, at most `limit` bytes.
pub(crate) fn read_whole(
    file: &mut File,
    stat: &Stat,
    path: &ContainedPath,
    limit: u64,
) -> Result<Vec<u8>, FileError> {
    let io = |source| FileError::Io { action: "read", path: path.to_string(), source };
    let size = (stat.st_size as u64).min(limit) as usize;
    let mut bytes = vec![0; size + 1];
    let got = fill(file, &mut bytes, 1).map_err(io)?;
    bytes.truncate(got);
    // a read that stops where the file did, with room for more, has seen the end
    if got != size || size == 0 {
        file.by_ref().take(limit + 1 - got as u64).read_to_end(&mut bytes).map_err(io)?;
    }
    if bytes.len() as u64 > limit {
        return Err(FileError::TooLarge { path: path.to_string(), len: stat.st_size as u64, limit });
    }
    Ok(bytes)
}

/// Refuses what is no regular file.
pub(crate) fn check_regular(stat: &Stat, path: &ContainedPath) -> Result<(), FileError> {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => return Err(FileError::IsFolder { path: path.to_string() }),
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Symlink => return Err(FileError::Swapped { path: path.to_string() }),
        FileType::Unknown => "of unknown type",
    };
    Err(FileError::Special { path: path.to_string(), kind })
}

/// Reads until the file ends or no more than `room` bytes of the buffer are left.
fn fill(file: &mut File, buffer: &mut [u8], room: usize) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled + room < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

fn version_of_rest(start: &[u8], file: &mut File, stat: &Stat) -> std::io::Result<Version> {
    if stat.st_size as u64 > HASH_LIMIT {
        return Ok(Version::of_stat(stat));
    }
    let mut hasher = Hasher::default();
    hasher.update(start);
    let mut chunk = vec![0; CHUNK];
    loop {
        match fill(file, &mut chunk, 0)? {
            0 => return Ok(hasher.finish()),
            n => hasher.update(&chunk[..n]),
        }
    }
}

fn stream(
    file: &mut File,
    mut chunk: Vec<u8>,
    skip: usize,
    len: u64,
    hasher: &mut Hasher,
    lines: &mut Lines,
) -> std::io::Result<()> {
    let hashing = len <= HASH_LIMIT;
    let mut skip = skip;
    loop {
        if hashing {
            hasher.update(&chunk);
        }
        lines.push(&chunk[skip..]);
        skip = 0;
        if lines.done() && !hashing {
            lines.read_to_end = false;
            return Ok(());
        }
        chunk.resize(CHUNK, 0);
        match fill(file, &mut chunk, 0)? {
            0 => return Ok(()),
            n => chunk.truncate(n),
        }
    }
}

/// Cuts a window of lines out of text that comes in pieces.
struct Lines {
    spec: WindowSpec,
    out: String,
    /// Number of the line that the next byte belongs to.
    number: u64,
    line: Vec<u8>,
    /// Bytes of the current line beyond `max_line`.
    over: u64,
    shown: u64,
    cuts: Vec<Cut>,
    /// The end of what was passed over in front of the window.
    before: Vec<u8>,
    /// Whether the current line has any byte.
    open: bool,
    read_to_end: bool,
}

impl Lines {
    fn new(spec: WindowSpec) -> Self {
        let spec = WindowSpec { offset: spec.offset.max(1), ..spec };
        Self {
            spec,
            out: String::new(),
            number: 1,
            line: Vec::new(),
            over: 0,
            shown: 0,
            cuts: Vec::new(),
            before: Vec::new(),
            open: false,
            read_to_end: true,
        }
    }

    fn done(&self) -> bool {
        self.shown >= self.spec.limit || self.out.len() >= self.spec.max_bytes
    }

    fn in_window(&self) -> bool {
        self.number >= self.spec.offset && !self.done()
    }

    fn push(&mut self, mut text: &[u8]) {
        while !text.is_empty() {
            if !self.in_window() {
                text = self.skip(text);
                continue;
            }
            match memchr::memchr(b'\n', text) {
                Some(end) => {
                    // Most lines come whole.
                    if self.line.is_empty() && end <= self.spec.max_line {
                        let line = &text[..end];
                        self.put(line.strip_suffix(b"\r").unwrap_or(line));
                        self.next_line();
                    } else {
                        self.extend(&text[..end]);
                        self.end_line();
                    }
                    text = &text[end + 1..];
                }
                None => {
                    self.extend(text);
                    return;
                }
            }
        }
    }

    /// Passes over lines before or behind the window; gives back what is left.
    fn skip<'t>(&mut self, text: &'t [u8]) -> &'t [u8] {
        let before = self.number < self.spec.offset;
        for end in memchr::memchr_iter(b'\n', text) {
            self.number += 1;
            self.open = false;
            if before && self.number == self.spec.offset {
                self.keep_before(&text[..=end]);
                return &text[end + 1..];
            }
        }
        if before {
            self.keep_before(text);
        }
        self.open = text.last() != Some(&b'\n');
        &[]
    }

    fn keep_before(&mut self, passed: &[u8]) {
        let passed = &passed[passed.len().saturating_sub(BEFORE)..];
        let over = (self.before.len() + passed.len()).saturating_sub(BEFORE);
        self.before.drain(..over);
        self.before.extend_from_slice(passed);
    }

    fn extend(&mut self, piece: &[u8]) {
        let room = (self.spec.max_line + AFTER).saturating_sub(self.line.len());
        let taken = piece.len().min(room);
        self.line.extend_from_slice(&piece[..taken]);
        self.over += (piece.len() - taken) as u64;
        self.open = true;
    }

    fn end_line(&mut self) {
        if self.over == 0 && self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        let line = std::mem::take(&mut self.line);
        if line.len() > self.spec.max_line {
            let mut end = self.spec.max_line;
            while end > 0 && line[end] & 0xC0 == 0x80 {
                end -= 1;
            }
            self.over += (line.len() - end) as u64;
            let shown = self.put(&line[..end])..self.out.len();
            self.cuts.push(Cut { shown, after: String::from_utf8_lossy(&line[end..]).into_owned() });
        } else {
            self.put(&line);
        }
        self.line = line;
        self.next_line();
    }

    /// Puts a line's number and text down; says where the text begins.
    fn put(&mut self, line: &[u8]) -> usize {
        self.out.push_str(itoa(self.number, &mut [0; 20]));
        self.out.push('\t');
        let begin = self.out.len();
        match std::str::from_utf8(line) {
            Ok(text) => self.out.push_str(text),
            // Slower, for it looks for every broken place.
            Err(_) => self.out.push_str(&String::from_utf8_lossy(line)),
        }
        begin
    }

    fn next_line(&mut self) {
        if self.over > 0 {
            self.out.push_str(&format!(" … [line cut, {} more bytes]", self.over));
        }
        self.out.push('\n');
        self.number += 1;
        self.shown += 1;
        self.line.clear();
        self.over = 0;
        self.open = false;
    }

    fn finish(mut self, len: u64) -> Window {
        if self.open {
            if self.in_window() { self.end_line() } else { self.number += 1 }
        }
        Window {
            numbered: self.out,
            first: self.spec.offset,
            lines: self.shown,
            total_lines: self.read_to_end.then_some(self.number - 1),
            cuts: self.cuts,
            before: String::from_utf8_lossy(&self.before).into_owned(),
            len,
        }
    }
}

/// A number's digits, without the machinery of formatting: this runs once per line read.
fn itoa(mut number: u64, buffer: &mut [u8; 20]) -> &str {
    let mut at = buffer.len();
    loop {
        at -= 1;
        buffer[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return std::str::from_utf8(&buffer[at..]).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn window(pieces: &[&[u8]], spec: WindowSpec) -> Window {
        let mut lines = Lines::new(spec);
        let mut len = 0;
        for piece in pieces {
            lines.push(piece);
            len += piece.len() as u64;
        }
        lines.finish(len)
    }

    #[test]
    fn long_lines_are_cut_at_a_character() {
        let w = window(&["aé".repeat(10).as_bytes()], WindowSpec { max_line: 5, ..Default::default() });
        assert_eq!(w.numbered, "1\taéa … [line cut, 26 more bytes]\n");
        assert_eq!(
            (&w.numbered[w.cuts[0].shown.clone()], w.cuts[0].after.as_str()),
            ("aéa", "éaéaéaéaéaéaéaéaé")
        );
    }

    #[test]
    fn a_line_of_just_the_limit_is_whole() {
        for text in ["12345\n", "12345\r\n", "12345"] {
            let w = window(&[text.as_bytes()], WindowSpec { max_line: 5, ..Default::default() });
            assert_eq!((w.numbered.as_str(), w.cuts.len()), ("1\t12345\n", 0));
        }
    }

    proptest! {
        #[test]
        fn windows_equal_the_lines_however_the_text_arrives(
            text in "([a-c]{0,5}\r?\n){0,12}[a-c]{0,3}", offset in 1u64..15, limit in 0u64..8, piece in 1usize..9,
        ) {
            let want: String = text.lines().enumerate().skip(offset as usize - 1).take(limit as usize)
                .map(|(i, line)| format!("{}\t{line}\n", i + 1)).collect();
            let pieces: Vec<&[u8]> = text.as_bytes().chunks(piece).collect();
            let w = window(&pieces, WindowSpec { offset, limit, max_line: 100, ..WindowSpec::default() });
            prop_assert_eq!(w.total_lines, Some(text.lines().count() as u64));
            prop_assert_eq!(w.numbered, want);
            let before: String = text.split_inclusive('\n').take(offset as usize - 1).collect();
            prop_assert_eq!(w.before, before);
        }
    }
}
