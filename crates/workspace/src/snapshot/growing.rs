//! Files that somebody else adds to while calls come and go: a server's log.

use super::{look, object::Oid, store::Store};
use crate::Workspace;
use std::{
    collections::HashSet,
    fs,
    io::{self, Read as _},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
};

/// Which files other processes have open for writing, as far as this one may know; found out when it is first asked.
#[derive(Default)]
pub(super) struct Writers {
    files: Option<HashSet<(u64, u64)>>,
}

impl Writers {
    /// Whether somebody holds a file open to write to it.
    pub(super) fn hold(&mut self, workspace: &Workspace, path: &Path) -> bool {
        let Ok(stat) = workspace.lstat(path) else { return false };
        self.files.get_or_insert_with(open_for_writing).contains(&(stat.st_dev, stat.st_ino))
    }
}

fn open_for_writing() -> HashSet<(u64, u64)> {
    let own = std::process::id().to_string();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let others = processes.filter(|process| {
        let name = process.file_name();
        name.as_encoded_bytes().iter().all(u8::is_ascii_digit) && name != own.as_str()
    });
    // What is another user's, or is closed meanwhile, is not told.
    let open = others.filter_map(|process| fs::read_dir(process.path().join("fd")).ok()).flatten().flatten();
    let writable = open.filter(|fd| fd.metadata().is_ok_and(|link| link.permissions().mode() & 0o200 != 0));
    let files = writable.filter_map(|fd| fs::metadata(fd.path()).ok()).filter(fs::Metadata::is_file);
    files.map(|file| (file.dev(), file.ino())).collect()
}

/// Whether what is on disk begins with what was there last, and that with what was there before.
pub(super) fn has_grown(
    store: &Store,
    workspace: &Workspace,
    path: &Path,
    stages: &[Oid],
) -> io::Result<bool> {
    let mut last = Vec::new();
    for id in stages {
        // What is on its way into the store only came just now.
        let next = if store.contains(id) { store.read(id)? } else { return Ok(false) };
        if !next.starts_with(&last) {
            return Ok(false);
        }
        last = next;
    }
    let Some(file) = look::open(workspace, path)? else { return Ok(false) };
    let mut there = Vec::new();
    file.take(last.len() as u64).read_to_end(&mut there)?;
    Ok(there == last)
}
