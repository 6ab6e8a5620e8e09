//! Calls that outlive their caller's patience: kept by handle, never started twice.

use crate::{Progress, Reply, ToolError};
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Finished calls that nobody asked for again: the oldest go beyond this.
const MAX_FINISHED: usize = 16;

pub(crate) type Finished = Result<Reply, ToolError>;

/// A call that goes on while nobody waits. Dropping it cancels the work.
pub(crate) struct Job {
    pub(crate) tool: &'static str,
    /// The arguments it was made with.
    asked: Map<String, Value>,
    pub(crate) progress: Progress,
    pub(crate) task: JoinHandle<Finished>,
    guard: DropGuard,
}

impl Job {
    pub(crate) fn new(
        tool: &'static str,
        asked: Map<String, Value>,
        progress: Progress,
        task: JoinHandle<Finished>,
        cancel: CancellationToken,
    ) -> Self {
        Self { tool, asked, progress, task, guard: cancel.drop_guard() }
    }

    /// A call that goes on cannot become another one: what is asked besides must be what was asked then.
    fn check(&self, asked: &Map<String, Value>) -> Result<(), ToolError> {
        let other: Vec<String> = asked
            .iter()
            .filter(|(key, _)| !matches!(key.as_str(), "handle" | "wait"))
            .filter(|(key, value)| self.asked.get(*key) != Some(value))
            .map(|(key, _)| format!("`{key}`"))
            .collect();
        if other.is_empty() {
            return Ok(());
        }
        let (tool, other) = (self.tool, other.join(", "));
        Err(ToolError::with_hint(
            format!("{tool}: `handle` goes on with the call it came from, so {other} would be ignored"),
            format!("leave out {other} to go on waiting, or `handle` to make another call"),
        ))
    }

    /// Waits at most `wait`; nothing when it needs longer.
    pub(crate) async fn wait(&mut self, wait: Option<Duration>) -> Option<Finished> {
        let joined = match wait {
            None => (&mut self.task).await,
            Some(wait) => tokio::time::timeout(wait, &mut self.task).await.ok()?,
        };
        Some(joined.unwrap_or_else(|error| Err(ToolError::Fault(error.into()))))
    }

    /// The work has ended by itself.
    pub(crate) fn done(self) {
        let _ = self.guard.disarm();
    }

    /// Cancels the work; returns when that has ended.
    pub(crate) async fn stop(self) {
        drop(self.guard);
        let _ = self.task.await;
    }
}

/// The calls of one session that were answered before they ended.
#[derive(Default)]
pub(crate) struct Jobs(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    last: u64,
    closed: bool,
    /// By number; nothing in the place of a job that another call waits for.
    jobs: BTreeMap<u64, Option<Job>>,
}

impl Jobs {
    /// Keeps a job under a new handle.
    pub(crate) fn keep(&self, job: Job) -> String {
        let mut kept = self.lock();
        kept.last += 1;
        let number = kept.last;
        kept.put(number, job);
        handle(number)
    }

    /// The job of `tool` behind a handle, which stays reserved meanwhile.
    pub(crate) fn take(
        &self,
        tool: &str,
        wanted: &str,
        asked: &Map<String, Value>,
    ) -> Result<(Reservation<'_>, Job), ToolError> {
        let mut kept = self.lock();
        let number = wanted.strip_prefix('h').and_then(|number| number.parse::<u64>().ok());
        let Some((number, slot)) = number.and_then(|number| Some((number, kept.jobs.get_mut(&number)?)))
        else {
            let known: Vec<String> = kept.jobs.keys().copied().map(handle).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(ToolError::with_hint(
                format!("unknown handle \"{wanted}\"; open handles: {known}"),
                "leave out `handle` to make the call anew",
            ));
        };
        match slot {
            None => Err(ToolError::with_hint(
                format!("another call already waits for handle \"{wanted}\""),
                "let that call end, or cancel it",
            )),
            Some(job) if job.tool != tool => Err(ToolError::with_hint(
                format!("handle \"{wanted}\" belongs to {}, not to {tool}", job.tool),
                format!("call {} with it", job.tool),
            )),
            Some(job) => {
                job.check(asked)?;
                let job = slot.take().ok_or(ToolError::Cancelled)?;
                Ok((Reservation { jobs: self, number: Some(number) }, job))
            }
        }
    }

    /// Cancels all, now and from now on.
    pub(crate) fn close(&self) {
        let mut kept = self.lock();
        kept.closed = true;
        kept.jobs.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A handle whose job somebody waits for. The handle is gone when the wait ends, unless the job is put back.
pub(crate) struct Reservation<'a> {
    jobs: &'a Jobs,
    number: Option<u64>,
}

impl Reservation<'_> {
    /// Keeps the job under the handle it had.
    pub(crate) fn put_back(mut self, job: Job) -> String {
        self.number.take().map_or_else(String::new, |number| {
            self.jobs.lock().put(number, job);
            handle(number)
        })
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.jobs.lock().jobs.remove(&number);
        }
    }
}

impl Kept {
    fn put(&mut self, number: u64, job: Job) {
        // Dropping the job cancels it.
        if self.closed {
            return;
        }
        self.jobs.insert(number, Some(job));
        let ended = |job: &Option<Job>| job.as_ref().is_some_and(|job| job.task.is_finished());
        let finished: Vec<u64> =
            self.jobs.iter().filter(|(_, job)| ended(job)).map(|(number, _)| *number).collect();
        for number in finished.iter().rev().skip(MAX_FINISHED) {
            self.jobs.remove(number);
        }
    }
}

fn handle(number: u64) -> String {
    format!("h{number}")
}
