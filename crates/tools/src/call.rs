//! Everything a tool may touch while it runs.

use crate::{Host, Session, ToolError};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;
use workspace::Workspace;

/// How far a call has come.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgressUpdate {
    /// Work done so far, in units of the tool's own.
    pub done: f64,
    /// All of it, when known.
    pub total: Option<f64>,
    /// For a person.
    pub message: String,
}

type Sink = dyn Fn(ProgressUpdate) + Send + Sync;

/// Where progress goes: to the client when it asked, and always to whoever picks the call up again later.
#[derive(Clone, Default)]
pub struct Progress {
    sink: Option<Arc<Sink>>,
    latest: Arc<Mutex<Option<ProgressUpdate>>>,
    partial: Arc<Mutex<Option<String>>>,
}

impl Progress {
    /// Progress that also goes to `sink`.
    pub fn to(sink: impl Fn(ProgressUpdate) + Send + Sync + 'static) -> Self {
        Self { sink: Some(Arc::new(sink)), ..Self::default() }
    }

    /// Tells how far it has come.
    pub fn report(&self, update: ProgressUpdate) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(update.clone());
        if let Some(sink) = &self.sink {
            sink(update);
        }
    }

    /// Keeps what is known so far, for a reply that comes before the end.
    pub fn keep_partial(&self, text: String) {
        *self.partial.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    }

    /// What is known so far, in words.
    pub(crate) fn so_far(&self) -> String {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let partial = self.partial.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = [latest.as_ref().map(|update| update.message.clone()), partial.clone()];
        lines.into_iter().flatten().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
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
}

impl Call {
    /// The process the session lives in.
    #[must_use]
    pub fn host(&self) -> &Arc<Host> {
        &self.session.host
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
