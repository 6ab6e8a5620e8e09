//! Commands carried elsewhere by a command-line client: `docker exec`, `kubectl exec`, and `docker run` for a place to
//! carry them to.
//!
//! The client is a local program under [`Direct`], so it cannot outlive this process. What it started at
//! the far side can; three things end it:
//!
//! - a small shell script around the command, which ends the command's leftovers when the command ends, and
//!   says on stderr, behind a mark no program knows, how it ended (so that a failed transport is never taken
//!   for a failed program);
//! - after a timeout, a cancel or a kill, a second script that ends everything bearing the call's mark;
//! - a guard, one a sandbox, that waits at the far side for its stdin to close or to fall silent, one of which
//!   happens however this process dies, and then ends everything bearing the sandbox's mark. In a container that is
//!   made for one call the guard is the first process, and the container ends with it.
//!
//! The variables of a command go ahead of its stdin: the client's words can be read by every user of this machine.
//!
//! The mark is a variable in the environment. A program that wipes its environment *and* leaves its parent
//! is not found; a container's or pod's own end is the boundary there. The far side needs `sh`, `env`, `grep`, `cat`,
//! `rm` and `sleep`, for terminals `stty`.

mod config;
mod docker;
mod kubectl;
mod last_word;
mod leftovers;
mod live;
mod rooms;
mod scripts;

pub(crate) use config::Block;
pub(crate) use docker::exec_factory;
pub(crate) use kubectl::factory as kubectl_factory;
pub(crate) use rooms::run_factory;

use crate::{
    Closer, EnvEntry, Outcome, Process, Request, Response, Sandbox, StartRequest, Stdio, StreamingSandbox,
    direct::Direct, host_variables,
};
use futures_util::{FutureExt as _, future::BoxFuture};
use last_word::LastWord;
use live::{Carry, Sweep};
use scripts::{SWEEP, WRAP};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::Mutex,
};

/// Whether a command is there.
const FIND: &str = "command -v \"$1\" >/dev/null 2>&1 || exit 97";
const MISSING: i32 = 97;

/// How long the far side may take to say so: the first call may find its machine busy or its image cold.
const LOOK_TIMEOUT: Duration = Duration::from_secs(120);

/// How often a command is tried that was not begun: on busy nodes kubectl's stdin breaks off now and then.
const TRIES: u32 = 3;
const UNBEGUN: &str = "the connection breaks off before a command can begin; try again when it is steady";

/// How long a guard may take to speak up before another is sent, for each but the last: on busy nodes a connection is
/// made now and then over which nothing ever comes.
const PATIENCE: [Duration; 2] = [Duration::from_secs(15), Duration::from_secs(30)];

/// How often a guard hears from here.
const BEAT: Duration = Duration::from_secs(2);

/// How long ending the leftovers may take: they may be what keeps the machine busy.
const SWEEP_TIMEOUT: Duration = Duration::from_secs(40);

/// The words that bring a script to the far side.
pub(crate) trait Carrier: Send + Sync + 'static {
    /// Client and arguments up to, not including, the program at the far side.
    fn prefix(&self, terminal: bool) -> Vec<String>;

    /// A local command that begins a guard: it says one byte, and has everything at the far side end that bears the mark
    /// when its stdin closes or falls silent.
    fn guard(&self, mark: &Mark) -> Vec<String> {
        self.script(scripts::guard(), mark)
    }

    /// Whether a guard speaks up within moments of being begun, whatever has to be fetched for it.
    fn is_prompt(&self) -> bool {
        true
    }

    /// A local command that ends everything at the far side that bears the mark.
    fn ending(&self, mark: &Mark) -> Vec<String> {
        self.script(format!("{SWEEP}sweep \"$1\" hard"), mark)
    }

    /// A script at the far side that is given the mark.
    fn script(&self, script: String, mark: &Mark) -> Vec<String> {
        let mut argv = self.prefix(false);
        argv.extend(["sh".to_owned(), "-c".to_owned(), script, "sh".to_owned(), mark.to_string()]);
        argv
    }

    /// What is told apart in errors ("container web").
    fn place(&self) -> String;
    /// Where a command runs that does not say.
    fn workdir(&self) -> Option<&str>;
}

/// Tells the processes of a call, or of a whole sandbox, from all others at the far side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    sandbox: String,
    call: Option<u64>,
}

impl Mark {
    /// Unlike that of any other sandbox on any machine.
    fn fresh() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos());
        let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Self { sandbox: format!("cs{now:x}p{process:x}n{number:x}"), call: None }
    }

    fn call(&self, number: u64) -> Self {
        Self { call: Some(number), ..self.clone() }
    }
}

/// A sandbox's mark is the beginning of those of its calls, none of which is the beginning of another.
impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.call {
            Some(number) => write!(f, "{}-{number}.", self.sandbox),
            None => write!(f, "{}-", self.sandbox),
        }
    }
}

/// A sandbox at the other end of a client.
pub(crate) struct Carried {
    name: String,
    client: Direct,
    carrier: Arc<dyn Carrier>,
    timeout: Duration,
    calls: AtomicU64,
    guard: Mutex<Option<Guard>>,
}

/// Somebody at the far side who hears of this process's death.
struct Guard {
    /// What all that it guards bears. The next guard has another, so that this one's end is not that of later calls.
    mark: Mark,
    client: Process,
    beat: tokio::task::JoinHandle<()>,
}

impl Carried {
    pub(crate) fn new(name: &str, carrier: Arc<dyn Carrier>) -> Self {
        Self {
            name: name.to_owned(),
            client: Direct::new(name).with_stdin(),
            carrier,
            timeout: crate::local::DEFAULT_TIMEOUT,
            calls: AtomicU64::new(0),
            guard: Mutex::new(None),
        }
    }

    /// Runs a command at the far side to its end.
    async fn carry(&self, mut request: Request) -> Response {
        let timeout = if request.timeout.is_zero() { self.timeout } else { request.timeout };
        let deadline = tokio::time::Instant::now() + timeout;
        let (entries, mut stdin) = variables(&request.env);
        stdin.append(&mut request.stdin);
        request.stdin = stdin;
        for _ in 1..TRIES {
            if let Some(response) = self.attempt(request.clone(), entries, deadline).await {
                return response;
            }
        }
        let last = self.attempt(request, entries, deadline).await;
        last.unwrap_or_else(|| Response::nothing(self.broken(UNBEGUN.as_bytes())))
    }

    /// One try, with a stdin that begins with so many variables; nothing when the command was not begun.
    async fn attempt(
        &self,
        request: Request,
        entries: usize,
        deadline: tokio::time::Instant,
    ) -> Option<Response> {
        let nothing = |outcome| Some(Response::nothing(outcome));
        let guarded = tokio::select! {
            kept = self.keep_guard() => match kept {
                Ok(mark) => mark,
                Err(outcome) => return nothing(outcome),
            },
            () = request.cancel.cancelled() => return nothing(Outcome::Cancelled),
            () = tokio::time::sleep_until(deadline) => return nothing(Outcome::TimedOut),
        };
        let timeout = deadline.duration_since(tokio::time::Instant::now()).max(Duration::from_millis(1));
        let mark = self.next_mark(&guarded);
        let cwd = request.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into_owned());
        let words = Words { mode: "collected", entries, command: &request.command, args: &request.args };
        let (program, args) = head_and_rest(self.argv(&mark, cwd.as_deref(), &words, false));
        let carried = Request {
            command: program,
            args,
            env: Vec::new(),
            stdin: request.stdin,
            timeout,
            cwd: None,
            cancel: request.cancel,
            capture_limit: request.capture_limit,
        };
        // A dropped future must leave nothing at the far side either.
        let sweep = self.sweeper(&mark);
        let mut response = self.client.spawn(carried).await;
        let word = last_word::take(&mut response.stderr, &mark.to_string());
        response.outcome = match (word, response.outcome) {
            (_, outcome @ (Outcome::TimedOut | Outcome::Cancelled)) => {
                sweep.finish().await;
                outcome
            }
            (Some(word), _) => {
                sweep.disarm();
                match word {
                    LastWord::Unbegun => return None,
                    // Only the complaint about it.
                    LastWord::Missing => response.stderr.clear(),
                    _ => {}
                }
                self.outcome(word, &request.command, cwd.as_deref())
            }
            (None, Outcome::NotFound { command }) => {
                sweep.disarm();
                Outcome::Transport { why: format!("{command}: not found on this machine") }
            }
            (None, outcome) => {
                sweep.finish().await;
                let said = String::from_utf8_lossy(&response.stderr).trim().to_owned();
                let said = if said.is_empty() { outcome.to_string() } else { said };
                Outcome::Transport { why: format!("{}: {said}", self.carrier.place()) }
            }
        };
        Some(response)
    }

    fn outcome(&self, word: LastWord, command: &str, cwd: Option<&str>) -> Outcome {
        match word {
            LastWord::Code(code) => from_code(code),
            LastWord::Missing => Outcome::NotFound { command: command.to_owned() },
            LastWord::Unbegun => self.broken(UNBEGUN.as_bytes()),
            LastWord::Cwd => {
                let cwd = cwd.or(self.carrier.workdir()).unwrap_or_default();
                Outcome::Refused { why: format!("{cwd} is no folder in {}", self.carrier.place()) }
            }
        }
    }

    /// Starts a process at the far side.
    async fn carry_live(&self, request: StartRequest) -> Result<Process, Outcome> {
        self.look_for(&request).await?;
        let mut tries = 1;
        loop {
            match self.begin_live(&request).await? {
                Some(process) => return Ok(process),
                None if tries < TRIES => tries += 1,
                None => return Err(self.broken(UNBEGUN.as_bytes())),
            }
        }
    }

    /// One try, as [`Self::attempt`].
    async fn begin_live(&self, request: &StartRequest) -> Result<Option<Process>, Outcome> {
        let mark = self.next_mark(&self.keep_guard().await?);
        let terminal = matches!(request.stdio, Stdio::Terminal { .. });
        let cwd = request.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into_owned());
        let mode = match request.stdio {
            Stdio::Separate => "live".to_owned(),
            Stdio::Merged => "merged".to_owned(),
            // The client sets the size when it gets round to it; the program should not see another one first.
            Stdio::Terminal { cols, rows } => format!("terminal:{rows}:{cols}"),
        };
        let (entries, header) = variables(&request.env);
        let words = Words { mode: &mode, entries, command: &request.command, args: &request.args };
        let (command, args) = head_and_rest(self.argv(&mark, cwd.as_deref(), &words, terminal));
        let stdio = request.stdio;
        let started = StartRequest { command, args, stdio, ..StartRequest::default() };
        let mut inner = self.start_client(started).await?;
        let (sweep, name) = (self.sweeper(&mark), mark.to_string());
        let handed = hand_over(&mut inner, &name, terminal && entries > 0, &header);
        match tokio::time::timeout(LOOK_TIMEOUT, handed).await {
            Ok(Ok(())) => Ok(Some(Carry::wrap(inner, stdio, &mark, self.carrier.place(), sweep))),
            Ok(Err(said)) if last_word::is_unbegun(&said, &name) => Ok(None),
            Ok(Err(said)) => Err(self.broken(&said)),
            Err(_) => Err(self.broken(b"it does not take what a command needs")),
        }
    }

    /// The way there failed, for a reason that the client gave.
    fn broken(&self, said: &[u8]) -> Outcome {
        let said = String::from_utf8_lossy(said);
        Outcome::Transport { why: format!("{}: {}", self.carrier.place(), said.trim()) }
    }

    /// A live process tells too late that it was never there, so somebody looks first.
    async fn look_for(&self, request: &StartRequest) -> Result<(), Outcome> {
        let command = request.command.clone();
        let looked = Request {
            cwd: request.cwd.clone(),
            env: request.env.clone(),
            timeout: LOOK_TIMEOUT,
            ..Request::new("sh").args(["-c", FIND, "sh", &command])
        };
        match self.carry(looked).await.outcome {
            Outcome::Exited(0) => Ok(()),
            Outcome::Exited(MISSING) => Err(Outcome::NotFound { command }),
            other => Err(other),
        }
    }

    async fn start_client(&self, request: StartRequest) -> Result<Process, Outcome> {
        match self.client.streaming() {
            Some(streaming) => streaming.start(request).await.map_err(|outcome| match outcome {
                Outcome::NotFound { command } => {
                    Outcome::Transport { why: format!("{command}: not found on this machine") }
                }
                other => other,
            }),
            None => Err(Outcome::Transport { why: "no streams".to_owned() }),
        }
    }

    /// The client's words.
    fn argv(&self, mark: &Mark, cwd: Option<&str>, words: &Words<'_>, terminal: bool) -> Vec<String> {
        let mut argv = self.carrier.prefix(terminal);
        argv.extend(["env".to_owned(), format!("CODEGEN_SANDBOX_CALL={mark}")]);
        argv.extend(["sh".to_owned(), "-c".to_owned(), format!("{SWEEP}{WRAP}"), "sh".to_owned()]);
        argv.extend([mark.to_string(), words.mode.to_owned()]);
        argv.push(cwd.or(self.carrier.workdir()).unwrap_or_default().to_owned());
        argv.extend([words.entries.to_string(), words.command.to_owned()]);
        if words.command.contains('=') {
            // Or `env` would take it for a variable.
            argv.extend(["sh", "-c", "exec \"$@\"", "sh"].map(str::to_owned));
        }
        argv.push(words.command.to_owned());
        argv.extend(words.args.iter().cloned());
        argv
    }

    fn next_mark(&self, guarded: &Mark) -> Mark {
        guarded.call(self.calls.fetch_add(1, Ordering::Relaxed))
    }

    /// Ends what bears the mark, from wherever it is dropped.
    fn sweeper(&self, mark: &Mark) -> Sweep {
        sweep(&self.name, self.carrier.ending(mark))
    }

    /// Returns when a guard is in place: one that is still on its way would not see this process die. A guard whose
    /// connection broke has ended what it guarded; the next call gets a new one.
    async fn keep_guard(&self) -> Result<Mark, Outcome> {
        let mut guard = self.guard.lock().await;
        if let Some(guard) = &*guard
            && guard.client.control.wait().now_or_never().is_none()
        {
            return Ok(guard.mark.clone());
        }
        *guard = None;
        let patience = if self.carrier.is_prompt() { &PATIENCE[..] } else { &[] };
        for limit in patience {
            // It guards nobody yet, so nothing is lost with it.
            if let Ok(sent) = tokio::time::timeout(*limit, self.send_guard()).await {
                return Ok(guard.insert(sent?).mark.clone());
            }
        }
        Ok(guard.insert(self.send_guard().await?).mark.clone())
    }

    async fn send_guard(&self) -> Result<Guard, Outcome> {
        let mark = Mark::fresh();
        let (command, args) = head_and_rest(self.carrier.guard(&mark));
        let request = StartRequest { command, args, ..StartRequest::default() };
        let mut client = self.start_client(request).await?;
        if let Err(said) = first_byte(&mut client).await {
            return Err(self.broken(&said));
        }
        let stdin = client.stdin.take();
        Ok(Guard { mark, client, beat: tokio::spawn(beat(stdin)) })
    }

    /// Has the guard end everything; whether it did.
    async fn leave(&self) -> bool {
        let Some(Guard { client, beat, .. }) = self.guard.lock().await.take() else { return false };
        beat.abort();
        let ended = tokio::time::timeout(SWEEP_TIMEOUT, client.control.wait()).await;
        matches!(ended, Ok(Outcome::Exited(_)))
    }
}

impl Sandbox for Carried {
    fn name(&self) -> &str {
        &self.name
    }

    fn spawn(&self, request: Request) -> BoxFuture<'_, Response> {
        Box::pin(self.carry(request))
    }

    fn streaming(&self) -> Option<&dyn StreamingSandbox> {
        Some(self)
    }

    fn closer(&self) -> Option<&dyn Closer> {
        Some(self)
    }
}

impl StreamingSandbox for Carried {
    fn start(&self, request: StartRequest) -> BoxFuture<'_, Result<Process, Outcome>> {
        Box::pin(self.carry_live(request))
    }
}

impl Closer for Carried {
    /// Ends everything at the far side. One that was never used does not ask there.
    fn close(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            let Some(guard) = self.guard.lock().await.take() else { return Ok(()) };
            // The guard's stdin closes when this is done, and it has nothing left to end.
            done(self.sweeper(&guard.mark).run().await)
        })
    }
}

/// A local command that ends something elsewhere.
fn sweep(name: &str, words: Vec<String>) -> Sweep {
    let (command, args) = head_and_rest(words);
    Sweep::new(name, Request { timeout: SWEEP_TIMEOUT, ..Request::new(command).args(args) })
}

fn done(swept: Outcome) -> Result<(), String> {
    if swept.success() { Ok(()) } else { Err(swept.to_string()) }
}

/// Shows a guard signs of life for as long as its client lives.
async fn beat(stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>) {
    let Some(mut stdin) = stdin else { return };
    while stdin.write_all(b"\n").await.is_ok() && stdin.flush().await.is_ok() {
        tokio::time::sleep(BEAT).await;
    }
}

/// Waits for a client's first byte; what the client said instead, when it ends without. A client that has to fetch an
/// image speaks of it at length, so somebody must listen meanwhile.
async fn first_byte(client: &mut Process) -> Result<(), Vec<u8>> {
    let (mut said, mut byte) = (Vec::new(), [0]);
    let mut listen = async |said: &mut Vec<u8>| {
        if let Some(stderr) = &mut client.stderr {
            while matches!(stderr.read_buf(said).await, Ok(1..)) {}
        }
    };
    let first = tokio::select! {
        first = client.stdout.read(&mut byte) => first,
        () = async { listen(&mut said).await; std::future::pending().await } => Ok(0),
    };
    if matches!(first, Ok(1)) {
        return Ok(());
    }
    listen(&mut said).await;
    if said.is_empty() {
        said = client.control.wait().await.to_string().into_bytes();
    }
    Err(said)
}

/// Hands a live process its variables, when it `asks` if that is its way, and waits until the script says that it has
/// them; what it said otherwise, when it ends before.
async fn hand_over(process: &mut Process, mark: &str, asks: bool, header: &[u8]) -> Result<(), Vec<u8>> {
    if asks {
        said(process, &scripts::sign(mark, "ready")).await?;
    }
    if let Some(stdin) = &mut process.stdin {
        // A client that is gone says so in the end.
        let _ = stdin.write_all(header).await;
        let _ = stdin.flush().await;
    }
    said(process, &scripts::sign(mark, "begins")).await
}

/// Reads up to what is expected, and nothing after it.
async fn said(process: &mut Process, expected: &[u8]) -> Result<(), Vec<u8>> {
    let (mut said, mut byte) = (Vec::new(), [0]);
    while !said.ends_with(expected) {
        match process.stdout.read(&mut byte).await {
            Ok(1) => said.push(byte[0]),
            _ => {
                if let Some(stderr) = &mut process.stderr {
                    let _ = stderr.read_to_end(&mut said).await;
                }
                return Err(said);
            }
        }
    }
    Ok(())
}

/// The variables of a command as the script takes them, and how many they are.
fn variables(env: &[EnvEntry]) -> (usize, Vec<u8>) {
    let host = host_variables();
    scripts::header(env.iter().filter_map(|entry| match entry {
        EnvEntry::Set(key, value) => Some((key.as_str(), value.clone())),
        EnvEntry::Forward(key) => {
            let value = host.get(std::ffi::OsStr::new(key))?;
            Some((key.as_str(), value.to_string_lossy().into_owned()))
        }
    }))
}

/// What is to be run.
struct Words<'a> {
    mode: &'a str,
    entries: usize,
    command: &'a str,
    args: &'a [String],
}

/// A shell can only say 128 + n for a signal; a program that returns such a code itself is rarer.
fn from_code(code: i32) -> Outcome {
    match code {
        129..=192 => Outcome::Signaled(code - 128),
        code => Outcome::Exited(code),
    }
}

fn head_and_rest(mut argv: Vec<String>) -> (String, Vec<String>) {
    let rest = argv.split_off(1.min(argv.len()));
    (argv.pop().unwrap_or_default(), rest)
}
