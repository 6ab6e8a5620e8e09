//! What a machine takes for the bare work below a call: it says how this one compares with the one on which limits in
//! milliseconds were set.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use tree_sitter::Parser;

use crate::probe::Times;

/// How often each is done.
const ROUNDS: usize = 15;

/// The stamps of files, asked for by name in their folders, with all processors.
pub(crate) fn stamps(files: &[PathBuf]) -> Result<Duration> {
    let mut times = Times::new();
    for _ in 0..ROUNDS {
        times.time(|| {
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
        })?;
    }
    Ok(times.median())
}

/// Writing over files where they are, with all processors.
pub(crate) fn overwrite(files: &[PathBuf]) -> Result<Duration> {
    let mut times = Times::new();
    for _ in 0..ROUNDS {
        times.time(|| {
            shared(files, |part| {
                for path in part {
                    let file = fs::File::options().write(true).open(path)?;
                    file.write_all_at(&[b'x'; 1500], 0)?;
                    file.set_len(1500)?;
                }
                Ok(())
            })
        })?;
    }
    Ok(times.median())
}

/// A small file, written aside, synced, put in place, and its folder synced.
pub(crate) fn durable(folder: &Path) -> Result<Duration> {
    let mut times = Times::new();
    for _ in 0..ROUNDS {
        times.time(|| crate::calls::durable(folder, &[b'x'; 4096]))?;
    }
    Ok(times.median())
}

/// Reading and parsing Go sources with all processors; nothing is made of them.
pub(crate) fn parse(files: &[PathBuf]) -> Result<Duration> {
    let mut times = Times::new();
    times.time(|| {
        shared(files, |part| {
            let mut parser = Parser::new();
            parser.set_language(&tree_sitter_go::LANGUAGE.into())?;
            for file in part {
                parser.parse(fs::read(file)?, None).context("a tree")?;
            }
            Ok(())
        })
    })?;
    Ok(times.median())
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
