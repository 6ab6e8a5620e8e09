//! Bytes of a stream, all of them or the head and the tail, in bounded memory.

use std::collections::VecDeque;

/// Keeps everything, or the first and last bytes up to a limit.
pub(crate) struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    limit: Option<usize>,
    omitted: u64,
}

impl Capture {
    pub(crate) fn new(limit: Option<usize>) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), limit, omitted: 0 }
    }

    pub(crate) fn push(&mut self, mut data: &[u8]) {
        let Some(limit) = self.limit else { return self.head.extend_from_slice(data) };
        let head = limit.div_ceil(2).saturating_sub(self.head.len()).min(data.len());
        self.head.extend_from_slice(&data[..head]);
        data = &data[head..];
        let room = limit / 2;
        if let Some(skipped) = data.len().checked_sub(room) {
            self.omitted += count(self.tail.len() + skipped);
            self.tail.clear();
            data = &data[skipped..];
        }
        if let Some(excess) = (self.tail.len() + data.len()).checked_sub(room) {
            self.omitted += count(excess);
            self.tail.drain(..excess);
        }
        self.tail.extend(data);
    }

    /// What is kept so far.
    pub(crate) fn kept(&self) -> Vec<u8> {
        self.head.iter().chain(&self.tail).copied().collect()
    }

    /// What was kept, and how many bytes between head and tail were not.
    pub(crate) fn finish(self) -> (Vec<u8>, u64) {
        let mut kept = self.head;
        kept.extend(self.tail);
        (kept, self.omitted)
    }
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(limit: Option<usize>, chunks: &[&str]) -> (String, u64) {
        let mut capture = Capture::new(limit);
        for chunk in chunks {
            capture.push(chunk.as_bytes());
        }
        let (bytes, omitted) = capture.finish();
        (String::from_utf8(bytes).unwrap(), omitted)
    }

    #[test]
    fn without_a_limit_everything_is_kept() {
        assert_eq!(kept(None, &["ab", "cd"]), ("abcd".into(), 0));
    }

    #[test]
    fn what_fits_is_kept_whole() {
        assert_eq!(kept(Some(4), &["ab", "cd"]), ("abcd".into(), 0));
    }

    #[test]
    fn the_middle_is_left_out_and_counted() {
        assert_eq!(kept(Some(4), &["abcdefgh"]), ("abgh".into(), 4));
        assert_eq!(kept(Some(4), &["a", "bc", "def", "g", "h"]), ("abgh".into(), 4));
        assert_eq!(kept(Some(5), &["abc", "defgh", "ij"]), ("abcij".into(), 5));
        assert_eq!(kept(Some(0), &["abc"]), (String::new(), 3));
        assert_eq!(kept(Some(1), &["abc"]), ("a".into(), 2));
    }
}
