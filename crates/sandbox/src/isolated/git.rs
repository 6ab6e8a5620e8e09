//! What of a git repository makes git run programs, and where it is.
//!
//! Hooks and configuration are the obvious ways. `commondir` is the hidden one: a repository that has such a
//! file takes hooks and configuration from where it points, so it must not be possible to plant one. Nor a
//! `config.worktree`, which is read as soon as an extension is on.

use super::{
    folder::{self, Folder},
    index,
    restore::Snapshot,
};
use rustix::fs::FileType;
use std::{
    collections::{BTreeSet, VecDeque},
    ffi::OsStr,
    fs, io,
    path::{Component, Path, PathBuf},
};

/// A folder with a repository, and the workspace it lies in; for most it is the workspace itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checkout {
    pub(crate) workspace: PathBuf,
    pub(crate) folder: PathBuf,
    /// The folder is a repository itself, whatever its `.git` is.
    bare: bool,
}

/// Entries of a workspace that are looked at for nested repositories, the shallow ones first.
const ENTRIES: usize = 20_000;
/// Nested repositories that are guarded.
const NESTED: usize = 64;
/// Submodules and worktrees of one repository that are guarded.
const PARTS: usize = 256;
/// Folders that programs fill and nobody commits in.
const FILLED: [&str; 5] = ["node_modules", "target", ".venv", "venv", "__pycache__"];

impl Checkout {
    /// The workspace itself, the folder above it that has the repository it belongs to, and the folders in it that have a
    /// repository of their own.
    pub(crate) fn all(workspace: &Path, home: Option<&Path>) -> Vec<Self> {
        let Ok(workspace) = fs::canonicalize(workspace) else { return Vec::new() };
        let checkout = |folder: PathBuf| Self { folder, workspace: workspace.clone(), bare: false };
        let mut found = vec![checkout(workspace.clone())];
        found.extend(above(&workspace, home).map(checkout));
        for link in text_of_index(&workspace).iter().flat_map(|index| index::gitlinks(index)) {
            let folder = workspace.join(link);
            if found.len() <= NESTED && folder::kind(&folder.join(".git")).is_some() {
                found.push(checkout(folder));
            }
        }
        let walked = Self::walk(&workspace, NESTED);
        found.extend(walked.into_iter().map(checkout));
        let mut known = BTreeSet::new();
        found.retain(|checkout| known.insert(checkout.folder.clone()));
        // Both: a command can make an empty `.git`, which git passes over, or what looks like a repository.
        let bare = found.iter().filter(|checkout| is_bare(&checkout.folder));
        let bare: Vec<Self> = bare.map(|checkout| Self { bare: true, ..checkout.clone() }).collect();
        found.extend(bare);
        found
    }

    /// The folders in the workspace that have a repository of their own, but for those that programs fill.
    fn walk(workspace: &Path, most: usize) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let (mut waiting, mut seen) = (VecDeque::from([workspace.to_owned()]), 0);
        while let Some(folder) = waiting.pop_front() {
            let (mut below, mut objects) = (Vec::new(), false);
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                seen += 1;
                if seen > ENTRIES || found.len() >= most {
                    return found;
                }
                let name = entry.file_name();
                objects |= name == "objects";
                if name == ".git" && folder != workspace {
                    found.push(folder.clone());
                } else if name != ".git"
                    && !FILLED.iter().any(|filled| name == *filled)
                    && entry.file_type().is_ok_and(|kind| kind.is_dir())
                {
                    below.push(entry.path());
                }
            }
            if objects && folder != workspace && is_bare(&folder) {
                found.push(folder);
            } else {
                waiting.extend(below);
            }
        }
        found
    }
}

/// The index of a repository at the top of a workspace.
fn text_of_index(workspace: &Path) -> Option<Vec<u8>> {
    folder::read(&workspace.join(".git/index"), LARGEST_INDEX).ok()
}

/// The folder above a workspace whose repository it belongs to. One that holds the home as well is nothing that commands
/// should write in: what is checked out of it are start-up files.
fn above(workspace: &Path, home: Option<&Path>) -> Option<PathBuf> {
    if folder::kind(&workspace.join(".git")).is_some() || is_bare(workspace) {
        return None;
    }
    let found = workspace.ancestors().skip(1).find(|above| folder::kind(&above.join(".git")).is_some())?;
    let holds_home = home.is_some_and(|home| home.starts_with(found));
    (!holds_home && is_bare(&found.join(".git"))).then(|| found.to_owned())
}

/// Whether a folder is a repository itself. What is asked for here no command can take away: `HEAD` alone it could.
fn is_bare(folder: &Path) -> bool {
    let is = |name: &str, kinds: &[FileType]| {
        folder::kind(&folder.join(name)).is_some_and(|kind| kinds.contains(&kind))
    };
    let file = |name: &str| is(name, &[FileType::RegularFile, FileType::Symlink]);
    let directory = |name: &str| is(name, &[FileType::Directory, FileType::Symlink]);
    directory("objects") && directory("refs") && (file("HEAD") || file("config"))
}

fn is_folder(path: &Path) -> bool {
    folder::kind(path) == Some(FileType::Directory)
}

/// A repository in a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Repository {
    /// The checkout.
    folder: PathBuf,
    /// Where hooks, configuration and objects are; `None` when that is none of our business.
    common: Option<PathBuf>,
    /// Folders outside the workspace that git has to write: a worktree's repository.
    pub(crate) outside: Vec<PathBuf>,
    /// Must not change, whether it is there or not.
    watched: Vec<PathBuf>,
    /// Those of them that are there.
    pub(crate) frozen: Vec<PathBuf>,
    /// Must not be moved away.
    pub(crate) pinned: Vec<PathBuf>,
    /// Links among the watched whose target is not watched.
    pub(crate) loose: Vec<Loose>,
}

/// A link that git follows to somewhere else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Loose {
    pub(crate) link: PathBuf,
    /// `None` when it leads nowhere, or over further links.
    pub(crate) target: Option<PathBuf>,
}

/// What of a repository makes git run programs.
const OWN: [&str; 4] = ["hooks", "config", "config.worktree", "commondir"];
/// The same of a worktree's part.
const OF_A_WORKTREE: [&str; 3] = ["commondir", "gitdir", "config.worktree"];
/// A file that points somewhere holds no more than this.
const POINTER: u64 = 4096;
const LARGEST_CONFIG: u64 = 1 << 20;
const LARGEST_INDEX: u64 = 64 << 20;

/// The text of a small regular file; anything else is no answer.
fn text(path: &Path, most: u64) -> Option<String> {
    String::from_utf8(folder::read(path, most).ok()?).ok()
}

impl Repository {
    pub(crate) fn of(checkout: &Checkout) -> Option<Self> {
        let Checkout { workspace, folder, bare } = checkout;
        let entry = folder.join(".git");
        let kind = if *bare { FileType::Directory } else { folder::kind(&entry)? };
        let own = match kind {
            _ if *bare => folder.clone(),
            FileType::Directory => entry.clone(),
            FileType::Symlink => fs::canonicalize(&entry).ok().filter(|own| own.is_dir())?,
            FileType::RegularFile => {
                let text = text(&entry, POINTER)?;
                fs::canonicalize(folder.join(text.strip_prefix("gitdir:")?.trim())).ok()?
            }
            _ => return None,
        };
        let common = match text(&own.join("commondir"), POINTER) {
            Some(text) => fs::canonicalize(own.join(text.trim())).ok()?,
            None => own.clone(),
        };
        let mut watched: Vec<PathBuf> = Vec::new();
        if kind != FileType::Directory {
            watched.push(entry.clone());
        }
        let mut found = Self {
            folder: folder.clone(),
            common: None,
            outside: Vec::new(),
            watched,
            frozen: Vec::new(),
            pinned: Vec::new(),
            loose: Vec::new(),
        };
        let inside = own.starts_with(workspace) && common.starts_with(workspace);
        // Of a folder above only what lies in it itself is opened.
        let around = folder != workspace
            && workspace.starts_with(folder)
            && kind == FileType::Directory
            && own == common;
        // A `.git` that a command wrote must not open or touch whatever it points at.
        if !inside && !around && (folder != workspace || !links_back(&entry, &own, &common)) {
            found.frozen.clone_from(&found.watched);
            return Some(found);
        }
        found.watched.extend(OWN.map(|name| common.join(name)));
        for (folder, names) in [("modules", &OWN[..]), ("worktrees", &OF_A_WORKTREE[..])] {
            let folder = common.join(folder);
            let entries = Folder::open(&folder).and_then(|folder| folder.names(PARTS)).unwrap_or_default();
            for entry in entries {
                found.watched.extend(names.iter().map(|name| folder.join(&entry).join(name)));
            }
        }
        let mut places = vec![common.clone(), own.clone()];
        places.dedup();
        // The workspace itself is a mount already.
        places.retain(|place| place != workspace);
        (found.pinned, found.outside) = places.into_iter().partition(|place| place.starts_with(workspace));
        if *bare {
            // Without them it would be a folder like any other for the next command.
            let kept = ["objects", "refs"].map(|name| own.join(name));
            found.pinned.extend(kept.into_iter().filter(|path| is_folder(path)));
        }
        found.follow_links(&common);
        found.watched.sort();
        found.watched.dedup();
        found.frozen = found.watched.iter().filter(|path| folder::kind(path).is_some()).cloned().collect();
        // A mount keeps its own folder in its place, not those above it.
        let inside = |above: &&Path| {
            *above != workspace
                && *above != common
                && (above.starts_with(&common) || above.iter().any(|name| name == ".git"))
        };
        let above = |path: &PathBuf| -> Vec<PathBuf> {
            path.ancestors().skip(1).take_while(inside).map(Path::to_owned).collect()
        };
        let above: Vec<PathBuf> = found.frozen.iter().chain(&found.pinned).flat_map(above).collect();
        found.pinned.extend(above);
        found.pinned.sort();
        found.pinned.dedup();
        found.common = Some(common);
        Some(found)
    }

    /// Where something watched is a link, what it points to is watched as well when it belongs to this checkout,
    /// and folders on the way must not be moved. One link only: a second could be turned elsewhere.
    fn follow_links(&mut self, common: &Path) {
        let is_link = |path: &&PathBuf| folder::kind(path) == Some(FileType::Symlink);
        let links: Vec<PathBuf> =
            self.watched.iter().filter(|path| !path.ends_with(".git")).filter(is_link).cloned().collect();
        for link in links {
            let Some(target) = points_to(&link) else {
                self.loose.push(Loose { link, target: None });
                continue;
            };
            // Never so much that no work could be done: a command may have made the link.
            let below = |base: &&Path| target.starts_with(base) && target != **base;
            let base = [common, &self.folder].into_iter().find(below);
            match base.filter(|_| !common.starts_with(&target) && !self.folder.starts_with(&target)) {
                Some(base) => {
                    let between = target.ancestors().skip(1).take_while(|above| *above != base);
                    self.pinned.extend(between.map(Path::to_owned));
                    self.watched.push(target);
                }
                None => self.loose.push(Loose { link, target: Some(target) }),
            }
        }
    }

    /// Puts what could be planted in its place, so that it can be frozen: an empty folder of hooks, a `commondir` that says
    /// what is true without it, and an empty configuration of the worktree, which git reads once an extension is switched
    /// on; also in the parts that belong to submodules and worktrees. Returns the files that were not there, with what is
    /// in them.
    pub(crate) fn occupy(&self) -> io::Result<Vec<(PathBuf, &'static [u8])>> {
        let Some(common) = &self.common else { return Ok(Vec::new()) };
        let mut put = Vec::new();
        for place in self.watched.iter().filter_map(|path| path.parent()) {
            // Of what links point to, nothing.
            let ours =
                place == common || place.starts_with(common.join("modules")) || is_worktree(place, common);
            if !ours || (place != common && !place.join("HEAD").exists()) {
                continue;
            }
            // One that cannot be occupied, nobody inside can plant either.
            let Ok(folder) = Folder::open(place) else { continue };
            if !is_worktree(place, common) {
                if folder.stat(OsStr::new("hooks")).is_err() {
                    folder.make(OsStr::new("hooks"))?;
                }
                put.extend(occupy(&folder, place, "commondir", PLACEHOLDER)?);
            }
            put.extend(occupy(&folder, place, "config.worktree", NOTHING)?);
        }
        put.sort();
        put.dedup();
        Ok(put)
    }

    /// What must not change, with its content.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot::take(self.watched.clone(), self.common.clone(), &self.folder)
    }
}

/// Where a link leads, when that is a place without further links.
fn points_to(link: &Path) -> Option<PathBuf> {
    let (folder, name) = Folder::above(link).ok()?;
    let mut target = link.parent()?.to_owned();
    for part in folder.link(name).ok()?.components() {
        match part {
            Component::RootDir => target = PathBuf::from("/"),
            Component::ParentDir => {
                target.pop();
            }
            Component::Normal(name) => target.push(name),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    fs::canonicalize(link).ok().filter(|real| *real == target)
}

/// Whether a repository outside the workspace says itself that the workspace is its worktree or its submodule;
/// nobody inside could have written that.
fn links_back(entry: &Path, own: &Path, common: &Path) -> bool {
    let is_entry = |path: PathBuf| fs::canonicalize(path).is_ok_and(|path| path == *entry);
    if own != common {
        let named = text(&own.join("gitdir"), POINTER);
        return own.starts_with(common.join("worktrees"))
            && named.is_some_and(|text| is_entry(own.join(text.trim())));
    }
    let config = text(&own.join("config"), LARGEST_CONFIG).unwrap_or_default();
    let mut named = config.lines().filter_map(|line| line.trim().strip_prefix("worktree"));
    named.any(|rest| {
        let path = rest.trim().strip_prefix('=').map(str::trim);
        path.is_some_and(|path| is_entry(own.join(path).join(".git")))
    })
}

fn is_worktree(place: &Path, common: &Path) -> bool {
    place.parent() == Some(&common.join("worktrees"))
}

/// Makes a file that is not there; one that an earlier run left behind is ours to remove again.
fn occupy(
    folder: &Folder,
    place: &Path,
    name: &str,
    content: &'static [u8],
) -> io::Result<Option<(PathBuf, &'static [u8])>> {
    let file = OsStr::new(name);
    let ours = match folder.stat(file) {
        Ok(_) => folder.read(file, POINTER).is_ok_and(|found| found == content),
        Err(_) => folder.create(file, content, 0o644, None).map(|()| true)?,
    };
    Ok(ours.then(|| (place.join(name), content)))
}

const PLACEHOLDER: &[u8] = b".\n";
const NOTHING: &[u8] = b"";
