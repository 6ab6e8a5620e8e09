//! Calls that outlive their caller's patience: kept by handle, never started twice.

use crate::{Progress, Reply, ToolError};
use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

pub(crate) type Finished = Result<Reply, ToolError>;

/// A call that goes on while nobody waits. Dropping it cancels the work.
pub(crate) struct Job {
    pub(crate) tool: &'static str,
    pub(crate) progress: Progress,
    pub(crate) task: JoinHandle<Finished>,
    guard: DropGuard,
}

impl Job {
    pub(crate) fn new(
        tool: &'static str,
        progress: Progress,
        task: JoinHandle<Finished>,
        cancel: CancellationToken,
    ) -> Self {
        Self { tool, progress, task, guard: cancel.drop_guard() }
    }

    /// Waits at most `wait`; the job comes back when it needs longer.
    pub(crate) async fn wait(mut self, wait: Option<Duration>) -> Result<Finished, Self> {
        let joined = match wait {
            None => (&mut self.task).await,
            Some(wait) => match tokio::time::timeout(wait, &mut self.task).await {
                Ok(joined) => joined,
                Err(_) => return Err(self),
            },
        };
        let _ = self.guard.disarm();
        Ok(joined.unwrap_or_else(|error| Err(ToolError::Fault(error.into()))))
    }
}

/// The unfinished calls of one session.
#[derive(Default)]
pub(crate) struct Jobs {
    next: AtomicU64,
    kept: Mutex<BTreeMap<String, Job>>,
}

impl Jobs {
    pub(crate) fn keep(&self, job: Job) -> String {
        let handle = format!("h{}", self.next.fetch_add(1, Ordering::Relaxed) + 1);
        self.put_back(handle.clone(), job);
        handle
    }

    pub(crate) fn put_back(&self, handle: String, job: Job) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).insert(handle, job);
    }

    pub(crate) fn take(&self, handle: &str) -> Result<Job, ToolError> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.remove(handle).ok_or_else(|| {
            let known: Vec<&str> = kept.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            ToolError::caller(format!("unknown handle \"{handle}\"; still running: {known}"))
        })
    }

    pub(crate) fn clear(&self) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
