//! The one way from a transport to a tool and back.

use crate::{
    Access, Call, Content, Host, Progress, Reply, Session, ToolError, Touches,
    bound::{head_and_tail, over, shorten},
    endings::{Endings, KILL_TIME},
    jobs::{Finished, Job, Reservation},
    record::Record,
    tool::{AnyTool, Class, Spec},
};
use futures_util::FutureExt;
use serde_json::{Map, Value, json};
use std::{borrow::Cow, panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tokio::{
    sync::{OwnedSemaphorePermit, TryAcquireError},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// How often a client that asked for progress hears that a call still runs.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// No reply's text is longer than this, whatever a tool returns: a line on stdio stays far below the
/// 1 MiB that some clients choke on.
const MAX_TEXT: usize = 400 * 1024;

/// No picture is larger than this, for the same reason.
const MAX_IMAGE: usize = 700 * 1024;

/// Tools that work on what a session holds, also when the workspace is gone.
const WITHOUT_FILES: [&str; 6] =
    ["BashOutput", "KillShell", "watch_process_events", "last_test_failures", "secret", "secrets_available"];

/// Arguments that the pipeline itself takes out of every call.
#[derive(Default)]
struct Envelope {
    workspace: Option<String>,
    wait: Option<Duration>,
    handle: Option<String>,
}

impl Session {
    /// Calls a tool: find · gate · pick workspace · decode · run · scrub · bound.
    ///
    /// Every failure is a reply with `is_error`, so that no client retries it as a protocol fault. Dropping
    /// the future cancels the call; cancelling it any other way, it returns when what it started is gone.
    pub async fn call(
        self: &Arc<Self>,
        name: &str,
        args: Map<String, Value>,
        cancel: CancellationToken,
        progress: Progress,
    ) -> Reply {
        let begun = Instant::now();
        let done = self.admit(name, args, &cancel, progress).await;
        let status = match &done {
            Ok(reply) if !reply.is_error => "ok",
            Err(ToolError::Cancelled) => "cancelled",
            _ => "error",
        };
        let reply = finish(&self.host, done.unwrap_or_else(|error| self.explain(name, error)));
        if tracing::enabled!(target: "audit", tracing::Level::DEBUG) {
            // A name that is no tool's is the caller's text.
            let tool = self.host.tools().find(name).map_or("unknown", |tool| tool.spec().name);
            let (session, principal) = (&self.id, self.principal.as_deref());
            let (bytes, seconds) = (reply.size(), begun.elapsed().as_secs_f64());
            tracing::debug!(target: "audit", event = "call", tool, session, principal, status, bytes, seconds);
        }
        reply
    }

    async fn admit(
        self: &Arc<Self>,
        name: &str,
        mut args: Map<String, Value>,
        cancel: &CancellationToken,
        caller: Progress,
    ) -> Finished {
        let tool = self.host.tools().find(name)?;
        let spec = tool.spec();
        if self.access == Access::ReadOnly && spec.class == Class::Write {
            return Err(ToolError::with_hint(
                format!("{name} changes things, and this session is read-only"),
                "call a tool that only reads, or ask for access that lets you write",
            ));
        }
        let workspace = args.get("workspace").filter(|name| !name.is_null()).cloned();
        let mut asked = if spec.long { args.clone() } else { Map::new() };
        asked.retain(|_, value| !value.is_null());
        let envelope = Envelope::take(spec, &mut args)?;
        if let Some(handle) = envelope.handle {
            let (reservation, job) = self.jobs.take(spec.name, &handle, &asked)?;
            return self.attend(job, Some(reservation), envelope.wait, cancel, &caller).await;
        }
        // What goes on already is ended by a cancel, however early; what has not begun never begins.
        if cancel.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        let slot = self.slot()?;
        let place = self.host.workspace(envelope.workspace.as_deref())?;
        if !WITHOUT_FILES.contains(&spec.name) {
            place.in_place()?;
        }
        let stop = self.cancel.child_token();
        let (runtime, progress) = (self.host.runtime(), Progress::scrubbed(&self.host));
        // What may be withheld at the end must not leave in pieces before.
        let progress = if runtime.hooks.may_withhold(name) { progress.mute() } else { progress };
        let call = Call {
            session: Arc::clone(self),
            workspace: place,
            cancel: stop.clone(),
            progress,
            runtime,
            record: None,
            endings: Endings::among(&self.host.background),
        };
        cancel.run_until_cancelled(self.greet(&call.runtime)).await.ok_or(ToolError::Cancelled)??;
        let progress = call.progress.clone();
        if spec.long {
            // A call that may be picked up again lives in a task of its own, whoever waits for it, and
            // takes up its slot until it ends.
            let work = async move {
                let _slot = slot;
                run(tool, call, args, workspace).await
            };
            let job = Job::new(spec.name, asked, progress, self.host.running.spawn(work), stop);
            return self.attend(job, None, envelope.wait, cancel, &caller).await;
        }
        let (_slot, stop) = (slot, stop.drop_guard());
        let mut work = Box::pin(self.host.running.track_future(run(tool, call, args, workspace)));
        let waited = cancel.run_until_cancelled(reporting(&progress, &caller, &mut work)).await;
        if waited.is_none() {
            drop(stop);
            ending(work).await;
        }
        waited.unwrap_or(Err(ToolError::Cancelled))
    }

    fn slot(&self) -> Result<OwnedSemaphorePermit, ToolError> {
        Arc::clone(&self.host.slots).try_acquire_owned().map_err(|error| match error {
            TryAcquireError::Closed => {
                ToolError::with_hint("the server is shutting down", "connect again when it is back")
            }
            TryAcquireError::NoPermits => ToolError::with_hint(
                format!("too many calls at once (limit {})", self.host.limits().concurrent_calls),
                "wait for one to end and call again",
            ),
        })
    }

    /// Waits for a job as long as the caller does.
    async fn attend(
        &self,
        mut job: Job,
        reservation: Option<Reservation<'_>>,
        wait: Option<Duration>,
        cancel: &CancellationToken,
        caller: &Progress,
    ) -> Finished {
        let progress = job.progress.clone();
        let waited = reporting(&progress, caller, Box::pin(job.wait(wait)));
        match cancel.run_until_cancelled(waited).await {
            Some(Some(finished)) => {
                job.done();
                return finished;
            }
            Some(None) => {}
            None => {
                ending(job.stop()).await;
                return Err(ToolError::Cancelled);
            }
        }
        let (tool, so_far) = (job.tool, progress.so_far());
        let handle = match reservation {
            Some(reservation) => reservation.put_back(job),
            None => self.jobs.keep(job),
        };
        let so_far = if so_far.is_empty() { String::new() } else { format!("\n{so_far}") };
        let text = format!(
            "{tool} still running; call {tool} again with handle \"{handle}\" to go on waiting{so_far}"
        );
        let typed = self.host.tools().find(tool).is_ok_and(|tool| tool.output_schema().is_some());
        Ok(Reply { structured: typed.then(|| json!({"handle": handle})), ..Reply::text(text) })
    }

    fn explain(&self, name: &str, error: ToolError) -> Reply {
        match error {
            ToolError::Fault(fault) => {
                let id = fault_id();
                tracing::error!(tool = name, session = self.id, id, "{fault:#}");
                Reply::error(format!("{name}: internal error {id}; the server's log says more"))
            }
            ToolError::Cancelled => Reply::error(format!("{name}: cancelled")),
            caller @ ToolError::Caller { .. } => Reply::error(caller.to_string()),
        }
    }
}

struct Detach<'a>(&'a Progress);

impl Drop for Detach<'_> {
    fn drop(&mut self) {
        self.0.detach();
    }
}

/// Awaits `work` while `progress` goes to the caller, with a sign of life every second if it listens.
async fn reporting<T>(
    progress: &Progress,
    caller: &Progress,
    mut work: impl Future<Output = T> + Unpin,
) -> T {
    if !progress.attach(caller) {
        return work.await;
    }
    // Nothing may be sent for a request that was answered or given up.
    let _detached = Detach(progress);
    let begin = Instant::now();
    let mut seconds = tokio::time::interval_at(begin + HEARTBEAT, HEARTBEAT);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            _ = seconds.tick() => progress.beat(begin.elapsed()),
        }
    }
}

/// Waits for work that was told to stop, though not for ever.
async fn ending<T>(work: impl Future<Output = T>) {
    if tokio::time::timeout(2 * KILL_TIME, work).await.is_err() {
        tracing::warn!("a call did not end when it was cancelled");
    }
}

/// Runs one tool between the hooks that look at it, which see in which workspace as well.
///
/// What few calls come to is boxed: a future has room for all it may ever wait for, and is moved with it.
async fn run(
    tool: Arc<dyn AnyTool>,
    mut call: Call,
    args: Map<String, Value>,
    workspace: Option<Value>,
) -> Finished {
    let name = tool.spec().name;
    let runtime = Arc::clone(&call.runtime);
    let (host, hooks) = (Arc::clone(call.host()), &runtime.hooks);
    // Hooks that look at calls need the arguments, which the tool consumes.
    let shown = hooks.watch(name).then(|| {
        let mut shown = args.clone();
        shown.extend(workspace.map(|name| ("workspace".to_owned(), name)));
        shown
    });
    if let Some(shown) = &shown {
        Box::pin(hooks.before(&host.stage(&call.session), name, shown)).await?;
    }
    if tool.touches() == Touches::Anything {
        call.record = Box::pin(Record::begin(&call, tool.spec(), &args)).await;
    }
    let done = run_alone(tool.as_ref(), &call, args).await;
    if let Some(record) = call.record.take() {
        record.answered();
    }
    let done = match shown {
        None => done,
        Some(shown) => {
            // A failure is a result too: a hook sees what the agent would.
            let reply = done.unwrap_or_else(|error| call.session.explain(name, error));
            Box::pin(hooks.after(&host.stage(&call.session), name, &shown, &reply)).await.map(|()| reply)
        }
    };
    call.session.made_a_call(&call.runtime, name).await;
    done
}

/// Runs one tool: a panic ends the call and nothing else, a cancel drops the work and waits for what that ends.
async fn run_alone(tool: &dyn AnyTool, call: &Call, args: Map<String, Value>) -> Finished {
    let work = AssertUnwindSafe(tool.run(call, args)).catch_unwind();
    let done = tokio::select! {
        () = call.cancel.cancelled() => Err(ToolError::Cancelled),
        done = work => done.unwrap_or_else(|panic| Err(ToolError::Fault(panicked(panic.as_ref())))),
    };
    if call.cancel.is_cancelled() {
        Box::pin(call.endings.wait()).await;
    }
    done
}

impl Envelope {
    fn take(spec: &Spec, args: &mut Map<String, Value>) -> Result<Self, ToolError> {
        let name = spec.name;
        let text = |key: &str, value: Value| match value {
            Value::String(text) => Ok(text),
            other => Err(ToolError::caller(format!("{name}: `{key}` must be a string, got {other}"))),
        };
        // An optional argument that is null was left out.
        let mut given = |key: &str| args.remove(key).filter(|value| !value.is_null());
        let mut envelope = Self::default();
        if let Some(value) = given("workspace") {
            envelope.workspace = Some(text("workspace", value)?);
        }
        if spec.long {
            if let Some(value) = given("handle") {
                envelope.handle = Some(text("handle", value)?);
            }
            if let Some(value) = given("wait") {
                let seconds = value.as_f64().filter(|seconds| (0.0..=86_400.0).contains(seconds));
                let seconds = seconds.ok_or_else(|| {
                    ToolError::caller(format!(
                        "{name}: `wait` must be a number of seconds, 0 to 86400, got {value}"
                    ))
                })?;
                envelope.wait = Some(Duration::from_secs_f64(seconds));
            }
        }
        Ok(envelope)
    }
}

impl Host {
    /// Whether a call with these arguments can be made at all: the tool is there and takes them.
    ///
    /// # Errors
    /// What is wrong with them, as the call itself would say it.
    pub fn check(&self, name: &str, mut args: Map<String, Value>) -> Result<(), ToolError> {
        let tool = self.tools().find(name)?;
        match Envelope::take(tool.spec(), &mut args)?.handle {
            Some(_) => Ok(()),
            None => tool.check(args, self.workspaces.len() > 1),
        }
    }
}

/// The way out: no secret and no endless text.
fn finish(host: &Host, mut reply: Reply) -> Reply {
    if reply.revealing {
        return reply;
    }
    let scrubber = host.scrubber_now();
    let mut room = MAX_TEXT;
    for content in &mut reply.content {
        if let Content::Text(text) = content {
            if let Cow::Owned(clean) = scrubber.scrub(text) {
                *text = clean;
            }
            if let Some(bounded) = head_and_tail(text, room) {
                *text = bounded;
            }
            room = room.saturating_sub(text.len());
        } else if let Content::Image { data, mime } = content
            && data.len() > MAX_IMAGE
        {
            let size = data.len();
            *content = Content::Text(format!("{mime} of {size} bytes not shown: more than {MAX_IMAGE}"));
        }
    }
    if let Some(structured) = &mut reply.structured {
        scrubber.scrub_json(structured);
        if let Some(size) = over(structured, MAX_TEXT) {
            // Not all of it: clients refuse an answer without what was declared, and its text with it.
            let items = shorten(structured, MAX_TEXT);
            let items = if items > 0 { format!(": {items} item(s) left out") } else { String::new() };
            reply
                .content
                .push(Content::Text(format!("structured content (about {size} bytes) shortened{items}")));
        }
    }
    reply
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> anyhow::Error {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    anyhow::anyhow!("the tool panicked: {text}")
}

/// Short, unique within a process and good enough to find one line in a log.
fn fault_id() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("E{:04}", NEXT.fetch_add(1, Ordering::Relaxed))
}
