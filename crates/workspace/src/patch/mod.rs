//! Patches of several files: all of it happens, or nothing.

mod hunk;
mod parse;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::Stat;

pub use self::parse::{PatchPlan, parse};

use self::parse::FilePatch;
use crate::error::{FileError, PathError};
use crate::path::ContainedPath;
use crate::root::Workspace;
use crate::version::Version;
use crate::write::{Held, Staged};

/// A patch that was not applied. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// It is no unified diff.
    #[error("line {line} of the patch: {why}")]
    Parse {
        /// Where, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// It changes a file that the session has not read.
    #[error("refusing to edit {path}: Read it first")]
    NotRead {
        /// The file.
        path: ContainedPath,
    },
    /// It changes a file that is no longer what the session read.
    #[error("{path} changed since it was read")]
    Stale {
        /// The file.
        path: ContainedPath,
        /// What it holds now.
        now: Vec<u8>,
    },
    /// It changes a file that does not exist.
    #[error("{path} does not exist; to create it, use /dev/null as the old file")]
    Missing {
        /// The file.
        path: ContainedPath,
    },
    /// It creates a file that exists.
    #[error("{path} exists already; Read it and patch it, or choose another name")]
    Exists {
        /// The file.
        path: ContainedPath,
    },
    /// A hunk does not fit.
    #[error("hunk {number} ({header}) does not apply to {path}: {why}")]
    Hunk {
        /// The file.
        path: ContainedPath,
        /// Which hunk of the file, from 1.
        number: usize,
        /// Its header.
        header: String,
        /// Why not, and the closest place.
        why: String,
    },
    /// It deletes a file but does not remove all its lines.
    #[error(
        "the patch deletes {path} but does not remove all of its lines; Read it again and remove them all"
    )]
    Leftover {
        /// The file.
        path: ContainedPath,
    },
    /// It deletes or renames a symlink, which would take away what that leads to.
    #[error("{path} is a symlink to {target}; delete or rename it with a command, or name {target} itself")]
    Link {
        /// The symlink.
        path: ContainedPath,
        /// The file it leads to.
        target: ContainedPath,
    },
    /// All its hunks put back what is there.
    #[error("the patch changes nothing: what it adds is what it removes, or it has context lines only")]
    Nothing,
    /// A path is wrong.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The file system got in the way.
    #[error(transparent)]
    File(#[from] FileError),
}

/// What a patch did to one file.
#[derive(Debug)]
pub struct PatchedFile {
    /// The file, under its new name.
    pub path: ContainedPath,
    /// Its content and version now; `None` when it was deleted.
    pub now: Option<(Version, Arc<[u8]>)>,
    /// Its content before; `None` when it was created.
    pub before: Option<Vec<u8>>,
}

/// What a patch did.
#[derive(Debug, Default)]
pub struct PatchReport {
    /// Files that are different now, in path order. A renamed file is two of them.
    pub files: Vec<PatchedFile>,
    /// Lines added in all.
    pub added: usize,
    /// Lines removed in all.
    pub removed: usize,
    /// Hunks that stood at another line than their header said, in words.
    pub notes: Vec<String>,
}

impl Workspace {
    /// Applies a patch to all its files, or changes nothing.
    ///
    /// `seen` says which version of a file the caller has read; a file that is changed, deleted or renamed must have
    /// been read and must not have changed since.
    pub fn apply_patch(
        &self,
        plan: &PatchPlan,
        seen: &dyn Fn(&ContainedPath) -> Option<Version>,
    ) -> Result<PatchReport, PatchError> {
        let mut names: BTreeMap<&Path, ContainedPath> = BTreeMap::new();
        for name in plan.paths() {
            names.insert(name, self.resolve(name)?);
        }
        let _here = self.locks.lock(names.values().map(|path| path.relative.as_path()));
        let mut change =
            Change { workspace: self, seen, files: BTreeMap::new(), report: PatchReport::default() };
        for file in &plan.files {
            change.apply(file, &names)?;
        }
        if !change.files.values().any(State::differs) {
            return Err(PatchError::Nothing);
        }
        change.commit()
    }
}

impl Workspace {
    /// Puts new contents in the place of files, all of them or none: each must still be the version it is replaced for.
    pub fn replace_files(
        &self,
        files: &[(ContainedPath, Version, Vec<u8>)],
    ) -> Result<PatchReport, PatchError> {
        let _here = self.locks.lock(files.iter().map(|(path, ..)| path.relative.as_path()));
        let seen = |path: &ContainedPath| {
            files.iter().find(|(known, ..)| known == path).map(|(_, version, _)| *version)
        };
        let mut change =
            Change { workspace: self, seen: &seen, files: BTreeMap::new(), report: PatchReport::default() };
        for (path, _, new) in files {
            change.existing(path)?;
            change.state(path)?.now = Some(new.clone());
        }
        change.commit()
    }
}

/// A file as the patch sees it: what is on disk, and what shall be.
struct State {
    held: Option<Held>,
    now: Option<Vec<u8>>,
    /// Whose owner and mode it gets.
    like: Option<Stat>,
    executable: Option<bool>,
}

struct Change<'w> {
    workspace: &'w Workspace,
    seen: &'w dyn Fn(&ContainedPath) -> Option<Version>,
    files: BTreeMap<ContainedPath, State>,
    report: PatchReport,
}

impl Change<'_> {
    /// Takes one file's part of the patch into account, in memory.
    fn apply(&mut self, file: &FilePatch, names: &BTreeMap<&Path, ContainedPath>) -> Result<(), PatchError> {
        let name = |path: &Option<PathBuf>| path.as_ref().and_then(|path| names.get(path.as_path())).cloned();
        let (old, new) = (name(&file.old), name(&file.new));
        let (before, like) = match &old {
            Some(path) => self.existing(path)?,
            None => (Vec::new(), None),
        };
        let Some(shown) = new.clone().or(old.clone()) else { return Ok(()) };
        let done = hunk::apply(&before, &file.hunks).map_err(|misfit| PatchError::Hunk {
            path: old.clone().unwrap_or(shown.clone()),
            number: misfit.number,
            header: file.hunks[misfit.number - 1].header.clone(),
            why: misfit.why,
        })?;
        self.report.added += done.added;
        self.report.removed += done.removed;
        for (number, line) in &done.moved {
            self.report.notes.push(format!("{shown}: hunk {number} applied at line {line}"));
        }
        if let Some(old) = &old
            && new.as_ref() != Some(old)
        {
            if new.is_none() && !done.bytes.is_empty() && !file.hunks.is_empty() {
                return Err(PatchError::Leftover { path: old.clone() });
            }
            if !file.copy {
                self.not_a_link(file, old)?;
                self.state(old)?.now = None;
            }
        }
        let Some(new) = new else { return Ok(()) };
        let moved = old.as_ref() != Some(&new);
        let state = self.state(&new)?;
        if moved && state.now.is_some() {
            return Err(PatchError::Exists { path: new });
        }
        state.now = Some(done.bytes);
        state.like = state.like.or(like);
        state.executable = file.executable.or(state.executable);
        Ok(())
    }

    fn not_a_link(&self, file: &FilePatch, target: &ContainedPath) -> Result<(), PatchError> {
        let Some(name) = &file.old else { return Ok(()) };
        let path = self.workspace.resolve_entry(name)?;
        if path == *target { Ok(()) } else { Err(PatchError::Link { path, target: target.clone() }) }
    }

    /// The content of a file that the patch changes, which must be what the caller has read.
    fn existing(&mut self, path: &ContainedPath) -> Result<(Vec<u8>, Option<Stat>), PatchError> {
        let first = !self.files.contains_key(path);
        let seen = (self.seen)(path);
        let state = self.state(path)?;
        let Some(now) = state.now.clone() else { return Err(PatchError::Missing { path: path.clone() }) };
        let like = state.like;
        if first {
            match seen {
                None => return Err(PatchError::NotRead { path: path.clone() }),
                Some(version) if version != Version::of(&now) => {
                    return Err(PatchError::Stale { path: path.clone(), now });
                }
                Some(_) => {}
            }
        }
        Ok((now, like))
    }

    fn state(&mut self, path: &ContainedPath) -> Result<&mut State, FileError> {
        if !self.files.contains_key(path) {
            let held = self.workspace.hold(path)?;
            let now = held.as_ref().map(|held| held.bytes.clone());
            let like = held.as_ref().map(|held| held.stat);
            self.files.insert(path.clone(), State { held, now, like, executable: None });
        }
        self.files
            .get_mut(path)
            .ok_or_else(|| FileError::NotFound { path: path.to_string(), hint: String::new() })
    }

    /// Puts everything in its place: all new contents are written aside first, then appear one after the other;
    /// when one cannot, those before it are taken back.
    fn commit(mut self) -> Result<PatchReport, PatchError> {
        let files = std::mem::take(&mut self.files);
        let changed: Vec<(ContainedPath, State)> =
            files.into_iter().filter(|(_, state)| state.differs()).collect();
        let mut staged: Vec<Option<Staged>> = Vec::with_capacity(changed.len());
        let mut made = Vec::new();
        for (path, state) in &changed {
            match self.stage(path, state) {
                Ok(one) => {
                    made.extend(one.iter().flat_map(|staged| staged.made.iter().cloned()));
                    staged.push(one);
                }
                Err(error) => {
                    drop(staged);
                    self.workspace.remove_folders(&made);
                    return Err(error);
                }
            }
        }
        for (done, ((path, state), one)) in changed.iter().zip(staged).enumerate() {
            if let Err(error) = self.put(path, state, one) {
                for (path, state) in changed[..done].iter().rev() {
                    self.take_back(path, state);
                }
                self.workspace.remove_folders(&made);
                return Err(error);
            }
        }
        for (path, state) in changed {
            let now = state.now.map(|bytes| (Version::of(&bytes), Arc::from(bytes)));
            self.report.files.push(PatchedFile { path, now, before: state.held.map(|held| held.bytes) });
        }
        Ok(self.report)
    }

    fn stage(&self, path: &ContainedPath, state: &State) -> Result<Option<Staged>, PatchError> {
        if let Some(held) = &state.held
            && let Some(now) =
                self.workspace.changed_since(path, held, || self.workspace.lstat(&path.relative))?
        {
            let path = path.clone();
            return Err(
                now.map_or(PatchError::Missing { path: path.clone() }, |now| PatchError::Stale { path, now })
            );
        }
        let Some(now) = &state.now else { return Ok(None) };
        let staged = self.workspace.stage(path, state.like.as_ref(), now)?;
        staged
            .set_executable(state.executable)
            .map_err(|errno| FileError::from_errno(errno, "write", path))?;
        Ok(Some(if state.held.is_some() { staged } else { staged.into_new() }))
    }

    fn put(&self, path: &ContainedPath, state: &State, staged: Option<Staged>) -> Result<(), PatchError> {
        match staged {
            None => Ok(self.workspace.unlink(path)?),
            Some(staged) => match staged.commit(path) {
                Ok(()) => Ok(()),
                Err(rustix::io::Errno::EXIST) if state.held.is_none() => {
                    Err(PatchError::Exists { path: path.clone() })
                }
                Err(errno) => Err(FileError::from_errno(errno, "write", path).into()),
            },
        }
    }

    /// Puts a file back as it was. What cannot be put back cannot be helped; the error that led here is reported.
    fn take_back(&self, path: &ContainedPath, state: &State) {
        match &state.held {
            None => {
                let _ = self.workspace.unlink(path);
            }
            Some(held) => {
                if let Ok(staged) = self.workspace.stage(path, Some(&held.stat), &held.bytes) {
                    let staged = if state.now.is_some() { staged } else { staged.into_new() };
                    let _ = staged.commit(path);
                }
            }
        }
    }
}

impl State {
    fn differs(&self) -> bool {
        let before = self.held.as_ref().map(|held| &held.bytes);
        before != self.now.as_ref() || (self.now.is_some() && self.executable.is_some())
    }
}
