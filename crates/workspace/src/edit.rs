//! Replacing exact text without touching anything else: encoding, byte-order mark and line endings stay.

use std::borrow::Cow;

use memchr::memmem;

use crate::diagnose;
use crate::text::{self, Encoding, LineEnding};

/// The outcome of [`replace`].
#[derive(Debug, PartialEq, Eq)]
pub struct Edited {
    /// The new content of the file.
    pub bytes: Vec<u8>,
    /// The lines on which replaced text began, before the change.
    pub lines: Vec<u64>,
}

/// Why [`replace`] did not.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// Nothing to look for.
    #[error("old_string is empty; to create a file use Write, to insert text give the text before it")]
    Empty,
    /// Nothing would change.
    #[error("old_string and new_string are the same; nothing would change")]
    Same,
    /// The text is not there.
    #[error("not found; {diagnosis}")]
    NotFound {
        /// The closest place and what differs there, in lines.
        diagnosis: String,
    },
    /// The text is there more than once.
    #[error("matched {} times", lines.len())]
    Ambiguous {
        /// The lines on which it begins.
        lines: Vec<u64>,
    },
    /// Decoding and encoding it again would change parts nobody asked to change.
    #[error("the file claims to be UTF-16 but is not valid; change it with another program")]
    Malformed,
}

/// Replaces `old` by `new` in the bytes of a file: the only occurrence, or all of them.
///
/// Line ends in `old` match both kinds; line ends in `new` become what the file uses.
pub fn replace(bytes: &[u8], old: &str, new: &str, replace_all: bool) -> Result<Edited, EditError> {
    if old.is_empty() {
        return Err(EditError::Empty);
    }
    let (encoding, bom) = text::encoding_of(bytes);
    let body = text::decode(bytes);
    if encoding != Encoding::Utf8 && text::encode_bytes(body.to_vec(), encoding, bom) != bytes {
        return Err(EditError::Malformed);
    }
    // a client that speaks of `\r\n` where the file has none means its line ends
    let foreign = old.contains("\r\n") && memmem::find(&body, b"\r\n").is_none();
    let (old, new) = match foreign {
        true => (Cow::Owned(old.replace("\r\n", "\n")), Cow::Owned(new.replace("\r\n", "\n"))),
        false => (Cow::Borrowed(old), Cow::Borrowed(new)),
    };
    let (old, new) = (old.as_ref(), new.as_ref());
    if old == new {
        return Err(EditError::Same);
    }
    let found = find(&body, old);
    let lines = line_numbers(&body, &found);
    if found.is_empty() {
        return Err(EditError::NotFound { diagnosis: diagnose::closest(&body, old, "old_string") });
    }
    if found.len() > 1 && !replace_all {
        return Err(EditError::Ambiguous { lines });
    }
    let mut out = Vec::with_capacity(body.len() + new.len());
    let mut at = 0;
    for (start, end) in found {
        out.extend_from_slice(&body[at..start]);
        out.extend_from_slice(dressed(&body, start, end, new).as_bytes());
        at = end;
    }
    out.extend_from_slice(&body[at..]);
    Ok(Edited { bytes: text::encode_bytes(out, encoding, bom), lines })
}

/// Where `old` occurs. A line end in it stands for either kind, and takes the whole of it.
fn find(body: &[u8], old: &str) -> Vec<(usize, usize)> {
    let literal = || {
        memmem::find_iter(body, old.as_bytes()).map(|start| (start, start + old.len())).collect::<Vec<_>>()
    };
    if !old.contains('\n') || memmem::find(body, b"\r\n").is_none() {
        return literal();
    }
    if old.contains("\r\n") {
        let exact = literal();
        if !exact.is_empty() {
            return exact;
        }
    }
    let (flat, dropped) = without_carriage_returns(body);
    let wanted = old.replace("\r\n", "\n");
    let original = |at: usize| at + dropped.partition_point(|&newline| newline < at);
    memmem::find_iter(&flat, wanted.as_bytes())
        .map(|start| (original(start), original(start + wanted.len())))
        .collect()
}

/// The text with `\r\n` as `\n`, and where in it a carriage return went missing before the newline.
fn without_carriage_returns(body: &[u8]) -> (Vec<u8>, Vec<usize>) {
    let (mut flat, mut dropped, mut at) = (Vec::with_capacity(body.len()), Vec::new(), 0);
    for pair in memmem::find_iter(body, b"\r\n") {
        flat.extend_from_slice(&body[at..pair]);
        dropped.push(flat.len());
        at = pair + 1;
    }
    flat.extend_from_slice(&body[at..]);
    (flat, dropped)
}

/// `new` with the line ends of the place where it goes.
fn dressed<'n>(body: &[u8], start: usize, end: usize, new: &'n str) -> Cow<'n, str> {
    if !new.contains('\n') {
        return Cow::Borrowed(new);
    }
    let crlf = match text::line_ending_of(body) {
        LineEnding::Lf => false,
        LineEnding::CrLf => true,
        // in a mixed file the replaced text decides, else the line it stands in
        LineEnding::Mixed => {
            let inside = memchr::memchr(b'\n', &body[start..end]).map(|at| start + at);
            let newline = inside.or_else(|| memchr::memchr(b'\n', &body[end..]).map(|at| end + at));
            newline.is_some_and(|at| at > 0 && body[at - 1] == b'\r')
        }
    };
    if crlf { Cow::Owned(new.replace("\r\n", "\n").replace('\n', "\r\n")) } else { Cow::Borrowed(new) }
}

fn line_numbers(body: &[u8], found: &[(usize, usize)]) -> Vec<u64> {
    let (mut line, mut at) = (1, 0);
    found
        .iter()
        .map(|&(start, _)| {
            line += memchr::memchr_iter(b'\n', &body[at..start]).count() as u64;
            at = start;
            line
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn edited(text: &str, old: &str, new: &str) -> String {
        String::from_utf8(replace(text.as_bytes(), old, new, false).unwrap().bytes).unwrap()
    }

    #[test]
    fn line_ends_and_mark_stay() {
        assert_eq!(edited("a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\nz\n"), "x\r\ny\r\nz\r\nc\r\n");
        assert_eq!(edited("a\r\nb\r\n", "a", "x\ny"), "x\r\ny\r\nb\r\n");
        assert_eq!(edited("\u{FEFF}a\nb\n", "a", "x"), "\u{FEFF}x\nb\n");
        assert_eq!(edited("a\nb\r\nc\r\nd\n", "b\nc", "q\nr"), "a\nq\r\nr\r\nd\n");
        assert_eq!(edited("a\r\nb", "\nb", "\nc"), "a\r\nc");
        assert_eq!(
            edited("a\nb\nc\n", "a\r\nb\r\n", "x\r\ny\nz\r\n"),
            "x\ny\nz\nc\n",
            "as the file has them"
        );
        assert_eq!(edited("a\r\nb\r\n", "a", "x\r\ny\nz"), "x\r\ny\r\nz\r\nb\r\n");
    }

    #[test]
    fn several_places_need_a_decision() {
        let error = replace(b"x\ny x\nx\n", "x", "z", false).unwrap_err();
        assert_eq!(error, EditError::Ambiguous { lines: vec![1, 2, 3] });
        let all = replace(b"x\ny x\nx\n", "x", "z", true).unwrap();
        assert_eq!((all.bytes.as_slice(), all.lines.len()), (&b"z\ny z\nz\n"[..], 3));
    }

    #[test]
    fn utf16_is_edited_in_place() {
        let bytes: Vec<u8> = "\u{FEFF}grün\r\nblau\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let want: Vec<u8> = "\u{FEFF}rot\r\nblau\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(replace(&bytes, "grün", "rot", false).unwrap().bytes, want);
    }

    proptest! {
        /// Everything outside the replaced text is untouched, whatever the line ends.
        #[test]
        fn the_rest_is_untouched(before in "[ab\r\n]{0,20}", after in "[ab\r\n]{0,20}") {
            let text = format!("{before}ONE{after}");
            prop_assert_eq!(edited(&text, "ONE", "TWO"), format!("{before}TWO{after}"));
        }
    }
}
