//! Symbols by words: BM25 over names, signatures and doc comments.
//!
//! A file's symbols have consecutive numbers. A changed file gets new ones at the end and leaves its old ones behind
//! dead, until there are so many that everything is numbered anew. Nothing that is shown is kept: it is read from the
//! file again.

mod facts;
mod postings;
mod question;
mod terms;
mod words;

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

pub use self::facts::Facts;
use self::facts::{Part, Record};
use self::postings::Postings;
pub use self::question::Filter;
use self::question::Slate;
use self::terms::Terms;
use crate::outline::Kind;

/// Dead symbols that are not worth the work.
const FEW: usize = 2048;

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
    slate: Option<Slate>,
}

/// The symbols of one file.
struct Segment {
    first: u32,
    stamp: u64,
    /// `None` when it has been replaced.
    path: Option<Arc<Path>>,
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
    /// What there is to show. `read` gives a part of the file, or less where the file ends.
    pub fn show(&self, mut read: impl FnMut(Range<usize>) -> Option<Vec<u8>>) -> Option<Found> {
        let part = Part::new(self.record.span(), &mut read)?;
        let (signature, doc) = self.record.shown(&part);
        let name = self.record.name(&part);
        let name = match &self.container {
            Some(container) => {
                let around = Part::new(container.name_at(), &mut read)?;
                format!("{}{}{name}", container.name(&around), self.record.language().separator())
            }
            None => name.into_owned(),
        };
        Some(Found { kind: self.record.kind(), name, line: self.record.line as usize, signature, doc })
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
            + self.slate.as_ref().map_or(0, Slate::size)
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
}
