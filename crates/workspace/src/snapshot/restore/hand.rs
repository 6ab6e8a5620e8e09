//! Writing what a restore brings.

use super::{SnapshotError, is_newer, parent};
use crate::{
    Workspace, guarded,
    snapshot::{
        history::AUTOMATIC_LIMIT,
        object::{Entry, Mode},
        packed::Inflater,
        store::{Fresh, Store},
        tree::Stamp,
        written::Written,
    },
    spread::spread,
    temp::Temp,
    write::keep_owner,
};
use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, FileType, Mode as Bits, OFlags},
    io::Errno,
};
use std::{
    ffi::OsStr,
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Files that a thread takes at a time: of many, and of few.
const SHARE: usize = 32;
const FEW: usize = 5;

/// A file that is to come.
pub(super) struct Coming {
    pub(super) path: PathBuf,
    pub(super) entry: Entry,
    pub(super) was_there: bool,
    /// What is replaced, where that can be told.
    pub(super) stamp: Option<Stamp>,
}

/// Writes files; who did.
pub(super) fn write_all<'a>(
    begin: impl Fn() -> Hand<'a> + Sync,
    files: &[Coming],
    many: bool,
    stubborn: bool,
) -> Result<Vec<Hand<'a>>, SnapshotError> {
    type Done = Result<(), SnapshotError>;
    let work = |hand: &mut Hand<'_>, part: &[Coming]| -> Result<Done, SnapshotError> {
        let mut put = part.iter().map(|coming| hand.put(coming));
        if stubborn { Ok(put.fold(Ok(()), Result::and)) } else { put.try_for_each(|done| done).map(Ok) }
    };
    let share = if many { SHARE } else { FEW };
    let (done, hands) = spread(files, share, begin, work)?;
    done.into_iter().collect::<Done>().map(|()| hands)
}

/// Puts files in their places, one after another; quicker when those of a folder come together.
pub(super) struct Hand<'a> {
    workspace: &'a Workspace,
    store: &'a Store,
    written: &'a Written,
    tools: Inflater,
    /// There are many: they are written over where they can be, and synced all at once.
    many: bool,
    /// The folder of the last file.
    folder: Option<(PathBuf, Arc<OwnedFd>)>,
    /// What is to be synced by itself.
    pub(super) fresh: Fresh,
    /// What is too large for automatic snapshots.
    pub(super) large: Vec<PathBuf>,
    /// What was changed since it was looked at.
    pub(super) newer: Vec<PathBuf>,
}

/// How a file is written over.
enum Over {
    /// It now has this size.
    Done(u64),
    /// It cannot be.
    Refused,
    /// It is no longer what it was.
    Newer,
}

impl<'a> Hand<'a> {
    pub(super) fn new(workspace: &'a Workspace, store: &'a Store, written: &'a Written, many: bool) -> Self {
        Self {
            workspace,
            store,
            written,
            tools: Inflater::new(),
            many,
            folder: None,
            fresh: Fresh::default(),
            large: Vec::new(),
            newer: Vec::new(),
        }
    }

    pub(super) fn put(&mut self, coming: &Coming) -> Result<(), SnapshotError> {
        let path = &coming.path;
        let failed = |source| SnapshotError::Io { action: format!("restore {}", path.display()), source };
        if !self.write(coming).map_err(failed)? {
            self.newer.push(path.clone());
        }
        Ok(())
    }

    /// `false`: what was to be replaced is no longer what was looked at.
    fn write(&mut self, coming: &Coming) -> io::Result<bool> {
        let Coming { path, entry, stamp, .. } = coming;
        let above = path.parent().unwrap_or(Path::new(""));
        let (folder, name) = match (&self.folder, path.file_name()) {
            (Some((last, folder)), Some(name)) if last == above && !guarded::in_git(path) => {
                (Arc::clone(folder), name.to_owned())
            }
            _ => {
                let (folder, name) = parent(self.workspace, path)?;
                let folder = Arc::new(folder);
                self.folder = Some((above.to_owned(), Arc::clone(&folder)));
                (folder, name)
            }
        };
        if self.many && entry.mode == Mode::File {
            match self.write_over(&folder, &name, coming)? {
                Over::Done(size) => {
                    self.measure(path, size);
                    return Ok(true);
                }
                Over::Newer => return Ok(false),
                Over::Refused => {}
            }
        }
        let there = rustix::fs::statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW).ok();
        if is_newer(there.as_ref(), stamp.as_ref()) {
            return Ok(false);
        }
        if entry.mode == Mode::Symlink {
            let mut target = Vec::new();
            self.store.copy(&entry.id, &mut self.tools, &mut target)?;
            match rustix::fs::unlinkat(&folder, &name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
            rustix::fs::symlinkat(crate::beneath::as_path(&target), &folder, &name)?;
            return Ok(true);
        }
        let there = there.filter(|stat| FileType::from_raw_mode(stat.st_mode).is_file());
        let mut bits = {
            let narrow = self.store.narrow();
            let kept = |stat: &rustix::fs::Stat| narrow.kept(path, &entry.id, stat.st_mode & 0o7777);
            there.as_ref().map_or_else(|| narrow.bits(path, &entry.id), kept)
        };
        bits = if entry.mode == Mode::Executable { bits | (bits & 0o444) >> 2 } else { bits & !0o111 };
        let (temp, size) = match self.written.take(path) {
            Some((file, size)) => (Temp::of(file, Arc::clone(&folder)), size),
            None => {
                let mut temp = Temp::create(Arc::clone(&folder))?;
                let (_, size) = self.store.copy(&entry.id, &mut self.tools, &mut temp.file)?;
                (temp, size)
            }
        };
        self.measure(path, size);
        if let Some(old) = &there {
            keep_owner(&temp.file, old)?;
        }
        rustix::fs::fchmod(&temp.file, Bits::from_raw_mode(bits))?;
        if !self.many {
            self.fresh.files.push(temp.file.try_clone()?);
        }
        if there.is_some() {
            self.fresh.replaced.extend(self.store.keep_a_while(&folder, &name));
        }
        temp.publish_over(&name)?;
        Ok(true)
    }

    fn measure(&mut self, path: &Path, size: u64) {
        if size > AUTOMATIC_LIMIT {
            self.large.push(path.to_owned());
        }
    }

    /// Writes over a file where that can be done: freeing a file's blocks costs more than writing over them. What runs,
    /// has another name, or could be read by more than are to read it, is to be replaced.
    fn write_over(&mut self, folder: &OwnedFd, name: &OsStr, coming: &Coming) -> io::Result<Over> {
        let Coming { path, entry: Entry { id, .. }, stamp, .. } = coming;
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(file) = rustix::fs::openat(folder, name, flags, Bits::empty()) else {
            return Ok(Over::Refused);
        };
        let stat = rustix::fs::fstat(&file)?;
        if is_newer(Some(&stat), stamp.as_ref()) {
            return Ok(Over::Newer);
        }
        let plain = FileType::from_raw_mode(stat.st_mode).is_file() && stat.st_mode & 0o111 == 0;
        // What not everybody may read must not stand for a moment where they may.
        let wider = self.store.narrow().kept(path, id, stat.st_mode) != stat.st_mode;
        if !plain || wider || stat.st_nlink != 1 || stat.st_mode & 0o200 == 0 {
            return Ok(Over::Refused);
        }
        let mut file = File::from(file);
        let (_, size) = self.store.copy(id, &mut self.tools, &mut file)?;
        if stat.st_size.cast_unsigned() > size {
            file.set_len(size)?;
        }
        Ok(Over::Done(size))
    }
}
