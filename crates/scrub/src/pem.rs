//! Private-key blocks, also numbered, quoted, escaped into one line, or cut off before their end.

use std::ops::RangeInclusive;

/// What a private key is replaced by.
pub const KEY_MARKER: &str = "[REDACTED:private-key]";
/// What a block starts with.
pub(crate) const BEGIN: &str = "-----BEGIN";
const END: &str = "-----END";
/// No key is longer; what follows a lone first line beyond this is something else.
const MAX_BLOCK: usize = 64 * 1024;
/// A body has a run of base64 at least this long; source code that only names the markers has none.
const MIN_RUN: usize = 32;

/// A block whose [`BEGIN`] stands at `start`.
pub(crate) struct Block {
    pub(crate) end: usize,
    /// Whether it holds key material already.
    pub(crate) key: bool,
    /// Whether more of it may follow when more text comes.
    pub(crate) open: bool,
}

/// Whether the marker at `start` begins a private key; gives the end of the marker.
fn header_end(text: &str, start: usize) -> Option<usize> {
    let label = start + BEGIN.len();
    let bytes = text.as_bytes();
    let end = bytes[label..].iter().take(48).position(|b| *b == b'-').map(|n| label + n)?;
    if !text.is_char_boundary(end) || !bytes[end..].starts_with(b"-----") {
        return None;
    }
    let label = &text[label..end];
    (label.ends_with(" PRIVATE KEY") || label.ends_with(" PRIVATE KEY BLOCK")).then_some(end + 5)
}

/// The block whose marker stands at `start`.
pub(crate) fn block(text: &str, start: usize) -> Option<Block> {
    let body = header_end(text, start)?;
    let limit = text.floor_char_boundary(body.saturating_add(MAX_BLOCK).min(text.len()));
    let rest = &text[body..limit];
    let next = rest.find(BEGIN).unwrap_or(rest.len());
    if let Some(end) = rest[..next].find(END) {
        let marker = &rest[end + END.len()..];
        let after = marker.find("-----").filter(|n| *n <= 48).map_or(0, |n| n + 5);
        let end_at = body + end + END.len() + after;
        return Some(Block { end: end_at, key: has_key(&rest[..end]), open: false });
    }
    let (end, open) = cut_off(&rest[..next]);
    Some(Block { end: body + end, key: has_key(&rest[..end]), open })
}

/// The private key that begins in `text` and has not ended by its end: what follows the text is more of it.
#[must_use]
pub fn open_key(text: &str) -> Option<&str> {
    let begin = text.rfind(BEGIN)?;
    block(text, begin).filter(|block| block.open).map(|_| &text[begin..])
}

/// Whether a line may be one of a private key's: it holds a long run of base64, or nothing else.
#[must_use]
pub fn may_be_key(line: &str) -> bool {
    let bare =
        line.trim_matches(|c: char| c.is_ascii_whitespace() || matches!(c, '"' | '\'' | ',' | '+' | '\\'));
    let run = longest_run(line);
    run >= MIN_RUN || (run > 0 && run == bare.len())
}

/// The lines, from 1, of the private keys in a text, each without the line it begins with.
#[must_use]
pub fn key_lines(text: &str) -> Vec<RangeInclusive<u64>> {
    let (mut all, mut at, mut line) = (Vec::new(), 0, 1);
    while let Some(begin) = text[at..].find(BEGIN).map(|n| at + n) {
        let lines = |part: &str| memchr::memchr_iter(b'\n', part.as_bytes()).count() as u64;
        line += lines(&text[at..begin]);
        at = begin + BEGIN.len();
        if let Some(block) = block(text, begin).filter(|block| block.key) {
            let last = line + lines(&text[begin..block.end]);
            all.push(line + 1..=last);
            line = last;
            at = block.end;
        }
    }
    all
}

/// How far a body without an end marker goes, and whether it may go on after the text.
fn cut_off(rest: &str) -> (usize, bool) {
    let mut end = 0;
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        let content = line.trim_end();
        let header = content.contains("Proc-Type:") || content.contains("DEK-Info:") || at == 0;
        let whole = content.rsplit([' ', '\t', ':']).next().unwrap_or("");
        let body = longest_run(content) >= 16 || (!whole.is_empty() && longest_run(whole) == whole.len());
        at += line.len();
        if body {
            end = at - (line.len() - content.len());
        } else if !header && !content.is_empty() {
            return (end, false);
        }
    }
    (end, true)
}

fn has_key(body: &str) -> bool {
    longest_run(body) >= MIN_RUN
}

fn longest_run(text: &str) -> usize {
    let base64 = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=');
    text.as_bytes().split(|b| !base64(b)).map(<[u8]>::len).max().unwrap_or(0)
}
