//! Opening below a root descriptor, never beside it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, StatxAttributes, StatxFlags};
use rustix::io::{Errno, Result};

/// The descriptor of a workspace's root, and the rules for everything opened below it.
#[derive(Debug)]
pub(crate) struct Root {
    fd: OwnedFd,
    path: PathBuf,
    resolve: ResolveFlags,
    device: Option<u64>,
    /// Device and inode.
    identity: (u64, u64),
    no_openat2: AtomicBool,
}

/// `openat2` answers EAGAIN when a rename or mount elsewhere disturbed its lookup; more than this is not chance.
const ATTEMPTS: usize = 64;
/// Bytes of a path that the system takes at a time.
const LONGEST: usize = 4095;

impl Root {
    pub(crate) fn open(path: &Path, cross_mounts: bool) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())?;
        let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let stat = rustix::fs::fstat(&fd)?;
        let mut device = None;
        if !cross_mounts {
            resolve |= ResolveFlags::NO_XDEV;
            device = Some(stat.st_dev);
        }
        let (path, identity) = (path.to_owned(), (stat.st_dev, stat.st_ino));
        Ok(Self { fd, path, resolve, device, identity, no_openat2: AtomicBool::new(false) })
    }

    /// Where it was when it was opened.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether that path still leads to it. `None`: it leads nowhere.
    pub(crate) fn in_place(&self) -> Option<bool> {
        let there = rustix::fs::stat(&self.path).ok()?;
        Some((there.st_dev, there.st_ino) == self.identity)
    }

    /// Opens `relative`, in which no component may be a symlink (the last one may with `PATH | NOFOLLOW`).
    pub(crate) fn open_at(&self, relative: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
        let flags = flags | OFlags::CLOEXEC;
        if self.no_openat2.load(Ordering::Relaxed) {
            return self.open_by_component(relative, flags, mode);
        }
        match self.open_from(self.fd.as_fd(), relative, flags, mode) {
            Err(Errno::NOSYS) => {
                self.no_openat2.store(true, Ordering::Relaxed);
                self.open_by_component(relative, flags, mode)
            }
            Err(Errno::NAMETOOLONG) => self.open_in_parts(relative, flags, mode),
            done => done,
        }
    }

    fn open_from(&self, from: BorrowedFd<'_>, path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        for _ in 0..ATTEMPTS {
            match rustix::fs::openat2(from, path, flags, mode, self.resolve) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                done => return done,
            }
        }
        Err(Errno::AGAIN)
    }

    /// Opens a path of more bytes than the system takes at a time.
    fn open_in_parts(&self, relative: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut rest = relative.as_os_str().as_bytes();
        let mut at: Option<OwnedFd> = None;
        while let Some(part) = rest.get(..=LONGEST) {
            let slash = part.iter().rposition(|byte| *byte == b'/').ok_or(Errno::NAMETOOLONG)?;
            let from = at.as_ref().map_or(self.fd.as_fd(), AsFd::as_fd);
            at = Some(self.open_from(from, as_path(&part[..slash]), step, Mode::empty())?);
            rest = &rest[slash + 1..];
        }
        let from = at.as_ref().map_or(self.fd.as_fd(), AsFd::as_fd);
        self.open_from(from, as_path(rest), flags, mode)
    }

    /// Opens the entry `name` of a folder that was opened here, as [`Self::open_at`] would.
    pub(crate) fn open_in(&self, folder: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC;
        let one = Path::new(name);
        if self.no_openat2.load(Ordering::Relaxed) {
            return self.checked(rustix::fs::openat(folder, one, flags | OFlags::NOFOLLOW, Mode::empty())?);
        }
        self.open_from(folder, one, flags, Mode::empty())
    }

    /// When the regular file `name` of a folder that was opened here was modified last, in seconds and nanoseconds;
    /// `None` for anything else.
    pub(crate) fn modified_in(&self, folder: BorrowedFd<'_>, name: &OsStr) -> Option<(i64, i64)> {
        let is_file = |mode: u32| FileType::from_raw_mode(mode) == FileType::RegularFile;
        let (flags, wanted) = (AtFlags::SYMLINK_NOFOLLOW, StatxFlags::TYPE | StatxFlags::MTIME);
        if let Ok(stat) = rustix::fs::statx(folder, name, flags, wanted)
            && stat.stx_mask & wanted.bits() == wanted.bits()
            && stat.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT)
        {
            // what `open_in` would refuse, told without opening it
            let mounted = self.device.is_some() && stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
            let time = (stat.stx_mtime.tv_sec, i64::from(stat.stx_mtime.tv_nsec));
            return (is_file(stat.stx_mode.into()) && !mounted).then_some(time);
        }
        let stat =
            rustix::fs::fstat(self.open_in(folder, name, OFlags::PATH | OFlags::NOFOLLOW).ok()?).ok()?;
        is_file(stat.st_mode).then_some((stat.st_mtime, stat.st_mtime_nsec as i64))
    }

    /// Opens a folder for listing or for making entries in it.
    pub(crate) fn open_dir(&self, relative: &Path) -> Result<OwnedFd> {
        self.open_at(relative, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
    }

    /// What old kernels and strict seccomp filters leave us: one component at a time, none of them a symlink.
    fn open_by_component(&self, relative: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        let mut names = Vec::new();
        for component in relative.components() {
            match component {
                Component::Normal(name) => names.push(name),
                Component::CurDir => {}
                _ => return Err(Errno::XDEV),
            }
        }
        let Some((last, parents)) = names.split_last() else {
            return self.checked(rustix::fs::openat(&self.fd, ".", flags, mode)?);
        };
        let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut at: Option<OwnedFd> = None;
        for name in parents {
            let from = at.as_ref().map_or(self.fd.as_fd(), AsFd::as_fd);
            at = Some(self.checked(rustix::fs::openat(from, *name, step, Mode::empty())?)?);
        }
        let from = at.as_ref().map_or(self.fd.as_fd(), AsFd::as_fd);
        let found = self.checked(rustix::fs::openat(from, *last, flags | OFlags::NOFOLLOW, mode)?)?;
        // a place is opened even if it is a symlink; whoever did not ask for that must not get it
        let place = flags.contains(OFlags::PATH) && !flags.contains(OFlags::NOFOLLOW);
        if place && FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode) == FileType::Symlink {
            return Err(Errno::LOOP);
        }
        Ok(found)
    }

    fn checked(&self, fd: OwnedFd) -> Result<OwnedFd> {
        match self.device {
            Some(device) if rustix::fs::fstat(&fd)?.st_dev != device => Err(Errno::XDEV),
            _ => Ok(fd),
        }
    }

    #[cfg(test)]
    pub(crate) fn without_openat2(self) -> Self {
        self.no_openat2.store(true, Ordering::Relaxed);
        self
    }
}

/// The folder and the name of a relative path; `None` for the root itself.
pub(crate) fn split(relative: &Path) -> Option<(&Path, &OsStr)> {
    Some((relative.parent()?, relative.file_name()?))
}

/// `bytes` as a path.
pub(crate) fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn component_walk_refuses_what_openat2_refuses() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("in/sub")).unwrap();
        std::fs::write(dir.path().join("in/sub/f"), "x").unwrap();
        std::fs::write(dir.path().join("secret"), "s").unwrap();
        let root = dir.path().join("in");
        std::os::unix::fs::symlink("../secret", root.join("link")).unwrap();
        std::os::unix::fs::symlink("..", root.join("up")).unwrap();
        for slow in [false, true] {
            let mut r = Root::open(&root, false).unwrap();
            if slow {
                r = r.without_openat2();
            }
            let open = |p: &str| r.open_at(Path::new(p), OFlags::RDONLY, Mode::empty());
            assert!(open("sub/f").is_ok());
            assert!(open("").is_ok());
            assert_eq!(open("link").unwrap_err(), Errno::LOOP);
            let place = |p: &str, flags| r.open_at(Path::new(p), OFlags::PATH | flags, Mode::empty());
            assert!(place("sub/f", OFlags::empty()).is_ok());
            assert_eq!(place("link", OFlags::empty()).unwrap_err(), Errno::LOOP);
            assert!(place("link", OFlags::NOFOLLOW).is_ok());
            assert!(open("up/secret").is_err());
            assert!(open("../secret").is_err());
            assert!(open("/etc/passwd").is_err());
        }
    }
}
