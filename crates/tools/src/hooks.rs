//! Programs that are asked before and after a call, and told about sessions.
//!
//! One process per event: one JSON object on its stdin, one on its stdout. A `filter` fails closed: whatever
//! goes wrong with it denies. An `observe` hook is never waited for.

use crate::{Content, Reply, Session, ToolError};
use config::{HookKind, HookMode, HookSpec, Phase};
use sandbox::{EnvEntry, Request, Sandbox};
use scrub::Scrubber;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};
use tokio_util::task::TaskTracker;

/// How much of a hook's stderr is shown to the agent.
const SHOWN: usize = 500;

/// How much of either stream of a hook is kept.
const KEPT: usize = 1 << 20;

/// What hooks did since the start, by name.
#[derive(Default)]
pub(crate) struct Tallies(Mutex<BTreeMap<String, HookTally>>);

/// What one hook did since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HookTally {
    /// Calls, results and sessions that it denied, its own failures included.
    pub denied: u64,
    /// Events that it failed to look on at.
    pub faults: u64,
}

impl Tallies {
    fn add(&self, hook: &str, change: impl FnOnce(&mut HookTally)) {
        change(self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(hook.to_owned()).or_default());
    }

    pub(crate) fn all(&self) -> BTreeMap<String, HookTally> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

pub(crate) struct Hook {
    pub(crate) spec: HookSpec,
    pub(crate) sandbox: Arc<dyn Sandbox>,
}

/// All hooks, in the order in which they run.
#[derive(Default)]
pub(crate) struct Hooks(Vec<Arc<Hook>>);

/// What hooks need of the process they run in.
pub(crate) struct Stage<'a> {
    pub(crate) scrubber: Arc<Scrubber>,
    /// Where hooks run that nobody waits for.
    pub(crate) session: &'a Session,
    pub(crate) background: &'a TaskTracker,
    pub(crate) tallies: &'a Arc<Tallies>,
}

/// What a hook may answer. Whatever else it says is its own business.
#[derive(Deserialize)]
struct Answer {
    allow: Option<bool>,
    ack: Option<bool>,
    reason: Option<String>,
}

impl Hooks {
    pub(crate) fn add(&mut self, hook: Hook) {
        self.0.push(Arc::new(hook));
    }

    pub(crate) fn commands(&self) -> impl Iterator<Item = (String, String, Arc<dyn Sandbox>)> {
        self.0
            .iter()
            .map(|hook| (hook.spec.name.clone(), hook.spec.command.clone(), Arc::clone(&hook.sandbox)))
    }

    /// Asks before a tool runs.
    pub(crate) async fn before(
        &self,
        stage: &Stage<'_>,
        tool: &str,
        args: &Map<String, Value>,
    ) -> Result<(), ToolError> {
        self.tool(stage, Phase::BeforeExecution, tool, || json!({"request": {"name": tool, "args": args}}))
            .await
    }

    /// Asks before a result leaves.
    pub(crate) async fn after(
        &self,
        stage: &Stage<'_>,
        tool: &str,
        args: &Map<String, Value>,
        reply: &Reply,
    ) -> Result<(), ToolError> {
        let payload = || json!({"request": {"name": tool, "args": args}, "response": response(reply)});
        self.tool(stage, Phase::AfterExecution, tool, payload).await
    }

    /// Whether any hook looks at this tool in any phase.
    pub(crate) fn watch(&self, tool: &str) -> bool {
        [Phase::BeforeExecution, Phase::AfterExecution]
            .iter()
            .any(|phase| self.0.iter().any(|hook| hook.looks_at(*phase, tool)))
    }

    /// Whether a hook may keep this tool's results from leaving.
    pub(crate) fn may_withhold(&self, tool: &str) -> bool {
        self.0
            .iter()
            .any(|hook| hook.spec.mode == HookMode::Filter && hook.looks_at(Phase::AfterExecution, tool))
    }

    /// Whether any hook looks at sessions in this phase.
    pub(crate) fn watch_sessions(&self, phase: Phase) -> bool {
        self.0.iter().any(|hook| hook.spec.kind == HookKind::Session && hook.spec.phases.contains(&phase))
    }

    /// Tells, or at its start asks, about a session.
    pub(crate) async fn session(
        &self,
        stage: &Stage<'_>,
        phase: Phase,
        event: Value,
    ) -> Result<(), ToolError> {
        let due = self.0.iter().filter(|hook| hook.spec.kind == HookKind::Session);
        self.run(due, stage, phase, || json!({"event": event})).await
    }

    async fn tool(
        &self,
        stage: &Stage<'_>,
        phase: Phase,
        tool: &str,
        payload: impl Fn() -> Value,
    ) -> Result<(), ToolError> {
        let due = self.0.iter().filter(|hook| hook.looks_at(phase, tool));
        self.run(due, stage, phase, payload).await
    }

    /// Runs hooks in turn; the first denial ends it.
    async fn run<'a>(
        &self,
        due: impl Iterator<Item = &'a Arc<Hook>>,
        stage: &Stage<'_>,
        phase: Phase,
        payload: impl Fn() -> Value,
    ) -> Result<(), ToolError> {
        for hook in due.filter(|hook| hook.spec.phases.contains(&phase)) {
            let mut event = payload();
            event["hook"] = json!(if hook.spec.kind == HookKind::Tool { "tool" } else { "session" });
            event["phase"] = json!(phase.name());
            stage.scrubber.scrub_json(&mut event);
            let asked = Arc::clone(hook);
            match hook.spec.mode {
                HookMode::Filter => asked.ask(event).await.map_err(|why| {
                    stage.tallies.add(&hook.spec.name, |tally| tally.denied += 1);
                    hook.denial(stage.session, phase, &why)
                })?,
                HookMode::Observe => {
                    let tallies = Arc::clone(stage.tallies);
                    stage.background.spawn(async move {
                        if let Err(why) = asked.ask(event).await {
                            tallies.add(&asked.spec.name, |tally| tally.faults += 1);
                            tracing::warn!(hook = asked.spec.name, "a hook that observes: {why}");
                        }
                    });
                }
            }
        }
        Ok(())
    }
}

/// Tools that show what came of another one's call.
const READERS: [(&str, &[&str]); 3] = [
    ("BashOutput", &["Bash", "watch_process"]),
    ("watch_process_events", &["watch_process"]),
    ("last_test_failures", &["run_tests", "run_failing_tests"]),
];

impl Hook {
    /// Whether it is run for this tool in this phase. Who may withhold what a command prints sees it also
    /// when another tool reads it.
    fn looks_at(&self, phase: Phase, tool: &str) -> bool {
        let spec = &self.spec;
        if spec.kind != HookKind::Tool || !spec.phases.contains(&phase) {
            return false;
        }
        let results = phase == Phase::AfterExecution && spec.mode == HookMode::Filter;
        let read = READERS.iter().filter(|(reader, _)| results && *reader == tool);
        spec.sees(tool) || read.flat_map(|(_, of)| *of).any(|of| spec.sees(of))
    }

    /// Runs the program once. An error says why the answer is no.
    async fn ask(&self, event: Value) -> Result<(), String> {
        let spec = &self.spec;
        let mut stdin = event.to_string().into_bytes();
        stdin.push(b'\n');
        let response = self
            .sandbox
            .spawn(Request {
                env: spec.env.iter().map(|entry| EnvEntry::parse(entry)).collect(),
                stdin,
                timeout: spec.timeout,
                capture_limit: Some(KEPT),
                ..Request::new(&spec.command).args(spec.args.clone())
            })
            .await;
        let stderr = String::from_utf8_lossy(&response.stderr);
        let said = match stderr.trim() {
            "" => String::new(),
            text => format!("; it said: {}", text.chars().take(SHOWN).collect::<String>()),
        };
        if !response.outcome.success() {
            return Err(format!("{}{said}", response.outcome));
        }
        let answer: Answer = serde_json::from_slice(response.stdout.trim_ascii())
            .map_err(|error| format!("its answer is not the JSON object it should be ({error}){said}"))?;
        match (answer.allow, answer.ack) {
            (Some(true), _) | (None, Some(true)) => Ok(()),
            (Some(false), _) => Err(answer.reason.unwrap_or_else(|| "no reason given".to_owned())),
            _ => Err(format!("its answer neither allows nor denies{said}")),
        }
    }

    fn denial(&self, session: &Session, phase: Phase, why: &str) -> ToolError {
        let what = match phase {
            Phase::AfterExecution => "result withheld",
            Phase::SessionStart => "session denied",
            _ => "denied",
        };
        let (hook, phase) = (&self.spec.name, phase.name());
        let (session, principal) = (&session.id, session.principal.as_deref());
        tracing::info!(target: "audit", event = "hook_denial", hook, phase, session, principal);
        tracing::info!(hook, phase, "{what}: {why}");
        ToolError::caller(format!("{what} by hook \"{}\": {why}", self.spec.name))
    }
}

fn response(reply: &Reply) -> Value {
    let content: Vec<Value> = reply
        .content
        .iter()
        .map(|content| match content {
            Content::Text(text) => json!({"type": "text", "text": text}),
            Content::Image { data, mime } => json!({"type": "image", "mimeType": mime, "bytes": data.len()}),
        })
        .collect();
    json!({"content": content, "structuredContent": reply.structured, "isError": reply.is_error})
}
