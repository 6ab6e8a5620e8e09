//! Making the disk look like a tree, so that a crash in the middle loses nothing.

mod ground;
mod hand;

pub(super) use self::ground::{Ground, in_place};
use self::hand::{Coming, Hand, write_all};

use super::{
    SnapshotError,
    object::Oid,
    store::{Draft, Fresh, Store},
    to_path,
    tree::{Difference, Differences, Folder, Stamp},
    written::Written,
};
use crate::{Workspace, beneath::split, guarded, walk};
use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, Mode as Bits},
    io::Errno,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Up to this many files each is written aside and put in its place whole; more are written over, with one barrier
/// for all. The intent on disk makes up for a crash in between.
const ONE_BY_ONE: usize = 100;
/// What happened to one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It was not there.
    Created,
    /// It was other.
    Changed,
    /// It is gone.
    Deleted,
    /// It is a folder that was not there; what is in it, if anything, is told by itself.
    MadeFolder,
    /// It is a folder that is gone.
    RemovedFolder,
    /// It stands in the snapshot, but an ignored file is in its place, which was left alone.
    KeptIgnored,
    /// It stands in the snapshot, but its folder belongs to a repository inside the workspace now, which was left alone.
    KeptRepository,
    /// It was changed while the restore was under way, and was left alone.
    KeptNewer,
    /// It stands in the snapshot, but a pipe, a socket or a device is in its place or on the way to it, which was left
    /// alone.
    KeptSpecial,
    /// It stands in the snapshot, but a file is in its place that is not part of the history, which was left alone: it
    /// cannot be read, is too large, or has just come.
    KeptUnknown,
    /// It would go back to before a call, but somebody else adds to it, and it was left alone.
    KeptGrowing,
}

impl Change {
    fn came(was_there: bool) -> Self {
        if was_there { Self::Changed } else { Self::Created }
    }

    /// Whether a file is other than before.
    #[must_use]
    pub fn is_of_file(self) -> bool {
        matches!(self, Self::Created | Self::Changed | Self::Deleted)
    }

    /// Whether the file was deliberately not touched.
    #[must_use]
    pub fn is_kept(self) -> bool {
        matches!(
            self,
            Self::KeptNewer
                | Self::KeptIgnored
                | Self::KeptRepository
                | Self::KeptSpecial
                | Self::KeptUnknown
                | Self::KeptGrowing
        )
    }
}

/// What a restore is about to do, on disk before it begins and gone when it is done.
#[derive(Clone, Copy)]
pub(super) struct Intent {
    pub(super) tree: Oid,
    /// The tree also holds files that are too large for automatic snapshots.
    pub(super) whole: bool,
}

const INTENT: &str = "restore-in-progress";

impl Intent {
    pub(super) fn load(folder: &Path) -> io::Result<Option<Self>> {
        match fs::read(folder.join(INTENT)) {
            // What does not name a tree, whatever it is, asks for nothing.
            Ok(text) => {
                let text = String::from_utf8_lossy(&text);
                let mut words = text.split_whitespace();
                let tree = words.next().and_then(Oid::parse);
                Ok(tree.map(|tree| Self { tree, whole: words.next() == Some("whole") }))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn draft(&self, folder: &Path) -> Draft {
        let what = if self.whole { "whole" } else { "automatic" };
        Draft { path: folder.join(INTENT), content: format!("{} {what}\n", self.tree) }
    }

    /// Gone for good once the store is settled.
    pub(super) fn remove(folder: &Path) -> io::Result<()> {
        fs::remove_file(folder.join(INTENT))
    }
}

/// What is to be done to go from one tree to another.
pub(super) struct Plan {
    gone: Vec<Difference>,
    gone_folders: Vec<PathBuf>,
    come_folders: Vec<PathBuf>,
    come: Vec<Difference>,
    /// Where something stands that is not ours, and what that means; known once what goes is gone.
    kept: Option<BTreeMap<Vec<u8>, Change>>,
    /// Files that say what is ignored, as far as they are in their place.
    rules: BTreeSet<Vec<u8>>,
    /// One file that cannot be written is no reason to leave the others.
    stubborn: bool,
    /// Files that came and are too large for automatic snapshots.
    large: BTreeSet<PathBuf>,
    /// Folders that were made and removed.
    folders: Vec<(Change, PathBuf)>,
    /// Folders that are nothing to put anything into, whether they are there or not.
    refused: BTreeSet<PathBuf>,
    /// What the file system said about files that are to be replaced or to go, when they were looked at.
    stamps: HashMap<Vec<u8>, Stamp>,
    /// What is to come, as far as it is written already.
    written: Written,
}

impl Plan {
    pub(super) fn new(differences: Differences) -> Self {
        let Differences { files, gone, come } = differences;
        let (gone_files, come_files) = files.into_iter().partition(|file| file.after.is_none());
        let paths = |all: Vec<Vec<u8>>| all.iter().map(|path| to_path(path)).collect();
        Self {
            gone: gone_files,
            gone_folders: paths(gone),
            come_folders: paths(come),
            come: come_files,
            kept: None,
            rules: BTreeSet::new(),
            stubborn: false,
            large: BTreeSet::new(),
            folders: Vec::new(),
            refused: BTreeSet::new(),
            stamps: HashMap::new(),
            written: Written::default(),
        }
    }

    /// Learns what files looked like that are to be replaced or to go: what looks otherwise by then is left alone.
    pub(super) fn know(&mut self, seen: &Folder) {
        let stamp = |file: &Difference| Some((file.path.clone(), seen.get(&file.path)?.stamp?));
        self.stamps = self.gone.iter().chain(&self.come).filter_map(stamp).collect();
    }

    /// Begins to write what is to come, while somebody waits for the disk.
    pub(super) fn begin(&mut self, workspace: &Arc<Workspace>, store: &Arc<Store>) {
        if self.come.len() + self.gone.len() <= ONE_BY_ONE {
            self.written = Written::begin(workspace, store, &self.come);
        }
    }

    /// Folders that were made and removed.
    pub(super) fn folders(&self) -> &[(Change, PathBuf)] {
        &self.folders
    }

    /// Whether a folder did not come.
    pub(super) fn refused(&self, folder: &Path) -> bool {
        self.refused.contains(folder)
    }

    /// Whether a file that came is too large for automatic snapshots.
    pub(super) fn made_large(&self, path: &Path) -> bool {
        self.large.contains(path)
    }

    /// The way back, as far as this one may have been gone.
    pub(super) fn back(&self) -> Self {
        let turned = |file: &Difference| Difference {
            path: file.path.clone(),
            before: file.after,
            after: file.before,
        };
        // Where nothing was written yet there is nothing of ours to take away.
        let ours = |file: &&Difference| {
            let written = self.kept.as_ref().is_some_and(|kept| !kept.contains_key(&file.path));
            written || self.rules.contains(&file.path)
        };
        let (written, made): (Vec<_>, Vec<_>) =
            self.come.iter().filter(ours).map(turned).partition(|file| file.after.is_some());
        Self {
            gone: made,
            gone_folders: self.come_folders.clone(),
            come_folders: self.gone_folders.clone(),
            come: self.gone.iter().map(turned).chain(written).collect(),
            kept: None,
            rules: BTreeSet::new(),
            stubborn: true,
            large: BTreeSet::new(),
            folders: Vec::new(),
            refused: BTreeSet::new(),
            stamps: HashMap::new(),
            written: Written::default(),
        }
    }

    /// Makes the disk so. Each file appears whole or not at all, unless there are many: then a kill may leave one
    /// half-written, and the intent says what it should be.
    /// What is still to be synced is added to `fresh`.
    pub(super) fn run(
        &mut self,
        workspace: &Workspace,
        store: &Store,
        fresh: &mut Fresh,
    ) -> Result<Vec<(Change, PathBuf)>, SnapshotError> {
        let mut changes = Vec::new();
        self.written.enough();
        self.put_rules(workspace, store, fresh)?;
        let rules = &self.rules;
        // What goes away goes first, deepest first, so that a folder can become a file and a file a folder.
        for difference in self.gone.iter().rev() {
            let path = to_path(&difference.path);
            if !rules.is_empty() && walk::leaves_out_file(workspace, &path) {
                // It was ignored then and is again: only in between it was not.
                changes.push((Change::KeptIgnored, path));
                continue;
            }
            let stamp = self.stamps.get(&difference.path);
            match remove_file(workspace, &path, stamp).map_err(|errno| failed("delete", &path, errno)) {
                Err(_) if self.stubborn => {}
                done => changes.push((done?, path)),
            }
        }
        for folder in self.gone_folders.iter().rev() {
            if !rules.is_empty() && walk::leaves_out(workspace, Path::new(""), folder) {
                continue;
            }
            // Not empty means that something ignored lives there, which stays.
            if remove_folder(workspace, folder).is_ok() {
                self.folders.push((Change::RemovedFolder, folder.clone()));
            }
        }
        let mut ground = Ground::new(workspace);
        for folder in &self.come_folders {
            if ground.refuses(folder).is_some() {
                self.refused.insert(folder.clone());
                continue;
            }
            match make_folder(workspace, store, folder).map_err(|errno| failed("make", folder, errno)) {
                Err(_) if self.stubborn => {}
                done => {
                    if done? {
                        self.folders.push((Change::MadeFolder, folder.clone()));
                    }
                }
            }
        }
        let mut kept = BTreeMap::new();
        for file in self.come.iter().filter(|file| !rules.contains(&file.path)) {
            let path = to_path(&file.path);
            let above = ground.refuses_file(&path);
            let there = || if file.before.is_none() { workspace.lstat(&path).ok() } else { None };
            if let Some(why) =
                above.or_else(|| there().map(|stat| in_place(workspace, &path, &stat, rules.is_empty())))
            {
                kept.insert(file.path.clone(), why);
            }
        }
        let kept = &*self.kept.insert(kept);
        let write: Vec<Coming> = self
            .come
            .iter()
            .filter(|file| !kept.contains_key(&file.path) && !rules.contains(&file.path))
            .filter_map(|file| {
                let (path, entry, was_there) = (to_path(&file.path), file.after?, file.before.is_some());
                Some(Coming { path, entry, was_there, stamp: self.stamps.get(&file.path).copied() })
            })
            .collect();
        let many = write.len() + self.gone.len() > ONE_BY_ONE;
        let begin = || Hand::new(workspace, store, &self.written, many);
        let hands = write_all(begin, &write, many, self.stubborn)?;
        changes.extend(kept.iter().map(|(path, why)| (*why, to_path(path))));
        let rules = self.come.iter().filter(|file| rules.contains(&file.path));
        changes.extend(rules.map(|file| (Change::came(file.before.is_some()), to_path(&file.path))));
        let mut newer = BTreeSet::new();
        for hand in hands {
            fresh.add(hand.fresh);
            self.large.extend(hand.large);
            newer.extend(hand.newer);
        }
        for Coming { path, was_there, .. } in write {
            let change = if newer.contains(&path) { Change::KeptNewer } else { Change::came(was_there) };
            changes.push((change, path));
        }
        self.settle(workspace, &changes, fresh)?;
        changes.sort_by(|a, b| a.1.cmp(&b.1));
        Ok(changes)
    }

    /// Puts files that say what is ignored in their place before anything is deleted.
    fn put_rules(
        &mut self,
        workspace: &Workspace,
        store: &Store,
        fresh: &mut Fresh,
    ) -> Result<(), SnapshotError> {
        let mut hand = Hand::new(workspace, store, &self.written, false);
        let mut ground = Ground::new(workspace);
        let decide = |file: &&Difference| decides(&to_path(&file.path));
        for file in self.gone.iter().chain(&self.come).filter(decide) {
            let path = to_path(&file.path);
            let stamp = self.stamps.get(&file.path).copied();
            let put = match file.after {
                None => remove_file(workspace, &path, stamp.as_ref())
                    .map(|change| !change.is_kept())
                    .map_err(|errno| failed("delete", &path, errno)),
                // Where something else stands in its way, it comes with the others.
                Some(_) if file.before.is_none() && workspace.lstat(&path).is_ok() => continue,
                Some(_) if parent(workspace, &path).is_err() => continue,
                Some(_) if ground.refuses(path.parent().unwrap_or(Path::new(""))).is_some() => continue,
                Some(entry) => hand
                    .put(&Coming { path, entry, was_there: false, stamp })
                    .map(|()| hand.newer.pop().is_none()),
            };
            match put {
                Err(_) if self.stubborn => {}
                // What somebody saved meanwhile is told with the others.
                put => {
                    if put? {
                        self.rules.insert(file.path.clone());
                    }
                }
            }
        }
        fresh.add(hand.fresh);
        Ok(())
    }

    /// Sees to it that names are synced with the files.
    fn settle(
        &self,
        workspace: &Workspace,
        changes: &[(Change, PathBuf)],
        fresh: &mut Fresh,
    ) -> Result<(), SnapshotError> {
        if changes.len() > ONE_BY_ONE {
            let root = workspace.root.open_dir(Path::new(""));
            let root = root.map_err(|errno| failed("open", Path::new("."), errno))?;
            (fresh.files, fresh.system) = (Vec::new(), Some(root.into()));
            return Ok(());
        }
        let parent = |path: &Path| path.parent().unwrap_or(Path::new("")).to_owned();
        let mut folders: BTreeSet<PathBuf> = changes.iter().map(|(_, path)| parent(path)).collect();
        folders.extend(self.come_folders.iter().chain(&self.gone_folders).map(|path| parent(path)));
        // Where a folder is gone with what was in it, the folder above knows.
        fresh
            .files
            .extend(folders.iter().filter_map(|path| workspace.root.open_dir(path).ok()).map(File::from));
        Ok(())
    }
}

/// Whether a file says what is ignored.
pub(super) fn decides(path: &Path) -> bool {
    path.ends_with(".gitignore") || path.ends_with(".ignore")
}

fn failed(what: &str, path: &Path, errno: Errno) -> SnapshotError {
    SnapshotError::Io { action: format!("{what} {}", path.display()), source: errno.into() }
}

fn parent(workspace: &Workspace, path: &Path) -> Result<(OwnedFd, std::ffi::OsString), Errno> {
    // No snapshot holds anything of git's own; one that does was not made here.
    if guarded::in_git(path) {
        return Err(Errno::PERM);
    }
    let (folder, name) = split(path).ok_or(Errno::INVAL)?;
    Ok((workspace.root.open_dir(folder)?, name.to_owned()))
}

fn remove_file(workspace: &Workspace, path: &Path, stamp: Option<&Stamp>) -> Result<Change, Errno> {
    let (folder, name) = match parent(workspace, path) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Change::Deleted),
        found => found?,
    };
    let there = || rustix::fs::statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW).ok();
    if stamp.is_some() && is_newer(there().as_ref(), stamp) {
        return Ok(Change::KeptNewer);
    }
    match rustix::fs::unlinkat(folder, &name, AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(Change::Deleted),
        done => done.map(|()| Change::Deleted),
    }
}

/// Whether a file is there that is no longer what was looked at. That another of its names went away is no change.
fn is_newer(there: Option<&rustix::fs::Stat>, stamp: Option<&Stamp>) -> bool {
    let key = |stamp: &Stamp| (stamp.inode, stamp.size, stamp.mtime);
    there.zip(stamp).is_some_and(|(there, stamp)| key(&super::look::stamp(there)) != key(stamp))
}

fn remove_folder(workspace: &Workspace, path: &Path) -> Result<(), Errno> {
    let (folder, name) = parent(workspace, path)?;
    rustix::fs::unlinkat(folder, &name, AtFlags::REMOVEDIR)
}

/// Whether it was not there.
fn make_folder(workspace: &Workspace, store: &Store, path: &Path) -> Result<bool, Errno> {
    let (folder, name) = parent(workspace, path)?;
    let bits = store.narrow().folder(path);
    match rustix::fs::mkdirat(folder, &name, Bits::from_raw_mode(bits)) {
        Err(Errno::EXIST) => Ok(false),
        done => done.map(|()| true),
    }
}
