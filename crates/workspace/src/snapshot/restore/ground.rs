//! Where a restore may put nothing.

use super::Change;
use crate::{Workspace, guarded::Gits, walk};
use rustix::fs::FileType;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

/// What something that no snapshot holds is, in the place of a file that is to come.
pub(in crate::snapshot) fn in_place(
    workspace: &Workspace,
    path: &Path,
    stat: &rustix::fs::Stat,
    same_rules: bool,
) -> Change {
    let is_folder = FileType::from_raw_mode(stat.st_mode).is_dir();
    if is_folder || walk::leaves_out_file(workspace, path) {
        return Change::KeptIgnored;
    }
    match crate::snapshot::look::mode(stat) {
        None => Change::KeptSpecial,
        Some(_) if same_rules => Change::KeptUnknown,
        Some(_) => Change::KeptIgnored,
    }
}

/// Folders into which nothing is put, as far as was asked.
pub(in crate::snapshot) struct Ground<'a> {
    workspace: &'a Workspace,
    gits: Gits,
    known: HashMap<PathBuf, Option<Change>>,
}

impl<'a> Ground<'a> {
    pub(in crate::snapshot) fn new(workspace: &'a Workspace) -> Self {
        Self { workspace, gits: Gits::of(workspace), known: HashMap::new() }
    }

    /// Why a file may not be put in its place, whatever stands there.
    pub(in crate::snapshot) fn refuses_file(&mut self, path: &Path) -> Option<Change> {
        if self.gits.own(path) {
            return Some(Change::KeptRepository);
        }
        self.refuses(path.parent().unwrap_or(Path::new("")))
    }

    /// Why nothing may be put into a folder, whether it is there or not.
    pub(super) fn refuses(&mut self, folder: &Path) -> Option<Change> {
        let above = folder.parent()?;
        if let Some(known) = self.known.get(folder) {
            return *known;
        }
        let own = self.gits.own(folder).then_some(Change::KeptRepository);
        let why = own.or_else(|| self.refuses(above)).or_else(|| {
            let stat = self.workspace.lstat(folder).ok()?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => {
                    self.workspace.has_repository(folder).then_some(Change::KeptRepository)
                }
                FileType::RegularFile | FileType::Symlink => Some(Change::KeptIgnored),
                _ => Some(Change::KeptSpecial),
            }
        });
        self.known.insert(folder.to_owned(), why);
        why
    }
}
