//! Looking at entries without reading them.

use crate::path::ContainedPath;
use crate::root::Workspace;
use rustix::fs::{Dir, FileType};

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symlink, a device or something else.
    Other,
}

impl Workspace {
    /// What is there; `None` when nothing is.
    pub fn kind(&self, path: &ContainedPath) -> Option<Kind> {
        let stat = self.lstat(&path.relative).ok()?;
        Some(match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Folder,
            _ => Kind::Other,
        })
    }

    /// The size of what is there.
    pub fn size(&self, path: &ContainedPath) -> Option<u64> {
        u64::try_from(self.lstat(&path.relative).ok()?.st_size).ok()
    }

    /// Names in a folder, sorted, ignored ones too; at most `limit` of them. Empty when it is no folder.
    pub fn names(&self, path: &ContainedPath, limit: usize) -> Vec<String> {
        let Ok(folder) = self.root.open_dir(&path.relative) else { return Vec::new() };
        let Ok(entries) = Dir::new(folder) else { return Vec::new() };
        let mut names: Vec<String> = entries
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| name != "." && name != "..")
            .take(limit)
            .collect();
        names.sort();
        names
    }
}
