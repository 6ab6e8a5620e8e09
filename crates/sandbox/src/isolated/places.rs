//! Files that a sandbox puts on the host while it exists.

use super::{
    folder::Folder,
    git::{Checkout, Repository},
};
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::{
    fs, io,
    os::{fd::OwnedFd, unix::fs::PermissionsExt as _},
    path::{Path, PathBuf},
};

/// How the folders for temporary files are named.
const PREFIX: &str = "codegen-sandbox-tmp.";

/// The folder that becomes /tmp, removed with the sandbox.
pub(crate) struct Temporary {
    inner: PathBuf,
    folder: tempfile::TempDir,
    /// Tells the sweep of another server that the folder is in use.
    _lock: OwnedFd,
}

impl Temporary {
    pub(crate) fn new() -> io::Result<Self> {
        let private = fs::Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix(PREFIX).permissions(private).tempdir()?;
        let lock = open_folder(folder.path())?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared)?;
        // Nobody need wait while others' leavings go; without a thread they stay until the next time.
        let _ = std::thread::Builder::new().name("sweep".to_owned()).spawn(|| sweep(&std::env::temp_dir()));
        // Open to every user inside, who is behind a folder that is open to this user alone outside.
        let inner = fs::canonicalize(folder.path())?.join("tmp");
        fs::create_dir(&inner)?;
        rustix::fs::chmod(&inner, Mode::from_raw_mode(0o1777))?;
        Ok(Self { inner, folder, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.inner
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Read-only folders that programs left (go's module cache) must not keep the rest from going.
        make_removable(self.folder.path());
    }
}

fn make_removable(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let _ = rustix::fs::chmod(entry.path(), Mode::RWXU);
            make_removable(&entry.path());
        }
    }
}

fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(
        path,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW,
        Mode::empty(),
    )?)
}

/// Removes what servers left that were killed.
fn sweep(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let path = entry.path();
        let unused = open_folder(&path)
            .is_ok_and(|fd| rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive).is_ok());
        // A folder without its inner one is being made at this moment.
        if unused && path.join("tmp").exists() {
            make_removable(&path);
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// A file in a repository that had none of this name, removed with the last sandbox that uses it.
pub(crate) struct Placeholder {
    path: PathBuf,
    content: &'static [u8],
    lock: fs::File,
}

impl Placeholder {
    /// Puts them into each repository. Where that is not possible, nobody inside can do it either.
    pub(crate) fn put(checkouts: &[Checkout]) -> Vec<Self> {
        let repositories = checkouts.iter().filter_map(Repository::of);
        let occupied = repositories.filter_map(|repository| repository.occupy().ok()).flatten();
        occupied.filter_map(|(path, content)| Self::hold(path, content).ok()).collect()
    }

    fn hold(path: PathBuf, content: &'static [u8]) -> io::Result<Self> {
        let (folder, name) = Folder::above(&path)?;
        let (lock, _) = folder.file(name)?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared)?;
        Ok(Self { path, content, lock })
    }
}

impl Drop for Placeholder {
    fn drop(&mut self) {
        let last = rustix::fs::flock(&self.lock, FlockOperation::NonBlockingLockExclusive).is_ok();
        if last
            && let Ok((folder, name)) = Folder::above(&self.path)
            && folder.read(name, 16).is_ok_and(|content| content == self.content)
        {
            let _ = folder.remove(name);
        }
    }
}
