//! What is known about the tree, and how it is kept right.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fs::File;
use std::io::Read as _;
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use rustix::fd::BorrowedFd;
use rustix::fs::inotify::ReadFlags;
use rustix::fs::{FileType, Mode as FileMode, OFlags, Stat};
use rustix::io::Errno;

use super::journal::{Event, Journal};
use super::trigram::{Extractor, Index, Need};
use super::{LiveOptions, Mode};
use crate::beneath::as_path;
use crate::root::Workspace;
use crate::rules::{self, Present, Rules};
use crate::temp;
use crate::text::{self, Encoding};
use crate::walk::{self, Folder, Reach, Scratch, Visit};

/// Larger files are not indexed: they are searched every time.
const INDEX_LIMIT: u64 = crate::grep::WHOLE;
/// A file that was changed less than this before it was read may change again without its time stamp moving.
const YOUNG: Duration = Duration::from_millis(20);
const NOT_INDEXED: u32 = u32::MAX;
/// Changes that are remembered for those who follow the journal.
const REMEMBERED: usize = 16_384;
/// Files read between two looks at the index while it is built.
const BLOCK: usize = 512;

/// A workspace-relative path, ordered by its bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Rel(Arc<[u8]>);

impl Rel {
    pub(crate) fn new(path: &Path) -> Self {
        Self(path.as_os_str().as_bytes().into())
    }

    fn child(&self, name: &[u8]) -> Self {
        if self.0.is_empty() { Self(name.into()) } else { Self([&self.0, &b"/"[..], name].concat().into()) }
    }

    fn parent(&self) -> Option<Self> {
        self.as_ref().parent().map(Self::new)
    }

    /// Whether it is `folder` or lies below it.
    pub(crate) fn is_within(&self, folder: &Self) -> bool {
        folder.0.is_empty()
            || self.0.strip_prefix(&folder.0[..]).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
    }
}

impl AsRef<Path> for Rel {
    fn as_ref(&self) -> &Path {
        as_path(&self.0)
    }
}

impl Borrow<[u8]> for Rel {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

/// What tells two states of a file apart without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, u64),
    changed: (i64, u64),
}

impl Stamp {
    fn of(stat: &Stat) -> Self {
        Self {
            inode: stat.st_ino,
            size: stat.st_size as u64,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    /// Whether a further change could leave it as it is.
    fn is_young(&self) -> bool {
        let changed = Duration::new(self.changed.0.max(0) as u64, self.changed.1 as u32);
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        now < changed + YOUNG
    }
}

/// A file that is part of the workspace.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    stamp: Stamp,
    id: u32,
    /// Searched whatever the index says.
    always: bool,
    /// Changes without events; searched until it is closed.
    hot: bool,
    young: bool,
}

impl Entry {
    pub(crate) fn modified(&self) -> (i64, i64) {
        (self.stamp.modified.0, self.stamp.modified.1 as i64)
    }
}

struct Place {
    watch: Option<i32>,
    rules: Rules,
    present: Present,
    stamp: Option<Stamp>,
    young: bool,
}

/// Counters for `doctor`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) rescans: u64,
    pub(crate) overflows: u64,
    pub(crate) sweeps: u64,
    pub(crate) swept_changes: u64,
}

/// The tree as it is known.
pub(crate) struct State {
    options: LiveOptions,
    pub(crate) mode: Mode,
    pub(crate) why: String,
    journal: Option<Journal>,
    watches: HashMap<i32, Rel>,
    folders: BTreeMap<Rel, Place>,
    files: BTreeMap<Rel, Entry>,
    always: BTreeSet<Rel>,
    owners: Vec<Option<Rel>>,
    dead: usize,
    index: Index,
    dirty: BTreeSet<Rel>,
    /// Ignore files that send no events, and the folder to look through again when they change.
    probes: BTreeMap<PathBuf, (Rel, Option<Stamp>)>,
    /// Files above this size are not indexed, to stay within the budget.
    index_limit: u64,
    pub(crate) text_bytes: u64,
    pub(crate) counters: Counters,
    sequence: u64,
    changes: VecDeque<Rel>,
    extractor: Extractor,
    buffer: Vec<u8>,
}

/// What a walk found.
struct Scanner<'j> {
    journal: Option<&'j Journal>,
    room: &'j AtomicUsize,
    exhausted: &'j AtomicBool,
    folders: Vec<(Rel, Place)>,
    files: Vec<Rel>,
}

impl Visit for Scanner<'_> {
    fn folder(&mut self, path: &Path, fd: BorrowedFd<'_>) {
        // the watch first, the listing after: what comes later sends an event, what came before is listed
        let watch = self.journal.and_then(|journal| {
            let full = self
                .room
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |room| room.checked_sub(1))
                .is_err();
            match if full { Err(Errno::NOSPC) } else { journal.watch(fd) } {
                Ok(watch) => Some(watch),
                Err(_) => {
                    self.exhausted.store(true, Ordering::Relaxed);
                    None
                }
            }
        });
        let stamp = rustix::fs::fstat(fd).ok().map(|stat| Stamp::of(&stat));
        let young = stamp.is_some_and(|stamp| stamp.is_young());
        self.folders
            .push((Rel::new(path), Place { watch, rules: None, present: Present::default(), stamp, young }));
    }

    fn rules(&mut self, rules: &Rules, present: Present) {
        if let Some((_, place)) = self.folders.last_mut() {
            place.rules = rules.clone();
            place.present = present;
        }
    }

    fn file(&mut self, path: &Path) {
        self.files.push(Rel::new(path));
    }

    fn litter(&mut self, folder: BorrowedFd<'_>, name: &Path) {
        temp::sweep(folder, name.as_os_str());
    }
}

/// What a look at a file told; its trigrams are in the extractor.
enum Look {
    Gone,
    Found { stamp: Stamp, always: bool },
}

/// Reads a file for the index.
fn look(
    workspace: &Workspace,
    path: &Path,
    limit: u64,
    buffer: &mut Vec<u8>,
    extractor: &mut Extractor,
) -> Look {
    extractor.clear();
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let fd = match workspace.root.open_at(path, flags, FileMode::empty()) {
        Ok(fd) => fd,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV | Errno::NXIO) => return Look::Gone,
        // not readable now: whoever may read it later finds it
        Err(_) => {
            return match workspace.lstat(path) {
                Ok(stat) if regular(&stat) => Look::Found { stamp: Stamp::of(&stat), always: true },
                _ => Look::Gone,
            };
        }
    };
    let Ok(stat) = rustix::fs::fstat(&fd) else { return Look::Gone };
    if !regular(&stat) {
        return Look::Gone;
    }
    let stamp = Stamp::of(&stat);
    if stamp.size > limit {
        return Look::Found { stamp, always: true };
    }
    buffer.clear();
    if File::from(fd).take(limit + 1).read_to_end(buffer).is_err() || buffer.len() as u64 > limit {
        return Look::Found { stamp, always: true };
    }
    // what is transcoded before it is searched has other bytes than the file
    if text::encoding_of(buffer) != (Encoding::Utf8, false) {
        return Look::Found { stamp, always: true };
    }
    let nul = memchr::memchr(0, buffer);
    if nul.is_none_or(|nul| nul >= text::BINARY_WINDOW) {
        extractor.run(&buffer[..nul.unwrap_or(buffer.len())]);
    }
    // a write through another name of the file sends us nothing
    Look::Found { stamp, always: stat.st_nlink > 1 }
}

fn symlink(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
}

fn regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

impl State {
    /// Looks at the whole tree. Takes as long as that takes; nobody waits for it.
    pub(crate) fn build(workspace: &Workspace, options: LiveOptions, stop: &AtomicBool) -> Self {
        let (mode, why) = choose(workspace, &options);
        let mut state = Self {
            journal: if mode == Mode::Events { Journal::new().ok() } else { None },
            options,
            mode,
            why,
            watches: HashMap::new(),
            folders: BTreeMap::new(),
            files: BTreeMap::new(),
            always: BTreeSet::new(),
            owners: Vec::new(),
            dead: 0,
            index: Index::default(),
            dirty: BTreeSet::new(),
            probes: BTreeMap::new(),
            index_limit: INDEX_LIMIT,
            text_bytes: 0,
            counters: Counters::default(),
            sequence: 1,
            changes: VecDeque::new(),
            extractor: Extractor::default(),
            buffer: Vec::new(),
        };
        if mode == Mode::Events && state.journal.is_none() {
            state.fall_back("no inotify instance is free");
        }
        if state.mode != Mode::Scan {
            state.scan(workspace, &Rel::new(Path::new("")));
            state.index_dirty_in_parallel(workspace, stop);
            state.index.shrink();
            state.changes.clear();
        }
        state
    }

    fn fall_back(&mut self, why: &str) {
        self.mode = Mode::Stat;
        why.clone_into(&mut self.why);
        self.journal = None;
        self.watches.clear();
        self.folders.values_mut().for_each(|place| place.watch = None);
    }

    /// Makes the state true for everything that happened before this call.
    pub(crate) fn refresh(&mut self, workspace: &Workspace, by_stat: bool) {
        match self.mode {
            Mode::Events => {
                self.drain(workspace);
                if by_stat || self.mode == Mode::Stat {
                    self.revalidate(workspace);
                }
            }
            Mode::Stat => self.revalidate(workspace),
            Mode::Scan => {}
        }
        self.index_dirty(workspace);
        self.keep_within_budget(workspace);
    }

    fn drain(&mut self, workspace: &Workspace) {
        let Some(journal) = &self.journal else { return };
        let mut lost = journal.mounts_changed();
        let events = journal.drain();
        let mut again = self.changed_probes(workspace, false);
        for event in &events {
            lost |= !self.note(workspace, event, &mut again);
        }
        if lost {
            again = BTreeSet::from([Rel::new(Path::new(""))]);
            // those who follow the journal must look at everything: not all they follow is in `files`
            self.sequence += 1;
            self.changes.clear();
        }
        self.rescan(workspace, again);
    }

    fn rescan(&mut self, workspace: &Workspace, again: BTreeSet<Rel>) {
        let mut last: Option<Rel> = None;
        for folder in again {
            if last.as_ref().is_none_or(|last| !folder.is_within(last)) {
                self.scan(workspace, &folder);
                last = Some(folder);
            }
        }
    }

    /// Takes one event into account; `false`: events were lost, everything is unknown.
    fn note(&mut self, workspace: &Workspace, event: &Event, again: &mut BTreeSet<Rel>) -> bool {
        let has = |flag: ReadFlags| event.flags.intersects(flag);
        if has(ReadFlags::QUEUE_OVERFLOW) {
            self.counters.overflows += 1;
            return false;
        }
        let Some(folder) = self.watches.get(&event.watch).cloned() else { return true };
        if has(ReadFlags::UNMOUNT) {
            return false;
        }
        if event.name.is_empty() {
            // a folder below tells the same to the folder above it
            let gone = has(ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED);
            if has(ReadFlags::IGNORED) {
                self.watches.remove(&event.watch);
            }
            return !(gone && folder.0.is_empty());
        }
        if event.name.starts_with(temp::PREFIX) {
            return true;
        }
        let path = folder.child(&event.name);
        if matches!(&event.name[..], b".gitignore" | b".ignore" | b".git") {
            self.tell(path);
            again.insert(folder);
            return true;
        }
        let left = has(ReadFlags::DELETE | ReadFlags::MOVED_FROM);
        if has(ReadFlags::ISDIR) {
            self.tell(path.clone());
            if left {
                self.forget(&path);
            } else if has(ReadFlags::CREATE | ReadFlags::MOVED_TO | ReadFlags::ATTRIB) {
                again.insert(path);
            }
        } else if left {
            if !self.files.contains_key(&path) {
                self.tell(path.clone());
            }
            self.drop_file(&path);
        } else if let Some(entry) = self.files.get_mut(&path) {
            if has(ReadFlags::CLOSE_WRITE) {
                entry.hot = false;
            }
            self.dirty.insert(path);
        } else if self.belongs(workspace, &folder, &path) {
            self.dirty.insert(path);
        } else if workspace.lstat(path.as_ref()).is_ok_and(|stat| symlink(&stat)) {
            self.tell(path);
        }
        true
    }

    /// Whether a name that was not known is a file of the workspace.
    fn belongs(&self, workspace: &Workspace, folder: &Rel, path: &Rel) -> bool {
        let Some(place) = self.folders.get(folder) else { return false };
        workspace.lstat(path.as_ref()).is_ok_and(|stat| regular(&stat))
            && !rules::ignored(&place.rules, path.as_ref(), false)
    }

    /// Looks through a folder and all below it; what is known and has the same stamp is not read again.
    fn scan(&mut self, workspace: &Workspace, folder: &Rel) {
        self.counters.rescans += 1;
        let mut known = self.detach(folder);
        let above = folder.parent().map(|parent| self.folders.get(&parent).map(|place| place.rules.clone()));
        let found = match above {
            // below a folder that is ignored or gone there is nothing
            Some(None) => Vec::new(),
            Some(Some(rules)) if rules::ignored(&rules, folder.as_ref(), true) => Vec::new(),
            _ => self.walk(workspace, folder),
        };
        for (files, folders) in found {
            for (path, place) in folders {
                self.place(workspace, path, place);
            }
            for path in files {
                match known.remove(&path) {
                    Some(entry) if self.is_current(workspace, &path, &entry) => self.attach(path, entry),
                    Some(entry) => {
                        self.bury(&entry);
                        self.dirty.insert(path);
                    }
                    None => {
                        self.dirty.insert(path);
                    }
                }
            }
        }
        for (path, entry) in known {
            self.bury(&entry);
            self.tell(path);
        }
    }

    fn is_current(&self, workspace: &Workspace, path: &Rel, entry: &Entry) -> bool {
        !entry.young && workspace.lstat(path.as_ref()).is_ok_and(|stat| Stamp::of(&stat) == entry.stamp)
    }

    #[expect(clippy::type_complexity, reason = "what each thread found: files, folders")]
    fn walk(&mut self, workspace: &Workspace, folder: &Rel) -> Vec<(Vec<Rel>, Vec<(Rel, Place)>)> {
        let room = AtomicUsize::new(self.options.max_watches.saturating_sub(self.watches.len()));
        let exhausted = AtomicBool::new(false);
        let never = AtomicBool::new(false);
        let reach = Reach { start: folder.as_ref(), depth: usize::MAX, cancel: &never };
        let found = walk::walk(workspace, &reach, || Scanner {
            journal: self.journal.as_ref(),
            room: &room,
            exhausted: &exhausted,
            folders: Vec::new(),
            files: Vec::new(),
        });
        let mut found: Vec<_> = found.into_iter().map(|scanner| (scanner.files, scanner.folders)).collect();
        if exhausted.load(Ordering::Relaxed) {
            self.fall_back("inotify watches are used up (fs.inotify.max_user_watches)");
            found.iter_mut().flat_map(|(_, folders)| folders).for_each(|(_, place)| place.watch = None);
        }
        found
    }

    /// Notes a folder, its watch and the ignore files that must be asked about.
    fn place(&mut self, workspace: &Workspace, path: Rel, place: Place) {
        if let Some(watch) = place.watch
            && let Some(old) = self.watches.insert(watch, path.clone())
            && old != path
        {
            // the same folder under its former name: that name will be reported as gone
            self.folders.remove(&old);
        }
        let Present { ignore, gitignore, git } = place.present;
        let names = [(gitignore, ".gitignore"), (ignore, ".ignore"), (git, ".git/info/exclude")];
        for (_, name) in names.into_iter().filter(|(there, _)| *there) {
            let probe = path.as_ref().join(name);
            let stamp = workspace.lstat(&probe).ok().map(|stat| Stamp::of(&stat));
            self.probes.insert(probe, (path.clone(), stamp));
        }
        self.folders.insert(path, place);
    }

    /// Ignore files that changed without an event: those inside `.git`; in stat mode all of them.
    fn changed_probes(&mut self, workspace: &Workspace, all: bool) -> BTreeSet<Rel> {
        let mut again = BTreeSet::new();
        for (probe, (folder, stamp)) in &mut self.probes {
            if all || probe.ends_with("exclude") {
                let now = workspace.lstat(probe).ok().map(|stat| Stamp::of(&stat));
                if now != *stamp {
                    *stamp = now;
                    again.insert(folder.clone());
                }
            }
        }
        again
    }

    /// Takes a folder and everything below it out; gives back the files.
    fn detach(&mut self, folder: &Rel) -> BTreeMap<Rel, Entry> {
        let folders: Vec<Rel> = within(&self.folders, folder).map(|(path, _)| path.clone()).collect();
        for path in folders {
            if let Some(place) = self.folders.remove(&path)
                && let Some(watch) = place.watch
                && self.watches.get(&watch) == Some(&path)
            {
                self.watches.remove(&watch);
                if let Some(journal) = &self.journal {
                    journal.forget(watch);
                }
            }
        }
        self.probes.retain(|_, (owner, _)| !owner.is_within(folder));
        let files: Vec<Rel> = within(&self.files, folder).map(|(path, _)| path.clone()).collect();
        self.dirty.retain(|path| !path.is_within(folder));
        let mut out = BTreeMap::new();
        for path in files {
            if let Some(entry) = self.files.remove(&path) {
                self.always.remove(&path);
                out.insert(path, entry);
            }
        }
        out
    }

    fn forget(&mut self, folder: &Rel) {
        for (path, entry) in self.detach(folder) {
            self.bury(&entry);
            self.tell(path);
        }
    }

    fn drop_file(&mut self, path: &Rel) {
        self.dirty.remove(path);
        if let Some(entry) = self.files.remove(path) {
            self.always.remove(path);
            self.bury(&entry);
            self.tell(path.clone());
        }
    }

    /// The index forgets a file.
    fn bury(&mut self, entry: &Entry) {
        self.text_bytes -= entry.stamp.size.min(self.text_bytes);
        if entry.id != NOT_INDEXED
            && let Some(owner) = self.owners.get_mut(entry.id as usize)
            && owner.take().is_some()
        {
            self.dead += 1;
        }
    }

    fn attach(&mut self, path: Rel, entry: Entry) {
        if let Some(owner) = self.owners.get_mut(entry.id as usize) {
            *owner = Some(path.clone());
        }
        if entry.always || entry.hot {
            self.always.insert(path.clone());
        }
        self.files.insert(path, entry);
    }

    /// Remembers a change for those who follow.
    fn tell(&mut self, path: Rel) {
        self.sequence += 1;
        if self.changes.len() == REMEMBERED {
            self.changes.pop_front();
        }
        self.changes.push_back(path);
    }

    /// Where the journal stands.
    pub(crate) fn cursor(&self) -> u64 {
        self.sequence
    }

    /// What changed since a cursor; `None` when that is too long ago to know.
    pub(crate) fn since(&self, cursor: u64) -> Option<BTreeSet<Rel>> {
        let missed = self.sequence.checked_sub(cursor)? as usize;
        let start = self.changes.len().checked_sub(missed)?;
        Some(self.changes.range(start..).cloned().collect())
    }

    fn index_dirty(&mut self, workspace: &Workspace) {
        if self.dirty.is_empty() {
            return;
        }
        let mut extractor = std::mem::take(&mut self.extractor);
        let mut buffer = std::mem::take(&mut self.buffer);
        for path in std::mem::take(&mut self.dirty) {
            let seen = look(workspace, path.as_ref(), self.index_limit, &mut buffer, &mut extractor);
            self.take_in(path, &seen, &extractor.found);
        }
        (self.extractor, self.buffer) = (extractor, buffer);
        if self.dead > 1000 && self.dead > self.owners.len() / 2 {
            self.compact();
        }
    }

    fn take_in(&mut self, path: Rel, seen: &Look, trigrams: &[u32]) {
        let hot = self.files.remove(&path).is_some_and(|old| {
            self.bury(&old);
            old.hot
        });
        self.always.remove(&path);
        self.tell(path.clone());
        let Look::Found { stamp, always } = *seen else { return };
        let id = if trigrams.is_empty() { NOT_INDEXED } else { self.index.add(trigrams) };
        if id != NOT_INDEXED {
            self.owners.push(None);
        }
        self.text_bytes += stamp.size;
        self.attach(path, Entry { stamp, id, always, hot, young: stamp.is_young() });
    }

    /// Reads many files with all threads, block by block so that their trigrams never pile up.
    fn index_dirty_in_parallel(&mut self, workspace: &Workspace, stop: &AtomicBool) {
        let all: Vec<Rel> = std::mem::take(&mut self.dirty).into_iter().collect();
        let threads = walk::threads();
        let mut tools: Vec<(Extractor, Vec<u8>)> = (0..threads).map(|_| Default::default()).collect();
        for block in all.chunks(BLOCK) {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let limit = self.index_limit;
            let share = block.len().div_ceil(threads);
            let looks: Vec<Vec<(Look, Vec<u32>)>> = std::thread::scope(|scope| {
                let running: Vec<_> = block
                    .chunks(share)
                    .zip(&mut tools)
                    .map(|(paths, (extractor, buffer))| {
                        scope.spawn(move || {
                            let one = |path: &Rel| {
                                let seen = look(workspace, path.as_ref(), limit, buffer, extractor);
                                (seen, extractor.found.clone())
                            };
                            paths.iter().map(one).collect::<Vec<_>>()
                        })
                    })
                    .collect();
                running.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
            });
            let looks = looks.into_iter().flatten();
            for (path, (seen, trigrams)) in block.iter().zip(looks) {
                self.take_in(path.clone(), &seen, &trigrams);
            }
            self.keep_within_budget(workspace);
        }
    }

    /// Gives the living numbers without gaps.
    fn compact(&mut self) {
        let mut next = 0;
        let renumber: Vec<Option<u32>> = self
            .owners
            .iter()
            .map(|owner| {
                owner.as_ref().map(|_| {
                    next += 1;
                    next - 1
                })
            })
            .collect();
        self.index.compact(&renumber);
        self.owners.retain(Option::is_some);
        for (id, owner) in self.owners.iter().enumerate() {
            if let Some(entry) = owner.as_ref().and_then(|path| self.files.get_mut(path)) {
                entry.id = id as u32;
            }
        }
        self.dead = 0;
    }

    /// Past the budget the largest files leave the index and are searched every time.
    fn keep_within_budget(&mut self, _: &Workspace) {
        while self.index.size() > self.options.budget && self.index_limit > 1 {
            self.index_limit /= 2;
            let large: Vec<Rel> = self
                .files
                .iter()
                .filter(|(_, entry)| entry.id != NOT_INDEXED && entry.stamp.size > self.index_limit)
                .map(|(path, _)| path.clone())
                .collect();
            for path in large {
                if let Some(mut entry) = self.files.remove(&path) {
                    let size = entry.stamp.size;
                    self.bury(&entry);
                    self.text_bytes += size;
                    (entry.id, entry.always) = (NOT_INDEXED, true);
                    self.attach(path, entry);
                }
            }
            self.compact();
        }
    }

    /// Compares everything with the file system: names by their folders' stamps, contents by the files'.
    fn revalidate(&mut self, workspace: &Workspace) {
        let again = self.changed_probes(workspace, true);
        self.rescan(workspace, again);
        let folders: Vec<(Rel, Option<Stamp>, bool)> =
            self.folders.iter().map(|(path, place)| (path.clone(), place.stamp, place.young)).collect();
        let suspects = differing(workspace, &folders);
        for folder in suspects {
            self.relist(workspace, &folder);
        }
        let files: Vec<(Rel, Option<Stamp>, bool)> =
            self.files.iter().map(|(path, entry)| (path.clone(), Some(entry.stamp), entry.young)).collect();
        self.dirty.extend(differing(workspace, &files));
    }

    /// Looks at the names in one folder again, and through folders that are new in it.
    fn relist(&mut self, workspace: &Workspace, folder: &Rel) {
        if !self.folders.contains_key(folder) {
            return;
        }
        let rules = walk::rules_above(workspace, folder.as_ref());
        let mut scanner = Scanner {
            journal: self.journal.as_ref(),
            room: &AtomicUsize::new(usize::MAX),
            exhausted: &AtomicBool::new(false),
            folders: Vec::new(),
            files: Vec::new(),
        };
        let mut children = Vec::new();
        let start = Folder { path: folder.as_ref().to_owned(), rules, depth: 0 };
        walk::list(&workspace.root, &start, &mut Scratch::default(), &mut scanner, &mut children);
        let (files, mut places) = (scanner.files, scanner.folders);
        let Some((_, place)) = places.pop() else {
            self.forget(folder);
            return;
        };
        if self.folders.get(folder).is_none_or(|known| known.present != place.present) {
            self.scan(workspace, folder);
            return;
        }
        self.place(workspace, folder.clone(), place);
        let now: BTreeSet<Rel> = files.into_iter().collect();
        let below: BTreeSet<Rel> = children.iter().map(|child| Rel::new(&child.path)).collect();
        let is_child = |path: &Rel| path != folder && path.parent().as_ref() == Some(folder);
        let gone: Vec<Rel> = within(&self.files, folder)
            .map(|(path, _)| path.clone())
            .filter(|path| is_child(path) && !now.contains(path))
            .collect();
        gone.iter().for_each(|path| self.drop_file(path));
        let gone: Vec<Rel> = within(&self.folders, folder)
            .map(|(path, _)| path.clone())
            .filter(|path| is_child(path) && !below.contains(path))
            .collect();
        gone.iter().for_each(|path| self.forget(path));
        self.dirty.extend(now.into_iter().filter(|path| !self.files.contains_key(path)));
        for child in below {
            if !self.folders.contains_key(&child) {
                self.scan(workspace, &child);
            }
        }
    }

    /// Looks for changes that sent no event; says how many files it looked at. `from` is where the last part ended.
    pub(crate) fn sweep(&mut self, workspace: &Workspace, from: Option<&Rel>, count: usize) -> Option<Rel> {
        self.refresh(workspace, false);
        let after = (from.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let part: Vec<(Rel, Stamp)> = self
            .files
            .range::<Rel, _>(after)
            .take(count)
            .map(|(path, entry)| (path.clone(), entry.stamp))
            .collect();
        let last = part.last().map(|(path, _)| path.clone());
        let moved: Vec<Rel> = part
            .into_iter()
            .filter(|(path, stamp)| {
                workspace.lstat(path.as_ref()).ok().map(|stat| Stamp::of(&stat)) != Some(*stamp)
            })
            .map(|(path, _)| path)
            .collect();
        if moved.is_empty() {
            return last;
        }
        // an event that came in the meantime explains it
        self.drain(workspace);
        for path in moved {
            if !self.dirty.contains(&path)
                && let Some(entry) = self.files.get_mut(&path)
            {
                entry.hot = true;
                self.counters.swept_changes += 1;
                self.dirty.insert(path);
            }
        }
        self.index_dirty(workspace);
        last
    }

    /// Files below `start` that may match, in order; `None` when `start` is not part of what is known.
    pub(crate) fn candidates(&self, start: &Rel, need: &Need) -> Option<Vec<Rel>> {
        if self.mode == Mode::Scan || !self.folders.contains_key(start) {
            return None;
        }
        let Some(ids) = self.index.candidates(need) else {
            return Some(within(&self.files, start).map(|(path, _)| path.clone()).collect());
        };
        let indexed = ids.into_iter().filter_map(|id| self.owners.get(id as usize)?.as_ref());
        let mut all: Vec<Rel> =
            indexed.chain(&self.always).filter(|path| path.is_within(start)).cloned().collect();
        all.sort();
        all.dedup();
        Some(all)
    }

    /// The files below `start`, in order; `None` when `start` is not part of what is known.
    pub(crate) fn files<'s>(
        &'s self,
        start: &Rel,
    ) -> Option<impl Iterator<Item = (&'s Rel, &'s Entry)> + use<'s>> {
        (self.mode != Mode::Scan && self.folders.contains_key(start)).then(|| within(&self.files, start))
    }

    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        (self.files.len(), self.folders.len(), self.always.len())
    }

    pub(crate) fn index_size(&self) -> usize {
        self.index.size() + self.owners.len() * size_of::<Option<Rel>>()
    }

    pub(crate) fn limit(&self) -> Option<u64> {
        (self.index_limit < INDEX_LIMIT).then_some(self.index_limit)
    }
}

/// Everything at or below a folder. In byte order that is the folder itself and the range from `folder/` to `folder0`.
fn within<'m, T>(map: &'m BTreeMap<Rel, T>, folder: &Rel) -> Box<dyn Iterator<Item = (&'m Rel, &'m T)> + 'm> {
    if folder.0.is_empty() {
        return Box::new(map.iter());
    }
    let first = [&folder.0, &b"/"[..]].concat();
    let end = [&folder.0, &b"0"[..]].concat();
    let below = (Bound::Included(&first[..]), Bound::Excluded(&end[..]));
    Box::new(map.get_key_value(&folder.0[..]).into_iter().chain(map.range::<[u8], _>(below)))
}

/// Those whose stamp is no longer what is known, asked with all threads when there are many.
fn differing(workspace: &Workspace, known: &[(Rel, Option<Stamp>, bool)]) -> Vec<Rel> {
    let differs = |(path, stamp, young): &&(Rel, Option<Stamp>, bool)| {
        *young || workspace.lstat(path.as_ref()).ok().map(|stat| Stamp::of(&stat)) != *stamp
    };
    let check = |part: &[(Rel, Option<Stamp>, bool)]| -> Vec<Rel> {
        part.iter().filter(differs).map(|(path, ..)| path.clone()).collect()
    };
    if known.len() < BLOCK {
        return check(known);
    }
    let share = known.len().div_ceil(walk::threads());
    std::thread::scope(|scope| {
        let running: Vec<_> = known.chunks(share).map(|part| scope.spawn(move || check(part))).collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    })
}

/// File systems whose changes all pass through this kernel.
fn choose(workspace: &Workspace, options: &LiveOptions) -> (Mode, String) {
    if let Some(mode) = options.mode {
        return (mode, "chosen by configuration".to_owned());
    }
    const LOCAL: [u64; 7] =
        [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0x794C_7630, 0xF2F5_2010, 0x2FC1_2FC1];
    match workspace.file_system() {
        Some(kind) if LOCAL.contains(&kind) => (Mode::Events, "local file system".to_owned()),
        Some(kind) => (Mode::Stat, format!("file system of type {kind:#x} may change without events")),
        None => (Mode::Stat, "the file system's type is unknown".to_owned()),
    }
}
