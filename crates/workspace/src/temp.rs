//! Files that are written aside and then appear whole.
//!
//! A file is made without a name (`O_TMPFILE`) and gets one when it is complete and on disk: the final one when that
//! is free, else a temporary one for the moment between `linkat` and `rename`. Only a kill in that moment, or on
//! a file system without nameless files, leaves a temporary name behind. Its owner holds a `flock` on it as long
//! as it lives, so the next start can tell litter from work in progress and removes it ([`sweep`]).

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::{Errno, Result};

/// Names that start so are ours and never shown.
pub(crate) const PREFIX: &[u8] = b".codegen-sandbox-tmp-";

const FLAGS: OFlags = OFlags::WRONLY.union(OFlags::CLOEXEC);
const MODE: Mode = Mode::from_raw_mode(0o666);

static COUNTER: AtomicU64 = AtomicU64::new(0);

/// A file in the making, in the folder where it will live.
pub(crate) struct Temp {
    dir: Arc<OwnedFd>,
    pub(crate) file: File,
    name: Option<String>,
}

impl Temp {
    /// Makes the file, nameless where the file system can.
    pub(crate) fn create(dir: Arc<OwnedFd>) -> Result<Self> {
        let temp = match nameless(&dir) {
            Ok(file) => Self { dir, file, name: None },
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT | Errno::NOSYS) => {
                let name = fresh_name();
                let flags = FLAGS | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
                let fd = rustix::fs::openat(&dir, &name, flags, MODE)?;
                Self { dir, file: File::from(fd), name: Some(name) }
            }
            Err(errno) => return Err(errno),
        };
        Ok(temp.locked())
    }

    /// The same of a file that is written already and has no name, to live in any folder of its file system.
    pub(crate) fn of(file: File, dir: Arc<OwnedFd>) -> Self {
        Self { dir, file, name: None }.locked()
    }

    fn locked(self) -> Self {
        // best effort: a file system without locks only loses the sweep's certainty
        let _ = rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockExclusive);
        self
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Gives the file its name, which must be free.
    pub(crate) fn publish_new(mut self, name: &OsStr) -> Result<()> {
        match self.name.take() {
            None => link(&self.file, &self.dir, name),
            Some(temporary) => {
                let done = rustix::fs::renameat_with(
                    &self.dir,
                    temporary.as_str(),
                    &self.dir,
                    name,
                    RenameFlags::NOREPLACE,
                );
                self.name = done.is_err().then_some(temporary);
                done
            }
        }
    }

    /// Puts the file in the place of an existing one.
    pub(crate) fn publish_over(mut self, name: &OsStr) -> Result<()> {
        let temporary = match self.name.take() {
            Some(temporary) => temporary,
            None => {
                let temporary = fresh_name();
                link(&self.file, &self.dir, OsStr::new(&temporary))?;
                temporary
            }
        };
        let done = rustix::fs::renameat(&self.dir, temporary.as_str(), &self.dir, name);
        self.name = done.is_err().then_some(temporary);
        done
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = rustix::fs::unlinkat(&self.dir, name.as_str(), AtFlags::empty());
        }
    }
}

/// A file without a name: whatever happens, nothing of it is left behind.
pub(crate) fn nameless(dir: impl AsFd) -> Result<File> {
    rustix::fs::openat(dir, ".", FLAGS | OFlags::TMPFILE, MODE).map(File::from)
}

fn link(file: &File, dir: &OwnedFd, name: &OsStr) -> Result<()> {
    match rustix::fs::linkat(file, "", dir, name, AtFlags::EMPTY_PATH) {
        // Older kernels keep that to root; there is a way around through /proc.
        Err(Errno::NOENT | Errno::INVAL | Errno::PERM) => {
            let by_proc = format!("/proc/self/fd/{}", file.as_raw_fd());
            rustix::fs::linkat(CWD, by_proc.as_str(), dir, name, AtFlags::SYMLINK_FOLLOW)
        }
        done => done,
    }
}

fn fresh_name() -> String {
    let prefix = String::from_utf8_lossy(PREFIX);
    let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64);
    format!("{prefix}{}-{now:x}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed))
}

/// Removes a temporary name if nobody is at work on it; says whether it did.
pub(crate) fn sweep(dir: impl AsFd, name: &OsStr) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(fd) = rustix::fs::openat(&dir, name, flags, Mode::empty()) else { return false };
    if rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive).is_err() {
        return false;
    }
    rustix::fs::unlinkat(&dir, name, AtFlags::empty()).is_ok()
}
