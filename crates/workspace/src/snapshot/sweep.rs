//! Finding out what is on disk now, reading only what changed.

use super::{
    object::{Entry, Kind, Mode},
    pack::PackWriter,
    store::Store,
    tree::{Folder, Known, Stamp},
};
use crate::{
    Workspace,
    walk::{Reach, Visit, walk},
};
use rustix::{
    fd::BorrowedFd,
    fs::{FileType, Mode as Bits, OFlags, Stat},
    io::Errno,
};
use std::{
    collections::HashSet,
    fs::File,
    io::{self, Read as _},
    os::unix::ffi::OsStrExt as _,
    path::Path,
    sync::atomic::AtomicBool,
    time::UNIX_EPOCH,
};

/// Above this a file is streamed into the store instead of being held in memory.
const LARGE: u64 = 8 << 20;
/// A file changed this shortly before it was read may change again within the same tick of the clock.
const TICK_NANOS: i128 = 20_000_000;

/// Brings `seen` up to date and puts new contents into `writer`.
pub(super) fn sweep(
    workspace: &Workspace,
    store: &Store,
    writer: &mut PackWriter,
    seen: &mut Folder,
) -> io::Result<()> {
    let reach = Reach { start: Path::new(""), depth: usize::MAX, cancel: &AtomicBool::new(false) };
    let listed = walk(workspace, &reach, Listing::default);
    let mut present = HashSet::new();
    for folder in listed.iter().flat_map(|part| &part.folders) {
        let bytes = folder.as_os_str().as_bytes();
        seen.set_folder(bytes);
        present.insert(bytes.to_vec());
    }
    for path in listed.iter().flat_map(|part| &part.files) {
        let bytes = path.as_os_str().as_bytes();
        if let Some(known) = look(workspace, store, writer, path, seen.get(bytes))? {
            seen.set(bytes, known);
            present.insert(bytes.to_vec());
        }
    }
    for (path, _) in seen.files() {
        if !present.contains(&path) {
            seen.remove(&path);
        }
    }
    for folder in seen.folders().iter().rev() {
        if !present.contains(folder) {
            seen.remove(folder);
        }
    }
    Ok(())
}

/// Everything that belongs into a snapshot. Repositories inside the workspace have a history of their own.
#[derive(Default)]
struct Listing {
    files: Vec<Box<Path>>,
    folders: Vec<Box<Path>>,
}

impl Visit for Listing {
    fn folder(&mut self, path: &Path, _: BorrowedFd<'_>) {
        if !path.as_os_str().is_empty() {
            self.folders.push(path.into());
        }
    }

    fn file(&mut self, path: &Path) {
        self.files.push(path.into());
    }

    fn link(&mut self, path: &Path) {
        self.files.push(path.into());
    }

    fn nested_repository(&mut self, path: &Path) -> bool {
        self.folders.retain(|folder| folder.as_ref() != path);
        false
    }
}

/// One file as it is now; `None` when it is gone, is neither file nor symlink, or may not be read.
fn look(
    workspace: &Workspace,
    store: &Store,
    writer: &mut PackWriter,
    path: &Path,
    before: Option<&Known>,
) -> io::Result<Option<Known>> {
    let stat = match workspace.lstat(path) {
        Ok(stat) => stat,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let stamp = stamp(&stat);
    let mode = mode(&stat);
    if let Some(before) = before
        && before.stamp == Some(stamp)
        && Some(before.entry.mode) == mode
    {
        return Ok(Some(*before));
    }
    let id = match mode {
        None => return Ok(None),
        Some(Mode::Symlink) => {
            let Ok(target) = read_link(workspace, path) else { return Ok(None) };
            let id = Kind::Blob.id(&target);
            if !store.contains(&id) {
                writer.put(Kind::Blob, id, &target)?;
            }
            id
        }
        Some(_) => match read_blob(workspace, store, writer, path)? {
            Some(id) => id,
            None => return Ok(None),
        },
    };
    Ok(mode.map(|mode| Known { entry: Entry { mode, id }, stamp: settled(&stat).then_some(stamp) }))
}

fn read_blob(
    workspace: &Workspace,
    store: &Store,
    writer: &mut PackWriter,
    path: &Path,
) -> io::Result<Option<super::Oid>> {
    // A file that keeps changing is taken as it was at some moment; three tries at a whole one.
    for _ in 0..3 {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut file = match workspace.root.open_at(path, flags, Bits::empty()) {
            Ok(fd) => File::from(fd),
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::ACCESS) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        let size = file.metadata()?.len();
        if size > LARGE {
            if let Some(id) = writer.put_stream(&mut file, size)? {
                return Ok(Some(id));
            }
            continue;
        }
        let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
        file.read_to_end(&mut content)?;
        let id = Kind::Blob.id(&content);
        if !store.contains(&id) {
            writer.put(Kind::Blob, id, &content)?;
        }
        return Ok(Some(id));
    }
    Err(io::Error::other(format!("{} changes faster than it can be read", path.display())))
}

fn read_link(workspace: &Workspace, path: &Path) -> Result<Vec<u8>, Errno> {
    let link = workspace.root.open_at(path, OFlags::PATH | OFlags::NOFOLLOW, Bits::empty())?;
    Ok(rustix::fs::readlinkat(link, "", Vec::new())?.into_bytes())
}

fn mode(stat: &Stat) -> Option<Mode> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => Some(Mode::Symlink),
        FileType::RegularFile if stat.st_mode & 0o100 != 0 => Some(Mode::Executable),
        FileType::RegularFile => Some(Mode::File),
        _ => None,
    }
}

fn stamp(stat: &Stat) -> Stamp {
    Stamp {
        inode: stat.st_ino,
        size: stat.st_size.cast_unsigned(),
        mtime: (stat.st_mtime, stat.st_mtime_nsec),
        ctime: (stat.st_ctime, stat.st_ctime_nsec),
    }
}

/// Whether another change would surely move the file's times.
fn settled(stat: &Stat) -> bool {
    let now = UNIX_EPOCH.elapsed().map_or(0, |since| i128::try_from(since.as_nanos()).unwrap_or(i128::MAX));
    let changed = i128::from(stat.st_ctime) * 1_000_000_000 + i128::from(stat.st_ctime_nsec);
    now - changed > TICK_NANOS
}
