//! Where a command runs.
//!
//! A [`Sandbox`] has a stable name and one operation: [`Sandbox::spawn`] a command with arguments,
//! environment, stdin bytes and a timeout, and get back its output and a typed [`Outcome`].
//! Long-running processes (background shells, language servers, terminals) use the wider
//! [`StreamingSandbox`], implemented by the same backends.
//!
//! Backends are built by a [`Factory`] found in a [`Registry`] under a mode name, or made directly by
//! the caller, who then owns their life.
//!
//! By hand:
//!
//! ```
//! use sandbox::{Outcome, Request, Sandbox as _, direct::Direct};
//! use std::time::Duration;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let hooks = Direct::new("hooks");
//! let mut request = Request::new("sh").args(["-c", "setsid sleep 1000 & cat; exit 3"]);
//! request.stdin = b"{\"allow\":true}".to_vec();
//! request.timeout = Duration::from_secs(5);
//! let response = hooks.spawn(request).await;
//! assert_eq!(response.stdout, b"{\"allow\":true}");
//! assert_eq!(response.outcome, Outcome::Exited(3)); // and the sleeper is gone
//! # });
//! ```
//!
//! By configuration, and live:
//!
//! ```
//! use sandbox::{Registry, StartRequest, Stdio, direct};
//! use tokio::io::AsyncReadExt as _;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let registry = Registry::new(); // or the process-wide one: `sandbox::lookup_factory("direct")`
//! registry.register("direct", direct::factory()).unwrap();
//! let sandbox = registry.lookup("direct").unwrap().build("shell", &serde_json::Map::new()).unwrap();
//!
//! let request = StartRequest {
//!     command: "sh".into(),
//!     args: vec!["-c".into(), "echo one; echo two >&2".into()],
//!     stdio: Stdio::Merged,
//!     ..StartRequest::default()
//! };
//! let mut process = sandbox.streaming().unwrap().start(request).await.unwrap();
//! let mut text = String::new();
//! process.stdout.read_to_string(&mut text).await.unwrap();
//! assert_eq!(text, "one\ntwo\n");
//! assert!(process.control.wait().await.success());
//! # });
//! ```

mod capture;
mod carried;
mod cgroup;
pub mod direct;
mod env;
pub mod isolated;
mod local;
mod outcome;
mod registry;
pub mod remote;
mod request;
pub mod spawner;
mod stream;
mod streams;
#[cfg(feature = "suite")]
pub mod suite;
mod supervisor;
mod sys;
mod tree;
mod watchdog;
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
use std::{path::PathBuf, sync::Arc};

/// Gives the system back what this process's allocator keeps although it is free: worth it after work that took much
/// more than it leaves. Here because it needs `unsafe` code.
pub fn release_memory() {
    sys::release_memory();
}

/// Has the process keep less of what it frees from now on: for one who is about to take and free much in several threads.
pub fn keep_less_memory() {
    sys::keep_less_memory();
}

/// Takes this program's code out of the process's memory, where it comes back as far as it is needed: worth it after a
/// start, which runs through much that never runs again. Here because it needs `unsafe` code.
pub fn release_code() {
    sys::release_code();
}

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

    /// Does now, once, what the first command would have to wait for. Whoever knows that one is about to come calls this
    /// beside what else is left to do until then.
    fn warm_up(&self) {}

    /// The same sandbox for work in one workspace alone, the same one every time; the wider one closes it. `None` where
    /// it cannot be held: commands would reach more than that.
    fn narrowed(self: Arc<Self>, to: &Narrowing) -> Option<Arc<dyn Sandbox>> {
        let _ = to;
        None
    }

    /// Called once on teardown by whoever owns the sandbox.
    fn closer(&self) -> Option<&dyn Closer> {
        None
    }
}

/// What a sandbox is narrowed to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Narrowing {
    /// The root of the only workspace of the sandbox's that is within reach.
    pub workspace: PathBuf,
    /// Nothing in it can be changed.
    pub read_only: bool,
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
