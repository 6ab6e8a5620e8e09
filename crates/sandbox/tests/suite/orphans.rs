//! Whatever a program leaves behind, and however it is ended, nobody lives on.
//!
//! Every descendant holds a shared lock on a file; an exclusive lock on it proves that all are gone. No test
//! looks for processes or trusts a pause.

use rustix::{
    fs::FlockOperation,
    process::{Pid, Signal},
};
use sandbox::{Outcome, Request, Sandbox, StartRequest, Stdio, direct::Direct};
use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::Arc,
    time::{Duration, Instant},
};

pub(crate) const KINDS: [&str; 5] = ["setsid", "nohup", "daemon", "loop", "bomb"];

/// A program that leaves descendants, and the file they lock.
pub(crate) struct Nasty {
    folder: tempfile::TempDir,
    kind: &'static str,
}

impl Nasty {
    pub(crate) fn new(kind: &'static str) -> Self {
        Self::within(&std::env::temp_dir(), kind)
    }

    pub(crate) fn within(place: &Path, kind: &'static str) -> Self {
        let folder = tempfile::tempdir_in(place).unwrap();
        std::fs::copy(
            concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/nasty.py"),
            folder.path().join("nasty.py"),
        )
        .unwrap();
        Self { folder, kind }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn args(&self) -> Vec<String> {
        let files = ["nasty.py", "lock", "ready"].map(|f| self.file(f).display().to_string());
        files.into_iter().chain([self.kind.to_owned()]).collect()
    }

    pub(crate) fn request(&self) -> Request {
        Request { timeout: Duration::from_secs(50), ..Request::new("python3").args(self.args()) }
    }

    pub(crate) fn live(&self) -> StartRequest {
        StartRequest {
            command: "python3".into(),
            args: self.args(),
            stdio: Stdio::Merged,
            ..Default::default()
        }
    }

    pub(crate) async fn ready(&self) {
        let path = self.file("ready");
        let limit = Instant::now() + Duration::from_secs(30);
        while !path.exists() {
            assert!(Instant::now() < limit, "{}: the program never got ready", self.kind);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let lock = File::open(self.file("lock")).unwrap();
        let held = rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive);
        assert!(held.is_err(), "{}: nobody holds the lock, so the test would prove nothing", self.kind);
    }

    /// Everybody is gone at this moment.
    pub(crate) fn assert_gone(&self, after: &str) {
        let lock = File::open(self.file("lock")).unwrap();
        let free = rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive);
        assert!(free.is_ok(), "{} after {after}: somebody is still alive", self.kind);
    }

    /// Everybody goes, though nobody can be waited for.
    pub(crate) async fn wait_gone(&self, after: &str) {
        let lock = File::open(self.file("lock")).unwrap();
        let limit = Instant::now() + Duration::from_secs(30);
        while rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            assert!(Instant::now() < limit, "{} after {after}: somebody is still alive", self.kind);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Every way in which the caller ends a program, on every kind.
pub(crate) async fn ends_by_the_caller(sandbox: Arc<dyn Sandbox>, place: &Path) {
    for kind in KINDS {
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
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn direct_when_the_caller_ends_it() {
    ends_by_the_caller(Arc::new(Direct::new("direct")), &std::env::temp_dir()).await;
}

/// A server of its own, to be killed.
pub(crate) struct Server(pub(crate) Child);

impl Server {
    fn start(test: &str, nasty: &Nasty) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--ignored", "--nocapture"])
            .env("NASTY_ARGS", nasty.args().join("\n"))
            .stdout(File::create(nasty.file("output")).unwrap())
            .stderr(File::create(nasty.file("errors")).unwrap())
            .spawn()
            .unwrap();
        Self(child)
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn children(pid: i32) -> Vec<i32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let lists = threads.filter_map(|t| std::fs::read_to_string(t.path().join("children")).ok());
    lists.flat_map(|l| l.split_whitespace().map(|w| w.parse().unwrap()).collect::<Vec<_>>()).collect()
}

/// The child of `pid` with this name.
fn child_named(pid: i32, name: &str) -> i32 {
    let is = |child: &i32| {
        std::fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|comm| comm.trim_end() == name)
    };
    children(pid).into_iter().find(is).unwrap_or_else(|| panic!("{pid} has no child named {name}"))
}

fn signal(pid: i32, signal: Signal) {
    rustix::process::kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

#[tokio::test]
async fn direct_when_the_server_is_killed() {
    for kind in KINDS {
        for by in [Signal::KILL, Signal::TERM, Signal::INT, Signal::HUP] {
            let nasty = Nasty::new(kind);
            let server = Server::start("orphans::server_alone", &nasty);
            nasty.ready().await;
            signal(server.pid(), by);
            nasty.wait_gone("a signal to the server").await;
        }
    }
}

#[tokio::test]
async fn direct_when_the_spawner_is_killed() {
    for kind in KINDS {
        let nasty = Nasty::new(kind);
        let mut server = Server::start("orphans::server_alone", &nasty);
        nasty.ready().await;
        signal(child_named(server.pid(), "sandbox-spawner"), Signal::KILL);
        nasty.wait_gone("SIGKILL of the spawner").await;
        // The server lives on and says so: see `server_alone`.
        assert!(
            server.0.wait().unwrap().success(),
            "{}",
            std::fs::read_to_string(nasty.file("output")).unwrap()
        );
    }
}

#[tokio::test]
async fn direct_when_the_supervisor_is_killed() {
    for kind in KINDS {
        let nasty = Nasty::new(kind);
        let mut server = Server::start("orphans::server_alone", &nasty);
        nasty.ready().await;
        let spawner = child_named(server.pid(), "sandbox-spawner");
        signal(child_named(spawner, "sandbox-super"), Signal::KILL);
        assert!(
            server.0.wait().unwrap().success(),
            "{}",
            std::fs::read_to_string(nasty.file("output")).unwrap()
        );
        nasty.assert_gone("SIGKILL of the supervisor");
    }
}

/// Runs a nasty program. Whoever kills the processes between gets an answer, and the next command works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a server for the tests above"]
async fn server_alone() {
    let args = std::env::var("NASTY_ARGS").unwrap();
    let direct = Direct::new("direct");
    let mut request = Request::new("python3").args(args.lines());
    request.timeout = Duration::from_secs(50);
    let response = direct.spawn(request).await;
    assert!(matches!(response.outcome, Outcome::Transport { .. }), "{response:?}");
    assert!(direct.spawn(Request::new("true")).await.outcome.success());
}
