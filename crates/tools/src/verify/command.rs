//! Carries a plan out in the sandbox.

use super::project::Project;
use crate::{
    Call, ToolError,
    shell::{Ending, From, Sink, pump},
};
use ::verify::{Captured, Detector, End, Facts as _, Plan, Stream};
use sandbox::{EnvEntry, Outcome, Request, StartRequest, Stdio};
use std::{
    convert::Infallible,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// Bytes of each stream that are kept for readers that want all of it.
const CAPTURED: usize = 64 << 20;
/// How long making and reading files in the scratch folder may take.
const SCRATCH: Duration = Duration::from_secs(20);

/// How often a growing report is looked at.
const FOLLOW: Duration = Duration::from_millis(1000);

/// How a command ended.
pub(super) struct Ended {
    pub(super) end: End,
    pub(super) code: i32,
    pub(super) notes: Vec<String>,
}

/// Why a command was not started.
pub(super) enum NotStarted {
    /// A program is missing: its name.
    Missing(String),
    /// Anything else.
    Other(ToolError),
}

/// Takes what a command prints, as it comes.
pub(super) type Take<'a> = dyn FnMut(Stream, &[u8]) + Send + 'a;

/// Whoever takes, shared by the streams and the report.
type Shared<'a, 'b> = Mutex<&'a mut Take<'b>>;

struct Feed<'a, 'b, 'c> {
    take: &'a Shared<'b, 'c>,
}

impl Sink for Feed<'_, '_, '_> {
    async fn take(&mut self, from: From, bytes: &[u8]) {
        let stream = match from {
            From::Stdout => Stream::Stdout,
            From::Stderr => Stream::Stderr,
        };
        feed(self.take, stream, bytes);
    }
}

/// Runs a plan and feeds everything it leaves behind to `take`, the end of its report last.
pub(super) async fn run(
    project: &Project,
    plan: &Plan,
    limit: Duration,
    take: &mut Take<'_>,
) -> Result<Ended, NotStarted> {
    run_counting(project, plan, limit, take, &AtomicUsize::new(0)).await
}

/// The same, for whoever wants to know how much of the report was read when it is given up.
pub(super) async fn run_counting(
    project: &Project,
    plan: &Plan,
    limit: Duration,
    take: &mut Take<'_>,
    read: &AtomicUsize,
) -> Result<Ended, NotStarted> {
    prepare(project, plan).await?;
    let request = StartRequest {
        command: plan.program.clone(),
        args: plan.args.clone(),
        env: environment(plan),
        cwd: Some(project.root().join(&plan.cwd)),
        stdio: if plan.merged { Stdio::Merged } else { Stdio::Separate },
    };
    let started = project.place().start(request).await.ok_or_else(|| {
        let name = project.place().sandbox.name();
        NotStarted::Other(ToolError::with_hint(
            format!("the sandbox \"{name}\" cannot stream output"),
            "the operator has to choose another one",
        ))
    })?;
    let process = started.map_err(|outcome| not_started(&outcome))?;
    let never = CancellationToken::new();
    let shared = Mutex::new(take);
    let mut sink = Feed { take: &shared };
    let Ending { outcome, notes } = tokio::select! {
        ending = pump(process, Some(limit), &never, &mut sink) => ending,
        never = follow(project, plan, &shared, read) => match never {},
    };
    if let Some(report) = report(project, plan, read.load(Ordering::Relaxed)).await {
        feed(&shared, Stream::Report, &report);
    }
    Ok(Ended { end: end(&outcome), code: outcome.shell_code(), notes })
}

/// Runs a plan and keeps everything it leaves behind.
pub(super) async fn capture(
    project: &Project,
    plan: &Plan,
    limit: Duration,
) -> Result<(Captured, Ended), NotStarted> {
    let (mut stdout, mut stderr, mut report) = (Vec::new(), Vec::new(), None);
    let mut take = |stream: Stream, bytes: &[u8]| {
        let into = match stream {
            Stream::Stdout => &mut stdout,
            Stream::Stderr => &mut stderr,
            Stream::Report => report.get_or_insert_default(),
        };
        let room = CAPTURED.saturating_sub(into.len());
        into.extend_from_slice(&bytes[..bytes.len().min(room)]);
    };
    let ended = run(project, plan, limit, &mut take).await?;
    Ok((Captured { stdout, stderr, report, end: ended.end.clone() }, ended))
}

/// Pipes a plan's text through a command such as a formatter.
pub(super) async fn filter(
    call: &Call,
    project: &Project,
    plan: Plan,
    limit: Duration,
) -> Result<Captured, NotStarted> {
    let request = Request {
        command: plan.program.clone(),
        args: plan.args.clone(),
        env: environment(&plan),
        stdin: plan.stdin.unwrap_or_default(),
        timeout: limit,
        cwd: Some(project.root().join(&plan.cwd)),
        cancel: call.cancel.clone(),
        capture_limit: None,
    };
    let response = project.place().spawn(request).await;
    match response.outcome {
        Outcome::NotFound { .. } | Outcome::Refused { .. } | Outcome::Transport { .. } => {
            Err(not_started(&response.outcome))
        }
        outcome => Ok(Captured {
            stdout: response.stdout,
            stderr: response.stderr,
            report: None,
            end: end(&outcome),
        }),
    }
}

fn environment(plan: &Plan) -> Vec<EnvEntry> {
    let quiet = [("TERM", "dumb"), ("GIT_TERMINAL_PROMPT", "0"), ("NO_COLOR", "1")];
    quiet
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .chain(plan.env.iter().cloned())
        .map(|(name, value)| EnvEntry::Set(name, value))
        .collect()
}

fn end(outcome: &Outcome) -> End {
    match outcome {
        Outcome::Exited(code) => End::Exited(*code),
        Outcome::Signaled(signal) => End::Signaled(*signal),
        Outcome::TimedOut => End::TimedOut,
        Outcome::OutOfMemory { .. } => End::OutOfMemory,
        _ => End::Cancelled,
    }
}

fn not_started(outcome: &Outcome) -> NotStarted {
    match outcome {
        Outcome::NotFound { command } => NotStarted::Missing(command.clone()),
        other => NotStarted::Other(ToolError::caller(other.to_string())),
    }
}

/// What to say when a program is missing.
pub(super) fn missing(tool: &str, detector: &dyn Detector, project: &Project, binary: &str) -> ToolError {
    let name = binary.rsplit('/').next().unwrap_or(binary);
    let there = project.elsewhere(detector).map(|there| format!(" {there}")).unwrap_or_default();
    let message = match tool {
        "run_lint" => format!("linter not installed: {name}{there}"),
        tool => format!("{tool}: {name}: not found on PATH{there}"),
    };
    let get =
        detector.binaries(project).into_iter().find(|needed| needed.binary == name).map(|needed| needed.get);
    match get {
        Some(get) => ToolError::with_hint(message, format!("get it: {get}")),
        None => ToolError::caller(message),
    }
}

/// Makes the private folder of a plan that injects files or wants a report, in the place where commands run.
async fn prepare(project: &Project, plan: &Plan) -> Result<(), NotStarted> {
    if plan.inject.is_empty() && plan.report.is_none() {
        return Ok(());
    }
    // Ours alone, whoever else writes to the same /tmp; and no report of an earlier run.
    let script = "umask 077; mkdir \"$0\" 2>/dev/null || { [ -O \"$0\" ] && [ ! -L \"$0\" ]; } || exit 1; \
                  cd \"$0\" && rm -f -- \"$1\" && shift && \
                  while [ $# -gt 0 ]; do printf %s \"$2\" > \"$1\" || exit 1; shift 2; done";
    let mut args = vec![plan.report.clone().unwrap_or_else(|| ".none".to_owned())];
    for injected in &plan.inject {
        args.extend([injected.name.clone(), injected.content.to_string()]);
    }
    project.scratch_is_made();
    let response = shell(project, script, args).await;
    if response.outcome.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&response.stderr).trim().to_owned();
    let why = if why.is_empty() { response.outcome.to_string() } else { why };
    Err(NotStarted::Other(ToolError::caller(format!("no scratch folder in the sandbox: {why}"))))
}

/// Feeds a report that is written line by line while it grows, so that progress can be told.
async fn follow(project: &Project, plan: &Plan, take: &Shared<'_, '_>, read: &AtomicUsize) -> Infallible {
    let grows = plan.report.as_ref().is_some_and(|name| name.ends_with(".jsonl"));
    loop {
        match grows {
            true => tokio::time::sleep(FOLLOW).await,
            false => std::future::pending().await,
        }
        let from = read.load(Ordering::Relaxed);
        if let Some(bytes) = report(project, plan, from).await {
            read.store(from + bytes.len(), Ordering::Relaxed);
            feed(take, Stream::Report, &bytes);
        }
    }
}

fn feed(take: &Shared<'_, '_>, stream: Stream, bytes: &[u8]) {
    (take.lock().unwrap_or_else(PoisonError::into_inner))(stream, bytes);
}

/// The report from this byte on.
pub(super) async fn report(project: &Project, plan: &Plan, from: usize) -> Option<Vec<u8>> {
    let args = vec![plan.report.clone()?, format!("+{}", from.saturating_add(1))];
    let response = shell(project, "cd \"$0\" && tail -c \"$2\" -- \"$1\"", args).await;
    response.outcome.success().then_some(response.stdout)
}

async fn shell(project: &Project, script: &str, args: Vec<String>) -> sandbox::Response {
    let folder = project.scratch().to_string_lossy().into_owned();
    let mut request = Request::new("sh").args(["-c", script, &folder]).args(args);
    request.timeout = SCRATCH;
    project.place().spawn(request).await
}
