//! What a session has read.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use crate::diff::unified_diff;
use crate::path::ContainedPath;
use crate::version::Version;

/// Bytes of content a ledger keeps so that it can show what changed.
const CONTENT_BUDGET: usize = 4 << 20;
const DIFF_LINES: usize = 60;

/// Which content version of which file a session has seen. One per session; it opens no files itself.
#[derive(Debug, Default)]
pub struct Ledger {
    seen: HashMap<ContainedPath, Seen>,
    held: usize,
    clock: u64,
}

#[derive(Debug)]
struct Seen {
    version: Version,
    bytes: Option<Arc<[u8]>>,
    at: u64,
}

/// A file that is no longer what the session read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stale {
    /// What changed since, as a bounded unified diff, or a sentence when the old content was not kept.
    pub changes: String,
}

impl Ledger {
    /// Notes that the session has seen this version. `bytes` is the content, when it is at hand and small.
    pub fn record(&mut self, path: &ContainedPath, version: Version, bytes: Option<Arc<[u8]>>) {
        self.clock += 1;
        self.held += bytes.as_ref().map_or(0, |b| b.len());
        let seen = Seen { version, bytes, at: self.clock };
        if let Some(old) = self.seen.insert(path.clone(), seen) {
            self.held -= old.bytes.map_or(0, |b| b.len());
        }
        while self.held > CONTENT_BUDGET {
            self.drop_oldest();
        }
    }

    /// The version that the session has seen.
    pub fn version(&self, path: &ContainedPath) -> Option<Version> {
        self.seen.get(path).map(|seen| seen.version)
    }

    /// Whether the session has seen the file at this path below the root.
    pub fn has(&self, relative: &Path) -> bool {
        self.seen.contains_key(relative)
    }

    /// The content that the session has seen, if it is still held.
    pub fn content(&self, path: &ContainedPath) -> Option<Arc<[u8]>> {
        self.seen.get(path)?.bytes.clone()
    }

    /// Forgets a file, because it was deleted or renamed.
    pub fn forget(&mut self, path: &ContainedPath) {
        if let Some(old) = self.seen.remove(path) {
            self.held -= old.bytes.map_or(0, |b| b.len());
        }
    }

    /// What changed between the version seen and `now`; `None` when nothing did.
    pub fn stale(&self, path: &ContainedPath, now: &[u8]) -> Option<Stale> {
        let seen = self.seen.get(path)?;
        if seen.version == Version::of(now) {
            return None;
        }
        let changes = match &seen.bytes {
            Some(old) => unified_diff(&path.to_string(), old, now, DIFF_LINES),
            None => format!(
                "it had {} bytes when it was read and has {} now (too large to show the difference)",
                seen.version.len(),
                now.len()
            ),
        };
        Some(Stale { changes })
    }

    fn drop_oldest(&mut self) {
        let oldest = self.seen.values_mut().filter(|seen| seen.bytes.is_some()).min_by_key(|seen| seen.at);
        match oldest {
            Some(seen) => self.held -= seen.bytes.take().map_or(0, |b| b.len()),
            None => self.held = 0,
        }
    }
}
