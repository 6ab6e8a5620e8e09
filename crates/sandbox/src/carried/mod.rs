//! Commands carried elsewhere by a command-line client: `docker exec`, `kubectl exec`.
//!
//! The client is a local program under [`Direct`], so it cannot outlive this process. What it started at
//! the far side can; three things end it:
//!
//! - a small shell script around the command, which ends the command's leftovers when the command ends, and
//!   says on stderr, behind a mark no program knows, how it ended (so that a failed transport is never taken
//!   for a failed program);
//! - after a timeout, a cancel or a kill, a second script that ends everything bearing the call's mark;
//! - a guard, one a sandbox, that waits at the far side for its stdin to close, which happens however this
//!   process dies, and then ends everything bearing the sandbox's mark.
//!
//! The mark is a variable in the environment. A program that wipes its environment *and* leaves its parent
//! is not found; a container's or pod's own end is the boundary there.

mod config;
mod docker;
mod kubectl;
mod live;

pub(crate) use docker::{exec_factory, run_factory};
pub(crate) use kubectl::factory as kubectl_factory;

use crate::{
    Closer, EnvEntry, Outcome, Process, Request, Response, Sandbox, StartRequest, Stdio, StreamingSandbox,
    direct::Direct, host_variables,
};
use futures_util::future::BoxFuture;
use live::{Carry, Sweep};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::OnceCell;

/// Ends every process whose mark starts with the pattern; children of one that is just being killed may be
/// new, so it looks again until it finds none.
const SWEEP: &str = r#"sweep() {
  while :; do
    found=
    for dir in /proc/[0-9]*; do
      pid=${dir#/proc/}
      [ "$pid" = $$ ] && continue
      if tr '\0' '\n' 2>/dev/null <"$dir/environ" | grep -q "^CODEGEN_SANDBOX_CALL=$1"; then
        kill -9 "$pid" 2>/dev/null && found=1
      fi
    done
    [ -n "$found" ] || break
  done
} 2>/dev/null
"#;

/// `mark mode cwd count KEY=VALUE… command args…`; a live process has nobody who would take the last word out.
const WRAP: &str = r#"mark=$1 mode=$2 cwd=$3 count=$4
shift 4
case $mode in
merged) exec 2>&1 ;;
terminal:*) size=${mode#terminal:}; stty rows "${size%:*}" cols "${size#*:}" 2>/dev/null ;;
esac
while [ "$count" -gt 0 ]; do export "$1"; shift; count=$((count - 1)); done
say() { [ "$mode" != collected ] || printf '\n\036%s %s\n' "$mark" "$1" >&2; }
if [ -n "$cwd" ]; then cd "$cwd" 2>/dev/null || { say cwd; exit 126; }; fi
command -v "$1" >/dev/null 2>&1 || { say missing; exit 127; }
CODEGEN_SANDBOX_CALL=$mark "$@"
code=$?
sweep "$mark\$"
say "$code"
exit $code
"#;

/// Whether a command is there.
const FIND: &str = "command -v \"$1\" >/dev/null 2>&1 || exit 97";
const MISSING: i32 = 97;

/// Waits for stdin to close, then ends everything of the sandbox.
const GUARD: &str = "cat >/dev/null\nsweep \"$1\"\n";

/// How long ending the leftovers may take.
const SWEEP_TIMEOUT: Duration = Duration::from_secs(20);

/// The words that bring a script to the far side.
pub(crate) trait Carrier: Send + Sync + 'static {
    /// Client and arguments up to, not including, the program at the far side.
    fn prefix(&self, mark: &str, terminal: bool) -> Vec<String>;

    /// A local command that ends everything at the far side whose mark matches the pattern.
    fn ending(&self, pattern: &str) -> Vec<String> {
        let mut argv = self.prefix("", false);
        argv.extend(["sh", "-c"].map(str::to_owned));
        argv.push(format!("{SWEEP}sweep \"$1\""));
        argv.extend(["sh".to_owned(), pattern.to_owned()]);
        argv
    }

    /// Whether the far side outlives this process and so wants a guard.
    fn lasts(&self) -> bool {
        true
    }

    /// What is told apart in errors ("container web").
    fn place(&self) -> String;
    /// Where a command runs that does not say.
    fn workdir(&self) -> Option<&str>;
}

/// A sandbox at the other end of a client.
pub(crate) struct Carried {
    name: String,
    client: Direct,
    carrier: Arc<dyn Carrier>,
    timeout: Duration,
    mark: String,
    calls: AtomicU64,
    guard: OnceCell<Option<Mutex<Process>>>,
}

impl Carried {
    pub(crate) fn new(name: &str, carrier: Arc<dyn Carrier>) -> Self {
        Self {
            name: name.to_owned(),
            client: Direct::new(name),
            carrier,
            timeout: crate::local::DEFAULT_TIMEOUT,
            mark: fresh_mark(),
            calls: AtomicU64::new(0),
            guard: OnceCell::new(),
        }
    }

    /// Runs a command at the far side to its end.
    async fn carry(&self, request: Request) -> Response {
        self.keep_guard().await;
        let mark = self.next_mark();
        let cwd = request.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into_owned());
        let words = Words { env: &request.env, command: &request.command, args: &request.args };
        let argv = self.argv(&mark, "collected", cwd.as_deref(), &words, false);
        let timeout = if request.timeout.is_zero() { self.timeout } else { request.timeout };
        let (program, args) = head_and_rest(argv);
        let carried =
            Request { command: program, args, env: Vec::new(), cwd: None, timeout, ..request.clone() };
        // A dropped future must leave nothing at the far side either.
        let dropped = self.sweeper(&mark);
        let mut response = self.client.spawn(carried).await;
        dropped.disarm();
        let end = take_end(&mut response.stderr, &mark);
        response.outcome = match (end, response.outcome) {
            (_, outcome @ (Outcome::TimedOut | Outcome::Cancelled)) => {
                self.sweep(&mark).await;
                outcome
            }
            (Some(End::Code(code)), _) => from_code(code),
            (Some(End::Missing), _) => Outcome::NotFound { command: request.command },
            (Some(End::Cwd), _) => {
                let cwd = cwd.unwrap_or_default();
                Outcome::Refused { why: format!("{cwd} is no folder in {}", self.carrier.place()) }
            }
            (None, Outcome::NotFound { command }) => {
                Outcome::Transport { why: format!("{command}: not found on this machine") }
            }
            (None, outcome) => {
                self.sweep(&mark).await;
                let said = String::from_utf8_lossy(&response.stderr).trim().to_owned();
                let said = if said.is_empty() { outcome.to_string() } else { said };
                Outcome::Transport { why: format!("{}: {said}", self.carrier.place()) }
            }
        };
        response
    }

    /// Starts a process at the far side.
    async fn carry_live(&self, request: StartRequest) -> Result<Process, Outcome> {
        self.keep_guard().await;
        let mark = self.next_mark();
        let terminal = matches!(request.stdio, Stdio::Terminal { .. });
        let cwd = request.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into_owned());
        let mode = match request.stdio {
            Stdio::Separate => "live".to_owned(),
            Stdio::Merged => "merged".to_owned(),
            // The client sets the size when it gets round to it; the program should not see another one first.
            Stdio::Terminal { cols, rows } => format!("terminal:{rows}:{cols}"),
        };
        self.look_for(&request.command, cwd.as_deref()).await?;
        let words = Words { env: &request.env, command: &request.command, args: &request.args };
        let argv = self.argv(&mark, &mode, cwd.as_deref(), &words, terminal);
        let (command, args) = head_and_rest(argv);
        let stdio = request.stdio;
        let inner =
            self.start_client(StartRequest { command, args, env: Vec::new(), cwd: None, stdio }).await?;
        Ok(Carry::wrap(inner, self.sweeper(&mark)))
    }

    /// A live process tells too late that it was never there, so somebody looks first.
    async fn look_for(&self, command: &str, cwd: Option<&str>) -> Result<(), Outcome> {
        let cwd = cwd.map(Into::into);
        let looked = Request { cwd, ..Request::new("sh").args(["-c", FIND, "sh", command]) };
        match self.carry(looked).await.outcome {
            Outcome::Exited(0) => Ok(()),
            Outcome::Exited(MISSING) => Err(Outcome::NotFound { command: command.to_owned() }),
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

    fn argv(
        &self,
        mark: &str,
        mode: &str,
        cwd: Option<&str>,
        words: &Words<'_>,
        terminal: bool,
    ) -> Vec<String> {
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
        let mut argv = self.carrier.prefix(mark, terminal);
        argv.extend(["sh", "-c"].map(str::to_owned));
        argv.push(format!("{SWEEP}{WRAP}"));
        argv.extend(["sh", mark, mode].map(str::to_owned));
        argv.push(cwd.or(self.carrier.workdir()).unwrap_or_default().to_owned());
        argv.push(env.len().to_string());
        argv.extend(env);
        argv.push(words.command.to_owned());
        argv.extend(words.args.iter().cloned());
        argv
    }

    fn next_mark(&self) -> String {
        format!("{}-{}", self.mark, self.calls.fetch_add(1, Ordering::Relaxed))
    }

    fn sweep_request(carrier: &dyn Carrier, pattern: &str) -> Request {
        let (command, args) = head_and_rest(carrier.ending(pattern));
        Request { timeout: SWEEP_TIMEOUT, ..Request::new(command).args(args) }
    }

    async fn sweep(&self, mark: &str) {
        self.client.spawn(Self::sweep_request(self.carrier.as_ref(), &format!("{mark}$"))).await;
    }

    /// Ends what a live process left, from wherever its handle is dropped.
    fn sweeper(&self, mark: &str) -> Sweep {
        Sweep::new(&self.name, Self::sweep_request(self.carrier.as_ref(), &format!("{mark}$")))
    }

    /// The guard is best effort: a far side that refuses it shows its refusal to the call itself.
    async fn keep_guard(&self) {
        let start = || async {
            if !self.carrier.lasts() {
                return None;
            }
            let mut argv = self.carrier.prefix("", false);
            argv.extend(["sh", "-c"].map(str::to_owned));
            argv.push(format!("{SWEEP}{GUARD}"));
            argv.extend(["sh".to_owned(), format!("{}-", self.mark)]);
            let (command, args) = head_and_rest(argv);
            let request = StartRequest { command, args, ..StartRequest::default() };
            self.start_client(request).await.ok().map(Mutex::new)
        };
        self.guard.get_or_init(start).await;
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
            let pattern = format!("{}-", self.mark);
            let swept = self.client.spawn(Self::sweep_request(self.carrier.as_ref(), &pattern)).await;
            if swept.outcome.success() { Ok(()) } else { Err(swept.outcome.to_string()) }
        })
    }
}

/// What is to be run.
struct Words<'a> {
    env: &'a [EnvEntry],
    command: &'a str,
    args: &'a [String],
}

enum End {
    Code(i32),
    Missing,
    Cwd,
}

/// Takes the script's last word out of stderr.
fn take_end(stderr: &mut Vec<u8>, mark: &str) -> Option<End> {
    let needle = format!("\n\u{1e}{mark} ").into_bytes();
    let at = stderr.windows(needle.len()).rposition(|window| window == needle)?;
    let word = String::from_utf8_lossy(&stderr[at + needle.len()..]).trim().to_owned();
    stderr.truncate(at);
    match word.as_str() {
        "missing" => Some(End::Missing),
        "cwd" => Some(End::Cwd),
        code => code.lines().next().and_then(|code| code.parse().ok()).map(End::Code),
    }
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

/// Unlike that of any other sandbox on any machine, and nothing a regular expression would read otherwise.
fn fresh_mark() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos());
    format!("cs{now:x}p{:x}n{:x}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_is_taken_out_of_stderr() {
        let mut stderr = b"warning\n\x1em1 0\nfake\n\n\x1em1 7\n".to_vec();
        assert!(matches!(take_end(&mut stderr, "m1"), Some(End::Code(7))));
        assert_eq!(stderr, b"warning\n\x1em1 0\nfake\n");
        assert!(take_end(&mut stderr, "m2").is_none());
    }
}
