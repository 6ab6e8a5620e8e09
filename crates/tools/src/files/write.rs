//! `Write`: a whole file.

use super::{marker, stale};
use crate::{
    Call, Class, Facts, Group, Spec, Tool, ToolError, Touches,
    verify::{Touched, Wanted, feedback, look_before},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use workspace::{ContainedPath, Expected, TextInfo, UpdateError, Written};

/// Writes a file.
pub(crate) struct Write;

/// What `Write` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    file_path: String,
    content: String,
    #[serde(default)]
    #[schemars(with = "Wanted")]
    feedback: Option<Wanted>,
}

/// What `Write` did.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Done {
    path: String,
    bytes: usize,
    created: bool,
}

impl Tool for Write {
    const SPEC: Spec = Spec {
        name: "Write",
        group: Group::Files,
        class: Class::Write,
        description: "Write a whole file, making parent folders. An existing file must have been Read.",
        destructive: true,
        idempotent: true,
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
        let (mut done, touched) = call.writing(move |call| write(call, path, &args)).await?;
        done.text.push_str(&feedback(call, wanted, vec![touched]).await);
        Ok(done)
    }
}

fn write(call: &Call, path: ContainedPath, args: &Args) -> Result<(Facts<Done>, Touched), ToolError> {
    let seen = call.session.ledgers.with(&call.workspace, |ledger| ledger.version(&path));
    let expected = seen.map_or(Expected::Missing, Expected::Exactly);
    let written = match put(call, &path, expected, &args.content) {
        // deleted since it was read: there is nothing to overwrite
        Err(UpdateError::Missing) => put(call, &path, Expected::Missing, &args.content),
        other => other,
    };
    let written = written.map_err(|error| match error {
        UpdateError::Changed { now } => stale(call, "overwrite", &path, &now),
        UpdateError::File(error) => error.into(),
        UpdateError::Refused(error) => error,
        _ => ToolError::caller(format!("refusing to overwrite {path}: Read it first")),
    })?;
    let bytes = written.new.len();
    let text = format!("wrote {bytes} bytes to {path}");
    let facts = Done { path: path.to_string(), bytes, created: written.old.is_none() };
    call.session.ledgers.with(&call.workspace, |ledger| {
        ledger.record(&path, written.version, Some(Arc::clone(&written.new)));
    });
    Ok((Facts { text, facts }, Touched { path, before: written.old, after: Some(written.new) }))
}

fn put(
    call: &Call,
    path: &ContainedPath,
    expected: Expected,
    content: &str,
) -> Result<Written, UpdateError<ToolError>> {
    let mut note = None;
    let written = call.workspace.update(path, expected, |old| {
        marker::refuse(call, "overwrite", path, old.unwrap_or_default(), content)?;
        note = call.note("Write", path, old);
        Ok(match old {
            Some(old) if !old.is_empty() => TextInfo::of(old).dress(content),
            _ => content.as_bytes().to_vec(),
        })
    });
    call.noted(note, written.as_ref().ok().map(|written| Arc::clone(&written.new)));
    written
}
