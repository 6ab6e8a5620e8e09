//! A workspace's files in memory, as a tree whose unchanged folders keep their ids.

use super::{
    object::{Entry, Kind, Level, Mode, Oid, encode_tree},
    pack::PackWriter,
    store::Store,
};
use std::{collections::BTreeMap, io};

/// What the file system said about a file when it was read; while it says the same, the content is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
}

impl Folder {
    /// Reads a whole tree from the store.
    pub(crate) fn load(store: &Store, id: &Oid) -> io::Result<Self> {
        let mut folder = Self { id: Some(*id), ..Self::default() };
        for (name, entry) in store.tree(id)? {
            if entry.mode == Mode::Tree {
                folder.folders.insert(name, Self::load(store, &entry.id)?);
            } else {
                folder.files.insert(name, Known { entry, stamp: None });
            }
        }
        Ok(folder)
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
            }
            (Some(first), rest) => {
                if self.files.remove(first).is_some() {
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

    /// Every file with its path.
    pub(crate) fn files(&self) -> Vec<(Vec<u8>, Known)> {
        let mut out = Vec::new();
        self.visit(&mut Vec::new(), &mut |path, known| {
            if let Some(known) = known {
                out.push((path.to_vec(), *known));
            }
        });
        out
    }

    /// Every folder, outer ones first.
    pub(crate) fn folders(&self) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        self.visit(&mut Vec::new(), &mut |path, known| {
            if known.is_none() {
                out.push(path.to_vec());
            }
        });
        out
    }

    fn visit(&self, path: &mut Vec<u8>, each: &mut dyn FnMut(&[u8], Option<&Known>)) {
        let at = path.len();
        let descend = |path: &mut Vec<u8>, name: &[u8]| {
            path.truncate(at);
            if at > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(name);
        };
        for (name, known) in &self.files {
            descend(path, name);
            each(path, Some(known));
        }
        for (name, folder) in &self.folders {
            descend(path, name);
            each(path, None);
            folder.visit(path, each);
        }
        path.truncate(at);
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

    /// Paths whose file differs between the two, with what stood in each.
    pub(crate) fn differences(&self, other: &Self) -> Vec<Difference> {
        let mut out = Vec::new();
        self.compare(other, &mut Vec::new(), &mut out);
        out.sort_by(|a, b| a.path.cmp(&b.path));
        out
    }

    fn compare(&self, other: &Self, path: &mut Vec<u8>, out: &mut Vec<Difference>) {
        if self.id.is_some() && self.id == other.id {
            return;
        }
        let at = path.len();
        let full =
            |path: &[u8], name: &[u8]| if at == 0 { name.to_vec() } else { [path, b"/", name].concat() };
        let names: std::collections::BTreeSet<&Vec<u8>> =
            self.files.keys().chain(other.files.keys()).collect();
        for name in names {
            let (before, after) =
                (self.files.get(name).map(|k| k.entry), other.files.get(name).map(|k| k.entry));
            if before != after {
                out.push(Difference { path: full(path, name), before, after });
            }
        }
        let names: std::collections::BTreeSet<&Vec<u8>> =
            self.folders.keys().chain(other.folders.keys()).collect();
        let nothing = Self::default();
        for name in names {
            *path = full(&path[..at], name);
            let (before, after) = (self.folders.get(name), other.folders.get(name));
            before.unwrap_or(&nothing).compare(after.unwrap_or(&nothing), path, out);
            path.truncate(at);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn file(content: &[u8]) -> Known {
        Known { entry: Entry { mode: Mode::File, id: Kind::Blob.id(content) }, stamp: None }
    }

    #[test]
    fn an_incremental_tree_is_the_tree_built_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
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
        store.keep(writer).unwrap();
        let loaded = Folder::load(&store, &id).unwrap();
        assert_eq!(loaded.files(), fresh.files());
        assert_eq!(loaded.folders(), [&b"b"[..], b"b/d", b"empty", b"empty/inner", b"z"]);
        assert!(loaded.differences(&fresh).is_empty());
        let mut other = fresh.clone();
        other.remove(b"b");
        other.set(b"new", file(b"n"));
        let changed: Vec<Vec<u8>> = loaded.differences(&other).into_iter().map(|d| d.path).collect();
        assert_eq!(changed, [&b"b/c"[..], b"b/d/e", b"new"]);
    }
}
