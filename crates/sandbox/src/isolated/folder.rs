//! Files in places that commands can write, touched by the server without following a single link.
//!
//! The server is not fenced in. Whatever a command leaves where the server reads, writes or removes (a link, a FIFO,
//! a folder that is swapped meanwhile) must not lead it elsewhere or make it wait. So every path is walked from `/`,
//! one real folder after the other, and what stands at its end is opened beneath the last one.

use rustix::{
    fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Uid},
    io::Errno,
};
use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read as _, Write as _},
    os::{fd::OwnedFd, unix::ffi::OsStrExt as _, unix::ffi::OsStringExt as _},
    path::{Component, Path, PathBuf},
};

/// A folder that was reached without following a link.
pub(crate) struct Folder(OwnedFd);

const OPEN: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Folder {
    /// The folder every path begins at.
    pub(crate) fn top() -> io::Result<Self> {
        Ok(Self(rustix::fs::open("/", OPEN, Mode::empty())?))
    }

    /// Opens an absolute path of which every component must be a folder.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut folder = Self::top()?;
        for part in path.components() {
            match part {
                Component::RootDir => {}
                Component::Normal(name) => folder = folder.enter(name)?,
                _ => return Err(Errno::INVAL.into()),
            }
        }
        Ok(folder)
    }

    /// The folder that a path lies in, and its name there.
    pub(crate) fn above(path: &Path) -> io::Result<(Self, &OsStr)> {
        let (parent, name) = path.parent().zip(path.file_name()).ok_or(Errno::INVAL)?;
        Ok((Self::open(parent)?, name))
    }

    pub(crate) fn enter(&self, name: &OsStr) -> io::Result<Self> {
        Ok(Self(rustix::fs::openat(&self.0, name, OPEN, Mode::empty())?))
    }

    /// What stands there; of a link, the link itself.
    pub(crate) fn stat(&self, name: &OsStr) -> io::Result<Stat> {
        Ok(rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    pub(crate) fn link(&self, name: &OsStr) -> io::Result<PathBuf> {
        let target = rustix::fs::readlinkat(&self.0, name, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()).into())
    }

    /// At most so many names, sorted.
    pub(crate) fn names(&self, most: usize) -> io::Result<Vec<OsString>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let entries = Dir::new(rustix::fs::openat(&self.0, ".", flags, Mode::empty())?)?;
        let names = entries.flatten().map(|entry| OsStr::from_bytes(entry.file_name().to_bytes()).to_owned());
        let mut names: Vec<OsString> = names.filter(|name| name != "." && name != "..").take(most).collect();
        names.sort();
        Ok(names)
    }

    /// Opens a regular file for reading and never waits for anybody.
    pub(crate) fn file(&self, name: &OsStr) -> io::Result<(File, Stat)> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.0, name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a regular file"));
        }
        Ok((file.into(), stat))
    }

    /// The content of a regular file of at most so many bytes.
    pub(crate) fn read(&self, name: &OsStr, most: u64) -> io::Result<Vec<u8>> {
        let (file, _) = self.file(name)?;
        let mut content = Vec::new();
        file.take(most + 1).read_to_end(&mut content)?;
        if content.len() as u64 > most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(content)
    }

    /// Makes a file that is not there yet.
    pub(crate) fn create(
        &self,
        name: &OsStr,
        content: &[u8],
        mode: u32,
        owner: Option<(u32, u32)>,
    ) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::openat(&self.0, name, flags, Mode::from_raw_mode(0o600))?);
        file.write_all(content)?;
        if let Some((uid, gid)) = owner {
            // Only root may, and only for root it matters.
            let _ = rustix::fs::fchown(&file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        }
        Ok(rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?)
    }

    pub(crate) fn make_link(&self, name: &OsStr, target: &Path) -> io::Result<()> {
        Ok(rustix::fs::symlinkat(target, &self.0, name)?)
    }

    /// The folder of this name, made when it is missing.
    pub(crate) fn make(&self, name: &OsStr) -> io::Result<Self> {
        match rustix::fs::mkdirat(&self.0, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => self.enter(name),
            Err(error) => Err(error.into()),
        }
    }

    /// Moves what has this name here to a name in `to` that is free.
    pub(crate) fn move_to(&self, name: &OsStr, to: &Self, new: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat_with(&self.0, name, &to.0, new, RenameFlags::NOREPLACE)?)
    }

    /// Removes a name that is no folder.
    pub(crate) fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// Removes a name and, of a folder, what is in it: so many levels, and so many names in each.
    pub(crate) fn remove_all(&self, name: &OsStr, depth: usize, most: usize) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.0, name, AtFlags::empty()) {
            Err(Errno::ISDIR) if depth > 0 => {
                let inner = self.enter(name)?;
                for name in inner.names(most)? {
                    inner.remove_all(&name, depth - 1, most)?;
                }
                Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
            }
            done => Ok(done?),
        }
    }
}

/// [`Folder::read`] of a path.
pub(crate) fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let (folder, name) = Folder::above(path)?;
    folder.read(name, most)
}

/// What stands at a path that is reached without a link; nothing when that cannot be told.
pub(crate) fn kind(path: &Path) -> Option<FileType> {
    let (folder, name) = Folder::above(path).ok()?;
    Some(FileType::from_raw_mode(folder.stat(name).ok()?.st_mode))
}
