//! What the latest test run of a session left for the tools that come after it.

use ::verify::TestRun;
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// The latest runs, by workspace.
#[derive(Default)]
pub(crate) struct Memory(Mutex<BTreeMap<String, Latest>>);

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
}

impl Memory {
    pub(super) fn keep(&self, workspace: &str, latest: Latest) {
        self.lock().insert(workspace.to_owned(), latest);
    }

    pub(super) fn latest(&self, workspace: &str) -> Option<Latest> {
        self.lock().get(workspace).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Latest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
