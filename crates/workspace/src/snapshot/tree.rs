//! A workspace's files in memory, as a tree whose unchanged folders keep their ids.

use super::{
    held::Held,
    object::{Entry, Kind, Level, Mode, Oid, encode_tree},
    pack::PackWriter,
    store::Store,
};
use crate::beneath::as_path;
use rustix::fd::BorrowedFd;
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::Path,
};

/// What the file system said about a file when it was read; while it says the same, the content is the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) inode: u64,
    pub(crate) size: u64,
    pub(crate) mtime: (i64, u64),
    pub(crate) ctime: (i64, u64),
}

/// A file as it was last seen. Without a stamp only its content is known, not what stands on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) entry: Entry,
    pub(crate) stamp: Option<Stamp>,
}

/// One folder. An empty one is kept: git's trees can hold it, though git's index cannot.
#[derive(Debug, Clone, Default)]
pub(crate) struct Folder {
    folders: BTreeMap<Vec<u8>, Folder>,
    files: BTreeMap<Vec<u8>, Known>,
    /// Forgotten whenever something below changes.
    id: Option<Oid>,
    /// What the file system said about the folder when its names were listed, if they cannot have changed since.
    stamp: Option<Stamp>,
    held: Held,
}

impl Folder {
    /// The id of the whole, when nothing changed since it was written.
    pub(crate) fn id(&self) -> Option<Oid> {
        self.id
    }

    /// The folder at a path; the empty path is this one.
    pub(crate) fn folder(&self, path: &[u8]) -> Option<&Self> {
        if path.is_empty() {
            return Some(self);
        }
        match split(path) {
            (None, name) => self.folders.get(name),
            (Some(first), rest) => self.folders.get(first)?.folder(rest),
        }
    }

    /// Names of the files and of the folders directly in it.
    pub(crate) fn names(&self) -> (impl Iterator<Item = &Vec<u8>>, impl Iterator<Item = &Vec<u8>>) {
        (self.files.keys(), self.folders.keys())
    }

    /// The files directly in it of which the file system says something else now, given the open folder and its own stamp.
    pub(crate) fn moved_files(
        &self,
        folder: BorrowedFd<'_>,
        now: Option<Stamp>,
    ) -> impl Iterator<Item = &Path> {
        let settled = self.stamp.is_some() && self.stamp == now;
        let stamps = self.held.stamps(folder, self.files.keys().map(|name| as_path(name)), settled);
        // What is gone shows in the folder's own stamp.
        let other = |known: &Known, now: Option<Stamp>| now.is_some() && known.stamp != now;
        let both = self.files.iter().zip(stamps);
        both.filter(move |((_, known), now)| other(known, *now)).map(|((name, _), _)| as_path(name))
    }

    pub(crate) fn stamp(&self) -> Option<Stamp> {
        self.stamp
    }

    /// Every folder with its path, this one first.
    pub(crate) fn with_folders(&self) -> Vec<(Vec<u8>, &Self)> {
        let mut out = vec![(Vec::new(), self)];
        let mut next = 0;
        while let Some((path, folder)) = out.get(next) {
            let below: Vec<(Vec<u8>, &Self)> =
                folder.folders.iter().map(|(name, below)| (join(path, name), below)).collect();
            out.extend(below);
            next += 1;
        }
        out
    }

    /// Notes when the names of a folder were listed.
    pub(crate) fn set_stamp(&mut self, path: &[u8], stamp: Option<Stamp>) {
        if path.is_empty() {
            self.stamp = stamp;
            return;
        }
        let below = match split(path) {
            (None, name) => self.folders.get_mut(name).map(|below| (below, &b""[..])),
            (Some(first), rest) => self.folders.get_mut(first).map(|below| (below, rest)),
        };
        if let Some((below, rest)) = below {
            below.set_stamp(rest, stamp);
        }
    }

    pub(crate) fn get(&self, path: &[u8]) -> Option<&Known> {
        match split(path) {
            (None, name) => self.files.get(name),
            (Some(first), rest) => self.folders.get(first)?.get(rest),
        }
    }

    /// Puts a file in its place, taking away whatever stood in its way.
    pub(crate) fn set(&mut self, path: &[u8], known: Known) {
        match split(path) {
            (None, name) => {
                if self.files.get(name).is_none_or(|old| old.entry != known.entry) {
                    self.id = None;
                }
                if self.folders.remove(name).is_some() {
                    self.id = None;
                }
                self.files.insert(name.to_vec(), known);
                self.held.release();
            }
            (Some(first), rest) => {
                if self.files.remove(first).is_some() {
                    self.held.release();
                    self.id = None;
                }
                let below = self.folders.entry(first.to_vec()).or_default();
                below.set(rest, known);
                if below.id.is_none() {
                    self.id = None;
                }
            }
        }
    }

    /// Remembers that a folder is there, though perhaps nothing is in it.
    pub(crate) fn set_folder(&mut self, path: &[u8]) {
        let (name, rest) = match split(path) {
            (None, name) => (name, None),
            (Some(first), rest) => (first, Some(rest)),
        };
        if self.files.remove(name).is_some() || !self.folders.contains_key(name) {
            self.held.release();
            self.id = None;
        }
        let below = self.folders.entry(name.to_vec()).or_default();
        if let Some(rest) = rest {
            below.set_folder(rest);
        }
        if below.id.is_none() {
            self.id = None;
        }
    }

    /// Takes a file or a whole folder away.
    pub(crate) fn remove(&mut self, path: &[u8]) {
        match split(path) {
            (None, name) => {
                if self.files.remove(name).is_some() || self.folders.remove(name).is_some() {
                    self.held.release();
                    self.id = None;
                }
            }
            (Some(first), rest) => {
                if let Some(below) = self.folders.get_mut(first) {
                    below.remove(rest);
                    if below.id.is_none() {
                        self.id = None;
                    }
                }
            }
        }
    }

    /// Every file and folder below, by path.
    pub(crate) fn everything(&self) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        for (path, folder) in self.with_folders() {
            out.extend(folder.files.keys().chain(folder.folders.keys()).map(|name| join(&path, name)));
        }
        out
    }

    /// Writes the trees that are new and gives the id of the whole.
    pub(crate) fn write(&mut self, store: &Store, writer: &mut PackWriter) -> io::Result<Oid> {
        if let Some(id) = self.id {
            return Ok(id);
        }
        let mut level = Level::new();
        for (name, folder) in &mut self.folders {
            level.insert(name.clone(), Entry { mode: Mode::Tree, id: folder.write(store, writer)? });
        }
        level.extend(self.files.iter().map(|(name, known)| (name.clone(), known.entry)));
        let content = encode_tree(&level);
        let id = Kind::Tree.id(&content);
        if !store.contains(&id) {
            writer.put(Kind::Tree, id, &content)?;
        }
        self.id = Some(id);
        Ok(id)
    }
}

/// Gets a tree by its id.
pub(crate) type Read<'a> = dyn Fn(&Oid) -> io::Result<Level> + 'a;

/// Whether a tree has a file or a folder at `path`.
pub(crate) fn has(read: &Read<'_>, tree: Oid, path: &[u8]) -> io::Result<bool> {
    let (folder, rest) = split(path);
    let name = folder.unwrap_or(rest);
    match (read(&tree)?.get(name), folder) {
        (Some(entry), Some(_)) if entry.mode == Mode::Tree => has(read, entry.id, rest),
        (found, folder) => Ok(found.is_some() && folder.is_none()),
    }
}

/// What differs between two trees; folders that are the same are not even read.
#[derive(Debug, Default)]
pub(crate) struct Differences {
    /// By path.
    pub(crate) files: Vec<Difference>,
    /// Folders that are only in the first, outer ones first.
    pub(crate) gone: Vec<Vec<u8>>,
    /// Folders that are only in the second, outer ones first.
    pub(crate) come: Vec<Vec<u8>>,
}

impl Differences {
    /// What differs between two trees that `read` can get.
    pub(crate) fn between(read: &Read<'_>, before: Oid, after: Oid) -> io::Result<Self> {
        let mut out = Self::default();
        out.compare(read, &[], Some(before), Some(after))?;
        out.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(out)
    }

    /// Leaves only folders of which nothing else here tells: no file in their place or in them differs, nor a folder in
    /// them.
    pub(crate) fn only_empty_folders(&mut self) {
        let Self { files, gone, come } = self;
        let told = |folder: &Vec<u8>| {
            let inside = join(folder, b"");
            let from = files.partition_point(|file| file.path < inside);
            files.get(from).is_some_and(|file| file.path.starts_with(&inside))
                || files.binary_search_by(|file| file.path.cmp(folder)).is_ok()
        };
        for folders in [gone, come] {
            let inner: Vec<Vec<u8>> = folders.iter().skip(1).cloned().collect();
            let mut next = inner.iter();
            folders.retain(|folder| {
                let holds = next.next().is_some_and(|next| next.starts_with(&join(folder, b"")));
                !holds && !told(folder)
            });
        }
    }

    fn compare(
        &mut self,
        read: &Read<'_>,
        path: &[u8],
        before: Option<Oid>,
        after: Option<Oid>,
    ) -> io::Result<()> {
        if before == after {
            return Ok(());
        }
        let level = |id: Option<Oid>| id.map_or(Ok(Level::new()), |id| read(&id));
        let (old, new) = (level(before)?, level(after)?);
        let names: BTreeSet<&Vec<u8>> = old.keys().chain(new.keys()).collect();
        for name in names {
            let (before, after) = (old.get(name).copied(), new.get(name).copied());
            if before == after {
                continue;
            }
            let path = join(path, name);
            let file = |entry: Option<Entry>| entry.filter(|entry| entry.mode != Mode::Tree);
            let tree = |entry: Option<Entry>| entry.filter(|entry| entry.mode == Mode::Tree).map(|e| e.id);
            if file(before) != file(after) {
                let (before, after) = (file(before), file(after));
                self.files.push(Difference { path: path.clone(), before, after });
            }
            match (tree(before), tree(after)) {
                (Some(_), None) => self.gone.push(path.clone()),
                (None, Some(_)) => self.come.push(path.clone()),
                _ => {}
            }
            self.compare(read, &path, tree(before), tree(after))?;
        }
        Ok(())
    }
}

/// One file that is not the same in two trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) path: Vec<u8>,
    pub(crate) before: Option<Entry>,
    pub(crate) after: Option<Entry>,
}

/// The first component and the rest, or the name alone.
fn split(path: &[u8]) -> (Option<&[u8]>, &[u8]) {
    match path.iter().position(|byte| *byte == b'/') {
        Some(slash) => (Some(&path[..slash]), &path[slash + 1..]),
        None => (None, path),
    }
}

fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    if path.is_empty() { name.to_vec() } else { [path, b"/", name].concat() }
}

#[cfg(test)]
mod tests {
    use super::{super::store::Wait, *};

    fn file(content: &[u8]) -> Known {
        Known { entry: Entry { mode: Mode::File, id: Kind::Blob.id(content) }, stamp: None }
    }

    #[test]
    fn an_incremental_tree_is_the_tree_built_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), folder.path()).unwrap();
        let mut grown = Folder::default();
        let mut writer = store.writer();
        for name in ["a", "b/c", "b/d/e", "b/d/f", "z"] {
            grown.set(name.as_bytes(), file(name.as_bytes()));
            grown.write(&store, &mut writer).unwrap();
        }
        grown.remove(b"b/d/f");
        grown.set(b"a", file(b"changed"));
        grown.set(b"z/now-a-folder", file(b"z"));
        grown.set_folder(b"empty/inner");
        let id = grown.write(&store, &mut writer).unwrap();
        let mut fresh = Folder::default();
        for (path, content) in [("b/c", "b/c"), ("b/d/e", "b/d/e"), ("a", "changed"), ("z/now-a-folder", "z")]
        {
            fresh.set(path.as_bytes(), file(content.as_bytes()));
        }
        fresh.set_folder(b"empty/inner");
        assert_eq!(fresh.write(&store, &mut writer).unwrap(), id);
        store.stage(writer, Vec::new()).unwrap().publish(Wait::Whole).unwrap();
        let mut other = fresh.clone();
        other.remove(b"b");
        other.set(b"new", file(b"n"));
        let mut writer = store.writer();
        let changed = other.write(&store, &mut writer).unwrap();
        store.stage(writer, Vec::new()).unwrap().publish(Wait::Whole).unwrap();
        let read = |id: &Oid| store.tree(id);
        let found = Differences::between(&read, id, changed).unwrap();
        let paths: Vec<&[u8]> = found.files.iter().map(|difference| &difference.path[..]).collect();
        assert_eq!(paths, [&b"b/c"[..], b"b/d/e", b"new"]);
        assert_eq!(found.gone, [&b"b"[..], b"b/d"]);
        assert!(found.come.is_empty());
        let back = Differences::between(&read, changed, id).unwrap();
        assert_eq!((back.files.len(), back.come), (3, found.gone));
        assert!(Differences::between(&read, id, id).unwrap().files.is_empty());
    }
}
