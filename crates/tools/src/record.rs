//! What calls change, kept so that it can be undone.

use crate::{Call, Host, state::Archive, tool::Spec};
use serde_json::{Map, Value};
use std::{
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::Duration,
};
use tokio::{runtime::Handle, task::AbortHandle};
use workspace::{Caller, ContainedPath, Noted, Recording, SnapshotError};

/// How long edits wait for further ones before they become history together.
const TOGETHER: Duration = Duration::from_millis(500);
/// How often the history is told that a call still runs.
const BEAT: Duration = Duration::from_secs(1);
/// How much of what a call was asked to do is remembered.
const SUMMARY: usize = 120;

/// What a tool does to files, as far as undo is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touches {
    /// Possibly any file: everything is kept before it runs, and what differs afterwards is its doing.
    Anything,
    /// Files it names itself, with what they held.
    Noted,
    /// None, or it keeps the history itself.
    Nothing,
}

/// A call whose doings are recorded, held by the call and by what it left running. When the last of them is
/// gone, what changed becomes a step of the history.
pub(crate) struct Record {
    kept: Arc<Archive>,
    recording: Option<Recording>,
    host: Arc<Host>,
    /// Says that it runs, as long as somebody waits for it.
    beats: Option<AbortHandle>,
}

impl Record {
    /// Keeps everything as it is before a call runs. A call that cannot be recorded runs all the same: an agent
    /// without undo is better off than one without hands.
    pub(crate) async fn begin(call: &Call, spec: &Spec, args: &Map<String, Value>) -> Option<Arc<Self>> {
        if !call.host().settings.undo.enabled {
            return None;
        }
        let caller = caller(call, spec.name, &summary(args));
        // Mostly nothing changed since the last look: waking a thread and being woken by it takes longer.
        let host = call.host();
        if let Some(kept) = host.snapshots.opened(&call.workspace)
            && let Some(recording) = kept.snapshots.begin_at_once(&caller)
        {
            return Some(Arc::new(Self::new(kept, recording, Arc::clone(host))));
        }
        let begun = call.blocking(move |call| {
            let kept = call.host().snapshots.of(&call.workspace)?;
            let recording = kept.remember(kept.snapshots.begin(&caller));
            let host = Arc::clone(call.host());
            // Made here, so that a call which is given up at this moment ends its recording too.
            Ok(recording.map(|recording| Arc::new(Self::new(kept, recording, host))))
        });
        begun.await.unwrap_or_else(|error| {
            tracing::warn!("a call cannot be undone: {error}");
            None
        })
    }

    fn new(kept: Arc<Archive>, recording: Recording, host: Arc<Host>) -> Self {
        let beaten = Arc::clone(&kept);
        let beats = async move {
            loop {
                tokio::time::sleep(BEAT).await;
                // Without it, an undo after a kill asks rather than takes back.
                let _ = beaten.snapshots.beat();
            }
        };
        let beats = Handle::try_current().ok().map(|runtime| runtime.spawn(beats).abort_handle());
        Self { kept, recording: Some(recording), host, beats }
    }

    /// The call was answered. What it left running holds the record too.
    pub(crate) fn answered(self: Arc<Self>) {
        self.beats.iter().for_each(AbortHandle::abort);
        if Arc::strong_count(&self) > 1 {
            let host = Arc::clone(&self.host);
            aside(&host, move || {
                if let Some(recording) = &self.recording {
                    self.kept.remember(self.kept.snapshots.go_on(recording));
                }
            });
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.beats.iter().for_each(AbortHandle::abort);
        let Some(recording) = self.recording.take() else { return };
        // Before the reply: the next call may change something before this one's doings are looked at.
        recording.over();
        let (kept, host) = (Arc::clone(&self.kept), Arc::clone(&self.host));
        let Ok(runtime) = Handle::try_current() else {
            kept.remember(kept.snapshots.finish(&recording));
            return;
        };
        let later = async move {
            // The reply goes first.
            tokio::task::yield_now().await;
            if !kept.snapshots.finish_at_once(&recording) {
                aside(&host, move || {
                    kept.remember(kept.snapshots.finish(&recording));
                });
            }
        };
        drop(self.host.background.spawn_on(later, &runtime));
    }
}

/// Does something after the reply, and before the process ends.
fn aside(host: &Host, work: impl FnOnce() + Send + 'static) {
    match Handle::try_current() {
        Ok(runtime) => drop(host.background.spawn_blocking_on(work, &runtime)),
        Err(_) => work(),
    }
}

/// A file that a call is about to change, on its way into the history.
pub(crate) struct FileNote {
    kept: Arc<Archive>,
    noted: Noted,
}

impl Call {
    /// Notes what a file holds before this call changes it. Costs next to nothing: nobody waits for the disk.
    pub(crate) fn note(&self, tool: &str, path: &ContainedPath, before: Option<&[u8]>) -> Option<FileNote> {
        if !self.host().settings.undo.enabled {
            return None;
        }
        let caller = caller(self, tool, &path.to_string());
        let kept = self.host().snapshots.of(&self.workspace).ok()?;
        let noted = kept.remember(kept.snapshots.note(&caller, path, before))?;
        Some(FileNote { kept, noted })
    }

    /// This call, of which everything is recorded, changed a file. Of one that is ignored only that is kept.
    pub(crate) fn changed(&self, path: &ContainedPath) {
        let recording = self.record.as_ref().and_then(|record| record.recording.as_ref());
        if let Some(recording) = recording.filter(|_| self.workspace.leaves_out(path.relative())) {
            recording.left_out(path);
        }
    }

    /// The change was made, with this result, or was not made.
    pub(crate) fn noted(&self, note: Option<FileNote>, after: Option<Arc<[u8]>>) {
        let Some(FileNote { kept, noted }) = note else { return };
        kept.snapshots.noted(&noted, after);
        if kept.flushing.swap(true, Ordering::Relaxed) {
            return;
        }
        let host = Arc::clone(self.host());
        let later = async move {
            tokio::select! {
                () = tokio::time::sleep(TOGETHER) => {}
                () = host.stop.cancelled() => {}
            }
            kept.flushing.store(false, Ordering::Relaxed);
            aside(&host, move || {
                kept.remember(kept.snapshots.flush());
            });
        };
        if let Ok(runtime) = Handle::try_current() {
            drop(self.host().background.spawn_on(later, &runtime));
        }
    }
}

impl Archive {
    /// Passes on what worked; what did not is told by the next undo.
    fn remember<T>(&self, done: Result<T, SnapshotError>) -> Option<T> {
        match done {
            Ok(value) => Some(value),
            Err(error) => {
                tracing::warn!("a call cannot be undone: {error}");
                *lock(&self.lost) = Some(error.to_string());
                None
            }
        }
    }

    /// Why some call is missing in the history.
    pub(crate) fn lost(&self) -> Option<String> {
        lock(&self.lost).clone()
    }

    /// The same, told for the last time.
    pub(crate) fn tell_lost(&self) -> Option<String> {
        lock(&self.lost).take()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Who this call is, without its secrets.
pub(crate) fn caller(call: &Call, tool: &str, summary: &str) -> Caller {
    let clean = call.host().scrubber().scrub(summary).into_owned();
    Caller { session: call.session.id.clone(), tool: tool.to_owned(), summary: clean }
}

/// What a call was asked to do, in a line.
fn summary(args: &Map<String, Value>) -> String {
    let text = ["command", "script", "file_path", "path", "output_path", "name"]
        .iter()
        .find_map(|key| args.get(*key).and_then(Value::as_str))
        .unwrap_or_default();
    let line = text.trim().lines().next().unwrap_or_default();
    let short = &line[..line.floor_char_boundary(SUMMARY)];
    if short.len() < text.trim().len() { format!("{short}…") } else { short.to_owned() }
}
