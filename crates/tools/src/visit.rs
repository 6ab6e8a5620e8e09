//! What hooks learn of a session: its first call, each further one, its end.

use crate::{Runtime, Session, ToolError};
use config::Phase;
use serde_json::json;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use tokio::{runtime::Handle, sync::OnceCell};

/// A session as hooks see it.
#[derive(Default)]
pub(crate) struct Visit {
    /// Whether the hooks let it in: asked once, at its first call.
    greeted: OnceCell<Result<(), String>>,
    calls: AtomicU64,
}

impl Session {
    /// Asks the hooks, once, whether this session may do anything.
    pub(crate) async fn greet(&self, runtime: &Runtime) -> Result<(), ToolError> {
        if let Some(greeted) = self.visit.greeted.get() {
            return greeted.clone().map_err(ToolError::caller);
        }
        let ask = || async {
            if !runtime.hooks.watch_sessions(Phase::SessionStart) {
                return Ok(());
            }
            let event = json!({"session_id": self.id});
            let asked = runtime.hooks.session(&self.host.stage(self), Phase::SessionStart, event).await;
            asked.map_err(|denied| denied.to_string())
        };
        Box::pin(self.visit.greeted.get_or_init(ask)).await.clone().map_err(ToolError::caller)
    }

    /// Tells the hooks of a call that was made.
    pub(crate) async fn made_a_call(&self, runtime: &Runtime, tool: &str) {
        let calls = self.visit.calls.fetch_add(1, Ordering::Relaxed) + 1;
        if runtime.hooks.watch_sessions(Phase::SessionUpdate) {
            let event = json!({"session_id": self.id, "calls": calls, "tool": tool});
            // What has happened cannot be denied any more.
            let _ =
                Box::pin(runtime.hooks.session(&self.host.stage(self), Phase::SessionUpdate, event)).await;
        }
    }

    /// Tells the hooks that the session has ended, if they know that it began.
    pub(crate) fn farewell(self: &Arc<Self>) {
        let runtime = self.host.runtime();
        let known = self.visit.greeted.get().is_some_and(Result::is_ok);
        if !known || !runtime.hooks.watch_sessions(Phase::SessionEnd) {
            return;
        }
        let session = Arc::clone(self);
        let telling = async move {
            let calls = session.visit.calls.load(Ordering::Relaxed);
            let event = json!({"session_id": session.id, "calls": calls});
            let _ = runtime.hooks.session(&session.host.stage(&session), Phase::SessionEnd, event).await;
        };
        // Outside of a runtime there is nobody left to tell.
        if let Ok(handle) = Handle::try_current() {
            drop(handle.spawn(self.host.background.track_future(telling)));
        }
    }
}
