//! Symbols by words: BM25 over names, signatures and doc comments.
//!
//! A file's symbols have consecutive numbers. A changed file gets new ones at the end and leaves its old ones behind
//! dead, until there are so many that everything is numbered anew. Nothing that is shown is kept: it is read from the
//! file again.

mod facts;
mod postings;
mod terms;
mod words;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

pub use self::facts::Facts;
use self::facts::{Record, kind_of, language_of};
use self::postings::Postings;
use self::terms::Terms;
use crate::language::Language;
use crate::outline::Kind;

/// How fast a word's repetition stops to count.
const K1: f32 = 1.5;
/// How much a long symbol counts less.
const B: f32 = 0.75;
/// Dead symbols that are not worth the work.
const FEW: usize = 2048;

/// A question whose words occur more often than once in so many symbols goes through all of them in order.
const MANY: usize = 20;
/// Scores that are looked at together.
const BLOCK: usize = 64;

/// An index of the symbols of many files.
#[derive(Default)]
pub struct Index {
    terms: Terms,
    postings: Vec<Postings>,
    /// What most of the postings share.
    packed: Vec<u8>,
    records: Vec<Record>,
    /// How many words each symbol has, at least 1; 0 when it has gone. Apart from the rest, since every question goes
    /// through many of them.
    lens: Vec<u8>,
    segments: Vec<Segment>,
    files: HashMap<Arc<Path>, u32>,
    dead: usize,
    /// Words of the living.
    words: u64,
    scores: Vec<f32>,
    touched: Vec<u32>,
}

/// The symbols of one file.
struct Segment {
    first: u32,
    stamp: u64,
    /// `None` when it has been replaced.
    path: Option<Arc<Path>>,
}

/// What results must be; nothing set means everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filter<'a> {
    /// One of these kinds.
    pub kinds: &'a [Kind],
    /// One of these languages.
    pub languages: &'a [Language],
}

/// The best symbols so far, best first; of equals the first.
struct Best {
    limit: usize,
    all: Vec<(f32, u32)>,
}

impl Best {
    /// What a symbol must exceed to come in.
    fn least(&self) -> f32 {
        if self.all.len() < self.limit { 0.0 } else { self.all.last().map_or(0.0, |(score, _)| *score) }
    }

    fn take(&mut self, score: f32, id: u32) {
        let before = |(other, by): &(f32, u32)| *other > score || *other == score && *by < id;
        if self.all.len() < self.limit || self.all.last().is_some_and(|worst| !before(worst)) {
            let at = self.all.partition_point(before);
            self.all.insert(at, (score, id));
            self.all.truncate(self.limit);
        }
    }
}

impl Filter<'_> {
    fn is_empty(&self) -> bool {
        self.kinds.is_empty() && self.languages.is_empty()
    }

    fn lets(&self, tag: u8) -> bool {
        let kind = self.kinds.is_empty() || self.kinds.contains(&kind_of(tag));
        let language = self.languages.is_empty() || self.languages.contains(&language_of(tag));
        tag != Record::DEAD && kind && language
    }
}

/// A symbol that was found.
#[derive(Clone, Debug)]
pub struct Hit {
    /// The file it is in.
    pub path: Arc<Path>,
    /// How well it fits.
    pub score: f32,
    record: Record,
    container: Option<Record>,
}

/// A hit as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What it is.
    pub kind: Kind,
    /// Its name, after that of what it is in.
    pub name: String,
    /// The line of its name, from 1.
    pub line: usize,
    /// Its signature on one line.
    pub signature: String,
    /// The first line of its documentation.
    pub doc: String,
}

impl Hit {
    /// What there is to show, read from the file's content.
    #[must_use]
    pub fn show(&self, source: &[u8]) -> Found {
        let (signature, doc, line) = self.record.shown(source);
        let name = self.record.name(source);
        let name = match &self.container {
            Some(container) => {
                format!("{}{}{name}", container.name(source), self.record.language().separator())
            }
            None => name.into_owned(),
        };
        Found { kind: self.record.kind(), name, line, signature, doc }
    }
}

impl Index {
    /// How many symbols it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len() - self.dead
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The files it holds, with the stamps they came with.
    pub fn files(&self) -> impl ExactSizeIterator<Item = (&Arc<Path>, u64)> {
        self.files.iter().map(|(path, at)| (path, self.segments[*at as usize].stamp))
    }

    /// Bytes it takes.
    #[must_use]
    pub fn size(&self) -> usize {
        let postings: usize = self.postings.iter().map(Postings::heap).sum();
        let paths: usize = self.files.keys().map(|path| path.as_os_str().len() + 32).sum();
        self.terms.size()
            + postings
            + paths
            + self.postings.capacity() * size_of::<Postings>()
            + self.packed.capacity()
            + self.records.capacity() * size_of::<Record>()
            + self.lens.capacity()
            + self.segments.capacity() * size_of::<Segment>()
            + self.files.capacity() * (size_of::<(Arc<Path>, u32)>() + 1)
            + (self.scores.capacity() + self.touched.capacity()) * 4
    }

    /// Gives back what it holds in reserve, after much was added.
    pub fn shrink(&mut self) {
        self.terms.shrink();
        self.pack();
        self.postings.shrink_to_fit();
        self.records.shrink_to_fit();
        self.lens.shrink_to_fit();
        self.segments.shrink_to_fit();
        self.files.shrink_to_fit();
    }

    /// Puts all postings into one buffer: many small ones would keep many pages that are otherwise empty.
    fn pack(&mut self) {
        let old = std::mem::take(&mut self.packed);
        let own: usize = self.postings.iter().map(Postings::len).sum();
        self.packed.reserve_exact(own);
        self.postings.iter_mut().for_each(|postings| postings.pack(&old, &mut self.packed));
    }

    /// Whether it holds a file.
    #[must_use]
    pub fn contains(&self, path: &Path) -> bool {
        self.files.contains_key(path)
    }

    /// Takes in a file, in place of what it knew of it. `stamp` is the caller's mark for this state of the file.
    pub fn put(&mut self, path: impl Into<Arc<Path>>, stamp: u64, facts: &Facts) {
        let path: Arc<Path> = path.into();
        self.remove(&path);
        let first = self.records.len() as u32;
        self.words += facts.records.iter().map(|record| u64::from(record.len)).sum::<u64>();
        self.records.extend_from_slice(&facts.records);
        self.lens.extend(facts.records.iter().map(|record| record.len.max(1)));
        facts.each(|symbol, word, weight| {
            let term = self.terms.intern(word) as usize;
            if term == self.postings.len() {
                self.postings.push(Postings::default());
            }
            self.postings[term].push(first + symbol as u32, weight);
        });
        self.files.insert(Arc::clone(&path), self.segments.len() as u32);
        self.segments.push(Segment { first, stamp, path: Some(path) });
    }

    /// Forgets a file.
    pub fn remove(&mut self, path: &Path) {
        let Some(at) = self.files.remove(path) else { return };
        let segment = &mut self.segments[at as usize];
        segment.path = None;
        let first = segment.first as usize;
        let end = self.segments.get(at as usize + 1).map_or(self.records.len(), |next| next.first as usize);
        for record in &mut self.records[first..end] {
            self.words -= u64::from(record.len);
            record.tag = Record::DEAD;
        }
        self.lens[first..end].fill(0);
        self.dead += end - first;
        if self.dead > FEW && self.dead > self.records.len() / 3 {
            self.renumber();
        }
    }

    /// Leaves the dead behind.
    fn renumber(&mut self) {
        let old = std::mem::take(self);
        let mut new_ids = Vec::with_capacity(old.records.len());
        for record in &old.records {
            new_ids.push(self.records.len() as u32);
            if record.tag != Record::DEAD {
                self.records.push(*record);
                self.lens.push(record.len.max(1));
            }
        }
        for (term, postings) in old.postings.iter().enumerate() {
            let mut kept = Postings::default();
            postings.each(&old.packed, |symbol, frequency| {
                if old.records[symbol as usize].tag != Record::DEAD {
                    kept.push(new_ids[symbol as usize], frequency);
                }
            });
            if kept.count() > 0 {
                self.terms.intern(old.terms.word(term as u32));
                self.postings.push(kept);
            }
        }
        for segment in old.segments.into_iter().filter(|segment| segment.path.is_some()) {
            let Some(path) = segment.path else { continue };
            let first = new_ids.get(segment.first as usize).copied().unwrap_or(self.records.len() as u32);
            self.files.insert(Arc::clone(&path), self.segments.len() as u32);
            self.segments.push(Segment { first, stamp: segment.stamp, path: Some(path) });
        }
        self.words = old.words;
        self.pack();
    }

    /// The best `limit` symbols for the words of a query, best first, and how many fit at all.
    pub fn search(&mut self, query: &str, filter: &Filter<'_>, limit: usize) -> (Vec<Hit>, usize) {
        let mut terms = Vec::new();
        let mut buffer = String::new();
        let mut add = |word: &str| terms.extend(self.terms.get(word).filter(|term| !terms.contains(term)));
        for identifier in query.split_whitespace() {
            let mut parts = 0;
            words::split(identifier, &mut buffer, |word| {
                parts += 1;
                add(word);
            });
            if parts > 1 {
                let plain = identifier.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase);
                add(&plain.collect::<String>());
            }
        }
        let mut best = Best { limit, all: Vec::with_capacity(limit + 1) };
        let total = match self.score(&terms) {
            true => self.best_of_all(filter, &mut best),
            false => self.best_of_touched(filter, &mut best),
        };
        let hits = best.all.into_iter().filter_map(|(score, id)| self.hit(score, id)).collect();
        (hits, total)
    }

    /// Leaves the score of every symbol that has one of the terms. When those are many it says so; which they are is
    /// noted otherwise.
    fn score(&mut self, terms: &[u32]) -> bool {
        self.scores.resize(self.records.len(), 0.0);
        let living = self.len().max(1) as f32;
        let average = (self.words as f32 / living).max(1.0);
        let norms: [f32; 256] = std::array::from_fn(|len| K1 * (1.0 - B + B * len as f32 / average));
        let postings = terms.iter().map(|term| &self.postings[*term as usize]);
        let many =
            postings.map(|postings| postings.count() as usize).sum::<usize>() > self.records.len() / MANY;
        for &term in terms {
            let postings = &self.postings[term as usize];
            let within = (postings.count() as f32).min(living);
            let most = (K1 + 1.0) * (1.0 + (living - within + 0.5) / (within + 0.5)).ln();
            let (lens, scores) = (&self.lens, &mut self.scores);
            let gain = |frequency: u32, len: u8| {
                let frequency = frequency as f32;
                most * frequency / (frequency + norms[usize::from(len)])
            };
            if many {
                postings.each(&self.packed, |symbol, frequency| {
                    let len = lens[symbol as usize];
                    scores[symbol as usize] += if len == 0 { 0.0 } else { gain(frequency, len) };
                });
                continue;
            }
            postings.each(&self.packed, |symbol, frequency| {
                let len = lens[symbol as usize];
                if len == 0 {
                    return;
                }
                let score = &mut scores[symbol as usize];
                if *score == 0.0 {
                    self.touched.push(symbol);
                }
                *score += gain(frequency, len);
            });
        }
        many
    }

    /// Finds the best among all symbols; how many there are. No score is left.
    fn best_of_all(&mut self, filter: &Filter<'_>, best: &mut Best) -> usize {
        let mut total = 0;
        for (at, scores) in self.scores.chunks(BLOCK).enumerate() {
            total += scores.iter().filter(|score| **score > 0.0).count();
            let least = best.least();
            // most blocks hold nothing that could come in
            let some = scores.iter().fold(false, |some, score| some | (*score > least));
            if !some && filter.is_empty() {
                continue;
            }
            for (id, score) in (at * BLOCK..).zip(scores).filter(|(_, score)| **score > 0.0) {
                match filter.lets(self.records[id].tag) {
                    true => best.take(*score, id as u32),
                    false => total -= 1,
                }
            }
        }
        self.scores.fill(0.0);
        total
    }

    /// Finds the best among the symbols that were noted; how many there are. No score is left.
    fn best_of_touched(&mut self, filter: &Filter<'_>, best: &mut Best) -> usize {
        let mut total = 0;
        for id in self.touched.drain(..) {
            let score = std::mem::take(&mut self.scores[id as usize]);
            if filter.lets(self.records[id as usize].tag) {
                total += 1;
                best.take(score, id);
            }
        }
        total
    }

    fn hit(&self, score: f32, id: u32) -> Option<Hit> {
        // files without symbols share their first number with the next one
        let at = self.segments.partition_point(|segment| segment.first <= id).checked_sub(1)?;
        let path = Arc::clone(self.segments[at].path.as_ref()?);
        let record = self.records[id as usize];
        let container = record.up().and_then(|up| self.records.get(id.checked_sub(up)? as usize)).copied();
        Some(Hit { path, score, record, container })
    }
}
