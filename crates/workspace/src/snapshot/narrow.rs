//! Which files and folders not everybody may read.
//!
//! Git's trees know two kinds of files, executable or not, and one of folders. A key that comes back from a snapshot must
//! not be readable for everybody because of that: the store remembers permissions that are narrower than usual. Those
//! of a file belong to its path and its content: the same text may be everybody's to read elsewhere, and what comes to
//! stand in its place too. Those of a folder belong to its path.

use super::object::Oid;
use rustix::fs::{Mode, OFlags, Stat};
use std::{
    collections::{HashMap, HashSet},
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::ffi::OsStrExt as _,
    path::Path,
    sync::LazyLock,
};

/// Records that end with a zero byte: the content or `folder`, the permissions, the path.
const FILE: &str = "narrow-paths";
const FOLDER: &[u8] = b"folder";
/// What an older version wrote: lines of a content and permissions, whatever the path.
const OLD: &str = "narrow";
/// The place of what an older version knew among the paths. No file has it.
const ANYWHERE: &[u8] = b"";
/// As wide as it gets.
const WIDE: u32 = 0o666;

/// Permissions, as far as they are narrower than usual.
#[derive(Default)]
pub(crate) struct Narrow {
    /// By content and path, as they were last seen.
    files: HashMap<Oid, HashMap<Vec<u8>, u32>>,
    /// By path, the strictest that were seen: what was in a folder then is not known here.
    folders: HashMap<Vec<u8>, u32>,
    /// Those that the store's file does not have; folders have no content.
    fresh: HashSet<(Option<Oid>, Vec<u8>)>,
    /// The bytes of both files that are known.
    lengths: [u64; 2],
}

impl Narrow {
    /// Notes the permissions of a file with this content.
    pub(crate) fn note(&mut self, path: &Path, id: Oid, stat: &Stat) {
        let (path, bits) = (path.as_os_str().as_bytes(), narrower(stat));
        let paths = self.files.get(&id);
        let known = paths.and_then(|paths| paths.get(path)).copied();
        // That a file is everybody's to read matters where something else was known.
        let matters = known.is_some() || paths.is_some_and(|paths| paths.contains_key(ANYWHERE));
        if known != Some(bits.unwrap_or(WIDE)) && (bits.is_some() || matters) {
            self.set(path, id, bits.unwrap_or(WIDE));
        }
    }

    /// Notes the permissions of a file that had this content a moment ago, unless more is known.
    pub(crate) fn presume(&mut self, path: &Path, id: Oid, stat: &Stat) {
        let path = path.as_os_str().as_bytes();
        if let Some(bits) = narrower(stat).filter(|_| self.exact(path, &id).is_none()) {
            self.set(path, id, bits);
        }
    }

    fn set(&mut self, path: &[u8], id: Oid, bits: u32) {
        self.files.entry(id).or_default().insert(path.to_vec(), bits);
        self.fresh.insert((Some(id), path.to_vec()));
    }

    /// Notes the permissions of a folder that [`narrower_folder`] gave.
    pub(super) fn note_folder(&mut self, path: &Path, bits: u32) {
        let path = path.as_os_str().as_bytes();
        let known = self.folders.get(path).copied().unwrap_or(0o777);
        if known & bits != known {
            self.folders.insert(path.to_vec(), known & bits);
            self.fresh.insert((None, path.to_vec()));
        }
    }

    /// The permissions of a new file with this content, but for those to execute it.
    pub(crate) fn bits(&self, path: &Path, id: &Oid) -> u32 {
        let anywhere = || self.exact(ANYWHERE, id);
        usual() & self.exact(path.as_os_str().as_bytes(), id).or_else(anywhere).unwrap_or(WIDE)
    }

    /// Those of `bits` that a file may keep when this content comes to stand in it.
    pub(crate) fn kept(&self, path: &Path, id: &Oid, bits: u32) -> u32 {
        let most = self.exact(path.as_os_str().as_bytes(), id).unwrap_or(WIDE);
        bits & !(0o066 & !most)
    }

    /// The permissions of a new folder, before the umask.
    pub(crate) fn folder(&self, path: &Path) -> u32 {
        self.folders.get(path.as_os_str().as_bytes()).copied().unwrap_or(0o777)
    }

    fn exact(&self, path: &[u8], id: &Oid) -> Option<u32> {
        self.files.get(id)?.get(path).copied()
    }

    /// Learns what other processes noted.
    pub(super) fn load(&mut self, root: &Path) -> io::Result<()> {
        for (at, name) in [OLD, FILE].into_iter().enumerate() {
            let path = root.join(name);
            let length = fs::metadata(&path).map_or(0, |data| data.len());
            if length == self.lengths[at] {
                continue;
            }
            let bytes = if length == 0 { Vec::new() } else { fs::read(&path)? };
            let end = if name == OLD { b'\n' } else { 0 };
            for record in bytes.split(|byte| *byte == end) {
                self.read(record);
            }
            self.lengths[at] = length;
        }
        Ok(())
    }

    /// Takes in one record; what is none is passed over.
    fn read(&mut self, record: &[u8]) -> Option<()> {
        let mut words = record.splitn(3, |byte| *byte == b' ');
        let (what, bits, path) = (words.next()?, words.next()?, words.next().unwrap_or(ANYWHERE));
        let bits = u32::from_str_radix(std::str::from_utf8(bits).ok()?, 8).ok()?;
        if what == FOLDER {
            *self.folders.entry(path.to_vec()).or_insert(0o777) &= bits;
            return Some(());
        }
        let id = Oid::parse(std::str::from_utf8(what).ok()?)?;
        // What was seen here and is not written yet is newer.
        if !self.fresh.contains(&(Some(id), path.to_vec())) {
            self.files.entry(id).or_default().insert(path.to_vec(), bits);
        }
        Some(())
    }

    /// Has what was noted on disk, before anything refers to it.
    pub(super) fn save(&mut self, root: &Path) -> io::Result<()> {
        if self.fresh.is_empty() {
            return Ok(());
        }
        // What a crash left of the last record must not take the next one with it.
        let mut bytes = vec![0];
        for (id, path) in &self.fresh {
            let known = id.map_or_else(|| self.folders.get(path).copied(), |id| self.exact(path, &id));
            put(&mut bytes, id.as_ref(), known.unwrap_or(0o700), path);
        }
        let mut file = OpenOptions::new().create(true).append(true).open(root.join(FILE))?;
        file.write_all(&bytes)?;
        file.sync_data()?;
        self.lengths[1] += bytes.len() as u64;
        self.fresh.clear();
        Ok(())
    }

    /// Forgets contents that are gone, and folders of a name that is.
    pub(super) fn retain(
        &mut self,
        root: &Path,
        needed: &HashSet<Oid>,
        names: &HashSet<Vec<u8>>,
    ) -> io::Result<()> {
        let count = |narrow: &Self| narrow.files.len() + narrow.folders.len();
        let before = count(self);
        self.files.retain(|id, _| needed.contains(id));
        self.folders
            .retain(|path, _| path.rsplit(|byte| *byte == b'/').next().is_some_and(|n| names.contains(n)));
        if count(self) == before {
            return Ok(());
        }
        let mut bytes = Vec::new();
        for (id, paths) in &self.files {
            for (path, bits) in paths.iter().filter(|(path, _)| *path != ANYWHERE) {
                put(&mut bytes, Some(id), *bits, path);
            }
        }
        self.folders.iter().for_each(|(path, bits)| put(&mut bytes, None, *bits, path));
        let mut file = tempfile::Builder::new().prefix(super::store::TEMPORARY).tempfile_in(root)?;
        file.write_all(&bytes)?;
        file.as_file().sync_data()?;
        file.persist(root.join(FILE))?;
        (self.lengths[1], self.fresh) = (bytes.len() as u64, HashSet::new());
        // What an older version wrote goes when nothing of it is needed.
        if self.lengths[0] > 0 && !self.files.values().any(|paths| paths.contains_key(ANYWHERE)) {
            fs::remove_file(root.join(OLD))?;
            self.lengths[0] = 0;
        }
        Ok(())
    }
}

fn put(bytes: &mut Vec<u8>, id: Option<&Oid>, bits: u32, path: &[u8]) {
    match id {
        Some(id) => bytes.extend_from_slice(id.to_string().as_bytes()),
        None => bytes.extend_from_slice(FOLDER),
    }
    bytes.extend_from_slice(format!(" {bits:o} ").as_bytes());
    bytes.extend_from_slice(path);
    bytes.push(0);
}

/// The permissions of a file, if fewer may read or write it than a new one.
fn narrower(stat: &Stat) -> Option<u32> {
    let bits = stat.st_mode & 0o666;
    (usual() & !bits & 0o066 != 0).then_some(bits)
}

/// The permissions of a folder, if fewer may look into it than into a new one. What its owner may do is not among them:
/// something is to be put into it.
pub(super) fn narrower_folder(stat: &Stat) -> Option<u32> {
    let usual = usual() | (usual() & 0o444) >> 2;
    (usual & !stat.st_mode & 0o077 != 0).then_some(stat.st_mode & 0o777 | 0o700)
}

/// The permissions of a new file.
fn usual() -> u32 {
    // Reading the umask means setting it, which other threads would see; a file's own creation tells it as well.
    static USUAL: LazyLock<u32> = LazyLock::new(|| {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::open(std::env::temp_dir(), flags, Mode::from_raw_mode(0o666))
            .and_then(rustix::fs::fstat)
            .map_or(0o644, |stat| stat.st_mode & 0o666)
    });
    *USUAL
}
