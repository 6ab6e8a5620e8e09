//! `Edit`: exact text for other text.

use super::{marker, rewrite};
use crate::{
    Call, Class, Facts, Group, Spec, Tool, ToolError, Touches,
    verify::{Touched, Wanted, feedback, look_before},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use workspace::{ContainedPath, EditError, replace};

/// Line numbers that are listed when a text is not unique.
const LISTED: usize = 20;

/// Edits a file.
pub(crate) struct Edit;

/// What `Edit` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    file_path: String,
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: Option<bool>,
    #[serde(default)]
    #[schemars(with = "Wanted", description = "none: no check after the change")]
    feedback: Option<Wanted>,
}

/// What `Edit` did.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Done {
    path: String,
    /// Lines, before the change, on which replaced text began.
    lines: Vec<u64>,
}

impl Tool for Edit {
    const SPEC: Spec = Spec {
        name: "Edit",
        group: Group::Files,
        class: Class::Write,
        description: "Replace old_string, which must occur exactly once unless replace_all, in a file that was \
                      Read. Copy it without line numbers.",
        destructive: true,
        idempotent: false,
        open_world: false,
        long: false,
    };
    const TOUCHES: Touches = Touches::Noted;
    type Args = Args;
    type Output = Facts<Done>;

    async fn run(&self, call: &Call, args: Args) -> Result<Facts<Done>, ToolError> {
        let wanted = args.feedback;
        let path = call.workspace.resolve(&args.file_path)?;
        if wanted.is_none() {
            look_before(call, &path).await;
        }
        let (mut done, touched) = call.writing(move |call| edit(call, path, &args)).await?;
        done.text.push_str(&feedback(call, wanted, vec![touched]).await);
        Ok(done)
    }
}

fn edit(call: &Call, path: ContainedPath, args: &Args) -> Result<(Facts<Done>, Touched), ToolError> {
    let mut lines = Vec::new();
    let mut note = None;
    let written = rewrite(call, &path, |old| {
        let all = args.replace_all == Some(true);
        marker::refuse(call, "edit", &path, old, &args.new_string)?;
        let edited = replace(old, &args.old_string, &args.new_string, all).map_err(|error| match error {
            EditError::NotFound { diagnosis } => {
                let hint = marker::explain(call, old, &args.old_string).unwrap_or(diagnosis);
                ToolError::with_hint(format!("old_string not found in {path}"), hint)
            }
            error => refused(&path, error),
        })?;
        lines = edited.lines;
        note = call.note("Edit", &path, Some(old));
        Ok(edited.bytes)
    });
    call.noted(note, written.as_ref().ok().map(|written| written.new.clone()));
    let written = written?;
    let text = format!("replaced {} occurrence(s) in {path}", lines.len());
    let facts = Done { path: path.to_string(), lines };
    Ok((Facts { text, facts }, Touched { path, before: written.old, after: Some(written.new) }))
}

fn refused(path: &ContainedPath, error: EditError) -> ToolError {
    match error {
        EditError::Ambiguous { lines } => {
            let numbers: Vec<String> = lines.iter().take(LISTED).map(u64::to_string).collect();
            let more = if lines.len() > LISTED { ", …" } else { "" };
            ToolError::with_hint(
                format!(
                    "old_string matched {} times in {path}; add context to make it unique or set replace_all=true",
                    lines.len()
                ),
                format!("lines {}{more}", numbers.join(", ")),
            )
        }
        error => ToolError::caller(format!("cannot edit {path}: {error}")),
    }
}
