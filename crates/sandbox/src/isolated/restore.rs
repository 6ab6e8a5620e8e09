//! Where git cannot be frozen: what stood there before a command, compared with and put back after it.
//!
//! Who made a change cannot be told, it may have been a person at work beside the command. So nothing is thrown
//! away: what stood in the way is moved aside, and the remark says where.

use super::folder::Folder;
use rustix::fs::{FileType, Stat};
use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Larger files than this are no hooks: of them only changes are noticed.
const LARGEST: u64 = 4 << 20;
/// The same for all of them together.
const ALTOGETHER: u64 = 64 << 20;
/// Entries that are looked at below one path, and how deep.
const ENTRIES: usize = 4096;
const DEEPEST: usize = 16;
/// Where what was undone is kept, inside the repository.
const ASIDE: &str = "undone-by-sandbox";
/// How much of it is kept besides what the last commands changed, and for how long.
const KEPT: usize = 100;
const KEPT_FOR: Duration = Duration::from_secs(7 * 24 * 3600);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Was {
    Folder,
    File {
        content: Vec<u8>,
        mode: u32,
        owner: (u32, u32),
    },
    /// Too large to be kept: inode, size, time of change.
    Large(u64, i64, i64, u64),
    Link(PathBuf),
    /// A FIFO, a socket, a file that cannot be read.
    Other,
}

type Seen = BTreeMap<PathBuf, Was>;

/// The content of files, kept to be compared with and put back.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    /// What is watched, whether it is there or not.
    roots: Vec<PathBuf>,
    /// The repository.
    common: Option<PathBuf>,
    /// Folders below which folders may be made again.
    bases: Vec<PathBuf>,
    before: Seen,
}

/// A change since then.
#[derive(Debug)]
pub(crate) struct Change {
    path: PathBuf,
    /// Where what stood there is kept, when something did.
    undone: io::Result<Option<PathBuf>>,
    /// Who would run it.
    who: &'static str,
}

impl Change {
    pub(crate) fn remark(&self) -> String {
        let (path, who) = (self.path.display(), self.who);
        match &self.undone {
            Ok(kept) => {
                let kept = kept.as_ref().map_or_else(String::new, |kept| {
                    format!("; it is kept as {}, for the case that it was your own", kept.display())
                });
                format!(
                    "the sandbox undid a change to {path}, because {who} on the host would run what is written there{kept}"
                )
            }
            Err(error) => format!(
                "a change to {path} could not be undone ({error}): {who} on the host would run what is written \
                 there, look at it first"
            ),
        }
    }
}

fn millis() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()
}

fn look(path: &Path, seen: &mut Seen) {
    let mut room = ALTOGETHER;
    if let Ok((folder, name)) = Folder::above(path) {
        look_in(&folder, name, path.to_owned(), DEEPEST, &mut room, seen);
    }
}

fn look_in(folder: &Folder, name: &OsStr, path: PathBuf, depth: usize, room: &mut u64, seen: &mut Seen) {
    let Ok(stat) = folder.stat(name) else { return };
    let was = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => {
            let inner = folder.enter(name).ok().filter(|_| depth > 0);
            for name in inner.iter().flat_map(|inner| inner.names(ENTRIES)).flatten() {
                if let Some(inner) = &inner {
                    look_in(inner, &name, path.join(&name), depth - 1, room, seen);
                }
            }
            Was::Folder
        }
        FileType::RegularFile => file(folder, name, &stat, room),
        FileType::Symlink => folder.link(name).map_or(Was::Other, Was::Link),
        _ => Was::Other,
    };
    seen.insert(path, was);
}

fn file(folder: &Folder, name: &OsStr, stat: &Stat, room: &mut u64) -> Was {
    let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
    if size > LARGEST || size > *room {
        return Was::Large(stat.st_ino, stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
    }
    *room -= size;
    folder.read(name, LARGEST).map_or(Was::Other, |content| Was::File {
        content,
        mode: stat.st_mode & 0o7777,
        owner: (stat.st_uid, stat.st_gid),
    })
}

impl Snapshot {
    pub(crate) fn take(roots: Vec<PathBuf>, common: Option<PathBuf>, folder: &Path) -> Self {
        let mut before = Seen::new();
        roots.iter().for_each(|root| look(root, &mut before));
        let mut bases = vec![folder.to_owned()];
        bases.extend(common.as_deref().and_then(Path::parent).map(Path::to_owned));
        Self { roots, common, bases, before }
    }

    /// Undoes what was changed since, and names it.
    pub(crate) fn restore(&self) -> Vec<Change> {
        let mut now = Seen::new();
        self.roots.iter().for_each(|root| look(root, &mut now));
        if now == self.before {
            return Vec::new();
        }
        // First: whatever the remarks are about to name stays.
        self.tidy();
        let mut changes: Vec<Change> = Vec::new();
        let who = if self.common.is_some() { "git" } else { "a shell or a tool" };
        // Parents come first in both.
        for (path, is) in &now {
            let gone = changes.iter().any(|change| path.starts_with(&change.path));
            if self.before.get(path) != Some(is) && !gone {
                let undone = self.replace(path, self.before.get(path));
                changes.push(Change { path: path.clone(), undone, who });
            }
        }
        for (path, was) in &self.before {
            let gone = !now.contains_key(path) || changes.iter().any(|change| path.starts_with(&change.path));
            let again = changes.iter().any(|change| change.path == *path);
            if gone && !again {
                let undone = self.put(path, was).map(|()| None);
                changes.push(Change { path: path.clone(), undone, who });
            }
        }
        changes
    }

    /// Moves what stands at `path` aside and puts there what was there before.
    fn replace(&self, path: &Path, was: Option<&Was>) -> io::Result<Option<PathBuf>> {
        if matches!(was, Some(Was::Large(..) | Was::Other)) {
            return Err(io::Error::other("there is no copy of what was there"));
        }
        let kept = self.keep(path)?;
        was.map_or(Ok(()), |was| self.put(path, was))?;
        Ok(Some(kept))
    }

    fn put(&self, path: &Path, was: &Was) -> io::Result<()> {
        let (parent, name) = path.parent().zip(path.file_name()).ok_or(io::ErrorKind::InvalidInput)?;
        let folder = self.folder(parent)?;
        match was {
            Was::Folder => folder.make(name).map(drop),
            Was::File { content, mode, owner } => folder.create(name, content, *mode, Some(*owner)),
            Was::Link(target) => folder.make_link(name, target),
            Was::Large(..) | Was::Other => Err(io::Error::other("there is no copy of what was there")),
        }
    }

    /// The folder of this path; what a command put in its place or above it is moved aside.
    fn folder(&self, path: &Path) -> io::Result<Folder> {
        let (mut folder, mut so_far) = (Folder::top()?, PathBuf::from("/"));
        for name in path.iter().skip(1) {
            so_far.push(name);
            let ours = self.bases.iter().any(|base| so_far.starts_with(base) && so_far != *base);
            folder = match folder.enter(name) {
                Err(_) if ours => {
                    if folder.stat(name).is_ok() {
                        self.keep(&so_far)?;
                    }
                    folder.make(name)?
                }
                entered => entered?,
            };
        }
        Ok(folder)
    }

    /// Removes what was moved aside long ago, and all but the last when there is much. What has another name than
    /// [`Snapshot::keep`] gives is not ours.
    fn tidy(&self) {
        let aside = |common: &PathBuf| Folder::open(common)?.enter(OsStr::new(ASIDE));
        let Some(Ok(aside)) = self.common.as_ref().map(aside) else { return };
        let when = |name: &OsStr| name.to_string_lossy().split_once('-')?.0.parse::<u128>().ok();
        let mut all: Vec<(u128, OsString)> = aside
            .names(ENTRIES)
            .into_iter()
            .flatten()
            .filter_map(|name| Some((when(&name)?, name)))
            .collect();
        all.sort_unstable();
        let oldest = millis().saturating_sub(KEPT_FOR.as_millis());
        let aged = all.iter().take_while(|(time, _)| *time < oldest).count();
        for (_, name) in &all[..aged.max(all.len().saturating_sub(KEPT))] {
            // What cannot be removed harms nobody.
            let _ = aside.remove_all(name, DEEPEST, ENTRIES);
        }
    }

    /// Moves something out of git's sight and says where it is now.
    fn keep(&self, path: &Path) -> io::Result<PathBuf> {
        let (from, name) = Folder::above(path)?;
        let time = millis();
        let label = |front: &str, back: &str| {
            let mut label = OsString::from(front);
            label.push(name);
            label.push(back);
            label
        };
        if let Some(common) = self.common.as_ref().filter(|common| !common.starts_with(path))
            && let Ok(aside) = Folder::open(common).and_then(|common| common.make(OsStr::new(ASIDE)))
        {
            let new = label(&format!("{time}-"), "");
            if from.move_to(name, &aside, &new).is_ok() {
                return Ok(common.join(ASIDE).join(new));
            }
        }
        let new = label("", &format!(".undone-{time}"));
        from.move_to(name, &from, &new)?;
        Ok(path.with_file_name(new))
    }
}

/// What stood there before the first of the commands that run at the same time: one that starts while another has
/// changed something must not take that for the truth.
#[derive(Debug, Default)]
pub(crate) struct Baseline(Mutex<(usize, Vec<Snapshot>)>);

impl Baseline {
    pub(crate) fn begin(self: &Arc<Self>, take: impl FnOnce() -> Vec<Snapshot>) -> Turn {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.0 == 0 {
            state.1 = take();
        }
        state.0 += 1;
        Turn(Some(self.clone()))
    }

    fn end(&self) -> Vec<Change> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = state.1.iter().flat_map(Snapshot::restore).collect();
        state.0 -= 1;
        if state.0 == 0 {
            state.1 = Vec::new();
        }
        changes
    }
}

/// One command's part in it, which ends with the command, also when nobody waits for that.
pub(crate) struct Turn(Option<Arc<Baseline>>);

impl Turn {
    /// Undoes what was changed, and says so.
    pub(crate) fn finish(mut self) -> Vec<String> {
        let changes = self.0.take().map(|baseline| baseline.end()).unwrap_or_default();
        changes.iter().map(Change::remark).collect()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(baseline) = self.0.take() {
            baseline.end();
        }
    }
}
