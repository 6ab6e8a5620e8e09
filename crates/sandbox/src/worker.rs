//! The server's side of a supervisor, and the pool of idle ones.

use crate::{
    Outcome,
    cgroup::Group,
    spawner,
    sys::{self, Stage},
    wire::{self, Exceeded, Report, Run},
};
use futures_util::future::BoxFuture;
use rustix::io::Errno;
use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::io::{Interest, unix::AsyncFd};

/// Idle supervisors beyond this number are let go.
const MOST_IDLE: usize = 16;
/// How many fresh supervisors are kept where none is used twice.
const FRESH: usize = 2;
/// How long a kill may take before the caller is told that something is stuck in the kernel.
const KILL_GRACE: Duration = Duration::from_secs(20);

/// The server's end of a supervisor.
pub(crate) struct Worker {
    pub(crate) socket: OwnedFd,
    /// Where the kernel accounts for it, when a control group does.
    pub(crate) group: Option<Group>,
    /// The process itself, when it is the first one of a namespace and has said so: readable once all in it are dead.
    pub(crate) process: Option<OwnedFd>,
}

/// Who makes new supervisors of one kind.
pub(crate) trait Source: Send + Sync {
    /// A new supervisor.
    fn new_worker(&self) -> BoxFuture<'_, io::Result<Worker>>;

    /// Whether a supervisor may serve a second program.
    fn reusable(&self) -> bool {
        true
    }
}

/// Plain supervisors, straight from the spawner.
pub(crate) struct Plain;

impl Source for Plain {
    fn new_worker(&self) -> BoxFuture<'_, io::Result<Worker>> {
        Box::pin(async { Ok(Worker { socket: spawner::new_worker().await?, group: None, process: None }) })
    }
}

/// Idle supervisors of one kind, and where new ones come from.
pub(crate) struct Pool {
    source: Box<dyn Source>,
    idle: Mutex<Vec<Worker>>,
}

impl Pool {
    pub(crate) fn new(source: impl Source + 'static) -> Arc<Self> {
        Arc::new(Self { source: Box::new(source), idle: Mutex::default() })
    }

    /// With one that is there already.
    pub(crate) fn with(source: impl Source + 'static, first: Option<Worker>) -> Arc<Self> {
        let pool = Self::new(source);
        first.into_iter().for_each(|worker| pool.give_back(worker));
        pool
    }

    fn take(&self) -> Option<Worker> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn give_back(&self, worker: Worker) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if self.source.reusable() && idle.len() < MOST_IDLE {
            idle.push(worker);
        }
    }

    /// Where every call gets a fresh supervisor, has the next ones made meanwhile.
    async fn prepare_next(&self) {
        if self.source.reusable() {
            return;
        }
        while self.idle.lock().unwrap_or_else(PoisonError::into_inner).len() < FRESH {
            // The next call that finds none asks for itself, and reports what is wrong.
            let Ok(worker) = self.source.new_worker().await else { return };
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
        }
    }

    /// Starts a program; `fds` are its standard streams.
    pub(crate) async fn start(
        self: &Arc<Self>,
        run: &Run<'_>,
        fds: &[BorrowedFd<'_>],
    ) -> Result<Call, Outcome> {
        let (packet, file) = run.encode().map_err(|why| Outcome::Refused { why })?;
        let mut sent: Vec<BorrowedFd<'_>> = fds.to_vec();
        sent.extend(file.as_ref().map(OwnedFd::as_fd));
        loop {
            let idle = self.take();
            let reused = idle.is_some();
            let worker = match idle {
                Some(worker) => worker,
                None => self.source.new_worker().await.map_err(|e| transport("no supervisor", &e))?,
            };
            match wire::send(&worker.socket, &packet, &sent) {
                Ok(()) => {
                    self.prepare_next().await;
                    let Worker { socket, group, process } = worker;
                    let socket =
                        sys::watched(socket, Interest::READABLE).map_err(|e| transport("the runtime", &e))?;
                    let kills = group.as_ref().map_or(0, Group::memory_kills);
                    return Ok(Call {
                        socket: Some(socket),
                        group,
                        kills,
                        process,
                        unfrozen: String::new(),
                        pool: self.clone(),
                    });
                }
                // An idle supervisor was killed; the next one, or a new one, takes over.
                Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) if reused => {}
                Err(error) => return Err(transport("the supervisor", &error.into())),
            }
        }
    }
}

pub(crate) fn transport(what: &str, error: &io::Error) -> Outcome {
    let hint = match error.raw_os_error() {
        Some(libc::EMFILE) => " (too many open files: raise the limit with `ulimit -n`)",
        Some(libc::ENFILE) => " (the system has too many open files)",
        _ => "",
    };
    Outcome::Transport { why: format!("{what}: {error}{hint}") }
}

/// A program under a supervisor. Dropping it before its end closes the socket, and the supervisor ends the
/// program and every descendant.
pub(crate) struct Call {
    socket: Option<AsyncFd<OwnedFd>>,
    group: Option<Group>,
    /// How often the kernel had killed for memory in the group before.
    kills: u64,
    /// As the worker's.
    process: Option<OwnedFd>,
    /// What its set-up left undone.
    unfrozen: String,
    pool: Arc<Pool>,
}

/// How a program under a supervisor ended.
pub(crate) struct End {
    pub(crate) report: Option<Report>,
    /// The memory cap, when the kernel or the supervisor killed for it.
    pub(crate) out_of_memory: bool,
    unfrozen: String,
}

impl Call {
    /// The next report on the program; `None` when the supervisor is gone.
    async fn report(&mut self) -> Option<Report> {
        loop {
            let mut ready = self.socket.as_ref()?.readable().await.ok()?;
            let mut packet = [0; wire::REPORT];
            match ready.try_io(|fd| wire::receive(fd, &mut packet).map_err(io::Error::from)) {
                Ok(Ok((n, mut fds))) => match Report::decode(&packet[..n]) {
                    // A new supervisor introduces itself.
                    Some(Report::Ready(unfrozen)) => (self.process, self.unfrozen) = (fds.pop(), unfrozen),
                    report => return report,
                },
                Ok(Err(_)) => return None,
                Err(_would_block) => {}
            }
        }
    }

    /// Waits until the program runs, after a request that asked for the announcement.
    pub(crate) async fn started(&mut self) -> Result<(), End> {
        match self.report().await {
            Some(Report::Started) => Ok(()),
            report => Err(self.end(report).await),
        }
    }

    /// Waits until the program and every descendant are gone.
    pub(crate) async fn ended(&mut self) -> End {
        loop {
            match self.report().await {
                Some(Report::Started) => {}
                report => return self.end(report).await,
            }
        }
    }

    async fn end(&mut self, report: Option<Report>) -> End {
        let killed = self.group.as_ref().is_some_and(|group| group.memory_kills() > self.kills);
        let watched = matches!(report, Some(Report::Ended { exceeded: Some(Exceeded::Memory), .. }));
        let unfrozen = std::mem::take(&mut self.unfrozen);
        if let Some(socket) = self.socket.take() {
            if matches!(report, Some(Report::Ended { .. } | Report::Failed { .. })) {
                // One that could not freeze everything is used once: the next may find nothing in its way.
                if unfrozen.is_empty() {
                    let (socket, group) = (socket.into_inner(), self.group.take());
                    self.pool.give_back(Worker { socket, group, process: self.process.take() });
                }
            } else {
                closed(self.process.take()).await;
                wait_for_orphans().await;
            }
        }
        End { report, out_of_memory: killed || watched, unfrozen }
    }

    /// Ends the program and every descendant, and waits for that.
    pub(crate) async fn kill(&mut self) -> End {
        if let Some(socket) = &self.socket {
            // A supervisor that cannot be told is gone, and `ended` finds that out.
            let _ = wire::send(socket, &[wire::KILL], &[]);
        }
        match tokio::time::timeout(KILL_GRACE, self.ended()).await {
            Ok(end) => end,
            Err(_) => {
                self.socket = None;
                End { report: None, out_of_memory: false, unfrozen: String::new() }
            }
        }
    }
}

/// After a supervisor was killed: waits until the spawner has ended what it left behind.
async fn wait_for_orphans() {
    closed(spawner::settle().await.ok()).await;
}

/// Waits until a descriptor on which nothing is ever sent becomes readable by its end.
async fn closed(fd: Option<OwnedFd>) {
    if let Some(Ok(fd)) = fd.map(|fd| sys::watched(fd, Interest::READABLE)) {
        let _ = tokio::time::timeout(KILL_GRACE, fd.readable()).await;
    }
}

impl End {
    /// What is to be remarked about it.
    pub(crate) fn notes(&self, memory: Option<u64>) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.unfrozen.is_empty() {
            notes.push(format!(
                "a repository in the workspace could not be frozen ({}): look at its hooks and configuration \
                 before you use git there",
                self.unfrozen
            ));
        }
        match &self.report {
            Some(Report::Ended { exceeded: Some(Exceeded::Pids), .. }) => {
                let what = "killed by the sandbox: more processes than `pids` allows; raise it to allow more";
                notes.push(what.to_owned());
            }
            Some(Report::Ended { exceeded: Some(Exceeded::Cpu), .. }) => {
                let what = "killed by the sandbox: more processor time than `cpu` allows, of all its processes \
                            together; raise it to allow more";
                notes.push(what.to_owned());
            }
            Some(Report::Ended { status: 0, .. }) if self.out_of_memory => {
                // As the outcome would say it, had the command failed with it.
                let killed = Outcome::OutOfMemory { limit: memory };
                notes.push(format!("a child of the command was {killed}; raise `memory` to allow more"));
            }
            _ => {}
        }
        notes
    }

    /// What it means for the caller who asked for `command` in `cwd`.
    pub(crate) fn outcome(
        &self,
        command: &str,
        cwd: Option<&std::path::Path>,
        memory: Option<u64>,
    ) -> Outcome {
        if self.out_of_memory && !matches!(&self.report, Some(Report::Ended { status: 0, .. })) {
            return Outcome::OutOfMemory { limit: memory };
        }
        match &self.report {
            Some(Report::Ended { status, .. }) => match sys::read_status(*status) {
                Ok(code) => Outcome::Exited(code),
                Err(signal) => Outcome::Signaled(signal),
            },
            Some(Report::Failed { stage, errno }) => failure(*stage, *errno, command, cwd),
            Some(Report::Broken(why)) => Outcome::Transport { why: format!("the sandbox could not be set up: {why}") },
            Some(Report::Started | Report::Ready(_)) | None => Outcome::Transport {
                why: "the process that supervised the command was killed; the command and its children are gone"
                    .to_owned(),
            },
        }
    }
}

fn failure(stage: u8, errno: i32, command: &str, cwd: Option<&std::path::Path>) -> Outcome {
    let error = io::Error::from_raw_os_error(errno);
    if stage == Stage::Chdir as u8 {
        let cwd = cwd.unwrap_or(std::path::Path::new("/")).display();
        return Outcome::Refused { why: format!("working directory {cwd}: {error}; pass one that exists") };
    }
    if stage != Stage::Exec as u8 {
        return Outcome::Transport { why: format!("{command} could not be started: {error}") };
    }
    match errno {
        libc::ENOENT | libc::ENOTDIR => Outcome::NotFound { command: command.to_owned() },
        libc::EACCES => {
            Outcome::Refused { why: format!("{command} is not executable; check its mode (chmod +x)") }
        }
        libc::E2BIG => Outcome::Refused {
            why: format!(
                "the arguments and environment of {command} are too long; pass data on stdin or in a file"
            ),
        },
        _ => Outcome::Refused { why: format!("{command} could not be executed: {error}") },
    }
}
