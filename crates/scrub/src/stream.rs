//! Text that comes in chunks: a secret split over two of them is still caught.

use crate::span::Span;
use crate::{Hits, Scrubber, pem};

/// A line longer than this leaves in parts.
const MAX_HOLD: usize = 64 * 1024;
/// What stays behind when a long line leaves in parts: more than any secret we know the shape of.
const KEEP: usize = 16 * 1024;
/// What was sent already and is looked at again, so that `NAME=` is seen with its value.
const CONTEXT: usize = 512;

/// Scrubs a stream. Complete lines leave at once; the last, incomplete line waits for its end, a
/// private-key block or a configured secret of several lines for its last line. What waits is bounded: by
/// about 64 KiB, or four times the longest configured secret where that is more.
#[derive(Debug)]
pub struct StreamScrubber {
    scrubber: Scrubber,
    /// Bytes of a character that is not complete yet.
    partial: Vec<u8>,
    buffer: String,
    /// How much at the start of `buffer` has left already.
    sent: usize,
    hits: Hits,
}

impl StreamScrubber {
    pub(crate) fn new(scrubber: Scrubber) -> Self {
        Self { scrubber, partial: Vec::new(), buffer: String::new(), sent: 0, hits: Hits::default() }
    }

    /// Takes a chunk (`&str` or `&[u8]`; invalid UTF-8 becomes U+FFFD) and gives what may leave.
    pub fn push(&mut self, chunk: impl AsRef<[u8]>) -> String {
        let had = self.buffer.len();
        self.decode(chunk.as_ref());
        let mut out = String::new();
        if let Some(newline) = memchr::memrchr(b'\n', &self.buffer.as_bytes()[had..]) {
            let end = had + newline + 1;
            let spans = self.scrubber.find(&self.buffer[..end]);
            let cut = self.whole_lines(end, &spans);
            self.send(cut, &spans, &mut out);
        }
        let most = MAX_HOLD.max(4 * self.scrubber.exact().longest());
        if self.buffer.len() - self.sent > most {
            let spans = self.scrubber.find(&self.buffer);
            let cut = self.part_of_line(&spans);
            self.send(cut, &spans, &mut out);
        }
        out
    }

    /// Gives the rest. The scrubber may be used for another stream afterwards.
    pub fn finish(&mut self) -> String {
        if !self.partial.is_empty() {
            self.partial.clear();
            self.buffer.push(char::REPLACEMENT_CHARACTER);
        }
        let mut out = String::new();
        let spans = self.scrubber.find(&self.buffer);
        self.send(self.buffer.len(), &spans, &mut out);
        self.buffer.clear();
        self.sent = 0;
        out
    }

    /// What came but waits for more, without an end that a configured secret may go on from. It is **not**
    /// scrubbed.
    #[must_use]
    pub fn pending(&self) -> &str {
        self.scrubber.settled(&self.buffer[self.sent..])
    }

    /// The lines of it that have an end, scrubbed as far as they can be now: for whoever must know of a line when it
    /// comes. They will come again, in their turn.
    #[must_use]
    pub fn pending_lines(&self) -> String {
        let held = &self.buffer[self.sent..];
        let Some(end) = held.rfind('\n') else { return String::new() };
        let lines = self.scrubber.settled(&held[..=end]);
        let mut clean = self.scrubber.scrub_part(&self.buffer[..self.sent], lines, "").into_owned();
        if !clean.ends_with('\n') {
            clean.push('\n');
        }
        clean
    }

    /// What was redacted so far.
    #[must_use]
    pub fn hits(&self) -> &Hits {
        &self.hits
    }

    fn decode(&mut self, chunk: &[u8]) {
        if self.partial.is_empty() {
            return self.decode_joined(chunk);
        }
        let mut joined = std::mem::take(&mut self.partial);
        joined.extend_from_slice(chunk);
        self.decode_joined(&joined);
    }

    fn decode_joined(&mut self, bytes: &[u8]) {
        let mut at = 0;
        for part in bytes.utf8_chunks() {
            self.buffer.push_str(part.valid());
            at += part.valid().len() + part.invalid().len();
            let incomplete = at == bytes.len()
                && std::str::from_utf8(part.invalid()).is_err_and(|error| error.error_len().is_none());
            if incomplete {
                self.partial = part.invalid().to_vec();
            } else if !part.invalid().is_empty() {
                self.buffer.push(char::REPLACEMENT_CHARACTER);
            }
        }
    }

    /// Up to where complete lines may leave: before anything that may go on in the next line.
    fn whole_lines(&self, end: usize, spans: &[Span]) -> usize {
        let text = &self.buffer[..end];
        let mut cut = end;
        if let Some(start) = self.scrubber.exact().begins_at(text) {
            cut = cut.min(start);
        }
        if let Some(start) = self.scrubber.exact().wraps_at(text) {
            cut = cut.min(start);
        }
        if let Some(last) = spans.last()
            && self.scrubber.exact().wraps()
            && text[last.end..].trim().is_empty()
        {
            cut = cut.min(last.start);
        }
        if let Some(begin) = text.rfind(pem::BEGIN)
            && pem::block(text, begin).is_some_and(|block| block.open)
        {
            cut = cut.min(begin);
        }
        outside(cut, spans).max(self.sent)
    }

    /// Up to where the start of an endless line may leave.
    fn part_of_line(&self, spans: &[Span]) -> usize {
        let keep = KEEP.max(3 * self.scrubber.exact().longest());
        let cut = self.buffer.floor_char_boundary(self.buffer.len().saturating_sub(keep));
        let cut = outside(cut, spans);
        if cut > self.sent {
            return cut;
        }
        // One span fills the buffer: its end is as good a place as any.
        spans.iter().map(|span| span.end).find(|end| *end > self.sent).unwrap_or(self.buffer.len())
    }

    /// Moves everything before `cut` out, redacted.
    fn send(&mut self, cut: usize, spans: &[Span], out: &mut String) {
        let mut from = self.sent;
        for span in spans.iter().filter(|span| span.end > self.sent && span.start < cut) {
            out.push_str(&self.buffer[from..span.start.max(from)]);
            out.push_str(self.scrubber.redact(*span, &mut self.hits));
            from = span.end.min(cut);
        }
        out.push_str(&self.buffer[from..cut.max(from)]);
        let line_start = self.buffer[..cut].ends_with('\n') || cut == 0;
        let context = if line_start { 0 } else { CONTEXT };
        let drop = self.buffer.floor_char_boundary(cut.saturating_sub(context));
        self.buffer.drain(..drop);
        self.sent = cut - drop;
    }
}

/// `cut`, or the start of the span it would fall into.
fn outside(cut: usize, spans: &[Span]) -> usize {
    spans.iter().find(|span| span.start < cut && cut < span.end).map_or(cut, |span| span.start)
}
