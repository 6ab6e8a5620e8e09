//! What is about to become part of the store, on disk before it does.
//!
//! Everything that belongs together goes into one file, whose blocks are there already: nothing but its content has to
//! reach the disk, which is the shortest wait there is. The files of the store are then put in their places without
//! waiting for them. Until they are on disk too, this record stays, and whoever finds it after a crash puts them there
//! again. There is one record at a time, and nobody else changes the store while it stays.

use super::pending::cut;
use flate2::Crc;
use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::LazyLock,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The name of the file.
const AHEAD: &str = "ahead";
/// Where the record begins; before it stands what became of it.
const HEAD: usize = 4096;
/// What is read of the head, and never torn: less than a sector.
const LINE: usize = 256;
/// The file grows by so much, so that records of about the same size find their blocks there.
const ROOM: usize = 128 << 10;

/// Between two of these nothing is in memory that was not on disk.
static BOOT: LazyLock<String> = LazyLock::new(|| {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map_or_else(|_| String::new(), |id| id.trim().to_owned())
});

/// What became of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It was written.
    Ready,
    /// What it holds is in its place, but perhaps not on disk.
    Placed,
    /// All of it is on disk.
    Done,
}

impl Stage {
    const ALL: [(Self, &'static str); 3] =
        [(Self::Ready, "ready"), (Self::Placed, "placed"), (Self::Done, "done")];
}

/// How a file of the store comes about.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Source<'r> {
    Content(&'r [u8]),
    /// It is on disk under another name.
    Aside(PathBuf),
}

/// A record on disk.
pub(super) struct Record {
    file: File,
    boot: String,
    stage: Stage,
    length: usize,
    sum: u32,
    /// When it was written.
    seconds: u64,
}

impl Record {
    /// Writes a record of files, by their places below the store's folder, and waits until it is on disk.
    pub(super) fn write<'r>(
        root: &Path,
        parts: impl Iterator<Item = (PathBuf, Source<'r>)>,
    ) -> io::Result<Self> {
        let mut bytes = vec![0; HEAD];
        for (place, source) in parts {
            let aside;
            let (kind, rest) = match source {
                Source::Content(content) => (b'C', content),
                Source::Aside(path) => {
                    aside = path;
                    (b'A', aside.as_os_str().as_encoded_bytes())
                }
            };
            bytes.push(kind);
            for field in [place.as_os_str().as_encoded_bytes(), rest] {
                bytes.extend_from_slice(&(field.len() as u64).to_le_bytes());
                bytes.extend_from_slice(field);
            }
        }
        let length = bytes.len() - HEAD;
        let path = root.join(AHEAD);
        let new = !path.exists();
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let sum = sum(&bytes[HEAD..]);
        let seconds = UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
        let record = Self { file, boot: BOOT.clone(), stage: Stage::Ready, length, sum, seconds };
        let line = record.line();
        bytes[..line.len()].copy_from_slice(&line);
        if record.file.metadata()?.len() < bytes.len() as u64 {
            bytes.resize(bytes.len().next_multiple_of(ROOM), 0);
        }
        let synced = record.file.write_all_at(&bytes, 0).and_then(|()| record.file.sync_data());
        let synced = if new { synced.and_then(|()| File::open(root)?.sync_all()) } else { synced };
        match synced {
            Ok(()) => Ok(record),
            Err(error) => {
                // Nobody was told of it, so nobody may find it.
                let _ = record.file.write_all_at(&[0; LINE], 0);
                Err(error)
            }
        }
    }

    /// The record that waits for somebody to see to it.
    pub(super) fn load(root: &Path) -> io::Result<Option<Self>> {
        let file = match OpenOptions::new().read(true).write(true).open(root.join(AHEAD)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut line = [0; LINE];
        let got = file.read_at(&mut line, 0)?;
        Ok(Self::parse(file, &line[..got]).filter(|record| record.stage != Stage::Done))
    }

    fn parse(file: File, line: &[u8]) -> Option<Self> {
        let end = line.iter().position(|byte| *byte == b'\n')?;
        let (check, text) = std::str::from_utf8(&line[..end]).ok()?.split_once(' ')?;
        if u32::from_str_radix(check, 16).ok()? != sum(text.as_bytes()) {
            return None;
        }
        let mut words = text.split(' ');
        let stage = words.next()?;
        let (stage, _) = Stage::ALL.into_iter().find(|(_, name)| *name == stage)?;
        let length = words.next()?.parse().ok()?;
        let sum = words.next()?.parse().ok()?;
        let seconds = words.next()?.parse().ok()?;
        Some(Self { file, boot: words.next()?.to_owned(), stage, length, sum, seconds })
    }

    fn line(&self) -> Vec<u8> {
        let stage = Stage::ALL.into_iter().find(|(stage, _)| *stage == self.stage);
        let stage = stage.map_or("", |(_, name)| name);
        let text = format!("{stage} {} {} {} {}", self.length, self.sum, self.seconds, self.boot);
        format!("{:08x} {text}\n", sum(text.as_bytes())).into_bytes()
    }

    fn mark(&mut self, stage: Stage) -> io::Result<()> {
        self.stage = stage;
        self.file.write_all_at(&self.line(), 0)
    }

    /// What it holds is in its place. Should the process be killed now, that stays so; if the power fails, it may not.
    pub(super) fn placed(&mut self) -> io::Result<()> {
        self.mark(Stage::Placed)
    }

    /// What it held is on disk, or is not to be.
    pub(super) fn done(&mut self) -> io::Result<()> {
        self.mark(Stage::Done)?;
        self.file.sync_data()
    }

    /// Whether everything is in its place, and perhaps followed by what came after it.
    pub(super) fn is_placed(&self) -> bool {
        self.stage == Stage::Placed && !self.boot.is_empty() && self.boot == *BOOT
    }

    /// Whether a file that changed then may not have reached the disk before a crash: the record is not behind it.
    pub(super) fn is_before(&self, changed: SystemTime) -> bool {
        changed + Duration::from_secs(1) >= UNIX_EPOCH + Duration::from_secs(self.seconds)
    }

    /// The bytes of all its files; `None` when it was never finished.
    pub(super) fn read(&self) -> io::Result<Option<Vec<u8>>> {
        let there = usize::try_from(self.file.metadata()?.len()).unwrap_or(0);
        if HEAD + self.length > there {
            return Ok(None);
        }
        let mut bytes = vec![0; self.length];
        self.file.read_exact_at(&mut bytes, HEAD as u64)?;
        Ok(Some(bytes).filter(|bytes| sum(bytes) == self.sum))
    }
}

/// The files in the bytes of a record.
pub(super) fn parts(mut bytes: &[u8]) -> Vec<(&Path, Source<'_>)> {
    let mut parts = Vec::new();
    let path = |bytes| crate::beneath::as_path(bytes);
    while let Some((kind, rest)) = bytes.split_first() {
        let Some((place, rest)) = cut(rest) else { break };
        let Some((field, rest)) = cut(rest) else { break };
        let aside = *kind == b'A';
        parts.push((
            path(place),
            if aside { Source::Aside(path(field).into()) } else { Source::Content(field) },
        ));
        bytes = rest;
    }
    parts
}

fn sum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// As if the power had failed before what the last record holds was on disk.
    pub(crate) fn lose_power(root: &Path) {
        let file = OpenOptions::new().read(true).write(true).open(root.join(AHEAD)).unwrap();
        let mut line = [0; LINE];
        file.read_at(&mut line, 0).unwrap();
        let mut record = Record::parse(file, &line).unwrap();
        record.boot = "another".to_owned();
        record.mark(Stage::Ready).unwrap();
    }

    #[test]
    fn a_record_comes_back_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert!(Record::load(root).unwrap().is_none());
        let write = |content: &[u8]| {
            let parts = [
                ("objects/pack/p".into(), Source::Aside("objects/pack/tmp_x".into())),
                ("packed-refs".into(), Source::Content(content)),
            ];
            Record::write(root, parts.into_iter()).unwrap()
        };
        let big = vec![7; 3 * ROOM];
        for content in [&b"first"[..], &big, b"third", b""] {
            let mut record = write(content);
            let found = Record::load(root).unwrap().unwrap();
            assert!(!found.is_placed());
            let bytes = found.read().unwrap().unwrap();
            let parts = parts(&bytes);
            assert_eq!(parts[0], (Path::new("objects/pack/p"), Source::Aside("objects/pack/tmp_x".into())));
            assert_eq!(parts[1], (Path::new("packed-refs"), Source::Content(content)));
            assert_eq!(parts.len(), 2);
            record.placed().unwrap();
            assert!(Record::load(root).unwrap().unwrap().is_placed());
            record.done().unwrap();
            assert!(Record::load(root).unwrap().is_none());
        }
        // What the disk did not get all of.
        let length = write(&big).length;
        let file = OpenOptions::new().write(true).open(root.join(AHEAD)).unwrap();
        for at in [HEAD, HEAD + length / 2, HEAD + length - 1] {
            write(&big);
            file.write_all_at(b"!", at as u64).unwrap();
            assert!(Record::load(root).unwrap().unwrap().read().unwrap().is_none(), "{at}");
        }
        for at in 0..40 {
            write(b"content");
            file.write_all_at(b"!", at).unwrap();
            assert!(Record::load(root).unwrap().is_none(), "{at}");
        }
        write(&big);
        file.set_len((HEAD + length - 1) as u64).unwrap();
        assert!(Record::load(root).unwrap().unwrap().read().unwrap().is_none());
        file.set_len(0).unwrap();
        assert!(Record::load(root).unwrap().is_none());
    }
}
