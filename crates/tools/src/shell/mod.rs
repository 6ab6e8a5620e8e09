//! The shell: commands in the foreground and in the background.
//!
//! A foreground command's output is kept in a bounded window ([`capture`]); a background shell's in a bounded
//! ring for each stream ([`stream`]). Both are cleaned of escape sequences and secrets on the way in
//! ([`clean`]). Everything a session started is in its [`Shells`] and ends with it.

mod background;
mod bash;
mod bash_output;
mod capture;
mod clean;
mod denylist;
mod kill_shell;
mod pump;
mod stream;
mod watch;
mod watch_process;

pub(crate) use bash::Bash;
pub(crate) use bash_output::BashOutput;
pub(crate) use denylist::Denylist;
pub(crate) use kill_shell::KillShell;
pub(crate) use pump::{Ending, From, Sink, pump};
pub(crate) use watch_process::{WatchProcess, WatchProcessEvents};

use crate::{Call, ToolError};
use background::Background;
use capture::Spooled;
use jiff::{Timestamp, Unit};
use sandbox::{EnvEntry, Outcome, Process, StartRequest, Stdio};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Shells of a session that run at the same time.
const MAX_RUNNING: usize = 16;
/// Ended ones that can still be read.
const MAX_ENDED: usize = 16;
/// Outputs of foreground commands that can still be read.
const MAX_SPOOLED: usize = 4;

/// How the remark begins that names the isolation in force, and the one that says that there is none.
const ISOLATION: &str = "isolation: ";
const NO_ISOLATION: &str = "isolation: none";

/// What a session's shell tools left behind, by number.
#[derive(Default)]
pub(crate) struct Shells(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    last: u64,
    entries: BTreeMap<u64, Entry>,
    /// Those that were admitted and are not among the entries yet.
    starting: usize,
    /// The isolation that the client was told of last, by workspace.
    told: BTreeMap<String, String>,
}

/// A place for one more background shell, until it has an entry or could not be started.
struct Admitted<'a>(&'a Shells);

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        self.0.lock().starting -= 1;
    }
}

/// Something that can be read by id.
#[derive(Clone)]
enum Entry {
    Background(Arc<Background>),
    Finished(Arc<Finished>),
}

/// A foreground command whose output did not fit into its reply.
struct Finished {
    about: About,
    code: i32,
    output: Spooled,
}

/// What a header says.
struct About {
    command: String,
    description: Option<String>,
    started: Timestamp,
}

impl About {
    fn new(command: &str, description: Option<String>) -> Self {
        let now = Timestamp::now();
        let started = now.round(Unit::Second).unwrap_or(now);
        Self { command: command.to_owned(), description, started }
    }
}

impl Shells {
    /// Keeps a background shell that `make` starts under the id it is given.
    fn add(&self, make: impl FnOnce(String) -> Arc<Background>) -> Arc<Background> {
        let mut kept = self.lock();
        let number = kept.next();
        let shell = make(id(number));
        kept.entries.insert(number, Entry::Background(Arc::clone(&shell)));
        kept.evict(MAX_ENDED, |entry| matches!(entry, Entry::Background(shell) if shell.ended()));
        shell
    }

    /// Keeps the output of a command that ended; gives its id.
    fn keep(&self, finished: Finished) -> String {
        let mut kept = self.lock();
        let number = kept.next();
        kept.entries.insert(number, Entry::Finished(Arc::new(finished)));
        kept.evict(MAX_SPOOLED, |entry| matches!(entry, Entry::Finished(_)));
        id(number)
    }

    /// Whether a sandbox's remark is to be said: its isolation when it is another than this session was told last,
    /// everything else always, and that there is none.
    fn worth_saying(&self, workspace: &str, note: &str) -> bool {
        if !note.starts_with(ISOLATION) || note.starts_with(NO_ISOLATION) {
            return true;
        }
        let mut kept = self.lock();
        if kept.told.get(workspace).is_some_and(|told| told == note) {
            return false;
        }
        kept.told.insert(workspace.to_owned(), note.to_owned());
        true
    }

    /// A place for one more, if one is free.
    fn admit(&self) -> Result<Admitted<'_>, ToolError> {
        let mut kept = self.lock();
        let running: Vec<String> =
            kept.entries.iter().filter(|(_, e)| e.running()).map(|(n, _)| id(*n)).collect();
        if running.len() + kept.starting < MAX_RUNNING {
            kept.starting += 1;
            return Ok(Admitted(self));
        }
        Err(ToolError::with_hint(
            format!("too many background shells (limit {MAX_RUNNING}); running: {}", running.join(", ")),
            "end one with KillShell",
        ))
    }

    fn find(&self, wanted: &str) -> Result<Entry, ToolError> {
        let kept = self.lock();
        let number = wanted.strip_prefix("sh").and_then(|number| number.parse::<u64>().ok());
        number.and_then(|number| kept.entries.get(&number)).cloned().ok_or_else(|| {
            let known: Vec<String> = kept.entries.keys().map(|number| id(*number)).collect();
            let known = if known.is_empty() {
                "none; Bash with run_in_background starts one".to_owned()
            } else {
                known.join(", ")
            };
            ToolError::caller(format!("unknown shell_id \"{wanted}\"; known: {known}"))
        })
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Forgets the oldest of a kind beyond `limit`.
    fn evict(&mut self, limit: usize, kind: impl Fn(&Entry) -> bool) {
        let of_kind: Vec<u64> =
            self.entries.iter().filter(|(_, entry)| kind(entry)).map(|(n, _)| *n).collect();
        for number in of_kind.iter().rev().skip(limit) {
            self.entries.remove(number);
        }
    }
}

impl Entry {
    fn running(&self) -> bool {
        matches!(self, Self::Background(shell) if !shell.ended())
    }
}

fn id(number: u64) -> String {
    format!("sh{number}")
}

/// Refuses what must not be started.
fn check(call: &Call, tool: &str, command: &str) -> Result<(), ToolError> {
    if command.trim().is_empty() {
        return Err(ToolError::caller(format!("{tool}: `command` is empty; say what to run")));
    }
    call.runtime.denylist.check(command).map_err(|denied| ToolError::caller(denied.to_string()))
}

/// Starts `bash -c command` at the workspace's root.
async fn start(
    call: &Call,
    command: &str,
    mut env: Vec<EnvEntry>,
    stdio: Stdio,
) -> Result<Process, ToolError> {
    env.extend(environment());
    let place = call.place();
    let request = StartRequest {
        command: "bash".to_owned(),
        args: vec!["-c".to_owned(), command.to_owned()],
        env,
        cwd: Some(place.paths.inward(call.workspace.root())),
        stdio,
    };
    let Some(started) = place.start(request).await else {
        let name = place.sandbox.name();
        return Err(ToolError::with_hint(
            format!("the sandbox \"{name}\" cannot keep a process running"),
            "the operator has to choose another one",
        ));
    };
    started.map_err(|outcome| not_started(&outcome))
}

/// Secrets as variables for one command. The model sees their names only.
async fn secrets(call: &Call, tool: &'static str, names: Vec<String>) -> Result<Vec<EnvEntry>, ToolError> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    call.blocking(move |call| {
        let (session, principal) = (&call.session.id, call.session.principal.as_deref());
        let mut env = Vec::new();
        let mut variables = BTreeMap::new();
        for name in names {
            let variable = variable(tool, &name)?;
            match variables.insert(variable.clone(), name.clone()) {
                Some(other) if other == name => continue,
                Some(other) => {
                    return Err(ToolError::with_hint(
                        format!("{tool}: the secrets \"{other}\" and \"{name}\" would both be ${variable}"),
                        "pass one of them only",
                    ));
                }
                None => {}
            }
            let value = call.host().vault.get(&name);
            let granted = value.is_ok();
            tracing::info!(target: "audit", event = "secret", name, session, principal, tool, granted);
            let value = value?;
            if value.contains('\0') {
                return Err(ToolError::with_hint(
                    format!("{tool}: the secret \"{name}\" holds a NUL byte, which no variable can"),
                    "the operator has to store it in base64",
                ));
            }
            env.push(EnvEntry::Set(variable, value));
        }
        Ok(env)
    })
    .await
}

/// Variables that decide how programs find and load their code, or what the shell makes of a command.
const STEERING: &[&str] = &[
    "BASHOPTS",
    "BASH_ENV",
    "BASH_XTRACEFD",
    "CDPATH",
    "CLASSPATH",
    "ENV",
    "GIT_ASKPASS",
    "GIT_CONFIG_COUNT",
    "GIT_DIR",
    "GIT_EXEC_PATH",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_TERMINAL_PROMPT",
    "GLOBIGNORE",
    "HOME",
    "IFS",
    "JAVA_TOOL_OPTIONS",
    "LD_AUDIT",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LOGNAME",
    "NODE_OPTIONS",
    "NODE_PATH",
    "PATH",
    "PERL5LIB",
    "PERL5OPT",
    "PROMPT_COMMAND",
    "PS4",
    "PWD",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "RUBYLIB",
    "RUBYOPT",
    "SHELL",
    "SHELLOPTS",
    "TERM",
    "TMPDIR",
    "USER",
];

/// The variable in which a command finds a secret.
fn variable(tool: &str, name: &str) -> Result<String, ToolError> {
    let variable = name.replace('-', "_");
    if STEERING.contains(&variable.as_str()) {
        return Err(ToolError::with_hint(
            format!(
                "{tool}: the secret \"{name}\" cannot be the variable ${variable}, which changes what programs do"
            ),
            "the operator has to give it another name",
        ));
    }
    Ok(variable)
}

/// What a command gets besides the sandbox's own environment: nobody is there to look at colours or to
/// answer a prompt.
fn environment() -> Vec<EnvEntry> {
    [("TERM", "dumb"), ("GIT_TERMINAL_PROMPT", "0")]
        .map(|(key, value)| EnvEntry::Set(key.to_owned(), value.to_owned()))
        .into()
}

fn not_started(outcome: &Outcome) -> ToolError {
    ToolError::caller(format!("bash: {outcome}"))
}
