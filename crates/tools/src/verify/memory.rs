//! What the latest test run of a session left for the tools that come after it.

use crate::Call;
use ::verify::TestRun;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio_util::sync::{CancellationToken, DropGuard};

/// How long what a cancelled run left behind is waited for.
const SETTLE: Duration = Duration::from_secs(10);

/// The latest runs, by workspace.
#[derive(Default)]
pub(crate) struct Memory {
    latest: Mutex<BTreeMap<String, Latest>>,
    open: Mutex<Vec<Open>>,
    /// What the session was told about where its tests run.
    told: Mutex<BTreeSet<String>>,
}

/// A run whose books are not closed yet.
struct Open {
    cancel: CancellationToken,
    closed: CancellationToken,
}

/// One call of run_tests.
#[derive(Clone)]
pub(super) struct Latest {
    pub(super) when: Instant,
    /// The project folder that was tested, relative to the workspace.
    pub(super) folder: String,
    /// In detection order.
    pub(super) languages: Vec<Tested>,
}

/// What one language's tests said.
#[derive(Clone)]
pub(super) struct Tested {
    pub(super) language: &'static str,
    pub(super) run: TestRun,
    /// The problems in it are those of running failed tests again.
    pub(super) rerun_problems: bool,
}

impl Memory {
    /// What of a sandbox's remark is worth saying: its isolation only once, and in short; everything else always.
    pub(super) fn worth_saying(&self, note: String) -> Option<String> {
        if !note.starts_with("isolation: ") {
            return Some(note);
        }
        let short = note.split(',').next().unwrap_or(&note).to_owned();
        let new = self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(note);
        new.then_some(short)
    }

    pub(super) fn keep(&self, workspace: &str, latest: Latest) {
        self.lock().insert(workspace.to_owned(), latest);
    }

    pub(super) fn latest(&self, workspace: &str) -> Option<Latest> {
        self.lock().get(workspace).cloned()
    }

    /// A run begins; its books are closed when the guard is dropped.
    pub(super) fn begin(&self, cancel: &CancellationToken) -> DropGuard {
        let closed = CancellationToken::new();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|run| !run.closed.is_cancelled());
        open.push(Open { cancel: cancel.clone(), closed: closed.clone() });
        closed.drop_guard()
    }

    /// Waits until cancelled runs have left behind what they had; those that still run are not waited for.
    pub(super) async fn settled(&self) {
        let given_up: Vec<CancellationToken> = {
            let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.iter().filter(|run| run.cancel.is_cancelled()).map(|run| run.closed.clone()).collect()
        };
        let all = async {
            for closed in &given_up {
                closed.cancelled().await;
            }
        };
        // What takes longer than this is not worth waiting for.
        let _ = tokio::time::timeout(SETTLE, all).await;
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Latest>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps what a call of run_tests found, language by language, whether it comes to its end or not.
#[derive(Clone)]
pub(super) struct Keeper {
    call: Call,
    folder: String,
    done: Arc<Mutex<Vec<Tested>>>,
    /// Dropped with the last clone.
    _open: Arc<DropGuard>,
}

impl Keeper {
    pub(super) fn new(call: &Call, folder: &str) -> Self {
        let open = Arc::new(call.session.verified.begin(&call.cancel));
        Self { call: call.clone(), folder: folder.to_owned(), done: Arc::default(), _open: open }
    }

    /// One more language is done, or as done as it will be.
    pub(super) fn add(&self, language: &'static str, run: TestRun) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).push(Tested {
            language,
            run,
            rerun_problems: false,
        });
    }

    /// This is the latest run from now on.
    pub(super) fn keep(&self) {
        let languages = self.done.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let latest = Latest { when: Instant::now(), folder: self.folder.clone(), languages };
        self.call.session.verified.keep(self.call.workspace.name(), latest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn isolation_is_told_once_and_denials_always() {
        let memory = Memory::default();
        let isolated = || "isolation: namespaces + Landlock, network host, memory capped".to_owned();
        assert_eq!(memory.worth_saying(isolated()).as_deref(), Some("isolation: namespaces + Landlock"));
        assert_eq!(memory.worth_saying(isolated()), None);
        assert!(memory.worth_saying("isolation: Landlock, network none".to_owned()).is_some(), "it changed");
        for _ in 0..2 {
            assert!(memory.worth_saying("denied: x".to_owned()).is_some());
        }
    }
}
