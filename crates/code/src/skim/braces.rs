//! Go and Rust.

use std::ops::Range;

use super::{string, wipe};

/// Blanks what is between the outermost braces that hold no type: bodies, and values with parts.
pub(super) fn go(source: &[u8], copy: &mut [u8]) {
    let mut scan = Scan { source, at: 0, rust: false };
    let mut shape = false;
    while let Some(token) = scan.token() {
        shape = match token {
            Token::Word(word) => matches!(word, b"struct" | b"interface"),
            Token::Open(b'{') if !shape => {
                scan.block().into_iter().for_each(|body| wipe(&mut copy[body]));
                false
            }
            _ => false,
        };
    }
}

/// Blanks the bodies of functions that are not in another.
pub(super) fn rust(source: &[u8], copy: &mut [u8]) {
    let mut scan = Scan { source, at: 0, rust: true };
    while let Some(token) = scan.token() {
        // `fn(u8)` is a type
        if matches!(token, Token::Word(b"fn"))
            && matches!(scan.token(), Some(Token::Word(_)))
            && let Some(body) = rust_body(&mut scan)
        {
            wipe(&mut copy[body]);
        }
    }
}

/// What is between the braces behind a signature; nothing for one that has none.
fn rust_body(scan: &mut Scan<'_>) -> Option<Range<usize>> {
    let mut depth = 0usize;
    loop {
        match scan.token()? {
            Token::Open(b'{') if depth == 0 => return scan.block(),
            Token::Open(_) => depth += 1,
            Token::Close => depth = depth.checked_sub(1)?,
            Token::Other(b';') if depth == 0 => return None,
            _ => {}
        }
    }
}

enum Token<'s> {
    Word(&'s [u8]),
    Open(u8),
    Close,
    Other(u8),
}

/// Goes through a source, past its texts and comments.
struct Scan<'s> {
    source: &'s [u8],
    at: usize,
    /// Comments can hold comments, and `'` may begin the name of a lifetime.
    rust: bool,
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

impl<'s> Scan<'s> {
    fn rest(&self) -> &'s [u8] {
        self.source.get(self.at..).unwrap_or_default()
    }

    fn token(&mut self) -> Option<Token<'s>> {
        loop {
            let rest = self.rest();
            let first = *rest.first()?;
            self.at += 1;
            return Some(match first {
                b' ' | b'\t' | b'\r' | b'\n' => continue,
                b'{' | b'(' | b'[' => Token::Open(first),
                b'}' | b')' | b']' => Token::Close,
                _ if is_word(first) => {
                    let word = &rest[..rest.iter().take_while(|byte| is_word(**byte)).count()];
                    self.at += word.len() - 1;
                    if self.rust && matches!(word, b"r" | b"br" | b"cr") {
                        self.raw_string();
                    }
                    Token::Word(word)
                }
                _ => {
                    self.pass(first);
                    Token::Other(first)
                }
            });
        }
    }

    /// Goes to the end of what begins with a byte that was just read, where that is a text or a comment.
    fn pass(&mut self, first: u8) {
        let rest = self.rest();
        match (first, rest.first()) {
            (b'/', Some(b'/')) => self.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len()),
            (b'/', Some(b'*')) => self.comment(),
            (b'"', _) => self.at = string(self.source, self.at, b'"', self.rust),
            (b'\'', _) if !self.rust || is_char(rest) => {
                self.at = string(self.source, self.at, b'\'', self.rust);
            }
            (b'`', _) if !self.rust => {
                self.at += memchr::memchr(b'`', rest).map_or(rest.len(), |end| end + 1);
            }
            _ => {}
        }
    }

    fn comment(&mut self) {
        self.at += 1;
        let mut depth = 1usize;
        while let Some(found) = memchr::memchr2(b'*', b'/', self.rest()) {
            self.at += found;
            self.at += match self.rest() {
                [b'*', b'/', ..] => {
                    depth -= 1;
                    2
                }
                [b'/', b'*', ..] if self.rust => {
                    depth += 1;
                    2
                }
                _ => 1,
            };
            if depth == 0 {
                return;
            }
        }
        self.at = self.source.len();
    }

    /// Goes behind a raw string, where one begins behind its `r`.
    fn raw_string(&mut self) {
        let rest = self.rest();
        let hashes = rest.iter().take_while(|byte| **byte == b'#').count();
        if rest.get(hashes) != Some(&b'"') {
            return;
        }
        let end = memchr::memmem::find(&rest[hashes + 1..], &[b"\"", &rest[..hashes]].concat());
        self.at += end.map_or(rest.len(), |end| hashes + 1 + end + 1 + hashes);
    }

    /// What is between a brace that was just read and the one that closes it; goes behind that. Nothing when none
    /// does: then the rest is for the parser.
    fn block(&mut self) -> Option<Range<usize>> {
        let (start, mut depth, mut before) = (self.at, 1usize, b'{');
        while let Some(first) = self.source.get(self.at).copied() {
            self.at += 1;
            match first {
                b'{' => depth += 1,
                b'}' => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(start..self.at - 1);
                    }
                }
                b'"' | b'\'' | b'`' | b'/' => self.pass(first),
                // `r`, `br`, `cr`
                b'r' if self.rust && (!is_word(before) || matches!(before, b'b' | b'c')) => self.raw_string(),
                _ => {}
            }
            before = first;
        }
        None
    }
}

/// Whether what stands behind a `'` is a character, not the name of a lifetime.
fn is_char(rest: &[u8]) -> bool {
    match rest.first() {
        None => false,
        Some(b'\\') => true,
        Some(first) => rest.get(first.leading_ones().clamp(1, 4) as usize) == Some(&b'\''),
    }
}
