//! Everything a tool may touch while it runs.

use crate::{Host, Place, Progress, Runtime, Session, ToolError};
use sandbox::Sandbox;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use workspace::Workspace;

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
}

impl Call {
    /// The process the session lives in.
    #[must_use]
    pub fn host(&self) -> &Arc<Host> {
        &self.session.host
    }

    /// Where Bash and everything else runs.
    #[must_use]
    pub fn sandbox(&self) -> &Arc<dyn Sandbox> {
        &self.place().sandbox
    }

    /// The same with what the workspace's paths are called there.
    #[must_use]
    pub fn place(&self) -> &Place {
        self.runtime.place()
    }

    /// Where the programs of a language run, and what the workspace's paths are called there.
    #[must_use]
    pub fn sandbox_for(&self, language: &str) -> &Place {
        self.runtime.sandbox_for(language)
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
