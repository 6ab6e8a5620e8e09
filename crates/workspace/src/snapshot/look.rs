//! Reading files into the store, many at a time with all threads.

use super::{
    object::{Entry, Kind, Mode, Oid},
    pack::{Object, PackWriter, Packer},
    store::Store,
    tree::{Known, Stamp},
};
use crate::{Workspace, beneath::split, spread::spread};
use rustix::{
    buffer::spare_capacity,
    fd::{AsFd as _, OwnedFd},
    fs::{AtFlags, FileType, Mode as Bits, OFlags, Stat},
    io::Errno,
};
use std::{
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

/// Above this a file is streamed into the store instead of being held in memory.
const STREAMED: u64 = 8 << 20;
/// A file changed this shortly before it was read may change again within the same tick of the clock.
const TICK_NANOS: i128 = 20_000_000;
/// The same where times are told in seconds, every other one only on some file systems.
const LONG_TICK_NANOS: i128 = 2_100_000_000;
/// Files that are read before what was read is written.
const BLOCK: usize = 2048;
/// Files that a thread takes at a time.
const SHARE: usize = 32;

/// What a look at one file told.
pub(super) enum Look {
    /// It is what was known.
    Same,
    /// It is gone, or is neither file nor symlink.
    Gone,
    /// It may not be read.
    Closed,
    /// It is larger than what is kept.
    Large(Stamp),
    /// It is this.
    New(Known),
}

/// Looks at files and puts new contents into a pack.
pub(super) struct Looks<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) store: &'a Store,
    pub(super) writer: &'a mut PackWriter,
    /// Larger files are not read.
    pub(super) limit: u64,
}

/// What one thread saw.
enum Seen {
    Done(Look),
    /// Content that the store does not have, as it stands in a pack.
    Content(Known, Object),
    Streamed(Stat),
}

impl Looks<'_> {
    /// One look for each path.
    pub(super) fn at<'k>(
        &mut self,
        paths: &[Box<Path>],
        known: &(dyn Fn(&Path) -> Option<&'k Known> + Sync),
    ) -> io::Result<Vec<Look>> {
        let mut looks = Vec::with_capacity(paths.len());
        for block in paths.chunks(BLOCK) {
            let (workspace, store, limit) = (self.workspace, self.store, self.limit);
            let begin = || Eye { workspace, store, limit, packer: Packer::default(), folder: None };
            let work = |eye: &mut Eye<'_>, paths: &[Box<Path>]| -> io::Result<Vec<Seen>> {
                paths.iter().map(|path| eye.see(path, known(path))).collect()
            };
            let (parts, _) = spread(block, SHARE, begin, work)?;
            for (path, seen) in block.iter().zip(parts.into_iter().flatten()) {
                looks.push(match seen {
                    Seen::Done(look) => look,
                    Seen::Content(known, object) => {
                        self.writer.put_object(known.entry.id, &object)?;
                        Look::New(known)
                    }
                    Seen::Streamed(stat) => self.stream(path, &stat)?,
                });
            }
        }
        Ok(looks)
    }

    /// Notes folders that not everybody may look into.
    pub(super) fn note_folders(&self, folders: &[(PathBuf, u32)]) {
        if !folders.is_empty() {
            let mut narrow = self.store.narrow();
            folders.iter().for_each(|(path, bits)| narrow.note_folder(path, *bits));
        }
    }

    fn stream(&mut self, path: &Path, stat: &Stat) -> io::Result<Look> {
        // A file that is written to is taken as it was at some moment: of one that grows, what was there when it was
        // opened. Only one that shrank meanwhile is tried again.
        for _ in 0..3 {
            let file = match open(self.workspace, path) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(Look::Closed),
                opened => opened?,
            };
            let Some(file) = file else { return Ok(Look::Gone) };
            let size = file.metadata()?.len();
            if let (Some(id), Some(mode)) = (self.writer.put_stream(file.take(size), size)?, mode(stat)) {
                self.store.narrow().note(path, id, stat);
                return Ok(Look::New(known(Entry { mode, id }, stat)));
            }
        }
        Err(io::Error::other(format!("{} changes faster than it can be read", path.display())))
    }
}

/// Looks at files one after another; quicker when those of a folder come together.
struct Eye<'a> {
    workspace: &'a Workspace,
    store: &'a Store,
    limit: u64,
    packer: Packer,
    /// The folder of the last file, when it is there.
    folder: Option<(PathBuf, Option<OwnedFd>)>,
}

impl Eye<'_> {
    fn see(&mut self, path: &Path, before: Option<&Known>) -> io::Result<Seen> {
        let gone = Ok(Seen::Done(Look::Gone));
        let Some((above, name)) = split(path) else { return gone };
        if self.folder.as_ref().is_none_or(|(last, _)| last != above) {
            let folder = match self.workspace.root.open_dir(above) {
                Ok(folder) => Some(folder),
                Err(errno) if is_gone(errno) || errno == Errno::ACCESS => None,
                Err(errno) => return Err(errno.into()),
            };
            self.folder = Some((above.to_owned(), folder));
        }
        let Some((_, Some(folder))) = &self.folder else { return gone };
        let stat = match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(errno) if is_gone(errno) => return gone,
            Err(Errno::ACCESS) => return Ok(Seen::Done(Look::Closed)),
            Err(errno) => return Err(errno.into()),
        };
        let Some(mode) = mode(&stat) else { return gone };
        if before.is_some_and(|before| before.stamp == Some(stamp(&stat)) && before.entry.mode == mode) {
            return Ok(Seen::Done(Look::Same));
        }
        let size = stat.st_size.cast_unsigned();
        let content = if mode == Mode::Symlink {
            let Ok(target) = read_link(self.workspace, path) else { return gone };
            target
        } else if size > self.limit {
            return Ok(Seen::Done(Look::Large(stamp(&stat))));
        } else if size > STREAMED {
            return Ok(Seen::Streamed(stat));
        } else {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
            let file = match self.workspace.root.open_in(folder.as_fd(), name, flags) {
                Ok(file) => file,
                Err(errno) if is_gone(errno) => return gone,
                Err(Errno::ACCESS) => return Ok(Seen::Done(Look::Closed)),
                Err(errno) => return Err(errno.into()),
            };
            read_all(file, usize::try_from(size).unwrap_or(0))?
        };
        let id = Kind::Blob.id(&content);
        if mode != Mode::Symlink {
            self.store.narrow().note(path, id, &stat);
        }
        let known = known(Entry { mode, id }, &stat);
        if before == Some(&known) {
            return Ok(Seen::Done(Look::Same));
        }
        if self.store.contains(&id) {
            return Ok(Seen::Done(Look::New(known)));
        }
        Ok(Seen::Content(known, self.packer.object(Kind::Blob, &content)?))
    }
}

fn is_gone(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV)
}

/// What is in a file that probably has this size: then one read is all it takes.
fn read_all(file: OwnedFd, size: usize) -> io::Result<Vec<u8>> {
    let mut content = Vec::with_capacity(size + 1);
    let got = rustix::io::retry_on_intr(|| rustix::io::read(&file, spare_capacity(&mut content)))?;
    if got != size {
        File::from(file).read_to_end(&mut content)?;
    }
    Ok(content)
}

fn known(entry: Entry, stat: &Stat) -> Known {
    Known { entry, stamp: settled(stat).then(|| stamp(stat)) }
}

pub(super) fn open(workspace: &Workspace, path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    match workspace.root.open_at(path, flags, Bits::empty()) {
        Ok(fd) => Ok(Some(File::from(fd))),
        Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

fn read_link(workspace: &Workspace, path: &Path) -> Result<Vec<u8>, Errno> {
    let link = workspace.root.open_at(path, OFlags::PATH | OFlags::NOFOLLOW, Bits::empty())?;
    Ok(rustix::fs::readlinkat(link, "", Vec::new())?.into_bytes())
}

/// How the file would stand in a tree; `None` for what cannot.
pub(super) fn mode(stat: &Stat) -> Option<Mode> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => Some(Mode::Symlink),
        FileType::RegularFile if stat.st_mode & 0o100 != 0 => Some(Mode::Executable),
        FileType::RegularFile => Some(Mode::File),
        _ => None,
    }
}

pub(super) fn stamp(stat: &Stat) -> Stamp {
    Stamp {
        inode: stat.st_ino,
        size: stat.st_size.cast_unsigned(),
        mtime: (stat.st_mtime, stat.st_mtime_nsec),
        ctime: (stat.st_ctime, stat.st_ctime_nsec),
    }
}

/// Whether another change would surely move the times.
pub(super) fn settled(stat: &Stat) -> bool {
    let now = UNIX_EPOCH.elapsed().map_or(0, |since| i128::try_from(since.as_nanos()).unwrap_or(i128::MAX));
    let changed = i128::from(stat.st_ctime) * 1_000_000_000 + i128::from(stat.st_ctime_nsec);
    let in_seconds = stat.st_ctime_nsec == 0 && stat.st_mtime_nsec == 0;
    now - changed > if in_seconds { LONG_TICK_NANOS } else { TICK_NANOS }
}

/// The id of content, put into the pack when the store does not have it.
pub(super) fn keep(store: &Store, writer: &mut PackWriter, content: &[u8]) -> io::Result<Oid> {
    let id = Kind::Blob.id(content);
    if !store.contains(&id) {
        writer.put(Kind::Blob, id, content)?;
    }
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_seconds_take_longer_to_settle() {
        let mut stat = rustix::fs::stat("/").unwrap();
        let now = i64::try_from(UNIX_EPOCH.elapsed().unwrap().as_secs()).unwrap();
        for (ago, nanos, told) in [(1, 0, false), (1, 1, true), (5, 0, true)] {
            (stat.st_mtime, stat.st_ctime) = (now - ago, now - ago);
            (stat.st_mtime_nsec, stat.st_ctime_nsec) = (0, nanos);
            assert_eq!(settled(&stat), told, "{ago} {nanos}");
        }
    }
}
