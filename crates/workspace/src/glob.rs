//! Finding files by name.

use std::cmp;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use globset::{Glob, GlobBuilder, GlobMatcher};
use rustix::fd::BorrowedFd;

use crate::beneath::{Root, as_path, split};
use crate::error::FileError;
use crate::path::ContainedPath;
use crate::root::Workspace;
use crate::walk::{Reach, Visit, leaves_out, walk};

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
    /// Places in which the pattern could have matched, left out because something is mounted there.
    pub mounts: Vec<PathBuf>,
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

/// A compiled pattern, how deep it can reach, and what every match must look like.
pub(crate) struct Pattern {
    glob: Glob,
    /// Compiling takes longer than all the rest, so only when it is needed.
    matcher: OnceLock<GlobMatcher>,
    /// Folders it may pass through.
    pub(crate) depth: usize,
    /// Leading folders that are spelled out.
    pub(crate) literal: PathBuf,
    /// One of these ends every match; none: nothing is known.
    endings: Vec<String>,
    /// Whether the ending alone decides.
    by_ending: bool,
}

/// What means something else than itself in a pattern.
const SPECIAL: [char; 9] = ['*', '?', '[', ']', '{', '}', '\\', ',', '!'];

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
        let (before, endings) = endings(tidy);
        let by_ending = before == "**/*" && !tidy[before.len()..].contains('/');
        let matcher = OnceLock::new();
        // an alternative that spans a slash makes "spelled out" and "depth" meaningless
        if tidy.split('/').any(|part| part.matches('{').count() != part.matches('}').count()) {
            return Ok(Self {
                glob,
                matcher,
                depth: usize::MAX,
                literal: PathBuf::new(),
                endings,
                by_ending,
            });
        }
        Ok(Self { glob, matcher, depth, literal, endings, by_ending })
    }

    fn engine(&self) -> &GlobMatcher {
        self.matcher.get_or_init(|| self.glob.compile_matcher())
    }

    /// Whether a file matches, by its path below the folder that was searched.
    pub(crate) fn matches(&self, below: &[u8]) -> bool {
        // most files are not meant, and the engine takes longer than this to say so
        let may =
            self.endings.is_empty() || self.endings.iter().any(|ending| below.ends_with(ending.as_bytes()));
        may && (self.by_ending || self.engine().is_match(as_path(below)))
    }
}

/// Splits a pattern into what ends every match and what stands before that. The ending may be a list in braces.
fn endings(pattern: &str) -> (&str, Vec<String>) {
    let tail = |text: &str| text.rfind(SPECIAL).map_or(0, |at| at + 1);
    let at = tail(pattern);
    if at < pattern.len() {
        let (before, ending) = pattern.split_at(at);
        // `**/x` matches `x` too
        return (before, vec![ending.trim_start_matches('/').to_owned()]);
    }
    let list = pattern.strip_suffix('}').and_then(|rest| rest.rsplit_once('{'));
    let Some((stem, list)) = list else { return (pattern, Vec::new()) };
    let special = |c: char| c == '/' || (c != ',' && SPECIAL.contains(&c));
    if list.contains(special) || stem.ends_with('\\') {
        return (pattern, Vec::new());
    }
    let (before, ending) = stem.split_at(tail(stem));
    let ending = ending.trim_start_matches('/');
    (before, list.split(',').map(|one| format!("{ending}{one}")).collect())
}

impl Workspace {
    /// Finds files by name, in the live list or by walking the tree.
    pub fn glob(&self, query: &GlobQuery, cancel: &AtomicBool) -> Result<GlobReply, GlobError> {
        let pattern = Pattern::new(&query.pattern)?;
        let base = query.path.relative();
        self.check_folder(&query.path)?;
        let inside = base.as_os_str().as_bytes();
        let wanted = |path: &[u8]| {
            let below = match inside {
                [] => Some(path),
                _ => path.strip_prefix(inside).and_then(|rest| rest.strip_prefix(b"/")),
            };
            below.is_some_and(|below| pattern.matches(below))
        };
        if let Some(reply) = self.live_newest(base, query.fresh, query.limit, wanted) {
            return Ok(GlobReply { mounts: self.mounts_within(base, &pattern), ..reply });
        }
        let _hurry = self.hurry();
        // joining nothing would leave a slash at the end
        let start: PathBuf = base.components().chain(pattern.literal.components()).collect();
        if start != base && leaves_out(self, base, &start) {
            return Ok(GlobReply::default());
        }
        let depth = pattern.depth.saturating_sub(pattern.literal.components().count());
        let depth = if pattern.depth == usize::MAX { usize::MAX } else { depth };
        let dater = || Dater { root: &self.root, wanted: &wanted, found: Vec::new() };
        let found = walk(self, &Reach { start: &start, depth, cancel }, dater);
        if cancel.load(Ordering::Relaxed) {
            return Err(FileError::Cancelled.into());
        }
        let reply = newest(found.into_iter().flat_map(|part| part.found).collect(), query.limit);
        Ok(GlobReply { mounts: self.mounts_within(base, &pattern), ..reply })
    }

    /// Mounts below `base` in which the pattern could have matched.
    fn mounts_within(&self, base: &Path, pattern: &Pattern) -> Vec<PathBuf> {
        let mut mounts = self.left_out_mounts(base);
        mounts.retain(|place| {
            let Ok(below) = place.strip_prefix(base) else { return false };
            let on_the_way = below.starts_with(&pattern.literal) || pattern.literal.starts_with(below);
            on_the_way
                && (below.components().count() <= pattern.depth
                    || pattern.matches(below.as_os_str().as_bytes()))
        });
        mounts
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
}

/// Keeps the files that are wanted, each with its time, taken while its folder is open.
struct Dater<'g, W> {
    root: &'g Root,
    wanted: &'g W,
    found: Vec<Dated>,
}

impl<W: Fn(&[u8]) -> bool + Sync> Visit for Dater<'_, W> {
    fn file(&mut self, folder: BorrowedFd<'_>, path: &Path) {
        if (self.wanted)(path.as_os_str().as_bytes())
            && let Some((_, name)) = split(path)
            && let Some(modified) = self.root.modified_in(folder, name)
        {
            self.found.push((modified, path.into()));
        }
    }
}

/// A file, and when it was modified last.
type Dated = ((i64, i64), Box<Path>);

/// The `limit` newest, newest first, ties by path.
fn newest(mut found: Vec<Dated>, limit: usize) -> GlobReply {
    let total = found.len();
    let order = |a: &Dated, b: &Dated| {
        b.0.cmp(&a.0).then_with(|| a.1.as_os_str().as_bytes().cmp(b.1.as_os_str().as_bytes()))
    };
    first(&mut found, limit, order);
    let files = found.into_iter().map(|(_, path)| path.into_path_buf()).collect();
    GlobReply { files, total, mounts: Vec::new() }
}

/// Leaves the first `limit`, in order.
pub(crate) fn first<T>(found: &mut Vec<T>, limit: usize, mut order: impl FnMut(&T, &T) -> cmp::Ordering) {
    if limit == 0 {
        found.clear();
    } else if limit < found.len() {
        found.select_nth_unstable_by(limit - 1, &mut order);
        found.truncate(limit);
    }
    found.sort_unstable_by(order);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is known about the endings never changes what matches.
    #[test]
    fn endings_decide_as_the_engine_does() {
        let pieces = [
            "**/*", "**/", "*", "a", ".rs", "/", "{a,b}", "{.rs,}", "[ab]", "?", "\\*", "b", ".{rs,b}", "**",
            "!", ",",
        ];
        let names = [
            "a", "b", ".rs", "a.rs", "a/b", "a/.rs", "b/a.rs", "a/b/a.rs", "a.b", "*", "a/*", "*.rs", "!",
            ",", "x\n.rs",
        ];
        let mut seed = 0x9E37_79B9_7F4A_7C15_u64;
        let mut random = |n: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed >> 11) as usize % n
        };
        let (mut tried, mut matched, mut short) = (0, 0, 0);
        while tried < 3000 {
            let text: String = (0..=random(4)).map(|_| pieces[random(pieces.len())]).collect();
            let Ok(pattern) = Pattern::new(&text) else { continue };
            tried += 1;
            short += usize::from(pattern.by_ending);
            for name in names {
                let engine = pattern.engine().is_match(name);
                matched += usize::from(engine);
                assert_eq!(pattern.matches(name.as_bytes()), engine, "{text:?} on {name:?}");
            }
        }
        assert!(matched > 1000 && short > 20, "{matched} {short}");
    }
}
