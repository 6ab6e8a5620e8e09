//! A shell that runs on after the call that started it.

use super::{
    About,
    pump::{Ending, From, Sink, pump},
    stream::Stream,
    watch::{Heard, Watch},
};
use crate::{Call, record::Record};
use sandbox::{Outcome, Process};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// A background shell. It ends when it is killed and with its session.
pub(super) struct Background {
    pub(super) id: String,
    pub(super) about: About,
    state: Mutex<State>,
    pub(super) watch: Option<Watch>,
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
    pub(super) fn start(
        call: &Call,
        id: String,
        about: About,
        process: Process,
        watch: Option<Watch>,
    ) -> Arc<Self> {
        let host = call.host();
        let scrubber = host.scrubber();
        let (stdout, stderr) = (Stream::new(&scrubber), Stream::new(&scrubber));
        let state = State { stdout, stderr, ended: None };
        let shell = Arc::new(Self {
            id,
            about,
            state: Mutex::new(state),
            watch,
            kill: call.session.cancel.child_token(),
            gone: CancellationToken::new(),
        });
        host.background.spawn(Arc::clone(&shell).run(process, call.record.clone()));
        shell
    }

    /// What it changes until it ends is its call's doing: that is what `_record` is for.
    async fn run(self: Arc<Self>, process: Process, _record: Option<Arc<Record>>) {
        // However this ends, nobody waits for it in vain.
        let _gone = self.gone.clone().drop_guard();
        let mut streams = Streams(Arc::clone(&self));
        let ending = tokio::select! {
            ending = pump(process, None, &self.kill, &mut streams) => ending,
            () = self.mind() => return,
        };
        let ended = Ended::from(ending);
        let mut state = self.state();
        let rests = [state.stdout.finish(), state.stderr.finish()];
        if let Some(watch) = &self.watch {
            let [stdout, stderr] = rests.map(|text| Heard { text, ..Heard::default() });
            watch.hear(false, &stdout);
            watch.hear(true, &stderr);
            watch.end(ended.code);
        }
        state.ended = Some(ended);
    }

    /// Never returns.
    async fn mind(&self) {
        match &self.watch {
            Some(watch) => watch.mind().await,
            None => std::future::pending().await,
        }
    }

    /// Takes what came; for one that is watched, what there is to be looked at.
    fn hear(&self, from: From, bytes: &[u8]) -> Option<Heard> {
        let mut state = self.state();
        let stream = match from {
            From::Stdout => &mut state.stdout,
            From::Stderr => &mut state.stderr,
        };
        let text = stream.push(bytes);
        self.watch.is_some().then(|| Heard {
            text,
            lines: stream.pending_lines(),
            pending: stream.pending().to_owned(),
        })
    }

    fn watch(&self, from: From, heard: &Heard) {
        if let Some(watch) = &self.watch {
            watch.hear(from == From::Stderr, heard);
        }
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

struct Streams(Arc<Background>);

impl Sink for Streams {
    async fn take(&mut self, from: From, bytes: &[u8]) {
        match self.0.hear(from, bytes) {
            // Matching may take long: others must not wait for it.
            Some(heard) => {
                let shell = Arc::clone(&self.0);
                let watch = move || shell.watch(from, &heard);
                let _ = tokio::task::spawn_blocking(watch).await;
            }
            // Cleaning takes a while: a flood must let others have their turn.
            None => tokio::task::yield_now().await,
        }
    }
}
