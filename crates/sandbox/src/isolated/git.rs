//! What of a git repository makes git run programs, and where it is.
//!
//! Hooks and configuration are the obvious ways. `commondir` is the hidden one: a repository that has such a
//! file takes hooks and configuration from where it points, so it must not be possible to plant one.

use std::{
    collections::VecDeque,
    fs, io,
    path::{Path, PathBuf},
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
    /// Where hooks, configuration and objects are; `None` when that is none of our business.
    common: Option<PathBuf>,
    /// Folders outside the workspace that git has to write: a worktree's repository.
    pub(crate) outside: Vec<PathBuf>,
    /// Must not change.
    pub(crate) frozen: Vec<PathBuf>,
    /// Must not be moved away.
    pub(crate) pinned: Vec<PathBuf>,
}

impl Repository {
    pub(crate) fn of(checkout: &Checkout) -> Option<Self> {
        let Checkout { workspace, folder } = checkout;
        let entry = folder.join(".git");
        let own = if entry.is_dir() {
            fs::canonicalize(&entry).ok()?
        } else {
            let text = fs::read_to_string(&entry).ok()?;
            fs::canonicalize(folder.join(text.strip_prefix("gitdir:")?.trim())).ok()?
        };
        let common = match fs::read_to_string(own.join("commondir")) {
            Ok(text) => fs::canonicalize(own.join(text.trim())).ok()?,
            Err(_) => own.clone(),
        };
        let mut frozen: Vec<PathBuf> = Vec::new();
        if entry.is_file() {
            frozen.push(entry.clone());
        }
        let inside = own.starts_with(workspace) && common.starts_with(workspace);
        // A `.git` that a command wrote must not open or touch whatever it points at.
        if !inside && (folder != workspace || !links_back(&entry, &own, &common)) {
            return Some(Self { common: None, outside: Vec::new(), frozen, pinned: Vec::new() });
        }
        frozen.extend(["hooks", "config", "config.worktree", "commondir"].map(|name| common.join(name)));
        for (folder, names) in [
            ("modules", &["hooks", "config", "config.worktree", "commondir"][..]),
            ("worktrees", &["commondir", "gitdir", "config.worktree"][..]),
        ] {
            for entry in fs::read_dir(common.join(folder)).into_iter().flatten().flatten() {
                frozen.extend(names.iter().map(|name| entry.path().join(name)));
            }
        }
        frozen.retain(|path| path.exists());
        frozen.sort();
        let mut places = vec![common.clone(), own];
        places.dedup();
        let (pinned, outside) = places.into_iter().partition(|place| place.starts_with(workspace));
        Some(Self { common: Some(common), outside, frozen, pinned })
    }

    /// Puts what could be planted in its place, so that it can be frozen: an empty folder of hooks, and a
    /// `commondir` that says what is true without it. Returns the latter when it was not there.
    pub(crate) fn occupy(&self) -> io::Result<Option<PathBuf>> {
        let Some(common) = &self.common else { return Ok(None) };
        let hooks = common.join("hooks");
        if !hooks.exists() {
            fs::create_dir(&hooks)?;
        }
        let file = common.join("commondir");
        if file.exists() {
            // One that an earlier run left behind is ours to remove again.
            return Ok((fs::read(&file)? == PLACEHOLDER).then_some(file));
        }
        fs::write(&file, PLACEHOLDER)?;
        Ok(Some(file))
    }

    /// What must not change, with its content.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut files = Vec::new();
        for path in &self.frozen {
            collect(path, &mut files);
        }
        if let Some(common) = &self.common {
            let absent = ["hooks", "config.worktree", "commondir"].map(|name| common.join(name));
            files.extend(absent.into_iter().filter(|path| !path.exists()).map(|path| (path, None)));
        }
        files.sort();
        Snapshot { roots: self.frozen.clone(), files }
    }
}

/// Whether a repository outside the workspace says itself that the workspace is its worktree or its submodule;
/// nobody inside could have written that.
fn links_back(entry: &Path, own: &Path, common: &Path) -> bool {
    let is_entry = |path: PathBuf| fs::canonicalize(path).is_ok_and(|path| path == *entry);
    if own != common {
        let named = fs::read_to_string(own.join("gitdir"));
        return own.starts_with(common.join("worktrees"))
            && named.is_ok_and(|text| is_entry(own.join(text.trim())));
    }
    let config = fs::read_to_string(own.join("config")).unwrap_or_default();
    let mut named = config.lines().filter_map(|line| line.trim().strip_prefix("worktree"));
    named.any(|rest| {
        let path = rest.trim().strip_prefix('=').map(str::trim);
        path.is_some_and(|path| is_entry(own.join(path).join(".git")))
    })
}

pub(crate) const PLACEHOLDER: &[u8] = b".\n";

/// The content of files, kept to be compared with and put back.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    roots: Vec<PathBuf>,
    /// `None`: was not there.
    files: Vec<(PathBuf, Option<Vec<u8>>)>,
}

/// Larger files than this are no hooks.
const LARGEST: u64 = 4 << 20;

fn collect(path: &Path, files: &mut Vec<(PathBuf, Option<Vec<u8>>)>) {
    let Ok(kind) = fs::symlink_metadata(path) else { return };
    if kind.is_dir() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            collect(&entry.path(), files);
        }
    } else if kind.is_file() && kind.len() <= LARGEST {
        files.extend(fs::read(path).ok().map(|content| (path.to_owned(), Some(content))));
    }
}

impl Snapshot {
    /// Undoes what was changed since, and names it.
    pub(crate) fn restore(&self) -> Vec<PathBuf> {
        let mut now = Vec::new();
        for root in &self.roots {
            collect(root, &mut now);
        }
        let mut changed = Vec::new();
        for (path, content) in &self.files {
            let restored = match content {
                Some(content) => {
                    fs::read(path).ok().as_ref() != Some(content) && put_back(path, content).is_ok()
                }
                None => path.exists() && remove(path).is_ok(),
            };
            if restored {
                changed.push(path.clone());
            }
        }
        for (path, _) in now {
            if !self.files.iter().any(|(known, _)| *known == path) && remove(&path).is_ok() {
                changed.push(path);
            }
        }
        changed
    }
}

/// Writes a file again, never through what a command left in its place or above it.
fn put_back(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        for above in path.ancestors().skip(1).filter(|above| above.is_symlink() || above.is_file()) {
            fs::remove_file(above)?;
        }
        fs::create_dir_all(folder)?;
    }
    // A link, or a folder in the place of the file that names the repository.
    if path.is_symlink() || path.is_dir() {
        remove(path)?;
    }
    fs::write(path, content)
}

fn remove(path: &Path) -> io::Result<()> {
    if path.is_dir() && !path.is_symlink() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}
