//! Searching text: ripgrep's engine over files opened below the root, results in path order however many threads work.
//!
//! `plan` makes a query ready, `file` searches one file, `run` many of them; `watched` is the engine for what may take long.

mod file;
mod plan;
mod run;
mod watched;

use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use rustix::fs::FileType;

pub(crate) use self::file::WHOLE;
pub(crate) use self::plan::Matchers;

use self::plan::Plan;
use self::run::Search;
use crate::error::FileError;
use crate::live::{Need, Part, Rel};
use crate::path::ContainedPath;
use crate::root::Workspace;
use crate::walk::{Reach, files};

/// Candidates that a search with a limit asks for first; then eight times as many, and so on.
const FIRST: usize = 128;

/// What a search gives back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputMode {
    /// Matching lines.
    #[default]
    Content,
    /// Files that match.
    FilesWithMatches,
    /// Files with the number of their matching lines.
    Count,
}

/// What to search for, and where.
#[derive(Clone, Debug)]
pub struct GrepQuery {
    /// A regular expression in Rust's syntax.
    pub pattern: String,
    /// A folder or a file.
    pub path: ContainedPath,
    /// Only files that match this glob, as `rg -g` takes it; `!` in front leaves them out.
    pub glob: Option<String>,
    /// Whether upper and lower case are the same.
    pub case_insensitive: bool,
    /// What to give back.
    pub mode: OutputMode,
    /// How many matching lines (or files) to give back; 0 for all.
    pub head_limit: usize,
    /// Lines of context before and after a match.
    pub context: usize,
    /// Whether a match may span lines; `.` then matches line ends too.
    pub multiline: bool,
    /// Whether to trust stat data alone and no event, for this one call.
    pub fresh: bool,
}

impl GrepQuery {
    /// Searches for `pattern` below `path`, with everything else at its default.
    pub fn new(pattern: impl Into<String>, path: ContainedPath) -> Self {
        Self {
            pattern: pattern.into(),
            path,
            glob: None,
            case_insensitive: false,
            mode: OutputMode::default(),
            head_limit: 0,
            context: 0,
            multiline: false,
            fresh: false,
        }
    }
}

/// A line of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HitLine {
    /// Its number, from 1.
    pub number: u64,
    /// Its text, cut when it is long.
    pub text: String,
    /// What was cut away.
    pub cut: Option<Box<Cut>>,
    /// Whether it stands there only as context.
    pub context: bool,
    /// Whether lines were left out between the one before and this one (with context only).
    pub gap: bool,
    /// Whether a match starts in it; the further lines of a match that spans several are neither this nor context.
    pub starts: bool,
}

/// The rest of a line that was cut, as far as it is near the part that is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Where in the text that part stands.
    pub shown: Range<usize>,
    /// What comes before it, at most 4 KiB.
    pub before: String,
    /// What comes behind it, as much.
    pub after: String,
}

/// What was found in one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHits {
    /// The file, relative to the workspace's root.
    pub path: Box<Path>,
    /// Matching lines with their context; empty unless content was asked for.
    pub lines: Vec<HitLine>,
    /// Matching lines; 1 when only the file was asked for.
    pub count: u64,
}

/// What a search did.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct GrepSummary {
    /// Files that were looked at.
    pub candidates: usize,
    /// Files given back.
    pub files: usize,
    /// Matches given back.
    pub matches: u64,
    /// Whether `head_limit` stopped the search; there may be more.
    pub limited: bool,
    /// Files that could not be searched to their end, and why.
    pub unsearched: Vec<(String, String)>,
    /// Places below the folder that were left out because something is mounted there.
    pub mounts: Vec<PathBuf>,
}

/// A search that could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GrepError {
    /// The pattern is no regular expression; the message holds the reason and a caret.
    #[error("{0}")]
    Pattern(String),
    /// The `glob` is none.
    #[error("invalid glob: {0}")]
    Glob(String),
    /// The place cannot be searched.
    #[error(transparent)]
    File(#[from] FileError),
}

impl Workspace {
    /// Searches the live index, or by walking the tree. `sink` gets the files in path order as they become known and
    /// may stop the search.
    pub fn grep(
        &self,
        query: &GrepQuery,
        cancel: &AtomicBool,
        sink: &mut dyn FnMut(FileHits) -> ControlFlow<()>,
    ) -> Result<GrepSummary, GrepError> {
        let plan = Plan::new(query, &self.matchers)?;
        let start = query.path.relative();
        let stat = self.lstat(start).map_err(|errno| FileError::from_errno(errno, "search", &query.path))?;
        let mut search = Search::new(self, &plan, cancel, sink);
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            crate::read::check_regular(&stat, &query.path)?;
            let _ = search.run(&[start])?;
            let mut summary = search.summary();
            if !summary.limited && summary.unsearched.is_empty() {
                let why = file::left_out(self, start, cancel).map(|why| (query.path.to_string(), why));
                summary.unsearched.extend(why);
            }
            return Ok(summary);
        }
        let need = Need::of(&query.pattern, query.case_insensitive, query.multiline);
        self.refresh_live(query.fresh);
        let limited = query.head_limit > 0;
        let mut count = if limited { FIRST } else { usize::MAX };
        let mut last: Option<Rel> = None;
        loop {
            let part = Part { after: last.as_ref(), count, rough: limited && last.is_none() };
            let Some(mut candidates) = self.live_candidates(start, &need, &part) else { break };
            let more = candidates.len() == count;
            last = candidates.last().cloned();
            candidates.retain(|path| plan.wants(path.as_ref()));
            if search.run(&candidates)?.is_break() || !more {
                return Ok(self.with_mounts(search.summary(), start));
            }
            count = count.saturating_mul(8);
        }
        // not known, or no longer: what is left is found by walking
        let _hurry = self.hurry();
        let mut candidates = files(self, &Reach { start, depth: usize::MAX, cancel });
        let left = |path: &Path| last.as_ref().is_none_or(|last| Rel::new(path) > *last);
        candidates.retain(|path| left(path) && plan.wants(path));
        let _ = search.run(&candidates)?;
        Ok(self.with_mounts(search.summary(), start))
    }

    fn with_mounts(&self, summary: GrepSummary, start: &Path) -> GrepSummary {
        GrepSummary { mounts: self.left_out_mounts(start), ..summary }
    }
}
