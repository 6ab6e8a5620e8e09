//! `Glob`: files by name.

use super::{cancellable, left_out};
use crate::{Call, Class, Facts, Group, Spec, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{fmt::Write as _, sync::atomic::AtomicBool};
use workspace::{GlobError, GlobQuery, quoted};

const DEFAULT_LIMIT: usize = 100;

/// Finds files.
pub(crate) struct Glob;

/// What `Glob` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// `*` `?` `[…]` `**` `{a,b}`
    pattern: String,
    /// folder, default the root
    #[serde(default)]
    path: Option<String>,
    /// default 100
    #[serde(default)]
    limit: Option<usize>,
    /// distrust file events
    #[serde(default)]
    fresh: Option<bool>,
}

/// What `Glob` found.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Found {
    files: Vec<String>,
    /// All that match, listed or not.
    total: usize,
}

impl Tool for Glob {
    const SPEC: Spec = Spec {
        name: "Glob",
        group: Group::Files,
        class: Class::Read,
        description: "List files by pattern, newest first, without ignored ones. `*.rs` matches the top level \
                      only, `**/*.rs` every level.",
        destructive: false,
        idempotent: true,
        open_world: false,
        long: false,
    };
    type Args = Args;
    type Output = Facts<Found>;

    async fn run(&self, call: &Call, args: Args) -> Result<Facts<Found>, ToolError> {
        cancellable(call, move |call, cancel| glob(call, &args, cancel)).await
    }
}

fn glob(call: &Call, args: &Args, cancel: &AtomicBool) -> Result<Facts<Found>, ToolError> {
    if args.pattern.is_empty() {
        return Err(ToolError::caller("Glob: `pattern` is empty; `**/*` matches every file"));
    }
    if args.limit == Some(0) {
        return Err(ToolError::caller("Glob: `limit` must be at least 1"));
    }
    let path = call.workspace.resolve(args.path.as_deref().filter(|path| !path.is_empty()).unwrap_or("."))?;
    // an absolute pattern means what it says, as long as it lies inside
    let root = format!("{}/", call.workspace.root().display());
    let (pattern, path) = match args.pattern.strip_prefix(&root) {
        Some(below) => (below.to_owned(), call.workspace.resolve(".")?),
        None => (args.pattern.clone(), path),
    };
    if pattern.starts_with('/') || pattern.split('/').any(|part| part == "..") {
        return Err(ToolError::caller(format!(
            "Glob: {pattern:?} leads outside; give a pattern relative to `path`"
        )));
    }
    let query = GlobQuery {
        pattern,
        path,
        limit: args.limit.unwrap_or(DEFAULT_LIMIT),
        fresh: args.fresh == Some(true),
    };
    let reply = call.workspace.glob(&query, cancel).map_err(|error| match error {
        GlobError::File(error) => error.into(),
        error => ToolError::caller(error.to_string()),
    })?;
    let files: Vec<String> = reply.files.iter().map(|file| quoted(file).into_owned()).collect();
    let mut text = files.join("\n");
    if reply.total > files.len() {
        let more = reply.total - files.len();
        let _ = write!(text, "\n[{more} more; narrow the pattern or raise limit]");
    }
    if let Some(left_out) = left_out(&reply.mounts) {
        let _ = write!(text, "{}{left_out}", if text.is_empty() { "" } else { "\n" });
    }
    Ok(Facts { text, facts: Found { files, total: reply.total } })
}
