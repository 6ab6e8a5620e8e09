//! All files, with a mark for the state that each is in: for those who follow the journal and lost it.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use rustix::fd::BorrowedFd;
use rustix::fs::Stat;

use crate::root::Workspace;
use crate::walk::{self, Reach, Visit};

/// A change within this time of another may leave the times of a file as they are.
const YOUNG: Duration = Duration::from_secs(2);

/// What is there, in no order.
#[derive(Debug, Default)]
pub struct Listing {
    /// Files that no rule ignores, as [`Workspace::files`] gives them.
    pub files: Vec<(PathBuf, u64)>,
    /// Files and folders that a rule ignores, and whether it is a folder; what lies in one is not looked at.
    pub ignored: Vec<(PathBuf, bool)>,
}

impl Visit for Listing {
    fn file(&mut self, _: BorrowedFd<'_>, path: &Path) {
        self.files.push((path.to_owned(), 0));
    }

    fn ignored(&mut self, path: &Path, is_folder: bool) {
        self.ignored.push((path.to_owned(), is_folder));
    }
}

impl Workspace {
    /// The files that `wanted` lets through and no rule ignores, each with a number that is another when the file has
    /// changed; 0 for one that changed so lately that a further change might not show.
    pub fn files(&self, wanted: &dyn Fn(&Path) -> bool) -> Vec<(PathBuf, u64)> {
        self.listing(wanted).files
    }

    /// The same, and what rules ignore.
    pub fn listing(&self, wanted: &dyn Fn(&Path) -> bool) -> Listing {
        let cancel = AtomicBool::new(false);
        let reach = Reach { start: Path::new(""), depth: usize::MAX, cancel: &cancel };
        let mut all = Listing::default();
        for part in walk::walk(self, &reach, Listing::default) {
            let found = part.files.into_iter().filter(|(path, _)| wanted(path));
            all.files.extend(found.filter_map(|(path, _)| {
                let mark = mark(&self.lstat(&path).ok()?);
                Some((path, mark))
            }));
            all.ignored
                .extend(part.ignored.into_iter().filter(|(path, is_folder)| *is_folder || wanted(path)));
        }
        all
    }

    /// Whether a file is no part of the workspace because a rule ignores it, as far as rules and the live workspace
    /// know now.
    pub fn leaves_out(&self, path: &Path) -> bool {
        !self.live_knows(path) && walk::leaves_out_file(self, path)
    }

    /// A number that is another when what is at a path has changed; nothing when nothing is there.
    pub fn stamp_of(&self, path: &Path) -> Option<u64> {
        Some(stamp(&self.lstat(&self.plain(path)?.relative).ok()?))
    }

    /// Whether the tree is being read for the first time, so that waiting brings an index.
    pub fn is_going_live(&self) -> bool {
        self.live.get().is_some_and(|live| live.lock().is_none())
    }
}

fn mark(stat: &Stat) -> u64 {
    let changed = Duration::new(stat.st_ctime.max(0) as u64, stat.st_ctime_nsec as u32);
    if SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default() < changed + YOUNG {
        return 0;
    }
    stamp(stat)
}

fn stamp(stat: &Stat) -> u64 {
    let mut hasher = DefaultHasher::new();
    let times = (stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec);
    (stat.st_ino, stat.st_size, times).hash(&mut hasher);
    hasher.finish().max(1)
}
