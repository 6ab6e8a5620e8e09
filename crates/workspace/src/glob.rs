//! Finding files by name.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use globset::{GlobBuilder, GlobMatcher};

use crate::error::FileError;
use crate::path::ContainedPath;
use crate::root::Workspace;
use crate::walk::{Reach, files, leaves_out};

/// Which files to find.
#[derive(Clone, Debug)]
pub struct GlobQuery {
    /// `*`, `?`, `[…]`, `**`, `{a,b}`, matched against the path below `path`. Without a `/` it matches names
    /// in that folder itself only.
    pub pattern: String,
    /// The folder to look in.
    pub path: ContainedPath,
    /// How many files to give back.
    pub limit: usize,
    /// Whether to trust stat data alone and no event, for this one call.
    pub fresh: bool,
}

/// Files that were found, newest first, ties by path.
#[derive(Debug, Default)]
pub struct GlobReply {
    /// Paths relative to the workspace's root.
    pub files: Vec<PathBuf>,
    /// How many matched, whether given back or not.
    pub total: usize,
}

/// A search for names that could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GlobError {
    /// The pattern is no glob.
    #[error("invalid glob {pattern:?}: {why}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        why: String,
    },
    /// The folder cannot be searched.
    #[error(transparent)]
    File(#[from] FileError),
}

/// A compiled pattern and how deep it can reach.
pub(crate) struct Pattern {
    matcher: GlobMatcher,
    /// Folders it may pass through.
    pub(crate) depth: usize,
    /// Leading folders that are spelled out.
    pub(crate) literal: PathBuf,
}

impl Pattern {
    pub(crate) fn new(pattern: &str) -> Result<Self, GlobError> {
        let tidy = pattern.strip_prefix("./").unwrap_or(pattern);
        let glob = GlobBuilder::new(tidy)
            .literal_separator(true)
            .backslash_escape(true)
            .empty_alternates(true)
            .build()
            .map_err(|error| GlobError::Pattern {
                pattern: pattern.to_owned(),
                why: error.kind().to_string(),
            })?;
        let depth = if tidy.contains("**") { usize::MAX } else { tidy.matches('/').count() };
        let mut literal = PathBuf::new();
        let mut parts = tidy.split('/').peekable();
        while let Some(part) = parts.next() {
            let plain =
                !part.is_empty() && !part.contains(['*', '?', '[', '{', '}', '\\', ',']) && part != "..";
            if parts.peek().is_none() || !plain || part == "." {
                break;
            }
            literal.push(part);
        }
        // an alternative that spans a slash makes "spelled out" and "depth" meaningless
        if tidy.split('/').any(|part| part.matches('{').count() != part.matches('}').count()) {
            return Ok(Self { matcher: glob.compile_matcher(), depth: usize::MAX, literal: PathBuf::new() });
        }
        Ok(Self { matcher: glob.compile_matcher(), depth, literal })
    }

    /// Whether a file matches, by its path below the folder that was searched.
    pub(crate) fn matches(&self, below: &Path) -> bool {
        self.matcher.is_match(below)
    }
}

impl Workspace {
    /// Finds files by name, in the live list or by walking the tree.
    pub fn glob(&self, query: &GlobQuery, cancel: &AtomicBool) -> Result<GlobReply, GlobError> {
        let pattern = Pattern::new(&query.pattern)?;
        let base = query.path.relative();
        self.check_folder(&query.path)?;
        let wanted = |path: &Path| path.strip_prefix(base).is_ok_and(|below| pattern.matches(below));
        if let Some(found) = self.live_files(base, query.fresh, &wanted) {
            return Ok(newest(found, query.limit));
        }
        // joining nothing would leave a slash at the end
        let start: PathBuf = base.components().chain(pattern.literal.components()).collect();
        if start != base && leaves_out(self, base, &start) {
            return Ok(GlobReply::default());
        }
        let depth = pattern.depth.saturating_sub(pattern.literal.components().count());
        let depth = if pattern.depth == usize::MAX { usize::MAX } else { depth };
        let all = files(self, &Reach { start: &start, depth, cancel });
        if cancel.load(Ordering::Relaxed) {
            return Err(FileError::Cancelled.into());
        }
        let matching = all
            .into_iter()
            .filter(|path| wanted(path))
            .filter_map(|path| Some((self.modified(&path)?, path)));
        Ok(newest(matching.collect(), query.limit))
    }

    fn check_folder(&self, path: &ContainedPath) -> Result<(), FileError> {
        match self.root.open_dir(&path.relative) {
            Ok(_) => Ok(()),
            Err(rustix::io::Errno::NOTDIR) => Err(FileError::Io {
                action: "search below",
                path: path.to_string(),
                source: std::io::Error::other("it is a file, not a folder"),
            }),
            Err(errno) => Err(FileError::from_errno(errno, "list", path)),
        }
    }

    /// When a file was modified last; `None` when it is gone, or was swapped for something else.
    pub(crate) fn modified(&self, relative: &Path) -> Option<(i64, i64)> {
        let stat = self.lstat(relative).ok()?;
        let regular = rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::RegularFile;
        regular.then_some((stat.st_mtime, stat.st_mtime_nsec as i64))
    }
}

/// The `limit` newest, newest first, ties by path.
pub(crate) fn newest(mut found: Vec<((i64, i64), Box<Path>)>, limit: usize) -> GlobReply {
    let total = found.len();
    let order = |a: &((i64, i64), Box<Path>), b: &((i64, i64), Box<Path>)| {
        b.0.cmp(&a.0).then_with(|| a.1.as_os_str().as_bytes().cmp(b.1.as_os_str().as_bytes()))
    };
    if limit == 0 {
        found.clear();
    } else if limit < total {
        found.select_nth_unstable_by(limit - 1, order);
        found.truncate(limit);
    }
    found.sort_unstable_by(order);
    GlobReply { files: found.into_iter().map(|(_, path)| path.into_path_buf()).collect(), total }
}
