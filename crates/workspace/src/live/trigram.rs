//! Trigrams: which files can contain a match. A file too many is allowed, a file too few is not.
//!
//! The index knows ASCII letters in lower case only, so that one serves both cases; the two characters outside ASCII
//! that match ASCII letters when case does not count (U+212A and U+017F) are folded with them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use memchr::memmem;
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

/// Lower-cases what the index does not tell apart.
pub(crate) fn fold(text: &[u8], out: &mut Vec<u8>) {
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

fn trigram(window: &[u8]) -> u32 {
    u32::from(window[0]) << 16 | u32::from(window[1]) << 8 | u32::from(window[2])
}

/// Finds the distinct trigrams of a text. The bitmap of 2 MiB is cleaned by the list of what was found.
pub(crate) struct Extractor {
    seen: Vec<u64>,
    folded: Vec<u8>,
    pub(crate) found: Vec<u32>,
}

impl Default for Extractor {
    fn default() -> Self {
        Self { seen: vec![0; 1 << 18], folded: Vec::new(), found: Vec::new() }
    }
}

impl Extractor {
    pub(crate) fn clear(&mut self) {
        for &gram in &self.found {
            self.seen[(gram >> 6) as usize] = 0;
        }
        self.found.clear();
    }

    pub(crate) fn run(&mut self, text: &[u8]) {
        self.clear();
        fold(text, &mut self.folded);
        let mut gram = 0;
        for (at, &byte) in self.folded.iter().enumerate() {
            gram = (gram << 8 | u32::from(byte)) & 0xFF_FFFF;
            if at < 2 {
                continue;
            }
            let (word, bit) = ((gram >> 6) as usize, 1u64 << (gram & 63));
            if self.seen[word] & bit == 0 {
                self.seen[word] |= bit;
                self.found.push(gram);
            }
        }
    }
}

/// Trigrams are spread well enough by one multiplication.
#[derive(Default)]
pub(crate) struct Mix(u64);

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

/// Which documents hold which trigram: delta varints that only grow at the end. A changed file gets a new number.
#[derive(Default)]
pub(crate) struct Index {
    slots: HashMap<u32, u32, BuildHasherDefault<Mix>>,
    posts: Vec<Post>,
    next: u32,
    bytes: usize,
}

#[derive(Default)]
struct Post {
    last: u32,
    count: u32,
    bytes: Vec<u8>,
}

impl Post {
    fn push(&mut self, id: u32) -> usize {
        let before = self.bytes.len();
        let mut delta = if self.count == 0 { id } else { id - self.last };
        while delta >= 128 {
            self.bytes.push(delta as u8 | 128);
            delta >>= 7;
        }
        self.bytes.push(delta as u8);
        self.last = id;
        self.count += 1;
        self.bytes.len() - before
    }

    fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        let (mut id, mut delta, mut shift, mut first) = (0u32, 0u32, 0, true);
        self.bytes.iter().filter_map(move |&byte| {
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
}

impl Index {
    /// Adds a document; its number is higher than all before.
    pub(crate) fn add(&mut self, trigrams: &[u32]) -> u32 {
        let id = self.next;
        self.next += 1;
        for &gram in trigrams {
            let slot = *self.slots.entry(gram).or_insert_with(|| {
                self.posts.push(Post::default());
                self.posts.len() as u32 - 1
            });
            self.bytes += self.posts[slot as usize].push(id);
        }
        id
    }

    /// Bytes it holds.
    pub(crate) fn size(&self) -> usize {
        self.bytes + self.posts.capacity() * size_of::<Post>() + self.slots.capacity() * 9
    }

    /// Gives back what growing reserved.
    pub(crate) fn shrink(&mut self) {
        self.posts.iter_mut().for_each(|post| post.bytes.shrink_to_fit());
        self.posts.shrink_to_fit();
        self.slots.shrink_to_fit();
    }

    /// Drops dead documents: `renumber[id]` is the new number, which keeps the order, or `None`.
    pub(crate) fn compact(&mut self, renumber: &[Option<u32>]) {
        let mut fresh = Self { next: renumber.iter().flatten().count() as u32, ..Self::default() };
        for (&gram, &slot) in &self.slots {
            let mut post = Post::default();
            for id in self.posts[slot as usize].ids().filter_map(|id| renumber[id as usize]) {
                fresh.bytes += post.push(id);
            }
            if post.count > 0 {
                post.bytes.shrink_to_fit();
                fresh.slots.insert(gram, fresh.posts.len() as u32);
                fresh.posts.push(post);
            }
        }
        *self = fresh;
    }

    fn post(&self, gram: u32) -> Option<&Post> {
        self.slots.get(&gram).and_then(|&slot| self.posts.get(slot as usize))
    }

    /// Documents that may match, in order; `None` when that is all of them.
    pub(crate) fn candidates(&self, need: &Need) -> Option<Vec<u32>> {
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
                        // a list far longer than what is left costs more than it saves
                        Some(left) if left.len() < 16 || post.count as usize > left.len() * 64 => break,
                        Some(left) => keep_common(left, post.ids()),
                    }
                }
                for need in also {
                    if let Some(ids) = self.candidates(need) {
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
                    all.extend(self.candidates(need)?);
                }
                all.sort_unstable();
                all.dedup();
                Some(all)
            }
        }
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

/// What a text must contain to match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing in particular.
    Anything,
    /// These trigrams, and each of these needs.
    All { grams: Vec<u32>, also: Vec<Need> },
    /// One of these.
    Any(Vec<Need>),
}

/// What a part of a pattern matches: one of few strings, or whatever satisfies a need.
enum Part {
    Strings(Vec<Vec<u8>>),
    Needs(Need),
}

/// Strings that are followed at once; more make a plan longer than it helps.
const MAX_STRINGS: usize = 24;
/// Members of a class that are followed.
const MAX_CLASS: usize = 8;

impl Need {
    /// What a text must contain to match this pattern. A pattern that cannot be parsed needs nothing.
    pub(crate) fn of(pattern: &str, case_insensitive: bool, dot_matches_new_line: bool) -> Self {
        let hir = ParserBuilder::new()
            .case_insensitive(case_insensitive)
            .multi_line(true)
            .dot_matches_new_line(dot_matches_new_line)
            .utf8(false)
            .build()
            .parse(pattern);
        hir.map_or(Self::Anything, |hir| part(&hir).into_need())
    }

    fn of_strings(strings: &[Vec<u8>]) -> Self {
        if strings.is_empty() || strings.iter().any(|string| string.len() < 3) {
            return Self::Anything;
        }
        let mut needs: Vec<Self> = strings
            .iter()
            .map(|string| {
                let mut grams: Vec<u32> = string.windows(3).map(trigram).collect();
                grams.sort_unstable();
                grams.dedup();
                Self::All { grams, also: Vec::new() }
            })
            .collect();
        if needs.len() > 1 { Self::Any(needs) } else { needs.pop().unwrap_or(Self::Anything) }
    }
}

impl Part {
    fn into_need(self) -> Need {
        match self {
            Self::Strings(strings) => Need::of_strings(&strings),
            Self::Needs(need) => need,
        }
    }
}

fn part(hir: &Hir) -> Part {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Part::Strings(vec![Vec::new()]),
        // a part of a character may have been folded away with the rest of it
        HirKind::Literal(literal) if std::str::from_utf8(&literal.0).is_err() => Part::Needs(Need::Anything),
        HirKind::Literal(literal) => {
            let mut folded = Vec::new();
            fold(&literal.0, &mut folded);
            Part::Strings(vec![folded])
        }
        HirKind::Class(class) => of_class(class),
        HirKind::Capture(capture) => part(&capture.sub),
        HirKind::Repetition(repetition) => match (repetition.min, repetition.max) {
            (1, Some(1)) => part(&repetition.sub),
            (0, Some(1)) => match part(&repetition.sub) {
                Part::Strings(mut strings) if strings.len() < MAX_STRINGS => {
                    strings.push(Vec::new());
                    Part::Strings(strings)
                }
                _ => Part::Needs(Need::Anything),
            },
            (0, _) => Part::Needs(Need::Anything),
            _ => Part::Needs(part(&repetition.sub).into_need()),
        },
        HirKind::Alternation(parts) => alternation(parts),
        HirKind::Concat(parts) => concatenation(parts),
    }
}

fn alternation(parts: &[Hir]) -> Part {
    let (mut all, mut needs, mut exact) = (Vec::new(), Vec::new(), true);
    for one in parts {
        match part(one) {
            Part::Strings(strings) => {
                needs.push(Need::of_strings(&strings));
                all.extend(strings);
            }
            Part::Needs(need) => {
                exact = false;
                needs.push(need);
            }
        }
    }
    if exact && all.len() <= MAX_STRINGS {
        return Part::Strings(all);
    }
    Part::Needs(if needs.contains(&Need::Anything) { Need::Anything } else { Need::Any(needs) })
}

fn concatenation(parts: &[Hir]) -> Part {
    let mut needs = Vec::new();
    // the strings that the parts since the last break make together
    let mut run: Vec<Vec<u8>> = vec![Vec::new()];
    let mut whole = true;
    for one in parts {
        match part(one) {
            Part::Strings(strings) => {
                if strings.len() * run.len() > MAX_STRINGS {
                    needs.push(Need::of_strings(&run));
                    run = vec![Vec::new()];
                    whole = false;
                }
                run = match strings.len() {
                    0..=MAX_STRINGS => {
                        run.iter().flat_map(|a| strings.iter().map(move |b| [&a[..], b].concat())).collect()
                    }
                    _ => vec![Vec::new()],
                };
            }
            Part::Needs(need) => {
                needs.push(Need::of_strings(&run));
                needs.push(need);
                run = vec![Vec::new()];
                whole = false;
            }
        }
    }
    if whole {
        return Part::Strings(run);
    }
    needs.push(Need::of_strings(&run));
    let (mut all_grams, mut rest) = (Vec::new(), Vec::new());
    for need in needs {
        match need {
            Need::Anything => {}
            Need::All { grams, also } => {
                all_grams.extend(grams);
                rest.extend(also);
            }
            any @ Need::Any(_) => rest.push(any),
        }
    }
    if all_grams.is_empty() && rest.is_empty() {
        return Part::Needs(Need::Anything);
    }
    all_grams.sort_unstable();
    all_grams.dedup();
    Part::Needs(Need::All { grams: all_grams, also: rest })
}

fn of_class(class: &Class) -> Part {
    let mut strings: Vec<Vec<u8>> = Vec::new();
    let mut folded = Vec::new();
    match class {
        Class::Unicode(class) => {
            for range in class.ranges() {
                if range.len() > 64 {
                    return Part::Needs(Need::Anything);
                }
                for c in range.start()..=range.end() {
                    fold(c.encode_utf8(&mut [0; 4]).as_bytes(), &mut folded);
                    strings.push(folded.clone());
                }
            }
        }
        Class::Bytes(class) => {
            for range in class.ranges() {
                if range.end() >= 128 {
                    return Part::Needs(Need::Anything);
                }
                strings.extend((range.start()..=range.end()).map(|byte| vec![byte.to_ascii_lowercase()]));
            }
        }
    }
    strings.sort();
    strings.dedup();
    if strings.len() > MAX_CLASS { Part::Needs(Need::Anything) } else { Part::Strings(strings) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regex_syntax::escape;

    const CORPUS: [&str; 3] =
        [include_str!("../edit.rs"), include_str!("../walk.rs"), include_str!("../patch/hunk.rs")];

    struct Random(u64);

    impl Random {
        fn below(&mut self, n: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 11) as usize % n
        }
    }

    /// Pieces of real lines, glued with operators.
    fn pattern(random: &mut Random, line: &[char]) -> String {
        let mut out = String::new();
        let mut at = random.below(line.len() / 2);
        for _ in 0..=random.below(4) {
            let end = (at + 1 + random.below(6)).min(line.len());
            let text = escape(&line[at..end].iter().collect::<String>());
            at = end;
            out += &match random.below(13) {
                0 => format!("({text}|zz)"),
                1 => format!("(?:{text})?"),
                2 => format!("(?:{text})+"),
                3 => format!("{text}.*"),
                4 => {
                    at = (at + 1).min(line.len());
                    format!("{text}.")
                }
                5 => format!("(?i:{text})"),
                6 => format!("{text}[a-z]?"),
                7 => format!(r"{text}[ \t]*"),
                8 => format!("(?:{text}){{1,2}}"),
                9 => format!(r"(?-u:\b){text}"),
                10 => format!("(?:{text}|(?:x|y)+){{0,3}}"),
                _ => text,
            };
            if at >= line.len() {
                break;
            }
        }
        out
    }

    /// Ten thousand patterns: every text that matches is a candidate.
    #[test]
    fn no_match_is_missed() {
        let texts: Vec<String> = CORPUS
            .iter()
            .flat_map(|file| {
                file.lines().collect::<Vec<_>>().chunks(40).map(|c| c.join("\n")).collect::<Vec<_>>()
            })
            .chain(["\u{212A}elvin and long \u{17F}".to_owned(), "GRÜN grün KELVIN Straße".to_owned()])
            .collect();
        let (mut index, mut extractor) = (Index::default(), Extractor::default());
        for text in &texts {
            extractor.run(text.as_bytes());
            index.add(&extractor.found);
        }
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        let (mut tried, mut planned) = (0, 0);
        while tried < 10_000 {
            let lines: Vec<&str> = texts[random.below(texts.len())].lines().collect();
            let line: Vec<char> = lines[random.below(lines.len())].trim().chars().collect();
            if line.len() < 6 {
                continue;
            }
            let pattern = pattern(&mut random, &line);
            let insensitive = random.below(4) == 0;
            tried += 1;
            let Some(candidates) = index.candidates(&Need::of(&pattern, insensitive, false)) else {
                continue;
            };
            planned += 1;
            let matcher = grep_regex::RegexMatcherBuilder::new()
                .case_insensitive(insensitive)
                .multi_line(true)
                .build(&pattern)
                .unwrap();
            for (id, text) in texts.iter().enumerate() {
                use grep_matcher::Matcher as _;
                if candidates.binary_search(&(id as u32)).is_err() {
                    assert!(!matcher.is_match(text.as_bytes()).unwrap(), "{pattern} misses {text:?}");
                }
            }
        }
        assert!(planned > 6000, "only {planned} of {tried} patterns had trigrams");
    }

    #[test]
    fn compacting_keeps_the_living() {
        let mut index = Index::default();
        for k in 0..300u32 {
            index.add(&[1, 2 + k % 3]);
        }
        let renumber: Vec<Option<u32>> = (0..300).map(|id| (id % 2 == 0).then_some(id / 2)).collect();
        index.compact(&renumber);
        let found = index.candidates(&Need::All { grams: vec![2], also: vec![] }).unwrap();
        assert_eq!(found, (0..300).filter(|id| id % 6 == 0).map(|id| id / 2).collect::<Vec<u32>>());
        assert_eq!(index.add(&[1]), 150);
    }
}
