//! Words by number, compactly: one arena, one table of slots.

use std::hash::{BuildHasher as _, RandomState};

const EMPTY: u32 = u32::MAX;

/// Words, numbered from 0 in the order in which they came.
#[derive(Default)]
pub(crate) struct Terms {
    arena: String,
    ends: Vec<u32>,
    slots: Vec<u32>,
    hasher: RandomState,
}

impl Terms {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn size(&self) -> usize {
        self.arena.capacity() + 4 * (self.ends.capacity() + self.slots.capacity())
    }

    pub(crate) fn shrink(&mut self) {
        self.arena.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    pub(crate) fn word(&self, id: u32) -> &str {
        let id = id as usize;
        let start = if id == 0 { 0 } else { self.ends[id - 1] as usize };
        &self.arena[start..self.ends[id] as usize]
    }

    pub(crate) fn get(&self, word: &str) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        Some(self.slots[self.slot(word)]).filter(|id| *id != EMPTY)
    }

    /// The number of a word, which it gets if it has none.
    pub(crate) fn intern(&mut self, word: &str) -> u32 {
        if (self.len() + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        let slot = self.slot(word);
        if self.slots[slot] == EMPTY {
            self.slots[slot] = self.len() as u32;
            self.arena.push_str(word);
            self.ends.push(self.arena.len() as u32);
        }
        self.slots[slot]
    }

    /// Where a word is or would be.
    fn slot(&self, word: &str) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = self.hasher.hash_one(word) as usize & mask;
        while self.slots[at] != EMPTY && self.word(self.slots[at]) != word {
            at = (at + 1) & mask;
        }
        at
    }

    fn grow(&mut self) {
        self.slots = vec![EMPTY; (self.slots.len() * 2).max(1024)];
        for id in 0..self.len() as u32 {
            let slot = self.slot(self.word(id));
            self.slots[slot] = id;
        }
    }
}
