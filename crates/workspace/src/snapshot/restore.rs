//! Making the disk look like a tree, so that a crash in the middle loses nothing.

use super::{
    Change, SnapshotError,
    object::{Entry, Mode, Oid},
    store::Store,
    to_path,
    tree::{Difference, Folder},
};
use crate::{Workspace, beneath::split, temp::Temp};
use rustix::{
    fs::{AtFlags, Mode as Bits, OFlags},
    io::Errno,
};
use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

/// What a restore is about to do, on disk before it begins and gone when it is done.
pub(super) struct Intent {
    pub(super) tree: Oid,
}

const INTENT: &str = "restore-in-progress";

impl Intent {
    pub(super) fn load(folder: &Path) -> io::Result<Option<Self>> {
        match fs::read_to_string(folder.join(INTENT)) {
            Ok(text) => Ok(Oid::parse(text.trim()).map(|tree| Self { tree })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        writeln!(file, "{}", self.tree)?;
        file.as_file().sync_data()?;
        file.persist(folder.join(INTENT)).map_err(|error| error.error)?;
        File::open(folder)?.sync_all()
    }

    pub(super) fn remove(folder: &Path) -> io::Result<()> {
        fs::remove_file(folder.join(INTENT))?;
        File::open(folder)?.sync_all()
    }
}

/// Goes from what is on disk (`now`) to `target`. Each file appears whole or not at all.
pub(super) fn put_in_place(
    workspace: &Workspace,
    store: &Store,
    now: &Folder,
    target: &Folder,
) -> Result<Vec<(Change, PathBuf)>, SnapshotError> {
    let mut differences = now.differences(target);
    // What goes away goes first, deepest first, so that a folder can become a file and a file a folder.
    let (gone, come): (Vec<Difference>, Vec<Difference>) =
        differences.drain(..).partition(|difference| difference.after.is_none());
    let mut changes = Vec::new();
    for difference in gone.iter().rev() {
        let path = to_path(&difference.path);
        remove_file(workspace, &path).map_err(|errno| failed("delete", &path, errno))?;
        changes.push((Change::Deleted, path));
    }
    let wanted: std::collections::BTreeSet<Vec<u8>> = target.folders().into_iter().collect();
    for folder in now.folders().iter().rev().filter(|folder| !wanted.contains(*folder)) {
        // Not empty means that something ignored lives there, which stays.
        let _ = remove_folder(workspace, &to_path(folder));
    }
    for folder in &wanted {
        let path = to_path(folder);
        make_folder(workspace, &path).map_err(|errno| failed("make", &path, errno))?;
    }
    for difference in come {
        let path = to_path(&difference.path);
        let Some(entry) = difference.after else { continue };
        if difference.before.is_none() && workspace.lstat(&path).is_ok() {
            changes.push((Change::KeptIgnored, path));
            continue;
        }
        write_entry(workspace, store, &path, entry)
            .map_err(|source| SnapshotError::Io { action: format!("restore {}", path.display()), source })?;
        let change = if difference.before.is_none() { Change::Created } else { Change::Changed };
        changes.push((change, path));
    }
    // One barrier for all: the intent must not vanish before the files are on disk.
    let root = workspace.root.open_dir(Path::new("")).and_then(rustix::fs::syncfs);
    root.map_err(|errno| failed("sync", Path::new("."), errno))?;
    changes.sort_by(|a, b| a.1.cmp(&b.1));
    Ok(changes)
}

fn failed(what: &str, path: &Path, errno: Errno) -> SnapshotError {
    SnapshotError::Io { action: format!("{what} {}", path.display()), source: errno.into() }
}

fn parent(workspace: &Workspace, path: &Path) -> Result<(rustix::fd::OwnedFd, std::ffi::OsString), Errno> {
    let (folder, name) = split(path).ok_or(Errno::INVAL)?;
    Ok((workspace.root.open_dir(folder)?, name.to_owned()))
}

fn remove_file(workspace: &Workspace, path: &Path) -> Result<(), Errno> {
    let (folder, name) = parent(workspace, path)?;
    match rustix::fs::unlinkat(folder, &name, AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(()),
        done => done,
    }
}

fn remove_folder(workspace: &Workspace, path: &Path) -> Result<(), Errno> {
    let (folder, name) = parent(workspace, path)?;
    rustix::fs::unlinkat(folder, &name, AtFlags::REMOVEDIR)
}

fn make_folder(workspace: &Workspace, path: &Path) -> Result<(), Errno> {
    let (folder, name) = parent(workspace, path)?;
    match rustix::fs::mkdirat(folder, &name, Bits::from_raw_mode(0o777)) {
        Err(Errno::EXIST) => Ok(()),
        done => done,
    }
}

fn write_entry(workspace: &Workspace, store: &Store, path: &Path, entry: Entry) -> io::Result<()> {
    let (folder, name) = parent(workspace, path)?;
    if entry.mode == Mode::Symlink {
        let target = store.read(&entry.id)?;
        match rustix::fs::unlinkat(&folder, &name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        return Ok(rustix::fs::symlinkat(crate::beneath::as_path(&target), &folder, &name)?);
    }
    let mut bits = match rustix::fs::statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() => stat.st_mode & 0o7777,
        _ => 0o666 & !umask(),
    };
    bits = if entry.mode == Mode::Executable { bits | (bits & 0o444) >> 2 } else { bits & !0o111 };
    let mut temp = Temp::create(Arc::new(folder))?;
    let mut sink = BufWriter::new(&mut temp.file);
    store.copy(&entry.id, &mut sink)?;
    sink.flush()?;
    drop(sink);
    rustix::fs::fchmod(&temp.file, Bits::from_raw_mode(bits))?;
    Ok(temp.publish_over(&name)?)
}

/// The bits that new files do not get.
fn umask() -> u32 {
    // Reading it means setting it, which other threads would see; a file's own creation tells it as well.
    static UMASK: std::sync::LazyLock<u32> = std::sync::LazyLock::new(|| {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::open(std::env::temp_dir(), flags, Bits::from_raw_mode(0o777))
            .and_then(rustix::fs::fstat)
            .map_or(0o022, |stat| 0o777 & !stat.st_mode)
    });
    *UMASK
}
