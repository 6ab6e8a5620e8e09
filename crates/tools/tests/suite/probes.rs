//! Tools that show what the pipeline does.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tokio::sync::Notify;
use tools::{Call, Class, Facts, Group, ProgressUpdate, Reply, Spec, Tool, ToolError};

const fn spec(name: &'static str, class: Class, long: bool) -> Spec {
    Spec {
        name,
        group: Group::State,
        class,
        description: "A probe.",
        destructive: false,
        idempotent: true,
        open_world: false,
        long,
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EchoArgs {
    text: String,
    #[serde(default)]
    times: Option<u32>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Echoed {
    text: String,
}

/// Says what it is told, as text and as facts.
pub(crate) struct Echo;

impl Tool for Echo {
    const SPEC: Spec = spec("Echo", Class::Read, false);
    type Args = EchoArgs;
    type Output = Facts<Echoed>;

    async fn run(&self, _: &Call, args: EchoArgs) -> Result<Facts<Echoed>, ToolError> {
        let text = args.text.repeat(args.times.unwrap_or(1) as usize);
        Ok(Facts { text: text.clone(), facts: Echoed { text } })
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FailArgs {
    how: How,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum How {
    Caller,
    Fault,
    Panic,
    PanicBlocking,
}

/// Fails in every way there is.
pub(crate) struct Fail;

impl Tool for Fail {
    const SPEC: Spec = spec("Fail", Class::Write, false);
    type Args = FailArgs;
    type Output = String;

    async fn run(&self, call: &Call, args: FailArgs) -> Result<String, ToolError> {
        let secret = super::support::SECRET;
        match args.how {
            How::Caller => Err(ToolError::with_hint(format!("no {secret}"), "try another")),
            How::Fault => Err(anyhow::anyhow!("disk on fire").into()),
            How::Panic => panic!("a bug"),
            How::PanicBlocking => call.blocking(|_| -> Result<String, ToolError> { panic!("a bug") }).await,
        }
    }
}

/// Waits until it is told to go on; counts its starts and its ends.
#[derive(Clone, Default)]
pub(crate) struct Gate {
    pub(crate) started: Arc<AtomicUsize>,
    pub(crate) dropped: Arc<AtomicUsize>,
    pub(crate) open: Arc<Notify>,
}

impl Gate {
    pub(crate) fn started(&self) -> usize {
        self.started.load(Ordering::SeqCst)
    }

    /// Waits until as many have begun.
    pub(crate) async fn until_started(&self, count: usize) {
        while self.started() < count {
            tokio::task::yield_now().await;
        }
    }

    /// Waits until as many have ended, however that came about.
    pub(crate) async fn until_dropped(&self, count: usize) {
        while self.dropped.load(Ordering::SeqCst) < count {
            tokio::task::yield_now().await;
        }
    }

    async fn pass(&self) {
        struct Count(Arc<AtomicUsize>);
        impl Drop for Count {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let _count = Count(Arc::clone(&self.dropped));
        self.started.fetch_add(1, Ordering::SeqCst);
        self.open.notified().await;
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GateArgs {
    #[serde(default)]
    say: Option<String>,
}

/// A short tool that waits at the gate.
pub(crate) struct Hold(pub(crate) Gate);

impl Tool for Hold {
    const SPEC: Spec = spec("Hold", Class::Read, false);
    type Args = GateArgs;
    type Output = Reply;

    async fn run(&self, _: &Call, args: GateArgs) -> Result<Reply, ToolError> {
        self.0.pass().await;
        Ok(Reply::text(args.say.unwrap_or_else(|| "held".to_owned())))
    }
}

/// A long one that says how far it is.
pub(crate) struct March(pub(crate) Gate);

impl Tool for March {
    const SPEC: Spec = spec("March", Class::Read, true);
    type Args = GateArgs;
    type Output = String;

    async fn run(&self, call: &Call, args: GateArgs) -> Result<String, ToolError> {
        let said = args.say.unwrap_or_default();
        call.progress.report(ProgressUpdate {
            done: 1.0,
            total: Some(2.0),
            message: format!("half way {said}"),
        });
        call.progress.keep_partial(format!("so far: {said}"));
        self.0.pass().await;
        Ok(format!("arrived {said}"))
    }
}

/// Another long one.
pub(crate) struct Drift(pub(crate) Gate);

impl Tool for Drift {
    const SPEC: Spec = spec("Drift", Class::Write, true);
    type Args = GateArgs;
    type Output = String;

    async fn run(&self, _: &Call, _: GateArgs) -> Result<String, ToolError> {
        self.0.pass().await;
        Ok("drifted".to_owned())
    }
}
