//! Searching many files, on as many threads as that is worth.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use super::file::{Found, Worker};
use super::plan::Plan;
use super::{FileHits, GrepError, GrepSummary, OutputMode};
use crate::error::FileError;
use crate::root::Workspace;
use crate::walk::threads;

/// Below this many files one thread is quicker than starting others.
const ALONE: usize = 160;
/// Files that a thread takes at a time: few while few are left, for the first are wanted soon.
const BLOCK: std::ops::RangeInclusive<usize> = 16..=64;
/// Blocks that a large search is cut into, at least.
const BLOCKS: usize = 256;
/// Blocks that threads may run ahead of the one that is next to be shown.
const AHEAD: usize = 64;

/// A search under way.
pub(super) struct Search<'s> {
    workspace: &'s Workspace,
    plan: &'s Plan<'s>,
    cancel: &'s AtomicBool,
    worker: Worker<'s>,
    out: Collected<'s>,
}

impl<'s> Search<'s> {
    pub(super) fn new(
        workspace: &'s Workspace,
        plan: &'s Plan<'s>,
        cancel: &'s AtomicBool,
        sink: &'s mut dyn FnMut(FileHits) -> ControlFlow<()>,
    ) -> Self {
        let (summary, limit, mode) = (GrepSummary::default(), plan.query.head_limit, plan.query.mode);
        let out = Collected { sink, summary, limit, mode };
        Self { workspace, plan, cancel, worker: Worker::new(workspace, plan, cancel), out }
    }

    /// Searches these files, which must be in path order, and hands on what is found in that order; says when it is
    /// enough.
    pub(super) fn run<P: AsRef<Path> + Sync>(
        &mut self,
        candidates: &[P],
    ) -> Result<ControlFlow<()>, GrepError> {
        self.out.summary.candidates += candidates.len();
        let (first, rest) = candidates.split_at(ALONE.min(candidates.len()));
        for path in first {
            if self.cancel.load(Ordering::Relaxed) {
                return Err(FileError::Cancelled.into());
            }
            let left = self.out.left();
            if self.out.take(self.worker.search(path.as_ref(), left)).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        let mut enough = ControlFlow::Continue(());
        if !rest.is_empty() {
            enough = in_parallel(self.workspace, self.plan, rest, self.cancel, &mut self.out);
        }
        if self.cancel.load(Ordering::Relaxed) {
            return Err(FileError::Cancelled.into());
        }
        Ok(enough)
    }

    pub(super) fn summary(self) -> GrepSummary {
        self.out.summary
    }
}

/// What threads have finished and the caller has not yet taken.
struct Shelf {
    /// Files in a block.
    block: usize,
    blocks: Mutex<BTreeMap<usize, Vec<Found>>>,
    changed: Condvar,
    next: AtomicUsize,
    taken: AtomicUsize,
    stop: AtomicBool,
}

fn in_parallel<P: AsRef<Path> + Sync>(
    workspace: &Workspace,
    plan: &Plan<'_>,
    candidates: &[P],
    cancel: &AtomicBool,
    out: &mut Collected<'_>,
) -> ControlFlow<()> {
    let block = (candidates.len() / BLOCKS).clamp(*BLOCK.start(), *BLOCK.end());
    let total = candidates.len().div_ceil(block);
    let shelf = Shelf {
        block,
        blocks: Mutex::new(BTreeMap::new()),
        changed: Condvar::new(),
        next: AtomicUsize::new(0),
        taken: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
    };
    std::thread::scope(|scope| {
        for _ in 0..threads() {
            scope.spawn(|| shelf.fill(workspace, plan, candidates, cancel));
        }
        for wanted in 0..total {
            let mut blocks = shelf.blocks.lock().unwrap_or_else(PoisonError::into_inner);
            let block = loop {
                if let Some(block) = blocks.remove(&wanted) {
                    break block;
                }
                if cancel.load(Ordering::Relaxed) {
                    drop(blocks);
                    shelf.halt();
                    return ControlFlow::Break(());
                }
                blocks = shelf.changed.wait(blocks).unwrap_or_else(PoisonError::into_inner);
            };
            shelf.taken.store(wanted + 1, Ordering::Relaxed);
            drop(blocks);
            shelf.changed.notify_all();
            for found in block {
                if out.take(found).is_break() {
                    shelf.halt();
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    })
}

impl Shelf {
    fn halt(&self) {
        // under the lock, or a thread that is about to wait would not hear of it
        let blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        self.stop.store(true, Ordering::Relaxed);
        drop(blocks);
        self.changed.notify_all();
    }

    fn fill<P: AsRef<Path>>(
        &self,
        workspace: &Workspace,
        plan: &Plan<'_>,
        candidates: &[P],
        cancel: &AtomicBool,
    ) {
        let mut worker = Worker::new(workspace, plan, cancel);
        let limit = match plan.query.head_limit {
            0 => usize::MAX,
            n => n,
        };
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let from = number * self.block;
            if from >= candidates.len() || self.stop.load(Ordering::Relaxed) {
                return;
            }
            let until = (from + self.block).min(candidates.len());
            let block = candidates[from..until].iter().map(|path| worker.search(path.as_ref(), limit));
            let block: Vec<Found> = block.filter(|found| !matches!(found, Found::Nothing)).collect();
            let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
            // the block that is wanted next always has room, so this cannot wait for itself
            while number > self.taken.load(Ordering::Relaxed) + AHEAD && !self.stop.load(Ordering::Relaxed) {
                blocks = self.changed.wait(blocks).unwrap_or_else(PoisonError::into_inner);
            }
            blocks.insert(number, block);
            // the caller waits for one block only: waking it for others costs more than searching them
            let wanted = number == self.taken.load(Ordering::Relaxed);
            drop(blocks);
            let cancelled = cancel.load(Ordering::Relaxed);
            if wanted || cancelled {
                self.changed.notify_all();
            }
            if cancelled {
                return;
            }
        }
    }
}

/// Counts what is handed on and says when it is enough.
struct Collected<'s> {
    sink: &'s mut dyn FnMut(FileHits) -> ControlFlow<()>,
    summary: GrepSummary,
    limit: usize,
    mode: OutputMode,
}

impl Collected<'_> {
    fn used(&self) -> usize {
        match self.mode {
            OutputMode::Content => self.summary.matches as usize,
            OutputMode::FilesWithMatches | OutputMode::Count => self.summary.files,
        }
    }

    /// Matches that may still be handed on.
    fn left(&self) -> usize {
        if self.limit == 0 { usize::MAX } else { self.limit - self.used() }
    }

    fn take(&mut self, found: Found) -> ControlFlow<()> {
        match found {
            Found::Nothing => ControlFlow::Continue(()),
            Found::Failed(path, why) => {
                self.summary.unsearched.push((path, why));
                ControlFlow::Continue(())
            }
            Found::Hits(mut hits) => {
                if self.mode == OutputMode::Content {
                    trim(&mut hits, self.left());
                }
                self.summary.files += 1;
                self.summary.matches += hits.count;
                (self.sink)(hits)?;
                if self.left() == 0 {
                    self.summary.limited = true;
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            }
        }
    }
}

/// Keeps the first `left` matches and their context.
fn trim(hits: &mut FileHits, left: usize) {
    if hits.count <= left as u64 {
        return;
    }
    let mut seen = 0;
    let extra = hits.lines.iter().position(|line| {
        seen += usize::from(line.starts);
        seen > left
    });
    hits.lines.truncate(extra.unwrap_or(hits.lines.len()));
    hits.count = left as u64;
}
