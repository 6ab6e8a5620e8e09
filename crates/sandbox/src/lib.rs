//! Where a command runs.
//!
//! A [`Sandbox`] has a stable name and one operation: [`Sandbox::spawn`] a command with arguments,
//! environment, stdin bytes and a timeout, and get back its output and a typed [`Outcome`].
//! Long-running processes (background shells, language servers, terminals) use the wider
//! [`StreamingSandbox`], implemented by the same backends.
//!
//! Backends are built by a [`Factory`] found in a [`Registry`] under a mode name, or made directly by
//! the caller, who then owns their life.

mod capture;
pub mod direct;
mod env;
mod local;
mod outcome;
mod registry;
mod request;
pub mod spawner;
mod stream;
mod streams;
mod supervisor;
mod sys;
mod tree;
mod wire;
mod worker;

pub use env::{Variables, host_variables};

pub use outcome::Outcome;
pub use registry::{
    Factory, FactoryError, Registry, RegistryError, global_registry, lookup_factory, register_factory,
    replace_factory,
};
pub use request::{EnvEntry, Request, Response};
pub use stream::{Control, Process, StartRequest, Stdio};

use futures_util::future::BoxFuture;

/// Launches commands somewhere and returns what they said.
///
/// Implementations enforce [`Request::timeout`] and leave nothing behind when it expires: no orphan,
/// no container, no remote process.
pub trait Sandbox: Send + Sync {
    /// A stable identifier for logs, metrics and results.
    fn name(&self) -> &str;

    /// Runs the command to its end, its timeout or its cancellation.
    fn spawn(&self, request: Request) -> BoxFuture<'_, Response>;

    /// The wider interface of the same backend, for processes that outlive one call.
    fn streaming(&self) -> Option<&dyn StreamingSandbox> {
        None
    }

    /// Called once on teardown by whoever owns the sandbox.
    fn closer(&self) -> Option<&dyn Closer> {
        None
    }
}

/// A sandbox that can hand out live streams instead of collected bytes.
pub trait StreamingSandbox: Send + Sync {
    /// Starts a process and returns while it runs.
    ///
    /// # Errors
    /// The [`Outcome`] that explains why nothing was started (missing command, refusal, transport).
    fn start(&self, request: StartRequest) -> BoxFuture<'_, Result<Process, Outcome>>;
}

/// Implemented by sandboxes that hold long-lived resources.
pub trait Closer: Send + Sync {
    /// Releases them. Calling it twice is harmless.
    fn close(&self) -> BoxFuture<'_, Result<(), String>>;
}
