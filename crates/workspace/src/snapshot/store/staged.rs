//! What is about to become part of the store, and what has and is not on disk yet.

use super::super::{
    ahead::{Record, Source},
    object::Oid,
    pack::{Part, Unsynced, sync_all},
    packed::Pack,
};
use super::{Store, Wait};
use rustix::fs::CWD;
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};
use tempfile::NamedTempFile;

/// What is to last goes into a record ahead of it up to this; the larger parts of more are synced where they stand.
pub(super) const MOST_AHEAD: usize = 4 << 20;
const LARGE: usize = 256 << 10;

/// Files that are in their places and perhaps not on disk; the record ahead of them is.
pub(super) struct Covered {
    pub(super) record: Record,
    pub(super) fresh: Fresh,
}

/// What was written and is not on disk yet.
#[derive(Default)]
pub(crate) struct Fresh {
    pub(crate) files: Vec<File>,
    /// There is so much that it is best to wait for everything on the file system of this folder.
    pub(crate) system: Option<File>,
    /// What was replaced, under names in the store. The file system takes its time to free their blocks.
    pub(crate) replaced: Vec<PathBuf>,
}

impl Fresh {
    pub(crate) fn add(&mut self, other: Self) {
        self.files.extend(other.files);
        self.system = self.system.take().or(other.system);
        self.replaced.extend(other.replaced);
    }

    /// Waits until it, and these folders, are on disk.
    pub(super) fn settle(self, folders: &[File]) -> io::Result<()> {
        let files = self.files.iter().chain(folders).map(Unsynced::File);
        let done = sync_all(&files.chain(self.system.as_ref().map(Unsynced::System)).collect::<Vec<_>>());
        for old in self.replaced {
            // What stays is removed by the next start.
            let _ = fs::remove_file(old);
        }
        done
    }
}

impl Covered {
    /// Waits until everything is on disk: the record has done its service.
    pub(super) fn settle(mut self, folders: &[File]) -> io::Result<()> {
        self.fresh.settle(folders)?;
        self.record.done()
    }
}

/// A file of the store as it is to be.
pub(crate) struct Draft {
    pub(crate) path: PathBuf,
    pub(crate) content: String,
}

/// New objects and files that refer to them, written aside.
pub(crate) struct Staged<'s> {
    pub(super) store: &'s Store,
    /// In the order in which they go to their places.
    pub(super) parts: Vec<Part>,
    /// The name of the pack among them, and what is in it.
    pub(super) pack: Option<(PathBuf, Vec<(Oid, u64)>)>,
}

impl Staged<'_> {
    /// Makes it part of the store: after a crash each file is the old one or the new one, and what it refers to is
    /// there. That they are the new ones is sure if it is to last.
    pub(crate) fn publish(self, wait: Wait) -> io::Result<()> {
        let store = self.store;
        let Some(pack) = self.name(wait)?.map(Arc::new) else { return Ok(()) };
        let mut packs = store.lock();
        packs.all.retain(|other| other.path != pack.path);
        packs.all.push(pack);
        store.noted(&mut packs);
        Ok(())
    }

    pub(super) fn name(mut self, wait: Wait) -> io::Result<Option<Pack>> {
        let mut covered = self.store.covered();
        let lasting = wait == Wait::Lasting && !self.parts.is_empty();
        let files = if lasting {
            let (record, files) = self.write_ahead()?;
            *covered = Some(Covered { record, fresh: Fresh::default() });
            files
        } else {
            self.parts.iter_mut().try_for_each(Part::put_aside)?;
            Vec::new()
        };
        match covered.as_mut().filter(|_| wait != Wait::Whole) {
            Some(Covered { record, fresh }) => {
                let files = files.into_iter().chain(std::iter::repeat_with(|| None));
                for (part, file) in self.parts.into_iter().zip(files) {
                    fresh.replaced.extend(self.store.keep_a_while(CWD, part.place.as_os_str()));
                    fresh.files.push(match file {
                        Some(file) => file.persist(part.place)?,
                        None => part.persist()?,
                    });
                }
                record.placed()?;
            }
            None => {
                let files =
                    self.parts.iter().filter_map(Part::aside).map(|file| Unsynced::File(file.as_file()));
                sync_all(&files.collect::<Vec<_>>())?;
                for part in self.parts {
                    part.persist()?;
                }
            }
        }
        self.pack.map(|(path, objects)| Pack::new(path, objects)).transpose()
    }

    /// Has everything on disk in a record, and writes files of what is in memory while it waits for that; for each
    /// part, the file.
    pub(super) fn write_ahead(&mut self) -> io::Result<(Record, Vec<Option<NamedTempFile>>)> {
        let root = &self.store.root;
        let size = |part: &Part| part.content().map_or(0, <[u8]>::len);
        if self.parts.iter().map(size).sum::<usize>() > MOST_AHEAD {
            self.parts.iter_mut().filter(|part| size(part) > LARGE).try_for_each(Part::put_aside)?;
        }
        let aside: Vec<_> = self.parts.iter().filter_map(Part::aside).collect();
        let aside: Vec<_> = aside.into_iter().map(|file| Unsynced::File(file.as_file())).collect();
        if !aside.is_empty() {
            // Their names too must be there before the record tells of them.
            let folder = File::open(root.join("objects/pack"))?;
            sync_all(&[aside, vec![Unsynced::File(&folder)]].concat())?;
        }
        let below = |path: &Path| path.strip_prefix(root).unwrap_or(path).to_owned();
        let parts = || {
            self.parts.iter().map(|part| {
                let source = match part.aside() {
                    Some(file) => Source::Aside(below(file.path())),
                    None => Source::Content(part.content().unwrap_or_default()),
                };
                (below(&part.place), source)
            })
        };
        let write = |part: &Part| part.content().map(|_| part.write()).transpose();
        let (record, files) = std::thread::scope(|scope| {
            let record = scope.spawn(|| Record::write(root, parts()));
            let files = self.parts.iter().map(write).collect::<io::Result<Vec<_>>>();
            (record.join().unwrap_or_else(|_| Err(io::Error::other("the thread that wrote died"))), files)
        });
        match (record, files) {
            (Ok(record), Ok(files)) => Ok((record, files)),
            (Ok(mut record), Err(error)) => {
                // Nobody was told of it, so nobody may find it.
                let _ = record.done();
                Err(error)
            }
            (Err(error), _) => Err(error),
        }
    }
}
