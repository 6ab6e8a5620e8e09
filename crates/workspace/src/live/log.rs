//! What changed, for those who follow the journal.

use std::collections::{BTreeSet, VecDeque};

use super::rel::Rel;

/// Changes that are remembered.
const REMEMBERED: usize = 16_384;

/// The last changes, each with its number; 0 is nobody's, so that it can stand for "from the beginning".
pub(super) struct Log {
    sequence: u64,
    changes: VecDeque<Rel>,
}

impl Default for Log {
    fn default() -> Self {
        Self { sequence: 1, changes: VecDeque::new() }
    }
}

impl Log {
    pub(super) fn tell(&mut self, path: Rel) {
        self.sequence += 1;
        if self.changes.len() == REMEMBERED {
            self.changes.pop_front();
        }
        self.changes.push_back(path);
    }

    /// Forgets what was told so far: nobody has a cursor yet.
    pub(super) fn forget(&mut self) {
        self.changes = VecDeque::new();
    }

    /// Something changed, and nobody knows what.
    pub(super) fn lose(&mut self) {
        self.sequence += 1;
        self.changes.clear();
    }

    /// Where the journal stands.
    pub(super) fn cursor(&self) -> u64 {
        self.sequence
    }

    /// What changed since a cursor; `None` when that is too long ago to know.
    pub(super) fn since(&self, cursor: u64) -> Option<BTreeSet<Rel>> {
        let missed = usize::try_from(self.sequence.checked_sub(cursor)?).ok()?;
        let start = self.changes.len().checked_sub(missed)?;
        Some(self.changes.range(start..).cloned().collect())
    }
}
