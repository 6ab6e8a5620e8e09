//! The behaviour that every backend must show, as named cases over the public interface.
//!
//! A backend's own tests call [`run`] (or go through [`cases`] one by one) with a sandbox they made. A case
//! panics with a message that says what was expected. Programs used: `sh`, `cat`, `head`, `wc`, `flock`,
//! `setsid`, `sleep`, `stty`.
//!
//! ```
//! use sandbox::{direct::Direct, suite};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let scratch = std::env::temp_dir();
//! let subject = suite::Subject::new(std::sync::Arc::new(Direct::new("mine")), scratch);
//! let case = suite::cases().into_iter().find(|c| c.name == "exit codes").unwrap();
//! case.run(&subject).await;
//! # });
//! ```
#![expect(clippy::panic, reason = "cases report by panicking, like assertions")]

mod collected;
mod live;
pub mod orphans;

use crate::{EnvEntry, Request, Response, Sandbox};
use futures_util::{
    future::BoxFuture,
    stream::{self, StreamExt as _},
};
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// A sandbox under test, and what its transport cannot do.
#[derive(Clone)]
pub struct Subject {
    sandbox: Arc<dyn Sandbox>,
    scratch: PathBuf,
    exact_signals: bool,
    separate_stderr: bool,
}

impl Subject {
    /// A sandbox, and a writable folder that its programs share from one call to the next (the path is the one
    /// that programs see).
    #[must_use]
    pub fn new(sandbox: Arc<dyn Sandbox>, scratch: impl Into<PathBuf>) -> Self {
        Self { sandbox, scratch: scratch.into(), exact_signals: true, separate_stderr: true }
    }

    /// For transports that report a signal as exit code 128 + n.
    #[must_use]
    pub fn signals_as_codes(mut self) -> Self {
        self.exact_signals = false;
        self
    }

    /// For transports that cannot keep stderr apart.
    #[must_use]
    pub fn merged_stderr(mut self) -> Self {
        self.separate_stderr = false;
        self
    }

    fn script(&self, script: &str) -> Request {
        let mut request = Request::new("sh").args(["-c", script]);
        // Generous: no case depends on it, it only keeps a broken backend from hanging the test.
        request.timeout = Duration::from_secs(180);
        request.cwd = Some(self.scratch.clone());
        request
    }

    async fn sh(&self, script: &str) -> Response {
        self.sandbox.spawn(self.script(script)).await
    }

    /// A lock file of its own for one case.
    fn lock(&self) -> Lock {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let file = self.scratch.join(format!("suite-{}-{number}.lock", std::process::id()));
        Lock { subject: self.clone(), file: file.to_string_lossy().into_owned() }
    }
}

/// Tells without a clock whether processes are gone: each of them holds a lock on a file.
struct Lock {
    subject: Subject,
    file: String,
}

/// Takes the lock, says so, then leaves one descendant of every stubborn kind and never ends.
const STUBBORN: &str = r#"
exec 9>"$LOCK"; flock 9
setsid sh -c 'trap "" TERM INT HUP; sleep 1000; sleep 1000' &
(setsid sh -c '(trap "" TERM; sleep 1000; sleep 1000) & exit 0' &)
nohup sleep 1000 >/dev/null 2>&1 &
echo ready
trap "" TERM
sleep 1000; sleep 1000
"#;

impl Lock {
    fn entry(&self) -> EnvEntry {
        EnvEntry::Set("LOCK".into(), self.file.clone())
    }

    fn stubborn(&self) -> Request {
        let mut request = self.subject.script(STUBBORN);
        request.env.push(self.entry());
        request
    }

    /// Fails when somebody still holds it.
    async fn assert_free(&self, after: &str) {
        let mut request = self.subject.script(r#"flock -n "$LOCK" true"#);
        request.env.push(self.entry());
        let response = self.subject.sandbox.spawn(request).await;
        assert!(
            response.outcome.success(),
            "after {after} a descendant is still alive ({})",
            response.outcome
        );
    }

    /// Waits until it is free; for ends that nobody can wait for.
    async fn wait_free(&self, after: &str) {
        let mut request = self.subject.script(r#"flock -w 150 "$LOCK" true"#);
        request.env.push(self.entry());
        let response = self.subject.sandbox.spawn(request).await;
        assert!(
            response.outcome.success(),
            "150 s after {after} a descendant is still alive ({})",
            response.outcome
        );
    }

    /// Waits until somebody holds it.
    async fn wait_held(&self) {
        let script =
            r#"i=0; while flock -n "$LOCK" true; do i=$((i+1)); [ $i -gt 3000 ] && exit 1; sleep 0.05; done"#;
        let mut request = self.subject.script(script);
        request.env.push(self.entry());
        let response = self.subject.sandbox.spawn(request).await;
        assert!(response.outcome.success(), "the program never took its lock ({})", response.outcome);
    }
}

type Body = for<'a> fn(&'a Subject) -> BoxFuture<'a, ()>;

/// One behaviour.
#[derive(Clone, Copy)]
pub struct Case {
    /// What it shows.
    pub name: &'static str,
    /// Whether it is about the streaming interface; backends without one skip it.
    pub streaming: bool,
    body: Body,
}

impl Case {
    /// Runs it; panics when the behaviour is not shown.
    pub async fn run(&self, subject: &Subject) {
        (self.body)(subject).await;
    }
}

/// Every case, in order. The last one closes the sandbox.
#[must_use]
pub fn cases() -> Vec<Case> {
    let list = |cases: &[(&'static str, Body)], streaming| -> Vec<Case> {
        cases.iter().map(|&(name, body)| Case { name, streaming, body }).collect()
    };
    let mut all = list(collected::CASES, false);
    all.extend(list(live::CASES, true));
    all.extend(list(&[collected::LAST], false));
    all
}

/// So many cases run at a time: most of what they do is waiting.
const AT_ONCE: usize = 4;

/// Runs every case that applies, a few at a time, and panics at the end with the list of those that failed.
pub async fn run(subject: Subject) {
    run_some(subject, |_| true).await;
}

/// [`run`] for the cases that are chosen.
pub async fn run_some(subject: Subject, chosen: impl Fn(&Case) -> bool) {
    let streaming = subject.sandbox.streaming().is_some();
    let chosen = cases().into_iter().filter(|case| (streaming || !case.streaming) && chosen(case));
    let runs = chosen.map(|case| {
        let subject = subject.clone();
        let run = async move {
            // A task of its own catches the panic and leaves the others to run.
            let done = tokio::spawn(async move { case.run(&subject).await }).await;
            done.err().map(|error| format!("{}: {}", case.name, panic_text(error)))
        };
        (case.name, run)
    });
    let (last, runs): (Vec<_>, Vec<_>) = runs.partition(|(name, _)| *name == collected::LAST.0);
    let ended = stream::iter(runs).map(|(_, run)| run).buffer_unordered(AT_ONCE);
    let mut failed: Vec<String> = ended.filter_map(std::future::ready).collect().await;
    for (_, run) in last {
        failed.extend(run.await);
    }
    assert!(failed.is_empty(), "{} case(s) failed:\n{}", failed.len(), failed.join("\n"));
}

fn panic_text(error: tokio::task::JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "cancelled".to_owned() };
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()))
        .unwrap_or_else(|| "panicked".to_owned())
}
