//! Trigrams: which files can contain a match. A file too many is allowed, a file too few is not.
//!
//! The index knows ASCII letters in lower case only, so that one serves both cases; the two characters outside ASCII
//! that match ASCII letters when case does not count (U+212A and U+017F) are folded with them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use memchr::memmem;

use super::need::Need;

/// Lower-cases what the index does not tell apart.
pub(super) fn fold(text: &[u8], out: &mut Vec<u8>) {
    const KELVIN: &[u8] = "\u{212A}".as_bytes();
    const LONG_S: &[u8] = "\u{17F}".as_bytes();
    out.clear();
    out.extend(text.iter().map(u8::to_ascii_lowercase));
    if memmem::find(out, KELVIN).is_none() && memmem::find(out, LONG_S).is_none() {
        return;
    }
    let (mut from, mut to) = (0, 0);
    while from < out.len() {
        let (byte, width) = match &out[from..] {
            rest if rest.starts_with(KELVIN) => (b'k', KELVIN.len()),
            rest if rest.starts_with(LONG_S) => (b's', LONG_S.len()),
            rest => (rest[0], 1),
        };
        out[to] = byte;
        from += width;
        to += 1;
    }
    out.truncate(to);
}

pub(super) fn trigram(window: &[u8]) -> u32 {
    u32::from(window[0]) << 16 | u32::from(window[1]) << 8 | u32::from(window[2])
}

/// Finds the distinct trigrams of a text, with a table of those seen that grows with their number.
#[derive(Default)]
pub(super) struct Extractor {
    /// Trigrams plus one, each at its hash or behind; 0: free.
    seen: Vec<u32>,
    folded: Vec<u8>,
    pub(super) found: Vec<u32>,
}

/// Places in the table to begin with; most files need no more.
const START: usize = 4096;

impl Extractor {
    pub(super) fn clear(&mut self) {
        self.found.clear();
    }

    pub(super) fn run(&mut self, text: &[u8]) {
        self.clear();
        self.seen.clear();
        self.seen.resize(START, 0);
        fold(text, &mut self.folded);
        let mut gram = 0;
        for (at, &byte) in self.folded.iter().enumerate() {
            gram = (gram << 8 | u32::from(byte)) & 0xFF_FFFF;
            if at >= 2 && note(&mut self.seen, gram) {
                self.found.push(gram);
                if self.found.len() * 2 > self.seen.len() {
                    grow(&mut self.seen, &self.found);
                }
            }
        }
    }
}

/// Puts a trigram into the table; says whether it is new.
fn note(seen: &mut [u32], gram: u32) -> bool {
    let mask = seen.len() - 1;
    let mut at = (gram.wrapping_mul(0x9E37_79B1) >> 8) as usize & mask;
    loop {
        match seen[at] {
            0 => {
                seen[at] = gram + 1;
                return true;
            }
            other if other == gram + 1 => return false,
            _ => at = (at + 1) & mask,
        }
    }
}

fn grow(seen: &mut Vec<u32>, found: &[u32]) {
    let places = seen.len() * 2;
    seen.clear();
    seen.resize(places, 0);
    for &gram in found {
        note(seen, gram);
    }
}

/// Trigrams are spread well enough by one multiplication.
#[derive(Default)]
pub(super) struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(u32::from(byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(26);
    }
}

/// A trigram in more than one of this many documents is common.
const COMMON: u32 = 16;

/// Which documents hold which trigram: lists that only grow at the end. A changed file gets a new number.
#[derive(Default)]
pub(super) struct Index {
    slots: HashMap<u32, u32, BuildHasherDefault<Mix>>,
    posts: Vec<Post>,
    next: u32,
    bytes: usize,
}

/// Who holds one trigram.
#[derive(Default)]
struct Post {
    /// The number put in last, or [`DENSE`].
    last: u32,
    count: u32,
    /// Delta varints; when that is longer, a bit for each document.
    bytes: Vec<u8>,
}

/// Bytes that one number takes at most.
const MOST: usize = 5;
/// Up to so many bytes a list stays a list.
const SHORT: usize = 64;
/// Stands for the last number where there are bits.
const DENSE: u32 = u32::MAX;

impl Post {
    fn push(&mut self, id: u32) {
        self.count += 1;
        if self.is_dense() {
            return self.set(id);
        }
        self.make_room(MOST, 2 * MOST);
        let mut delta = if self.count == 1 { id } else { id - self.last };
        while delta >= 128 {
            self.bytes.push(delta as u8 | 128);
            delta >>= 7;
        }
        self.bytes.push(delta as u8);
        self.last = id;
        if self.bytes.len() > SHORT + byte_of(id) {
            let list = std::mem::take(&mut self.bytes);
            self.last = DENSE;
            self.bytes.reserve_exact(byte_of(id) + SHORT);
            numbers(&list).for_each(|id| self.set(id));
        }
    }

    fn is_dense(&self) -> bool {
        self.last == DENSE
    }

    /// Doubling would leave a third of the heap in holes.
    fn make_room(&mut self, need: usize, least: usize) {
        let used = self.bytes.len();
        if self.bytes.capacity() - used < need {
            self.bytes.reserve_exact((used / 8).max(least).max(need));
        }
    }

    fn set(&mut self, id: u32) {
        let need = (byte_of(id) + 1).saturating_sub(self.bytes.len());
        self.make_room(need, SHORT);
        self.bytes.resize(self.bytes.len() + need, 0);
        self.bytes[byte_of(id)] |= 1 << (id & 7);
    }

    fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        let (list, bits) =
            if self.is_dense() { (&[][..], &self.bytes[..]) } else { (&self.bytes[..], &[][..]) };
        numbers(list).chain(members(bits))
    }

    /// Drops those that are not in it from an ordered list.
    fn keep(&self, left: &mut Vec<u32>) {
        if self.is_dense() {
            left.retain(|&id| self.bytes.get(byte_of(id)).is_some_and(|byte| byte >> (id & 7) & 1 == 1));
        } else {
            keep_common(left, numbers(&self.bytes));
        }
    }
}

fn byte_of(id: u32) -> usize {
    (id >> 3) as usize
}

/// The numbers of a list of delta varints.
fn numbers(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    let (mut id, mut delta, mut shift, mut first) = (0u32, 0u32, 0, true);
    bytes.iter().filter_map(move |&byte| {
        delta |= u32::from(byte & 127) << shift;
        if byte & 128 != 0 {
            shift += 7;
            return None;
        }
        id = if first { delta } else { id + delta };
        (first, delta, shift) = (false, 0, 0);
        Some(id)
    })
}

/// The numbers whose bits are set.
fn members(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes.iter().zip((0u32..).step_by(8)).flat_map(|(&byte, base)| {
        let mut left = byte;
        std::iter::from_fn(move || {
            let bit = (left != 0).then(|| left.trailing_zeros())?;
            left &= left - 1;
            Some(base + bit)
        })
    })
}

impl Index {
    /// Adds a document; its number is higher than all before.
    pub(super) fn add(&mut self, trigrams: &[u32]) -> u32 {
        let id = self.next;
        self.next += 1;
        for &gram in trigrams {
            let slot = *self.slots.entry(gram).or_insert_with(|| {
                self.posts.push(Post::default());
                self.posts.len() as u32 - 1
            });
            let post = &mut self.posts[slot as usize];
            let before = post.bytes.len();
            post.push(id);
            self.bytes = self.bytes + post.bytes.len() - before;
        }
        id
    }

    /// Bytes it holds.
    pub(super) fn size(&self) -> usize {
        self.bytes + self.posts.capacity() * size_of::<Post>() + self.slots.capacity() * 9
    }

    /// Gives back what growing reserved.
    pub(super) fn shrink(&mut self) {
        self.posts.iter_mut().for_each(|post| post.bytes.shrink_to_fit());
        self.posts.shrink_to_fit();
        self.slots.shrink_to_fit();
    }

    /// Drops dead documents: `renumber[id]` is the new number, which keeps the order, or `None`.
    pub(super) fn compact(&mut self, renumber: &[Option<u32>]) {
        let mut fresh = Self { next: renumber.iter().flatten().count() as u32, ..Self::default() };
        for (&gram, &slot) in &self.slots {
            let mut post = Post::default();
            for id in self.posts[slot as usize].ids().filter_map(|id| renumber[id as usize]) {
                post.push(id);
            }
            if post.count > 0 {
                post.bytes.shrink_to_fit();
                fresh.bytes += post.bytes.len();
                fresh.slots.insert(gram, fresh.posts.len() as u32);
                fresh.posts.push(post);
            }
        }
        *self = fresh;
    }

    fn post(&self, gram: u32) -> Option<&Post> {
        self.slots.get(&gram).and_then(|&slot| self.posts.get(slot as usize))
    }

    /// Documents that may match, in order; `None` when that is all of them. A `rough` answer looks at one trigram
    /// when that one is in many documents.
    pub(super) fn candidates(&self, need: &Need, rough: bool) -> Option<Vec<u32>> {
        match need {
            Need::Anything => None,
            Need::All { grams, also } => {
                let mut lists: Vec<_> = grams.iter().map(|&gram| self.post(gram)).collect();
                lists.sort_unstable_by_key(|post| post.map_or(0, |post| post.count));
                let mut left: Option<Vec<u32>> = None;
                for post in lists {
                    let Some(post) = post else { return Some(Vec::new()) };
                    match &mut left {
                        None => left = Some(post.ids().collect()),
                        Some(left) if rough && left.len() > (self.next / COMMON) as usize => break,
                        Some(left) if left.len() < 16 => break,
                        // a list far longer than what is left costs more than it saves
                        Some(left) if !post.is_dense() && post.count as usize > left.len() * 64 => break,
                        Some(left) => post.keep(left),
                    }
                }
                for need in also {
                    if rough && left.as_ref().is_some_and(|left| left.len() > (self.next / COMMON) as usize) {
                        break;
                    }
                    if let Some(ids) = self.candidates(need, rough) {
                        match &mut left {
                            None => left = Some(ids),
                            Some(left) => keep_common(left, ids.into_iter()),
                        }
                    }
                }
                left
            }
            Need::Any(needs) => {
                let mut all = Vec::new();
                for need in needs {
                    all.extend(self.candidates(need, rough)?);
                }
                all.sort_unstable();
                all.dedup();
                Some(all)
            }
        }
    }
}

/// A set of documents.
pub(super) struct Bits(Vec<u64>);

impl Bits {
    pub(super) fn has(&self, id: u32) -> bool {
        self.0.get((id >> 6) as usize).is_some_and(|word| word >> (id & 63) & 1 == 1)
    }
}

impl FromIterator<u32> for Bits {
    fn from_iter<I: IntoIterator<Item = u32>>(ids: I) -> Self {
        let mut words = Vec::new();
        for id in ids {
            let word = (id >> 6) as usize;
            if word >= words.len() {
                words.resize(word + 1, 0);
            }
            words[word] |= 1u64 << (id & 63);
        }
        Self(words)
    }
}

fn keep_common(left: &mut Vec<u32>, mut other: impl Iterator<Item = u32>) {
    let mut next = other.next();
    left.retain(|&id| {
        while next.is_some_and(|n| n < id) {
            next = other.next();
        }
        next == Some(id)
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_trigram_is_found_once() {
        let mut extractor = Extractor::default();
        let noise: Vec<u8> = (0..90_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for text in [&noise[..], b"", b"ab", b"abc", &noise[..5000], b"abcabcabc"] {
            extractor.run(text);
            let mut folded = Vec::new();
            fold(text, &mut folded);
            let all: BTreeSet<u32> = folded.windows(3).map(trigram).collect();
            assert_eq!(extractor.found.iter().copied().collect::<BTreeSet<_>>(), all);
            assert_eq!(extractor.found.len(), all.len());
        }
    }

    /// However common a trigram is, and however it is kept.
    #[test]
    fn lists_and_bits_hold_the_same() {
        let mut index = Index::default();
        let every = [1, 2, 5, 7, 9, 40, 700];
        let after = 4000;
        for id in 0..9000u32 {
            // the last two begin late, and the first becomes rare
            let holds =
                |k: u32| id % k == 0 && (k < 40 || id > after) && (k > 1 || id < after || id % 900 == 0);
            let grams: Vec<u32> = every.into_iter().filter(|k| holds(*k)).collect();
            assert_eq!(index.add(&grams), id);
        }
        assert!(index.post(2).unwrap().is_dense() && !index.post(40).unwrap().is_dense());
        let sum: usize = index.posts.iter().map(|post| post.bytes.len()).sum();
        assert_eq!(index.bytes, sum);
        assert!(sum < 9000, "{sum}");
        let holds = |k: u32, id: u32| {
            id.is_multiple_of(k) && (k < 40 || id > after) && (k > 1 || id < after || id.is_multiple_of(900))
        };
        for a in every {
            for b in every {
                let need = Need::All { grams: vec![a, b], also: vec![] };
                let found = index.candidates(&need, false).unwrap();
                let exact: Vec<u32> = (0..9000).filter(|id| holds(a, *id) && holds(b, *id)).collect();
                assert!(exact.iter().all(|id| found.binary_search(id).is_ok()), "{a} {b}");
                if a == b || index.post(a.min(b)).unwrap().is_dense() {
                    assert!(
                        found == exact || found.len() < 16,
                        "{a} {b}: {} for {}",
                        found.len(),
                        exact.len()
                    );
                }
            }
        }
    }

    #[test]
    fn compacting_keeps_the_living() {
        let mut index = Index::default();
        for k in 0..300u32 {
            index.add(&[1, 2 + k % 3]);
        }
        let renumber: Vec<Option<u32>> = (0..300).map(|id| (id % 2 == 0).then_some(id / 2)).collect();
        index.compact(&renumber);
        let found = index.candidates(&Need::All { grams: vec![2], also: vec![] }, false).unwrap();
        assert_eq!(found, (0..300).filter(|id| id % 6 == 0).map(|id| id / 2).collect::<Vec<u32>>());
        assert_eq!(index.add(&[1]), 150);
    }
}
