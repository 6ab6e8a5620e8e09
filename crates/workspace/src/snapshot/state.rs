//! What is known about a workspace and its history.

use super::{
    history::Open,
    pending::{Caller, Foreign, Left},
    process::Process,
    step::{By, Note, Step},
    sweep::{Found, Surroundings},
    tree::{Folder, Known, Stamp},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, PoisonError},
    time::SystemTime,
};

/// The state of the snapshots of one workspace.
#[derive(Default)]
pub(super) struct State {
    /// The files as last seen; ids of what has not changed are taken from here. The last step's tree is this.
    pub(super) seen: Folder,
    /// Whether anything was looked at yet.
    pub(super) known: bool,
    pub(super) around: Surroundings,
    /// Where the journal stood at the last look.
    pub(super) cursor: u64,
    /// Files to look at again whatever the journal says.
    pub(super) recheck: BTreeSet<Vec<u8>>,
    /// Files that are too large for automatic snapshots, and what is known of them.
    pub(super) large: BTreeMap<Vec<u8>, Large>,
    /// Those that changed since the last step, and what came to light and was there before.
    pub(super) left_out: BTreeSet<Vec<u8>>,
    /// Files and folders that cannot be read.
    pub(super) closed: BTreeSet<Vec<u8>>,
    /// The history, oldest first.
    pub(super) steps: Vec<Step>,
    pub(super) steps_stamp: Option<(u64, SystemTime)>,
    /// Calls that run now, in the order in which they began.
    pub(super) open: Vec<Open>,
    /// Those of other processes.
    pub(super) beside: Vec<Foreign>,
    /// What processes that are gone did not finish.
    pub(super) left: Left,
}

/// A file that is too large for automatic snapshots.
#[derive(Default)]
pub(super) struct Large {
    pub(super) stamp: Stamp,
    /// What is in the store, when somebody asked for a snapshot.
    pub(super) known: Option<Known>,
}

impl State {
    pub(super) fn put(&mut self, path: &[u8], known: Option<Known>) {
        match known {
            Some(known) => self.seen.set(path, known),
            None => self.seen.remove(path),
        }
    }

    /// Takes in what was found on disk, but for `except`, which is looked at again the next time.
    pub(super) fn absorb(&mut self, found: Found, except: &BTreeSet<Vec<u8>>) {
        self.recheck.clear();
        self.reveal(&found);
        for path in found.gone {
            if except.contains(&path) {
                self.recheck.insert(path);
            } else {
                self.seen.remove(&path);
                self.no_longer_large(path);
            }
        }
        let mut again = Vec::new();
        for (path, stamp) in found.folders {
            let holds =
                |inner: &Vec<u8>| inner.strip_prefix(&path[..]).is_some_and(|rest| rest.starts_with(b"/"));
            if self.seen.folder(&path).is_none() && except.iter().any(holds) {
                // Made for a file that is still being written: it comes with the file.
                let above = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                again.push(path[..above].to_vec());
                continue;
            }
            if !path.is_empty() {
                self.seen.set_folder(&path);
            }
            self.seen.set_stamp(&path, stamp);
        }
        again.iter().for_each(|path| self.seen.set_stamp(path, None));
        for (path, stamp) in found.large {
            self.seen.remove(&path);
            // What was large when first seen was not changed by anybody we know.
            if self.known && self.large.get(&path).is_none_or(|large| large.stamp != stamp) {
                self.left_out.insert(path.clone());
            }
            self.large.entry(path).or_default().stamp = stamp;
        }
        for (path, known) in found.files {
            if except.contains(&path) {
                self.recheck.insert(path);
            } else {
                self.seen.set(&path, known);
                self.no_longer_large(path);
            }
        }
    }

    /// What was there all the time and only now can be seen was not made by anybody we know: no reason to delete it.
    fn reveal(&mut self, found: &Found) {
        let hidden: BTreeSet<Vec<u8>> = self.closed.iter().chain(&found.opened).cloned().collect();
        // Nor can anything be put back where nobody may look any more.
        let seen = |path: &&Vec<u8>| self.seen.get(path).is_some() || self.seen.folder(path).is_some();
        if self.known {
            self.left_out.extend(found.closed.iter().filter(seen).chain(&found.elsewhere).cloned());
        }
        self.closed.extend(found.closed.iter().cloned());
        let files = found.files.iter().map(|(path, _)| path);
        for path in files.chain(found.folders.iter().map(|(path, _)| path)) {
            let holds = |hidden: &&Vec<u8>| {
                path.strip_prefix(hidden.as_slice()).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
            };
            let Some(hidden) = hidden.iter().find(holds) else { continue };
            self.closed.remove(hidden);
            if self.known {
                self.left_out.insert(hidden.clone());
            }
        }
    }

    fn no_longer_large(&mut self, path: Vec<u8>) {
        if self.large.remove(&path).is_some() {
            self.left_out.insert(path);
        }
    }

    /// Nothing is known any more; the next look is a look at everything.
    pub(super) fn forget(&mut self) {
        self.seen = Folder::default();
        self.large.clear();
        self.known = false;
        self.cursor = 0;
    }

    /// Whose doing a change is that no note explains.
    pub(super) fn owner(&self, ending: Option<&str>) -> Note {
        let Some(open) = self.responsible(ending) else {
            // What another process runs finds its own doings done: they are to be its call's all the same.
            let Some(Foreign { call, caller, process }) = self.beside.first() else {
                return Note::new(By::Outside, &Caller::default());
            };
            let (process, shared) = (*process, self.beside.len() > 1);
            return Note { process, shared, ..Note::new(By::Call(call.clone()), caller) };
        };
        let beside = |other: &&Open| other.foreground && other.caller.session != open.caller.session;
        let shared = !self.beside.is_empty() || self.open.iter().any(|other| beside(&other));
        Note { shared, ..Note::new(By::Call(open.call.clone()), &open.caller) }
    }

    /// Since when the call whose doing that is does nothing more.
    pub(super) fn over(&self, ending: Option<&str>) -> Option<SystemTime> {
        self.responsible(ending)?.over.get().copied()
    }

    /// Whether the call whose doing that is has said what nothing is kept of.
    pub(super) fn is_told(&self, ending: Option<&str>) -> bool {
        let told =
            self.responsible(ending).map(|open| open.told.lock().unwrap_or_else(PoisonError::into_inner));
        told.is_some_and(|told| !told.is_empty())
    }

    /// Takes in what it has said.
    pub(super) fn heed_told(&mut self, ending: Option<&str>) {
        let told = self.responsible(ending).map(|open| Arc::clone(&open.told));
        let told = told.map(|told| std::mem::take(&mut *told.lock().unwrap_or_else(PoisonError::into_inner)));
        self.left_out.extend(told.unwrap_or_default());
    }

    fn responsible(&self, ending: Option<&str>) -> Option<&Open> {
        let last = |foreground: bool| self.open.iter().rev().find(|open| open.foreground == foreground);
        let ending = ending.and_then(|call| self.open.iter().find(|open| open.call == call));
        // One in the background that ends while somebody waits for another leaves the other its doings.
        let waited = ending.filter(|open| open.foreground).or_else(|| last(true));
        waited.or(ending).or_else(|| last(false))
    }

    /// The call that a process which is gone did not finish, and whether it was answered and ran on.
    pub(super) fn interrupted(&mut self) -> Option<(Note, bool)> {
        let (call, caller) = std::mem::take(&mut self.left.calls).pop()?;
        let behind = self.left.behind.contains(&call);
        Some((Note { process: Process::GONE, ..Note::new(By::Call(call), &caller) }, behind))
    }
}
