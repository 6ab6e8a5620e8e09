//! Mode `direct`: a local process without isolation, every descendant tracked.
//!
//! The program sees the machine as this process does. What is added is its end: after a timeout, a cancel, a
//! kill, a dropped future, or the death of this process by whatever means, no descendant lives, whether it
//! called `setsid`, forked twice, ignored signals or forks in a loop.

use crate::{
    Factory, FactoryError, Outcome, Process, Request, Response, Sandbox, StartRequest, StreamingSandbox,
    env::{Environment, Variables},
    local::{DEFAULT_TIMEOUT, Local},
    worker::{Plain, Pool},
};
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use std::{
    path::PathBuf,
    sync::{Arc, LazyLock},
    time::Duration,
};

/// The name of the mode.
pub const MODE: &str = "direct";

/// Supervisors are all alike, so every direct sandbox of the process shares them.
static POOL: LazyLock<Arc<Pool>> = LazyLock::new(|| Pool::new(Plain));

/// A local process, tracked but not isolated.
///
/// ```
/// use sandbox::{Outcome, Request, Sandbox as _, direct::Direct};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let response = Direct::new("local").spawn(Request::new("echo").args(["hello"])).await;
/// assert_eq!(response.outcome, Outcome::Exited(0));
/// assert_eq!(response.stdout, b"hello\n");
/// # });
/// ```
pub struct Direct {
    name: String,
    local: Local,
}

impl Direct {
    /// A sandbox whose programs get this process's environment and working directory.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        let local = Local {
            pool: POOL.clone(),
            environment: Environment::inherit(),
            cwd: std::env::current_dir().ok(),
            timeout: DEFAULT_TIMEOUT,
            memory: None,
            observer: None,
            stdin: false,
        };
        Self { name: name.into(), local }
    }

    /// Gives every live program a stdin, also where it would have none.
    pub(crate) fn with_stdin(mut self) -> Self {
        self.local.stdin = true;
        self
    }

    /// The environment that requests are merged over.
    #[must_use]
    pub fn with_baseline(mut self, variables: Variables) -> Self {
        self.local.environment.baseline = variables;
        self
    }

    /// Where programs run whose request names no directory.
    #[must_use]
    pub fn with_cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.local.cwd = Some(cwd.into());
        self
    }

    /// How long a request may take that does not say; 10 seconds unless changed.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.local.timeout = timeout;
        self
    }
}

impl Sandbox for Direct {
    fn name(&self) -> &str {
        &self.name
    }

    fn spawn(&self, request: Request) -> BoxFuture<'_, Response> {
        Box::pin(self.local.spawn(request))
    }

    fn streaming(&self) -> Option<&dyn StreamingSandbox> {
        Some(self)
    }
}

impl StreamingSandbox for Direct {
    fn start(&self, request: StartRequest) -> BoxFuture<'_, Result<Process, Outcome>> {
        Box::pin(self.local.start(request))
    }
}

/// Builds [`Direct`] sandboxes; the mode has no configuration.
#[must_use]
pub fn factory() -> Arc<dyn Factory> {
    Arc::new(|name: &str, config: &Map<String, Value>| -> Result<Arc<dyn Sandbox>, FactoryError> {
        match config.keys().next() {
            Some(key) => Err(FactoryError::UnknownKey { key: key.clone(), known: Vec::new() }),
            None => Ok(Arc::new(Direct::new(name))),
        }
    })
}
