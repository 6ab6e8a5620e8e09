//! The exact values of configured secrets, in every form in which they tend to travel.

use std::collections::HashSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use crate::assign::looks_secret;
use crate::encoded::{self, Decoded};
use crate::lines::Lines;
use crate::span::Span;
use crate::words::Words;

/// Shorter secrets (in characters) are not searched for.
pub const MIN_SECRET: usize = 4;
/// Shorter secrets (in characters) are replaced only where they stand alone.
pub const MIN_ANYWHERE: usize = 8;

/// Encoded forms shorter than this would hit by chance.
const MIN_ENCODED: usize = 6;
/// Longer base64 forms are searched by their pieces, because tools wrap them over lines.
const MAX_UNWRAPPED: usize = 48;
const PIECE: usize = 24;
/// A line of base64 that ends with this many characters may go on in the next.
const WRAPPED: usize = 32;
/// A line of a secret with several lines is a secret of its own from this length on.
const MIN_LINE: usize = 16;

pub(crate) struct Exact {
    /// `None` when no secret is configured. No needle is shorter than [`MIN_SECRET`].
    words: Option<Words<MIN_SECRET>>,
    needles: Vec<Needle>,
    /// The values searched for, sorted: to tell whether the end of a chunk may begin one.
    texts: Vec<Box<str>>,
    longest: usize,
    unprotected: Vec<String>,
    plus_is_space: bool,
    escaped: bool,
    wraps: bool,
    multiline: bool,
}

struct Needle {
    text: Box<str>,
    kind: usize,
    form: Form,
}

enum Form {
    /// The value itself or a form that stands for all of it.
    Anywhere,
    /// A short value: only between characters that are not part of a word.
    Alone,
    /// Base64; the neighbour holds some bits of the secret where marked.
    Base64 { before: bool, after: bool },
    /// A piece of a long base64 text, at this offset of it.
    Piece { whole: std::sync::Arc<str>, at: usize },
    /// The line with this number of a secret of several.
    Line { lines: Lines, number: usize },
}

impl Exact {
    /// `secrets` are pairs of name and value; the first one's kind is `first_kind`.
    pub(crate) fn new(secrets: &[(String, String)], first_kind: usize) -> Self {
        let mut forms = Forms::default();
        let mut unprotected = Vec::new();
        let mut plus_is_space = false;
        let mut escaped = false;
        for (index, (name, value)) in secrets.iter().enumerate() {
            let value = value.trim();
            if value.chars().count() < MIN_SECRET || "[REDACTED:]".contains(value) {
                unprotected.push(name.clone());
                continue;
            }
            plus_is_space |= value.contains(' ');
            escaped |= value.contains(encoded::is_escaped);
            forms.add_all(value, first_kind + index);
        }
        let needles = forms.needles;
        let mut texts: Vec<Box<str>> = needles.iter().map(|needle| needle.text.clone()).collect();
        texts.sort_unstable();
        let longest = texts.iter().map(|text| text.len()).max().unwrap_or(0);
        let wraps = needles.iter().any(|needle| matches!(needle.form, Form::Piece { .. }));
        let multiline = texts.iter().any(|text| text.contains('\n'));
        let words =
            (!needles.is_empty()).then(|| Words::new(needles.iter().map(|needle| needle.text.as_bytes())));
        Self { words, needles, texts, longest, unprotected, plus_is_space, escaped, wraps, multiline }
    }

    pub(crate) fn unprotected(&self) -> &[String] {
        &self.unprotected
    }

    /// The replacement for a named secret; a name that would itself give a secret away is left out.
    pub(crate) fn marker(&self, name: &str) -> String {
        let marker = format!("[REDACTED:secret:{name}]");
        let tells = self.texts.iter().any(|text| marker.contains(&**text));
        if tells { "[REDACTED:secret]".to_owned() } else { marker }
    }

    /// Length in bytes of the longest text searched for.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    pub(crate) fn find(&self, text: &str, spans: &mut Vec<Span>) {
        let Some(words) = &self.words else { return };
        self.find_in(words, text.as_bytes(), |start, end, kind| spans.push(Span { start, end, kind }));
        self.find_url_encoded(words, text, spans);
        // What HTML and XML write as `&quot;` or `&#39;`, and shells and programming languages with a `\`.
        encoded::lines(text.as_bytes(), b'&', encoded::entity, |line| self.find_decoded(words, &line, spans));
        if self.escaped {
            encoded::lines(text.as_bytes(), b'\\', encoded::escape, |line| {
                self.find_decoded(words, &line, spans);
            });
        }
        self.find_wrapped(words, text.as_bytes(), spans);
    }

    /// Searches both sides of every line end within base64 as one: a secret in a longer text may stand on both.
    fn find_wrapped(&self, words: &Words<MIN_SECRET>, text: &[u8], spans: &mut Vec<Span>) {
        for newline in memchr::memchr_iter(b'\n', text) {
            let Some(end) = wrapped_end(text, newline) else { continue };
            let Some(next) = line_text_after(text, end) else { continue };
            let before = end.saturating_sub(MAX_UNWRAPPED)..end;
            let after = next..text.len().min(next + MAX_UNWRAPPED);
            let bytes = [&text[before.clone()], &text[after.clone()]].concat();
            let last = after.end;
            let origin: Vec<usize> = before.chain(after).chain([last]).collect();
            self.find_in(words, &bytes, |start, stop, kind| {
                if origin[start] < end && origin[stop - 1] >= next {
                    spans.push(Span { start: origin[start], end: origin[stop - 1] + 1, kind });
                }
            });
        }
    }

    /// Where the last line of `text` starts, if it is base64 that may go on in the next.
    pub(crate) fn wraps_at(&self, text: &str) -> Option<usize> {
        self.words.as_ref()?;
        let newline = text.len().checked_sub(1)?;
        wrapped_end(text.as_bytes(), newline)?;
        Some(memchr::memrchr(b'\n', &text.as_bytes()[..newline]).map_or(0, |before| before + 1))
    }

    fn find_in(&self, words: &Words<MIN_SECRET>, text: &[u8], mut found: impl FnMut(usize, usize, usize)) {
        words.find(text, |at, needle| {
            let needle = &self.needles[needle];
            if let Some((start, end)) = needle.place(text, at) {
                found(start, end, needle.kind);
            }
        });
    }

    /// Decodes every line with a `%XX` in it and searches that, so that any mixture of encoded and plain
    /// characters is found, also of base64.
    fn find_url_encoded(&self, words: &Words<MIN_SECRET>, text: &str, spans: &mut Vec<Span>) {
        encoded::lines(text.as_bytes(), b'%', encoded::percent, |mut decoded| {
            self.find_decoded(words, &decoded, spans);
            if self.plus_is_space && decoded.plus_to_space() {
                self.find_decoded(words, &decoded, spans);
            }
        });
    }

    fn find_decoded(&self, words: &Words<MIN_SECRET>, decoded: &Decoded, spans: &mut Vec<Span>) {
        self.find_in(words, &decoded.bytes, |start, end, kind| {
            spans.push(Span { start: decoded.origin[start], end: decoded.origin[end], kind });
        });
    }

    /// Where the longest end of `text` starts that a secret may go on from.
    pub(crate) fn open_at(&self, text: &str) -> usize {
        let from = text.ceil_char_boundary(text.len().saturating_sub(self.longest));
        let starts = text[from..].char_indices().map(|(at, _)| from + at);
        let mut open = starts.filter(|at| text.len() - at >= MIN_SECRET);
        open.find(|at| self.begins(&text[*at..])).unwrap_or(text.len())
    }

    /// Whether a secret begins with this text, and goes on.
    fn begins(&self, text: &str) -> bool {
        let at = self.texts.partition_point(|known| **known <= *text);
        self.texts.get(at).is_some_and(|known| known.starts_with(text))
    }

    /// Where the longest end of `text`, which ends with a line, starts that may begin a secret of several lines.
    pub(crate) fn begins_at(&self, text: &str) -> Option<usize> {
        if !self.multiline {
            return None;
        }
        let from = text.len().saturating_sub(self.longest.saturating_sub(1));
        (from..text.len()).filter(|&at| text.is_char_boundary(at)).find(|&at| {
            let tail = &text[at..];
            let next = self.texts.partition_point(|known| &**known < tail);
            self.texts.get(next).is_some_and(|known| known.starts_with(tail))
        })
    }

    /// Whether a hit may go on in the next line: some form is searched by its pieces.
    pub(crate) fn wraps(&self) -> bool {
        self.wraps
    }
}

impl Needle {
    /// The place to redact when the needle's beginning stands at `start`, if the rest follows and it counts.
    fn place(&self, text: &[u8], start: usize) -> Option<(usize, usize)> {
        if !text[start..].starts_with(self.text.as_bytes()) {
            return None;
        }
        let end = start + self.text.len();
        match &self.form {
            Form::Anywhere => Some((start, end)),
            Form::Alone => {
                let word = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b >= 0x80);
                let before = start.checked_sub(1).and_then(|at| text.get(at));
                (!word(before) && !word(text.get(end))).then_some((start, end))
            }
            Form::Base64 { before, after } => {
                let start = if *before { start - usize::from(base64_ends(text, start)) } else { start };
                let end = end + usize::from(*after && text.get(end).is_some_and(|b| is_base64(*b)));
                Some((start, end))
            }
            Form::Line { lines, number } => lines.around(text, start, *number),
            Form::Piece { whole, at } => Some(follow(text, start, end, whole.as_bytes(), *at)),
        }
    }
}

/// Where the text of the line ends that `newline` ends, if that is base64 to its end.
fn wrapped_end(text: &[u8], newline: usize) -> Option<usize> {
    let end = newline - usize::from(newline > 0 && text[newline - 1] == b'\r');
    let tail = &text[end.checked_sub(WRAPPED)?..end];
    tail.iter().rev().all(|byte| is_base64(*byte)).then_some(end)
}

fn base64_ends(text: &[u8], end: usize) -> bool {
    end.checked_sub(1).is_some_and(|at| is_base64(text[at]))
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}

/// From a piece of a long base64 text, goes both ways as far as the rest follows, over line ends and what
/// our own tools put at the start of a line (`12<TAB>`, `path:12:`).
fn follow(text: &[u8], start: usize, end: usize, whole: &[u8], at: usize) -> (usize, usize) {
    let (mut first, mut known) = (start, at);
    while known > 0 && first > 0 {
        if text[first - 1] == whole[known - 1] {
            first -= 1;
            known -= 1;
        } else if let Some(before) = line_start_before(text, first) {
            first = before;
        } else {
            break;
        }
    }
    let (mut last, mut known) = (end, at + (end - start));
    let mut confirmed = last;
    while known < whole.len() && last < text.len() {
        if text[last] == whole[known] {
            last += 1;
            known += 1;
            confirmed = last;
        } else if let Some(next) = line_text_after(text, last) {
            last = next;
        } else {
            break;
        }
    }
    (first.max(line_resume(text, first)), confirmed)
}

/// When `at` is the start of a line's text, the end of the line before.
fn line_start_before(text: &[u8], at: usize) -> Option<usize> {
    let line = memchr::memrchr(b'\n', &text[..at])?;
    is_line_prefix(&text[line + 1..at]).then(|| line - usize::from(line > 0 && text[line - 1] == b'\r'))
}

/// When a line ends at `at`, the start of the next line's text.
fn line_text_after(text: &[u8], at: usize) -> Option<usize> {
    let line = match (text.get(at), text.get(at + 1)) {
        (Some(b'\n'), _) => at + 1,
        (Some(b'\r'), Some(b'\n')) => at + 2,
        _ => return None,
    };
    let end = memchr::memchr(b'\n', &text[line..]).map_or(text.len(), |n| line + n);
    let skipped = memchr::memrchr2(b'\t', b':', &text[line..end])
        .map_or_else(|| text[line..end].iter().take_while(|b| **b == b' ').count(), |n| n + 1);
    is_line_prefix(&text[line..line + skipped]).then_some(line + skipped)
}

/// Nothing, blanks, or something that ends like `12<TAB>` or `:12:`.
fn is_line_prefix(prefix: &[u8]) -> bool {
    match prefix.split_last() {
        None => true,
        Some((b'\t' | b':', rest)) => rest.last().is_none_or(u8::is_ascii_digit),
        Some(_) => prefix.iter().all(|b| *b == b' '),
    }
}

/// Going back over a line end leads nowhere when nothing matched there: then the span starts after it.
fn line_resume(text: &[u8], first: usize) -> usize {
    line_text_after(text, first).unwrap_or(first)
}

#[derive(Default)]
struct Forms {
    needles: Vec<Needle>,
    seen: HashSet<String>,
}

impl Forms {
    fn add(&mut self, text: String, kind: usize, form: Form) {
        if self.seen.insert(text.clone()) {
            self.needles.push(Needle { text: text.into(), kind, form });
        }
    }

    fn add_all(&mut self, value: &str, kind: usize) {
        let short = value.chars().count() < MIN_ANYWHERE;
        self.add(value.to_owned(), kind, if short { Form::Alone } else { Form::Anywhere });
        for text in json_forms(value) {
            self.add(text, kind, if short { Form::Alone } else { Form::Anywhere });
        }
        for text in url_forms(value).into_iter().chain(quoted_forms(value)) {
            self.add(text, kind, if short { Form::Alone } else { Form::Anywhere });
        }
        for shift in 0..3 {
            self.add_base64(value, shift, kind);
        }
        if !short {
            let hex: String = value.bytes().map(|b| format!("{b:02x}")).collect();
            self.add(hex.to_uppercase(), kind, Form::Anywhere);
            self.add(hex, kind, Form::Anywhere);
        }
        if let Some(lines) = Lines::of(value) {
            self.add_lines(value, &lines, kind);
        }
    }

    /// Lines and words that are worth hiding on their own, and all lines with something before each.
    fn add_lines(&mut self, value: &str, lines: &Lines, kind: usize) {
        for line in value.lines().map(str::trim) {
            if is_secret_line(line) {
                self.add(line.to_owned(), kind, Form::Anywhere);
            }
            let words = line.split(|c: char| c.is_whitespace() || "\"'`,;".contains(c));
            for word in words.filter(|word| *word != line) {
                let word = word
                    .split_once('=')
                    .filter(|(_, value)| looks_secret(value))
                    .map_or(word, |(_, value)| value);
                if looks_secret(word) {
                    self.add(word.to_owned(), kind, Form::Anywhere);
                }
            }
        }
        let (number, line) = lines.longest();
        if line.len() >= MIN_SECRET {
            // Two secrets may have it in common.
            let form = Form::Line { lines: lines.clone(), number };
            self.needles.push(Needle { text: line.into(), kind, form });
        }
    }

    /// The characters of a base64 text that the value alone decides when `shift` bytes (modulo 3) precede it.
    fn add_base64(&mut self, value: &str, shift: usize, kind: usize) {
        let mut bytes = vec![0; shift];
        bytes.extend_from_slice(value.as_bytes());
        let encoded = STANDARD_NO_PAD.encode(&bytes);
        let sure = &encoded[(shift * 8).div_ceil(6)..bytes.len() * 8 / 6];
        if sure.len() < MIN_ENCODED {
            return;
        }
        for text in [sure.to_owned(), sure.replace('+', "-").replace('/', "_")] {
            if text.len() <= MAX_UNWRAPPED {
                let form = Form::Base64 { before: shift != 0, after: !bytes.len().is_multiple_of(3) };
                self.add(text, kind, form);
                continue;
            }
            let whole: std::sync::Arc<str> = text.into();
            let last = whole.len() - PIECE;
            for at in (0..last).step_by(PIECE).chain([last]) {
                let form = Form::Piece { whole: whole.clone(), at };
                self.add(whole[at..at + PIECE].to_owned(), kind, form);
            }
        }
    }
}

/// How JSON writers differ: what must be escaped, everything beyond ASCII, `/`, and `<`, `>`, `&`.
fn json_forms(value: &str) -> [String; 4] {
    let plain = serde_json::Value::from(value).to_string();
    let plain = plain.trim_start_matches('"');
    let plain = plain.strip_suffix('"').unwrap_or(plain).to_owned();
    let mut ascii = String::new();
    for c in plain.chars() {
        if c.is_ascii() {
            ascii.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                ascii.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    let slashes = plain.replace('/', "\\/");
    let html = plain.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    [plain, ascii, slashes, html]
}

/// The usual URL encodings. Decoding finds them and all others too, but not behind a stray `%`.
fn url_forms(value: &str) -> [String; 5] {
    let encode = |keep: &[u8], digits: &[u8; 16]| {
        let mut out = String::new();
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || keep.contains(&byte) {
                out.push(char::from(byte));
            } else {
                let [high, low] = [byte >> 4, byte & 15].map(|n| char::from(digits[usize::from(n)]));
                out.extend(['%', high, low]);
            }
        }
        out
    };
    let (upper, lower) = (b"0123456789ABCDEF", b"0123456789abcdef");
    let form = encode(b" ", upper).replace(' ', "+");
    [encode(b"", upper), encode(b"", lower), encode(b"!'()*", upper), encode(b"/", upper), form]
}

/// A quote within quotes, as bash and dash write it (`set -x`).
fn quoted_forms(value: &str) -> [String; 2] {
    ["'\\''", "'\"'\"'"].map(|quote| value.replace('\'', quote))
}

/// A line of a key file or of a JSON credential that is worth hiding on its own.
fn is_secret_line(line: &str) -> bool {
    line.len() >= MIN_LINE
        && !line.starts_with("-----")
        && !line.contains(' ')
        && line.bytes().any(|b| b.is_ascii_digit())
        && line.bytes().any(|b| b.is_ascii_alphabetic())
}
