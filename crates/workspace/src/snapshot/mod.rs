//! Snapshots: the workspace's files as they were, in git's object format, in a store of our own.
//!
//! The user's repository is never touched and never needed. Ignored files are neither stored nor deleted
//! nor written over; nested repositories (submodules too) are left alone. A restore takes an automatic
//! snapshot first and writes down what it is about to do, so that a crash in the middle loses nothing:
//! the next start finishes it.

mod abandoned;
mod advance;
mod ahead;
mod compare;
mod error;
mod growing;
mod held;
mod history;
mod look;
mod narrow;
mod object;
mod pack;
mod packed;
mod pending;
mod process;
mod restore;
mod state;
mod step;
mod store;
mod sweep;
mod tree;
mod undo;
mod written;

pub use error::SnapshotError;
pub use history::{Noted, Recording};
pub use pending::Caller;
pub use restore::Change;
pub use undo::{UndoOptions, Undone};

use crate::Workspace;
use advance::Trust;
use history::Batch;
use object::{Commit, Kind, Oid};
use pending::Pending;
use restore::{Intent, Plan};
use rustix::io::Errno;
use state::{Large, State};
use std::{
    collections::{BTreeMap, BTreeSet},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicBool},
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use step::{By, Note, Step, automatic_number};
use store::{Fresh, Store, Wait};
use tree::{Difference, Differences, Known};

/// How much of the history is kept, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// At most so many calls, with what was done in between: three times as many automatic snapshots at the most.
    pub count: usize,
    /// None older than this.
    pub age: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Self { count: 100, age: Duration::from_secs(7 * 24 * 3600) }
    }
}

/// A snapshot as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Its name.
    pub name: String,
    /// The id of its commit.
    pub id: String,
    /// When it was taken.
    pub taken: SystemTime,
    /// What its maker said about it.
    pub description: String,
}

/// What a restore did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The snapshot that is now in place.
    pub name: String,
    /// What its maker said about it.
    pub description: String,
    /// The automatic snapshot that holds everything as it was before.
    pub before: String,
    /// Each file that was touched or deliberately not touched, by path.
    pub changes: Vec<(Change, PathBuf)>,
    /// Those among them that are too large for undo: only `before` brings them back.
    pub large: Vec<PathBuf>,
}

/// What became of a restore that a crash had cut short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finished {
    /// It was finished; what was there until then is this snapshot.
    Done(String),
    /// It cannot be finished, since the snapshot is damaged: files are as the crash left them.
    Lost(String),
}

/// The snapshots of one workspace.
pub struct Snapshots {
    workspace: Arc<Workspace>,
    store: Arc<Store>,
    folder: PathBuf,
    retention: Retention,
    pending: Pending,
    state: Mutex<State>,
    /// What became of a restore that a crash had cut short.
    finished: Option<Finished>,
}

/// What a restore or an undo is about to do.
struct Planned {
    plan: Plan,
    /// The tree of what is there before.
    from: Oid,
    /// Files that are too large for automatic snapshots are part of it.
    whole: bool,
    /// What will be remembered about it, and when it was decided.
    note: Note,
    seconds: i64,
    after: BTreeMap<Vec<u8>, Option<object::Entry>>,
    gone: Vec<Vec<u8>>,
    come: Vec<Vec<u8>>,
    /// Those of them that nothing else tells of.
    empty: BTreeSet<PathBuf>,
}

impl Snapshots {
    /// Opens the store in `folder`, making it when it is not there, and finishes a restore that a crash cut short.
    ///
    /// # Errors
    /// The store cannot be made or read.
    pub fn open(
        workspace: Arc<Workspace>,
        folder: &Path,
        retention: Retention,
    ) -> Result<Self, SnapshotError> {
        let store = Arc::new(Store::open(folder, workspace.root())?);
        Self::sign(folder, workspace.root())?;
        let left = {
            let _alone = store.exclusive()?;
            Pending::left_behind(folder)?
        };
        let pending = Pending::new(folder);
        let state = Mutex::new(State { left, ..State::default() });
        let folder = folder.to_owned();
        let mut snapshots = Self { workspace, store, folder, retention, pending, state, finished: None };
        if Intent::load(&snapshots.folder)?.is_some() {
            snapshots.finished = snapshots.finish_restore()?;
        } else if !snapshots.lock().left.is_empty() {
            let mut state = snapshots.lock();
            snapshots.advance(&mut state, Trust::Stamps, None)?;
        }
        Ok(snapshots)
    }

    /// Finishes a restore that was cut short.
    fn finish_restore(&self) -> Result<Option<Finished>, SnapshotError> {
        // What was being written when the restore was cut short stands aside under a name of ours.
        self.workspace.remove_litter(&AtomicBool::new(false));
        let mut state = self.lock();
        let alone = self.store.exclusive()?;
        // Another process may have done it while this one waited.
        let Some(intent) = Intent::load(&self.folder)? else { return Ok(None) };
        let note = Note::new(By::Outside, &Caller::default());
        let planned = self.advance_with(&mut state, Trust::Stamps, &alone, |state, batch| {
            self.plan(state, batch, intent, note)
        })?;
        let planned = match planned {
            // What nobody can finish must not be in the way for ever.
            Err(SnapshotError::Io { source, .. }) if store::is_damage(&source) => {
                Intent::remove(&self.folder)?;
                self.store.settle()?;
                return Ok(Some(Finished::Lost(source.to_string())));
            }
            planned => planned?,
        };
        let before = state.steps.last().map(Step::name).unwrap_or_default();
        self.put_in_place(&mut state, planned)?;
        Ok(Some(Finished::Done(before)))
    }

    /// Waits until nothing is left to be done: what was answered lasts anyway, but the next start would have to tidy up.
    pub fn rest(&self) {
        self.store.rest();
    }

    /// What became, by opening this, of a restore that a crash had cut short.
    #[must_use]
    pub fn finished(&self) -> Option<&Finished> {
        self.finished.as_ref()
    }

    /// Whether a restore in this store was cut short and waits for [`Snapshots::open`] to finish it.
    #[must_use]
    pub fn unfinished(folder: &Path) -> bool {
        Store::is_unfinished(folder) || Intent::load(folder).is_ok_and(|intent| intent.is_some())
    }

    /// The name of the folder that holds the snapshots of the workspace at `root`, unlike any other's.
    #[must_use]
    pub fn folder_name(root: &Path) -> String {
        let name = root.file_name().unwrap_or_default().to_string_lossy();
        let name: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || "._-".contains(*c)).collect();
        format!("{name}-{}", &Kind::Blob.id(root.as_os_str().as_bytes()).to_string()[..16])
    }

    /// Takes a snapshot under a name of its own; the id of its commit.
    ///
    /// # Errors
    /// The name cannot be used or is taken, or the disk failed.
    pub fn create(&self, name: &str, description: &str) -> Result<String, SnapshotError> {
        check_name(name)?;
        let mut state = self.lock();
        let alone = self.store.exclusive()?;
        if self.store.get_ref(name)?.is_some() {
            return Err(SnapshotError::Exists(name.to_owned()));
        }
        // The journal looks at what sends no events (other names of a file, one that is being written) by itself.
        // Only who overwrites something must know more than it does.
        let id = self.advance_with(&mut state, Trust::Events, &alone, |state, batch| {
            let tree = self.whole_tree(state, batch)?;
            let (seconds, message) = (history::now(), description.to_owned());
            let commit = Commit { tree, parent: None, seconds, message };
            let id = batch.commit(&self.store, &commit)?;
            batch.drafts.extend(self.store.naming(name, &id));
            Ok::<_, SnapshotError>(id)
        })??;
        self.store.date(name);
        Ok(id.to_string())
    }

    /// Files and folders that are in no snapshot since they cannot be read, as of the last look.
    #[must_use]
    pub fn unreadable(&self) -> Vec<PathBuf> {
        self.lock().closed.iter().map(|path| to_path(path)).collect()
    }

    /// Named snapshots, newest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn list(&self) -> Result<Vec<Snapshot>, SnapshotError> {
        // Another process may have named what this one has not seen yet.
        let _alone = self.store.exclusive()?;
        self.named()
    }

    /// The same for one who has the store for itself.
    fn named(&self) -> Result<Vec<Snapshot>, SnapshotError> {
        let mut all = Vec::new();
        for (name, id) in self.store.refs()? {
            // One that is damaged is no reason to hide the others.
            let (seconds, description) = match self.store.commit(&id) {
                Ok(commit) => (commit.seconds, commit.message),
                Err(error) => (0, format!("[cannot be read: {error}]")),
            };
            let taken = UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
            // A commit tells seconds only; of two within one the name that was given later is the newer.
            let order = std::cmp::Reverse((taken, self.store.dated(&name)));
            all.push((order, Snapshot { name, id: id.to_string(), taken, description }));
        }
        all.sort_by(|(a, one), (b, other)| a.cmp(b).then_with(|| one.name.cmp(&other.name)));
        Ok(all.into_iter().map(|(_, snapshot)| snapshot).collect())
    }

    /// Forgets a snapshot.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn delete(&self, name: &str) -> Result<(), SnapshotError> {
        let _state = self.lock();
        let _alone = self.store.exclusive()?;
        if !self.store.delete_ref(name)? {
            let known = self.named()?.into_iter().map(|snapshot| snapshot.name).collect();
            // Those of calls go by themselves.
            return Err(SnapshotError::Unknown { name: name.to_owned(), known, automatic: None });
        }
        // What an unfinished restore needs may be nobody else's.
        if Intent::load(&self.folder)?.is_none() {
            self.store.reclaim()?;
        }
        Ok(())
    }

    /// Puts the workspace back to a snapshot; what is there now is in the history first.
    ///
    /// # Errors
    /// There is no such snapshot, or the disk failed; then everything is as it was, or else the error names the
    /// snapshot that is.
    pub fn restore(&self, name: &str, caller: &Caller) -> Result<Restored, SnapshotError> {
        // What is about to change again need not be indexed before.
        let _hurry = self.workspace.hurry();
        let mut state = self.lock();
        let alone = self.store.exclusive()?;
        self.reload(&mut state)?;
        let (commit, whole) = self.find(&state, name)?;
        let intent = Intent { tree: commit.tree, whole };
        let note = Note::new(Self::own_call(), caller);
        self.pending.show()?;
        let planned = self.advance_with(&mut state, Trust::Stamps, &alone, |state, batch| {
            self.plan(state, batch, intent, note)
        })??;
        let before = state.steps.last().map(Step::name).unwrap_or_default();
        let changes = self.put_in_place(&mut state, planned)?;
        // The last step is this one's, if anything changed.
        let left_out = state.steps.last().map(|step| &step.note.left_out);
        let is_large = |(change, path): &&(Change, PathBuf)| {
            let path = path.as_os_str().as_bytes();
            !change.is_kept() && left_out.is_some_and(|left_out| left_out.contains(path))
        };
        let large = changes.iter().filter(is_large).map(|(_, path)| path.clone()).collect();
        let name = name.to_owned();
        Ok(Restored { name, description: commit.message, before, changes, large })
    }

    /// The tree on disk that a snapshot is compared with: with or without what automatic ones leave out.
    fn base(&self, state: &mut State, batch: &mut Batch, whole: bool) -> Result<Oid, SnapshotError> {
        if whole {
            return self.whole_tree(state, batch);
        }
        Ok(state.seen.write(&self.store, &mut batch.writer)?)
    }

    /// How to make the disk look like the intent's tree, and the intent on its way into the store.
    fn plan(
        &self,
        state: &mut State,
        batch: &mut Batch,
        intent: Intent,
        note: Note,
    ) -> Result<Planned, SnapshotError> {
        let from = self.base(state, batch, intent.whole)?;
        let read = |id: &Oid| batch.tree(&self.store, id);
        let mut differences = Differences::between(&read, from, intent.tree)?;
        // What no automatic snapshot holds must not be lost either.
        if differences.files.iter().any(|file| file.before.is_some() && state.large.contains_key(&file.path))
        {
            self.keep_whole(state, batch, from)?;
        }
        batch.drafts.push(intent.draft(&self.folder));
        // The step that this will be, if nothing stands in its way: then only its name is left to be written.
        let (seconds, message) = (history::now(), note.message());
        batch.commit(&self.store, &Commit { tree: intent.tree, parent: None, seconds, message })?;
        let after = differences.files.iter().map(|file| (file.path.clone(), file.after)).collect();
        let (gone, come) = (differences.gone.clone(), differences.come.clone());
        differences.only_empty_folders();
        let empty = differences.gone.iter().chain(&differences.come).map(|path| to_path(path)).collect();
        let files = differences.files;
        let mut plan = Plan::new(Differences { files, gone: gone.clone(), come: come.clone() });
        plan.begin(&self.workspace, &self.store);
        Ok(Planned { plan, from, whole: intent.whole, note, seconds, after, gone, come, empty })
    }

    /// Does what is planned, and makes it a step of the history. What is there now, and what is about to be done, is
    /// safe on disk: any of it may be overwritten.
    fn put_in_place(
        &self,
        state: &mut State,
        planned: Planned,
    ) -> Result<Vec<(Change, PathBuf)>, SnapshotError> {
        let Planned { mut plan, from, whole, note, seconds, after, gone, come, empty } = planned;
        let mut fresh = Fresh::default();
        plan.know(&state.seen);
        let mut changes = match plan.run(&self.workspace, &self.store, &mut fresh) {
            Ok(changes) => changes,
            Err(error) => {
                let before = state.steps.last().map(Step::name).unwrap_or_default();
                state.forget();
                let mut fresh = Fresh::default();
                let _ = plan.back().run(&self.workspace, &self.store, &mut fresh);
                self.store.settle_with(fresh)?;
                // Who was told goes on from here: a later start must not take up again what was given up.
                Intent::remove(&self.folder)?;
                self.store.settle()?;
                // Whether everything is as it was only the disk can tell.
                let news = self.news(state, Trust::Stamps);
                let look = |state: &mut State, batch: &mut Batch| self.base(state, batch, whole);
                let now = self.take_in(state, news, None, Wait::Whole, look).and_then(|now| now);
                let files =
                    now.and_then(|now| Ok(Differences::between(&|id| self.store.tree(id), from, now)?.files));
                // What nobody can look at any more was not touched.
                let touched = |file: &Difference| {
                    let there = self.workspace.lstat(&to_path(&file.path));
                    file.after.is_some() || matches!(there, Err(Errno::NOENT | Errno::NOTDIR))
                };
                return Err(match files {
                    Ok(files) if !files.iter().any(touched) => error,
                    _ => SnapshotError::Halfway { before, why: error.to_string() },
                });
            }
        };
        for (change, path) in &changes {
            let there = if plan.made_large(path) { self.workspace.lstat(path).ok() } else { None };
            let path = path.as_os_str().as_bytes();
            let entry = after.get(path).copied().flatten();
            if change.is_kept() {
                continue;
            }
            if state.large.remove(path).is_some() || there.is_some() {
                state.left_out.insert(path.to_vec());
            }
            match (entry.map(|entry| Known { entry, stamp: None }), there) {
                (None, _) => state.seen.remove(path),
                (known, Some(stat)) => {
                    state.seen.remove(path);
                    state.large.insert(path.to_vec(), Large { stamp: look::stamp(&stat), known });
                }
                (Some(known), None) => state.seen.set(path, known),
            }
        }
        for folder in come.iter().filter(|folder| !plan.refused(&to_path(folder))) {
            state.seen.set_folder(folder);
        }
        for folder in gone.iter().rev() {
            if self.workspace.lstat(&to_path(folder)).is_err() {
                state.seen.remove(folder);
            }
        }
        self.put_step(state, note, seconds, fresh)?;
        changes.extend(plan.folders().iter().filter(|(_, path)| empty.contains(path)).cloned());
        changes.sort_by(|a, b| a.1.cmp(&b.1));
        Ok(changes)
    }

    /// A snapshot by its name, and whether it holds large files too.
    fn find(&self, state: &State, name: &str) -> Result<(Commit, bool), SnapshotError> {
        if let Some(id) = self.store.get_ref(name)? {
            return Ok((self.store.commit(&id)?, true));
        }
        let number = automatic_number(name);
        match state.steps.iter().find(|step| Some(step.number) == number) {
            Some(step) => {
                let whole = step.whole.and_then(|whole| self.store.commit(&whole).ok());
                whole.map_or_else(|| Ok((self.store.commit(&step.commit)?, false)), |whole| Ok((whole, true)))
            }
            None => Err(self.unknown(name)?),
        }
    }

    fn unknown(&self, name: &str) -> Result<SnapshotError, SnapshotError> {
        let known = self.named()?.into_iter().map(|snapshot| snapshot.name).collect();
        let steps = self.store.automatic()?;
        let automatic = steps.first().zip(steps.last()).map(|(first, last)| (first.0, last.0));
        Ok(SnapshotError::Unknown { name: name.to_owned(), known, automatic })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn check_name(name: &str) -> Result<(), SnapshotError> {
    let ok = store::is_name(name) && automatic_number(name).is_none();
    if ok { Ok(()) } else { Err(SnapshotError::Name(name.to_owned())) }
}

fn to_path(bytes: &[u8]) -> PathBuf {
    crate::beneath::as_path(bytes).to_owned()
}

#[cfg(test)]
mod tests;
