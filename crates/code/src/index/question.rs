//! A question: the best symbols for some words, by BM25.

use super::facts::{Record, kind_of, language_of};
use super::postings::{MOST, Walk};
use super::{Hit, Index, words};
use crate::language::Language;
use crate::outline::Kind;

/// How fast a word's repetition stops to count.
const K1: f32 = 1.5;
/// How much a long symbol counts less.
const B: f32 = 0.75;

/// Symbols that are looked at together: their scores stay in the processor's cache.
const TILE: usize = 4096;
/// Scores that are looked at in one go.
const BLOCK: usize = 64;
const _: () = assert!(TILE / BLOCK == u64::BITS as usize, "a bit for each block");
/// How often a word can be in a symbol, from 0.
const OFTEN: usize = MOST as usize + 1;

/// From so many words on a question is a sentence.
const SENTENCE: usize = 5;
/// Words that make a sentence and tell nothing about what it asks for. In identifiers (`to_string`) they count.
const FILLERS: &[&str] = &[
    "a", "an", "and", "are", "as", "at", "be", "by", "can", "do", "does", "for", "from", "how", "in", "is",
    "it", "of", "on", "or", "that", "the", "this", "to", "what", "when", "where", "which", "with",
];

/// What results must be; nothing set means everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filter<'a> {
    /// One of these kinds.
    pub kinds: &'a [Kind],
    /// One of these languages.
    pub languages: &'a [Language],
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

/// A word of a question, and where it stands.
struct Asked<'a> {
    rarity: f32,
    /// What it counts wherever it stands, whatever else is said there.
    gain: Option<f32>,
    walk: Walk<'a>,
}

/// What every question needs room for.
pub(super) struct Slate {
    /// Those of the symbols that are looked at; nothing is left of them afterwards.
    scores: Box<[f32; TILE]>,
    lens: Box<[u8; TILE]>,
    /// What a word counts, by a symbol's length and how often it is there.
    shares: Box<[f32; 256 * OFTEN]>,
    /// The average length for which that is so.
    average: f32,
}

impl Default for Slate {
    fn default() -> Self {
        let (scores, lens, shares) = (Box::new([0.0; _]), Box::new([0; _]), Box::new([0.0; _]));
        Self { scores, lens, shares, average: 0.0 }
    }
}

impl Slate {
    pub(super) fn size(&self) -> usize {
        size_of_val(&*self.scores) + size_of_val(&*self.lens) + size_of_val(&*self.shares)
    }

    fn prepare(&mut self, average: f32) {
        if self.average == average {
            return;
        }
        self.average = average;
        for (at, share) in self.shares.iter_mut().enumerate() {
            let (len, often) = (at / OFTEN, (at % OFTEN) as f32);
            let norm = K1 * (1.0 - B + B * len as f32 / average);
            // what is dead has no length, and no score
            *share = if len == 0 { 0.0 } else { (K1 + 1.0) * often / (often + norm) };
        }
    }
}

impl Index {
    /// The best `limit` symbols for the words of a query, best first, and how many fit at all.
    pub fn search(&mut self, query: &str, filter: &Filter<'_>, limit: usize) -> (Vec<Hit>, usize) {
        let terms = self.terms_of(query);
        let living = self.len().max(1) as f32;
        let average = (self.words as f32 / living).max(1.0);
        let mut slate = self.slate.take().unwrap_or_default();
        slate.prepare(average);
        let mut walks: Vec<Asked<'_>> = terms
            .iter()
            .map(|term| {
                let postings = &self.postings[*term as usize];
                let within = (postings.count() as f32).min(living);
                let rarity = (1.0 + (living - within + 0.5) / (within + 0.5)).ln();
                Asked { rarity, gain: None, walk: postings.walk(&self.packed) }
            })
            .collect();
        // what is called as the question is comes first, however much else is said about it
        if let Some(name) = self.terms.get(&words::whole(query)) {
            let most = walks.iter().map(|asked| asked.rarity * (K1 + 1.0)).sum::<f32>();
            let walk = self.postings[name as usize].walk(&self.packed);
            walks.push(Asked { rarity: 0.0, gain: Some(most + 1.0), walk });
        }
        let mut best = Best { limit, all: Vec::with_capacity(limit + 1) };
        let mut total = 0;
        while let Some(next) = walks.iter_mut().filter_map(|asked| asked.walk.next_symbol()).min() {
            let first = next as usize / TILE * TILE;
            total += self.look(first, &mut walks, &mut slate, filter, &mut best);
        }
        drop(walks);
        self.slate = Some(slate);
        let hits = best.all.into_iter().filter_map(|(score, id)| self.hit(score, id)).collect();
        (hits, total)
    }

    /// The words of a query that occur at all: identifiers in parts and as a whole.
    fn terms_of(&self, query: &str) -> Vec<u32> {
        let filler = |word: &&str| {
            let word = word.trim_matches(|c: char| !c.is_alphanumeric());
            FILLERS.iter().any(|filler| filler.eq_ignore_ascii_case(word))
        };
        if query.split_whitespace().count() < SENTENCE {
            return self.terms_in(query.split_whitespace());
        }
        match self.terms_in(query.split_whitespace().filter(|word| !filler(word))) {
            none if none.is_empty() => self.terms_in(query.split_whitespace()),
            terms => terms,
        }
    }

    fn terms_in<'q>(&self, query: impl Iterator<Item = &'q str>) -> Vec<u32> {
        let mut terms = Vec::new();
        let mut buffer = String::new();
        let mut add = |word: &str| {
            let term = self.terms.get(word);
            terms.extend(term.filter(|term| !terms.contains(term)));
            term.is_some()
        };
        for identifier in query {
            let (mut parts, mut known) = (0, false);
            words::split(identifier, &mut buffer, |word| {
                parts += 1;
                known |= add(word);
            });
            // a word that is none may be a name without its humps
            if parts > 1 || !known {
                add(&words::whole(identifier));
            }
        }
        terms
    }

    /// Goes through the symbols from `first` on, as many as are looked at together; how many fit.
    fn look(
        &self,
        first: usize,
        walks: &mut [Asked<'_>],
        slate: &mut Slate,
        filter: &Filter<'_>,
        best: &mut Best,
    ) -> usize {
        let Slate { scores, lens, shares, .. } = slate;
        let here = self.lens.len().min(first + TILE) - first;
        lens[..here].copy_from_slice(&self.lens[first..][..here]);
        // the blocks that have a score
        let mut blocks = 0u64;
        for Asked { rarity, gain, walk } in walks {
            walk.until((first + TILE) as u64, |symbol, often| {
                let at = symbol as usize % TILE;
                blocks |= 1 << (at / BLOCK);
                scores[at] += match gain {
                    Some(gain) if lens[at] > 0 => *gain,
                    Some(_) => 0.0,
                    None => *rarity * shares[usize::from(lens[at]) * OFTEN + often as usize % OFTEN],
                };
            });
        }
        let mut total = 0;
        while blocks != 0 {
            let block = blocks.trailing_zeros() as usize;
            blocks &= blocks - 1;
            let Some(scores) = scores.chunks_mut(BLOCK).nth(block) else { break };
            let least = best.least();
            let (count, some) = scores.iter().fold((0, 0), |(count, some), score| {
                (count + u32::from(*score > 0.0), some | u32::from(*score > least))
            });
            total += count as usize;
            // most blocks hold nothing that could come in
            if some != 0 || !filter.is_empty() {
                let all = (first + block * BLOCK..).zip(&*scores);
                for (id, score) in all.filter(|(_, score)| **score > 0.0) {
                    match filter.lets(self.records[id].tag) {
                        true => best.take(*score, id as u32),
                        false => total -= 1,
                    }
                }
            }
            scores.fill(0.0);
        }
        total
    }

    fn hit(&self, score: f32, id: u32) -> Option<Hit> {
        // files without symbols share their first number with the next one
        let at = self.segments.partition_point(|segment| segment.first <= id).checked_sub(1)?;
        let path = std::sync::Arc::clone(self.segments[at].path.as_ref()?);
        let record = self.records[id as usize];
        let container = record.up().and_then(|up| self.records.get(id.checked_sub(up)? as usize)).copied();
        Some(Hit { path, score, record, container })
    }
}
