//! Telling states of files apart without reading them.

use std::io;
use std::time::{Duration, SystemTime};

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Stat};

use super::rel::Rel;
use crate::beneath::{as_path, split};
use crate::root::Workspace;
use crate::spread::spread;

/// A file that was changed less than this before it was looked at may change again without its time stamp moving.
const YOUNG: Duration = Duration::from_millis(20);
/// Entries that a thread compares at a time.
const SHARE: usize = 128;

/// What tells two states of a file apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) inode: u64,
    pub(super) size: u64,
    modified: i64,
    changed: i64,
    modified_nanos: u32,
    changed_nanos: u32,
}

impl Stamp {
    pub(super) fn of(stat: &Stat) -> Self {
        Self {
            inode: stat.st_ino,
            size: stat.st_size as u64,
            modified: stat.st_mtime,
            changed: stat.st_ctime,
            modified_nanos: stat.st_mtime_nsec as u32,
            changed_nanos: stat.st_ctime_nsec as u32,
        }
    }

    /// When the content was changed last.
    pub(super) fn modified(&self) -> (i64, u32) {
        (self.modified, self.modified_nanos)
    }

    /// Whether a change after `then`, the moment of the look, could leave it as it is.
    fn is_young(&self, then: SystemTime) -> bool {
        let changed = Duration::new(self.changed.max(0) as u64, self.changed_nanos);
        then.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default() < changed + YOUNG
    }
}

/// A state of an entry as it was seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// `None`: it was not there.
    pub(super) stamp: Option<Stamp>,
    /// It may have changed since without its stamp telling.
    pub(super) young: bool,
}

impl Seen {
    /// What stat data told somebody who began to look at the content at `began`.
    pub(super) fn new(stat: Option<&Stat>, began: SystemTime) -> Self {
        let stamp = stat.map(Stamp::of);
        Self { stamp, young: stamp.is_some_and(|stamp| stamp.is_young(began)) }
    }

    /// Whether it may be another one now.
    pub(super) fn differs(&self, now: Option<Stamp>) -> bool {
        self.young || self.stamp != now
    }
}

pub(super) fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

/// Asks for many stamps, keeping the last folder open: paths come in order.
struct Asker<'w> {
    workspace: &'w Workspace,
    folder: Option<(Vec<u8>, Option<OwnedFd>)>,
}

impl Asker<'_> {
    fn stamp(&mut self, path: &Rel) -> Option<Stamp> {
        let Some((folder, name)) = split(path.as_ref()) else {
            return self.workspace.lstat(path.as_ref()).ok().as_ref().map(Stamp::of);
        };
        let folder = folder.as_os_str().as_encoded_bytes();
        if self.folder.as_ref().is_none_or(|(open, _)| open != folder) {
            self.folder = Some((folder.to_vec(), self.workspace.root.open_dir(as_path(folder)).ok()));
        }
        // one name in an open folder leads nowhere else; what is mounted on it has another stamp
        let (_, Some(fd)) = self.folder.as_ref()? else { return None };
        rustix::fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW).ok().as_ref().map(Stamp::of)
    }
}

/// Those that may be no longer what was seen, asked with all threads when there are many.
pub(super) fn differing(workspace: &Workspace, known: &[(Rel, Seen)]) -> Vec<Rel> {
    let check = |asker: &mut Asker<'_>, part: &[(Rel, Seen)]| -> io::Result<Vec<Rel>> {
        let differs = part.iter().filter(|(path, seen)| seen.young || seen.stamp != asker.stamp(path));
        Ok(differs.map(|(path, _)| path.clone()).collect())
    };
    match spread(known, SHARE, || Asker { workspace, folder: None }, check) {
        Ok((parts, _)) => parts.concat(),
        // What it would have found is unknown.
        Err(_) => known.iter().map(|(path, _)| path.clone()).collect(),
    }
}
