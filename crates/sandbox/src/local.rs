//! What the local backends share: a program under a supervisor, collected or live.

use crate::{
    Control, EnvEntry, Outcome, Process, Request, Response, StartRequest, Stdio,
    capture::Capture,
    env::Environment,
    streams::{self, Input, Output, Tap},
    sys,
    wire::Run,
    worker::{Call, End, Pool, transport},
};
use futures_util::future::BoxFuture;
use rustix::process::Resource;
use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{Arc, LazyLock, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, Interest, unix::AsyncFd},
    sync::{Semaphore, SemaphorePermit, watch},
};
use tokio_util::sync::CancellationToken;

/// How long a request may take that does not say.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// As many collected calls at a time as the limit of open files bears; more wait for their turn.
static TURNS: LazyLock<Semaphore> = LazyLock::new(|| {
    let files = rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    Semaphore::new(usize::try_from(files / 8).unwrap_or(usize::MAX).clamp(8, 4096))
});

/// Held by a collected call for as long as its streams are open.
pub(crate) type Turn = SemaphorePermit<'static>;

/// Waits for a turn; nothing when the call is cancelled before.
pub(crate) async fn turn(cancel: &CancellationToken) -> Option<Turn> {
    let turn = cancel.run_until_cancelled(TURNS.acquire()).await?;
    // Nothing is begun that nobody wants any more.
    if cancel.is_cancelled() { None } else { turn.ok() }
}

/// Programs of this machine.
pub(crate) struct Local {
    pub(crate) pool: Arc<Pool>,
    pub(crate) environment: Environment,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) timeout: Duration,
    /// The cap on memory, when there is one.
    pub(crate) memory: Option<u64>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    /// Whether every live program has a stdin.
    pub(crate) stdin: bool,
}

/// Who remarks on calls.
pub(crate) trait Observer: Send + Sync {
    /// Called at the start of a call; what it returns, at the end.
    fn begin(&self) -> Box<dyn FnOnce() -> Vec<String> + Send>;

    /// Remarks on how a call ended that printed `text`.
    fn remarks(&self, outcome: &Outcome, text: &[u8]) -> Vec<String>;
}

/// How much of the output of a call is looked at for remarks.
const LOOKED_AT: usize = 64 * 1024;

/// Why the server ended a program.
enum Why {
    TimedOut,
    Cancelled,
}

impl Local {
    fn cwd<'a>(&'a self, asked: Option<&'a Path>) -> Option<&'a Path> {
        asked.or(self.cwd.as_deref())
    }

    fn begin_remarks(&self) -> Box<dyn FnOnce() -> Vec<String> + Send> {
        self.observer.as_ref().map_or_else(|| Box::new(Vec::new) as Box<_>, |observer| observer.begin())
    }

    /// Runs a program to its end.
    pub(crate) async fn spawn(&self, request: Request) -> Response {
        let finish = self.begin_remarks();
        let mut response = self.run(request).await;
        response.notes.extend(finish());
        if let Some(observer) = &self.observer {
            let (out, err) = (&response.stdout, &response.stderr);
            let text = [
                &out[out.len().saturating_sub(LOOKED_AT)..],
                b"\n",
                &err[err.len().saturating_sub(LOOKED_AT)..],
            ];
            let mut notes = observer.remarks(&response.outcome, &text.concat());
            notes.append(&mut response.notes);
            response.notes = notes;
        }
        response
    }

    async fn run(&self, request: Request) -> Response {
        let Request { command, args, env, stdin, timeout, cwd, cancel, capture_limit } = request;
        let cwd = self.cwd(cwd.as_deref());
        let Some(_turn) = turn(&cancel).await else {
            return Response::nothing(Outcome::Cancelled);
        };
        let ended = CancellationToken::new();
        let streams = match Collected::open(!stdin.is_empty()) {
            Ok(streams) => streams,
            Err(error) => return Response::nothing(transport("pipes", &error)),
        };
        let spec = Spec { command: &command, args: &args, env: &env, cwd, terminal: false, announce: false };
        let mut call = match self.begin(&spec, streams.stdin.is_some(), &streams.theirs()).await {
            Ok(call) => call,
            Err(outcome) => return Response::nothing(outcome),
        };
        let (stdout, stderr, input) = match streams.into_ours(&ended) {
            Ok(ours) => ours,
            Err(error) => return Response::nothing(transport("pipes", &error)),
        };
        let timeout = if timeout.is_zero() { self.timeout } else { timeout };
        let watch = async {
            let watched = watch(&mut call, timeout, &cancel).await;
            ended.cancel();
            (watched.outcome(&command, cwd, self.memory), watched.end.notes(self.memory))
        };
        let ((outcome, notes), stdout, stderr, ()) = tokio::join!(
            watch,
            collect(stdout, capture_limit),
            collect(stderr, capture_limit),
            feed(input, &stdin, &ended)
        );
        let omitted = stdout.1 + stderr.1;
        Response { stdout: stdout.0, stderr: stderr.0, omitted, outcome, notes }
    }

    async fn begin(&self, spec: &Spec<'_>, stdin: bool, fds: &[BorrowedFd<'_>]) -> Result<Call, Outcome> {
        let env = self.environment.merge(spec.env);
        let run = Run {
            command: spec.command.as_ref(),
            args: spec.args,
            env: &env,
            cwd: spec.cwd.map(Path::as_os_str),
            stdin,
            terminal: spec.terminal,
            announce: spec.announce,
        };
        self.pool.start(&run, fds).await
    }

    /// Starts a program and returns while it runs.
    pub(crate) async fn start(&self, request: StartRequest) -> Result<Process, Outcome> {
        let StartRequest { command, args, env, cwd, stdio } = request;
        let cwd = self.cwd(cwd.as_deref());
        let Live { stdin, stdout, stderr, terminal } =
            Live::open(stdio, self.stdin).map_err(|e| transport("pipes", &e))?;
        let spec = Spec { command: &command, args: &args, env: &env, cwd, terminal, announce: true };
        // Before the program can have done anything.
        let finish = self.begin_remarks();
        let mut call = {
            let mut theirs: Vec<BorrowedFd<'_>> = Vec::new();
            theirs.extend(stdin.as_ref().map(|pipe| pipe.theirs.as_fd()));
            theirs.push(stdout.theirs.as_fd());
            theirs.push(stderr.as_ref().unwrap_or(&stdout).theirs.as_fd());
            self.begin(&spec, stdin.is_some(), &theirs).await?
        };
        let ended = CancellationToken::new();
        let (stdin, stdout, stderr) = (stdin.map(Pair::input), stdout.output(), stderr.map(Pair::output));
        let broken = |e: io::Error| transport("the runtime", &e);
        let (stdin, stdout, stderr) = (
            stdin.transpose().map_err(broken)?,
            stdout.map_err(broken)?,
            stderr.transpose().map_err(broken)?,
        );
        call.started().await.map_err(|end| end.outcome(&command, cwd, self.memory))?;

        let (told, outcome) = watch::channel(None);
        let kill = CancellationToken::new();
        let tap = self.observer.as_ref().map(|_| Tap::new(Mutex::new(Capture::new(Some(LOOKED_AT)))));
        let control = LocalControl {
            outcome,
            kill: kill.clone(),
            terminal: terminal.then(|| stdout.clone()),
            remarks: self.observer.clone().zip(tap.clone()),
        };
        let memory = self.memory;
        let (command, cwd) = (command.clone(), cwd.map(Path::to_owned));
        let output = ended.clone();
        tokio::spawn(async move {
            let (outcome, mut notes) = match attend(&mut call, &kill).await {
                Ok(end) => (end.outcome(&command, cwd.as_deref(), memory), end.notes(memory)),
                Err(Why::TimedOut | Why::Cancelled) => (Outcome::Cancelled, Vec::new()),
            };
            notes.extend(finish());
            ended.cancel();
            let _ = told.send(Some((outcome, notes)));
        });
        let boxed = |fd| Box::new(Output::new(fd, output.clone()).tapped(tap.clone())) as Box<_>;
        Ok(Process {
            stdin: stdin.map(|fd| Box::new(Input::new(fd)) as Box<_>),
            stdout: boxed(stdout),
            stderr: stderr.map(boxed),
            control: Box::new(control),
        })
    }
}

/// What to start, resolved.
struct Spec<'a> {
    command: &'a str,
    args: &'a [String],
    env: &'a [EnvEntry],
    cwd: Option<&'a Path>,
    terminal: bool,
    announce: bool,
}

/// How a watched call ended: by itself, or because of the server.
struct Watched {
    end: End,
    why: Option<Why>,
}

impl Watched {
    fn outcome(&self, command: &str, cwd: Option<&Path>, memory: Option<u64>) -> Outcome {
        match (&self.why, self.end.outcome(command, cwd, memory)) {
            (Some(Why::TimedOut), Outcome::Signaled(_)) => Outcome::TimedOut,
            (Some(Why::Cancelled), Outcome::Signaled(_)) => Outcome::Cancelled,
            // It had ended by itself before the kill reached it, or it never began.
            (_, outcome) => outcome,
        }
    }
}

async fn watch(call: &mut Call, timeout: Duration, cancel: &CancellationToken) -> Watched {
    let why = tokio::select! {
        biased;
        () = cancel.cancelled() => Why::Cancelled,
        end = call.ended() => return Watched { end, why: None },
        () = tokio::time::sleep(timeout) => Why::TimedOut,
    };
    Watched { end: call.kill().await, why: Some(why) }
}

/// Waits for the end of a live process, or ends it when told to.
async fn attend(call: &mut Call, kill: &CancellationToken) -> Result<End, Why> {
    tokio::select! {
        biased;
        end = call.ended() => return Ok(end),
        () = kill.cancelled() => {}
    }
    call.kill().await;
    Err(Why::Cancelled)
}

/// Reads to the end; what is kept of it, and how many bytes are not.
pub(crate) async fn collect(mut from: impl AsyncRead + Unpin, limit: Option<usize>) -> (Vec<u8>, u64) {
    let mut capture = Capture::new(limit);
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(n @ 1..) = from.read(&mut buffer).await {
        capture.push(&buffer[..n]);
    }
    capture.finish()
}

/// Writes all of stdin, as far as the program wants it.
async fn feed(into: Option<Input>, data: &[u8], ended: &CancellationToken) {
    if let Some(mut into) = into {
        tokio::select! {
            // A program that closes its stdin early has had enough: no failure.
            _ = into.write_all(data) => {}
            () = ended.cancelled() => {}
        }
    }
}

/// Both ends of one stream.
struct Pair {
    ours: OwnedFd,
    theirs: OwnedFd,
}

impl Pair {
    fn new((ours, theirs): (OwnedFd, OwnedFd)) -> Self {
        Self { ours, theirs }
    }

    /// Keeps our end and closes theirs, which the program has by now.
    fn register(self, interest: Interest) -> io::Result<Arc<AsyncFd<OwnedFd>>> {
        Ok(Arc::new(sys::watched(self.ours, interest)?))
    }

    fn output(self) -> io::Result<Arc<AsyncFd<OwnedFd>>> {
        self.register(Interest::READABLE)
    }

    fn input(self) -> io::Result<Arc<AsyncFd<OwnedFd>>> {
        self.register(Interest::WRITABLE)
    }
}

/// The streams of a collected call.
struct Collected {
    stdin: Option<Pair>,
    stdout: Pair,
    stderr: Pair,
}

impl Collected {
    fn open(stdin: bool) -> io::Result<Self> {
        Ok(Self {
            stdin: if stdin { Some(Pair::new(streams::input_pipe()?)) } else { None },
            stdout: Pair::new(streams::output_pipe()?),
            stderr: Pair::new(streams::output_pipe()?),
        })
    }

    fn theirs(&self) -> Vec<BorrowedFd<'_>> {
        self.stdin.iter().chain([&self.stdout, &self.stderr]).map(|pair| pair.theirs.as_fd()).collect()
    }

    fn into_ours(self, ended: &CancellationToken) -> io::Result<(Output, Output, Option<Input>)> {
        Ok((
            Output::new(self.stdout.output()?, ended.clone()),
            Output::new(self.stderr.output()?, ended.clone()),
            self.stdin.map(Pair::input).transpose()?.map(Input::new),
        ))
    }
}

/// The streams of a live process.
struct Live {
    stdin: Option<Pair>,
    stdout: Pair,
    stderr: Option<Pair>,
    terminal: bool,
}

impl Live {
    fn open(stdio: Stdio, stdin: bool) -> io::Result<Self> {
        Ok(match stdio {
            Stdio::Separate => Self {
                stdin: Some(Pair::new(streams::input_pipe()?)),
                stdout: Pair::new(streams::output_pipe()?),
                stderr: Some(Pair::new(streams::output_pipe()?)),
                terminal: false,
            },
            Stdio::Merged => Self {
                stdin: if stdin { Some(Pair::new(streams::input_pipe()?)) } else { None },
                stdout: Pair::new(streams::output_pipe()?),
                stderr: None,
                terminal: false,
            },
            Stdio::Terminal { cols, rows } => {
                let both = Pair::new(streams::terminal(cols, rows)?);
                let stdin = Pair { ours: both.ours.try_clone()?, theirs: both.theirs.try_clone()? };
                Self { stdin: Some(stdin), stdout: both, stderr: None, terminal: true }
            }
        })
    }
}

/// The handle of a live process; the task that attends it ends the process when this is dropped.
struct LocalControl {
    outcome: watch::Receiver<Option<(Outcome, Vec<String>)>>,
    remarks: Option<(Arc<dyn Observer>, Tap)>,
    kill: CancellationToken,
    terminal: Option<Arc<AsyncFd<OwnedFd>>>,
}

impl Control for LocalControl {
    fn wait(&self) -> BoxFuture<'_, Outcome> {
        let mut outcome = self.outcome.clone();
        Box::pin(async move {
            let ended = outcome.wait_for(Option::is_some).await;
            ended.ok().and_then(|o| o.clone()).map(|(outcome, _)| outcome).unwrap_or_else(|| {
                Outcome::Transport { why: "the runtime that attended the process was shut down".to_owned() }
            })
        })
    }

    fn kill(&self) {
        self.kill.cancel();
    }

    fn notes(&self) -> Vec<String> {
        let Some((outcome, late)) = self.outcome.borrow().clone() else { return Vec::new() };
        let Some((observer, tap)) = &self.remarks else { return late };
        let text = tap.lock().unwrap_or_else(PoisonError::into_inner).kept();
        let mut notes = observer.remarks(&outcome, &text);
        notes.extend(late);
        notes
    }

    fn resize(&self, cols: u16, rows: u16) {
        if let Some(terminal) = &self.terminal {
            // A terminal whose program is gone has no size to change.
            let _ = streams::resize(terminal.get_ref(), cols, rows);
        }
    }
}

impl Drop for LocalControl {
    fn drop(&mut self) {
        self.kill.cancel();
    }
}
