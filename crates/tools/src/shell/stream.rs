//! One stream of a background shell: its first bytes and its latest.

use super::clean::Cleaner;
use scrub::Scrubber;
use std::collections::VecDeque;

/// What is kept of a stream.
pub(super) const KEPT: usize = 1024 * 1024;
/// How much of that is its beginning.
const HEAD: usize = 64 * 1024;

/// A stream's text: scrubbed, at most [`KEPT`] bytes of it.
pub(super) struct Stream {
    cleaner: Cleaner,
    head: String,
    tail: VecDeque<u8>,
    total: u64,
}

/// A part of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) text: String,
    /// Where the next part begins.
    pub(super) next: u64,
}

impl Stream {
    pub(super) fn new(scrubber: &Scrubber) -> Self {
        Self { cleaner: Cleaner::new(scrubber), head: String::new(), tail: VecDeque::new(), total: 0 }
    }

    /// Takes what came; gives what of it is clean by now.
    pub(super) fn push(&mut self, bytes: &[u8]) -> String {
        let clean = self.cleaner.push(bytes);
        self.keep(&clean);
        clean
    }

    /// The stream ended: nothing is held back any more.
    pub(super) fn finish(&mut self) -> String {
        let clean = self.cleaner.finish();
        self.keep(&clean);
        clean
    }

    fn keep(&mut self, clean: &str) {
        self.total += clean.len() as u64;
        let mut rest = clean;
        if self.tail.is_empty() && self.head.len() < HEAD {
            let (head, after) = rest.split_at(rest.floor_char_boundary(HEAD - self.head.len()));
            self.head.push_str(head);
            rest = after;
        }
        let rest = &rest.as_bytes()[rest.len().saturating_sub(KEPT - HEAD)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(KEPT - HEAD);
        self.tail.drain(..over.min(self.tail.len()));
        self.tail.extend(rest);
    }

    /// All that ever came, without what is held back.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Bytes between the beginning and the latest that are not kept.
    pub(super) fn dropped(&self) -> u64 {
        self.total - (self.head.len() + self.tail.len()) as u64
    }

    /// The last line as long as it has no end. Not scrubbed, and not counted: it will come again, whole.
    pub(super) fn pending(&self) -> &str {
        self.cleaner.pending()
    }

    /// Lines that have an end and are held back all the same, since a secret may go on in the next one. Scrubbed.
    pub(super) fn pending_lines(&self) -> String {
        self.cleaner.pending_lines()
    }

    /// At most about `limit` bytes from `from` on. What is no longer there is said so.
    pub(super) fn part(&mut self, from: u64, limit: usize) -> Part {
        let from = from.min(self.total);
        let head = self.head.len() as u64;
        let kept = self.total - self.tail.len() as u64;
        if from < head {
            let begin = self.head.floor_char_boundary(usize::try_from(from).unwrap_or(HEAD));
            let end = self.head.floor_char_boundary(begin.saturating_add(limit));
            let text = self.head[begin..end].to_owned();
            if end < self.head.len() || self.tail.is_empty() {
                return Part { text, next: end as u64 };
            }
            let rest = self.part(head, limit.saturating_sub(end - begin));
            return Part { text: text + &rest.text, next: rest.next };
        }
        let gone = kept.saturating_sub(from);
        let begin = usize::try_from(from.max(kept) - kept).unwrap_or(0);
        let bytes = &self.tail.make_contiguous()[begin..];
        let bytes = &bytes[..bytes.len().min(limit)];
        let (text, whole) = whole_characters(bytes);
        let note = match gone {
            0 => String::new(),
            gone => format!("\n… {gone} bytes are no longer kept …\n"),
        };
        Part { text: note + &text, next: kept + (begin + whole) as u64 }
    }
}

/// The text of `bytes` without the pieces of characters at both ends, and where the last whole one ends.
pub(super) fn whole_characters(bytes: &[u8]) -> (String, usize) {
    let first = bytes.iter().position(|byte| !is_continuation(*byte)).unwrap_or(bytes.len());
    let whole = bytes.len() - incomplete(bytes);
    (String::from_utf8_lossy(&bytes[first.min(whole)..whole]).into_owned(), whole)
}

fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// How many bytes at the end begin a character without ending it.
fn incomplete(bytes: &[u8]) -> usize {
    let Some(back) = bytes.iter().rev().take(4).position(|byte| !is_continuation(*byte)) else { return 0 };
    let present = back + 1;
    let needed = match bytes[bytes.len() - present] {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. => 2,
        _ => 1,
    };
    if needed > present { present } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> Stream {
        Stream::new(&Scrubber::default())
    }

    #[test]
    fn parts_join_to_the_whole() {
        let mut stream = stream();
        let whole: String = (0..40_000).map(|n| format!("línea {n}\n")).collect();
        for chunk in whole.as_bytes().chunks(1000) {
            stream.push(chunk);
        }
        stream.finish();
        assert_eq!((stream.total(), stream.dropped()), (whole.len() as u64, 0));
        let (mut joined, mut at) = (String::new(), 0);
        while at < stream.total() {
            let part = stream.part(at, 1001);
            assert!(part.next > at, "a part moves on");
            joined += &part.text;
            at = part.next;
        }
        assert_eq!(joined, whole);
    }

    #[test]
    fn a_flood_leaves_head_and_tail() {
        let mut stream = stream();
        let line = "0123456789abcde\n";
        for _ in 0..200_000 {
            stream.push(line.as_bytes());
        }
        stream.finish();
        let total = 200_000 * 16;
        assert_eq!((stream.total(), stream.dropped()), (total, total - KEPT as u64));
        assert!(stream.tail.capacity() + stream.head.capacity() < 4 * KEPT);
        let part = stream.part(0, 2 * KEPT);
        assert_eq!(part.next, total);
        assert!(
            part.text.contains("… 2151424 bytes are no longer kept …"),
            "{}",
            &part.text[HEAD..HEAD + 99]
        );
    }

    #[test]
    fn an_unfinished_line_can_be_seen_but_does_not_count() {
        let mut stream = stream();
        stream.push(b"done\nPassword: ");
        assert_eq!((stream.total(), stream.pending()), (5, "Password: "));
        stream.push(b"ok\n");
        assert_eq!(stream.part(5, 100), Part { text: "Password: ok\n".to_owned(), next: 18 });
    }

    #[test]
    fn pieces_of_a_character_wait() {
        assert_eq!(incomplete("aé".as_bytes()), 0);
        assert_eq!(incomplete(&"aé".as_bytes()[..2]), 1);
        assert_eq!(incomplete(&"a€".as_bytes()[..3]), 2);
        assert_eq!(incomplete(b"abc"), 0);
        assert_eq!(incomplete(b""), 0);
    }
}
