//! Snapshots: the workspace's files as they were, in git's object format, in a store of our own.
//!
//! The user's repository is never touched and never needed. Ignored files are neither stored nor deleted
//! nor written over; nested repositories (submodules too) are left alone. A restore takes an automatic
//! snapshot first and writes down what it is about to do, so that a crash in the middle loses nothing:
//! the next start finishes it.

mod object;
mod pack;
mod restore;
mod store;
mod sweep;
mod tree;

use crate::{Workspace, unified_diff};
use object::{Commit, Kind, Mode, Oid};
use restore::Intent;
use std::{
    io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicBool},
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use store::{Space, Store};
use tree::{Difference, Folder};

/// How many automatic snapshots are kept, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// At most this many.
    pub count: usize,
    /// None older than this.
    pub age: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Self { count: 100, age: Duration::from_secs(7 * 24 * 3600) }
    }
}

/// Why a snapshot could not be made, found or restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The name cannot be used.
    #[error(
        "\"{0}\" cannot name a snapshot: use letters, digits, `_`, `.` and `-`, not starting with `.` or `-`"
    )]
    Name(String),
    /// The name is taken.
    #[error("snapshot \"{0}\" exists; delete it first or choose another name")]
    Exists(String),
    /// There is none of that name.
    #[error("no snapshot named \"{name}\"; there are: {}", if known.is_empty() { "none".to_owned() } else { known.join(", ") })]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is, newest first.
        known: Vec<String>,
    },
    /// Nothing to go back to.
    #[error("nothing to undo: no earlier state of the workspace differs from what is there now")]
    NothingToUndo,
    /// The disk or the store failed.
    #[error("{action}: {source}")]
    Io {
        /// What was being done.
        action: String,
        /// Why it failed.
        source: io::Error,
    },
}

impl From<io::Error> for SnapshotError {
    fn from(source: io::Error) -> Self {
        Self::Io { action: "snapshot store".to_owned(), source }
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

/// What happened to one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It was not there.
    Created,
    /// It was other.
    Changed,
    /// It is gone.
    Deleted,
    /// It stands in the snapshot, but an ignored file is in its place, which was left alone.
    KeptIgnored,
}

/// What a restore did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The snapshot that is now in place.
    pub name: String,
    /// What its maker said about it.
    pub description: String,
    /// Each file that was touched or deliberately not touched, by path.
    pub changes: Vec<(Change, PathBuf)>,
}

/// The snapshots of one workspace.
pub struct Snapshots {
    workspace: Arc<Workspace>,
    store: Store,
    folder: PathBuf,
    retention: Retention,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The files as last seen; ids of what has not changed are taken from here.
    seen: Folder,
    /// The number of the next automatic snapshot.
    next: u64,
    /// Where repeated undos stand: the automatic snapshot restored last.
    undone: Option<u64>,
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
        let store = Store::open(folder)?;
        let newest = automatic_numbers(&store)?.last().copied();
        let state = State { next: newest.map_or(1, |number| number + 1), ..State::default() };
        let snapshots =
            Self { workspace, store, folder: folder.to_owned(), retention, state: Mutex::new(state) };
        if let Some(intent) = Intent::load(folder)? {
            // What was being written when the restore was cut short stands aside under a name of ours.
            snapshots.workspace.remove_litter(&AtomicBool::new(false));
            let mut state = snapshots.lock();
            snapshots.take_automatic(&mut state, "before finishing an interrupted restore")?;
            let target = Folder::load(&snapshots.store, &intent.tree)?;
            snapshots.put_in_place(&mut state, &target)?;
            Intent::remove(folder)?;
        }
        Ok(snapshots)
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
        if self.store.get_ref(Space::Named, name)?.is_some() {
            return Err(SnapshotError::Exists(name.to_owned()));
        }
        let id = self.take(&mut state, description)?;
        self.store.set_ref(Space::Named, name, &id)?;
        self.store.tidy()?;
        Ok(id.to_string())
    }

    /// Named snapshots, newest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn list(&self) -> Result<Vec<Snapshot>, SnapshotError> {
        let mut all = Vec::new();
        for (name, id) in self.store.refs(Space::Named)? {
            let commit = self.store.commit(&id)?;
            let taken = UNIX_EPOCH + Duration::from_secs(u64::try_from(commit.seconds).unwrap_or(0));
            all.push(Snapshot { name, id: id.to_string(), taken, description: commit.message });
        }
        all.sort_by(|a, b| b.taken.cmp(&a.taken).then_with(|| a.name.cmp(&b.name)));
        Ok(all)
    }

    /// Forgets a snapshot.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn delete(&self, name: &str) -> Result<(), SnapshotError> {
        let _state = self.lock();
        if self.store.delete_ref(Space::Named, name)? { Ok(()) } else { Err(self.unknown(name)?) }
    }

    /// What changed from the snapshot to now, as a unified diff of at most `max_lines` lines a file;
    /// only below `path` when one is given.
    ///
    /// # Errors
    /// There is no such snapshot, or the disk failed.
    pub fn diff(&self, name: &str, path: Option<&Path>, max_lines: usize) -> Result<String, SnapshotError> {
        let mut out = String::new();
        for difference in self.differences(name)? {
            let shown = to_path(&difference.path);
            if path.is_none_or(|path| shown.starts_with(path)) {
                self.diff_one(&shown, &difference, max_lines, &mut out)?;
            }
        }
        Ok(out)
    }

    /// The files that are other than in the snapshot, made since or gone, by path.
    ///
    /// # Errors
    /// There is no such snapshot, or the disk failed.
    pub fn changed_since(&self, name: &str) -> Result<Vec<PathBuf>, SnapshotError> {
        Ok(self.differences(name)?.iter().map(|difference| to_path(&difference.path)).collect())
    }

    fn differences(&self, name: &str) -> Result<Vec<Difference>, SnapshotError> {
        let target = self.find(name)?;
        let mut state = self.lock();
        let mut writer = self.store.writer();
        sweep::sweep(&self.workspace, &self.store, &mut writer, &mut state.seen)?;
        state.seen.write(&self.store, &mut writer)?;
        // What is on disk now must be readable by id to be compared.
        self.store.keep(writer)?;
        Ok(Folder::load(&self.store, &target.tree)?.differences(&state.seen))
    }

    fn diff_one(
        &self,
        path: &Path,
        difference: &Difference,
        max_lines: usize,
        out: &mut String,
    ) -> Result<(), SnapshotError> {
        let side = |entry: Option<object::Entry>| match entry {
            Some(entry) => self.store.read(&entry.id),
            None => Ok(Vec::new()),
        };
        let (old, new) = (side(difference.before)?, side(difference.after)?);
        let shown = crate::quoted(path);
        match (difference.before, difference.after) {
            (Some(a), Some(b)) if a.mode != b.mode => {
                out.push_str(&format!("{shown}: {} became {}\n", mode_name(a.mode), mode_name(b.mode)));
            }
            (None, Some(_)) => out.push_str(&format!("{shown}: new\n")),
            (Some(_), None) => out.push_str(&format!("{shown}: deleted\n")),
            _ => {}
        }
        let binary = |bytes: &[u8]| bytes.iter().take(8000).any(|byte| *byte == 0);
        if binary(&old) || binary(&new) {
            out.push_str(&format!("{shown}: binary, {} bytes, then {} bytes\n", old.len(), new.len()));
        } else {
            out.push_str(&unified_diff(&shown, &old, &new, max_lines));
        }
        Ok(())
    }

    /// Puts the workspace back to a snapshot; an automatic snapshot is taken first.
    ///
    /// # Errors
    /// There is no such snapshot, or the disk failed; then the next start finishes the restore.
    pub fn restore(&self, name: &str) -> Result<Restored, SnapshotError> {
        let commit = self.find(name)?;
        let mut state = self.lock();
        self.take_automatic(&mut state, &format!("before restoring {name}"))?;
        self.restore_commit(&mut state, name, &commit)
    }

    /// Takes an automatic snapshot when something changed since the last one; whether it did.
    ///
    /// # Errors
    /// The disk failed.
    pub fn automatic(&self, description: &str) -> Result<bool, SnapshotError> {
        let mut state = self.lock();
        self.take_automatic(&mut state, description)
    }

    /// Puts the workspace back to before the last change; called again, to before the one before.
    ///
    /// # Errors
    /// There is nothing to go back to, or the disk failed.
    pub fn undo(&self) -> Result<Restored, SnapshotError> {
        let mut state = self.lock();
        let numbers = automatic_numbers(&self.store)?;
        let before = state.undone;
        let mut writer = self.store.writer();
        sweep::sweep(&self.workspace, &self.store, &mut writer, &mut state.seen)?;
        let now = state.seen.write(&self.store, &mut writer)?;
        self.store.keep(writer)?;
        for number in numbers.into_iter().rev().filter(|number| before.is_none_or(|at| *number < at)) {
            let name = automatic_name(number);
            let Some(id) = self.store.get_ref(Space::Automatic, &name)? else { continue };
            let commit = self.store.commit(&id)?;
            if commit.tree != now {
                self.take_automatic(&mut state, "before undo")?;
                let restored = self.restore_commit(&mut state, &name, &commit)?;
                state.undone = Some(number);
                return Ok(restored);
            }
        }
        Err(SnapshotError::NothingToUndo)
    }

    fn restore_commit(
        &self,
        state: &mut State,
        name: &str,
        commit: &Commit,
    ) -> Result<Restored, SnapshotError> {
        let target = Folder::load(&self.store, &commit.tree)?;
        Intent { tree: commit.tree }.write(&self.folder)?;
        let changes = self.put_in_place(state, &target)?;
        Intent::remove(&self.folder)?;
        Ok(Restored { name: name.to_owned(), description: commit.message.clone(), changes })
    }

    /// Makes the disk look like `target`, from what the sweep just saw.
    fn put_in_place(
        &self,
        state: &mut State,
        target: &Folder,
    ) -> Result<Vec<(Change, PathBuf)>, SnapshotError> {
        let changes = restore::put_in_place(&self.workspace, &self.store, &state.seen, target)?;
        let mut writer = self.store.writer();
        sweep::sweep(&self.workspace, &self.store, &mut writer, &mut state.seen)?;
        self.store.keep(writer)?;
        Ok(changes)
    }

    fn take_automatic(&self, state: &mut State, description: &str) -> Result<bool, SnapshotError> {
        let mut writer = self.store.writer();
        sweep::sweep(&self.workspace, &self.store, &mut writer, &mut state.seen)?;
        let tree = state.seen.write(&self.store, &mut writer)?;
        if state.next > 1
            && let Some(last) = self.store.get_ref(Space::Automatic, &automatic_name(state.next - 1))?
            && self.store.commit(&last)?.tree == tree
        {
            return Ok(false);
        }
        let id = self.commit(writer, tree, description)?;
        self.store.set_ref(Space::Automatic, &automatic_name(state.next), &id)?;
        state.next += 1;
        state.undone = None;
        self.prune()?;
        self.store.tidy()?;
        Ok(true)
    }

    fn take(&self, state: &mut State, description: &str) -> Result<Oid, SnapshotError> {
        let mut writer = self.store.writer();
        sweep::sweep(&self.workspace, &self.store, &mut writer, &mut state.seen)?;
        let tree = state.seen.write(&self.store, &mut writer)?;
        self.commit(writer, tree, description)
    }

    fn commit(&self, mut writer: pack::PackWriter, tree: Oid, message: &str) -> Result<Oid, SnapshotError> {
        let seconds = UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs().cast_signed());
        let content = Commit { tree, seconds, message: message.to_owned() }.encode();
        let id = Kind::Commit.id(&content);
        if !self.store.contains(&id) {
            writer.put(Kind::Commit, id, &content)?;
        }
        self.store.keep(writer)?;
        Ok(id)
    }

    /// Forgets automatic snapshots past their number or age; the newest always stays.
    fn prune(&self) -> Result<(), SnapshotError> {
        let numbers = automatic_numbers(&self.store)?;
        let excess = numbers.len().saturating_sub(self.retention.count.max(1));
        let oldest = UNIX_EPOCH.elapsed().unwrap_or_default().saturating_sub(self.retention.age);
        for (nth, number) in numbers.iter().enumerate().take(numbers.len().saturating_sub(1)) {
            let name = automatic_name(*number);
            let expired = || -> io::Result<bool> {
                let Some(id) = self.store.get_ref(Space::Automatic, &name)? else { return Ok(false) };
                Ok(self.store.commit(&id)?.seconds < oldest.as_secs().cast_signed())
            };
            if nth < excess || expired()? {
                self.store.delete_ref(Space::Automatic, &name)?;
            } else {
                break;
            }
        }
        Ok(())
    }

    fn find(&self, name: &str) -> Result<Commit, SnapshotError> {
        match self.store.get_ref(Space::Named, name)? {
            Some(id) => Ok(self.store.commit(&id)?),
            None => Err(self.unknown(name)?),
        }
    }

    fn unknown(&self, name: &str) -> Result<SnapshotError, SnapshotError> {
        let known = self.list()?.into_iter().map(|snapshot| snapshot.name).collect();
        Ok(SnapshotError::Unknown { name: name.to_owned(), known })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn check_name(name: &str) -> Result<(), SnapshotError> {
    let rest = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    let ok = name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric() || first == b'_')
        && name.bytes().all(rest)
        && name.len() <= 200;
    if ok { Ok(()) } else { Err(SnapshotError::Name(name.to_owned())) }
}

fn automatic_name(number: u64) -> String {
    format!("{number:010}")
}

/// Oldest first.
fn automatic_numbers(store: &Store) -> io::Result<Vec<u64>> {
    let mut numbers: Vec<u64> =
        store.refs(Space::Automatic)?.into_iter().filter_map(|(name, _)| name.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

fn to_path(bytes: &[u8]) -> PathBuf {
    crate::beneath::as_path(bytes).to_owned()
}

fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::File => "a file",
        Mode::Executable => "executable",
        Mode::Symlink => "a symlink",
        Mode::Tree => "a folder",
    }
}
