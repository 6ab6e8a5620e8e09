//! Files outside the workspace that a language server named (the standard library, dependencies): readable where the
//! server runs, with what its sandbox lets one read, and never writable.

use super::read::MAX_BYTES;
use crate::{Call, Reply, ToolError};
use sandbox::{Request, Sandbox};
use std::{
    collections::HashMap,
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use workspace::WindowSpec;

/// Files that a session may read at a time: the last that were named.
const MOST: usize = 1024;
/// How long a look outside may take.
const LOOK: Duration = Duration::from_secs(5);

/// What was named to a session, by how it was named.
#[derive(Default)]
pub(crate) struct Foreign(Mutex<HashMap<String, Place>>);

/// Where a file is.
#[derive(Clone)]
struct Place {
    sandbox: Arc<dyn Sandbox>,
    path: PathBuf,
}

impl Foreign {
    /// From now on the client may read a file that it knows by this name.
    pub(crate) fn name(&self, name: &str, sandbox: &Arc<dyn Sandbox>, path: &Path) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST && !all.contains_key(name) {
            all.clear();
        }
        let place = || Place { sandbox: Arc::clone(sandbox), path: path.to_owned() };
        all.entry(name.to_owned()).or_insert_with(place);
    }

    fn place(&self, name: &str) -> Option<Place> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }
}

/// Lines of a text file somewhere else, from `first` to `last`, cut off where a reply ends; or why there are none.
pub(crate) async fn lines(
    sandbox: &dyn Sandbox,
    path: &Path,
    (first, last): (u64, u64),
) -> Result<String, String> {
    let script = format!("{first},{last}p;{last}q");
    let mut request = Request::new("sed").args(["-n", &script, "--", &path.to_string_lossy()]);
    request.timeout = LOOK;
    request.capture_limit = Some(MAX_BYTES);
    let response = sandbox.spawn(request).await;
    match response.outcome.success() {
        true => Ok(String::from_utf8_lossy(&response.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&response.stderr).trim().to_owned()),
    }
}

/// Reads a file that was named; `None` when it was not.
pub(super) async fn read(call: &Call, name: &str, spec: &WindowSpec) -> Option<Result<Reply, ToolError>> {
    let Place { sandbox, path } = call.session.foreign.place(name)?;
    let WindowSpec { offset, limit, max_line, .. } = *spec;
    // One more than is shown tells whether there are more.
    let last = offset.saturating_add(limit);
    let text = match lines(&*sandbox, &path, (offset, last)).await {
        Ok(text) => text,
        Err(why) => return Some(Err(ToolError::caller(format!("cannot read {name}: {why}")))),
    };
    if text.is_empty() {
        return Some(Err(ToolError::caller(format!("{name} has no line {offset}"))));
    }
    if text.contains('\0') {
        return Some(Err(ToolError::caller(format!("{name} is not text"))));
    }
    let mut shown = format!("[{name}: outside the workspace, read-only]\n");
    let mut next = offset;
    let (mut all, budget) = (text.lines().peekable(), MAX_BYTES);
    while let Some(line) = all.next_if(|_| next < last && shown.len() < budget) {
        let end = line.floor_char_boundary(max_line);
        let cut = if end < line.len() { "…" } else { "" };
        let _ = writeln!(shown, "{next}\t{}{cut}", &line[..end]);
        next += 1;
    }
    if all.peek().is_some() {
        let _ = writeln!(shown, "[lines {offset}-{}; offset={next} reads on]", next - 1);
    }
    Some(Ok(Reply::text(shown)))
}
