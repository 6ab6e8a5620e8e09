//! `Bash`: a command at the workspace's root.

use super::{
    About, Finished,
    background::Background,
    capture::{Capture, Captured},
    check, clean,
    pump::{Ending, From, Sink, pump},
    secrets, start,
};
use crate::{Call, Class, Group, Spec, Tool, ToolError, bound::left_out};
use sandbox::{EnvEntry, Outcome, Stdio};
use schemars::JsonSchema;
use serde::Deserialize;
use std::{fmt::Write as _, sync::PoisonError, time::Duration};
use tokio_util::sync::CancellationToken;

const DEFAULT_TIMEOUT: u64 = 120;
const MAX_TIMEOUT: u64 = 600;

/// Runs a command.
pub(crate) struct Bash;

/// What `Bash` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    command: String,
    /// what it does, in a few words
    #[serde(default)]
    description: Option<String>,
    /// s, default 120, max 600
    #[serde(default)]
    timeout: Option<u64>,
    #[serde(default)]
    run_in_background: Option<bool>,
    /// names to set as variables; `-` becomes `_`
    #[serde(default)]
    secrets: Option<Vec<String>>,
}

impl Tool for Bash {
    const SPEC: Spec = Spec {
        name: "Bash",
        group: Group::Shell,
        class: Class::Write,
        description: "Run `bash -c` at the workspace root, stdin closed. Returns stdout and stderr in order \
                      (long output: head, tail and how to read the rest), then `exit: N` if not 0. Every process \
                      it started is ended with it; for servers set run_in_background.",
        destructive: true,
        idempotent: false,
        open_world: true,
        long: true,
    };
    type Args = Args;
    type Output = String;

    async fn run(&self, call: &Call, args: Args) -> Result<String, ToolError> {
        check(call, "Bash", &args.command)?;
        let timeout = args.timeout.unwrap_or(DEFAULT_TIMEOUT);
        if !(1..=MAX_TIMEOUT).contains(&timeout) {
            return Err(ToolError::with_hint(
                format!("Bash: `timeout` must be 1 to {MAX_TIMEOUT} seconds, got {timeout}"),
                "set run_in_background for what takes longer",
            ));
        }
        let env = secrets(call, "Bash", args.secrets.unwrap_or_default()).await?;
        let about = About::new(&args.command, args.description);
        if args.run_in_background == Some(true) {
            background(call, about, env).await
        } else {
            foreground(call, about, env, timeout).await
        }
    }
}

async fn background(call: &Call, about: About, env: Vec<EnvEntry>) -> Result<String, ToolError> {
    let shells = &call.session.shells;
    let _place = shells.admit()?;
    let process = start(call, &about.command, env, Stdio::Separate).await?;
    let shell = shells.add(|id| Background::start(call, id, about, process, None));
    let place = call.place().paths.remark_always().map_or_else(String::new, |remark| format!("\n{remark}"));
    Ok(format!(
        "shell_id: {}\nruns in the background; BashOutput reads it, KillShell ends it{place}",
        shell.id
    ))
}

async fn foreground(
    call: &Call,
    about: About,
    env: Vec<EnvEntry>,
    timeout: u64,
) -> Result<String, ToolError> {
    let process = start(call, &about.command, env, Stdio::Merged).await?;
    let scrubber = call.host().scrubber();
    let mut output = Merged(Capture::new(&scrubber, call.host().settings.limits.kept_output));
    let (window, preview) = (output.0.window(), scrubber);
    call.progress
        .partial_from(move || window.lock().unwrap_or_else(PoisonError::into_inner).preview(&preview));
    // Cancelling drops this future, and the process with it.
    let never = CancellationToken::new();
    let mut ending = pump(process, Some(Duration::from_secs(timeout)), &never, &mut output).await;
    let mut text = match output.0.finish().await {
        Captured::Whole(text) => text,
        Captured::Cut { head, tail, printed, rest } => {
            let shown = (head.len() + tail.len()) as u64;
            let rest = match rest {
                Ok(output) => {
                    let (length, complete) = (output.length, output.complete);
                    let code = ending.outcome.shell_code();
                    let id = call.session.shells.keep(Finished { about, code, output });
                    let since = format!("; BashOutput(shell_id=\"{id}\", since=\"{}\") reads on", head.len());
                    if complete {
                        left_out(length.saturating_sub(shown), &since)
                    } else {
                        let kept = format!("{since}; the first {length} bytes are kept");
                        left_out(printed.saturating_sub(shown), &kept)
                    }
                }
                Err(error) => left_out(printed.saturating_sub(shown), &format!(" and not kept ({error})")),
            };
            format!("{head}\n{rest}\n{tail}")
        }
    };
    if let std::borrow::Cow::Owned(flat) = clean::overwritten(&text) {
        text = flat;
    }
    ending.notes.retain(|note| call.session.shells.worth_saying(call.workspace.name(), note));
    // What a command prints is shown as it is, paths too: it may be content, not a name.
    ending.notes.extend(call.place().paths.remark(&text));
    conclude(&mut text, &ending, timeout);
    Ok(text)
}

/// Says how it ended, when there is something to say.
fn conclude(text: &mut String, ending: &Ending, timeout: u64) {
    if ending.outcome.success() && ending.notes.is_empty() {
        return;
    }
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    for note in &ending.notes {
        let _ = writeln!(text, "{note}");
    }
    match &ending.outcome {
        Outcome::Exited(_) | Outcome::Signaled(_) => {}
        Outcome::TimedOut => {
            let _ = writeln!(text, "bash: timed out after {timeout}s");
        }
        other => {
            let _ = writeln!(text, "bash: {other}");
        }
    }
    if ending.outcome.success() {
        text.truncate(text.trim_end_matches('\n').len());
    } else {
        let _ = write!(text, "exit: {}", ending.outcome.shell_code());
    }
}

/// stdout and stderr on one pipe.
struct Merged(Capture);

impl Sink for Merged {
    async fn take(&mut self, _: From, bytes: &[u8]) {
        self.0.push(bytes).await;
    }
}
