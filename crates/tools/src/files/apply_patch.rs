//! `apply_patch`: a unified diff over several files.

use super::{marker, stale};
use crate::{
    Call, Class, Facts, Group, Spec, Tool, ToolError,
    verify::{Touched, Wanted, feedback, look_before},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fmt::Write as _, sync::Arc};
use workspace::{ContainedPath, PatchError, PatchedFile, parse_patch};

/// Files whose state before the patch is looked at, for the feedback.
const PRELOOKED: usize = 5;

/// Larger files are not looked at for secrets.
const MARKED: u64 = 16 << 20;

/// Applies a patch.
pub(crate) struct ApplyPatch;

/// What `apply_patch` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    patch: String,
    #[serde(default)]
    #[schemars(with = "Wanted")]
    feedback: Option<Wanted>,
}

/// What `apply_patch` did.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Done {
    files: Vec<Changed>,
    added: usize,
    removed: usize,
    notes: Vec<String>,
}

/// One file that is different now.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Changed {
    path: String,
    /// `A` added, `M` modified, `D` deleted; a rename is a `D` and an `A`.
    status: char,
}

impl Tool for ApplyPatch {
    const SPEC: Spec = Spec {
        name: "apply_patch",
        group: Group::Files,
        class: Class::Write,
        description: "Apply a unified diff (git or plain headers; create, delete, rename) to several files: all \
                      or nothing, context must match exactly. Files it changes must have been Read.",
        destructive: true,
        idempotent: false,
        open_world: false,
        long: false,
    };
    type Args = Args;
    type Output = Facts<Done>;

    async fn run(&self, call: &Call, args: Args) -> Result<Facts<Done>, ToolError> {
        let wanted = args.feedback;
        if wanted.is_none() {
            let paths: Vec<String> = parse_patch(&args.patch)
                .map(|plan| plan.paths().map(|path| path.to_string_lossy().into_owned()).collect())
                .unwrap_or_default();
            for path in paths.iter().collect::<BTreeSet<_>>().into_iter().take(PRELOOKED) {
                if let Ok(path) = call.workspace.resolve(path) {
                    look_before(call, &path).await;
                }
            }
        }
        let (mut done, touched) = call.blocking(move |call| apply(call, &args.patch)).await?;
        done.text.push_str(&feedback(call, wanted, touched).await);
        Ok(done)
    }
}

fn apply(call: &Call, patch: &str) -> Result<(Facts<Done>, Vec<Touched>), ToolError> {
    let failed = |error| match error {
        PatchError::Stale { path, now } => stale(call, "edit", &path, &now),
        error @ PatchError::NotRead { .. } => ToolError::caller(error.to_string()),
        error => ToolError::with_hint(error.to_string(), "nothing was changed"),
    };
    let plan = parse_patch(patch).map_err(failed)?;
    for (name, added) in plan.additions() {
        let path = call.workspace.resolve(name)?;
        let content = || call.workspace.bytes_of(path.relative(), MARKED).unwrap_or_default();
        if marker::is_in(&added) {
            marker::refuse(call, "edit", &path, &content(), &added)?;
        }
    }
    let seen =
        |path: &ContainedPath| call.session.ledgers.with(&call.workspace, |ledger| ledger.version(path));
    let report = call.workspace.apply_patch(&plan, &seen).map_err(|error| match error {
        PatchError::Hunk { ref path, .. } if marker::is_in(patch) => {
            let content = call.workspace.bytes_of(path.relative(), MARKED).unwrap_or_default();
            match marker::explain(call, &content, patch) {
                Some(why) => ToolError::with_hint(error.to_string(), format!("nothing was changed; {why}")),
                None => failed(error),
            }
        }
        error => failed(error),
    })?;
    report.files.iter().for_each(|file| call.changed(&file.path));
    let mut text =
        format!("applied to {} file(s), +{} -{}", report.files.len(), report.added, report.removed);
    let (mut files, mut touched) = (Vec::new(), Vec::new());
    call.session.ledgers.with(&call.workspace, |ledger| {
        for file in report.files {
            let changed = Changed { path: file.path.to_string(), status: status(&file) };
            let _ = write!(text, "\n{} {}", changed.status, changed.path);
            files.push(changed);
            match &file.now {
                Some((version, bytes)) => ledger.record(&file.path, *version, Some(Arc::clone(bytes))),
                None => ledger.forget(&file.path),
            }
            let after = file.now.map(|(_, bytes)| bytes);
            touched.push(Touched { path: file.path, before: file.before, after });
        }
    });
    for note in &report.notes {
        let _ = write!(text, "\n{note}");
    }
    let facts = Done { files, added: report.added, removed: report.removed, notes: report.notes };
    Ok((Facts { text, facts }, touched))
}

fn status(file: &PatchedFile) -> char {
    match (&file.before, &file.now) {
        (None, _) => 'A',
        (Some(_), None) => 'D',
        (Some(_), Some(_)) => 'M',
    }
}
