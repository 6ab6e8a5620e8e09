//! One client's standing with the server.

use crate::{
    Host, Notice, Notices,
    files::{Ledgers, foreign::Foreign},
    jobs::Jobs,
    shell::Shells,
    verify::{Baselines, Coverage, Memory},
    visit::Visit,
};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What a client may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Access {
    /// Everything that is registered.
    #[default]
    Full,
    /// Only tools of class read.
    ReadOnly,
}

/// What belongs to one client and dies with its connection. Lives in the process, never in an HTTP
/// handler, because newer clients make a new connection for every call.
pub struct Session {
    /// Names it in logs and hooks.
    pub id: String,
    /// The process it lives in.
    pub host: Arc<Host>,
    /// What the client may do.
    pub access: Access,
    /// Names the client in audit lines, where it has to say who it is.
    pub principal: Option<Box<str>>,
    pub(crate) jobs: Jobs,
    pub(crate) shells: Shells,
    pub(crate) ledgers: Ledgers,
    /// Files elsewhere that it may read.
    pub(crate) foreign: Foreign,
    pub(crate) notices: Notices,
    pub(crate) verified: Memory,
    pub(crate) baselines: Baselines,
    /// Which tests reach which lines.
    pub(crate) coverage: Coverage,
    pub(crate) visit: Visit,
    pub(crate) cancel: CancellationToken,
}

impl Session {
    pub(crate) fn new(id: String, host: Arc<Host>, access: Access, principal: Option<&str>) -> Self {
        let cancel = host.stop.child_token();
        Self {
            id,
            access,
            principal: principal.map(Into::into),
            jobs: Jobs::default(),
            shells: Shells::default(),
            ledgers: Ledgers::default(),
            foreign: Foreign::default(),
            notices: Notices::default(),
            verified: Memory::default(),
            baselines: Baselines::default(),
            coverage: Coverage::default(),
            visit: Visit::default(),
            cancel,
            host,
        }
    }

    /// News for the client from now on: events of watched processes. A reader that is too slow misses some
    /// and is told how many.
    #[must_use]
    pub fn notices(&self) -> tokio::sync::broadcast::Receiver<Notice> {
        self.notices.subscribe()
    }

    /// The same for whoever passes them on to the client; `None` when somebody does already.
    #[must_use]
    pub fn notices_to_pass_on(&self) -> Option<tokio::sync::broadcast::Receiver<Notice>> {
        (!self.notices.followed()).then(|| self.notices.subscribe())
    }

    /// Whether the client wants to hear bad news only.
    pub fn only_bad_notices(&self, only: bool) {
        self.notices.bad_only(only);
    }

    /// Ends everything the session started. Calling it twice is harmless.
    pub fn close(&self) {
        self.cancel.cancel();
        self.jobs.close();
    }
}

/// Holds a session open. Dropping it closes the session: calls that are still running hold the session
/// itself, so its last pointer would be too late.
pub struct SessionGuard(pub(crate) Arc<Session>);

impl std::ops::Deref for SessionGuard {
    type Target = Arc<Session>;

    fn deref(&self) -> &Arc<Session> {
        &self.0
    }
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        self.0.close();
        self.0.farewell();
        let (session, principal) = (&self.0.id, self.0.principal.as_deref());
        tracing::debug!(target: "audit", event = "session_end", session, principal);
    }
}
