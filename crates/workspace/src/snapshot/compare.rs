//! What changed since a snapshot.

use super::{
    SnapshotError, Snapshots,
    advance::Trust,
    object::{Entry, Mode, Oid},
    to_path,
    tree::{self, Difference, Differences},
};
use crate::{quoted, unified_diff};
use std::{
    collections::BTreeMap,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

/// Files larger than this are not compared line by line.
const COMPARED: usize = 16 << 20;

impl Snapshots {
    /// What changed from the snapshot to now, as a unified diff of at most `max_lines` lines a file;
    /// only below `path` when one is given.
    ///
    /// # Errors
    /// There is no such snapshot, nothing at `path` in it nor now, or the disk failed.
    pub fn diff(&self, name: &str, path: Option<&Path>, max_lines: usize) -> Result<String, SnapshotError> {
        let Differences { files, gone, come } = self.differences(name, path)?;
        let folder = |path: &Vec<u8>, what: &str| {
            let path = to_path(path);
            let line = format!("{}: {what} folder\n", quoted(&path));
            (path, line)
        };
        let mut all: BTreeMap<PathBuf, String> = gone.iter().map(|path| folder(path, "deleted")).collect();
        all.extend(come.iter().map(|path| folder(path, "new")));
        for difference in files {
            let path = to_path(&difference.path);
            let text = self.diff_one(&path, &difference, max_lines)?;
            all.insert(path, text);
        }
        Ok(all.into_values().collect())
    }

    /// The files that are other than in the snapshot, made since or gone, by path.
    ///
    /// # Errors
    /// There is no such snapshot, or the disk failed.
    pub fn changed_since(&self, name: &str) -> Result<Vec<PathBuf>, SnapshotError> {
        Ok(self.differences(name, None)?.files.iter().map(|difference| to_path(&difference.path)).collect())
    }

    /// Of folders only those that are empty.
    fn differences(&self, name: &str, below: Option<&Path>) -> Result<Differences, SnapshotError> {
        let mut state = self.lock();
        let alone = self.store.exclusive()?;
        self.reload(&mut state)?;
        let (target, whole) = self.find(&state, name)?;
        // What is on disk now can be read by id: the history has it.
        self.advance_with(&mut state, Trust::Stamps, &alone, |state, batch| {
            let now = self.base(state, batch, whole)?;
            let read = |id: &Oid| batch.tree(&self.store, id);
            let mut found = Differences::between(&read, target.tree, now)?;
            found.only_empty_folders();
            let Some(path) = below else { return Ok(found) };
            let inside = |found: &[u8]| crate::beneath::as_path(found).starts_with(path);
            found.files.retain(|file| inside(&file.path));
            found.gone.retain(|folder| inside(folder));
            found.come.retain(|folder| inside(folder));
            let known = |tree| tree::has(&read, tree, path.as_os_str().as_bytes());
            if !known(target.tree)? && !known(now)? {
                let there = self.workspace.lstat(path).is_ok();
                return Err(SnapshotError::Nowhere {
                    path: path.to_owned(),
                    snapshot: name.to_owned(),
                    there,
                });
            }
            Ok(found)
        })?
    }

    fn diff_one(
        &self,
        path: &Path,
        difference: &Difference,
        max_lines: usize,
    ) -> Result<String, SnapshotError> {
        let side = |entry: Option<Entry>| match entry {
            Some(entry) => self.store.beginning(&entry.id, COMPARED),
            None => Ok((0, Vec::new())),
        };
        let ((old_size, old), (new_size, new)) = (side(difference.before)?, side(difference.after)?);
        let (shown, mut out) = (quoted(path), String::new());
        match (difference.before, difference.after) {
            (Some(a), Some(b)) if a.mode != b.mode => {
                out.push_str(&format!("{shown}: {} became {}\n", mode_name(a.mode), mode_name(b.mode)));
            }
            (None, Some(_)) => out.push_str(&format!("{shown}: new\n")),
            (Some(_), None) => out.push_str(&format!("{shown}: deleted\n")),
            _ => {}
        }
        let binary = |bytes: &[u8]| bytes.iter().take(8000).any(|byte| *byte == 0);
        let large = old_size.max(new_size) > COMPARED as u64;
        if large || binary(&old) || binary(&new) {
            let what = if large { "too large to compare" } else { "binary" };
            out.push_str(&format!("{shown}: {what}, {old_size} bytes, then {new_size} bytes\n"));
        } else {
            out.push_str(&unified_diff(&shown, &old, &new, max_lines));
        }
        Ok(out)
    }
}

fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::File => "a file",
        Mode::Executable => "executable",
        Mode::Symlink => "a symlink",
        Mode::Tree => "a folder",
    }
}
