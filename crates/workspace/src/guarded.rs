//! What git runs: files that are read, but not written through this crate.
//!
//! Isolation freezes them for commands, because git runs programs that are named there on the host, outside of any
//! sandbox. A tool that writes files itself must not be the way around that.

use crate::{FileError, Workspace, path::ContainedPath};
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};
use std::{ffi::OsStr, path::Path};

/// Files at the top of a repository, and the folder of hooks.
const OWN: [&str; 5] = ["hooks", "config", "config.worktree", "commondir", "gitdir"];

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
    let ours = |name: &&OsStr| OWN.iter().any(|own| is(name, own));
    match &names[at + 1..] {
        [] => true,
        [part, below @ ..] if is(part, "modules") || is(part, "worktrees") => below.iter().any(ours),
        [first, ..] => ours(first),
    }
}

impl Workspace {
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
        if runs(&self.root().join(&path.relative)) || linked() {
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
