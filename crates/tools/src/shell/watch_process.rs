//! `watch_process` and `watch_process_events`: a background process with eyes on it.

use super::{
    About, Entry,
    background::Background,
    capture::SHOWN,
    check, secrets, start,
    watch::{Event, MAX_EVENTS, Patterns, Since, Watch},
};
use crate::{Call, Class, Facts, Group, Spec, Tool, ToolError, Touches};
use sandbox::Stdio;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

const MAX_IDLE: u64 = 3600;

/// Starts a watched process.
pub(crate) struct WatchProcess;

/// What `watch_process` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    command: String,
    #[serde(default)]
    description: Option<String>,
    /// regexes for stderr lines; default: common errors; []: none
    #[serde(default)]
    error_patterns: Option<Vec<String>>,
    /// event after this much silence, max 3600; 0: never
    #[serde(default)]
    idle_timeout_seconds: Option<u64>,
    /// regex of a line: it is up
    #[serde(default)]
    ready_pattern: Option<String>,
    /// as in Bash
    #[serde(default)]
    secrets: Option<Vec<String>>,
}

/// What `watch_process` did.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Started {
    shell_id: String,
}

impl Tool for WatchProcess {
    const SPEC: Spec = Spec {
        name: "watch_process",
        group: Group::Shell,
        class: Class::Write,
        description: "Run a command in the background and note events: error lines, ready, silence, exit. \
                      Read them with watch_process_events, output with BashOutput; KillShell ends it.",
        destructive: true,
        idempotent: false,
        open_world: true,
        long: false,
    };
    type Args = Args;
    type Output = Facts<Started>;

    async fn run(&self, call: &Call, args: Args) -> Result<Facts<Started>, ToolError> {
        check(call, "watch_process", &args.command)?;
        let patterns = Patterns::new(args.error_patterns, args.ready_pattern)?;
        let idle = args.idle_timeout_seconds.unwrap_or(0);
        if idle > MAX_IDLE {
            return Err(ToolError::caller(format!(
                "watch_process: `idle_timeout_seconds` must be 0 to {MAX_IDLE}, got {idle}"
            )));
        }
        let idle = (idle > 0).then(|| Duration::from_secs(idle));
        let env = secrets(call, "watch_process", args.secrets.unwrap_or_default()).await?;
        let shells = &call.session.shells;
        let _place = shells.admit()?;
        let about = About::new(&args.command, args.description);
        let process = start(call, &about.command, env, Stdio::Separate).await?;
        let notices = call.session.notices.clone();
        let reticent = call.runtime.hooks.may_withhold("watch_process_events");
        let shell = shells.add(|id| {
            let watch = Watch::new(id.clone(), patterns, idle, notices, reticent);
            Background::start(call, id, about, process, Some(watch))
        });
        let shell_id = shell.id.clone();
        Ok(Facts { text: format!("shell_id: {shell_id}"), facts: Started { shell_id } })
    }
}

/// Reads the events.
pub(crate) struct WatchProcessEvents;

/// What `watch_process_events` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventArgs {
    shell_id: String,
    /// only later ones
    #[serde(default)]
    since_event_id: Option<u64>,
}

/// What happened.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Events {
    events: Vec<Event>,
    /// events that are no longer kept
    dropped: u64,
    /// later events that did not fit in
    more: usize,
}

impl Tool for WatchProcessEvents {
    const SPEC: Spec = Spec {
        name: "watch_process_events",
        group: Group::Shell,
        class: Class::Write,
        description: "Events of a watched process, one a line.",
        destructive: false,
        idempotent: true,
        open_world: false,
        long: false,
    };
    const TOUCHES: Touches = Touches::Nothing;
    type Args = EventArgs;
    type Output = Facts<Events>;

    async fn run(&self, call: &Call, args: EventArgs) -> Result<Facts<Events>, ToolError> {
        let shell = match call.session.shells.find(&args.shell_id)? {
            Entry::Background(shell) => shell,
            Entry::Finished(_) => return Err(of_bash(&args.shell_id)),
        };
        let Some(watch) = &shell.watch else { return Err(of_bash(&args.shell_id)) };
        let since = args.since_event_id.unwrap_or(0);
        let Since { mut events, dropped, unmatched } = watch.since(since);
        let mut lines = Vec::new();
        if dropped > 0 {
            lines.push(format!("… {dropped} events dropped; the latest {MAX_EVENTS} are kept …"));
        }
        let mut room = SHOWN;
        let all = events.len();
        let mut shown = 0;
        for event in &events {
            let line = event.to_string();
            if line.len() > room {
                break;
            }
            room -= line.len();
            lines.push(line);
            shown += 1;
        }
        events.truncate(shown);
        let more = all - shown;
        if more > 0 {
            let last = events.last().map_or(since, |event| event.id);
            lines.push(format!("… {more} events more: since_event_id={last} …"));
        }
        if all == 0 {
            lines.push(format!("no events after {since}"));
        }
        if unmatched > 0 {
            lines.push(format!(
                "… {unmatched} lines were not matched: these patterns take too long for that …"
            ));
        }
        Ok(Facts { text: lines.join("\n"), facts: Events { events, dropped, more } })
    }
}

fn of_bash(shell_id: &str) -> ToolError {
    ToolError::with_hint(
        format!("{shell_id} was started by Bash and has no events"),
        format!("read it with BashOutput(shell_id=\"{shell_id}\")"),
    )
}
