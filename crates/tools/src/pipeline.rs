//! The one way from a transport to a tool and back.

use crate::{
    Access, Call, Content, Host, Progress, ProgressUpdate, Reply, Session, ToolError,
    bound::head_and_tail,
    jobs::{Finished, Job},
    tool::{AnyTool, Class},
};
use futures_util::FutureExt;
use serde_json::{Map, Value};
use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// No reply's text is longer than this, whatever a tool returns: a line on stdio stays far below the
/// 1 MiB that some clients choke on.
const MAX_TEXT: usize = 400 * 1024;

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
    /// Every failure is a reply with `is_error`, so that no client retries it as a protocol fault.
    pub async fn call(
        self: &Arc<Self>,
        name: &str,
        args: Map<String, Value>,
        cancel: CancellationToken,
        progress: Progress,
    ) -> Reply {
        let reply = match self.admit(name, args, cancel, progress).await {
            Ok(reply) => reply,
            Err(error) => self.explain(name, error),
        };
        finish(&self.host, reply)
    }

    async fn admit(
        self: &Arc<Self>,
        name: &str,
        mut args: Map<String, Value>,
        cancel: CancellationToken,
        progress: Progress,
    ) -> Finished {
        let tool = self.host.tools.find(name)?;
        if self.access == Access::ReadOnly && tool.spec().class == Class::Write {
            return Err(ToolError::caller(format!("{name} changes things, and this session is read-only")));
        }
        let envelope = Envelope::take(tool.as_ref(), &mut args)?;
        let _slot = self.host.slots.clone().try_acquire_owned().map_err(|error| match error {
            tokio::sync::TryAcquireError::Closed => ToolError::caller("the server is shutting down"),
            tokio::sync::TryAcquireError::NoPermits => ToolError::with_hint(
                format!("too many calls at once (limit {})", self.host.settings.limits.concurrent_calls),
                "wait for one to end and call again",
            ),
        })?;
        if let Some(handle) = envelope.handle {
            let job = self.jobs.take(&handle)?;
            if job.tool != tool.spec().name {
                let owner = job.tool;
                self.jobs.put_back(handle.clone(), job);
                return Err(ToolError::caller(format!(
                    "handle \"{handle}\" belongs to {owner}, not to {name}"
                )));
            }
            return self.attend(job, Some(handle), envelope.wait, &cancel).await;
        }
        let stop = self.cancel.child_token();
        let call = Call {
            session: Arc::clone(self),
            workspace: self.host.workspace(envelope.workspace.as_deref())?,
            cancel: stop.clone(),
            progress: scrubbed(&self.host, progress),
        };
        if !tool.spec().long {
            let _stop = stop.drop_guard();
            let work = self.host.running.track_future(run(tool, call, args));
            return tokio::select! {
                () = cancel.cancelled() => Err(ToolError::Cancelled),
                done = work => done,
            };
        }
        // A call that may be picked up again lives in a task of its own, whoever waits for it.
        let progress = call.progress.clone();
        let name = tool.spec().name;
        let job = Job::new(name, progress, self.host.running.spawn(run(tool, call, args)), stop);
        self.attend(job, None, envelope.wait, &cancel).await
    }

    /// Waits for a job as long as the caller does.
    async fn attend(
        &self,
        job: Job,
        handle: Option<String>,
        wait: Option<Duration>,
        cancel: &CancellationToken,
    ) -> Finished {
        let tool = job.tool;
        tokio::select! {
            () = cancel.cancelled() => Err(ToolError::Cancelled),
            done = job.wait(wait) => match done {
                Ok(finished) => finished,
                Err(job) => {
                    let so_far = job.progress.so_far();
                    let handle = match handle {
                        Some(handle) => {
                            self.jobs.put_back(handle.clone(), job);
                            handle
                        }
                        None => self.jobs.keep(job),
                    };
                    let so_far = if so_far.is_empty() { String::new() } else { format!("\n{so_far}") };
                    Ok(Reply::text(format!(
                        "{tool} still running; call {tool} again with handle \"{handle}\" to go on waiting{so_far}"
                    )))
                }
            },
        }
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

/// Runs one tool: a panic ends the call and nothing else, a cancel drops the work.
async fn run(tool: Arc<dyn AnyTool>, call: Call, args: Map<String, Value>) -> Finished {
    let work = AssertUnwindSafe(tool.run(&call, args)).catch_unwind();
    tokio::select! {
        () = call.cancel.cancelled() => Err(ToolError::Cancelled),
        done = work => done.unwrap_or_else(|panic| Err(ToolError::Fault(panicked(panic.as_ref())))),
    }
}

impl Envelope {
    fn take(tool: &dyn AnyTool, args: &mut Map<String, Value>) -> Result<Self, ToolError> {
        let name = tool.spec().name;
        let text = |key: &str, value: Value| match value {
            Value::String(text) => Ok(text),
            other => Err(ToolError::caller(format!("{name}: `{key}` must be a string, got {other}"))),
        };
        let mut envelope = Self::default();
        if let Some(value) = args.remove("workspace") {
            envelope.workspace = Some(text("workspace", value)?);
        }
        if tool.spec().long {
            if let Some(value) = args.remove("handle") {
                envelope.handle = Some(text("handle", value)?);
            }
            if let Some(value) = args.remove("wait") {
                let seconds = value.as_f64().filter(|seconds| (0.0..=86_400.0).contains(seconds));
                let seconds = seconds.ok_or_else(|| {
                    ToolError::caller(format!("{name}: `wait` must be a number of seconds, got {value}"))
                })?;
                envelope.wait = Some(Duration::from_secs_f64(seconds));
            }
        }
        Ok(envelope)
    }
}

/// Progress messages leave the process like any other text.
fn scrubbed(host: &Arc<Host>, progress: Progress) -> Progress {
    let scrubber = Arc::clone(&host.scrubber);
    Progress::to(move |update: ProgressUpdate| {
        let message = scrubber.scrub(&update.message).into_owned();
        progress.report(ProgressUpdate { message, ..update });
    })
}

/// The way out: no secret and no endless text.
fn finish(host: &Host, mut reply: Reply) -> Reply {
    for content in &mut reply.content {
        if let Content::Text(text) = content {
            let clean = host.scrubber.scrub(text);
            if let Some(bounded) = head_and_tail(&clean, MAX_TEXT) {
                *text = bounded;
            } else if let std::borrow::Cow::Owned(clean) = clean {
                *text = clean;
            }
        }
    }
    if let Some(structured) = &mut reply.structured {
        host.scrubber.scrub_json(structured);
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
