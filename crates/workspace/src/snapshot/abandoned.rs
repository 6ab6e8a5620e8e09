//! Stores whose workspace is gone.

use super::Snapshots;
use rustix::fs::FlockOperation;
use std::{
    fs::{self, File},
    io,
    os::unix::ffi::OsStrExt as _,
    path::Path,
    time::Duration,
};

/// Holds the path of the workspace that a store belongs to.
const WORKSPACE: &str = "workspace";
/// Stores that are removed at one go, so that a start with many of them does not keep the disk busy.
const AT_ONCE: usize = 64;

impl Snapshots {
    /// Removes the stores in `folder` whose workspace no longer exists and which nobody has used for `age`; how many.
    /// A store that does not say whose it is stays, and so does one that is in use.
    ///
    /// # Errors
    /// The folder cannot be read; that it is not there is none.
    pub fn remove_abandoned(folder: &Path, age: Duration) -> io::Result<usize> {
        let stores = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            found => found?,
        };
        let mut removed = 0;
        for store in stores.take_while(Result::is_ok).flatten() {
            if removed < AT_ONCE && is_abandoned(&store.path(), age).unwrap_or(false) {
                fs::remove_dir_all(store.path())?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Writes down whose store this is.
    pub(super) fn sign(store: &Path, root: &Path) -> io::Result<()> {
        let bytes = root.as_os_str().as_bytes();
        let signature = store.join(WORKSPACE);
        if fs::read(&signature).is_ok_and(|known| known == bytes) {
            Ok(())
        } else {
            fs::write(signature, bytes)
        }
    }
}

fn is_abandoned(store: &Path, age: Duration) -> io::Result<bool> {
    let root = fs::read(store.join(WORKSPACE))?;
    let root = crate::beneath::as_path(&root);
    // What cannot be asked about may well be there.
    let gone = fs::symlink_metadata(root).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    if !gone || !root.is_absolute() {
        return Ok(false);
    }
    // Every use takes the lock anew, which moves its time.
    let lock = File::open(store.join("lock"))?;
    let unused = lock.metadata()?.modified()?.elapsed().unwrap_or_default();
    Ok(unused > age && rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok())
}
