//! `snapshot_create`, `snapshot_list`, `snapshot_diff`, `snapshot_restore` and `snapshot_delete`.

use crate::{
    Call, Class, Facts, Group, Spec, Tool, ToolError, Touches, bound::head_and_tail, record::caller,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool},
    time::Duration,
};
use workspace::{Change, Finished, Retention, SnapshotError, Snapshots, WindowSpec, Workspace, quoted};

/// Lines of one file's difference that are shown.
const DIFF_LINES: usize = 500;
/// Bytes of all differences together.
const DIFF_BYTES: usize = 100 * 1024;
/// Restored files that are named.
const NAMED: usize = 200;
/// How long the snapshots of a workspace that is gone are kept after their last use.
const ABANDONED: Duration = Duration::from_secs(30 * 24 * 3600);

/// The snapshots of every workspace, opened when they are first asked for.
pub(crate) struct Stores {
    folder: PathBuf,
    retention: Retention,
    open: Mutex<BTreeMap<PathBuf, Arc<Archive>>>,
}

/// The snapshots of one workspace, and what keeps its history going.
pub(crate) struct Archive {
    pub(crate) snapshots: Snapshots,
    /// Somebody will soon make history of what was noted.
    pub(crate) flushing: AtomicBool,
    /// Why a call could not be recorded.
    pub(crate) lost: Mutex<Option<String>>,
}

impl Stores {
    pub(crate) fn new(settings: &config::Settings) -> Self {
        let retention = Retention { count: settings.undo.keep, age: settings.undo.age };
        Self { folder: settings.state_dir.join("snapshots"), retention, open: Mutex::default() }
    }

    /// A restore that was cut short is finished before anybody sees its half. What became of each, for the log.
    pub(crate) fn finish_restores<'w>(
        &self,
        workspaces: impl Iterator<Item = &'w Arc<Workspace>>,
    ) -> Vec<String> {
        let unfinished = workspaces.filter(|workspace| Snapshots::unfinished(&self.folder_of(workspace)));
        let finish = |workspace: &Arc<Workspace>| {
            let what = format!("a restore that was cut short in {}", workspace.root().display());
            match self.of(workspace).map(|archive| archive.snapshots.finished().cloned()) {
                Ok(Some(Finished::Done(before))) => {
                    Some(format!("{what} was finished; what was there is the snapshot {before}"))
                }
                Ok(Some(Finished::Lost(why))) => Some(format!(
                    "{what} cannot be finished: {why}; files are as it left them, and snapshot_list names what they \
                     can be put back to"
                )),
                Ok(None) => None,
                Err(error) => Some(format!("{what} cannot be finished: {error}")),
            }
        };
        unfinished.filter_map(finish).collect()
    }

    /// Forgets workspaces that are gone for good, in the background.
    pub(crate) fn remove_abandoned(&self) {
        let folder = self.folder.clone();
        let age = ABANDONED.max(self.retention.age);
        let work = move || match Snapshots::remove_abandoned(&folder, age) {
            Ok(0) => {}
            Ok(count) => tracing::info!("removed the snapshots of {count} workspace(s) that are gone"),
            Err(error) => tracing::warn!("cannot look for snapshots of workspaces that are gone: {error}"),
        };
        // Without the thread it is done at some later start.
        let _ = std::thread::Builder::new().name("clean-up".to_owned()).spawn(work);
    }

    fn folder_of(&self, workspace: &Workspace) -> PathBuf {
        self.folder.join(Snapshots::folder_name(workspace.root()))
    }

    /// The snapshots of a workspace, when somebody has opened them.
    pub(crate) fn opened(&self, workspace: &Workspace) -> Option<Arc<Archive>> {
        self.open.try_lock().ok()?.get(workspace.root()).cloned()
    }

    /// Waits until no store has anything left to do.
    pub(crate) async fn rest(&self) {
        let open: Vec<_> =
            self.open.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        let rest = move || open.iter().for_each(|archive| archive.snapshots.rest());
        let _ = tokio::task::spawn_blocking(rest).await;
    }

    pub(crate) fn of(&self, workspace: &Arc<Workspace>) -> Result<Arc<Archive>, ToolError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = open.get(workspace.root()) {
            return Ok(Arc::clone(found));
        }
        let snapshots = Snapshots::open(Arc::clone(workspace), &self.folder_of(workspace), self.retention)?;
        let opened =
            Arc::new(Archive { snapshots, flushing: AtomicBool::new(false), lost: Mutex::default() });
        open.insert(workspace.root().to_owned(), Arc::clone(&opened));
        Ok(opened)
    }
}

impl From<SnapshotError> for ToolError {
    fn from(error: SnapshotError) -> Self {
        match error {
            SnapshotError::Io { action, source } => {
                let damaged = matches!(source.kind(), io::ErrorKind::InvalidData | io::ErrorKind::NotFound);
                let hint = if damaged {
                    "part of the store is damaged or gone; newer snapshots are not concerned, and removing the store \
                     begins a new one"
                } else {
                    "check the disk's free space and permissions"
                };
                Self::with_hint(format!("{action}: {source}"), hint)
            }
            SnapshotError::Halfway { .. } => Self::with_hint(
                error.to_string(),
                "make room or mend what failed, then call again or go back to that snapshot",
            ),
            other => Self::caller(other.to_string()),
        }
    }
}

/// Work on the snapshots of a call's workspace.
pub(super) async fn on_snapshots<T: Send + 'static>(
    call: &Call,
    work: impl FnOnce(&Snapshots) -> Result<T, SnapshotError> + Send + 'static,
) -> Result<T, ToolError> {
    call.blocking(move |call| {
        let kept = call.host().snapshots.of(&call.workspace)?;
        Ok(work(&kept.snapshots)?)
    })
    .await
}

/// What tools of snapshots have in common.
const fn spec(name: &'static str, class: Class, description: &'static str) -> Spec {
    let writes = matches!(class, Class::Write);
    Spec {
        name,
        group: Group::State,
        class,
        description,
        destructive: writes,
        idempotent: !writes,
        open_world: false,
        long: false,
    }
}

/// A snapshot's name.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Name {
    name: String,
}

/// Takes a snapshot.
pub(crate) struct SnapshotCreate;

/// What `snapshot_create` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateArgs {
    name: String,
    #[serde(default)]
    description: Option<String>,
}

/// What `snapshot_create` made.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Created {
    name: String,
    id: String,
}

impl Tool for SnapshotCreate {
    const SPEC: Spec = spec(
        "snapshot_create",
        Class::Write,
        "Keep the workspace's files as they are now (not ignored ones), outside it and outside its repository.",
    );
    const TOUCHES: Touches = Touches::Nothing;
    type Args = CreateArgs;
    type Output = Facts<Created>;

    async fn run(&self, call: &Call, args: CreateArgs) -> Result<Facts<Created>, ToolError> {
        let CreateArgs { name, description } = args;
        let asked = name.clone();
        let (id, unreadable) = on_snapshots(call, move |snapshots| {
            let id = snapshots.create(&asked, &printable(description.as_deref().unwrap_or_default()))?;
            Ok((id, snapshots.unreadable()))
        })
        .await?;
        let mut text = format!("snapshot {name} created: {id}");
        if !unreadable.is_empty() {
            let names: Vec<_> = unreadable.iter().take(NAMED).map(|path| quoted(path)).collect();
            let _ = write!(text, "\nNOT in it, for it cannot be read: {}", names.join(", "));
            if let Some(more) = unreadable.len().checked_sub(NAMED).filter(|more| *more > 0) {
                let _ = write!(text, " [{more} more]");
            }
        }
        Ok(Facts { text, facts: Created { name, id } })
    }
}

/// A description without what git's format or a reader's terminal would take for something else.
fn printable(description: &str) -> String {
    description.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// Lists snapshots.
pub(crate) struct SnapshotList;

/// No arguments.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// One snapshot.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Kept {
    name: String,
    id: String,
    /// RFC 3339.
    taken: String,
    description: String,
}

/// What `snapshot_list` found, newest first.
#[derive(Serialize, JsonSchema)]
pub(crate) struct List {
    snapshots: Vec<Kept>,
}

impl Tool for SnapshotList {
    const SPEC: Spec = spec("snapshot_list", Class::Read, "Snapshots, newest first.");
    type Args = Nothing;
    type Output = Facts<List>;

    async fn run(&self, call: &Call, _: Nothing) -> Result<Facts<List>, ToolError> {
        let found = on_snapshots(call, Snapshots::list).await?;
        let snapshots: Vec<Kept> = found
            .into_iter()
            .map(|snapshot| Kept {
                taken: jiff::Timestamp::try_from(snapshot.taken).unwrap_or_default().to_string(),
                name: snapshot.name,
                id: snapshot.id,
                description: snapshot.description,
            })
            .collect();
        let line = |kept: &Kept| {
            let short = kept.id.get(..12).unwrap_or(&kept.id);
            format!("{}\t{short}\t{}\t{}", kept.name, kept.taken, kept.description.replace(['\n', '\t'], " "))
        };
        let text = if snapshots.is_empty() {
            "no snapshots".to_owned()
        } else {
            snapshots.iter().map(line).collect::<Vec<_>>().join("\n")
        };
        Ok(Facts { text, facts: List { snapshots } })
    }
}

/// Compares a snapshot with now.
pub(crate) struct SnapshotDiff;

/// What `snapshot_diff` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DiffArgs {
    name: String,
    /// only this file or folder
    #[serde(default)]
    path: Option<String>,
}

impl Tool for SnapshotDiff {
    const SPEC: Spec =
        spec("snapshot_diff", Class::Read, "What changed since a snapshot, as a unified diff.");
    type Args = DiffArgs;
    type Output = String;

    async fn run(&self, call: &Call, args: DiffArgs) -> Result<String, ToolError> {
        let path = match args.path.as_deref().filter(|path| !path.is_empty()) {
            Some(path) => Some(call.workspace.resolve_entry(path)?.relative().to_owned()),
            None => None,
        };
        let diff = on_snapshots(call, move |snapshots| {
            let below = path.as_deref().filter(|path| !path.as_os_str().is_empty());
            snapshots.diff(&args.name, below, DIFF_LINES)
        })
        .await?;
        if diff.is_empty() {
            return Ok("no differences".to_owned());
        }
        Ok(match head_and_tail(&diff, DIFF_BYTES) {
            Some(cut) => format!("{cut}\n[pass `path` to see one file or folder whole]"),
            None => diff,
        })
    }
}

/// Goes back to a snapshot.
pub(crate) struct SnapshotRestore;

/// What a restore did to one file.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Touched {
    path: String,
    change: &'static str,
}

/// What `snapshot_restore` did.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Restored {
    name: String,
    files: Vec<Touched>,
}

impl Tool for SnapshotRestore {
    const SPEC: Spec = spec(
        "snapshot_restore",
        Class::Write,
        "Put the workspace back to a snapshot: changed files are restored, files made since are deleted, ignored \
         ones stay.",
    );
    const TOUCHES: Touches = Touches::Nothing;
    type Args = Name;
    type Output = Facts<Restored>;

    async fn run(&self, call: &Call, args: Name) -> Result<Facts<Restored>, ToolError> {
        let who = caller(call, "snapshot_restore", &args.name);
        let restored = on_snapshots(call, move |snapshots| snapshots.restore(&args.name, &who)).await?;
        refresh(call, &restored.changes).await;
        let changed = restored.changes.iter().filter(|(change, _)| change.is_of_file()).count();
        let mut text = format!("restored snapshot {} ({changed} file(s) changed):", restored.name);
        let files = list_changes(&restored.changes, &mut text);
        if !restored.large.is_empty() {
            let names: Vec<_> = restored.large.iter().map(|path| quoted(path)).collect();
            let (names, before) = (names.join(", "), &restored.before);
            let _ = write!(
                text,
                "\nabove 64 MiB, so that not undo but snapshot_restore {before} brings back what was there: {names}"
            );
        }
        Ok(Facts { text, facts: Restored { name: restored.name, files } })
    }
}

/// Names what happened to each file, as far as there is room.
pub(super) fn list_changes(changes: &[(Change, PathBuf)], text: &mut String) -> Vec<Touched> {
    let touched = |(change, path): &(Change, PathBuf)| Touched {
        path: quoted(path).into_owned(),
        change: word(*change),
    };
    let files: Vec<Touched> = changes.iter().map(touched).collect();
    for file in files.iter().take(NAMED) {
        let _ = write!(text, "\n{} {}", file.change, file.path);
    }
    if files.len() > NAMED {
        let _ = write!(text, "\n[{} more]", files.len() - NAMED);
    }
    files
}

/// What the session has read is now what was put back: it may go on from there.
pub(super) async fn refresh(call: &Call, changes: &[(Change, PathBuf)]) {
    let read: Vec<(Change, PathBuf)> = call.session.ledgers.with(&call.workspace, |ledger| {
        let read = |change: &&(Change, PathBuf)| change.0.is_of_file() && ledger.has(&change.1);
        changes.iter().filter(read).cloned().collect()
    });
    if read.is_empty() {
        return;
    }
    let refreshed = call.blocking(move |call| {
        for (change, path) in read {
            let Ok(path) = call.workspace.resolve_entry(&path) else { continue };
            let ledgers = &call.session.ledgers;
            let read = call.workspace.read(&path, &WindowSpec { limit: 1, ..WindowSpec::default() });
            ledgers.with(&call.workspace, |ledger| match read {
                Ok(read) if change != Change::Deleted => ledger.record(&path, read.version, read.bytes),
                _ => ledger.forget(&path),
            });
        }
        Ok(())
    });
    // A file that cannot be read is a file that has to be read again: nothing is lost.
    let _ = refreshed.await;
}

fn word(change: Change) -> &'static str {
    match change {
        Change::Created => "created",
        Change::Changed => "changed",
        Change::Deleted => "deleted",
        Change::MadeFolder => "created folder",
        Change::RemovedFolder => "deleted folder",
        Change::KeptIgnored => "kept (ignored)",
        Change::KeptRepository => "kept (in a repository of its own)",
        Change::KeptUnknown => "kept (cannot be read, is above 64 MiB or has just come)",
        Change::KeptNewer => "kept (changed while this was under way)",
        Change::KeptGrowing => "kept (somebody adds to it, a log perhaps)",
        Change::KeptSpecial => "kept (a pipe, socket or device is in its place)",
    }
}

/// Forgets a snapshot.
pub(crate) struct SnapshotDelete;

impl Tool for SnapshotDelete {
    const SPEC: Spec =
        spec("snapshot_delete", Class::Write, "Forget a snapshot; the files stay as they are.");
    const TOUCHES: Touches = Touches::Nothing;
    type Args = Name;
    type Output = String;

    async fn run(&self, call: &Call, args: Name) -> Result<String, ToolError> {
        let text = format!("snapshot {} deleted", args.name);
        on_snapshots(call, move |snapshots| snapshots.delete(&args.name)).await?;
        Ok(text)
    }
}
