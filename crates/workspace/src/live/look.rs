//! Reading files for the index.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::SystemTime;

use rustix::fs::{Mode as FileMode, OFlags};
use rustix::io::Errno;

use super::rel::Rel;
use super::stamp::{Seen, Stamp, is_regular};
use super::trigram::Extractor;
use crate::root::Workspace;
use crate::text::{self, Encoding};

/// Larger files are not indexed: they are searched every time.
pub(super) const INDEX_LIMIT: u64 = crate::grep::WHOLE;

/// A file that is part of the workspace, as it was looked at.
#[derive(Clone, Copy)]
pub(super) struct Look {
    pub(super) stamp: Stamp,
    /// It may have changed since without its stamp telling.
    pub(super) young: bool,
    /// Searched whatever the index says.
    pub(super) always: bool,
    /// Has another name, through which it changes without an event.
    pub(super) linked: bool,
}

/// One thread's tools.
#[derive(Default)]
pub(super) struct Reader {
    buffer: Vec<u8>,
    extractor: Extractor,
}

/// What one thread saw in several files: their trigrams lie behind each other.
#[derive(Default)]
pub(super) struct Looks {
    looks: Vec<(Option<Look>, usize)>,
    grams: Vec<u32>,
}

impl Looks {
    /// Looks at each of these files.
    pub(super) fn fill(&mut self, reader: &mut Reader, workspace: &Workspace, paths: &[Rel], limit: u64) {
        self.looks.clear();
        self.grams.clear();
        for path in paths {
            let look = reader.look(workspace, path.as_ref(), limit);
            self.grams.extend_from_slice(reader.trigrams());
            self.looks.push((look, self.grams.len()));
        }
    }

    /// What was seen, in the order of the paths.
    pub(super) fn each(&self) -> impl Iterator<Item = (Option<Look>, &[u32])> {
        let mut from = 0;
        self.looks.iter().map(move |&(look, until)| {
            let grams = &self.grams[from..until];
            from = until;
            (look, grams)
        })
    }
}

impl Reader {
    /// The trigrams of the file that was looked at last.
    pub(super) fn trigrams(&self) -> &[u32] {
        &self.extractor.found
    }

    /// Looks at a file; `None`: it is no file of the workspace, or no longer. Above `limit` bytes it is not read.
    pub(super) fn look(&mut self, workspace: &Workspace, path: &Path, limit: u64) -> Option<Look> {
        self.extractor.clear();
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let (fd, stat) = match workspace.root.open_at(path, flags, FileMode::empty()) {
            Ok(fd) => {
                let stat = rustix::fs::fstat(&fd).ok()?;
                (Some(fd), stat)
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV | Errno::NXIO) => return None,
            // not readable now: whoever may read it later finds it
            Err(_) => (None, workspace.lstat(path).ok()?),
        };
        if !is_regular(&stat) {
            return None;
        }
        let Seen { stamp: Some(stamp), young } = Seen::new(Some(&stat), SystemTime::now()) else {
            return None;
        };
        let linked = stat.st_nlink > 1;
        let indexed = fd.is_some_and(|fd| stamp.size <= limit && self.read(File::from(fd), limit));
        // a write through another name of the file sends us nothing
        Some(Look { stamp, young, always: !indexed || linked, linked })
    }

    /// Takes in what a file holds; `false`: the index cannot answer for it.
    fn read(&mut self, file: File, limit: u64) -> bool {
        self.buffer.clear();
        if file.take(limit + 1).read_to_end(&mut self.buffer).is_err() || self.buffer.len() as u64 > limit {
            return false;
        }
        // what is transcoded before it is searched has other bytes than the file
        if text::encoding_of(&self.buffer) != (Encoding::Utf8, false) {
            return false;
        }
        let nul = memchr::memchr(0, &self.buffer);
        if nul.is_none_or(|nul| nul >= text::BINARY_WINDOW) {
            self.extractor.run(&self.buffer[..nul.unwrap_or(self.buffer.len())]);
        }
        true
    }
}
