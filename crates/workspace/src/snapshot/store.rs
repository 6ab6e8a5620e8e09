//! The store: a bare repository of our own, outside the workspace, readable with plain git.

mod staged;
mod tidy;

use staged::Covered;
pub(crate) use staged::{Draft, Fresh, Staged};

use super::{
    ahead::{self, Record, Source},
    narrow::Narrow,
    object::{Commit, Kind, Level, Oid, decode_tree},
    pack::{PackWriter, Part, Unsynced, Written, is_sound, sync_all},
    packed::{Inflater, Pack},
};
use rustix::{
    fd::AsFd,
    fs::{AtFlags, CWD, FlockOperation},
};
use std::{
    ffi::OsStr,
    fmt::Write as _,
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, SystemTime},
};

/// What a crash may leave behind starts so.
pub(super) const TEMPORARY: &str = "tmp_";

/// The store's own settings, and what they were in its first version.
///
/// What a workspace's files are called, and what is in its `.gitmodules`, is the workspace's affair: git objects to
/// names that are dangerous to check out elsewhere (`git~1`), and a store that holds them is sound all the same. Only
/// what every git since 2.24 knows is named here: of one that it does not know `git fsck` dies.
const CONFIG: &str = "[core]
\trepositoryformatversion = 0
\tbare = true
[fsck]
\thasDotgit = ignore
\tgitmodulesBlob = ignore
\tgitmodulesLarge = ignore
\tgitmodulesMissing = ignore
\tgitmodulesName = ignore
\tgitmodulesParse = ignore
\tgitmodulesPath = ignore
\tgitmodulesSymlink = ignore
\tgitmodulesUpdate = ignore
\tgitmodulesUrl = ignore
";
const FIRST_CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n";

/// Within this an answer is on its way, and does not share the disk and the processors with what follows it.
const ANSWERED: Duration = Duration::from_millis(2);

/// Automatic snapshots are named here, all in one file: git's own format for many refs.
const PACKED_REFS: &str = "packed-refs";
const AUTOMATIC: &str = "refs/automatic/";

/// Objects and refs of one workspace's snapshots. Several processes may use it: what changes it happens
/// while [`Store::exclusive`] is held.
pub(crate) struct Store {
    root: PathBuf,
    /// What may have been written together with the store's files.
    workspace: PathBuf,
    packs: Mutex<Packs>,
    /// For the next object that is read: making it anew costs more than reading a tree.
    spare: Mutex<Option<Inflater>>,
    /// What would come back after a crash, for the one who has the store.
    covered: Mutex<Option<Covered>>,
    /// Sees to it that it is on disk.
    settling: Mutex<Option<JoinHandle<()>>>,
    narrow: Mutex<Narrow>,
}

impl Drop for Store {
    fn drop(&mut self) {
        self.rest();
    }
}

#[derive(Default)]
struct Packs {
    all: Vec<Arc<Pack>>,
    /// When the folder changed last, as far as `all` knows.
    seen: Option<SystemTime>,
}

/// Keeps others from changing the store, until everything that was put there is on disk.
pub(crate) struct Exclusive<'s> {
    store: &'s Store,
    lock: Option<File>,
}

impl Drop for Exclusive<'_> {
    fn drop(&mut self) {
        let (Some(covered), Some(lock)) = (self.store.covered().take(), self.lock.take()) else { return };
        let Ok(folders) = self.store.folders() else { return };
        // Nobody waits for this but who wants to change the store next. If it fails, that one does it.
        let work = move || {
            std::thread::sleep(ANSWERED);
            let _ = covered.settle(&folders);
            drop(lock);
        };
        let settling = std::thread::Builder::new().name("settle".to_owned()).spawn(work).ok();
        *self.store.settling.lock().unwrap_or_else(PoisonError::into_inner) = settling;
    }
}

/// What a change of the store waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// After a crash the change was made or was not.
    Whole,
    /// No crash takes it back.
    Lasting,
    /// For nothing, where a crash brings about once more what was to last before it.
    Covered,
}

impl Store {
    /// Opens the store, making it when it is not there; what a crash left half-written is removed.
    pub(crate) fn open(root: &Path, workspace: &Path) -> io::Result<Self> {
        for folder in ["objects/pack", "refs/heads", "refs/snapshots"] {
            fs::create_dir_all(root.join(folder))?;
        }
        // What is in the files of a workspace is not everybody's to read.
        fs::set_permissions(root, fs::Permissions::from_mode(0o700))?;
        let store = Self {
            root: root.to_owned(),
            workspace: workspace.to_owned(),
            packs: Mutex::default(),
            spare: Mutex::default(),
            covered: Mutex::default(),
            settling: Mutex::default(),
            narrow: Mutex::default(),
        };
        let alone = store.exclusive()?;
        for folder in [root.join("objects/pack"), root.to_owned()] {
            for entry in fs::read_dir(folder)? {
                let entry = entry?;
                if entry.file_name().to_string_lossy().starts_with(TEMPORARY) {
                    fs::remove_file(entry.path())?;
                }
            }
        }
        store.set_up()?;
        drop(alone);
        Ok(store)
    }

    /// Makes a folder what git takes for a repository.
    fn set_up(&self) -> io::Result<()> {
        for (name, first, content) in
            [("HEAD", "", "ref: refs/heads/none\n"), ("config", FIRST_CONFIG, CONFIG)]
        {
            let place = self.root.join(name);
            // Whatever else somebody wrote there is theirs.
            let there = found(fs::read(&place))?.unwrap_or_default();
            if there.is_empty() || there == first.as_bytes() {
                Part::new(&self.root, place, content.as_bytes().to_vec()).persist()?;
            }
        }
        Ok(())
    }

    /// Waits until no other process changes the store, and learns what others did.
    pub(crate) fn exclusive(&self) -> io::Result<Exclusive<'_>> {
        let lock = File::create(self.root.join("lock"))?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
        self.finish()?;
        let folder = self.root.join("objects/pack");
        let now = fs::metadata(&folder)?.modified().ok();
        let mut packs = self.lock();
        if packs.seen != now || now.is_none() {
            let mut all = Vec::new();
            for entry in fs::read_dir(&folder)? {
                let index = entry?.path();
                if index.extension().is_some_and(|extension| extension == "idx") {
                    let known = packs.all.iter().find(|pack| pack.path == index.with_extension("pack"));
                    match known {
                        Some(pack) => all.push(pack.clone()),
                        None => all.extend(open_pack(&index)?.map(Arc::new)),
                    }
                }
            }
            *packs = Packs { all, seen: now };
        }
        drop(packs);
        self.narrow().load(&self.root)?;
        Ok(Exclusive { store: self, lock: Some(lock) })
    }

    /// Sees to what one who is gone, or who failed, has left.
    fn finish(&self) -> io::Result<()> {
        *self.covered() = None;
        let Some(mut record) = Record::load(&self.root)? else { return Ok(()) };
        // What is in its place was perhaps followed by something newer.
        if !record.is_placed() {
            self.remove_unsound(&record)?;
            let Some(bytes) = record.read()? else { return record.done() };
            for (place, source) in ahead::parts(&bytes) {
                let place = self.root.join(place);
                match source {
                    Source::Content(content) => {
                        let folder = place.parent().unwrap_or(&self.root);
                        Part::new(folder, place.clone(), content.to_vec()).persist()?;
                    }
                    // What is no longer aside is in its place.
                    Source::Aside(aside) => drop(found(fs::rename(self.root.join(aside), place))?),
                }
            }
        }
        // What exactly was written with it nobody knows any more.
        for root in [&self.root, &self.workspace] {
            rustix::fs::syncfs(File::open(root)?)?;
        }
        record.done()
    }

    /// Removes packs that came after a record and did not all reach the disk before a crash: nothing that was to last
    /// is in them.
    fn remove_unsound(&self, record: &Record) -> io::Result<()> {
        for entry in fs::read_dir(self.root.join("objects/pack"))? {
            let (entry, index) = entry.map(|entry| (entry.path(), entry.path().with_extension("idx")))?;
            let changed = found(fs::metadata(&entry))?.and_then(|data| data.modified().ok());
            let ours = entry.extension().is_some_and(|extension| extension == "idx" || extension == "pack");
            if ours && changed.is_some_and(|changed| record.is_before(changed)) && !is_sound(&index) {
                found(fs::remove_file(&index))?;
                found(fs::remove_file(index.with_extension("pack")))?;
            }
        }
        Ok(())
    }

    /// Whether [`Store::exclusive`] may find something to put in its place in the store at `root`.
    pub(crate) fn is_unfinished(root: &Path) -> bool {
        !matches!(Record::load(root), Ok(None))
    }

    /// Waits for what is done after an answer was given.
    pub(crate) fn rest(&self) {
        let settling = self.settling.lock().unwrap_or_else(PoisonError::into_inner).take();
        settling.map(JoinHandle::join);
    }

    fn covered(&self) -> MutexGuard<'_, Option<Covered>> {
        self.covered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of files and folders that not everybody may read.
    pub(crate) fn narrow(&self) -> MutexGuard<'_, Narrow> {
        self.narrow.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Whether an object is here and is what it was: what is damaged is to be written anew.
    pub(crate) fn contains(&self, id: &Oid) -> bool {
        let mut unsure = Vec::new();
        for pack in &self.lock().all {
            let Some(at) = pack.find(id) else { continue };
            match pack.known_sound(at) {
                Some(true) => return true,
                Some(false) => {}
                // Reading it takes long: not while others wait for the lock.
                None => unsure.push((Arc::clone(pack), at)),
            }
        }
        unsure.iter().any(|(pack, at)| pack.is_sound(*at))
    }

    /// The packs that have an object, those that came last first, and where in them it is.
    fn holding(&self, id: &Oid) -> Vec<(Arc<Pack>, usize)> {
        let packs = self.lock();
        packs.all.iter().rev().filter_map(|pack| Some((Arc::clone(pack), pack.find(id)?))).collect()
    }

    /// What the writer collected, and the files that refer to it, ready to become part of the store.
    pub(crate) fn stage(&self, writer: PackWriter, files: Vec<Draft>) -> io::Result<Staged<'_>> {
        self.narrow().save(&self.root)?;
        let (mut parts, mut pack) = (Vec::new(), None);
        if !writer.is_empty() {
            let Written { pack: content, index, objects } = writer.write()?;
            pack = Some((content.place.clone(), objects));
            parts.extend([content, index]);
        }
        for draft in files {
            parts.push(Part::new(&self.root, draft.path, draft.content.into_bytes()));
        }
        Ok(Staged { store: self, parts, pack })
    }

    /// Copies an object's content into `sink`.
    pub(crate) fn copy(&self, id: &Oid, tools: &mut Inflater, sink: impl Write) -> io::Result<(Kind, u64)> {
        let mut found = self.holding(id);
        // One that was damaged has been written anew. Nobody knows that of the only one before it is read.
        if found.len() > 1 {
            let sound = found.iter().position(|(pack, at)| pack.is_sound(*at));
            found.swap(0, sound.unwrap_or(0));
        }
        let Some((pack, offset)) = found.first().map(|(pack, at)| (pack, pack.objects()[*at].1)) else {
            let what = format!("object {id} is missing from {}", self.root.display());
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
        decode_tree(&self.read(id)?).ok_or_else(|| damaged("tree", id))
    }

    pub(crate) fn commit(&self, id: &Oid) -> io::Result<Commit> {
        Commit::decode(&self.read(id)?).ok_or_else(|| damaged("commit", id))
    }

    /// The file that names a commit; `None` where [`is_name`] says so.
    pub(crate) fn naming(&self, name: &str, id: &Oid) -> Option<Draft> {
        Some(Draft { path: self.named(name)?, content: format!("{id}\n") })
    }

    /// Where a name is kept. Whoever asks for one that cannot be gets none, and never a place elsewhere.
    fn named(&self, name: &str) -> Option<PathBuf> {
        is_name(name).then(|| self.names().join(ref_name(name)))
    }

    /// Notes when a name was given, finer than the file system's own clock ticks. It orders what came within a second and
    /// nothing else: no reason to fail.
    pub(crate) fn date(&self, name: &str) {
        let file = self.named(name).and_then(|file| File::options().write(true).open(file).ok());
        let _ = file.map(|file| file.set_modified(SystemTime::now()));
    }

    /// When a name was given.
    pub(crate) fn dated(&self, name: &str) -> Option<SystemTime> {
        fs::metadata(self.named(name)?).and_then(|data| data.modified()).ok()
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
    fn folders(&self) -> io::Result<[File; 3]> {
        Ok([File::open(self.root.join("objects/pack"))?, File::open(self.names())?, File::open(&self.root)?])
    }

    /// Has what was written beside the store on disk before what would bring it about again is forgotten.
    pub(crate) fn settle_with(&self, fresh: Fresh) -> io::Result<()> {
        match &mut *self.covered() {
            Some(covered) => {
                covered.fresh.add(fresh);
                Ok(())
            }
            None => fresh.settle(&[]),
        }
    }

    /// Gives a file that is about to be replaced another name here, where that can be done: freeing its blocks takes
    /// longer than everything else about replacing it, and can wait.
    pub(crate) fn keep_a_while(&self, folder: impl AsFd, name: &OsStr) -> Option<PathBuf> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let kept = self.root.join(format!("{TEMPORARY}replaced-{}-{number}", std::process::id()));
        rustix::fs::linkat(folder, name, CWD, &kept, AtFlags::empty()).is_ok().then_some(kept)
    }

    /// Waits until all that was put here, and its names, are on disk.
    pub(crate) fn settle(&self) -> io::Result<()> {
        let folders = self.folders()?;
        match self.covered().take() {
            Some(covered) => covered.settle(&folders),
            None => sync_all(&folders.each_ref().map(Unsynced::File)),
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
        let Some(file) = self.named(name) else { return Ok(false) };
        found(fs::remove_file(file)).map(|gone| gone.is_some())
    }

    pub(crate) fn get_ref(&self, name: &str) -> io::Result<Option<Oid>> {
        let Some(file) = self.named(name) else { return Ok(None) };
        let text = found(fs::read_to_string(file))?;
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
}

/// Whether something that should be in the store is not, or is not what it should be.
pub(super) fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    matches!(error.kind(), InvalidData | NotFound | UnexpectedEof)
}

/// Opens a pack, or sets it aside when it is damaged: what the others hold is as good as before.
fn open_pack(index: &Path) -> io::Result<Option<Pack>> {
    match Pack::open(index) {
        Err(error) if is_damage(&error) => {
            for file in [index.to_owned(), index.with_extension("pack")] {
                let mut aside = file.clone().into_os_string();
                aside.push(".damaged");
                found(fs::rename(&file, aside))?;
            }
            Ok(None)
        }
        opened => opened.map(Some),
    }
}

/// Whether a snapshot may be called so: one name in one folder, for git as for us.
pub(crate) fn is_name(name: &str) -> bool {
    let rest = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric() || first == b'_')
        && name.bytes().all(rest)
        && ref_name(name).len() <= 200
}

/// Git refuses some names that we allow (`a..b`, `x.lock`, a dot at either end).
fn ref_name(name: &str) -> String {
    let awkward = name.contains("..") || name.ends_with('.') || name.ends_with(".lock");
    if awkward { name.replace('.', "%2E") } else { name.to_owned() }
}

fn damaged(what: &str, id: &Oid) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what} {id} is damaged"))
}

fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
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
mod tests;
