//! `run_script`.

use super::{
    arguments,
    command::{self, NotStarted},
    project::Project,
};
use crate::{Call, Class, Group, Spec, Tool, ToolError};
use ::verify::{Kept, Lines};
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;

/// Bytes of output that are shown.
const SHOWN: usize = 100 << 10;

/// Runs a script of the project.
pub(crate) struct RunScript;

/// What `run_script` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    name: String,
    #[serde(default)]
    language: Option<String>,
    /// s, default 300, max 1800
    #[serde(default)]
    timeout: Option<u64>,
}

impl Tool for RunScript {
    const SPEC: Spec = Spec {
        name: "run_script",
        group: Group::Verify,
        class: Class::Write,
        description: "Run a script the project defines: package.json scripts, cargo aliases, make and just targets, \
                      Python project scripts. An unknown name lists those there are.",
        destructive: true,
        idempotent: false,
        open_world: true,
        long: true,
    };
    type Args = Args;
    type Output = String;

    async fn run(&self, call: &Call, args: Args) -> Result<String, ToolError> {
        let timeout = arguments::timeout("run_script", args.timeout, 300, 1800)?;
        let facts = Project::open(call, "run_script", None)?;
        let (language, name) = (args.language, args.name);
        let (detector, project, plan) = call
            .blocking(move |call| {
                let detectors = facts.select(language.as_deref())?;
                let mut refusal = None;
                for detector in detectors {
                    let project = facts.seen_by(call, detector);
                    match detector.script_cmd(&*project, &name) {
                        Ok(plan) => return Ok((detector, project, plan)),
                        Err(error) => drop(refusal.get_or_insert(error)),
                    }
                }
                let why = refusal.map(|error| error.to_string()).unwrap_or_default();
                Err(ToolError::caller(format!("run_script: {why}")))
            })
            .await?;
        let (mut lines, mut kept) = (Lines::default(), Kept::new(SHOWN));
        let mut take = |_, bytes: &[u8]| lines.feed(bytes, |line| kept.push(&String::from_utf8_lossy(line)));
        let done = command::run(&project, &plan, Duration::from_secs(timeout), &mut take).await;
        let ended = match done {
            Ok(ended) => ended,
            Err(NotStarted::Missing(binary)) => {
                return Err(command::missing("run_script", detector, &project, &binary));
            }
            Err(NotStarted::Other(error)) => return Err(error),
        };
        lines.end(|line| kept.push(&String::from_utf8_lossy(line)));
        let mut shown = kept.lines();
        shown.extend(ended.notes);
        if ended.end == ::verify::End::TimedOut {
            shown.push(format!("timed out after {timeout}s"));
        }
        shown.push(format!("exit: {}", ended.code));
        let mut text = ::verify::strip_ansi(&shown.join("\n")).into_owned();
        project.say(&mut text);
        Ok(text)
    }
}
