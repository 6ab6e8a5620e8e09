//! A live process at the far side, whose handle ends it there too.

use super::{
    last_word::{self, Heard, Hearing, LastWord, Listener},
    scripts::SWEPT,
};
use crate::{Control, Outcome, Process, Request, Sandbox as _, Stdio, direct::Direct};
use futures_util::future::BoxFuture;
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// By then a client is ready for whatever comes.
const SETTLED: Duration = Duration::from_secs(10);

/// A client that was ended while it was still reaching the far side may have what it asked for begin there a
/// little later.
const LATE: Duration = Duration::from_secs(2);

/// How often a far side that cannot be reached is asked to end what a call left, and how long after.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(300);

/// How long a client may go on after the last word. The script has ended everybody else by then; what keeps it, if
/// anything, is its stdin, which closes with the client.
const LINGER: Duration = Duration::from_secs(3);

/// Waits for the end of a client, and ends one that goes on after the last word was heard on all its streams: not even the
/// end of a connection is sure to come.
pub(super) async fn end_of(client: &dyn Control, hearings: &[Hearing]) -> Outcome {
    let lingering = async {
        last_word::said(hearings).await;
        tokio::time::sleep(LINGER).await;
    };
    tokio::select! {
        outcome = client.wait() => return outcome,
        () = lingering => {}
    }
    client.kill();
    client.wait().await
}

/// A command that ends what a call left at the far side, and says [`SWEPT`] when it has; it runs when this is dropped
/// still armed.
pub(super) struct Sweep(Option<Box<(Request, Direct)>>);

impl Sweep {
    pub(super) fn new(name: &str, request: Request) -> Self {
        Self(Some(Box::new((request, Direct::new(name)))))
    }

    /// There is nothing left to end.
    pub(super) fn disarm(mut self) {
        self.0 = None;
    }

    /// Runs it once and says how it went.
    pub(super) async fn run(mut self) -> Outcome {
        match self.0.take() {
            Some(sweep) => swept(&sweep.1, sweep.0).await,
            None => Outcome::Exited(0),
        }
    }

    /// Runs it now and waits until it is done, or cannot be; whether it is.
    pub(super) async fn finish(self) -> bool {
        match self.begin() {
            Some(mut done) => done.changed().await.is_ok(),
            None => false,
        }
    }

    /// Runs it now; the receiver is sent something when it is done, and its channel closes when that cannot be. A late
    /// starter is looked for afterwards.
    fn begin(mut self) -> Option<watch::Receiver<()>> {
        let (request, client) = *self.0.take()?;
        let runtime = tokio::runtime::Handle::try_current().ok()?;
        let (done, receiver) = watch::channel(());
        runtime.spawn(async move {
            // A client that could not get through has ended nobody.
            for _ in 0..TRIES {
                if swept(&client, request.clone()).await.success() {
                    // Nobody may want to know.
                    let _ = done.send(());
                    break;
                }
                tokio::time::sleep(PAUSE).await;
            }
            drop(done);
            tokio::time::sleep(LATE).await;
            client.spawn(request).await;
        });
        Some(receiver)
    }
}

/// Runs a sweep; it is a success only with its last word.
async fn swept(client: &Direct, request: Request) -> Outcome {
    let response = client.spawn(request).await;
    if response.outcome.success() && response.stdout.trim_ascii_end() != SWEPT.as_bytes() {
        return Outcome::Transport { why: "the connection broke off before everybody was ended".to_owned() };
    }
    response.outcome
}

/// What is said where a sweep could not be done.
pub(super) fn unended(place: &str) -> String {
    format!(
        "{place} could not be reached to end the command: it may still run there until this sandbox is closed"
    )
}

impl Drop for Sweep {
    fn drop(&mut self) {
        if self.0.is_some() {
            Self(self.0.take()).begin();
        }
    }
}

enum Far {
    Armed(Sweep),
    Sweeping(watch::Receiver<()>),
    Clean,
}

/// The client's own handle, and what ends the far side.
pub(super) struct Carry {
    inner: Arc<dyn Control>,
    far: Mutex<Far>,
    /// Of stdout, then of stderr where that is apart.
    hearings: Vec<Hearing>,
    /// Whether somebody wanted its end.
    killed: AtomicBool,
    /// Whether the far side could not be reached for that.
    unended: AtomicBool,
    place: String,
    started: Instant,
}

impl Carry {
    pub(super) fn wrap(mut inner: Process, stdio: Stdio, key: &str, place: String, sweep: Sweep) -> Process {
        if stdio == Stdio::Merged {
            // It was for the script.
            inner.stdin = None;
        }
        let (stdout, hearing) = Listener::new(inner.stdout, key);
        inner.stdout = Box::new(stdout);
        let mut hearings = vec![hearing];
        if let Some(stderr) = inner.stderr.take() {
            let (stderr, hearing) = Listener::new(stderr, key);
            inner.stderr = Some(Box::new(stderr));
            hearings.push(hearing);
        }
        let far = Mutex::new(Far::Armed(sweep));
        let started = Instant::now();
        let [killed, unended] = [false; 2].map(AtomicBool::new);
        let control =
            Box::new(Self { inner: inner.control.into(), far, hearings, killed, unended, place, started });
        Process { control, ..inner }
    }

    /// Ends the far side unless that is done or under way.
    fn sweep(&self) -> Option<watch::Receiver<()>> {
        let mut far = self.far.lock().unwrap_or_else(PoisonError::into_inner);
        *far = match std::mem::replace(&mut *far, Far::Clean) {
            Far::Armed(sweep) => sweep.begin().map_or(Far::Clean, Far::Sweeping),
            other => other,
        };
        match &*far {
            Far::Sweeping(receiver) => Some(receiver.clone()),
            _ => None,
        }
    }

    /// The script at the far side has itself ended what was left.
    fn disarm(&self) {
        let mut far = self.far.lock().unwrap_or_else(PoisonError::into_inner);
        if let Far::Armed(sweep) = std::mem::replace(&mut *far, Far::Clean) {
            sweep.disarm();
        }
    }
}

impl Control for Carry {
    fn wait(&self) -> BoxFuture<'_, Outcome> {
        Box::pin(async {
            let outcome = end_of(&*self.inner, &self.hearings).await;
            let heard = self.hearings.last().map_or(Heard::Silence, Hearing::now);
            if let Heard::Word(LastWord::Code(code)) = heard
                && (matches!(outcome, Outcome::Exited(_)) || !self.killed.load(Ordering::Relaxed))
            {
                self.disarm();
                return super::from_code(code);
            }
            if let Some(mut sweeping) = self.sweep() {
                self.unended.store(sweeping.changed().await.is_err(), Ordering::Relaxed);
            }
            match (outcome, heard) {
                (Outcome::Exited(code), Heard::Silence) => Outcome::Transport {
                    why: format!("{}: the client ended with code {code} before the program", self.place),
                },
                // Nobody has read so far: the client's code is all there is.
                (Outcome::Exited(code), _) => super::from_code(code),
                (outcome, _) => outcome,
            }
        })
    }

    fn kill(&self) {
        self.killed.store(true, Ordering::Relaxed);
        self.sweep();
        self.inner.kill();
    }

    fn resize(&self, cols: u16, rows: u16) {
        self.inner.resize(cols, rows);
        // A client that has only just started may not listen to sizes yet, and hears only of changes.
        if self.started.elapsed() < SETTLED
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let inner = Arc::downgrade(&self.inner);
            runtime.spawn(async move {
                for _ in 0..8 {
                    tokio::time::sleep(SETTLED / 8).await;
                    let Some(inner) = inner.upgrade() else { return };
                    inner.resize(cols, rows.saturating_add(1));
                    inner.resize(cols, rows);
                }
            });
        }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.inner.notes();
        notes.extend(self.unended.load(Ordering::Relaxed).then(|| unended(&self.place)));
        notes
    }
}
