//! What git runs: files that are read, but not written through this crate.
//!
//! Isolation freezes them for commands, because git runs programs that are named there on the host, outside of any
//! sandbox. A tool that writes files itself must not be the way around that.

use crate::{FileError, Workspace, path::ContainedPath};
use rustix::{
    fd::AsFd,
    fs::{AtFlags, FileType, Mode, OFlags},
    io::Errno,
};
use std::{ffi::OsStr, path::Path};

/// Files at the top of a repository, and the folder of hooks.
const OWN: [&str; 5] = ["hooks", "config", "config.worktree", "commondir", "gitdir"];

/// What else a repository has at its top, as far as that can be told by its name.
const KEPT: [&str; 23] = [
    "annex",
    "branches",
    "description",
    "gc.log",
    "gc.pid",
    "index",
    "info",
    "lfs",
    "logs",
    "modules",
    "objects",
    "packed-refs",
    "rebase-apply",
    "rebase-merge",
    "refs",
    "reftable",
    "remotes",
    "rr-cache",
    "sequencer",
    "shallow",
    "svn",
    "undone-by-sandbox",
    "worktrees",
];

fn is(name: &OsStr, wanted: &str) -> bool {
    name.eq_ignore_ascii_case(wanted)
}

/// Whether a path is inside a repository's `.git`, or is one.
pub(crate) fn in_git(path: &Path) -> bool {
    path.iter().any(|name| is(name, ".git"))
}

/// Whether git would run a program that somebody names at this path: in the repository itself, in those of its
/// submodules and worktrees, or in a file `.git` that says where the repository is.
fn runs(path: &Path) -> bool {
    let names: Vec<&OsStr> = path.iter().collect();
    let Some(at) = names.iter().rposition(|name| is(name, ".git")) else { return false };
    names.len() == at + 1 || runs_below(&names[at + 1..])
}

/// The same, given the way from the top of the repository.
fn runs_below(names: &[&OsStr]) -> bool {
    let ours = |name: &&OsStr| OWN.iter().any(|own| is(name, own));
    match names {
        [] => false,
        [part, below @ ..] if is(part, "modules") || is(part, "worktrees") => below.iter().any(ours),
        [first, ..] => ours(first),
    }
}

/// Whether a folder is a repository itself, as `git init --bare` makes them. Isolation lets no command take away what
/// is asked for here.
pub(crate) fn is_bare(folder: impl AsFd) -> bool {
    let is = |name: &str, wanted: FileType| {
        rustix::fs::statat(folder.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| {
            let kind = FileType::from_raw_mode(stat.st_mode);
            kind == wanted || kind == FileType::Symlink
        })
    };
    let (file, directory) = (FileType::RegularFile, FileType::Directory);
    is("objects", directory) && is("refs", directory) && (is("HEAD", file) || is("config", file))
}

/// Whether git has a file or folder of this name at the top of a repository.
fn at_top(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let name = name.strip_suffix(".lock").unwrap_or(name);
    OWN.iter().chain(&KEPT).any(|kept| name.eq_ignore_ascii_case(kept))
        || ["HEAD", "_EDITMSG", "_MSG", "_MERGE"].iter().any(|end| name.ends_with(end))
        || ["BISECT_", "MERGE_"].iter().any(|start| name.starts_with(start))
}

/// Tells what belongs to git from what belongs to the workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gits {
    /// The workspace is a repository itself: what is in `.git` elsewhere lies beside its files.
    bare: bool,
}

impl Gits {
    pub(crate) fn of(workspace: &Workspace) -> Self {
        Self { bare: workspace.is_bare(Path::new("")) }
    }

    /// Whether a path is git's own, or leads into what is.
    pub(crate) fn own(self, path: &Path) -> bool {
        in_git(path) || (self.bare && path.iter().next().is_some_and(at_top))
    }
}

impl Workspace {
    /// Whether a folder is a repository itself.
    pub(crate) fn is_bare(&self, folder: &Path) -> bool {
        // mostly the first question is the last
        self.lstat(&folder.join("objects")).is_ok() && self.root.open_dir(folder).is_ok_and(is_bare)
    }

    /// Whether a repository begins at a folder.
    pub(crate) fn has_repository(&self, folder: &Path) -> bool {
        self.lstat(&folder.join(".git")).is_ok() || self.is_bare(folder)
    }

    /// Refuses a path at which git finds programs to run. Also where the hooks of this workspace are a link to.
    pub(crate) fn check_guarded(&self, path: &ContainedPath) -> Result<(), FileError> {
        let linked = || {
            // mostly there are none, or they are an ordinary folder: only a symlink has to be followed
            let plain = self.root.open_at(Path::new(".git/hooks"), OFlags::PATH, Mode::empty());
            if matches!(plain, Ok(_) | Err(Errno::NOENT)) {
                return false;
            }
            let hooks = self.resolve(".git/hooks").ok();
            hooks.is_some_and(|hooks| !in_git(&hooks.relative) && path.relative.starts_with(&hooks.relative))
        };
        let full = self.root().join(&path.relative);
        let in_bare = |top: &Path| {
            let below: Vec<&OsStr> = full.strip_prefix(top).unwrap_or(Path::new("")).iter().collect();
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            runs_below(&below)
                && match top.strip_prefix(self.root()) {
                    Ok(inside) => self.is_bare(inside),
                    Err(_) => rustix::fs::open(top, flags, Mode::empty()).is_ok_and(is_bare),
                }
        };
        if runs(&full) || linked() || full.ancestors().any(in_bare) {
            return Err(FileError::Guarded { path: path.to_string() });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_runs_is_told_from_what_it_keeps() {
        for path in [
            ".git",
            "a/.git",
            ".git/hooks",
            ".git/hooks/pre-commit",
            ".git/hooks/a/b",
            "a/b/.git/config",
            ".GIT/config",
            ".git/config.worktree",
            ".git/commondir",
            ".git/modules/a/b/hooks/x",
            ".git/modules/a/config",
            ".git/worktrees/w/commondir",
        ] {
            assert!(runs(Path::new(path)), "{path}");
        }
        for path in [
            "config",
            "hooks/pre-commit",
            ".gitignore",
            ".github/config",
            ".git/info/exclude",
            ".git/refs/heads/hooks",
            ".git/COMMIT_EDITMSG",
            "a/.gitmodules",
        ] {
            assert!(!runs(Path::new(path)), "{path}");
        }
    }
}
