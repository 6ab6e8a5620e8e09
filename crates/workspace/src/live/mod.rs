//! The live workspace: what is in the tree is known, kept right by one journal of changes, and shared by all sessions.
//!
//! A query first drains the journal itself and then answers from what is known, so nothing that was done before it is
//! missed. Three modes, chosen by file system and limits: **events** as described, with a sweep in the background for
//! the few changes that send none; **stat**, in which every query compares everything with the file system; **scan**,
//! the plain walk, which also serves until the index is there and for folders that are ignored.

mod journal;
mod state;
pub(crate) mod trigram;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

pub(crate) use self::state::Rel;

use self::state::State;
use self::trigram::Need;
use crate::root::Workspace;

/// How answers are kept right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// By events of the kernel, with a sweep for what sends none.
    Events,
    /// By comparing stat data at every query.
    Stat,
    /// By walking the tree at every query.
    Scan,
}

/// How a workspace is kept in memory.
#[derive(Clone, Copy, Debug)]
pub struct LiveOptions {
    /// Bytes the index may take; past it the largest files leave it.
    pub budget: usize,
    /// Watches it may use; past it the mode is [`Mode::Stat`].
    pub max_watches: usize,
    /// The mode, instead of the one that fits the file system.
    pub mode: Option<Mode>,
    /// The least time between two sweeps.
    pub sweep: Duration,
}

impl Default for LiveOptions {
    fn default() -> Self {
        Self { budget: 256 << 20, max_watches: usize::MAX, mode: None, sweep: Duration::from_secs(5) }
    }
}

/// How it stands, for `doctor` and metrics.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LiveStatus {
    /// The mode in force.
    pub mode: Mode,
    /// Why it is that one.
    pub why: String,
    /// Files known.
    pub files: usize,
    /// Folders known.
    pub folders: usize,
    /// Files that every search reads because the index cannot answer for them.
    pub always_read: usize,
    /// Bytes in those files.
    pub text_bytes: u64,
    /// Bytes the index takes.
    pub index_bytes: usize,
    /// Files above this size are left out to stay within the budget.
    pub left_out_above: Option<u64>,
    /// Times the kernel's queue ran over.
    pub overflows: u64,
    /// Folders looked through again.
    pub rescans: u64,
    /// Complete sweeps.
    pub sweeps: u64,
    /// Changes that only a sweep found.
    pub swept_changes: u64,
}

/// What changed in a workspace since a cursor.
#[derive(Clone, Debug)]
pub struct Changes {
    /// The cursor for the next time.
    pub cursor: u64,
    /// Files that were made, changed or removed; `None`: unknown, look at everything.
    pub paths: Option<Vec<PathBuf>>,
}

/// Files of a sweep that are looked at before others get a turn.
const SWEEP_PART: usize = 1024;
/// A sweep takes at most this share of one core.
const SWEEP_SHARE: u32 = 250;

pub(crate) struct Live {
    state: Mutex<Option<State>>,
    stop: Arc<Stop>,
}

#[derive(Default)]
struct Stop {
    flag: AtomicBool,
    lock: Mutex<()>,
    bell: Condvar,
}

impl Drop for Live {
    fn drop(&mut self) {
        self.stop.flag.store(true, Ordering::Relaxed);
        self.stop.bell.notify_all();
    }
}

impl Live {
    fn lock(&self) -> MutexGuard<'_, Option<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Workspace {
    /// Starts to keep the tree in memory, in the background; a second call does nothing. Removes litter on the way.
    pub fn go_live(self: &Arc<Self>, options: LiveOptions) {
        let stop = Arc::new(Stop::default());
        if self.live.set(Live { state: Mutex::new(None), stop: Arc::clone(&stop) }).is_err() {
            return;
        }
        let weak = Arc::downgrade(self);
        // without the thread every query walks, which is slower and as right
        let _ =
            std::thread::Builder::new().name("journal".to_owned()).spawn(move || tend(&weak, &stop, options));
    }

    /// The same, and waits until the index is there.
    pub fn go_live_now(self: &Arc<Self>, options: LiveOptions) {
        let stop = Arc::new(Stop::default());
        let state = State::build(self, options, &stop.flag);
        let _ = self.live.set(Live { state: Mutex::new(Some(state)), stop });
    }

    /// How the live workspace stands; `None` while it is not there.
    pub fn live_status(&self) -> Option<LiveStatus> {
        let guard = self.live.get()?.lock();
        let state = guard.as_ref()?;
        let (files, folders, always_read) = state.counts();
        Some(LiveStatus {
            mode: state.mode,
            why: state.why.clone(),
            files,
            folders,
            always_read,
            text_bytes: state.text_bytes,
            index_bytes: state.index_size(),
            left_out_above: state.limit(),
            overflows: state.counters.overflows,
            rescans: state.counters.rescans,
            sweeps: state.counters.sweeps,
            swept_changes: state.counters.swept_changes,
        })
    }

    /// What changed since `cursor`, which came from an earlier call; 0 to begin with. Everything that was done before
    /// the call is in it. `None` while the live workspace is not there or the mode is scan.
    pub fn changes_since(&self, cursor: u64) -> Option<Changes> {
        let mut guard = self.live.get()?.lock();
        let state = guard.as_mut().filter(|state| state.mode != Mode::Scan)?;
        state.refresh(self, false);
        let paths = state.since(cursor).filter(|_| cursor > 0 || state.cursor() == 0);
        let paths =
            paths.map(|paths| paths.iter().map(|path| AsRef::<Path>::as_ref(path).to_owned()).collect());
        Some(Changes { cursor: state.cursor(), paths })
    }

    /// Looks once for changes that sent no event, as the background does.
    pub fn sweep(&self) {
        let Some(live) = self.live.get() else { return };
        let mut from = None;
        loop {
            let mut guard = live.lock();
            let Some(state) = guard.as_mut() else { return };
            if state.mode != Mode::Events {
                return;
            }
            from = state.sweep(self, from.as_ref(), SWEEP_PART);
            if from.is_none() {
                state.counters.sweeps += 1;
                return;
            }
        }
    }

    /// Files below `start` that may match, or `None` when only a walk can tell.
    pub(crate) fn live_candidates(&self, start: &Path, need: &Need, by_stat: bool) -> Option<Vec<Rel>> {
        let mut guard = self.live.get()?.lock();
        let state = guard.as_mut()?;
        state.refresh(self, by_stat);
        state.candidates(&Rel::new(start), need)
    }

    /// Files below `start` that `wanted` lets through, with their times.
    #[expect(clippy::type_complexity, reason = "time and path, as the walk gives them")]
    pub(crate) fn live_files(
        &self,
        start: &Path,
        by_stat: bool,
        wanted: &dyn Fn(&Path) -> bool,
    ) -> Option<Vec<((i64, i64), Box<Path>)>> {
        let mut guard = self.live.get()?.lock();
        let state = guard.as_mut()?;
        state.refresh(self, by_stat);
        let files = state.files(&Rel::new(start))?;
        let found = files.filter(|(path, _)| wanted((*path).as_ref()));
        Some(found.map(|(path, entry)| (entry.modified(), AsRef::<Path>::as_ref(path).into())).collect())
    }

    /// The type of the file system the root lies on.
    pub(crate) fn file_system(&self) -> Option<u64> {
        let root = self.root.open_dir(Path::new("")).ok()?;
        rustix::fs::fstatfs(root).ok().map(|stat| stat.f_type as u64)
    }
}

/// Builds the state, then sweeps for as long as the workspace lives.
fn tend(workspace: &Weak<Workspace>, stop: &Stop, options: LiveOptions) {
    let Some(alive) = workspace.upgrade() else { return };
    let state = State::build(&alive, options, &stop.flag);
    if let Some(live) = alive.live.get() {
        *live.lock() = Some(state);
    }
    drop(alive);
    let mut pause = options.sweep;
    loop {
        let guard = stop.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = stop.bell.wait_timeout(guard, pause);
        if stop.flag.load(Ordering::Relaxed) {
            return;
        }
        let Some(alive) = workspace.upgrade() else { return };
        let begin = Instant::now();
        alive.sweep();
        pause = options.sweep.max(begin.elapsed() * SWEEP_SHARE);
    }
}
