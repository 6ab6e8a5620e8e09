//! A secret of several lines where each has something before it: a number, a path, an indentation, the sign of a diff.

use std::sync::Arc;

/// The lines of a secret, without the blanks around them.
#[derive(Clone)]
pub(crate) struct Lines(Arc<[Box<str>]>);

impl Lines {
    /// Nothing for a secret of one line.
    pub(crate) fn of(value: &str) -> Option<Self> {
        let lines: Arc<[Box<str>]> = value.lines().map(|line| line.trim_matches(blank).into()).collect();
        (lines.len() > 1).then_some(Self(lines))
    }

    /// The longest line, by which a secret is looked for, and its number.
    pub(crate) fn longest(&self) -> (usize, &str) {
        let longest = (0..).zip(self.0.iter()).max_by_key(|(_, line)| line.len());
        longest.map_or((0, ""), |(number, line)| (number, line))
    }

    /// Where all lines stand when the one with this number begins at `at`.
    pub(crate) fn around(&self, text: &[u8], at: usize, number: usize) -> Option<(usize, usize)> {
        let mut first = at;
        for line in self.0[..number].iter().rev() {
            let end = memchr::memrchr(b'\n', &text[..first])?;
            if !is_margin(&text[end + 1..first]) {
                return None;
            }
            let begin = memchr::memrchr(b'\n', &text[..end]).map_or(0, |newline| newline + 1);
            let filled = filled(&text[begin..end]);
            first = begin + filled.len().checked_sub(line.len())?;
            if !text[first..].starts_with(line.as_bytes()) {
                return None;
            }
        }
        let mut last = at + self.0[number].len();
        for line in &self.0[number + 1..] {
            let end = last + memchr::memchr(b'\n', &text[last..])?;
            if !filled(&text[last..end]).is_empty() {
                return None;
            }
            let begin = end + 1;
            let end = memchr::memchr(b'\n', &text[begin..]).map_or(text.len(), |newline| begin + newline);
            let held = &text[begin..end];
            let start = if line.is_empty() {
                let filled = filled(held).len();
                is_margin(&held[..filled]).then_some(filled)?
            } else {
                let starts = |at: &usize| held[*at..].starts_with(line.as_bytes()) && is_margin(&held[..*at]);
                (0..held.len()).find(starts)?
            };
            last = begin + start + line.len();
        }
        Some((first, last))
    }
}

fn blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r')
}

/// The line without blanks at its end.
fn filled(line: &[u8]) -> &[u8] {
    let end = line.iter().rposition(|byte| !blank(char::from(*byte))).map_or(0, |at| at + 1);
    &line[..end]
}

/// Nothing but blanks, a number, something that ends like `:12:` or `-12-`, or the sign of a diff.
fn is_margin(text: &[u8]) -> bool {
    match filled(text).trim_ascii_start() {
        [] | [b'+' | b'-' | b'>' | b'<' | b'|'] => true,
        [.., digit, b':' | b'-' | b'|'] => digit.is_ascii_digit(),
        rest => rest.iter().all(u8::is_ascii_digit),
    }
}
