//! Everything a tool may touch while it runs.

use crate::{Access, Host, Place, Progress, Runtime, Session, ToolError, endings::Endings, record::Record};
use sandbox::Narrowing;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;
use workspace::Workspace;

/// What blocks no longer than this may do so where the call runs: about as long as a large reply takes to make.
const MOMENT: Duration = Duration::from_millis(2);

/// How long work that blocks took the last time, in nanoseconds.
pub(crate) struct Pace(AtomicU64);

impl Default for Pace {
    /// Nobody knows yet: for ever.
    fn default() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }
}

impl Pace {
    fn is_quick(&self) -> bool {
        u128::from(self.0.load(Ordering::Relaxed)) < MOMENT.as_nanos()
    }

    fn take<T>(&self, work: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let done = work();
        self.0.store(u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        done
    }
}

/// One call on its way through the pipeline. Nothing is reached through statics: it all hangs here.
#[derive(Clone)]
pub struct Call {
    /// Who calls.
    pub session: Arc<Session>,
    /// What it works on.
    pub workspace: Arc<Workspace>,
    /// Fires when the caller cancels, the session ends or the server stops.
    pub cancel: CancellationToken,
    /// Where progress goes.
    pub progress: Progress,
    /// Where commands run and which hooks look on, as of the call's beginning.
    pub runtime: Arc<Runtime>,
    /// Holds on to what the call changes; whatever runs on after the call keeps one too.
    pub(crate) record: Option<Arc<Record>>,
    /// Processes that it gave up.
    pub(crate) endings: Endings,
}

impl Call {
    /// A call that no client made, for looking around: nobody cancels it, hears of its progress or undoes it.
    #[must_use]
    pub fn beside(session: Arc<Session>, workspace: Arc<Workspace>) -> Self {
        let runtime = session.host.runtime();
        let (cancel, progress) = (CancellationToken::new(), Progress::default());
        let endings = Endings::among(&session.host.background);
        Self { session, workspace, cancel, progress, runtime, record: None, endings }
    }

    /// The process the session lives in.
    #[must_use]
    pub fn host(&self) -> &Arc<Host> {
        &self.session.host
    }

    /// Where Bash and everything else runs, and what the workspace's paths are called there.
    #[must_use]
    pub fn place(&self) -> Place {
        self.own(self.runtime.place())
    }

    /// Where the programs of a language run, and what the workspace's paths are called there.
    #[must_use]
    pub fn sandbox_for(&self, language: &str) -> Place {
        self.own(self.runtime.sandbox_for(language))
    }

    /// Whether nothing in the workspace may be changed for this caller.
    pub(crate) fn read_only(&self) -> bool {
        self.session.access == Access::ReadOnly
    }

    /// A place as far as it is this call's: no other workspace, and for a session that only reads nothing to change,
    /// where the sandbox can hold that.
    fn own(&self, place: &Place) -> Place {
        let read_only = self.read_only().then(|| place.narrowed(&self.reach(true))).flatten();
        let own = read_only.or_else(|| place.narrowed(&self.reach(false))).unwrap_or_else(|| place.clone());
        Place { endings: self.endings.clone(), ..own }
    }

    /// Where the programs of a language can change nothing in the workspace; `None` when nothing keeps them from it.
    pub(crate) fn reading_place(&self, language: &str) -> Option<Place> {
        self.runtime.sandbox_for(language).narrowed(&self.reach(true))
    }

    /// Where they run for sessions that may change things.
    pub(crate) fn writing_place(&self, language: &str) -> Place {
        let place = self.runtime.sandbox_for(language);
        place.narrowed(&self.reach(false)).unwrap_or_else(|| place.clone())
    }

    fn reach(&self, read_only: bool) -> Narrowing {
        Narrowing { workspace: self.workspace.root().to_owned(), read_only }
    }

    /// Runs work that blocks for as long as the disk takes (a durable write). Where the disk is quick and this is
    /// the only call, that is right here: waking a thread and being woken by it takes longer.
    ///
    /// # Errors
    /// As [`Call::blocking`].
    pub(crate) async fn writing<T, F>(&self, work: F) -> Result<T, ToolError>
    where
        T: Send + 'static,
        F: FnOnce(&Call) -> Result<T, ToolError> + Send + 'static,
    {
        self.paced(&self.host().pace, work).await
    }

    /// The same for other work that is quick as a rule and whose pace is known.
    ///
    /// # Errors
    /// As [`Call::blocking`].
    pub(crate) async fn paced<T, F>(&self, pace: &Arc<Pace>, work: F) -> Result<T, ToolError>
    where
        T: Send + 'static,
        F: FnOnce(&Call) -> Result<T, ToolError> + Send + 'static,
    {
        if self.host().is_only_call() && pace.is_quick() {
            return pace.take(|| work(self));
        }
        let pace = Arc::clone(pace);
        self.blocking(move |call| pace.take(|| work(call))).await
    }

    /// Runs work that blocks (files, search) off the runtime's own threads.
    ///
    /// # Errors
    /// The work's own, or a fault when it panicked.
    pub async fn blocking<T, F>(&self, work: F) -> Result<T, ToolError>
    where
        T: Send + 'static,
        F: FnOnce(&Call) -> Result<T, ToolError> + Send + 'static,
    {
        let call = self.clone();
        match tokio::task::spawn_blocking(move || work(&call)).await {
            Ok(result) => result,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Err(ToolError::Cancelled),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_quick_as_long_as_it_was_the_last_time() {
        let pace = Pace::default();
        assert!(!pace.is_quick(), "unknown");
        assert_eq!(pace.take(|| 7), 7);
        assert!(pace.is_quick());
        pace.take(|| std::thread::sleep(MOMENT));
        assert!(!pace.is_quick());
    }
}
