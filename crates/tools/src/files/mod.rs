//! Files and search: Read, Write, Edit, apply_patch, Glob, Grep.

mod apply_patch;
mod edit;
pub(crate) mod foreign;
mod glob;
mod grep;
pub(crate) mod marker;
mod read;
mod write;

pub(crate) use apply_patch::ApplyPatch;
pub(crate) use edit::Edit;
pub(crate) use glob::Glob;
pub(crate) use grep::Grep;
pub(crate) use read::Read;
pub(crate) use write::Write;

use crate::{Call, ToolError};
use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};
use workspace::{
    ContainedPath, Expected, FileError, Ledger, PathError, UpdateError, WindowSpec, Workspace, Written,
    quoted,
};

/// What a session has read, workspace by workspace.
#[derive(Default)]
pub(crate) struct Ledgers(Mutex<HashMap<String, Ledger>>);

impl Ledgers {
    /// Lets `look` at the ledger of one workspace.
    pub(crate) fn with<T>(&self, workspace: &Workspace, look: impl FnOnce(&mut Ledger) -> T) -> T {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        look(all.entry(workspace.name().to_owned()).or_default())
    }
}

/// The caller can mend a path or a file; what the system refused is told as it is.
impl From<FileError> for ToolError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Cancelled => Self::Cancelled,
            error => Self::caller(error.to_string()),
        }
    }
}

impl From<PathError> for ToolError {
    fn from(error: PathError) -> Self {
        Self::caller(error.to_string())
    }
}

/// Mounts that are named when they were left out of a search.
const NAMED_MOUNTS: usize = 5;

/// Says that parts of the workspace were left out because something else is mounted there.
fn left_out(mounts: &[PathBuf]) -> Option<String> {
    if mounts.is_empty() {
        return None;
    }
    let named: Vec<_> = mounts.iter().take(NAMED_MOUNTS).map(|mount| quoted(mount)).collect();
    let more = match mounts.len().saturating_sub(NAMED_MOUNTS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "[left out: {}{more}: mounted there and no part of the workspace; Bash reaches it]",
        named.join(", ")
    ))
}

/// Runs `work` off the runtime with a flag that rises when the call is given up.
async fn cancellable<T: Send + 'static>(
    call: &Call,
    work: impl FnOnce(&Call, &AtomicBool) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    struct Raise(Arc<AtomicBool>);
    impl Drop for Raise {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let flag = Arc::new(AtomicBool::new(false));
    let _raise = Raise(Arc::clone(&flag));
    call.blocking(move |call| work(call, &flag)).await
}

/// Changes a file that the session has read: under its lock, only if it still is what was read, atomically and durably.
pub(crate) fn rewrite(
    call: &Call,
    path: &ContainedPath,
    change: impl FnOnce(&[u8]) -> Result<Vec<u8>, ToolError>,
) -> Result<Written, ToolError> {
    let seen = call.session.ledgers.with(&call.workspace, |ledger| ledger.version(path));
    let expected = seen.map_or(Expected::Missing, Expected::Exactly);
    let changed = call
        .workspace
        .update(path, expected, |old| old.ok_or(None).and_then(|old| change(old).map_err(Some)));
    let written = changed.map_err(|error| match error {
        UpdateError::Refused(Some(error)) => error,
        UpdateError::Changed { now } => stale(call, "edit", path, &now),
        UpdateError::File(error) => error.into(),
        UpdateError::Exists => ToolError::caller(format!("refusing to edit {path}: Read it first")),
        _ => call.workspace.read(path, &WindowSpec::default()).map_or_else(FileError::into, |_| {
            ToolError::caller(format!("{path} was just created; Read it first"))
        }),
    })?;
    call.session.ledgers.with(&call.workspace, |ledger| {
        ledger.record(path, written.version, Some(Arc::clone(&written.new)));
    });
    Ok(written)
}

/// Refuses a change to a file that is not what the session read, and shows what changed.
fn stale(call: &Call, verb: &str, path: &ContainedPath, now: &[u8]) -> ToolError {
    let changes = call.session.ledgers.with(&call.workspace, |ledger| ledger.stale(path, now));
    let changes = changes.map(|stale| stale.changes).unwrap_or_default();
    ToolError::with_hint(
        format!("refusing to {verb} {path}: it changed since you read it\n{}", changes.trim_end()),
        "Read it again, then repeat the change",
    )
}
