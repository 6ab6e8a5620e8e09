//! The files that are known: their stamps, their names, and the index of what is in them.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::Part;
use super::look::{INDEX_LIMIT, Look};
use super::names::{Names, RowId};
use super::need::Need;
use super::rel::{Rel, within};
use super::stamp::{Seen, Stamp};
use super::trigram::{Bits, Index};

const NOT_INDEXED: u32 = u32::MAX;
const NOBODY: RowId = RowId::MAX;
/// What a file costs beside its name and its trigrams: its entry, and its path's own copy.
const ENTRY_COST: usize = size_of::<(Rel, Entry)>() + 24;
/// Candidates beyond this share of all files are found by going through all of them in order.
const FEW: usize = 16;

/// A file that is part of the workspace.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    stamp: Stamp,
    id: u32,
    row: RowId,
    /// Searched whatever the index says.
    always: bool,
    /// Has another name, through which it changes without an event.
    linked: bool,
    /// Changes without events; searched until it is closed.
    hot: bool,
    young: bool,
}

impl Entry {
    pub(super) fn seen(&self) -> Seen {
        Seen { stamp: Some(self.stamp), young: self.young }
    }

    fn is_always_read(&self) -> bool {
        self.always || self.hot
    }
}

/// What left the index to stay within the budget.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LeftOut {
    pub(super) files: usize,
    pub(super) bytes: u64,
}

/// All files, in order of their paths.
pub(super) struct Files {
    entries: BTreeMap<Rel, Entry>,
    names: Names,
    /// Those that every search reads.
    always: BTreeSet<Rel>,
    index: Index,
    /// Whose trigrams a number of the index stands for.
    owners: Vec<RowId>,
    dead: usize,
    text_bytes: u64,
    path_bytes: usize,
    budget: usize,
    /// Files above this size are not indexed, to stay within the budget.
    limit: u64,
}

impl Files {
    pub(super) fn new(budget: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            names: Names::default(),
            always: BTreeSet::new(),
            index: Index::default(),
            owners: Vec::new(),
            dead: 0,
            text_bytes: 0,
            path_bytes: 0,
            budget,
            limit: INDEX_LIMIT,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn contains(&self, path: &Rel) -> bool {
        self.entries.contains_key(path)
    }

    /// Everything at or below a folder, in order.
    pub(super) fn within(&self, folder: &Rel, after: Option<&Rel>) -> impl Iterator<Item = (&Rel, &Entry)> {
        within(&self.entries, folder, after)
    }

    /// Files above this size are not read for the index.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Takes in a file as it was looked at, in place of what was known.
    pub(super) fn put(&mut self, path: Rel, look: &Look, trigrams: &[u32]) {
        let Look { stamp, young, always, linked } = *look;
        let (row, hot) = match self.entries.remove(&path) {
            Some(old) => {
                self.unindex(&old);
                self.text_bytes -= old.stamp.size;
                self.path_bytes -= path.bytes().len();
                self.always.remove(&path);
                self.names.set_modified(old.row, stamp.modified());
                (old.row, old.hot)
            }
            None => (self.names.add(path.bytes(), stamp.modified()), false),
        };
        let id = if trigrams.is_empty() { NOT_INDEXED } else { self.index.add(trigrams) };
        if id != NOT_INDEXED {
            self.owners.push(NOBODY);
        }
        self.text_bytes += stamp.size;
        self.attach(path, Entry { stamp, id, row, always, linked, hot, young });
    }

    /// Forgets a file; says whether it was known.
    pub(super) fn remove(&mut self, path: &Rel) -> bool {
        let taken = self.detach(path);
        taken.inspect(|entry| self.bury(entry)).is_some()
    }

    /// Takes a file out of the list, not out of the index: it is going to be put back or buried.
    pub(super) fn detach(&mut self, path: &Rel) -> Option<Entry> {
        let entry = self.entries.remove(path)?;
        self.path_bytes -= path.bytes().len();
        if entry.is_always_read() {
            self.always.remove(path);
        }
        Some(entry)
    }

    /// Puts back what was detached.
    pub(super) fn attach(&mut self, path: Rel, entry: Entry) {
        if let Some(owner) = self.owners.get_mut(entry.id as usize) {
            *owner = entry.row;
        }
        if entry.is_always_read() {
            self.always.insert(path.clone());
        }
        self.path_bytes += path.bytes().len();
        self.entries.insert(path, entry);
    }

    /// Forgets what was detached.
    pub(super) fn bury(&mut self, entry: &Entry) {
        self.text_bytes -= entry.stamp.size;
        self.names.remove(entry.row);
        self.unindex(entry);
    }

    fn unindex(&mut self, entry: &Entry) {
        if let Some(owner) = self.owners.get_mut(entry.id as usize) {
            *owner = NOBODY;
            self.dead += 1;
        }
    }

    /// The file is written without events from now on; says whether it is known.
    pub(super) fn heat(&mut self, path: &Rel) -> bool {
        let Some(entry) = self.entries.get_mut(path) else { return false };
        entry.hot = true;
        self.always.insert(path.clone());
        true
    }

    /// Nobody has it open for writing any more.
    pub(super) fn cool(&mut self, path: &Rel) {
        if let Some(entry) = self.entries.get_mut(path)
            && entry.hot
        {
            entry.hot = false;
            if !entry.always {
                self.always.remove(path);
            }
        }
    }

    /// Files whose stamps may move without an event.
    pub(super) fn uncertain(&self) -> Vec<(Rel, Seen)> {
        let entries = self.always.iter().filter_map(|path| self.entries.get_key_value(path));
        let uncertain = entries.filter(|(_, entry)| entry.linked || entry.hot);
        uncertain.map(|(path, entry)| (path.clone(), Seen { young: entry.hot, ..entry.seen() })).collect()
    }

    /// Files that bear one of these inode numbers and were not known to have another name.
    pub(super) fn twins(&self, inodes: &HashSet<u64>) -> Vec<Rel> {
        let twin = |(path, entry): (&Rel, &Entry)| {
            (!entry.linked && inodes.contains(&entry.stamp.inode)).then(|| path.clone())
        };
        self.entries.iter().filter_map(twin).collect()
    }

    /// Whether a file is known to have another name.
    pub(super) fn is_linked(&self, path: &Rel) -> bool {
        self.entries.get(path).is_some_and(|entry| entry.linked)
    }

    /// Makes room after many changes.
    pub(super) fn tidy(&mut self) {
        if self.dead > 1000 && self.dead > self.owners.len() / 2 {
            self.renumber();
        }
        if self.names.is_loose() {
            self.pack_names();
        }
    }

    /// Packs everything once it has been built.
    pub(super) fn settle(&mut self) {
        self.entries = std::mem::take(&mut self.entries).into_iter().collect();
        self.index.shrink();
        self.owners.shrink_to_fit();
        self.names.shrink();
    }

    /// Gives the living numbers without gaps.
    fn renumber(&mut self) {
        let mut next = 0;
        let renumber: Vec<Option<u32>> = self
            .owners
            .iter()
            .map(|owner| {
                (*owner != NOBODY).then(|| {
                    next += 1;
                    next - 1
                })
            })
            .collect();
        self.index.compact(&renumber);
        self.owners.retain(|owner| *owner != NOBODY);
        for entry in self.entries.values_mut() {
            entry.id = renumber.get(entry.id as usize).copied().flatten().unwrap_or(NOT_INDEXED);
        }
        self.dead = 0;
    }

    fn pack_names(&mut self) {
        let mut names = Names::default();
        for (path, entry) in &mut self.entries {
            entry.row = names.add(path.bytes(), entry.stamp.modified());
            if let Some(owner) = self.owners.get_mut(entry.id as usize) {
                *owner = entry.row;
            }
        }
        names.shrink();
        self.names = names;
    }

    /// Past the budget the largest files leave the index and are searched every time; `false`: the list alone is
    /// more than the budget.
    pub(super) fn keep_within_budget(&mut self) -> bool {
        while self.size() > self.budget {
            if self.limit == 0 {
                return false;
            }
            self.limit = if self.limit > 64 { self.limit / 2 } else { 0 };
            let limit = self.limit;
            for (path, entry) in &mut self.entries {
                if entry.id != NOT_INDEXED && entry.stamp.size > limit {
                    if let Some(owner) = self.owners.get_mut(entry.id as usize) {
                        *owner = NOBODY;
                    }
                    (entry.id, entry.always) = (NOT_INDEXED, true);
                    self.always.insert(path.clone());
                }
            }
            self.renumber();
        }
        true
    }

    /// Files below `start` that may match, in order.
    pub(super) fn candidates(&self, start: &Rel, need: &Need, part: &Part<'_>) -> Vec<Rel> {
        let below = || self.within(start, part.after);
        let Some(ids) = self.index.candidates(need, part.rough) else {
            return below().take(part.count).map(|(path, _)| path.clone()).collect();
        };
        if ids.len() > self.entries.len() / FEW {
            let ids: Bits = ids.into_iter().collect();
            let may = below().filter(|(_, entry)| entry.is_always_read() || ids.has(entry.id));
            return may.take(part.count).map(|(path, _)| path.clone()).collect();
        }
        let living =
            ids.into_iter().filter_map(|id| self.owners.get(id as usize)).filter(|row| **row != NOBODY);
        let indexed = living.map(|row| Rel::of(self.names.path(*row)));
        let mut all: Vec<Rel> = indexed
            .chain(self.always.iter().cloned())
            .filter(|path| path.is_within(start) && part.after.is_none_or(|after| path > after))
            .collect();
        all.sort_unstable();
        all.dedup();
        all.truncate(part.count);
        all
    }

    /// The `limit` newest among the files that are `wanted`, newest first, ties by path; and how many there are.
    pub(super) fn newest(&self, limit: usize, wanted: impl Fn(&[u8]) -> bool) -> (Vec<&[u8]>, usize) {
        let newest = self.names.newest(limit, wanted);
        (newest.rows.into_iter().map(|row| self.names.path(row)).collect(), newest.total)
    }

    pub(super) fn always_read(&self) -> usize {
        self.always.len()
    }

    pub(super) fn text_bytes(&self) -> u64 {
        self.text_bytes
    }

    /// Bytes that the index takes.
    pub(super) fn index_size(&self) -> usize {
        self.index.size() + self.owners.capacity() * size_of::<RowId>()
    }

    /// Bytes that all of it takes.
    pub(super) fn size(&self) -> usize {
        self.index_size() + self.names.size() + self.path_bytes + self.entries.len() * ENTRY_COST
    }

    /// What left the index to stay within the budget, and the size above which files did.
    pub(super) fn left_out(&self) -> Option<(u64, LeftOut)> {
        if self.limit == INDEX_LIMIT {
            return None;
        }
        let dropped = |entry: &&Entry| entry.stamp.size > self.limit && entry.stamp.size <= INDEX_LIMIT;
        let sizes = self.entries.values().filter(dropped).map(|entry| entry.stamp.size);
        let add = |sum: LeftOut, size| LeftOut { files: sum.files + 1, bytes: sum.bytes + size };
        Some((self.limit, sizes.fold(LeftOut::default(), add)))
    }
}
