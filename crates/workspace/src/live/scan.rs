//! Looking through folders: what is watched, listed, and known afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::SystemTime;

use rustix::fd::BorrowedFd;
use rustix::io::Errno;

use super::files::Entry;
use super::journal::Journal;
use super::rel::{Rel, within};
use super::stamp::{Seen, Stamp};
use super::state::{Place, State, is_local};
use super::{Gate, Mode};
use crate::root::Workspace;
use crate::rules::{self, Present, Rules};
use crate::temp;
use crate::walk::{self, Folder, Reach, Scratch, Visit};

/// What a look through folders must not pass over.
pub(super) struct Terms<'j> {
    journal: Option<&'j Journal>,
    /// The device the root lies on.
    device: Option<u64>,
    /// Watches that may still be used.
    room: AtomicUsize,
    exhausted: AtomicBool,
    /// Something is mounted that may change without events.
    foreign: AtomicBool,
}

/// What a walk found.
pub(super) struct Scanner<'t> {
    terms: &'t Terms<'t>,
    gate: Option<&'t Gate>,
    pub(super) found: Found,
}

#[derive(Default)]
pub(super) struct Found {
    pub(super) folders: Vec<(Rel, Place)>,
    pub(super) files: Vec<Rel>,
    pub(super) links: Vec<Rel>,
}

impl Scanner<'_> {
    fn watch(&self, fd: BorrowedFd<'_>) -> Option<i32> {
        let journal = self.terms.journal?;
        let one_less = |room: usize| room.checked_sub(1);
        let full = self.terms.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_err();
        match if full { Err(Errno::NOSPC) } else { journal.watch(fd) } {
            Ok(watch) => Some(watch),
            Err(_) => {
                self.terms.exhausted.store(true, Ordering::Relaxed);
                None
            }
        }
    }
}

impl Visit for Scanner<'_> {
    fn folder(&mut self, path: &Path, fd: BorrowedFd<'_>) {
        if let Some(gate) = self.gate {
            gate.wait();
        }
        let began = SystemTime::now();
        // the watch first, the listing after: what comes later sends an event, what came before is listed
        let watch = self.watch(fd);
        let stat = rustix::fs::fstat(fd).ok();
        if stat.is_some_and(|stat| Some(stat.st_dev) != self.terms.device)
            && !rustix::fs::fstatfs(fd).is_ok_and(|system| is_local(system.f_type as u64))
        {
            self.terms.foreign.store(true, Ordering::Relaxed);
        }
        let seen = Seen::new(stat.as_ref(), began);
        let place = Place { watch, rules: None, present: Present::default(), seen, began };
        self.found.folders.push((Rel::new(path), place));
    }

    fn rules(&mut self, rules: &Rules, present: Present) {
        if let Some((_, place)) = self.found.folders.last_mut() {
            place.rules = rules.clone();
            place.present = present;
        }
    }

    fn file(&mut self, _: BorrowedFd<'_>, path: &Path) {
        self.found.files.push(Rel::new(path));
    }

    fn link(&mut self, path: &Path) {
        self.found.links.push(Rel::new(path));
    }

    fn litter(&mut self, folder: BorrowedFd<'_>, name: &Path) {
        temp::sweep(folder, name.as_os_str());
    }
}

impl State {
    /// Looks through folders again, each once.
    pub(super) fn rescan(&mut self, workspace: &Workspace, again: BTreeSet<Rel>) {
        let mut last: Option<Rel> = None;
        for folder in again {
            if last.as_ref().is_none_or(|last| !folder.is_within(last)) {
                self.scan(workspace, &folder, None);
                last = Some(folder);
            }
        }
    }

    /// Looks through a folder and all below it; what is known and has the same stamp is not read again.
    pub(super) fn scan(&mut self, workspace: &Workspace, folder: &Rel, gate: Option<&Gate>) {
        self.counters.rescans += 1;
        if folder.is_root() {
            self.probes.above = above(workspace);
        }
        let mut known = self.detach(folder);
        let rules = folder.parent().map(|parent| self.folders.get(&parent).map(|place| place.rules.clone()));
        let found = match rules {
            // below a folder that is ignored or gone there is nothing
            Some(None) => Vec::new(),
            Some(Some(rules)) if rules::ignored(&rules, folder.as_ref(), true) => Vec::new(),
            _ => self.walk(workspace, folder, gate),
        };
        for Found { folders, files, links } in found {
            for (path, place) in folders {
                self.place(workspace, path, place);
            }
            for path in links {
                self.log.tell(path.clone());
                self.links.insert(path, ());
            }
            let stays = |path: &Rel, entry: &Entry| {
                let now = workspace.lstat(path.as_ref()).ok();
                !entry.seen().differs(now.as_ref().map(Stamp::of))
            };
            for path in files {
                match known.remove(&path) {
                    Some(entry) if stays(&path, &entry) => self.files.attach(path, entry),
                    // put back all the same: whether somebody writes to it without events is still true
                    Some(entry) => {
                        self.files.attach(path.clone(), entry);
                        self.dirty.insert(path);
                    }
                    None => {
                        self.dirty.insert(path);
                    }
                }
            }
        }
        for (path, entry) in known {
            self.files.bury(&entry);
            self.log.tell(path);
        }
    }

    fn terms(&self, workspace: &Workspace) -> Terms<'_> {
        Terms {
            journal: self.journal.as_ref(),
            device: workspace.lstat(Path::new("")).ok().map(|stat| stat.st_dev),
            room: AtomicUsize::new(self.options.max_watches.saturating_sub(self.watches.len())),
            exhausted: AtomicBool::new(false),
            foreign: AtomicBool::new(false),
        }
    }

    fn walk(&mut self, workspace: &Workspace, folder: &Rel, gate: Option<&Gate>) -> Vec<Found> {
        let terms = self.terms(workspace);
        let never = AtomicBool::new(false);
        let reach = Reach { start: folder.as_ref(), depth: usize::MAX, cancel: &never };
        let found =
            walk::walk(workspace, &reach, || Scanner { terms: &terms, gate, found: Found::default() });
        let mut found: Vec<Found> = found.into_iter().map(|scanner| scanner.found).collect();
        let why = terms.refusal();
        self.heed(why, &mut found);
        found
    }

    /// Looks at one folder alone; gives back the folders in it as well.
    pub(super) fn list(&mut self, workspace: &Workspace, folder: &Rel) -> (Found, BTreeSet<Rel>) {
        let terms = Terms { room: AtomicUsize::new(usize::MAX), ..self.terms(workspace) };
        let rules = walk::rules_above(workspace, folder.as_ref());
        let mut scanner = Scanner { terms: &terms, gate: None, found: Found::default() };
        let mut children = Vec::new();
        let start = Folder { path: folder.as_ref().to_owned(), rules, depth: 0 };
        walk::list(&workspace.root, &start, &mut Scratch::default(), &mut scanner, &mut children);
        let mut found = [scanner.found];
        let why = terms.refusal();
        self.heed(why, &mut found);
        let [found] = found;
        (found, children.iter().map(|child| Rel::new(&child.path)).collect())
    }

    fn heed(&mut self, why: Option<&str>, found: &mut [Found]) {
        if self.mode == Mode::Events
            && let Some(why) = why
        {
            self.fall_back(why);
            found.iter_mut().flat_map(|found| &mut found.folders).for_each(|(_, place)| place.watch = None);
        }
    }

    /// Notes a folder, its watch and the ignore files that must be asked about.
    pub(super) fn place(&mut self, workspace: &Workspace, path: Rel, place: Place) {
        if let Some(watch) = place.watch
            && let Some(old) = self.watches.insert(watch, path.clone())
            && old != path
        {
            // the same folder under its former name: that name will be reported as gone
            self.folders.remove(&old);
        }
        let seen = |name: &str| {
            let probe = path.as_ref().join(name);
            let stat = workspace.lstat(&probe).ok();
            (probe, (path.clone(), Seen::new(stat.as_ref(), place.began)))
        };
        let Present { ignore, gitignore, git } = place.present;
        let ignores = [(gitignore, ".gitignore"), (ignore, ".ignore")];
        self.probes.ignores.extend(ignores.iter().filter(|(there, _)| *there).map(|(_, name)| seen(name)));
        self.probes.excludes.extend(git.then(|| seen(".git/info/exclude")));
        self.folders.insert(path, place);
    }

    /// Folders whose ignore files changed without an event: those in `.git` and above the root; when `all`, any.
    pub(super) fn changed_probes(&mut self, workspace: &Workspace, all: bool) -> BTreeSet<Rel> {
        let mut again = BTreeSet::new();
        let now = above(workspace);
        let same = now.len() == self.probes.above.len()
            && now
                .iter()
                .zip(&self.probes.above)
                .all(|((path, now), (known, seen))| path == known && !seen.differs(now.stamp));
        if !same {
            again.insert(Rel::root());
        }
        let ignores = if all { Some(&self.probes.ignores) } else { None };
        for (probe, (folder, seen)) in self.probes.excludes.iter().chain(ignores.into_iter().flatten()) {
            let now = workspace.lstat(probe).ok();
            if seen.differs(now.as_ref().map(Stamp::of)) {
                again.insert(folder.clone());
            }
        }
        again
    }

    /// Takes a folder and everything below it out; gives back the files.
    pub(super) fn detach(&mut self, folder: &Rel) -> BTreeMap<Rel, Entry> {
        let folders: Vec<Rel> = within(&self.folders, folder, None).map(|(path, _)| path.clone()).collect();
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
        let links: Vec<Rel> = within(&self.links, folder, None).map(|(path, ())| path.clone()).collect();
        for path in links {
            self.links.remove(&path);
            self.log.tell(path);
        }
        self.probes.excludes.retain(|_, (owner, _)| !owner.is_within(folder));
        self.probes.ignores.retain(|_, (owner, _)| !owner.is_within(folder));
        self.dirty.retain(|path| !path.is_within(folder));
        let files: Vec<Rel> = self.files.within(folder, None).map(|(path, _)| path.clone()).collect();
        files.into_iter().filter_map(|path| Some((path.clone(), self.files.detach(&path)?))).collect()
    }
}

impl Terms<'_> {
    fn refusal(&self) -> Option<&'static str> {
        if self.exhausted.load(Ordering::Relaxed) {
            return Some("inotify watches are used up (fs.inotify.max_user_watches)");
        }
        let foreign = self.foreign.load(Ordering::Relaxed);
        foreign.then_some("a file system is mounted below the root that may change without events")
    }
}

/// What decides about the rules above the root, as it is now.
fn above(workspace: &Workspace) -> Vec<(PathBuf, Seen)> {
    let began = SystemTime::now();
    let sources = rules::sources_above(workspace.root());
    sources
        .into_iter()
        .map(|path| {
            let stat = rustix::fs::lstat(&path).ok();
            let seen = Seen::new(stat.as_ref(), began);
            (path, seen)
        })
        .collect()
}
