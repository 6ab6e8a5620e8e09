//! Which servers are up, for `doctor` and metrics.

use super::memory;
use crate::Host;
use std::time::Duration;

/// A language server that is up.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerStatus {
    /// Its name ("gopls").
    pub name: &'static str,
    /// Its language.
    pub language: &'static str,
    /// The workspace it serves.
    pub workspace: String,
    /// The project's folder in it; empty for the root.
    pub root: String,
    /// How long it has been up.
    pub up: Duration,
    /// Its processes, as far as this machine sees them.
    pub processes: usize,
    /// Bytes of memory they take.
    pub memory: u64,
}

impl Host {
    /// The language servers that are up, sorted by workspace, project and language. Looks through `/proc`.
    #[must_use]
    pub fn language_servers(&self) -> Vec<ServerStatus> {
        let status = |running: std::sync::Arc<super::running::Running>| {
            let used = memory::of(&running.marker);
            ServerStatus {
                name: running.name,
                language: running.key.language,
                workspace: running.key.workspace.clone(),
                root: running.key.root.clone(),
                up: running.age(),
                processes: used.processes,
                memory: used.bytes,
            }
        };
        self.servers.all().into_iter().map(status).collect()
    }
}
