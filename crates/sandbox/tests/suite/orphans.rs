//! Whatever a program leaves behind, and however it is ended, nobody lives on.
//!
//! Every descendant holds a shared lock on a file; an exclusive lock on it proves that all are gone. No test
//! looks for processes or trusts a pause.

use rustix::{
    fs::FlockOperation,
    process::{Pid, Signal},
};
use sandbox::{
    Outcome, Request, Sandbox,
    direct::Direct,
    isolated::Tier,
    suite::orphans::{KINDS, Nasty, ends_by_the_caller},
};
use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::Arc,
    time::Duration,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn direct_when_the_caller_ends_it() {
    ends_by_the_caller(Arc::new(Direct::new("direct")), &std::env::temp_dir()).await;
}

/// Where a nasty program runs while processes above it are killed.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Direct,
    Isolated(Tier),
}

const MODES: [Mode; 3] = [Mode::Direct, Mode::Isolated(Tier::Namespaces), Mode::Isolated(Tier::Landlock)];

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Isolated(tier) => tier.name(),
        }
    }

    /// The names of the processes between the server and the program.
    fn between(self) -> &'static [&'static str] {
        match self {
            Self::Direct => &["sandbox-spawner", "sandbox-super"],
            Self::Isolated(Tier::Namespaces) => &["sandbox-spawner", "sandbox-zygote", "sandbox-super"],
            Self::Isolated(Tier::Landlock) => {
                &["sandbox-spawner", "sandbox-zygote", "sandbox-guard", "sandbox-super"]
            }
        }
    }

    fn build(self, workspace: &Path) -> Arc<dyn Sandbox> {
        match self {
            Self::Direct => Arc::new(Direct::new("direct")),
            Self::Isolated(tier) => Arc::new(crate::isolated::build(tier, workspace)),
        }
    }
}

/// A server of its own, to be killed.
struct Server(Child);

impl Server {
    fn start(mode: Mode, nasty: &Nasty) -> Self {
        // Whoever runs the tests may ignore signals (nohup, a background job), and that is inherited.
        let child = Command::new("env")
            .arg("--default-signal=HUP,INT,TERM")
            .arg(std::env::current_exe().unwrap())
            .args(["orphans::server_alone", "--exact", "--ignored", "--nocapture"])
            .env("NASTY_ARGS", nasty.args().join("\n"))
            .env("NASTY_MODE", mode.name())
            .stdout(File::create(nasty.file("output")).unwrap())
            .stderr(File::create(nasty.file("errors")).unwrap())
            .spawn()
            .unwrap();
        Self(child)
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }

    /// The process at the end of these names, each a child of the one before, the last one with children.
    fn descendant(&self, names: &[&str]) -> i32 {
        let mut level = vec![self.pid()];
        for name in names {
            level = level.into_iter().flat_map(children).filter(|pid| named(*pid, name)).collect();
        }
        let busy = level.iter().find(|pid| !children(**pid).is_empty());
        *busy.unwrap_or_else(|| panic!("no process {names:?} below {}", self.pid()))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn children(pid: i32) -> Vec<i32> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists = threads.flatten().filter_map(|t| std::fs::read_to_string(t.path().join("children")).ok());
    lists.flat_map(|l| l.split_whitespace().map(|w| w.parse().unwrap()).collect::<Vec<_>>()).collect()
}

fn named(pid: i32, name: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim_end() == name)
}

fn signal(pid: i32, signal: Signal) {
    rustix::process::kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

#[tokio::test]
async fn when_the_server_is_killed() {
    for mode in MODES {
        for kind in KINDS {
            for by in [Signal::KILL, Signal::TERM, Signal::INT, Signal::HUP] {
                // One signal is like the other for whoever only sees the server vanish.
                if by != Signal::KILL && kind != "setsid" {
                    continue;
                }
                let nasty = Nasty::within(&std::env::temp_dir(), kind);
                let server = Server::start(mode, &nasty);
                nasty.ready().await;
                signal(server.pid(), by);
                nasty.wait_gone(&format!("{} of the server ({})", by.as_raw(), mode.name())).await;
            }
        }
    }
}

/// Kills each process between the server and the program in turn. The server lives on, gets an answer, and its next
/// command works: see `server_alone`.
async fn when_a_process_between_is_killed(mode: Mode) {
    for depth in 1..=mode.between().len() {
        for kind in KINDS {
            let names = &mode.between()[..depth];
            let nasty = Nasty::within(&std::env::temp_dir(), kind);
            let mut server = Server::start(mode, &nasty);
            nasty.ready().await;
            signal(server.descendant(names), Signal::KILL);
            let status = server.0.wait().unwrap();
            let said = ["output", "errors"].map(|f| std::fs::read_to_string(nasty.file(f)).unwrap());
            assert!(status.success(), "{kind}, SIGKILL of {names:?}: {}", said.join("\n"));
            nasty.wait_gone(&format!("SIGKILL of {names:?}")).await;
        }
    }
}

#[tokio::test]
async fn when_a_process_between_is_killed_direct() {
    when_a_process_between_is_killed(Mode::Direct).await;
}

#[tokio::test]
async fn when_a_process_between_is_killed_namespaces() {
    when_a_process_between_is_killed(Mode::Isolated(Tier::Namespaces)).await;
}

#[tokio::test]
async fn when_a_process_between_is_killed_landlock() {
    when_a_process_between_is_killed(Mode::Isolated(Tier::Landlock)).await;
}

/// Runs a nasty program. Whoever kills the processes between gets an answer after everybody is gone, and the next
/// command works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a server for the tests above"]
async fn server_alone() {
    let args = std::env::var("NASTY_ARGS").unwrap();
    let mode = std::env::var("NASTY_MODE").unwrap();
    let mode = MODES.into_iter().find(|m| m.name() == mode).unwrap();
    let script = PathBuf::from(args.lines().next().unwrap());
    let sandbox = mode.build(script.parent().unwrap());
    let mut request = Request::new("python3").args(args.lines());
    request.timeout = Duration::from_secs(50);
    let response = sandbox.spawn(request).await;
    assert!(matches!(response.outcome, Outcome::Transport { .. }), "{response:?}");
    let lock = File::open(script.with_file_name("lock")).unwrap();
    let free = rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive);
    assert!(free.is_ok(), "the answer came while somebody was alive: {response:?}");
    drop(lock);
    let next = sandbox.spawn(Request::new("true")).await;
    assert!(next.outcome.success(), "{next:?}");
}
