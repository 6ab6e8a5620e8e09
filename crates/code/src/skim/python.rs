//! Python.

use super::{string, wipe};

/// Blanks the statements of functions that are not in another, but for the text that documents one.
pub(super) fn python(source: &[u8], copy: &mut [u8]) {
    let mut scan = Scan { source, at: 0 };
    while let Some(indent) = scan.indent() {
        let line = scan.rest().strip_prefix(b"async").map_or(scan.rest(), <[u8]>::trim_ascii_start);
        let function = line.strip_prefix(b"def").is_some_and(|rest| rest.starts_with(b" "));
        let colon = scan.statement();
        // what is behind it on the line is the body, if there is anything
        let opens = |colon: usize| matches!(source[colon + 1..scan.at].trim_ascii_start(), [] | [b'#', ..]);
        if function && colon.is_some_and(opens) {
            body(&mut scan, indent, copy);
        }
    }
}

/// Blanks the lines that are further in.
fn body(scan: &mut Scan<'_>, indent: usize, copy: &mut [u8]) {
    let (mut start, mut end) = (None, scan.at);
    loop {
        let before = scan.at;
        if scan.indent().is_none_or(|own| own <= indent) {
            scan.at = before;
            break;
        }
        let first = scan.at;
        let text = scan.rest();
        scan.statement();
        end = scan.at;
        start = start.or_else(|| {
            let letters = text.iter().take(2).take_while(|byte| byte.is_ascii_alphabetic()).count();
            if matches!(text.get(letters), Some(b'"' | b'\'')) {
                return Some(scan.at);
            }
            // a block is nothing without a statement
            copy[first] = b'0';
            Some(first + 1)
        });
    }
    if let Some(start) = start {
        wipe(&mut copy[start..end]);
    }
}

/// Goes through a source, statement by statement.
struct Scan<'s> {
    source: &'s [u8],
    at: usize,
}

impl<'s> Scan<'s> {
    fn rest(&self) -> &'s [u8] {
        self.source.get(self.at..).unwrap_or_default()
    }

    /// Goes to the next statement: how far in it is.
    fn indent(&mut self) -> Option<usize> {
        let mut indent = 0;
        loop {
            match self.rest().first()? {
                b' ' => indent += 1,
                b'\t' => indent += 8,
                b'\n' | b'\r' | b'\x0c' => indent = 0,
                b'#' => {
                    let rest = self.rest();
                    self.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
                    continue;
                }
                _ => return Some(indent),
            }
            self.at += 1;
        }
    }

    /// Goes to the end of a statement's line: where the first colon is that no bracket holds.
    fn statement(&mut self) -> Option<usize> {
        let (mut depth, mut colon) = (0usize, None);
        while let Some(first) = self.source.get(self.at).copied() {
            match first {
                b'\n' if depth == 0 => break,
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => depth = depth.saturating_sub(1),
                b':' if depth == 0 => colon = colon.or(Some(self.at)),
                b'#' => {
                    let rest = self.rest();
                    self.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
                    continue;
                }
                b'\\' => self.at += 1,
                b'"' | b'\'' => {
                    self.text(first);
                    continue;
                }
                _ => {}
            }
            self.at += 1;
        }
        self.at = self.at.min(self.source.len());
        colon
    }

    /// Goes behind a string.
    fn text(&mut self, quote: u8) {
        let three = [quote; 3];
        if !self.rest().starts_with(&three) {
            self.at = string(self.source, self.at + 1, quote, false);
            return;
        }
        self.at += 3;
        while let Some(found) = memchr::memchr2(quote, b'\\', self.rest()) {
            self.at += found;
            match self.rest() {
                [b'\\', ..] => self.at += 2,
                rest if rest.starts_with(&three) => {
                    self.at += 3;
                    return;
                }
                _ => self.at += 1,
            }
        }
        self.at = self.source.len();
    }
}
