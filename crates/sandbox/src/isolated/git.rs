//! What of a git repository makes git run programs, and where it is.
//!
//! Hooks and configuration are the obvious ways. `commondir` is the hidden one: a repository that has such a
//! file takes hooks and configuration from where it points, so it must not be possible to plant one.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The repository of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Repository {
    /// Where hooks, configuration and objects are.
    common: PathBuf,
    /// Folders outside the workspace that git has to write: a worktree's repository.
    pub(crate) outside: Vec<PathBuf>,
    /// Must not change.
    pub(crate) frozen: Vec<PathBuf>,
    /// Must not be moved away.
    pub(crate) pinned: Vec<PathBuf>,
}

impl Repository {
    pub(crate) fn of(workspace: &Path) -> Option<Self> {
        let workspace = fs::canonicalize(workspace).ok()?;
        let entry = workspace.join(".git");
        let own = if entry.is_dir() {
            fs::canonicalize(&entry).ok()?
        } else {
            let text = fs::read_to_string(&entry).ok()?;
            fs::canonicalize(workspace.join(text.strip_prefix("gitdir:")?.trim())).ok()?
        };
        let common = match fs::read_to_string(own.join("commondir")) {
            Ok(text) => fs::canonicalize(own.join(text.trim())).ok()?,
            Err(_) => own.clone(),
        };
        let mut frozen: Vec<PathBuf> = Vec::new();
        if entry.is_file() {
            frozen.push(entry);
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
        let (pinned, outside) = places.into_iter().partition(|place| place.starts_with(&workspace));
        Some(Self { common, outside, frozen, pinned })
    }

    /// Puts what could be planted in its place, so that it can be frozen: an empty folder of hooks, and a
    /// `commondir` that says what is true without it. Returns the latter when it was not there.
    pub(crate) fn occupy(&self) -> io::Result<Option<PathBuf>> {
        let hooks = self.common.join("hooks");
        if !hooks.exists() {
            fs::create_dir(&hooks)?;
        }
        let file = self.common.join("commondir");
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
        for name in ["hooks", "config.worktree", "commondir"] {
            let path = self.common.join(name);
            if !path.exists() {
                files.push((path, None));
            }
        }
        files.sort();
        Snapshot { roots: self.frozen.clone(), files }
    }
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

fn put_back(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, content)
}

fn remove(path: &Path) -> io::Result<()> {
    if path.is_dir() && !path.is_symlink() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}
