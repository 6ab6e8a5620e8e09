//! Whatever a program leaves behind, and however its caller ends it, nobody lives on.
//!
//! Every descendant holds a shared lock on a file; an exclusive lock on it proves that all are gone. Nothing here
//! looks for processes or trusts a pause.
#![expect(clippy::unwrap_used, reason = "cases report by panicking, like assertions")]

use crate::{Outcome, Request, Sandbox, StartRequest, Stdio};
use rustix::fs::FlockOperation;
use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

/// The ways in which a program leaves descendants behind.
pub const KINDS: [&str; 5] = ["setsid", "nohup", "daemon", "loop", "bomb"];
const BUSY: [&str; 2] = ["loop", "bomb"];

/// A program that leaves descendants, and the file they lock.
pub struct Nasty {
    folder: tempfile::TempDir,
    kind: &'static str,
}

impl Nasty {
    /// One of [`KINDS`], in a folder of its own below `place`.
    ///
    /// # Panics
    /// When the folder cannot be made.
    #[must_use]
    pub fn within(place: &Path, kind: &'static str) -> Self {
        let folder = tempfile::tempdir_in(place).unwrap();
        std::fs::write(folder.path().join("nasty.py"), include_str!("nasty.py")).unwrap();
        Self { folder, kind }
    }

    /// A file of that folder: `lock` is held by every descendant.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What `python3` is given.
    #[must_use]
    pub fn args(&self) -> Vec<String> {
        let files = ["nasty.py", "lock", "ready"].map(|f| self.file(f).display().to_string());
        files.into_iter().chain([self.kind.to_owned()]).collect()
    }

    /// It as a call.
    #[must_use]
    pub fn request(&self) -> Request {
        Request { timeout: Duration::from_secs(170), ..Request::new("python3").args(self.args()) }
    }

    /// It as a live process.
    #[must_use]
    pub fn live(&self) -> StartRequest {
        StartRequest {
            command: "python3".into(),
            args: self.args(),
            stdio: Stdio::Merged,
            ..Default::default()
        }
    }

    /// Waits until every descendant is in place.
    ///
    /// # Panics
    /// When they do not get there, or do not hold the lock.
    pub async fn ready(&self) {
        let path = self.file("ready");
        let limit = Instant::now() + Duration::from_secs(170);
        while !path.exists() {
            if Instant::now() > limit {
                let said =
                    ["output", "errors"].map(|f| std::fs::read_to_string(self.file(f)).unwrap_or_default());
                panic!("{}: the program never got ready {}", self.kind, said.join("\n"));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let lock = File::open(self.file("lock")).unwrap();
        let held = rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive);
        assert!(held.is_err(), "{}: nobody holds the lock, so the test would prove nothing", self.kind);
    }

    /// Everybody is gone at this moment.
    ///
    /// # Panics
    /// When somebody is not.
    pub fn assert_gone(&self, after: &str) {
        let lock = File::open(self.file("lock")).unwrap();
        let free = rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive);
        assert!(free.is_ok(), "{} after {after}: somebody is still alive", self.kind);
    }

    /// Everybody goes, though nobody can be waited for.
    ///
    /// # Panics
    /// When somebody is there after three minutes.
    pub async fn wait_gone(&self, after: &str) {
        let lock = File::open(self.file("lock")).unwrap();
        let limit = Instant::now() + Duration::from_secs(170);
        while rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            assert!(Instant::now() < limit, "{} after {after}: somebody is still alive", self.kind);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Every way in which the caller ends a program, on every kind. `place` is a folder that programs in the sandbox
/// know by the same name; they need `python3` and `bash`.
///
/// # Panics
/// When a descendant outlives its call, or an outcome is wrong.
pub async fn ends_by_the_caller(sandbox: Arc<dyn Sandbox>, place: &Path) {
    ends_of(sandbox, place, &KINDS).await;
}

/// [`ends_by_the_caller`] for some kinds.
///
/// # Panics
/// As there.
pub async fn ends_of(sandbox: Arc<dyn Sandbox>, place: &Path, kinds: &[&'static str]) {
    // Those who take a whole processor run alone; the others only wait.
    let (busy, calm): (Vec<&str>, Vec<&str>) = kinds.iter().partition(|kind| BUSY.contains(kind));
    futures_util::future::join_all(calm.into_iter().map(|kind| ends(&sandbox, place, kind))).await;
    for kind in busy {
        ends(&sandbox, place, kind).await;
    }
}

async fn ends(sandbox: &Arc<dyn Sandbox>, place: &Path, kind: &'static str) {
    let nasty = Nasty::within(place, kind);
    let mut request = nasty.request();
    request.args.push("7".into());
    assert_eq!(sandbox.spawn(request).await.outcome, Outcome::Exited(7), "{kind}: its own exit code");
    nasty.assert_gone("a normal exit");

    let nasty = Nasty::within(place, kind);
    let mut request = nasty.request();
    // Long enough for most kinds to be in place; whoever is not yet must die all the same.
    request.timeout = Duration::from_millis(600);
    assert_eq!(sandbox.spawn(request).await.outcome, Outcome::TimedOut, "{kind}");
    if nasty.file("lock").exists() {
        nasty.assert_gone("a timeout");
    }

    let nasty = Nasty::within(place, kind);
    let request = nasty.request();
    let cancel = request.cancel.clone();
    let (response, ()) = tokio::join!(sandbox.spawn(request), async {
        nasty.ready().await;
        cancel.cancel();
    });
    assert_eq!(response.outcome, Outcome::Cancelled, "{kind}");
    nasty.assert_gone("a cancel");

    let nasty = Nasty::within(place, kind);
    tokio::select! {
        response = sandbox.spawn(nasty.request()) => panic!("{kind} ended by itself: {response:?}"),
        () = nasty.ready() => {}
    }
    nasty.wait_gone("a dropped call").await;

    let streaming = sandbox.streaming().unwrap();
    let nasty = Nasty::within(place, kind);
    let process = streaming.start(nasty.live()).await.unwrap();
    nasty.ready().await;
    process.control.kill();
    assert_eq!(process.control.wait().await, Outcome::Cancelled, "{kind}");
    nasty.assert_gone("a kill");

    let nasty = Nasty::within(place, kind);
    let process = streaming.start(nasty.live()).await.unwrap();
    nasty.ready().await;
    drop(process);
    nasty.wait_gone("a dropped process").await;
}
