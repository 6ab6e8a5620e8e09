//! Looking at entries without reading them.

use crate::path::ContainedPath;
use crate::root::Workspace;
use rustix::fs::{Dir, FileType};
use rustix::io::Errno;
use std::path::Path;

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

    /// Whether a path leads to a regular file. The same as to resolve it and look, and cheaper.
    pub fn is_file(&self, path: impl AsRef<Path>) -> bool {
        let path = path.as_ref();
        // Below a symlink nothing is found this way, and not for want of it.
        match self.plain(path).map(|plain| self.lstat(&plain.relative)) {
            Some(Err(Errno::NOENT | Errno::NOTDIR)) => false,
            Some(Ok(stat)) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => true,
            _ => self.resolve(path).is_ok_and(|path| self.kind(&path) == Some(Kind::File)),
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::symlink};

    #[test]
    fn a_path_leads_to_a_file_or_it_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "s").unwrap();
        fs::create_dir(dir.path().join("d")).unwrap();
        fs::write(dir.path().join("d/f"), "text").unwrap();
        symlink("d", dir.path().join("link")).unwrap();
        symlink("d/f", dir.path().join("file-link")).unwrap();
        symlink("nothing", dir.path().join("dangling")).unwrap();
        symlink(outside.path().join("secret"), dir.path().join("out")).unwrap();
        let workspace = Workspace::open("w", dir.path()).unwrap();
        for path in ["d/f", "./d/f", "link/f", "file-link", "d/../d/f"] {
            assert!(workspace.is_file(path), "{path}");
            assert_eq!(workspace.bytes_of(path, 4).as_deref(), Some(&b"text"[..]), "{path}");
            assert_eq!(workspace.bytes_of(path, 3), None, "{path}");
            let parts = workspace.parts_of(path).unwrap();
            for (at, part) in [(0..4, "text"), (1..3, "ex"), (3..9, "t"), (4..9, ""), (7..9, "")] {
                assert_eq!(parts.read(at).unwrap(), part.as_bytes(), "{path}");
            }
        }
        for path in [
            "d",
            "",
            ".",
            "d/f/g",
            "d/none",
            "none/f",
            "link/none",
            "link",
            "dangling",
            "out",
            "../x",
            "a\0b",
        ] {
            assert!(!workspace.is_file(path), "{path}");
            assert_eq!(workspace.bytes_of(path, 100), None, "{path}");
            assert!(workspace.parts_of(path).is_none(), "{path}");
        }
    }
}
