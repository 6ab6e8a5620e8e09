//! Commands carried elsewhere by a command-line client: `docker exec`, `kubectl exec`, and `docker run` for a place to
//! carry them to.
//!
//! The client is a local program under [`Direct`], so it cannot outlive this process. What it started at
//! the far side can; three things end it:
//!
//! - a small shell script around the command, which ends the command's leftovers when the command ends, and
//!   says behind a key that no program knows how it ended (so that a failed transport is never taken for a failed
//!   program);
//! - after a timeout, a cancel or a kill, a second script that ends everything bearing the call's mark;
//! - a guard, one a sandbox, that waits at the far side for its stdin to close or to fall silent, one of which
//!   happens however this process dies, and then ends everything bearing the sandbox's mark. In a container that is
//!   made for one call the guard is the first process, and the container ends with it.
//!
//! A connection may break off, or be made and carry nothing, and nobody is told. So the script begins nothing before it
//! has heard a word that it is sent only once it has shown that it is there: until then another connection can be tried,
//! and the command is never run twice. With the last word the call is over: a client that does not leave soon is ended.
//!
//! The variables of a command go ahead of its stdin: the client's words can be read by every user of this machine.
//!
//! The mark is a variable in the environment. A program that wipes its environment *and* leaves its parent
//! is not found; a container's or pod's own end is the boundary there. The far side needs `sh`, `env`, `grep`, `cat`,
//! `rm` and `sleep`, for terminals `stty`.

mod collected;
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
use live::{Carry, Sweep};
use scripts::{SWEEP, WRAP};
use std::{
    fmt,
    hash::{BuildHasher as _, Hasher as _, RandomState},
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

/// How long a connection may take to show that it carries something before another is tried, for each but the last: on
/// busy nodes one is made now and then over which nothing ever comes.
const PATIENCE: [Duration; 2] = [Duration::from_secs(15), Duration::from_secs(30)];
const UNBEGUN: &str =
    "the connection breaks off or falls silent before a command can begin; try again when it is steady";

/// How long it may take from the word to begin to the answer. Nothing is tried again then: it may have begun.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(60);
const IN_DOUBT: &str =
    "the connection fell silent when the command was to begin; look whether it did before you try again";

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

    /// A local command that ends everything at the far side that bears the mark, and says so: see [`Sweep`].
    fn ending(&self, mark: &Mark) -> Vec<String> {
        self.script(scripts::ending(), mark)
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

    /// Starts a process at the far side.
    async fn carry_live(&self, request: StartRequest) -> Result<Process, Outcome> {
        self.look_for(&request).await?;
        let cwd = request.cwd.as_ref().map(|cwd| cwd.to_string_lossy());
        let errand = Errand {
            stdio: request.stdio,
            stdin: if request.stdio == Stdio::Merged { "closed" } else { "open" },
            cwd: cwd.as_deref(),
            env: &request.env,
            command: &request.command,
            args: &request.args,
        };
        for patience in patience() {
            let Some(mut there) = self.reach(&errand, patience).await? else { continue };
            let sweep = self.sweeper(&there.mark);
            if self.begin(&mut there, &errand).await? {
                return Ok(Carry::wrap(there.client, request.stdio, &there.key, self.carrier.place(), sweep));
            }
            sweep.disarm();
        }
        Err(self.broken(UNBEGUN.as_bytes()))
    }

    /// Brings the script to the far side and hands it what its command needs; nothing when the connection breaks off or
    /// says nothing for so long. The script that this leaves then, or when it is dropped, never begins its command, and
    /// ends when it finds its stdin closed, at the latest with the guard.
    async fn reach(&self, errand: &Errand<'_>, patience: Duration) -> Result<Option<There>, Outcome> {
        let mark = self.next_mark(&self.keep_guard().await?);
        let terminal = matches!(errand.stdio, Stdio::Terminal { .. });
        let (command, args) = head_and_rest(self.argv(&mark, errand, terminal));
        let started = StartRequest { command, args, stdio: errand.stdio, ..StartRequest::default() };
        let mut client = self.start_client(started).await?;
        let header = variables(errand.env);
        let handed = hand_over(&mut client, &mark, terminal, &header);
        match tokio::time::timeout(patience, handed).await {
            Ok(Ok(true)) => Ok(Some(There { client, mark, key: key() })),
            Ok(Ok(false)) | Err(_) => Ok(None),
            Ok(Err(said)) => Err(self.broken(&said)),
        }
    }

    /// Gives a script the word to begin; whether it did.
    async fn begin(&self, there: &mut There, errand: &Errand<'_>) -> Result<bool, Outcome> {
        let There { client, mark, key } = there;
        tell(client, format!("{key} {}\n", errand.stdin).as_bytes()).await;
        match tokio::time::timeout(BEGIN_TIMEOUT, sign(client, mark)).await {
            Ok(Ok(sign)) => Ok(sign == "begins"),
            Ok(Err(said)) => Err(self.broken(&said)),
            Err(_) => Err(self.broken(IN_DOUBT.as_bytes())),
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
    fn argv(&self, mark: &Mark, errand: &Errand<'_>, terminal: bool) -> Vec<String> {
        let mut argv = self.carrier.prefix(terminal);
        argv.extend(["env".to_owned(), format!("CODEGEN_SANDBOX_CALL={mark}")]);
        argv.extend(["sh".to_owned(), "-c".to_owned(), format!("{SWEEP}{WRAP}"), "sh".to_owned()]);
        argv.push(mark.to_string());
        argv.push(match errand.stdio {
            Stdio::Separate => "separate".to_owned(),
            Stdio::Merged => "merged".to_owned(),
            // The client sets the size when it gets round to it; the program should not see another one first.
            Stdio::Terminal { cols, rows } => format!("terminal:{rows}:{cols}"),
        });
        argv.push(errand.cwd.or(self.carrier.workdir()).unwrap_or_default().to_owned());
        argv.push(errand.command.to_owned());
        if errand.command.contains('=') {
            // Or `env` would take it for a variable.
            argv.extend(["sh", "-c", "exec \"$@\"", "sh"].map(str::to_owned));
        }
        argv.push(errand.command.to_owned());
        argv.extend(errand.args.iter().cloned());
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

/// Hands a script the variables of its command; whether it waits for the word to begin then. What the client said, when it
/// ends before.
async fn hand_over(
    client: &mut Process,
    mark: &Mark,
    terminal: bool,
    header: &[u8],
) -> Result<bool, Vec<u8>> {
    if terminal && sign(client, mark).await? != "quiet" {
        return Ok(false);
    }
    tell(client, header).await;
    Ok(sign(client, mark).await? == "ready")
}

/// A client that is gone, and takes nothing, says so in the end.
async fn tell(client: &mut Process, text: &[u8]) {
    if let Some(stdin) = &mut client.stdin {
        let _ = stdin.write_all(text).await;
        let _ = stdin.flush().await;
    }
}

/// Reads up to the next sign of a script, and nothing after it; what the client said, when it ends before.
async fn sign(client: &mut Process, mark: &Mark) -> Result<String, Vec<u8>> {
    let opening = format!("\u{1e}{mark} ").into_bytes();
    let (mut said, mut byte) = (Vec::new(), [0]);
    while matches!(client.stdout.read(&mut byte).await, Ok(1)) {
        if byte[0] == 0x1e
            && let Some(at) = said.windows(opening.len()).rposition(|window| window == opening)
        {
            return Ok(String::from_utf8_lossy(&said[at + opening.len()..]).into_owned());
        }
        said.push(byte[0]);
    }
    if let Some(stderr) = &mut client.stderr {
        let _ = stderr.read_to_end(&mut said).await;
    }
    if said.is_empty() {
        said = client.control.wait().await.to_string().into_bytes();
    }
    Err(said)
}

/// The variables of a command as the script takes them.
fn variables(env: &[EnvEntry]) -> Vec<u8> {
    let host = host_variables();
    scripts::header(env.iter().filter_map(|entry| match entry {
        EnvEntry::Set(key, value) => Some((key.as_str(), value.clone())),
        EnvEntry::Forward(key) => {
            let value = host.get(std::ffi::OsStr::new(key))?;
            Some((key.as_str(), value.to_string_lossy().into_owned()))
        }
    }))
}

/// How long each try may take.
fn patience() -> impl Iterator<Item = Duration> {
    PATIENCE.into_iter().chain([LOOK_TIMEOUT])
}

/// Nobody can guess it.
fn key() -> String {
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

/// What is to be run, and how it is connected.
struct Errand<'a> {
    stdio: Stdio,
    /// See [`WRAP`].
    stdin: &'static str,
    cwd: Option<&'a str>,
    env: &'a [EnvEntry],
    command: &'a str,
    args: &'a [String],
}

/// A connection over which a script waits for the word to begin.
struct There {
    client: Process,
    mark: Mark,
    key: String,
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
