//! Where in a large text something like another may stand, at a cost that depends on bytes alone.

use std::collections::HashMap;

use memchr::memmem;

/// Bytes that are looked through for lines that are alike.
const LOOKED_AT: usize = 32 << 20;
/// Lines that are looked for as they are, the longest first, and the hits of each.
const EXACT_LINES: usize = 6;
const EXACT_HITS: usize = 64;
/// A line of this many bytes tells something on its own.
const TELLING: usize = 4;
/// Lines that are kept of those most alike, by each measure.
const KEPT: usize = 16;
/// Byte pairs of one line that count.
const PAIRS: usize = 500;

/// A line at which something like the text may begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// Where it begins, in bytes.
    pub(super) start: usize,
    /// How many lines of the text stand where they should.
    pub(super) votes: usize,
    /// How much the longest line is like the one that stands there, from 0 to 1.
    pub(super) likeness: f64,
}

/// The places at which something like `wanted` may begin, the best first.
pub(super) fn find(text: &str, wanted: &[&str]) -> Vec<Place> {
    let mut places = voted(text, wanted, TELLING);
    if let Some((offset, longest)) = wanted.iter().enumerate().max_by_key(|(_, line)| line.trim().len()) {
        for (line, likeness) in alike(text, longest.trim()) {
            let start = lines_before(text, line, offset).unwrap_or(0);
            match places.iter_mut().find(|place| place.start == start) {
                Some(place) => place.likeness = likeness,
                None => places.push(Place { start, votes: 0, likeness }),
            }
        }
    }
    if places.iter().all(|place| place.votes == 0 && place.likeness < super::LIKE) {
        // Short lines stand everywhere; half of them where they should tell something.
        let filled = wanted.iter().filter(|line| !line.trim().is_empty()).count().min(EXACT_LINES);
        let short = voted(text, wanted, 1);
        places.extend(short.into_iter().filter(|place| place.votes * 2 >= filled));
    }
    places.sort_by(|a, b| {
        b.votes.cmp(&a.votes).then(b.likeness.total_cmp(&a.likeness)).then(a.start.cmp(&b.start))
    });
    places
}

/// The places at which lines of the text stand as they are, of those that have `least` bytes.
fn voted(text: &str, wanted: &[&str], least: usize) -> Vec<Place> {
    let mut votes: HashMap<usize, usize> = HashMap::new();
    for start in exact(text, wanted, least) {
        *votes.entry(start).or_default() += 1;
    }
    votes.into_iter().map(|(start, votes)| Place { start, votes, likeness: 0.0 }).collect()
}

/// Where the text would begin, for every place at which one of its lines stands as it is.
fn exact(text: &str, wanted: &[&str], least: usize) -> Vec<usize> {
    let mut lines: Vec<(usize, &str)> =
        wanted.iter().map(|line| line.trim()).enumerate().filter(|(_, line)| line.len() >= least).collect();
    lines.sort_by_key(|(k, line)| (std::cmp::Reverse(line.len()), *k));
    lines.truncate(EXACT_LINES);
    let mut found = Vec::new();
    for (k, wanted) in lines {
        for at in memmem::find_iter(text.as_bytes(), wanted).take(EXACT_HITS) {
            let (start, end) = line_at(text, at);
            if text[start..end].trim() == wanted {
                found.extend(lines_before(text, start, k));
            }
        }
    }
    found
}

/// The line that a byte is in.
fn line_at(text: &str, at: usize) -> (usize, usize) {
    let start = memchr::memrchr(b'\n', &text.as_bytes()[..at]).map_or(0, |newline| newline + 1);
    (start, line_end(text, at))
}

pub(super) fn line_end(text: &str, at: usize) -> usize {
    memchr::memchr(b'\n', &text.as_bytes()[at..]).map_or(text.len(), |newline| at + newline)
}

/// The beginning of the line that is `count` lines above the one that begins at `start`.
pub(super) fn lines_before(text: &str, mut start: usize, count: usize) -> Option<usize> {
    for _ in 0..count {
        start = line_at(text, start.checked_sub(1)?).0;
    }
    Some(start)
}

/// The lines most like `wanted`, with their likeness. Lines that hold most of it count as well as lines that are like it as
/// a whole.
fn alike(text: &str, wanted: &str) -> Vec<(usize, f64)> {
    let pairs = |line: &[u8]| line.len().saturating_sub(1).min(PAIRS);
    let mut slots = vec![0u16; 1 << 16];
    let mut count = 0u16;
    for pair in wanted.as_bytes().windows(2).take(PAIRS) {
        let slot = &mut slots[usize::from(pair[0]) << 8 | usize::from(pair[1])];
        if *slot == 0 {
            count += 1;
            *slot = count;
        }
    }
    if count == 0 {
        return Vec::new();
    }
    let mut seen = vec![0u32; usize::from(count) + 1];
    let (mut holding, mut like) = (Top::default(), Top::default());
    let bytes = &text.as_bytes()[..text.len().min(LOOKED_AT)];
    let (mut start, mut number) = (0, 0u32);
    while start <= bytes.len() {
        let end = memchr::memchr(b'\n', &bytes[start..]).map_or(bytes.len(), |newline| start + newline);
        let line = bytes[start..end].trim_ascii();
        number += 1;
        let mut shared = 0u32;
        for pair in line.windows(2) {
            let slot = usize::from(slots[usize::from(pair[0]) << 8 | usize::from(pair[1])]);
            if slot != 0 && seen[slot] != number {
                seen[slot] = number;
                shared += 1;
            }
        }
        if u64::from(shared) * 2 >= u64::from(count) {
            holding.put(shared, start);
            like.put(2000 * shared / (u32::from(count) + pairs(line) as u32), start);
        }
        start = end + 1;
    }
    let grams = bigrams(wanted.as_bytes());
    let mut found: Vec<(usize, f64)> = Vec::new();
    for start in holding.0.into_iter().chain(like.0).map(|(_, start)| start) {
        if !found.iter().any(|(known, _)| *known == start) {
            let line = text.as_bytes()[start..line_end(text, start)].trim_ascii();
            found.push((start, likeness(&grams, line)));
        }
    }
    found
}

/// The best few, the first of equals.
#[derive(Default)]
struct Top(Vec<(u32, usize)>);

impl Top {
    fn put(&mut self, score: u32, at: usize) {
        if self.0.len() < KEPT {
            self.0.push((score, at));
            return;
        }
        let least = self.0.iter().enumerate().min_by_key(|(_, (score, at))| (*score, std::cmp::Reverse(*at)));
        if let Some((k, (worst, _))) = least
            && score > *worst
        {
            self.0[k] = (score, at);
        }
    }
}

fn bigrams(line: &[u8]) -> HashMap<[u8; 2], i32> {
    let mut grams = HashMap::new();
    for pair in line.windows(2).take(PAIRS) {
        *grams.entry([pair[0], pair[1]]).or_default() += 1;
    }
    grams
}

/// Dice's coefficient over byte pairs: 1 for equal lines, 0 for lines that share nothing.
fn likeness(grams: &HashMap<[u8; 2], i32>, line: &[u8]) -> f64 {
    let other = bigrams(line);
    let total: i32 = grams.values().chain(other.values()).sum();
    let shared: i32 = other.iter().map(|(gram, n)| grams.get(gram).map_or(0, |m| *n.min(m))).sum();
    if total == 0 { 0.0 } else { 2.0 * f64::from(shared) / f64::from(total) }
}
