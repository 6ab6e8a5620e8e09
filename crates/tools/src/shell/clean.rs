//! From what a terminal would get to what a model should read.
//!
//! Escape sequences go while the bytes come in, before secrets are looked for, so that a colour in the middle
//! of a secret does not hide it. Overwritten text (progress bars) goes when a text is shown.

use scrub::{Scrubber, StreamScrubber};
use std::borrow::Cow;

const ESC: u8 = 0x1b;
const BEL: u8 = 0x07;

/// Where in an escape sequence the stream stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum At {
    #[default]
    Text,
    /// After `ESC`.
    Escape,
    /// Inside `ESC [ …`.
    Control,
    /// Inside `ESC ] …` and its kin, up to BEL or `ESC \`.
    String,
}

/// Takes escape sequences out of a stream. Never swallows more than the line it is in.
#[derive(Debug, Default)]
pub(super) struct Stripper(At);

impl Stripper {
    pub(super) fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut rest = bytes;
        while let Some(&byte) = rest.first() {
            if self.0 == At::Text {
                let plain = rest.iter().position(|byte| !is_plain(*byte)).unwrap_or(rest.len());
                out.extend_from_slice(&rest[..plain]);
                rest = &rest[plain..];
                if let Some((&byte, after)) = rest.split_first() {
                    self.special(byte, out);
                    rest = after;
                }
            } else {
                self.0 = self.0.after(byte);
                // What cannot be part of a sequence ends it and is text.
                if self.0 != At::Text || !ends_abruptly(byte) {
                    rest = &rest[1..];
                }
            }
        }
    }

    fn special(&mut self, byte: u8, out: &mut Vec<u8>) {
        match byte {
            ESC => self.0 = At::Escape,
            BEL => {}
            0x7f => out.extend_from_slice("␡".as_bytes()),
            // Shown by the Unicode picture of the control character.
            control => out.extend_from_slice(&[0xe2, 0x90, 0x80 + control]),
        }
    }
}

impl At {
    fn after(self, byte: u8) -> Self {
        match (self, byte) {
            (_, b'\n') => Self::Text,
            (_, ESC) => Self::Escape,
            (Self::Escape, b'[') => Self::Control,
            (Self::Escape, b']' | b'P' | b'X' | b'^' | b'_') => Self::String,
            (Self::Escape, b' '..=b'/') => Self::Escape,
            (Self::Control, b' '..=b'?') => Self::Control,
            (Self::String, byte) if byte != BEL => Self::String,
            _ => Self::Text,
        }
    }
}

fn ends_abruptly(byte: u8) -> bool {
    (byte < b' ' && byte != BEL) || byte >= 0x7f
}

fn is_plain(byte: u8) -> bool {
    byte >= b' ' && byte != 0x7f || matches!(byte, b'\n' | b'\t' | b'\r' | 0x08)
}

/// A stream without escape sequences, invalid UTF-8 and secrets.
pub(super) struct Cleaner {
    stripper: Stripper,
    scrubber: StreamScrubber,
    stripped: Vec<u8>,
}

impl Cleaner {
    pub(super) fn new(scrubber: &Scrubber) -> Self {
        Self { stripper: Stripper::default(), scrubber: scrubber.stream(), stripped: Vec::new() }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) -> String {
        self.stripped.clear();
        self.stripper.push(bytes, &mut self.stripped);
        self.scrubber.push(&self.stripped)
    }

    pub(super) fn finish(&mut self) -> String {
        self.scrubber.finish()
    }

    /// The lines of [`Self::pending`] that have an end. Scrubbed.
    pub(super) fn pending_lines(&self) -> String {
        self.scrubber.pending_lines()
    }

    /// What came but is still held back: mostly the last line as long as it has no end. Not scrubbed.
    pub(super) fn pending(&self) -> &str {
        self.scrubber.pending()
    }
}

/// All of `bytes` as text without escape sequences.
pub(super) fn text(bytes: &[u8]) -> String {
    let mut stripped = Vec::with_capacity(bytes.len());
    Stripper::default().push(bytes, &mut stripped);
    match String::from_utf8(stripped) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    }
}

/// What is left on a screen: text before a carriage return is overwritten, a backspace takes one character.
pub(super) fn overwritten(text: &str) -> Cow<'_, str> {
    if !text.contains(['\r', '\u{8}']) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        let last = line.split('\r').rfind(|part| !part.is_empty()).unwrap_or_default();
        let begin = out.len();
        for char in last.chars() {
            if char != '\u{8}' {
                out.push(char);
            } else if out.len() > begin {
                out.pop();
            }
        }
        out.push_str(end);
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_titles_and_cursor_moves_go() {
        assert_eq!(text(b"\x1b[1;31merror\x1b[0m: \x1b[2Kx\x1b(B"), "error: x");
        assert_eq!(text(b"\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\"), "alink");
        assert_eq!(text(b"\x1bPdcs\x1b\\b\x1b=c\x1b7d"), "bcd");
    }

    #[test]
    fn a_broken_sequence_swallows_no_more_than_its_line() {
        assert_eq!(text(b"\x1b]0;never ended\nnext"), "\nnext");
        assert_eq!(text(b"\x1b[31\nnext"), "\nnext");
        assert_eq!(text("\x1b[3é".as_bytes()), "é");
    }

    #[test]
    fn other_control_characters_are_shown() {
        assert_eq!(text(b"a\0b\x07c\x7fd\te\n"), "a␀bc␡d\te\n");
        assert_eq!(text(b"a\xffb"), "a\u{fffd}b");
    }

    #[test]
    fn a_sequence_may_be_split_anywhere() {
        let whole = "a\x1b[1;31mb\x1b]0;t\x1b\\c\x1b(0é\r\nd".as_bytes();
        let expected = text(whole);
        for cut in 0..whole.len() {
            let (mut stripper, mut out) = (Stripper::default(), Vec::new());
            stripper.push(&whole[..cut], &mut out);
            stripper.push(&whole[cut..], &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "cut at {cut}");
        }
    }

    #[test]
    fn a_progress_bar_leaves_its_last_state() {
        assert_eq!(overwritten("10%\r20%\r100%\ndone\r\n"), "100%\ndone\n");
        assert_eq!(overwritten("50%\r"), "50%");
        assert_eq!(overwritten("a\u{8}\u{8}bc\u{8}d"), "bd");
        assert!(matches!(overwritten("plain\n"), Cow::Borrowed(_)));
    }
}
