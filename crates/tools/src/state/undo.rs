//! `undo`: back to before the last call that changed something.

use super::snapshots::{Touched, list_changes, on_snapshots, refresh};
use crate::{Call, Class, Facts, Group, Spec, Tool, ToolError, Touches, record::caller};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use workspace::{Caller, UndoOptions, quoted};

/// Takes the last call back.
pub(crate) struct Undo;

/// What `undo` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// even over others' later changes
    #[serde(default)]
    force: Option<bool>,
    /// of any session
    #[serde(default)]
    any_session: Option<bool>,
}

/// What `undo` did.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Undone {
    tool: String,
    /// What that call was asked to do.
    call: String,
    /// The snapshot that takes the undo back.
    before: String,
    files: Vec<Touched>,
    /// Changed by that call but not kept: as they are.
    not_undone: Vec<String>,
}

impl Tool for Undo {
    const SPEC: Spec = Spec {
        name: "undo",
        group: Group::State,
        class: Class::Write,
        description: "Take back this session's last call that changed files (shell too); again: the one before.",
        destructive: true,
        idempotent: false,
        open_world: false,
        long: false,
    };
    const TOUCHES: Touches = Touches::Nothing;
    type Args = Args;
    type Output = Facts<Undone>;

    async fn run(&self, call: &Call, args: Args) -> Result<Facts<Undone>, ToolError> {
        let options =
            UndoOptions { force: args.force == Some(true), any_session: args.any_session == Some(true) };
        let who = caller(call, "undo", "");
        let kept = call.host().snapshots.of(&call.workspace)?;
        let done = on_snapshots(call, move |snapshots| snapshots.undo(&who, options)).await;
        let told = |why: String| format!("some calls are not in the history: {why}");
        let undone = done.map_err(|error| match (kept.lost(), error) {
            (Some(lost), ToolError::Caller { message, hint }) => {
                ToolError::Caller { message: format!("{message}\n{}", told(lost)), hint }
            }
            (_, error) => error,
        })?;
        // Only now it is told for good: the call that it is about may be the last one, and what was undone an earlier one.
        let lost = kept.tell_lost().map(told);
        refresh(call, &undone.changes).await;
        let changed = undone.changes.iter().filter(|(change, _)| change.is_of_file()).count();
        let what = match undone.caller.summary.as_str() {
            "" => undone.caller.tool.clone(),
            summary => format!("{}: {summary}", undone.caller.tool),
        };
        let mut text = format!("undid {what} ({changed} file(s) changed):");
        let files = list_changes(&undone.changes, &mut text);
        let not_undone: Vec<String> = undone.left_out.iter().map(|path| quoted(path).into_owned()).collect();
        if !not_undone.is_empty() {
            let names = not_undone.join(", ");
            text.push_str(&format!(
                "\nNOT undone, for what was or is ignored, above 64 MiB or out of sight (not readable, in a repository of \
                 its own) is not kept for undo: {names}"
            ));
        }
        text.push_str(&format!("\nto take this undo back: snapshot_restore {}", undone.before));
        if let Some(lost) = lost {
            text.push_str(&format!("\n{lost}"));
        }
        let Caller { tool, summary: call, .. } = undone.caller;
        let facts = Undone { tool, call, before: undone.before, files, not_undone };
        Ok(Facts { text, facts })
    }
}
