//! Finding out what is on disk now, reading only what changed.
//!
//! Three ways, from the surest to the quickest: a walk through everything; the stamps of all files and folders
//! that are known, with a look into those that moved; the paths that the journal names. Each only says what it
//! found: what is made of that is decided by whoever asked.

use super::{
    look::{Look, Looks, settled, stamp},
    narrow::narrower_folder,
    restore::decides,
    tree::{Folder, Known, Stamp},
};
use crate::{
    Workspace,
    beneath::as_path,
    guarded::{self, Gits},
    rules::{self, Present, Rules},
    spread::spread,
    temp,
    walk::{self, Reach, Scratch, Visit},
};
use rustix::{
    fd::{AsFd as _, BorrowedFd},
    fs::{AtFlags, CWD, FileType},
};
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
};

/// Past this many names the journal's list is no quicker than a look at all stamps.
const MANY_NAMES: usize = 2000;
/// Folders that a thread takes at a time.
const SHARE: usize = 4;
/// As many folders as may have changed before it matters how many there are.
const FEW: usize = 16;

/// What is different on disk from what was known.
#[derive(Default)]
pub(super) struct Found {
    /// Files and folders that are no longer there.
    pub(super) gone: Vec<Vec<u8>>,
    /// Folders that are there, and when they were listed.
    pub(super) folders: Vec<(Vec<u8>, Option<Stamp>)>,
    pub(super) files: Vec<(Vec<u8>, Known)>,
    /// Files that are too large to be kept without being asked for.
    pub(super) large: Vec<(Vec<u8>, Stamp)>,
    /// Files and folders that cannot be read.
    pub(super) closed: Vec<Vec<u8>>,
    /// Folders that were repositories of their own and are none any more.
    pub(super) opened: Vec<Vec<u8>>,
    /// Repositories in the workspace in which something changed, as far as the journal tells.
    pub(super) elsewhere: Vec<Vec<u8>>,
}

/// What decides about names without being among them.
#[derive(Default, PartialEq, Eq)]
pub(super) struct Surroundings {
    /// Ignore files that no folder of the workspace lists.
    probes: Vec<(PathBuf, Option<Stamp>)>,
    /// Repositories inside the workspace, which are left alone while they are ones.
    nested: BTreeSet<PathBuf>,
    gits: Gits,
}

impl Surroundings {
    fn now(workspace: &Workspace, nested: BTreeSet<PathBuf>) -> Self {
        let root = workspace.root();
        let mut probes = vec![root.join(".git/info/exclude")];
        probes.extend(root.ancestors().skip(1).map(|above| above.join(".git")));
        probes.extend(rules::sources_above(root));
        let look = |path: PathBuf| {
            // Of a repository above only its being there matters: its folder changes with every commit.
            let there = rustix::fs::statat(CWD, &path, AtFlags::SYMLINK_NOFOLLOW).ok();
            let stamp =
                there.map(|stat| if path.ends_with(".git") { Stamp::default() } else { stamp(&stat) });
            (path, stamp)
        };
        Self { probes: probes.into_iter().map(look).collect(), nested, gits: Gits::of(workspace) }
    }

    /// Repositories of which files are named, apart from what is git's own.
    fn named_in(&self, named: &[PathBuf]) -> Vec<Vec<u8>> {
        let holds = |folder: &PathBuf| {
            named.iter().any(|path| path.strip_prefix(folder).is_ok_and(|inside| !guarded::in_git(inside)))
        };
        let found = self.nested.iter().filter(|folder| holds(folder));
        found.map(|folder| folder.as_os_str().as_bytes().to_vec()).collect()
    }

    /// Whether a repository may begin or end with what is named.
    fn may_move(&self, workspace: &Workspace, path: &Path) -> bool {
        let folder = path.parent().unwrap_or(Path::new(""));
        let known = || match folder.as_os_str().is_empty() {
            true => Gits::of(workspace) == self.gits,
            false => workspace.has_repository(folder) == self.nested.contains(folder),
        };
        let decides = ["objects", "refs", "HEAD", "config"].iter().any(|name| path.ends_with(name));
        path.ends_with(".git") || (decides && !known())
    }

    /// Whether what was found before can still be compared with what is there.
    fn hold(&self, workspace: &Workspace) -> bool {
        let now = Self::now(workspace, BTreeSet::new());
        let there = |path: &PathBuf| workspace.has_repository(path);
        self.nested.iter().all(there) && now.probes == self.probes && now.gits == self.gits
    }
}

/// Looks at a workspace with what is known about it in mind.
pub(super) struct Sweep<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) seen: &'a Folder,
    pub(super) looks: Looks<'a>,
    /// Files that are looked at whatever stamps and journal say.
    pub(super) extra: Vec<PathBuf>,
}

impl Sweep<'_> {
    /// Walks through everything.
    pub(super) fn all(mut self, around: &mut Surroundings) -> io::Result<Found> {
        let mut found = Found::default();
        let nested = self.below(Path::new(""), &mut found)?;
        // The walk has looked at those that belong to the workspace; the others are to be forgotten.
        let extra = std::mem::take(&mut self.extra);
        self.sort_out(&extra, &mut Vec::new(), &mut found)?;
        let before = std::mem::replace(around, Surroundings::now(self.workspace, nested));
        let bytes = |path: &PathBuf| path.as_os_str().as_bytes().to_vec();
        found.opened = before.nested.difference(&around.nested).map(bytes).collect();
        found.elsewhere = around.nested.difference(&before.nested).map(bytes).collect();
        Ok(found)
    }

    /// Walks through a folder and everything below it.
    fn below(&mut self, start: &Path, found: &mut Found) -> io::Result<BTreeSet<PathBuf>> {
        let reach = Reach { start, depth: usize::MAX, cancel: &AtomicBool::new(false) };
        let gits = Gits::of(self.workspace);
        let parts = walk::walk(self.workspace, &reach, || Listing { gits, ..Listing::default() });
        let mut present = HashSet::new();
        let (mut files, mut nested, mut closed) = (Vec::new(), BTreeSet::new(), Vec::new());
        for part in parts {
            self.looks.note_folders(&part.narrow);
            closed.extend(part.closed);
            present.extend(part.files.iter().map(|path| path.as_os_str().as_bytes().to_vec()));
            files.extend(part.files);
            for (path, stamp) in part.folders {
                let path = path.as_os_str().as_bytes().to_vec();
                present.insert(path.clone());
                found.folders.push((path, stamp));
            }
            nested.extend(part.nested);
        }
        // That one can be read again shows in its own stamp only, which nobody has.
        for above in closed.iter().filter_map(|path| path.parent()) {
            let above = above.as_os_str().as_bytes();
            found.folders.iter_mut().filter(|(path, _)| path == above).for_each(|(_, stamp)| *stamp = None);
        }
        // What went away meanwhile is not closed.
        closed.retain(|path| self.workspace.lstat(path).is_ok());
        found.closed.extend(closed.iter().map(|path| path.as_os_str().as_bytes().to_vec()));
        let base = start.as_os_str().as_bytes();
        if let Some(known) = self.seen.folder(base) {
            let full =
                |path: &Vec<u8>| if base.is_empty() { path.clone() } else { [base, b"/", path].concat() };
            found.gone.extend(known.everything().iter().map(full).filter(|path| !present.contains(path)));
        }
        if !base.is_empty() && !present.contains(base) {
            found.gone.push(base.to_vec());
        }
        self.look(&files, found)?;
        Ok(nested)
    }

    fn look(&mut self, files: &[Box<Path>], found: &mut Found) -> io::Result<()> {
        let seen = self.seen;
        let known = |path: &Path| seen.get(path.as_os_str().as_bytes());
        let looks = self.looks.at(files, &known)?;
        for (path, look) in files.iter().zip(looks) {
            let bytes = path.as_os_str().as_bytes();
            match look {
                Look::Same => {}
                Look::Gone => found.gone.push(bytes.to_vec()),
                Look::Closed => {
                    found.gone.push(bytes.to_vec());
                    found.closed.push(bytes.to_vec());
                }
                Look::Large(stamp) => found.large.push((bytes.to_vec(), stamp)),
                Look::New(known) => found.files.push((bytes.to_vec(), known)),
            }
        }
        Ok(())
    }

    /// Compares the stamps of everything that is known, and looks into folders whose names changed.
    pub(super) fn stamps(mut self, around: &mut Surroundings) -> io::Result<Found> {
        if !around.hold(self.workspace) {
            return self.all(around);
        }
        let folders = self.seen.with_folders();
        let moved = self.moved(&folders)?;
        let rules_changed = moved.files.iter().any(|path| decides(path));
        if rules_changed || (moved.folders.len() > FEW && moved.folders.len() > folders.len() / 2) {
            return self.all(around);
        }
        let mut found = Found::default();
        let mut files = moved.files;
        for folder in &moved.folders {
            if !self.relist(folder, &mut files, &mut found)? {
                return self.all(around);
            }
        }
        let extra = self.extra.clone();
        if !self.sort_out(&extra, &mut files, &mut found)? {
            return self.all(around);
        }
        self.look(&files, &mut found)?;
        Ok(found)
    }

    fn moved(&self, folders: &[(Vec<u8>, &Folder)]) -> io::Result<Moved> {
        let check = |moved: &mut Moved, part: &[(Vec<u8>, &Folder)]| -> io::Result<()> {
            part.iter().for_each(|(path, folder)| self.compare(as_path(path), folder, moved));
            Ok(())
        };
        let mut all = Moved::default();
        for part in spread(folders, SHARE, Moved::default, check)?.1 {
            all.files.extend(part.files);
            all.folders.extend(part.folders);
        }
        // Those of a folder together.
        all.files.sort_unstable();
        Ok(all)
    }

    fn compare(&self, path: &Path, folder: &Folder, moved: &mut Moved) {
        let Ok(fd) = self.workspace.root.open_dir(path) else {
            moved.folders.push(path.to_owned());
            return;
        };
        let now = rustix::fs::fstat(&fd).ok().map(|stat| stamp(&stat));
        if folder.stamp().is_none() || folder.stamp() != now {
            moved.folders.push(path.to_owned());
        }
        moved.files.extend(folder.moved_files(fd.as_fd(), now).map(|name| path.join(name).into()));
    }

    /// Looks at the names in one folder; `false` when what is ignored may have changed.
    fn relist(&mut self, folder: &Path, files: &mut Vec<Box<Path>>, found: &mut Found) -> io::Result<bool> {
        let bytes = folder.as_os_str().as_bytes();
        let rules = walk::rules_above(self.workspace, folder);
        let start = walk::Folder { path: folder.to_owned(), rules, depth: 0 };
        let gits = Gits::of(self.workspace);
        let (mut listing, mut children) = (Listing { gits, ..Listing::default() }, Vec::new());
        walk::list(&self.workspace.root, &start, &mut Scratch::default(), &mut listing, &mut children);
        self.looks.note_folders(&listing.narrow);
        let Some((_, stamp)) = listing.folders.pop() else {
            // When it is gone, the folder above tells; else it has become a repository of its own.
            return Ok(listing.nested.is_empty());
        };
        found.folders.push((bytes.to_vec(), stamp));
        let Some(known) = self.seen.folder(bytes) else { return Ok(false) };
        let name = |path: &Path| path.file_name().unwrap_or_default().as_bytes().to_vec();
        let now: HashSet<Vec<u8>> = listing.files.iter().map(|path| name(path)).collect();
        let below: HashSet<Vec<u8>> = children.iter().map(|child| name(&child.path)).collect();
        let (old_files, old_folders) = known.names();
        let old_files: HashSet<&Vec<u8>> = old_files.collect();
        let old_folders: HashSet<&Vec<u8>> = old_folders.collect();
        for rule in [b".gitignore".to_vec(), b".ignore".to_vec()] {
            if old_files.contains(&rule) != now.contains(&rule) {
                return Ok(false);
            }
        }
        let full = |name: &[u8]| folder.join(as_path(name)).into_os_string().into_encoded_bytes();
        found.gone.extend(old_files.iter().filter(|name| !now.contains(**name)).map(|name| full(name)));
        found.gone.extend(old_folders.iter().filter(|name| !below.contains(**name)).map(|name| full(name)));
        files.extend(listing.files.into_iter().filter(|path| !old_files.contains(&name(path))));
        for child in children.iter().filter(|child| !old_folders.contains(&name(&child.path))) {
            if !self.below(&child.path, found)?.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Looks at what the journal named.
    pub(super) fn paths(mut self, named: Vec<PathBuf>, around: &mut Surroundings) -> io::Result<Found> {
        if named.len() > MANY_NAMES
            || named.iter().any(|path| decides(path) || around.may_move(self.workspace, path))
        {
            return self.stamps(around);
        }
        let mut found = Found { elsewhere: around.named_in(&named), ..Found::default() };
        let mut files = Vec::new();
        if !self.sort_out(&[named, self.extra.clone()].concat(), &mut files, &mut found)? {
            return self.all(around);
        }
        self.look(&files, &mut found)?;
        Ok(found)
    }

    /// Tells files that are to be looked at from those that are gone or do not belong to the workspace, and walks
    /// through what is a folder now. `false` when there is a repository in one.
    fn sort_out(
        &mut self,
        paths: &[PathBuf],
        files: &mut Vec<Box<Path>>,
        found: &mut Found,
    ) -> io::Result<bool> {
        let (mut rules, gits) = (HashMap::new(), Gits::of(self.workspace));
        // A folder comes before what lies in it, which is looked at with it.
        let mut paths: Vec<&PathBuf> = paths.iter().collect();
        paths.sort_unstable();
        let mut walked: Option<&Path> = None;
        for path in paths {
            let bytes = path.as_os_str().as_bytes();
            if bytes.is_empty()
                || path.file_name().is_some_and(|name| name.as_bytes().starts_with(temp::PREFIX))
            {
                continue;
            }
            let Ok(stat) = self.workspace.lstat(path) else {
                found.gone.push(bytes.to_vec());
                continue;
            };
            if walked.is_some_and(|folder| path.starts_with(folder)) {
                continue;
            }
            let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            let parent = path.parent().unwrap_or(Path::new(""));
            let above = rules_in(self.workspace, parent, &mut rules);
            if gits.own(path) || above.is_none_or(|above| rules::ignored(&above, path, is_folder)) {
                found.gone.push(bytes.to_vec());
            } else if is_folder {
                if !self.below(path, found)?.is_empty() {
                    return Ok(false);
                }
                walked = Some(path);
            } else {
                files.push(path.as_path().into());
            }
        }
        Ok(true)
    }
}

#[derive(Default)]
struct Moved {
    files: Vec<Box<Path>>,
    folders: Vec<PathBuf>,
}

/// The rules for what lies in a folder; `None` when nothing there belongs to the workspace.
fn rules_in(
    workspace: &Workspace,
    folder: &Path,
    known: &mut HashMap<PathBuf, Option<Rules>>,
) -> Option<Rules> {
    if let Some(rules) = known.get(folder) {
        return rules.clone();
    }
    let has = |name: &str| workspace.lstat(&folder.join(name)).is_ok();
    let present = Present { ignore: has(".ignore"), gitignore: has(".gitignore"), git: has(".git") };
    let above = match folder.parent() {
        None => Some(rules::above_root(workspace.root(), workspace.own.as_deref())),
        Some(parent) => rules_in(workspace, parent, known).filter(|above| {
            !present.git && !workspace.is_bare(folder) && !rules::ignored(above, folder, true)
        }),
    };
    let rules = above.map(|above| rules::enter(&workspace.root, folder, &above, present));
    known.insert(folder.to_owned(), rules.clone());
    rules
}

/// Everything that belongs into a snapshot. Repositories inside the workspace have a history of their own.
#[derive(Default)]
struct Listing {
    gits: Gits,
    files: Vec<Box<Path>>,
    folders: Vec<(Box<Path>, Option<Stamp>)>,
    nested: Vec<PathBuf>,
    closed: Vec<PathBuf>,
    /// Folders that not everybody may look into, and their permissions.
    narrow: Vec<(PathBuf, u32)>,
}

impl Visit for Listing {
    fn closed(&mut self, path: &Path) {
        self.closed.push(path.to_owned());
    }

    fn folder(&mut self, path: &Path, fd: BorrowedFd<'_>) {
        // Before the names are read: what comes while they are shows later.
        let stat = rustix::fs::fstat(fd).ok();
        self.narrow.extend(stat.as_ref().and_then(narrower_folder).map(|bits| (path.to_owned(), bits)));
        self.folders.push((path.into(), stat.filter(settled).map(|stat| stamp(&stat))));
    }

    fn file(&mut self, _: BorrowedFd<'_>, path: &Path) {
        if !self.gits.own(path) {
            self.files.push(path.into());
        }
    }

    fn link(&mut self, path: &Path) {
        if !self.gits.own(path) {
            self.files.push(path.into());
        }
    }

    fn enters(&mut self, path: &Path) -> bool {
        // Nothing is put back where git would find a repository (where it does not tell large letters from small ones:
        // under a name like `.GIT`), so nothing of it is kept.
        !self.gits.own(path)
    }

    fn nested_repository(&mut self, path: &Path) -> bool {
        self.folders.retain(|(folder, _)| folder.as_ref() != path);
        self.nested.push(path.to_owned());
        false
    }
}
