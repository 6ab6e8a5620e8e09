//! Small tools every reader needs: lines out of chunks, bounded texts, paths as the agent knows them.

use std::{
    borrow::Cow,
    path::{Component, Path, PathBuf},
};

/// The longest line a reader looks at; what is beyond it is dropped, so that memory stays bounded whatever
/// a test prints.
const LONGEST_LINE: usize = 1 << 20;

/// Cuts a stream that arrives in chunks of any size into lines.
#[derive(Debug, Default)]
pub struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    /// Calls `each` for every line that the chunk completes, without its line end.
    pub fn feed(&mut self, mut bytes: &[u8], mut each: impl FnMut(&[u8])) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (line, after) = (&bytes[..end], &bytes[end + 1..]);
            if self.rest.is_empty() {
                each(trim_return(line));
            } else {
                self.keep(line);
                each(trim_return(&self.rest));
                self.rest.clear();
            }
            bytes = after;
        }
        self.keep(bytes);
    }

    /// Calls `each` for a last line without a line end.
    pub fn end(&mut self, mut each: impl FnMut(&[u8])) {
        if !self.rest.is_empty() {
            each(trim_return(&self.rest));
            self.rest.clear();
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = LONGEST_LINE.saturating_sub(self.rest.len());
        self.rest.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

fn trim_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The text of a line; nearly always it is valid as it is, which is told much faster than it is made so.
pub(crate) fn lossy(line: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(line).map_or_else(|_| String::from_utf8_lossy(line), Cow::Borrowed)
}

/// Lines of text within a budget: the head and the tail stay, what fell out between them is counted.
#[derive(Debug, Clone)]
pub struct Kept {
    head: Vec<String>,
    /// Lines with their ends. It grows beyond what is kept and is cut now and then, so that a line costs a copy.
    tail: String,
    room: usize,
    most_tail: usize,
    dropped: usize,
}

impl Kept {
    /// Keeps about `most` bytes.
    #[must_use]
    pub fn new(most: usize) -> Self {
        let most_tail = most / 2;
        Self { head: Vec::new(), tail: String::new(), room: most - most_tail, most_tail, dropped: 0 }
    }

    /// Adds a line.
    pub fn push(&mut self, line: &str) {
        if self.tail.is_empty() && line.len() <= self.room {
            self.room -= line.len();
            self.head.push(line.to_owned());
            return;
        }
        match line.len() <= self.most_tail {
            true => self.tail.push_str(line),
            false => self.tail.push_str(&bound(line, self.most_tail).replace('\n', " ")),
        }
        self.tail.push('\n');
        if self.tail.len() > 4 * self.most_tail {
            let cut = self.cut();
            self.dropped += self.tail[..cut].matches('\n').count();
            self.tail.drain(..cut);
        }
    }

    /// Where the lines begin that are kept at the end.
    fn cut(&self) -> usize {
        let mut cut = self.tail.len();
        let mut room = self.most_tail;
        for line in self.tail.split_inclusive('\n').rev() {
            if line.len() > room && cut < self.tail.len() {
                break;
            }
            room = room.saturating_sub(line.len());
            cut -= line.len();
        }
        cut
    }

    /// The lines, with a mark where some are missing.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let (gone, tail) = self.tail.split_at(self.cut());
        let dropped = self.dropped + gone.matches('\n').count();
        let mark = (dropped > 0).then(|| format!("[… {dropped} lines left out …]"));
        self.head.iter().cloned().chain(mark).chain(tail.lines().map(str::to_owned)).collect()
    }

    /// Whether nothing was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.head.is_empty() && self.tail.is_empty()
    }
}

/// The text without terminal colours and cursor movements.
#[must_use]
pub fn strip_ansi(text: &str) -> Cow<'_, str> {
    if !text.contains('\u{1b}') {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            clean.push(c);
        } else if chars.next() == Some('[') {
            // A control sequence ends with its first letter or other final byte.
            chars.by_ref().find(|c| ('@'..='~').contains(c));
        }
    }
    Cow::Owned(clean)
}

/// The text within about `most` bytes: its head and its tail, with what was left out counted between them.
#[must_use]
pub fn bound(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let head = floor(text, most * 2 / 3);
    let tail = ceil(text, text.len() - most / 3);
    // Whole lines read better, when there are any near the cut.
    let head = text[..head].rfind('\n').filter(|at| at * 2 > head).unwrap_or(head);
    let tail = text[tail..]
        .find('\n')
        .map(|at| tail + at + 1)
        .filter(|at| (text.len() - at) * 6 > most)
        .unwrap_or(tail);
    format!("{}\n[… {} bytes left out …]\n{}", &text[..head], tail - head, &text[tail..])
}

fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn ceil(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

/// The text on one line, within 400 bytes. Most are already, which is told much faster than it is made so.
pub(crate) fn one_line(text: &str) -> String {
    let mut before = b' ';
    let flat = text.len() <= 400
        && text.bytes().all(|byte| {
            let space_after_space = byte == b' ' && before == b' ';
            before = byte;
            (b' '..=b'~').contains(&byte) && !space_after_space
        });
    match flat && (before != b' ' || text.is_empty()) {
        true => text.to_owned(),
        false => bound(&text.split_whitespace().collect::<Vec<_>>().join(" "), 400),
    }
}

/// The parts before and after the first `mark`, as `split_once` gives them, without its preparations: it is for short
/// lines, and many of them. The mark is ASCII.
pub(crate) fn cut<'a>(text: &'a str, mark: &str) -> Option<(&'a str, &'a str)> {
    let first = *mark.as_bytes().first()?;
    let at = memchr::memchr_iter(first, text.as_bytes()).find(|at| text[*at..].starts_with(mark))?;
    Some((&text[..at], &text[at + mark.len()..]))
}

/// A path a tool printed, relative to the project folder `root` when it lies inside; `base` is the folder
/// that relative paths in the tool's output start from.
#[must_use]
pub fn relative(root: &Path, base: &Path, printed: &str) -> String {
    let mut full = PathBuf::new();
    for part in base.join(printed).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                full.pop();
            }
            part => full.push(part),
        }
    }
    match full.strip_prefix(root) {
        Ok(inside) => inside.to_string_lossy().into_owned(),
        Err(_) => full.to_string_lossy().into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_out_whole_however_they_were_cut() {
        let text = b"one\r\ntwo\n\nlast";
        for size in 1..text.len() {
            let (mut lines, mut seen) = (Lines::default(), Vec::new());
            let mut each = |line: &[u8]| seen.push(String::from_utf8_lossy(line).into_owned());
            text.chunks(size).for_each(|chunk| lines.feed(chunk, &mut each));
            lines.end(&mut each);
            assert_eq!(seen, ["one", "two", "", "last"], "in chunks of {size}");
        }
    }

    #[test]
    fn an_endless_line_does_not_eat_memory() {
        let mut lines = Lines::default();
        for _ in 0..64 {
            lines.feed(&[b'x'; 1 << 16], |_| ());
        }
        assert!(lines.rest.len() <= LONGEST_LINE);
    }

    #[test]
    fn bounding_keeps_head_and_tail_and_counts_the_rest() {
        let text: String = (0..1000).map(|n| format!("line {n} ü\n")).collect();
        let short = bound(&text, 300);
        assert!(short.starts_with("line 0 ü\n") && short.ends_with("line 999 ü\n"), "{short}");
        assert!(short.contains("bytes left out"), "{short}");
        assert!(short.len() < 400, "{}", short.len());
        assert_eq!(bound("short", 300), "short");
        let _ = bound(&"ü".repeat(100), 7);
    }

    #[test]
    fn one_line_is_what_its_words_make() {
        let texts = [
            "",
            " ",
            "a b",
            " a",
            "a ",
            "a  b",
            "a\nb",
            "a\u{a0}b",
            "ü",
            "\t",
            "a\u{7f}",
            &"ab ".repeat(200),
        ];
        for text in texts {
            let want = bound(&text.split_whitespace().collect::<Vec<_>>().join(" "), 400);
            assert_eq!(one_line(text), want, "{text:?}");
        }
    }

    #[test]
    fn a_line_is_cut_at_the_first_mark() {
        assert_eq!(cut("a) b): c): d", "): "), Some(("a) b", "c): d")));
        assert_eq!(cut("ü: ö", ": "), Some(("ü", "ö")));
        assert_eq!(cut("a)", "): "), None);
    }

    #[test]
    fn colours_go_away() {
        assert_eq!(strip_ansi("\u{1b}[31mred\u{1b}[0m text"), "red text");
        assert_eq!(strip_ansi("plain"), "plain");
        assert_eq!(strip_ansi("cut \u{1b}["), "cut ");
    }

    #[test]
    fn paths_are_said_from_the_project_folder() {
        let root = Path::new("/w/app");
        assert_eq!(relative(root, root, "src/a.rs"), "src/a.rs");
        assert_eq!(relative(root, Path::new("/w"), "app/./src/a.rs"), "src/a.rs");
        assert_eq!(relative(root, root, "/w/app/x/../a.go"), "a.go");
        assert_eq!(relative(root, root, "../lib/a.rs"), "/w/lib/a.rs");
        assert_eq!(relative(root, root, "/usr/lib/go/x.go"), "/usr/lib/go/x.go");
    }
}
