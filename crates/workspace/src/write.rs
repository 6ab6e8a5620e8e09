//! Changing files: atomically, durably, one at a time, and only the version the caller has seen.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FlockOperation, Gid, Mode, Stat, Uid};
use rustix::io::Errno;

use crate::beneath::split;
use crate::error::FileError;
use crate::live::Mark;
use crate::path::ContainedPath;
use crate::read::read_whole;
use crate::root::Workspace;
use crate::temp::Temp;
use crate::version::{HASH_LIMIT, Version};

/// Larger files are not changed: they would have to be held in memory twice.
pub(crate) const CHANGE_LIMIT: u64 = HASH_LIMIT;
/// How long another process may hold a file's lock before we give up.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// How far a write goes before it is reported as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// On disk: file and folder are synced. A power cut later cannot undo it.
    #[default]
    Sync,
    /// Atomic, but left to the system to write out.
    Rename,
}

/// What a caller believes to be in a file before it is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Nothing: the file does not exist.
    Missing,
    /// This version.
    Exactly(Version),
    /// Whatever there is.
    Anything,
}

/// A change that was not made.
#[derive(Debug)]
#[non_exhaustive]
pub enum UpdateError<E> {
    /// The file system got in the way.
    File(FileError),
    /// [`Expected::Missing`], but there is a file.
    Exists,
    /// [`Expected::Exactly`], but there is no file.
    Missing,
    /// [`Expected::Exactly`], but the file holds something else: this.
    Changed {
        /// What the file holds now.
        now: Vec<u8>,
    },
    /// The change itself was refused by the caller's function.
    Refused(E),
}

impl<E> From<FileError> for UpdateError<E> {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

/// A change that was made.
#[derive(Debug)]
pub struct Written {
    /// The version the file has now.
    pub version: Version,
    /// What it holds now.
    pub new: Arc<[u8]>,
    /// What it held before; `None` when it was created.
    pub old: Option<Vec<u8>>,
}

impl Workspace {
    /// Changes one file: reads it under its lock, checks that it is what the caller expects, lets `change` make the
    /// new content from the old, and puts that in its place. Whoever else changes the same file, in this process
    /// through this workspace or in another one through another, waits; nobody's confirmed change is lost.
    ///
    /// Missing parent folders are made. Mode and, where permitted, owner of an existing file are kept.
    pub fn update<E>(
        &self,
        path: &ContainedPath,
        expected: Expected,
        change: impl FnOnce(Option<&[u8]>) -> Result<Vec<u8>, E>,
    ) -> Result<Written, UpdateError<E>> {
        let _here = self.locks.lock([path.relative.as_path()]);
        let held = self.hold(path)?;
        check(expected, held.as_ref())?;
        let new = change(held.as_ref().map(|held| &held.bytes[..])).map_err(UpdateError::Refused)?;
        let staged = self.stage(path, held.as_ref().map(|held| &held.stat), &new)?;
        if let Some(held) = &held
            && let Some(now) = self.changed_since(path, held, || staged.in_its_place(path))?
        {
            return Err(now.map_or(UpdateError::Missing, |now| UpdateError::Changed { now }));
        }
        match staged.commit(path) {
            Err(Errno::EXIST) => return Err(UpdateError::Exists),
            Err(errno) => return Err(FileError::from_errno(errno, "write", path).into()),
            Ok(()) => {}
        }
        Ok(Written { version: Version::of(&new), new: new.into(), old: held.map(|held| held.bytes) })
    }

    /// Reads a file and keeps others from changing it; `None` when it does not exist.
    pub(crate) fn hold(&self, path: &ContainedPath) -> Result<Option<Held>, FileError> {
        let give_up = Instant::now() + LOCK_PATIENCE;
        loop {
            let (mut file, stat) = match self.open_file(path) {
                Ok(opened) => opened,
                Err(FileError::NotFound { .. }) => return Ok(None),
                Err(error) => return Err(error),
            };
            // a file system without locks answers something else: the check before the rename still holds
            if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
                if Instant::now() >= give_up {
                    return Err(FileError::Locked { path: path.to_string() });
                }
                std::thread::sleep(Duration::from_micros(500));
                continue;
            }
            let mark = self.mark();
            let bytes = read_whole(&mut file, &stat, path, CHANGE_LIMIT)?;
            let stat = rustix::fs::fstat(&file).unwrap_or(stat);
            if self.is_replaced(path, &stat) {
                continue;
            }
            return Ok(Some(Held { _lock: file, mark, stat, bytes }));
        }
    }

    /// Whether whoever held the lock before us has put another file in the place of this one. It has no name then,
    /// unless it had several.
    fn is_replaced(&self, path: &ContainedPath, stat: &Stat) -> bool {
        match stat.st_nlink {
            0 => self.lstat(&path.relative).is_ok(),
            1 => false,
            _ => self.lstat(&path.relative).is_ok_and(|now| now.st_ino != stat.st_ino),
        }
    }

    /// What the file holds now if somebody without manners changed it while we held it; `Some(None)`: it is gone.
    /// `there` looks at it.
    ///
    /// Its stat data tell, and the journal: two writes in one tick of the clock leave the same stat data.
    /// Neither is trusted to say that it changed: then the content decides.
    pub(crate) fn changed_since(
        &self,
        path: &ContainedPath,
        held: &Held,
        there: impl FnOnce() -> Result<Stat, Errno>,
    ) -> Result<Option<Option<Vec<u8>>>, FileError> {
        let quiet = held.mark.is_none_or(|mark| !self.touched(mark, &path.relative));
        if quiet && there().is_ok_and(|now| same(&now, &held.stat)) {
            return Ok(None);
        }
        match self.read_bytes(path, CHANGE_LIMIT) {
            Ok(now) if now == held.bytes => Ok(None),
            Ok(now) => Ok(Some(Some(now))),
            Err(FileError::NotFound { .. }) => Ok(Some(None)),
            Err(error) => Err(error),
        }
    }

    /// Writes the new content aside, complete and synced, in the folder where it belongs.
    pub(crate) fn stage(
        &self,
        path: &ContainedPath,
        old: Option<&Stat>,
        bytes: &[u8],
    ) -> Result<Staged, FileError> {
        let io = |source| FileError::Io { action: "write", path: path.to_string(), source };
        self.check_guarded(path)?;
        if let Some(stat) = old
            && stat.st_mode & 0o222 == 0
        {
            return Err(FileError::ReadOnly { path: path.to_string(), mode: stat.st_mode & 0o7777 });
        }
        let (parent, _) =
            split(&path.relative).ok_or_else(|| FileError::IsFolder { path: path.to_string() })?;
        let (dir, made) = self.make_folder(parent, path)?;
        let dir = Arc::new(dir);
        let mut temp =
            Temp::create(dir.clone()).map_err(|errno| FileError::from_errno(errno, "write", path))?;
        temp.write(bytes).map_err(io)?;
        if let Some(stat) = old {
            keep_owner_and_mode(&temp.file, stat).map_err(|errno| io(errno.into()))?;
        }
        let sync = self.options.durability == Durability::Sync;
        if sync {
            rustix::fs::fdatasync(&temp.file).map_err(|errno| io(errno.into()))?;
        }
        Ok(Staged { temp, dir, over: old.is_some(), sync, made })
    }

    /// Removes a file; the name itself, not what a symlink points to.
    pub(crate) fn unlink(&self, path: &ContainedPath) -> Result<(), FileError> {
        let failed = |errno| FileError::from_errno(errno, "delete", path);
        self.check_guarded(path)?;
        let (parent, name) =
            split(&path.relative).ok_or_else(|| FileError::IsFolder { path: path.to_string() })?;
        let dir = self.root.open_dir(parent).map_err(failed)?;
        rustix::fs::unlinkat(&dir, name, AtFlags::empty()).map_err(failed)?;
        if self.options.durability == Durability::Sync {
            rustix::fs::fsync(&dir).map_err(failed)?;
        }
        Ok(())
    }

    /// Removes folders that were made for nothing, innermost first; those that are not empty stay.
    pub(crate) fn remove_folders(&self, made: &[PathBuf]) {
        for folder in made.iter().rev() {
            if let Some((parent, name)) = split(folder)
                && let Ok(dir) = self.root.open_dir(parent)
            {
                let _ = rustix::fs::unlinkat(&dir, name, AtFlags::REMOVEDIR);
            }
        }
    }

    /// Opens a folder, making it and its parents as needed; also says which ones it made.
    fn make_folder(&self, folder: &Path, path: &ContainedPath) -> Result<(OwnedFd, Vec<PathBuf>), FileError> {
        let failed = |errno| FileError::from_errno(errno, "make the folder for", path);
        match self.root.open_dir(folder) {
            Err(Errno::NOENT) => {}
            Ok(dir) => return Ok((dir, Vec::new())),
            Err(errno) => return Err(failed(errno)),
        }
        let (parent, name) = split(folder).ok_or_else(|| failed(Errno::NOENT))?;
        let (above, mut made) = self.make_folder(parent, path)?;
        match rustix::fs::mkdirat(&above, name, Mode::from_raw_mode(0o777)) {
            Ok(()) => made.push(folder.to_owned()),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(failed(errno)),
        }
        if self.options.durability == Durability::Sync {
            rustix::fs::fsync(&above).map_err(failed)?;
        }
        Ok((self.root.open_dir(folder).map_err(failed)?, made))
    }
}

/// A file that was read under its lock.
pub(crate) struct Held {
    /// Closing it releases the lock.
    _lock: File,
    /// Where the journal stood before it was read.
    mark: Option<Mark>,
    pub(crate) stat: Stat,
    pub(crate) bytes: Vec<u8>,
}

/// New content, complete but not yet in its place.
pub(crate) struct Staged {
    temp: Temp,
    dir: Arc<OwnedFd>,
    over: bool,
    sync: bool,
    /// Folders that were made for it.
    pub(crate) made: Vec<PathBuf>,
}

impl Staged {
    /// The same, for a name that must be free.
    pub(crate) fn into_new(self) -> Self {
        Self { over: false, ..self }
    }

    /// What stands where it is to go.
    fn in_its_place(&self, path: &ContainedPath) -> Result<Stat, Errno> {
        let name: &OsStr = path.relative.file_name().ok_or(Errno::ISDIR)?;
        rustix::fs::statat(&*self.dir, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Makes the file executable for those who may read it, or for nobody.
    pub(crate) fn set_executable(&self, executable: Option<bool>) -> Result<(), Errno> {
        let Some(executable) = executable else { return Ok(()) };
        let mode = rustix::fs::fstat(&self.temp.file)?.st_mode & 0o7777;
        let mode = if executable { mode | (mode & 0o444) >> 2 } else { mode & !0o111 };
        rustix::fs::fchmod(&self.temp.file, Mode::from_raw_mode(mode))
    }

    pub(crate) fn commit(self, path: &ContainedPath) -> Result<(), Errno> {
        let name: &OsStr = path.relative.file_name().ok_or(Errno::ISDIR)?;
        if self.over {
            self.temp.publish_over(name)?
        } else {
            self.temp.publish_new(name)?
        }
        if self.sync { rustix::fs::fsync(&*self.dir) } else { Ok(()) }
    }
}

fn check<E>(expected: Expected, held: Option<&Held>) -> Result<(), UpdateError<E>> {
    match (expected, held) {
        (Expected::Anything, _) | (Expected::Missing, None) => Ok(()),
        (Expected::Missing, Some(_)) => Err(UpdateError::Exists),
        (Expected::Exactly(_), None) => Err(UpdateError::Missing),
        (Expected::Exactly(version), Some(held)) if Version::of(&held.bytes) == version => Ok(()),
        (Expected::Exactly(_), Some(held)) => Err(UpdateError::Changed { now: held.bytes.clone() }),
    }
}

fn same(a: &Stat, b: &Stat) -> bool {
    let key = |s: &Stat| (s.st_ino, s.st_size, s.st_mtime, s.st_mtime_nsec, s.st_ctime, s.st_ctime_nsec);
    key(a) == key(b)
}

/// As far as this process may; what the file was before.
pub(crate) fn keep_owner(file: &File, old: &Stat) -> Result<Stat, Errno> {
    let new = rustix::fs::fstat(file)?;
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid) {
        let (uid, gid) = (Uid::from_raw(old.st_uid), Gid::from_raw(old.st_gid));
        if rustix::fs::fchown(file, Some(uid), Some(gid)).is_err() {
            let _ = rustix::fs::fchown(file, None, Some(gid));
        }
    }
    Ok(new)
}

/// The owner first: changing it clears the set-user-id bits that the mode then restores.
fn keep_owner_and_mode(file: &File, old: &Stat) -> Result<(), Errno> {
    let new = keep_owner(file, old)?;
    if new.st_mode & 0o7777 != old.st_mode & 0o7777 {
        rustix::fs::fchmod(file, Mode::from_raw_mode(old.st_mode & 0o7777))?;
    }
    Ok(())
}

const STRIPES: usize = 64;

/// Serialises changes to the same file inside this process. Striped: two files may share a lock, which costs
/// a moment, and nothing has to be cleaned up.
pub(crate) struct Locks {
    stripes: [Mutex<()>; STRIPES],
}

impl Default for Locks {
    fn default() -> Self {
        Self { stripes: std::array::from_fn(|_| Mutex::new(())) }
    }
}

impl Locks {
    /// Locks these files, in an order that is the same for everybody.
    pub(crate) fn lock<'p>(&self, paths: impl IntoIterator<Item = &'p Path>) -> Vec<MutexGuard<'_, ()>> {
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let stripes: BTreeSet<usize> =
            paths.into_iter().map(|path| hasher.hash_one(path) as usize % STRIPES).collect();
        stripes.into_iter().map(|i| self.stripes[i].lock().unwrap_or_else(PoisonError::into_inner)).collect()
    }
}
