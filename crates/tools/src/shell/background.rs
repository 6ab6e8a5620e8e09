//! A shell that runs on after the call that started it.

use super::{
    About,
    pump::{Ending, From, Sink, pump},
    stream::Stream,
};
use crate::Call;
use sandbox::{Outcome, Process};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// A background shell. It ends when it is killed and with its session.
pub(super) struct Background {
    pub(super) id: String,
    pub(super) about: About,
    state: Mutex<State>,
    kill: CancellationToken,
    gone: CancellationToken,
}

pub(super) struct State {
    pub(super) stdout: Stream,
    pub(super) stderr: Stream,
    /// Set when every descendant is gone and everything was read.
    pub(super) ended: Option<Ended>,
}

pub(super) struct Ended {
    pub(super) code: i32,
    pub(super) notes: Vec<String>,
}

impl Background {
    /// Looks after `process` until it ends.
    pub(super) fn start(call: &Call, id: String, about: About, process: Process) -> Arc<Self> {
        let host = call.host();
        let state =
            State { stdout: Stream::new(&host.scrubber), stderr: Stream::new(&host.scrubber), ended: None };
        let shell = Arc::new(Self {
            id,
            about,
            state: Mutex::new(state),
            kill: call.session.cancel.child_token(),
            gone: CancellationToken::new(),
        });
        host.background.spawn(Arc::clone(&shell).run(process));
        shell
    }

    async fn run(self: Arc<Self>, process: Process) {
        // However this ends, nobody waits for it in vain.
        let _gone = self.gone.clone().drop_guard();
        let ending = pump(process, None, &self.kill, &mut Streams(&self)).await;
        let mut state = self.state();
        state.stdout.finish();
        state.stderr.finish();
        state.ended = Some(ending.into());
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn ended(&self) -> bool {
        self.gone.is_cancelled()
    }

    /// Ends it; returns when every descendant is gone.
    pub(super) async fn kill(&self) {
        self.kill.cancel();
        self.gone.cancelled().await;
    }
}

impl std::convert::From<Ending> for Ended {
    fn from(ending: Ending) -> Self {
        let code = match &ending.outcome {
            // As a shell would say of a command that was killed.
            Outcome::Cancelled => 137,
            other => other.shell_code(),
        };
        let mut notes = ending.notes;
        if let Outcome::OutOfMemory { .. } | Outcome::Transport { .. } | Outcome::Refused { .. } =
            ending.outcome
        {
            notes.push(ending.outcome.to_string());
        }
        Self { code, notes }
    }
}

struct Streams<'a>(&'a Background);

impl Sink for Streams<'_> {
    async fn take(&mut self, from: From, bytes: &[u8]) {
        let mut state = self.0.state();
        match from {
            From::Stdout => state.stdout.push(bytes),
            From::Stderr => state.stderr.push(bytes),
        }
    }
}
