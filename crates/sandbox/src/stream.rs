//! Live processes: shells, language servers, terminals.

use crate::{EnvEntry, Outcome};
use futures_util::future::BoxFuture;
use std::path::PathBuf;
use tokio::io::{AsyncRead, AsyncWrite};

/// How a live process is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stdio {
    /// stdout and stderr each on a pipe of their own; stdin open.
    #[default]
    Separate,
    /// stdout and stderr on one pipe, so that their order is kept; stdin closed.
    Merged,
    /// A pseudo-terminal of this size; everything arrives on stdout.
    Terminal {
        /// Columns.
        cols: u16,
        /// Rows.
        rows: u16,
    },
}

/// A process to start and keep.
#[derive(Debug, Clone, Default)]
pub struct StartRequest {
    /// The program.
    pub command: String,
    /// Its arguments, not including the program's name.
    pub args: Vec<String>,
    /// Entries merged over the sandbox's baseline environment.
    pub env: Vec<EnvEntry>,
    /// Where it runs; the sandbox's own default when absent.
    pub cwd: Option<PathBuf>,
    /// How it is connected.
    pub stdio: Stdio,
}

/// A running process. Dropping it kills the process and every descendant.
pub struct Process {
    /// What it reads, when stdin is open.
    pub stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// What it writes.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// What it writes to stderr, unless merged.
    pub stderr: Option<Box<dyn AsyncRead + Send + Unpin>>,
    /// Waiting and killing.
    pub control: Box<dyn Control>,
}

/// The handle of a running process. Dropping it kills the process and every descendant.
pub trait Control: Send + Sync {
    /// Resolves when the process and every descendant are gone. May be called again afterwards.
    fn wait(&self) -> BoxFuture<'_, Outcome>;

    /// Ends the process and every descendant.
    fn kill(&self);

    /// Changes the size of a terminal; nothing happens elsewhere.
    fn resize(&self, cols: u16, rows: u16);

    /// Remarks of the sandbox for the reader, complete once `wait` has resolved.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}
