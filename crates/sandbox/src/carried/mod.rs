//! Commands carried elsewhere by a command-line client: `docker exec`, `kubectl exec`.
//!
//! The client is a local program under [`Direct`], so it cannot outlive this process. What it started at
//! the far side can; three things end it:
//!
//! - a small shell script around the command, which ends the command's leftovers when the command ends, and
//!   says on stderr, behind a mark no program knows, how it ended (so that a failed transport is never taken
//!   for a failed program);
//! - after a timeout, a cancel or a kill, a second script that ends everything bearing the call's mark;
//! - a guard, one a sandbox, that waits at the far side for its stdin to close or to fall silent, one of which
//!   happens however this process dies, and then ends everything bearing the sandbox's mark. A container of its own
//!   needs none: its script watches the client's stdin, and ends everybody when that closes.
//!
//! The mark is a variable in the environment. A program that wipes its environment *and* leaves its parent
//! is not found; a container's or pod's own end is the boundary there. The far side needs `sh`, `env`, `grep`,
//! `head`, `cat`, `rm` and `sleep`.

mod config;
mod docker;
mod kubectl;
mod last_word;
mod leftovers;
mod live;
mod scripts;

pub(crate) use config::Block;
pub(crate) use docker::{exec_factory, run_factory};
pub(crate) use kubectl::factory as kubectl_factory;

use crate::{
    Closer, EnvEntry, Outcome, Process, Request, Response, Sandbox, StartRequest, Stdio, StreamingSandbox,
    direct::Direct, host_variables,
};
use futures_util::{FutureExt as _, future::BoxFuture};
use last_word::LastWord;
use live::{Carry, Sweep};
use scripts::{GUARD, NO_SWEEP, SWEEP, WRAP};
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
const LOOK_TIMEOUT: Duration = Duration::from_secs(60);

/// How often a guard hears from here.
const BEAT: Duration = Duration::from_secs(2);

/// How long ending the leftovers may take: they may be what keeps the machine busy.
const SWEEP_TIMEOUT: Duration = Duration::from_secs(40);

/// The words that bring a script to the far side.
pub(crate) trait Carrier: Send + Sync + 'static {
    /// Client and arguments up to, not including, the program at the far side. The client hands on the first `hidden`
    /// of [`hidden`]'s variables out of its own environment.
    fn prefix(&self, mark: &Mark, terminal: bool, hidden: usize) -> Vec<String>;

    /// Whether the client can do that; the environment is otherwise among the words that every user of this machine
    /// can read.
    fn hides(&self) -> bool {
        true
    }

    /// A local command that ends everything at the far side that bears the mark.
    fn ending(&self, mark: &Mark) -> Vec<String> {
        let mut argv = self.prefix(mark, false, 0);
        argv.extend(["sh", "-c"].map(str::to_owned));
        argv.push(format!("{SWEEP}sweep \"$1\" hard"));
        argv.extend(["sh".to_owned(), mark.to_string()]);
        argv
    }

    /// Whether the far side outlives this process and so wants a guard.
    fn lasts(&self) -> bool {
        true
    }

    /// Ends what servers left there that are gone.
    fn clean_up(&self) {}

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
    mark: Mark,
    calls: AtomicU64,
    guard: Mutex<Option<Process>>,
}

impl Carried {
    pub(crate) fn new(name: &str, carrier: Arc<dyn Carrier>) -> Self {
        carrier.clean_up();
        let client = Direct::new(name);
        Self {
            name: name.to_owned(),
            // What lasts has a guard; what does not watches the client itself.
            client: if carrier.lasts() { client } else { client.with_lifeline() },
            carrier,
            timeout: crate::local::DEFAULT_TIMEOUT,
            mark: Mark::fresh(),
            calls: AtomicU64::new(0),
            guard: Mutex::new(None),
        }
    }

    /// Runs a command at the far side to its end.
    async fn carry(&self, request: Request) -> Response {
        let timeout = if request.timeout.is_zero() { self.timeout } else { request.timeout };
        let deadline = tokio::time::Instant::now() + timeout;
        tokio::select! {
            () = self.keep_guard() => {}
            () = request.cancel.cancelled() => return Response::nothing(Outcome::Cancelled),
            () = tokio::time::sleep_until(deadline) => return Response::nothing(Outcome::TimedOut),
        }
        let timeout = deadline.duration_since(tokio::time::Instant::now()).max(Duration::from_millis(1));
        let mark = self.next_mark();
        let cwd = request.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into_owned());
        let words = Words { env: &request.env, command: &request.command, args: &request.args };
        let mode = self.mode("collected", request.stdin.len());
        let (argv, env) = self.argv(&mark, &mode, cwd.as_deref(), &words, false);
        let (program, args) = head_and_rest(argv);
        let carried = Request { command: program, args, env, cwd: None, timeout, ..request.clone() };
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
                if word == LastWord::Missing {
                    // Only the complaint about it.
                    response.stderr.clear();
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
        response
    }

    fn outcome(&self, word: LastWord, command: &str, cwd: Option<&str>) -> Outcome {
        match word {
            LastWord::Code(code) => from_code(code),
            LastWord::Missing => Outcome::NotFound { command: command.to_owned() },
            LastWord::Cwd => {
                let cwd = cwd.or(self.carrier.workdir()).unwrap_or_default();
                Outcome::Refused { why: format!("{cwd} is no folder in {}", self.carrier.place()) }
            }
        }
    }

    /// Starts a process at the far side.
    async fn carry_live(&self, request: StartRequest) -> Result<Process, Outcome> {
        self.look_for(&request).await?;
        let mark = self.next_mark();
        let terminal = matches!(request.stdio, Stdio::Terminal { .. });
        let cwd = request.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into_owned());
        let mode = match request.stdio {
            Stdio::Separate => "live".to_owned(),
            Stdio::Merged => self.mode("merged", 0),
            // The client sets the size when it gets round to it; the program should not see another one first.
            Stdio::Terminal { cols, rows } => format!("terminal:{rows}:{cols}"),
        };
        let words = Words { env: &request.env, command: &request.command, args: &request.args };
        let (argv, env) = self.argv(&mark, &mode, cwd.as_deref(), &words, terminal);
        let (command, args) = head_and_rest(argv);
        let stdio = request.stdio;
        let inner = self.start_client(StartRequest { command, args, env, cwd: None, stdio }).await?;
        Ok(Carry::wrap(inner, stdio, &mark, self.carrier.place(), self.sweeper(&mark)))
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

    /// The client's words, and the variables that it needs for them.
    fn argv(
        &self,
        mark: &Mark,
        mode: &str,
        cwd: Option<&str>,
        words: &Words<'_>,
        terminal: bool,
    ) -> (Vec<String>, Vec<EnvEntry>) {
        let host = host_variables();
        let env: Vec<String> = words
            .env
            .iter()
            .filter_map(|entry| match entry {
                EnvEntry::Set(key, value) => Some(format!("{key}={value}")),
                EnvEntry::Forward(key) => host
                    .get(std::ffi::OsStr::new(key))
                    .map(|value| format!("{key}={}", value.to_string_lossy())),
            })
            .collect();
        let path = env.iter().rev().find_map(|entry| entry.strip_prefix("PATH=")).unwrap_or_default();
        let path = path.to_owned();
        let (shown, env) = if self.carrier.hides() { (Vec::new(), env) } else { (env, Vec::new()) };
        let mut argv = self.carrier.prefix(mark, terminal, env.len());
        argv.extend(["env".to_owned(), format!("CODEGEN_SANDBOX_CALL={mark}")]);
        let sweep = if self.carrier.lasts() { SWEEP } else { NO_SWEEP };
        argv.extend(["sh".to_owned(), "-c".to_owned(), format!("{sweep}{WRAP}"), "sh".to_owned()]);
        argv.extend([mark.to_string(), mode.to_owned()]);
        argv.push(cwd.or(self.carrier.workdir()).unwrap_or_default().to_owned());
        argv.extend([path, words.command.to_owned()]);
        argv.extend(shown);
        if words.command.contains('=') {
            // Or `env` would take it for a variable.
            argv.extend(["sh", "-c", "exec \"$@\"", "sh"].map(str::to_owned));
        }
        argv.push(words.command.to_owned());
        argv.extend(words.args.iter().cloned());
        // The script puts each before those it has, and of two for one name the last holds.
        let hidden = env.into_iter().rev().enumerate().map(|(n, entry)| EnvEntry::Set(hidden(n), entry));
        (argv, hidden.collect())
    }

    /// Where the client's stdin stays open for as long as the client lives, the script must know how much of it is the
    /// command's.
    fn mode(&self, name: &str, stdin: usize) -> String {
        if self.carrier.lasts() { name.to_owned() } else { format!("{name}:{stdin}") }
    }

    fn next_mark(&self) -> Mark {
        self.mark.call(self.calls.fetch_add(1, Ordering::Relaxed))
    }

    /// Ends what bears the mark, from wherever it is dropped.
    fn sweeper(&self, mark: &Mark) -> Sweep {
        let (command, args) = head_and_rest(self.carrier.ending(mark));
        let request = Request { timeout: SWEEP_TIMEOUT, ..Request::new(command).args(args) };
        Sweep::new(&self.name, request)
    }

    /// Returns when a guard is in place: one that is still on its way would not see this process die. A far side
    /// that refuses it shows its refusal to the call itself. A guard whose connection broke has ended what it guarded;
    /// the next call gets a new one.
    async fn keep_guard(&self) {
        if !self.carrier.lasts() {
            return;
        }
        let mut guard = self.guard.lock().await;
        if guard.as_ref().is_some_and(|guard| guard.control.wait().now_or_never().is_none()) {
            return;
        }
        let mut argv = self.carrier.prefix(&self.mark, false, 0);
        argv.extend(["sh", "-c"].map(str::to_owned));
        argv.push(format!("{SWEEP}{GUARD}"));
        argv.extend(["sh".to_owned(), self.mark.to_string()]);
        let (command, args) = head_and_rest(argv);
        let request = StartRequest { command, args, ..StartRequest::default() };
        *guard = None;
        if let Ok(mut process) = self.start_client(request).await
            && matches!(process.stdout.read(&mut [0]).await, Ok(1))
        {
            if let Some(stdin) = process.stdin.take() {
                tokio::spawn(beat(stdin));
            }
            *guard = Some(process);
        }
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
    /// Ends everything at the far side.
    fn close(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            let swept = self.sweeper(&self.mark).run().await;
            // Its stdin closes, and it has nothing left to end.
            self.guard.lock().await.take();
            if swept.success() { Ok(()) } else { Err(swept.to_string()) }
        })
    }
}

/// Shows a guard signs of life for as long as its client lives.
async fn beat(mut stdin: Box<dyn AsyncWrite + Send + Unpin>) {
    while stdin.write_all(b"\n").await.is_ok() && stdin.flush().await.is_ok() {
        tokio::time::sleep(BEAT).await;
    }
}

/// What is to be run.
struct Words<'a> {
    env: &'a [EnvEntry],
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

/// The variable in which a client takes the entry of that number to the far side, whatever it is called there: its own
/// name might mean something to the client.
fn hidden(number: usize) -> String {
    format!("CODEGEN_SANDBOX_ENV_{number}")
}

/// The words by which docker's client takes them from its own environment.
fn hidden_words(count: usize) -> impl Iterator<Item = String> {
    (0..count).flat_map(|number| ["-e".to_owned(), hidden(number)])
}

fn head_and_rest(mut argv: Vec<String>) -> (String, Vec<String>) {
    let rest = argv.split_off(1.min(argv.len()));
    (argv.pop().unwrap_or_default(), rest)
}
