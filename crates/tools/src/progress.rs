//! How far a call has come, for the client that waits and for whoever picks the call up again.

use crate::Host;
use std::{
    borrow::Cow,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Updates that follow each other faster than this are kept but not sent.
const PAUSE: Duration = Duration::from_millis(20);

/// How far a call has come.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgressUpdate {
    /// Work done so far, in units of the tool's own.
    pub done: f64,
    /// All of it, when known.
    pub total: Option<f64>,
    /// For a person.
    pub message: String,
}

type Sink = dyn Fn(ProgressUpdate) + Send + Sync;
type Partial = dyn Fn() -> String + Send + Sync;

/// Where progress goes: to the client when it asked, and always to whoever picks the call up again later.
#[derive(Clone, Default)]
pub struct Progress(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    sink: Option<Arc<Sink>>,
    host: Option<Arc<Host>>,
    /// What the tool says stays here: somebody may withhold its result.
    mute: bool,
    /// The last value sent: the protocol wants each to be greater than the one before.
    done: f64,
    sent: Option<Instant>,
    latest: Option<ProgressUpdate>,
    partial: Option<Arc<Partial>>,
}

impl Progress {
    /// Progress that goes to `sink`.
    pub fn to(sink: impl Fn(ProgressUpdate) + Send + Sync + 'static) -> Self {
        Self(Arc::new(Mutex::new(State { sink: Some(Arc::new(sink)), ..State::default() })))
    }

    /// A call's own progress. It leaves the process like any other text: without secrets.
    pub(crate) fn scrubbed(host: &Arc<Host>) -> Self {
        Self(Arc::new(Mutex::new(State { host: Some(Arc::clone(host)), ..State::default() })))
    }

    /// The same without a word of the tool's own: only that the call runs.
    pub(crate) fn mute(self) -> Self {
        self.lock().mute = true;
        self
    }

    /// Tells how far it has come.
    pub fn report(&self, update: ProgressUpdate) {
        let mut state = self.lock();
        if state.mute {
            return;
        }
        let due = state.sent.is_none_or(|sent| sent.elapsed() >= PAUSE);
        state.latest = Some(update.clone());
        if due {
            send(state, update);
        }
    }

    /// Keeps what is known so far, for a reply that comes before the end.
    pub fn keep_partial(&self, text: String) {
        self.partial_from(move || text.clone());
    }

    /// The same, asked for only when such a reply is made.
    pub fn partial_from(&self, partial: impl Fn() -> String + Send + Sync + 'static) {
        let mut state = self.lock();
        if !state.mute {
            state.partial = Some(Arc::new(partial));
        }
    }

    /// Says that it still runs, in the tool's own last words when there are any.
    pub(crate) fn beat(&self, running: Duration) {
        let state = self.lock();
        let update = match &state.latest {
            Some(latest) => ProgressUpdate { done: state.done.max(latest.done) + 0.001, ..latest.clone() },
            // Small, so that a tool's own first value is greater.
            None => ProgressUpdate {
                done: running.as_secs_f64() / 1000.0,
                total: None,
                message: format!("running for {} s", running.as_secs()),
            },
        };
        send(state, update);
    }

    /// Sends what comes to where `caller` sends it; says whether anybody listens there.
    pub(crate) fn attach(&self, caller: &Self) -> bool {
        let sink = caller.lock().sink.clone();
        let listens = sink.is_some();
        let mut state = self.lock();
        state.sink = sink;
        // Another request, another count.
        state.done = 0.0;
        listens
    }

    /// Sends nothing any more: the request was answered.
    pub(crate) fn detach(&self) {
        self.lock().sink = None;
    }

    /// What is known so far, in words.
    pub(crate) fn so_far(&self) -> String {
        let (latest, partial) = {
            let state = self.lock();
            (state.latest.as_ref().map(|update| update.message.clone()), state.partial.clone())
        };
        let lines = [latest, partial.map(|partial| partial())];
        lines.into_iter().flatten().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn send(mut state: MutexGuard<'_, State>, mut update: ProgressUpdate) {
    let Some(sink) = state.sink.clone() else { return };
    update.done = if update.done > state.done { update.done } else { state.done.next_up() };
    state.done = update.done;
    state.sent = Some(Instant::now());
    let host = state.host.clone();
    drop(state);
    if let Some(host) = host
        && let Cow::Owned(clean) = host.scrubber().scrub(&update.message)
    {
        update.message = clean;
    }
    sink(update);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(done: f64) -> ProgressUpdate {
        ProgressUpdate { done, total: None, message: format!("at {done}") }
    }

    /// A progress whose updates can be looked at.
    fn watched() -> (Progress, Arc<Mutex<Vec<ProgressUpdate>>>) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&seen);
        (Progress::to(move |update| sink.lock().unwrap().push(update)), seen)
    }

    #[test]
    fn values_always_grow() {
        let (progress, seen) = watched();
        progress.beat(Duration::from_secs(1));
        progress.beat(Duration::from_secs(2));
        std::thread::sleep(PAUSE);
        progress.report(update(5.0));
        progress.beat(Duration::from_secs(3));
        std::thread::sleep(PAUSE);
        progress.report(update(1.0));
        let seen = seen.lock().unwrap();
        assert_eq!(seen.len(), 5);
        assert!(seen.is_sorted_by(|a, b| a.done < b.done), "{seen:?}");
        assert_eq!(seen[0].message, "running for 1 s");
        assert_eq!(seen[3].message, "at 5");
    }

    #[test]
    fn a_flood_is_thinned_out_and_its_last_word_kept() {
        let (progress, seen) = watched();
        for done in 0..10_000 {
            progress.report(update(f64::from(done)));
        }
        assert!(seen.lock().unwrap().len() < 1000, "one in 20 ms at most");
        assert_eq!(progress.so_far(), "at 9999");
    }

    #[test]
    fn an_answered_request_hears_no_more() {
        let (caller, seen) = watched();
        let progress = Progress::default();
        assert!(progress.attach(&caller));
        progress.report(update(1.0));
        progress.detach();
        std::thread::sleep(PAUSE);
        progress.report(update(2.0));
        assert_eq!(seen.lock().unwrap().len(), 1);
        assert!(!progress.attach(&Progress::default()));
    }

    #[test]
    fn a_muted_call_says_only_that_it_runs() {
        let (caller, seen) = watched();
        let progress = Progress::default().mute();
        assert!(progress.attach(&caller));
        progress.report(update(1.0));
        progress.keep_partial("what it printed".to_owned());
        progress.beat(Duration::from_secs(1));
        let said: Vec<String> = seen.lock().unwrap().iter().map(|update| update.message.clone()).collect();
        assert_eq!((said, progress.so_far()), (vec!["running for 1 s".to_owned()], String::new()));
    }
}
