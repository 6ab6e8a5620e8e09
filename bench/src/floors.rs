//! What a machine takes for the bare work below a call: the floor. Limits in milliseconds were set on one machine, above
//! the floors of that machine; on another one, and in a slower minute of the same, the floor says what they come to.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use tree_sitter::Parser;

use crate::report::ms;

/// What a call may take, and what the floor below it took where that was set.
pub(crate) struct Limit {
    pub(crate) most: Duration,
    pub(crate) floor: Duration,
}

impl Limit {
    pub(crate) fn new(most: f64, floor: f64) -> Self {
        let milliseconds = |count: f64| Duration::from_secs_f64(count / 1e3);
        Self { most: milliseconds(most), floor: milliseconds(floor) }
    }

    /// How many times the floor that is.
    fn ratio(&self) -> f64 {
        self.most.as_secs_f64() / self.floor.as_secs_f64()
    }

    /// The limit in words.
    pub(crate) fn asked(&self) -> String {
        format!(
            "< {}, set where the floor takes {}: < {:.1} × floor",
            ms(self.most),
            ms(self.floor),
            self.ratio()
        )
    }

    /// Whether it is kept, and by which measure.
    pub(crate) fn verdict(&self, took: Duration, floor: Duration) -> String {
        if took < self.most {
            "met".to_owned()
        } else if took.as_secs_f64() < floor.as_secs_f64() * self.ratio() {
            "met beside the floor".to_owned()
        } else {
            "**missed**".to_owned()
        }
    }
}

/// The stamps of files, asked for by name in their folders, with all processors.
pub(crate) fn stamps(files: &[PathBuf]) -> Result<()> {
    shared(files, |part| {
        let mut last: Option<(&Path, OwnedFd)> = None;
        for file in part {
            let folder = file.parent().context("a file in a folder")?;
            if last.as_ref().is_none_or(|(path, _)| *path != folder) {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                last = Some((folder, rustix::fs::openat(CWD, folder, flags, Mode::empty())?));
            }
            let Some((_, folder)) = &last else { continue };
            let name = file.file_name().context("a file with a name")?;
            rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(())
    })
}

/// Writing over files where they are, with all processors.
pub(crate) fn overwrite(files: &[PathBuf]) -> Result<()> {
    shared(files, |part| {
        for path in part {
            let file = fs::File::options().write(true).open(path)?;
            file.write_all_at(&[b'x'; 1500], 0)?;
            file.set_len(1500)?;
        }
        Ok(())
    })
}

/// A small file, written aside, synced, put in place, and its folder synced.
pub(crate) fn durable(folder: &Path) -> Result<()> {
    crate::calls::durable(folder, &[b'x'; 4096])
}

/// Reading and parsing Go sources with all processors; nothing is made of them.
pub(crate) fn parse(files: &[PathBuf]) -> Result<()> {
    shared(files, |part| {
        let mut parser = Parser::new();
        parser.set_language(&tree_sitter_go::LANGUAGE.into())?;
        for file in part {
            parser.parse(fs::read(file)?, None).context("a tree")?;
        }
        Ok(())
    })
}

/// Shares files among all processors, a few at a time.
fn shared(files: &[PathBuf], work: impl Fn(&[PathBuf]) -> Result<()> + Sync) -> Result<()> {
    const SHARE: usize = 40;
    let (threads, next) = (std::thread::available_parallelism()?.get(), AtomicUsize::new(0));
    let run = || {
        while let Some(part) = files.chunks(SHARE).nth(next.fetch_add(1, Ordering::Relaxed)) {
            work(part)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        running.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| bail!("a thread died")))
    })
}
