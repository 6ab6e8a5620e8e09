//! Tools for the tests of this crate: what the pipeline does, seen through a transport. Registered by the
//! hidden `--conformance` flag only.

use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;
use tools::{Call, Catalog, Class, Group, ProgressUpdate, Spec, Tool, ToolError};

/// The shipped tools, and with `--conformance` the probes.
pub(crate) fn catalog(conformance: bool) -> Catalog {
    let shipped = Catalog::shipped();
    if conformance { shipped.with(Hold).with(Panic).with(Steps).with(Length).with(WhoAmI) } else { shipped }
}

const fn spec(name: &'static str, class: Class) -> Spec {
    Spec {
        name,
        group: Group::State,
        class,
        description: "A probe.",
        destructive: false,
        idempotent: true,
        open_world: false,
        long: false,
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// Waits for ever; says in the log when it begins and when it is gone.
struct Hold;

struct Gone;

impl Drop for Gone {
    fn drop(&mut self) {
        tracing::info!("test_hold gone");
    }
}

impl Tool for Hold {
    const SPEC: Spec = spec("test_hold", Class::Write);
    type Args = HoldArgs;
    type Output = String;

    async fn run(&self, _call: &Call, args: HoldArgs) -> Result<String, ToolError> {
        tracing::info!("test_hold begun");
        let _gone = Gone;
        match args.milliseconds {
            Some(milliseconds) => tokio::time::sleep(Duration::from_millis(milliseconds)).await,
            None => std::future::pending().await,
        }
        Ok("held".to_owned())
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HoldArgs {
    milliseconds: Option<u64>,
}

/// Panics.
struct Panic;

impl Tool for Panic {
    const SPEC: Spec = spec("test_panic", Class::Read);
    type Args = Nothing;
    type Output = String;

    async fn run(&self, _call: &Call, _args: Nothing) -> Result<String, ToolError> {
        panic!("a probe that panics")
    }
}

/// Reports three steps.
struct Steps;

impl Tool for Steps {
    const SPEC: Spec = spec("test_steps", Class::Read);
    type Args = Nothing;
    type Output = String;

    async fn run(&self, call: &Call, _args: Nothing) -> Result<String, ToolError> {
        for step in 1..=3u8 {
            let message = format!("step {step}");
            call.progress.report(ProgressUpdate { done: f64::from(step), total: Some(3.0), message });
            // Updates that follow each other too fast are not sent.
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        Ok("stepped".to_owned())
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Text {
    text: String,
}

/// How much arrived.
struct Length;

impl Tool for Length {
    const SPEC: Spec = spec("test_length", Class::Read);
    type Args = Text;
    type Output = String;

    async fn run(&self, _call: &Call, args: Text) -> Result<String, ToolError> {
        Ok(args.text.len().to_string())
    }
}

/// Which session a call belongs to.
struct WhoAmI;

impl Tool for WhoAmI {
    const SPEC: Spec = spec("test_session", Class::Read);
    type Args = Nothing;
    type Output = String;

    async fn run(&self, call: &Call, _args: Nothing) -> Result<String, ToolError> {
        Ok(call.session.id.clone())
    }
}
