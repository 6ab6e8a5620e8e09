//! The store: a bare repository of our own, outside the workspace, readable with plain git.

use super::{
    object::{Commit, Kind, Level, Mode, Oid, decode_tree},
    pack::{Pack, PackWriter},
};
use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// What a crash may leave behind starts so.
pub(super) const TEMPORARY: &str = "tmp_";

/// Past this many packs they are merged into one.
const MANY_PACKS: usize = 50;

/// Objects and refs of one workspace's snapshots.
pub(crate) struct Store {
    root: PathBuf,
    packs: Mutex<Vec<Arc<Pack>>>,
}

impl Store {
    /// Opens the store, making it when it is not there; what a crash left half-written is removed.
    pub(crate) fn open(root: &Path) -> io::Result<Self> {
        for folder in ["objects/pack", "refs/heads", "refs/snapshots", "refs/automatic"] {
            fs::create_dir_all(root.join(folder))?;
        }
        write_once(&root.join("HEAD"), "ref: refs/heads/none\n")?;
        write_once(&root.join("config"), "[core]\n\trepositoryformatversion = 0\n\tbare = true\n")?;
        let mut packs = Vec::new();
        for entry in fs::read_dir(root.join("objects/pack"))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with(TEMPORARY) {
                fs::remove_file(&path)?;
            } else if name.ends_with(".idx") {
                packs.push(Arc::new(Pack::open(&path)?));
            }
        }
        Ok(Self { root: root.to_owned(), packs: Mutex::new(packs) })
    }

    fn packs(&self) -> Vec<Arc<Pack>> {
        self.packs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A writer for new objects; [`Store::keep`] makes them part of the store.
    pub(crate) fn writer(&self) -> PackWriter {
        PackWriter::new(&self.root.join("objects/pack"))
    }

    pub(crate) fn contains(&self, id: &Oid) -> bool {
        self.packs().iter().any(|pack| pack.offset(id).is_some())
    }

    /// Writes what the writer collected. Durable when it returns.
    pub(crate) fn keep(&self, writer: PackWriter) -> io::Result<()> {
        if writer.is_empty() {
            return Ok(());
        }
        let pack = Arc::new(writer.finish()?);
        let mut packs = self.packs.lock().unwrap_or_else(PoisonError::into_inner);
        packs.retain(|other| other.path != pack.path);
        packs.push(pack);
        Ok(())
    }

    /// Copies an object's content into `sink`.
    pub(crate) fn copy(&self, id: &Oid, sink: impl Write) -> io::Result<(Kind, u64)> {
        for pack in self.packs() {
            if let Some(offset) = pack.offset(id) {
                return pack.copy(offset, sink);
            }
        }
        Err(io::Error::new(io::ErrorKind::NotFound, format!("object {id} is not in {}", self.root.display())))
    }

    /// An object's content.
    pub(crate) fn read(&self, id: &Oid) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        self.copy(id, &mut content)?;
        Ok(content)
    }

    pub(crate) fn tree(&self, id: &Oid) -> io::Result<Level> {
        decode_tree(&self.read(id)?).ok_or_else(|| io::Error::other(format!("tree {id} is damaged")))
    }

    pub(crate) fn commit(&self, id: &Oid) -> io::Result<Commit> {
        Commit::decode(&self.read(id)?).ok_or_else(|| io::Error::other(format!("commit {id} is damaged")))
    }

    /// Names a commit. Atomic and durable.
    pub(crate) fn set_ref(&self, space: Space, name: &str, id: &Oid) -> io::Result<()> {
        let folder = self.folder(space);
        let mut file = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(&self.root)?;
        writeln!(file, "{id}")?;
        file.as_file().sync_data()?;
        file.persist(folder.join(ref_name(name))).map_err(|error| error.error)?;
        File::open(&folder)?.sync_all()
    }

    /// Forgets a name; whether there was one.
    pub(crate) fn delete_ref(&self, space: Space, name: &str) -> io::Result<bool> {
        found(fs::remove_file(self.folder(space).join(ref_name(name)))).map(|gone| gone.is_some())
    }

    pub(crate) fn get_ref(&self, space: Space, name: &str) -> io::Result<Option<Oid>> {
        let text = found(fs::read_to_string(self.folder(space).join(ref_name(name))))?;
        Ok(text.and_then(|text| Oid::parse(text.trim())))
    }

    /// Every name of one kind and its commit.
    pub(crate) fn refs(&self, space: Space) -> io::Result<Vec<(String, Oid)>> {
        let mut refs = Vec::new();
        for entry in fs::read_dir(self.folder(space))? {
            let name = entry?.file_name().to_string_lossy().replace("%2E", ".");
            if let Some(id) = self.get_ref(space, &name)? {
                refs.push((name, id));
            }
        }
        Ok(refs)
    }

    fn folder(&self, space: Space) -> PathBuf {
        self.root.join(match space {
            Space::Named => "refs/snapshots",
            Space::Automatic => "refs/automatic",
        })
    }

    /// Merges small packs when there are many, keeping only what a ref still reaches.
    pub(crate) fn tidy(&self) -> io::Result<()> {
        let mut old = self.packs();
        if old.len() <= MANY_PACKS {
            return Ok(());
        }
        // The largest holds the bulk of the workspace and changes little: copying it again gains nothing.
        old.sort_by_key(|pack| pack.objects().len());
        old.pop();
        let reachable = self.reachable()?;
        let mut writer = self.writer();
        for pack in &old {
            for (id, offset) in pack.objects() {
                if reachable.contains(id) {
                    writer.put_raw(*id, &pack.raw(*offset)?)?;
                }
            }
        }
        let merged = if writer.is_empty() { None } else { Some(Arc::new(writer.finish()?)) };
        let mut packs = self.packs.lock().unwrap_or_else(PoisonError::into_inner);
        packs.retain(|pack| !old.iter().any(|gone| gone.path == pack.path));
        let kept = merged.as_ref().map(|pack| pack.path.clone());
        packs.extend(merged);
        for gone in old.iter().filter(|gone| Some(&gone.path) != kept.as_ref()) {
            // The index first: a pack without one is invisible, an index without its pack is damage.
            fs::remove_file(gone.path.with_extension("idx"))?;
            fs::remove_file(&gone.path)?;
        }
        Ok(())
    }

    /// Everything that some ref leads to.
    fn reachable(&self) -> io::Result<HashSet<Oid>> {
        let mut todo = Vec::new();
        for space in [Space::Named, Space::Automatic] {
            todo.extend(self.refs(space)?.into_iter().map(|(_, id)| (Kind::Commit, id)));
        }
        let mut seen = HashSet::new();
        while let Some((kind, id)) = todo.pop() {
            if !seen.insert(id) {
                continue;
            }
            match kind {
                Kind::Commit => todo.push((Kind::Tree, self.commit(&id)?.tree)),
                Kind::Tree => {
                    todo.extend(self.tree(&id)?.into_values().map(|entry| {
                        (if entry.mode == Mode::Tree { Kind::Tree } else { Kind::Blob }, entry.id)
                    }))
                }
                Kind::Blob => {}
            }
        }
        Ok(seen)
    }
}

/// Two kinds of names, so that what is made by itself never meets what a person chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Space {
    Named,
    Automatic,
}

/// Git refuses some names that we allow (`a..b`, `x.lock`, a dot at either end).
fn ref_name(name: &str) -> String {
    let awkward = name.contains("..") || name.ends_with('.') || name.ends_with(".lock");
    if awkward { name.replace('.', "%2E") } else { name.to_owned() }
}

fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn write_once(path: &Path, content: &str) -> io::Result<()> {
    if path.exists() { Ok(()) } else { fs::write(path, content) }
}
