//! The server's side of a supervisor, and the pool of idle ones.

use crate::{
    Outcome, spawner,
    sys::{self, Stage},
    wire::{self, Report, Run},
};
use futures_util::future::BoxFuture;
use rustix::io::Errno;
use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::io::unix::AsyncFd;

/// Idle supervisors beyond this number are let go.
const MOST_IDLE: usize = 16;
/// How long a kill may take before the caller is told that something is stuck in the kernel.
const KILL_GRACE: Duration = Duration::from_secs(20);

/// Who makes new supervisors of one kind.
pub(crate) trait Source: Send + Sync {
    /// A socket to a new supervisor.
    fn new_worker(&self) -> BoxFuture<'_, io::Result<OwnedFd>>;
}

/// Plain supervisors, straight from the spawner.
pub(crate) struct Plain;

impl Source for Plain {
    fn new_worker(&self) -> BoxFuture<'_, io::Result<OwnedFd>> {
        Box::pin(spawner::new_worker())
    }
}

/// Idle supervisors of one kind, and where new ones come from.
pub(crate) struct Pool {
    source: Box<dyn Source>,
    idle: Mutex<Vec<OwnedFd>>,
}

impl Pool {
    pub(crate) fn new(source: impl Source + 'static) -> Arc<Self> {
        Arc::new(Self { source: Box::new(source), idle: Mutex::default() })
    }

    fn take(&self) -> Option<OwnedFd> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn give_back(&self, worker: OwnedFd) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MOST_IDLE {
            idle.push(worker);
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
            match wire::send(&worker, &packet, &sent) {
                Ok(()) => {
                    let socket = sys::watched(worker).map_err(|e| transport("the runtime", &e))?;
                    return Ok(Call { socket: Some(socket), pool: self.clone() });
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
    pool: Arc<Pool>,
}

/// How a program under a supervisor ended.
pub(crate) struct End {
    pub(crate) report: Option<Report>,
}

impl Call {
    /// The next report; `None` when the supervisor is gone.
    async fn report(&self) -> Option<Report> {
        let socket = self.socket.as_ref()?;
        loop {
            let mut ready = socket.readable().await.ok()?;
            let mut packet = [0; wire::REPORT];
            match ready.try_io(|fd| wire::receive(fd, &mut packet).map_err(io::Error::from)) {
                Ok(Ok((n, _))) => return Report::decode(&packet[..n]),
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
        if let Some(socket) = self.socket.take() {
            if report.is_some() {
                self.pool.give_back(socket.into_inner());
            } else {
                wait_for_orphans().await;
            }
        }
        End { report }
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
                End { report: None }
            }
        }
    }
}

/// After a supervisor was killed: waits until the spawner has ended what it left behind.
async fn wait_for_orphans() {
    let Ok(socket) = spawner::settle().await else { return };
    if let Ok(socket) = sys::watched(socket) {
        // Nothing is ever sent on it: it becomes readable by closing.
        let _ = tokio::time::timeout(KILL_GRACE, socket.readable()).await;
    }
}

impl End {
    /// What it means for the caller who asked for `command` in `cwd`.
    pub(crate) fn outcome(&self, command: &str, cwd: Option<&std::path::Path>) -> Outcome {
        match self.report {
            Some(Report::Ended { status, .. }) => match sys::read_status(status) {
                Ok(code) => Outcome::Exited(code),
                Err(signal) => Outcome::Signaled(signal),
            },
            Some(Report::Failed { stage, errno }) => failure(stage, errno, command, cwd),
            Some(Report::Started) | None => Outcome::Transport {
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
