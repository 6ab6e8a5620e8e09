//! The store: a bare repository of our own, outside the workspace, readable with plain git.

use super::{
    object::{Commit, Kind, Level, Mode, Oid, decode_tree},
    pack::{Inflater, Pack, PackWriter, Unsynced, Written, sync_all, temporary},
};
use rustix::fs::FlockOperation;
use std::{
    collections::HashSet,
    fmt::Write as _,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};
use tempfile::NamedTempFile;

/// What a crash may leave behind starts so.
pub(super) const TEMPORARY: &str = "tmp_";

/// While it is there, what it lists stands aside and belongs in its place. Like this one wait for the disk does: what
/// is aside and this list, all at once. A crash after it leaves the rest to whoever has the store next.
const PUBLISHING: &str = "publishing";

/// Past this many packs they are merged into one when there is time for it.
const MANY_PACKS: usize = 50;
/// Past this many somebody has to wait for that.
const TOO_MANY_PACKS: usize = 200;
/// Larger packs are never copied, only removed when nothing in them is needed.
const BULKY: u64 = 64 << 20;

/// Automatic snapshots are named here, all in one file: git's own format for many refs.
const PACKED_REFS: &str = "packed-refs";
const AUTOMATIC: &str = "refs/automatic/";

/// Objects and refs of one workspace's snapshots. Several processes may use it: what changes it happens
/// while [`Store::exclusive`] is held.
pub(crate) struct Store {
    root: PathBuf,
    packs: Mutex<Packs>,
    /// For the next object that is read: making it anew costs more than reading a tree.
    spare: Mutex<Option<Inflater>>,
}

#[derive(Default)]
struct Packs {
    all: Vec<Arc<Pack>>,
    /// When the folder changed last, as far as `all` knows.
    seen: Option<SystemTime>,
}

/// Keeps other processes from changing the store.
pub(crate) struct Exclusive {
    lock: File,
}

impl Exclusive {
    /// Has the file system's journal written as it stands. Opening the lock made an entry in it.
    pub(crate) fn go_ahead(&self) {
        // Only to save time later: whoever needs to know that something is on disk asks for that.
        let _ = self.lock.sync_all();
    }
}

impl Store {
    /// Opens the store, making it when it is not there; what a crash left half-written is removed.
    pub(crate) fn open(root: &Path) -> io::Result<Self> {
        for folder in ["objects/pack", "refs/heads", "refs/snapshots"] {
            fs::create_dir_all(root.join(folder))?;
        }
        write_once(&root.join("HEAD"), "ref: refs/heads/none\n")?;
        write_once(&root.join("config"), "[core]\n\trepositoryformatversion = 0\n\tbare = true\n")?;
        let store = Self { root: root.to_owned(), packs: Mutex::default(), spare: Mutex::default() };
        let _alone = store.exclusive()?;
        for folder in [root.join("objects/pack"), root.to_owned()] {
            for entry in fs::read_dir(folder)? {
                let entry = entry?;
                if entry.file_name().to_string_lossy().starts_with(TEMPORARY) {
                    fs::remove_file(entry.path())?;
                }
            }
        }
        Ok(store)
    }

    /// Waits until no other process changes the store, and learns what others did.
    pub(crate) fn exclusive(&self) -> io::Result<Exclusive> {
        let lock = File::create(self.root.join("lock"))?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
        self.finish_publishing()?;
        let folder = self.root.join("objects/pack");
        let now = fs::metadata(&folder)?.modified().ok();
        let mut packs = self.lock();
        if packs.seen != now || now.is_none() {
            let mut all = Vec::new();
            for entry in fs::read_dir(&folder)? {
                let index = entry?.path();
                if index.extension().is_some_and(|extension| extension == "idx") {
                    let known = packs.all.iter().find(|pack| pack.path == index.with_extension("pack"));
                    all.push(
                        known.map_or_else(|| Pack::open(&index).map(Arc::new), |pack| Ok(pack.clone()))?,
                    );
                }
            }
            *packs = Packs { all, seen: now };
        }
        Ok(Exclusive { lock })
    }

    /// Puts in its place what one who is gone had ready.
    fn finish_publishing(&self) -> io::Result<()> {
        let path = self.root.join(PUBLISHING);
        let Some(list) = found(fs::read(&path))? else { return Ok(()) };
        for (aside, place) in read_list(&list).unwrap_or_default() {
            // What is no longer aside is in its place.
            found(fs::rename(self.root.join(aside), self.root.join(place)))?;
        }
        fs::remove_file(path)
    }

    /// Whether [`Store::exclusive`] may find something to put in its place in the store at `root`.
    pub(crate) fn is_unfinished(root: &Path) -> bool {
        root.join(PUBLISHING).exists()
    }

    fn lock(&self) -> MutexGuard<'_, Packs> {
        self.packs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What this process itself changed needs no second look.
    fn noted(&self, packs: &mut Packs) {
        packs.seen = fs::metadata(self.root.join("objects/pack")).and_then(|data| data.modified()).ok();
    }

    /// A writer for new objects; [`Store::keep`] makes them part of the store.
    pub(crate) fn writer(&self) -> PackWriter {
        PackWriter::new(&self.root.join("objects/pack"))
    }

    pub(crate) fn contains(&self, id: &Oid) -> bool {
        self.lock().all.iter().any(|pack| pack.offset(id).is_some())
    }

    /// Writes what the writer collected, and the files that refer to it, aside.
    pub(crate) fn stage(&self, writer: PackWriter, files: Vec<Draft>) -> io::Result<Staged<'_>> {
        let pack = if writer.is_empty() { None } else { Some(writer.write()?) };
        let write = |draft: Draft| {
            let mut file = temporary(&self.root)?;
            file.write_all(draft.content.as_bytes())?;
            Ok((file, draft.path))
        };
        let files = files.into_iter().map(write).collect::<io::Result<Vec<_>>>()?;
        Ok(Staged { store: self, pack, files })
    }

    /// Copies an object's content into `sink`.
    pub(crate) fn copy(&self, id: &Oid, tools: &mut Inflater, sink: impl Write) -> io::Result<(Kind, u64)> {
        let found = self.lock().all.iter().rev().find_map(|pack| Some((pack.clone(), pack.offset(id)?)));
        let Some((pack, offset)) = found else {
            let what = format!("object {id} is not in {}", self.root.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, what));
        };
        pack.copy(offset, tools, sink)
    }

    /// An object's content.
    pub(crate) fn read(&self, id: &Oid) -> io::Result<Vec<u8>> {
        let spare = || self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tools = spare().take().unwrap_or_else(Inflater::new);
        let mut content = Vec::new();
        self.copy(id, &mut tools, &mut content)?;
        *spare() = Some(tools);
        Ok(content)
    }

    /// The size of an object and its content, or as much of its beginning as `most` allows.
    pub(crate) fn beginning(&self, id: &Oid, most: usize) -> io::Result<(u64, Vec<u8>)> {
        let mut beginning = Beginning { bytes: Vec::new(), most };
        let (_, size) = self.copy(id, &mut Inflater::new(), &mut beginning)?;
        Ok((size, beginning.bytes))
    }

    pub(crate) fn tree(&self, id: &Oid) -> io::Result<Level> {
        decode_tree(&self.read(id)?).ok_or_else(|| io::Error::other(format!("tree {id} is damaged")))
    }

    pub(crate) fn commit(&self, id: &Oid) -> io::Result<Commit> {
        Commit::decode(&self.read(id)?).ok_or_else(|| io::Error::other(format!("commit {id} is damaged")))
    }

    /// The file that names a commit.
    pub(crate) fn naming(&self, name: &str, id: &Oid) -> Draft {
        Draft { path: self.names().join(ref_name(name)), content: format!("{id}\n") }
    }

    /// The file that names the automatic snapshots, in order, and no others.
    pub(crate) fn naming_automatic(&self, steps: impl Iterator<Item = (u64, Oid)>) -> Draft {
        let mut content = "# pack-refs with: peeled fully-peeled sorted \n".to_owned();
        for (number, id) in steps {
            let _ = writeln!(content, "{id} {AUTOMATIC}{number:010}");
        }
        Draft { path: self.root.join(PACKED_REFS), content }
    }

    /// The folders in which names change.
    fn folders(&self) -> io::Result<[File; 2]> {
        Ok([File::open(self.root.join("objects/pack"))?, File::open(&self.root)?])
    }

    /// Waits until the names of all that was kept are on disk.
    pub(crate) fn settle(&self) -> io::Result<()> {
        sync_all(&self.folders()?.each_ref().map(Unsynced::File))
    }

    /// The same while nobody waits for it.
    pub(crate) fn settle_later(&self) {
        if let Ok(folders) = self.folders() {
            // Without a thread the file system gets there by itself a little later.
            let work = move || sync_all(&folders.each_ref().map(Unsynced::File));
            let _ = std::thread::Builder::new().name("settle".to_owned()).spawn(work);
        }
    }

    /// The automatic snapshots, oldest first.
    pub(crate) fn automatic(&self) -> io::Result<Vec<(u64, Oid)>> {
        let text = found(fs::read_to_string(self.root.join(PACKED_REFS)))?.unwrap_or_default();
        let read = |line: &str| {
            let (id, name) = line.split_once(' ')?;
            Some((name.strip_prefix(AUTOMATIC)?.parse().ok()?, Oid::parse(id)?))
        };
        let mut all: Vec<(u64, Oid)> = text.lines().filter_map(read).collect();
        all.sort_unstable_by_key(|(number, _)| *number);
        Ok(all)
    }

    /// Tells one list of automatic snapshots from another without reading it.
    pub(crate) fn automatic_stamp(&self) -> Option<(u64, SystemTime)> {
        use std::os::unix::fs::MetadataExt as _;
        let data = fs::metadata(self.root.join(PACKED_REFS)).ok()?;
        Some((data.ino(), data.modified().ok()?))
    }

    /// Forgets a name; whether there was one.
    pub(crate) fn delete_ref(&self, name: &str) -> io::Result<bool> {
        found(fs::remove_file(self.names().join(ref_name(name)))).map(|gone| gone.is_some())
    }

    pub(crate) fn get_ref(&self, name: &str) -> io::Result<Option<Oid>> {
        let text = found(fs::read_to_string(self.names().join(ref_name(name))))?;
        Ok(text.and_then(|text| Oid::parse(text.trim())))
    }

    /// Every name and its commit.
    pub(crate) fn refs(&self) -> io::Result<Vec<(String, Oid)>> {
        let mut refs = Vec::new();
        for entry in fs::read_dir(self.names())? {
            let name = entry?.file_name().to_string_lossy().replace("%2E", ".");
            if let Some(id) = self.get_ref(&name)? {
                refs.push((name, id));
            }
        }
        Ok(refs)
    }

    fn names(&self) -> PathBuf {
        self.root.join("refs/snapshots")
    }

    /// Whether there are so many packs that merging them is worth the time.
    pub(crate) fn is_untidy(&self) -> bool {
        self.lock().all.len() > MANY_PACKS
    }

    /// Whether there are so many that it cannot wait.
    pub(crate) fn is_cluttered(&self) -> bool {
        self.lock().all.len() > TOO_MANY_PACKS
    }

    /// Merges small packs when there are many, keeping only what a ref still reaches.
    pub(crate) fn tidy(&self) -> io::Result<()> {
        let (bulky, mut old): (Vec<_>, Vec<_>) =
            self.lock().all.iter().cloned().partition(|pack| pack.size() > BULKY);
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
        let merged =
            if writer.is_empty() { None } else { Some(self.stage(writer, Vec::new())?.name(&[], false)?) };
        let merged = merged.flatten().map(Arc::new);
        let used = |pack: &Arc<Pack>| pack.objects().iter().any(|(id, _)| reachable.contains(id));
        old.extend(bulky.into_iter().filter(|pack| !used(pack)));
        // What takes the place of the others must not vanish in a crash that they do not survive.
        self.settle()?;
        let mut packs = self.lock();
        packs.all.retain(|pack| !old.iter().any(|gone| gone.path == pack.path));
        let kept = merged.as_ref().map(|pack| pack.path.clone());
        packs.all.extend(merged);
        for gone in old.iter().filter(|gone| Some(&gone.path) != kept.as_ref()) {
            // The index first: a pack without one is invisible, an index without its pack is damage.
            fs::remove_file(gone.path.with_extension("idx"))?;
            fs::remove_file(&gone.path)?;
        }
        self.noted(&mut packs);
        Ok(())
    }

    /// Everything that some ref leads to.
    fn reachable(&self) -> io::Result<HashSet<Oid>> {
        let mut todo: Vec<(Kind, Oid)> = self.refs()?.into_iter().map(|(_, id)| (Kind::Commit, id)).collect();
        todo.extend(self.automatic()?.into_iter().map(|(_, id)| (Kind::Commit, id)));
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

/// A file of the store as it is to be.
pub(crate) struct Draft {
    pub(crate) path: PathBuf,
    pub(crate) content: String,
}

/// New objects and files that refer to them, written aside.
pub(crate) struct Staged<'s> {
    store: &'s Store,
    pack: Option<Written>,
    files: Vec<(NamedTempFile, PathBuf)>,
}

impl Staged<'_> {
    /// Makes it part of the store as soon as it, and `others` with it, is on disk: after a crash each file is the old
    /// one or the new one, and what it refers to is there. That they are the new ones is sure if it is `lasting`, else
    /// after [`Store::settle`].
    pub(crate) fn publish(self, others: &[Unsynced<'_>], lasting: bool) -> io::Result<()> {
        let store = self.store;
        let Some(pack) = self.name(others, lasting)?.map(Arc::new) else { return Ok(()) };
        let mut packs = store.lock();
        packs.all.retain(|other| other.path != pack.path);
        packs.all.push(pack);
        store.noted(&mut packs);
        Ok(())
    }

    /// What stands aside and where it belongs, in the order in which it goes there.
    fn aside(&self) -> Vec<(&NamedTempFile, PathBuf)> {
        let mut aside: Vec<_> = self.pack.iter().flat_map(Written::files).collect();
        aside.extend(self.files.iter().map(|(file, path)| (file, path.clone())));
        aside
    }

    fn name(self, others: &[Unsynced<'_>], lasting: bool) -> io::Result<Option<Pack>> {
        let aside = self.aside();
        let lasting = lasting && !aside.is_empty();
        // Gone before what it lists, should something fail.
        let list = if lasting { Some(List::write(&self.store.root, &aside)?) } else { None };
        let folders = if lasting { Some(self.store.folders()?) } else { None };
        let mut all: Vec<_> = aside.iter().map(|(file, _)| Unsynced::File(file.as_file())).collect();
        all.extend(list.iter().map(|list| Unsynced::File(&list.file)));
        all.extend(folders.iter().flatten().map(Unsynced::File));
        all.extend(others);
        sync_all(&all)?;
        let pack = self.pack.map(Written::publish).transpose()?;
        for (file, path) in self.files {
            file.persist(path)?;
        }
        Ok(pack)
    }
}

/// The list of what stands aside, as long as it does.
struct List {
    file: File,
    path: PathBuf,
}

impl List {
    fn write(root: &Path, aside: &[(&NamedTempFile, PathBuf)]) -> io::Result<Self> {
        let path = root.join(PUBLISHING);
        let mut list = Self { file: File::create(&path)?, path };
        let mut text = String::new();
        for (file, place) in aside {
            let below = |path: &Path| path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
            let _ = writeln!(text, "{}\t{}", below(file.path()), below(place));
        }
        let text = format!("{}\n{text}", Kind::Blob.id(text.as_bytes()));
        list.file.write_all(text.as_bytes())?;
        Ok(list)
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // One that stays leads nowhere: what it lists is in its place or gone.
        let _ = fs::remove_file(&self.path);
    }
}

/// What stands aside and where it belongs; `None` when the list was never finished.
fn read_list(list: &[u8]) -> Option<Vec<(&str, &str)>> {
    let (id, rest) = std::str::from_utf8(list).ok()?.split_once('\n')?;
    (Oid::parse(id)? == Kind::Blob.id(rest.as_bytes())).then_some(())?;
    rest.lines().map(|line| line.split_once('\t')).collect()
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
/// Takes everything and keeps the beginning.
struct Beginning {
    bytes: Vec<u8>,
    most: usize,
}

impl Write for Beginning {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.most.saturating_sub(self.bytes.len()).min(bytes.len());
        self.bytes.extend_from_slice(&bytes[..room]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process is killed, or the power fails, after the one wait for the disk and before anything is in its place.
    #[test]
    fn what_stands_ready_is_put_in_its_place_by_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let id = Kind::Blob.id(b"content");
        let killed = |cut: usize| {
            let store = Store::open(folder.path()).unwrap();
            let mut writer = store.writer();
            writer.put(Kind::Blob, id, b"content").unwrap();
            let staged = store.stage(writer, vec![store.naming("s", &id)]).unwrap();
            std::mem::forget(List::write(folder.path(), &staged.aside()).unwrap());
            std::mem::forget(staged);
            let list = File::options().write(true).open(folder.path().join(PUBLISHING)).unwrap();
            list.set_len(list.metadata().unwrap().len() - cut as u64).unwrap();
            assert!(Store::is_unfinished(folder.path()));
        };
        let left = || {
            let names = |path: &Path| fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
            let all = names(folder.path()).chain(names(&folder.path().join("objects/pack")));
            all.filter(|name| name == PUBLISHING || name.to_string_lossy().starts_with(TEMPORARY)).count()
        };
        for cut in [1, 40, 200] {
            killed(cut);
            let store = Store::open(folder.path()).unwrap();
            assert!(store.get_ref("s").unwrap().is_none() && !store.contains(&id), "{cut}");
            assert_eq!(left(), 0, "{cut}");
        }
        killed(0);
        let store = Store::open(folder.path()).unwrap();
        assert_eq!((store.get_ref("s").unwrap(), store.read(&id).unwrap()), (Some(id), b"content".to_vec()));
        assert_eq!(left(), 0);
    }
}
