//! What of a git repository makes git run programs, and where it is.
//!
//! Hooks and configuration are the obvious ways. `commondir` is the hidden one: a repository that has such a
//! file takes hooks and configuration from where it points, so it must not be possible to plant one.

use super::{
    folder::{self, Folder},
    restore::Snapshot,
};
use rustix::fs::FileType;
use std::{
    collections::VecDeque,
    ffi::OsStr,
    fs, io,
    path::{Component, Path, PathBuf},
};

/// A folder with a repository, and the workspace it lies in; for most it is the workspace itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checkout {
    pub(crate) workspace: PathBuf,
    pub(crate) folder: PathBuf,
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
    /// The workspace itself, and the folders in it that have a repository of their own.
    pub(crate) fn all(workspace: &Path) -> Vec<Self> {
        let Ok(workspace) = fs::canonicalize(workspace) else { return Vec::new() };
        let mut found = vec![Self { folder: workspace.clone(), workspace: workspace.clone() }];
        let (mut waiting, mut seen) = (VecDeque::from([workspace.clone()]), 0);
        while let Some(folder) = waiting.pop_front() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                seen += 1;
                if seen > ENTRIES || found.len() > NESTED {
                    return found;
                }
                let name = entry.file_name();
                if name == ".git" && folder != workspace {
                    found.push(Self { folder: folder.clone(), workspace: workspace.clone() });
                } else if name != ".git"
                    && !FILLED.iter().any(|filled| name == *filled)
                    && entry.file_type().is_ok_and(|kind| kind.is_dir())
                {
                    waiting.push_back(entry.path());
                }
            }
        }
        found
    }
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

/// The text of a small regular file; anything else is no answer.
fn text(path: &Path, most: u64) -> Option<String> {
    String::from_utf8(folder::read(path, most).ok()?).ok()
}

impl Repository {
    pub(crate) fn of(checkout: &Checkout) -> Option<Self> {
        let Checkout { workspace, folder } = checkout;
        let entry = folder.join(".git");
        let kind = folder::kind(&entry)?;
        let own = match kind {
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
        // A `.git` that a command wrote must not open or touch whatever it points at.
        if !inside && (folder != workspace || !links_back(&entry, &own, &common)) {
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
        let mut places = vec![common.clone(), own];
        places.dedup();
        (found.pinned, found.outside) = places.into_iter().partition(|place| place.starts_with(workspace));
        found.follow_links(&common);
        found.watched.sort();
        found.watched.dedup();
        found.frozen = found.watched.iter().filter(|path| folder::kind(path).is_some()).cloned().collect();
        // A mount keeps its own folder in its place, not those above it.
        let inside = |above: &&Path| {
            *above != workspace && *above != common && above.iter().any(|name| name == ".git")
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

    /// Puts what could be planted in its place, so that it can be frozen: an empty folder of hooks, and a
    /// `commondir` that says what is true without it. Returns the latter when it was not there.
    pub(crate) fn occupy(&self) -> io::Result<Option<PathBuf>> {
        let Some(common) = &self.common else { return Ok(None) };
        let folder = Folder::open(common)?;
        let (hooks, file) = (OsStr::new("hooks"), OsStr::new("commondir"));
        if folder.stat(hooks).is_err() {
            folder.make(hooks)?;
        }
        if folder.stat(file).is_ok() {
            // One that an earlier run left behind is ours to remove again.
            return Ok((folder.read(file, POINTER)? == PLACEHOLDER).then(|| common.join(file)));
        }
        folder.create(file, PLACEHOLDER, 0o644, None)?;
        Ok(Some(common.join(file)))
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

pub(crate) const PLACEHOLDER: &[u8] = b".\n";
