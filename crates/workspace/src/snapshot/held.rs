//! Descriptors of files that were looked at: asking one for its stamp takes half as long as asking for the file by name,
//! and whoever takes something back asks all of them.
//!
//! They are `O_PATH`: nothing can be read or written through them. A file that is deleted keeps its blocks until its
//! folder is looked at the next time.

use super::look::stamp;
use super::tree::Stamp;
use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{AtFlags, Mode, OFlags},
    process::Resource,
};
use std::{
    path::Path,
    sync::{
        LazyLock, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

/// However many files may be open.
const MOST: usize = 16_384;

/// This part of what may be open.
const SHARE: u64 = 4;

static LIMIT: LazyLock<usize> = LazyLock::new(|| {
    let open = rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(open / SHARE).map_or(MOST, |limit| limit.min(MOST))
});

static HELD: AtomicUsize = AtomicUsize::new(0);

/// The files of one folder, in their order, or none of them.
#[derive(Debug, Default)]
pub(super) struct Held(Mutex<Vec<OwnedFd>>);

impl Held {
    /// What the file system says about the files of a folder that is open. They are asked for by name unless the folder
    /// is `settled`: as it was when they were held, so that each name still stands for the same file.
    pub(super) fn stamps<'n>(
        &self,
        folder: BorrowedFd<'_>,
        names: impl ExactSizeIterator<Item = &'n Path> + Clone,
        settled: bool,
    ) -> Vec<Option<Stamp>> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !settled {
            release(&mut held);
            return names.map(|name| by_name(folder, name)).collect();
        }
        if held.is_empty() {
            *held = hold(folder, names.clone());
        }
        if held.len() != names.len() {
            return names.map(|name| by_name(folder, name)).collect();
        }
        held.iter().map(|file| rustix::fs::fstat(file).ok().map(|stat| stamp(&stat))).collect()
    }

    /// Its names or what they stand for changed.
    pub(super) fn release(&mut self) {
        release(self.0.get_mut().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Clone for Held {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release();
    }
}

fn release(held: &mut Vec<OwnedFd>) {
    HELD.fetch_sub(held.len(), Ordering::Relaxed);
    *held = Vec::new();
}

/// All of them, where there is room and each can be had.
fn hold<'n>(folder: BorrowedFd<'_>, names: impl ExactSizeIterator<Item = &'n Path>) -> Vec<OwnedFd> {
    let count = names.len();
    if HELD.fetch_add(count, Ordering::Relaxed) + count <= *LIMIT {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = |name| rustix::fs::openat(folder, name, flags, Mode::empty()).ok();
        if let Some(held) = names.map(open).collect() {
            return held;
        }
    }
    HELD.fetch_sub(count, Ordering::Relaxed);
    Vec::new()
}

fn by_name(folder: BorrowedFd<'_>, name: &Path) -> Option<Stamp> {
    let stat = rustix::fs::statat(folder.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(stamp(&stat))
}
