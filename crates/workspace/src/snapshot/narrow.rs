//! Which contents stood in files that not everybody may read.
//!
//! Git's trees know two kinds of files, executable or not. A key that comes back from a snapshot must not be readable
//! for everybody because of that: the store remembers permissions that are narrower than those of a new file, by
//! content.

use super::object::Oid;
use rustix::fs::{Mode, OFlags, Stat};
use std::{
    collections::{HashMap, HashSet},
    fmt::Write as _,
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::Path,
    sync::LazyLock,
};

const FILE: &str = "narrow";

/// Permissions by content, as far as they are narrower than usual.
#[derive(Default)]
pub(crate) struct Narrow {
    known: HashMap<Oid, u32>,
    /// Those that the store's file does not have.
    fresh: Vec<Oid>,
    /// The bytes of the file that are known.
    length: u64,
}

impl Narrow {
    /// Notes the permissions of a file with this content.
    pub(crate) fn note(&mut self, id: Oid, stat: &Stat) {
        let bits = stat.st_mode & 0o666;
        if usual() & !bits & 0o066 == 0 {
            return;
        }
        let known = self.known.entry(id).or_insert(0o666);
        // Of two files with the same content the stricter one counts.
        if *known & bits != *known {
            *known &= bits;
            self.fresh.push(id);
        }
    }

    /// The permissions of a new file with this content, but for those to execute it.
    pub(crate) fn bits(&self, id: &Oid) -> u32 {
        usual() & self.known.get(id).copied().unwrap_or(0o666)
    }

    /// Learns what other processes noted.
    pub(super) fn load(&mut self, root: &Path) -> io::Result<()> {
        let path = root.join(FILE);
        let length = fs::metadata(&path).map_or(0, |data| data.len());
        if length == self.length {
            return Ok(());
        }
        for line in fs::read_to_string(&path)?.lines() {
            let read = line
                .split_once(' ')
                .and_then(|(id, bits)| Some((Oid::parse(id)?, u32::from_str_radix(bits, 8).ok()?)));
            if let Some((id, bits)) = read {
                *self.known.entry(id).or_insert(0o666) &= bits;
            }
        }
        self.length = length;
        Ok(())
    }

    /// Has what was noted on disk, before anything refers to it.
    pub(super) fn save(&mut self, root: &Path) -> io::Result<()> {
        if self.fresh.is_empty() {
            return Ok(());
        }
        let text = self.lines(self.fresh.iter());
        let mut file = OpenOptions::new().create(true).append(true).open(root.join(FILE))?;
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        self.length += text.len() as u64;
        self.fresh.clear();
        Ok(())
    }

    /// Forgets contents that are gone.
    pub(super) fn retain(&mut self, root: &Path, needed: &HashSet<Oid>) -> io::Result<()> {
        let before = self.known.len();
        self.known.retain(|id, _| needed.contains(id));
        if self.known.len() == before {
            return Ok(());
        }
        let text = self.lines(self.known.keys());
        let mut file = tempfile::Builder::new().prefix(super::store::TEMPORARY).tempfile_in(root)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_data()?;
        file.persist(root.join(FILE))?;
        (self.length, self.fresh) = (text.len() as u64, Vec::new());
        Ok(())
    }

    fn lines<'o>(&self, ids: impl Iterator<Item = &'o Oid>) -> String {
        let mut text = String::new();
        for id in ids {
            let bits = self.known.get(id).copied().unwrap_or(0o600);
            let _ = writeln!(text, "{id} {bits:o}");
        }
        text
    }
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
