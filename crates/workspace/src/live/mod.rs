//! The live workspace: what is in the tree is known, kept right by one journal of changes, and shared by all sessions.
//!
//! A query first drains the journal itself and then answers from what is known, so nothing that was done before it is
//! missed. Three modes, chosen by file system and limits: **events** as described, with a sweep in the background for
//! the few changes that send none; **stat**, in which every query compares everything with the file system; **scan**,
//! the plain walk, which also serves until the index is there and for folders that are ignored.
//!
//! `journal` reads the kernel's events, `state` takes them into account, `scan` looks through folders, `check` compares
//! with the file system; `files` holds what is known, with `names` for Glob and `trigram` and `need` for Grep.

mod check;
mod files;
mod gate;
mod journal;
mod listing;
mod log;
mod look;
mod names;
mod need;
mod rel;
mod scan;
mod stamp;
mod state;
mod status;
mod trigram;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

pub use self::listing::Listing;
pub(crate) use self::need::Need;
pub(crate) use self::rel::Rel;
pub(crate) use self::state::Mark;
pub use self::status::{LiveStatus, Mode};

use self::check::Sweep;
use self::gate::{Gate, Hurry};
use self::state::State;
use crate::beneath::as_path;
use crate::glob::GlobReply;
use crate::root::Workspace;

/// How a workspace is kept in memory.
#[derive(Clone, Copy, Debug)]
pub struct LiveOptions {
    /// Bytes it may take; past it the largest files leave the index, and past that the mode is [`Mode::Scan`].
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

/// What changed in a workspace since a cursor.
#[derive(Clone, Debug)]
pub struct Changes {
    /// The cursor for the next time.
    pub cursor: u64,
    /// Files and symlinks that were made, changed or removed, and perhaps some that were not; `None`: unknown, look
    /// at everything.
    pub paths: Option<Vec<PathBuf>>,
}

/// A sweep takes at most one part in so many of one core.
const SWEEP_SHARE: u32 = 250;

pub(crate) struct Live {
    state: Mutex<Option<State>>,
    gate: Arc<Gate>,
}

impl Drop for Live {
    fn drop(&mut self) {
        self.gate.close();
    }
}

impl Live {
    fn lock(&self) -> MutexGuard<'_, Option<State>> {
        self.try_lock().unwrap_or_else(|| {
            // a sweep in parts lets others in between
            let _hurry = self.gate.hurry();
            self.state.lock().unwrap_or_else(PoisonError::into_inner)
        })
    }

    /// Only when nobody else is at it.
    fn try_lock(&self) -> Option<MutexGuard<'_, Option<State>>> {
        match self.state.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// Which part of the candidates is asked for.
pub(crate) struct Part<'a> {
    /// Only what comes behind this path.
    pub(crate) after: Option<&'a Rel>,
    /// At most so many.
    pub(crate) count: usize,
    /// Sooner, with more that do not match.
    pub(crate) rough: bool,
}

impl Workspace {
    /// Starts to keep the tree in memory, in the background; a second call does nothing. Removes litter on the way.
    pub fn go_live(self: &Arc<Self>, options: LiveOptions) {
        let gate = Arc::new(Gate::default());
        if self.live.set(Live { state: Mutex::new(None), gate: Arc::clone(&gate) }).is_err() {
            return;
        }
        let weak = Arc::downgrade(self);
        // without the thread every query walks, which is slower and as right
        let _ =
            std::thread::Builder::new().name("journal".to_owned()).spawn(move || tend(&weak, &gate, options));
    }

    /// The same, and waits until the index is there; without sweeps in the background.
    pub fn go_live_now(self: &Arc<Self>, options: LiveOptions) {
        let gate = Arc::new(Gate::default());
        let state = State::build(self, options, &gate);
        let _ = self.live.set(Live { state: Mutex::new(Some(state)), gate });
    }

    /// How the live workspace stands; `None` while it is not there.
    pub fn live_status(&self) -> Option<LiveStatus> {
        self.live.get()?.lock().as_ref().map(LiveStatus::of)
    }

    /// What changed since `cursor`, which came from an earlier call; 0 to begin with. Everything that was done before
    /// the call is in it, but for what only a [`sweep`](Self::sweep) finds. `None` while the live workspace is not
    /// there or the mode is scan.
    pub fn changes_since(&self, cursor: u64) -> Option<Changes> {
        let mut guard = self.live.get()?.lock();
        let state = guard.as_mut()?;
        state.refresh_all(self, false);
        if state.mode == Mode::Scan {
            return None;
        }
        let paths = state.log.since(cursor).filter(|_| cursor > 0 || state.log.cursor() == 0);
        let paths =
            paths.map(|paths| paths.iter().map(|path| AsRef::<Path>::as_ref(path).to_owned()).collect());
        Some(Changes { cursor: state.log.cursor(), paths })
    }

    /// The same while changes are known by events; `None` in every other mode, and while the index is being built.
    pub(crate) fn events_since(&self, cursor: u64) -> Option<Changes> {
        let events = self.live.get()?.lock().as_ref().is_some_and(|state| state.mode == Mode::Events);
        if events { self.changes_since(cursor) } else { None }
    }

    /// A cursor from which on no change will be missing, though some may be old; `None` where [`Self::events_since`]
    /// is. Costs nothing: whatever waits to be looked at waits on.
    pub(crate) fn events_cursor(&self) -> Option<u64> {
        let guard = self.live.get()?.lock();
        guard.as_ref().filter(|state| state.mode == Mode::Events).map(|state| state.log.cursor())
    }

    /// Whether nothing changed since `cursor`, as far as that can be told without waiting for anybody and without
    /// looking at changed files. `false` says nothing.
    pub(crate) fn quiet_since(&self, cursor: u64) -> bool {
        let Some(mut guard) = self.live.get().and_then(Live::try_lock) else { return false };
        guard.as_mut().is_some_and(|state| {
            state.nothing_queued() && {
                state.refresh_all(self, false);
                state.mode == Mode::Events && state.log.cursor() == cursor
            }
        })
    }

    /// Whether no event tells of a change since `cursor`, without a look at anything else. `false` says nothing.
    pub(crate) fn silent_since(&self, cursor: u64) -> bool {
        let Some(mut guard) = self.live.get().and_then(Live::try_lock) else { return false };
        guard.as_mut().is_some_and(|state| {
            state.nothing_queued() && state.log.cursor() == cursor && state.files.uncertain().is_empty()
        })
    }

    /// Whether a file is known to be part of the workspace. `false` says nothing.
    pub(crate) fn live_knows(&self, path: &Path) -> bool {
        let Some(live) = self.live.get() else { return false };
        live.lock().as_ref().is_some_and(|state| state.files.contains(&Rel::new(path)))
    }

    /// Looks once for changes that sent no event, as the background does.
    pub fn sweep(&self) {
        let Some(live) = self.live.get() else { return };
        let mut from = Sweep::Folders(None);
        loop {
            live.gate.wait();
            let mut guard = live.lock();
            let Some(state) = guard.as_mut() else { return };
            if state.mode != Mode::Events {
                return;
            }
            match state.sweep(self, from) {
                Some(next) => from = next,
                None => {
                    state.counters.sweeps += 1;
                    return;
                }
            }
        }
    }

    /// Keeps the background from its work while somebody waits for a look at everything.
    pub(crate) fn hurry(&self) -> Option<Hurry<'_>> {
        self.live.get().map(|live| live.gate.hurry())
    }

    /// Makes what is known true for everything that happened before this call.
    pub(crate) fn refresh_live(&self, by_stat: bool) {
        if let Some(live) = self.live.get()
            && let Some(state) = live.lock().as_mut()
        {
            state.refresh(self, by_stat);
        }
    }

    /// Files below `start` that may match, in order, as known since the last refresh; `None` when only a walk can tell.
    pub(crate) fn live_candidates(&self, start: &Path, need: &Need, part: &Part<'_>) -> Option<Vec<Rel>> {
        let guard = self.live.get()?.lock();
        let state = guard.as_ref()?;
        let start = Rel::new(start);
        state.folders.contains_key(&start).then(|| state.files.candidates(&start, need, part))
    }

    /// Files below `start` whose paths are `wanted`, the newest first; `None` when only a walk can tell.
    pub(crate) fn live_newest(
        &self,
        start: &Path,
        by_stat: bool,
        limit: usize,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Option<GlobReply> {
        let mut guard = self.live.get()?.lock();
        let state = guard.as_mut()?;
        state.refresh_all(self, by_stat);
        if !state.folders.contains_key(&Rel::new(start)) {
            return None;
        }
        let (files, total) = state.files.newest(limit, wanted);
        let files = files.into_iter().map(|path| as_path(path).to_owned()).collect();
        Some(GlobReply { files, total, mounts: Vec::new() })
    }

    /// Now, for the question whether a file is touched from here on; `None` when events cannot tell, or not at once.
    pub(crate) fn mark(&self) -> Option<Mark> {
        self.live.get()?.try_lock()?.as_mut()?.mark()
    }

    /// Whether events say that a file was touched since `mark`, or may have been. `false` proves nothing.
    pub(crate) fn touched(&self, mark: Mark, path: &Path) -> bool {
        let guard = self.live.get().and_then(Live::try_lock);
        guard.is_none_or(|mut guard| guard.as_mut().is_none_or(|state| state.touched(mark, &Rel::new(path))))
    }

    /// The type of the file system the root lies on.
    fn file_system(&self) -> Option<u64> {
        let root = self.root.open_dir(Path::new("")).ok()?;
        rustix::fs::fstatfs(root).ok().map(|stat| stat.f_type as u64)
    }
}

/// Builds the state, then sweeps for as long as the workspace lives.
fn tend(workspace: &Weak<Workspace>, gate: &Gate, options: LiveOptions) {
    let Some(alive) = workspace.upgrade() else { return };
    let state = State::build(&alive, options, gate);
    if let Some(live) = alive.live.get() {
        *live.lock() = Some(state);
    }
    drop(alive);
    let mut pause = options.sweep;
    loop {
        if gate.sleep(pause) {
            return;
        }
        let Some(alive) = workspace.upgrade() else { return };
        let begin = Instant::now();
        alive.sweep();
        pause = options.sweep.max(begin.elapsed() * SWEEP_SHARE);
    }
}
