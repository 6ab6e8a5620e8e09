//! What is known about the tree, and how events keep it right.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::time::SystemTime;

use rustix::fs::FileType;
use rustix::fs::inotify::ReadFlags;

use super::files::Files;
use super::journal::{Event, Journal};
use super::log::Log;
use super::look::{Look, Looks, Reader};
use super::rel::Rel;
use super::stamp::{Seen, is_regular};
use super::{Gate, LiveOptions, Mode};
use crate::root::Workspace;
use crate::rules::{self, Present, Rules};
use crate::{temp, walk};

/// Files read between two looks at the index while it is built.
const BLOCK: usize = 256;

/// More events than this are left in the kernel's queue until a query takes them into account.
const MANY: usize = 16_384;

/// A folder that is part of the workspace.
pub(super) struct Place {
    pub(super) watch: Option<i32>,
    pub(super) rules: Rules,
    pub(super) present: Present,
    pub(super) seen: Seen,
    /// When it was begun to be looked at.
    pub(super) began: SystemTime,
}

/// Ignore files that send no events, and the folder to look through again when they change.
#[derive(Default)]
pub(super) struct Probes {
    /// Those inside `.git`, which is not watched.
    pub(super) excludes: BTreeMap<PathBuf, (Rel, Seen)>,
    /// The others: events tell about them, where there are events.
    pub(super) ignores: BTreeMap<PathBuf, (Rel, Seen)>,
    /// Those above the root.
    pub(super) above: Vec<(PathBuf, Seen)>,
}

/// Counters for `doctor`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) rescans: u64,
    pub(super) overflows: u64,
    pub(super) sweeps: u64,
    pub(super) swept_changes: u64,
}

/// The tree as it is known.
pub(super) struct State {
    pub(super) options: LiveOptions,
    pub(super) mode: Mode,
    pub(super) why: String,
    pub(super) journal: Option<Journal>,
    pub(super) watches: HashMap<i32, Rel>,
    pub(super) folders: BTreeMap<Rel, Place>,
    pub(super) files: Files,
    /// Symlinks: never searched, but those who follow the journal want to know.
    pub(super) links: BTreeMap<Rel, ()>,
    pub(super) dirty: BTreeSet<Rel>,
    /// Inodes of ignored files that have other names: one of those may be searched.
    shared: HashSet<u64>,
    pub(super) probes: Probes,
    pub(super) counters: Counters,
    pub(super) log: Log,
    /// Events that were read but not yet taken into account.
    pending: Vec<Event>,
    /// Times that events were taken into account.
    drains: u64,
    reader: Reader,
}

/// A moment in the journal, for the question whether one file was touched since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    drains: u64,
    pending: usize,
    cursor: u64,
}

impl State {
    /// Looks at the whole tree. Takes as long as that takes; nobody waits for it.
    pub(super) fn build(workspace: &Workspace, options: LiveOptions, gate: &Gate) -> Self {
        let (mode, why) = choose(workspace, &options);
        let mut state = Self {
            journal: if mode == Mode::Events { Journal::new(workspace.root()).ok() } else { None },
            options,
            mode,
            why,
            watches: HashMap::new(),
            folders: BTreeMap::new(),
            files: Files::new(options.budget),
            links: BTreeMap::new(),
            dirty: BTreeSet::new(),
            shared: HashSet::new(),
            probes: Probes::default(),
            counters: Counters::default(),
            log: Log::default(),
            pending: Vec::new(),
            drains: 0,
            reader: Reader::default(),
        };
        if mode == Mode::Events && state.journal.is_none() {
            state.fall_back("no inotify instance is free (fs.inotify.max_user_instances)");
        }
        if state.mode != Mode::Scan {
            state.scan(workspace, &Rel::root(), Some(gate));
            state.index_dirty_in_parallel(workspace, gate);
            state.files.settle();
            state.log.forget();
        }
        state
    }

    /// From now on stat data decide.
    pub(super) fn fall_back(&mut self, why: &str) {
        self.mode = Mode::Stat;
        why.clone_into(&mut self.why);
        // closing it takes as long as there are watches; nobody need wait
        if let Some(journal) = self.journal.take() {
            let _ = std::thread::Builder::new().spawn(move || drop(journal));
        }
        self.pending.clear();
        self.watches.clear();
        self.folders.values_mut().for_each(|place| place.watch = None);
    }

    /// From now on every query walks.
    fn give_up(&mut self) {
        self.fall_back("");
        self.mode = Mode::Scan;
        self.why = format!(
            "the list of {} files alone takes more than the budget of {} bytes",
            self.files.len(),
            self.options.budget
        );
        self.files = Files::new(self.options.budget);
        self.folders.clear();
        self.links.clear();
        self.dirty.clear();
        self.shared.clear();
        self.probes = Probes::default();
        self.log.lose();
    }

    /// Makes the state true for everything that happened before this call.
    pub(super) fn refresh(&mut self, workspace: &Workspace, by_stat: bool) {
        match self.mode {
            Mode::Events => {
                self.drain(workspace);
                if by_stat || self.mode == Mode::Stat {
                    self.revalidate(workspace);
                }
            }
            Mode::Stat => self.revalidate(workspace),
            Mode::Scan => return,
        }
        self.index_dirty(workspace);
    }

    /// The same for files that change without events as well.
    pub(super) fn refresh_all(&mut self, workspace: &Workspace, by_stat: bool) {
        self.refresh(workspace, by_stat);
        if self.mode == Mode::Events {
            let uncertain = self.files.uncertain();
            if !uncertain.is_empty() {
                self.dirty.extend(super::stamp::differing(workspace, &uncertain));
                self.index_dirty(workspace);
            }
        }
    }

    /// Whether bringing this up to date takes no time: no event waits to be taken into account.
    pub(super) fn nothing_queued(&mut self) -> bool {
        let Some(journal) = &self.journal else { return false };
        if self.pending.is_empty() {
            journal.drain(&mut self.pending);
        }
        self.mode == Mode::Events && self.pending.is_empty() && self.dirty.is_empty()
    }

    pub(super) fn drain(&mut self, workspace: &Workspace) {
        let Some(journal) = &self.journal else { return };
        let mut lost = journal.mounts_changed();
        let mut events = std::mem::take(&mut self.pending);
        journal.drain(&mut events);
        self.drains += 1;
        let mut again = self.changed_probes(workspace, false);
        for event in &events {
            lost |= !self.note(workspace, event, &mut again);
        }
        if lost {
            again = BTreeSet::from([Rel::root()]);
            // those who follow the journal must look at everything: not all they follow is in `files`
            self.log.lose();
        }
        self.rescan(workspace, again);
    }

    /// Takes one event into account; `false`: events were lost, everything is unknown.
    fn note(&mut self, workspace: &Workspace, event: &Event, again: &mut BTreeSet<Rel>) -> bool {
        let has = |flag: ReadFlags| event.flags.intersects(flag);
        if has(ReadFlags::QUEUE_OVERFLOW) {
            self.counters.overflows += 1;
            return false;
        }
        let Some(folder) = self.watches.get(&event.watch).cloned() else { return true };
        if has(ReadFlags::UNMOUNT) {
            return false;
        }
        if event.name.is_empty() {
            // a folder below tells the same to the folder above it
            let gone = has(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED);
            if has(ReadFlags::IGNORED) {
                self.watches.remove(&event.watch);
            }
            return !(gone && folder.is_root());
        }
        if event.name.starts_with(temp::PREFIX) {
            return true;
        }
        let path = folder.child(&event.name);
        if matches!(&event.name[..], b".gitignore" | b".ignore" | b".git") {
            self.log.tell(path);
            again.insert(folder);
            return true;
        }
        // Of two that changed places each leaves its name after the other has come there: a name is looked at again.
        let left = has(ReadFlags::DELETE | ReadFlags::MOVED_FROM);
        if has(ReadFlags::ISDIR) {
            self.log.tell(path.clone());
            if left {
                self.forget(&path);
                self.note_new(workspace, &folder, path, false);
            } else if has(ReadFlags::CREATE | ReadFlags::MOVED_TO | ReadFlags::ATTRIB) {
                again.insert(path);
            }
            return true;
        }
        if self.links.remove(&path).is_some() {
            self.log.tell(path.clone());
        }
        if left {
            if !self.files.contains(&path) {
                self.log.tell(path.clone());
            }
            self.drop_file(&path);
            self.note_new(workspace, &folder, path, false);
        } else if self.files.contains(&path) {
            if has(ReadFlags::CLOSE_WRITE) {
                self.files.cool(&path);
            }
            self.dirty.insert(path);
        } else {
            let came = has(ReadFlags::CREATE | ReadFlags::MOVED_TO);
            self.note_new(workspace, &folder, path, came);
        }
        true
    }

    /// A name that was not known: a file or a symlink of the workspace, or something else; whether it has just come.
    fn note_new(&mut self, workspace: &Workspace, folder: &Rel, path: Rel, came: bool) {
        let Some(place) = self.folders.get(folder) else { return };
        let Ok(stat) = workspace.lstat(path.as_ref()) else { return };
        if rules::ignored(&place.rules, path.as_ref(), false) {
            if is_regular(&stat) && stat.st_nlink > 1 {
                self.shared.insert(stat.st_ino);
            }
            // that it went is told, too
            if came && is_regular(&stat) {
                self.log.tell(path);
            }
            return;
        }
        if is_regular(&stat) {
            self.dirty.insert(path);
        } else if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            self.links.insert(path.clone(), ());
            self.log.tell(path);
        }
    }

    /// Forgets a folder and everything below it.
    pub(super) fn forget(&mut self, folder: &Rel) {
        for (path, entry) in self.detach(folder) {
            self.files.bury(&entry);
            self.log.tell(path);
        }
    }

    pub(super) fn drop_file(&mut self, path: &Rel) {
        self.dirty.remove(path);
        if self.files.remove(path) {
            self.log.tell(path.clone());
        }
    }

    /// Reads what changed.
    pub(super) fn index_dirty(&mut self, workspace: &Workspace) {
        if !self.shared.is_empty() {
            self.dirty.extend(self.files.twins(&std::mem::take(&mut self.shared)));
        }
        if self.dirty.is_empty() {
            return;
        }
        let mut reader = std::mem::take(&mut self.reader);
        while !self.dirty.is_empty() {
            let mut inodes = HashSet::new();
            for path in std::mem::take(&mut self.dirty) {
                let look = reader.look(workspace, path.as_ref(), self.files.limit());
                if let Some(look) = look.filter(|look| look.linked && !self.files.is_linked(&path)) {
                    inodes.insert(look.stamp.inode);
                }
                self.take_in(path, look, reader.trigrams());
            }
            // a second name tells nothing to the folder of the first
            if !inodes.is_empty() {
                self.dirty.extend(self.files.twins(&inodes));
            }
        }
        self.reader = reader;
        self.files.tidy();
        if !self.files.keep_within_budget() {
            self.give_up();
        }
    }

    fn take_in(&mut self, path: Rel, look: Option<Look>, trigrams: &[u32]) {
        match look {
            Some(look) => self.files.put(path.clone(), &look, trigrams),
            None => {
                self.files.remove(&path);
            }
        }
        self.log.tell(path);
    }

    /// Reads many files with all threads, block by block so that their trigrams never pile up.
    fn index_dirty_in_parallel(&mut self, workspace: &Workspace, gate: &Gate) {
        let all: Vec<Rel> = std::mem::take(&mut self.dirty).into_iter().collect();
        let threads = walk::threads();
        let mut tools: Vec<(Reader, Looks)> = (0..threads).map(|_| Default::default()).collect();
        for block in all.chunks(BLOCK) {
            gate.wait();
            if gate.is_closed() {
                return;
            }
            let limit = self.files.limit();
            let parts = || block.chunks(block.len().div_ceil(threads));
            std::thread::scope(|scope| {
                for (paths, (reader, looks)) in parts().zip(&mut tools) {
                    scope.spawn(move || looks.fill(reader, workspace, paths, limit));
                }
            });
            for (paths, (_, looks)) in parts().zip(&tools) {
                for (path, (look, trigrams)) in paths.iter().zip(looks.each()) {
                    self.take_in(path.clone(), look, trigrams);
                }
            }
            if !self.files.keep_within_budget() {
                return self.give_up();
            }
        }
    }

    /// Now, for [`State::touched`]; `None` when there are no events to ask.
    pub(super) fn mark(&mut self) -> Option<Mark> {
        if self.pending.len() > MANY {
            return None;
        }
        self.journal.as_ref()?.drain(&mut self.pending);
        Some(Mark { drains: self.drains, pending: self.pending.len(), cursor: self.log.cursor() })
    }

    /// Whether an event since `mark` was about this file, or events were lost.
    pub(super) fn touched(&mut self, mark: Mark, path: &Rel) -> bool {
        let Some(journal) = &self.journal else { return true };
        journal.drain(&mut self.pending);
        let (from, known) = if mark.drains == self.drains {
            (mark.pending, false)
        } else {
            (0, self.log.since(mark.cursor).is_none_or(|changed| changed.contains(path)))
        };
        let about = |event: &Event| {
            let Some(folder) = self.watches.get(&event.watch) else {
                return event.flags.contains(ReadFlags::QUEUE_OVERFLOW);
            };
            folder.child(&event.name) == *path
        };
        known || self.pending.get(from..).unwrap_or_default().iter().any(about)
    }
}

/// File systems whose changes all pass through this kernel.
pub(super) fn is_local(kind: u64) -> bool {
    const LOCAL: [u64; 7] =
        [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0x794C_7630, 0xF2F5_2010, 0x2FC1_2FC1];
    LOCAL.contains(&kind)
}

fn choose(workspace: &Workspace, options: &LiveOptions) -> (Mode, String) {
    if let Some(mode) = options.mode {
        return (mode, "chosen by configuration".to_owned());
    }
    match workspace.file_system() {
        Some(kind) if is_local(kind) => (Mode::Events, "local file system".to_owned()),
        Some(kind) => (Mode::Stat, format!("file system of type {kind:#x} may change without events")),
        None => (Mode::Stat, "the file system's type is unknown".to_owned()),
    }
}
