//! The servers of this process: one for each project and language, shared by all sessions.

use super::{
    running::{Running, attend, start},
    trouble::Trouble,
};
use crate::{Call, ToolError};
use ::verify::Detector;
use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::watch;

/// Which server: where, and for what.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) workspace: String,
    /// The project's folder below the workspace's root; empty for the root itself.
    pub(crate) root: String,
    pub(crate) language: &'static str,
    /// For sessions that only read: it can change nothing, whatever code of the project it runs.
    pub(crate) read_only: bool,
}

impl Key {
    /// The server of a file: that of the nearest project of its language, or of the one that gathers it.
    pub(crate) fn of(call: &Call, detector: &dyn Detector, file: &Path) -> Self {
        let workspace = &call.workspace;
        let near =
            |folder: &&Path| detector.markers().iter().any(|name| workspace.is_file(folder.join(name)));
        let folders = || file.ancestors().skip(1);
        let nearest = folders().find(near);
        let gathers = |folder: &&Path| {
            let below =
                nearest.and_then(|nearest| nearest.strip_prefix(folder).ok()).unwrap_or(Path::new(""));
            detector.gatherers().iter().any(|(name, text)| {
                let file = folder.join(name);
                // Most folders have none: opening what may not be there is the cheapest look.
                match text.is_empty() {
                    true => workspace.is_file(&file),
                    false => workspace.bytes_of(&file, 1 << 20).is_some_and(|bytes| {
                        let all = String::from_utf8_lossy(&bytes);
                        all.contains(text) && detector.gathers(&all, below)
                    }),
                }
            })
        };
        let root = folders().find(gathers).or(nearest).unwrap_or(Path::new(""));
        Self {
            workspace: workspace.name().to_owned(),
            root: root.to_string_lossy().into_owned(),
            language: detector.language(),
            read_only: call.read_only(),
        }
    }
}

/// How a start stands.
#[derive(Clone)]
pub(super) enum Launch {
    Starting,
    Up(Arc<Running>),
    Failed { message: String, hint: Option<String> },
}

/// All of them.
#[derive(Default)]
pub(crate) struct Servers(Mutex<HashMap<Key, watch::Receiver<Launch>>>);

impl Servers {
    /// A server that has loaded its project, if there is one. Never starts any.
    pub(crate) fn warm(&self, key: &Key) -> Option<Arc<Running>> {
        let slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*slots.get(key)?.borrow() {
            Launch::Up(running) if running.usable() && running.prompt() && running.client.settled() => {
                Some(Arc::clone(running))
            }
            _ => None,
        }
    }

    /// Those that are up, sorted.
    pub(crate) fn all(&self) -> Vec<Arc<Running>> {
        let slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let up = |slot: &watch::Receiver<Launch>| match &*slot.borrow() {
            Launch::Up(running) if running.usable() => Some(Arc::clone(running)),
            _ => None,
        };
        let mut all: Vec<Arc<Running>> = slots.values().filter_map(up).collect();
        all.sort_by(|a, b| a.key.cmp(&b.key));
        all
    }

    /// The server for `key`, started when there is none. A start goes on when its caller does not wait for it.
    pub(super) async fn get(
        call: &Call,
        tool: &'static str,
        key: &Key,
        detector: &'static dyn Detector,
    ) -> Result<Arc<Running>, Trouble> {
        let mut slot = {
            let mut slots = call.host().servers.0.lock().unwrap_or_else(PoisonError::into_inner);
            // One that others have started runs anyway, and answers those who only read as well.
            let shared = Key { read_only: false, ..key.clone() };
            let up = |slot: &watch::Receiver<Launch>| matches!(&*slot.borrow(), Launch::Up(running) if running.usable() && running.lives_in(call));
            let key = if slots.get(&shared).is_some_and(up) { &shared } else { key };
            let good = |slot: &&watch::Receiver<Launch>| match &*slot.borrow() {
                Launch::Starting => slot.has_changed().is_ok(),
                Launch::Up(running) => running.usable() && running.lives_in(call),
                Launch::Failed { .. } => false,
            };
            match slots.get(key).filter(good) {
                Some(slot) => slot.clone(),
                None => {
                    let (tell, slot) = watch::channel(Launch::Starting);
                    if let Some(old) = slots.insert(key.clone(), slot.clone())
                        && let Launch::Up(old) = &*old.borrow()
                    {
                        old.end("it was replaced");
                    }
                    let starting = launch(call.clone(), tool, key.clone(), detector, tell);
                    call.host().background.spawn(starting);
                    slot
                }
            }
        };
        let up = slot.wait_for(|launch| !matches!(launch, Launch::Starting)).await;
        match up.as_deref() {
            Ok(Launch::Up(running)) => Ok(Arc::clone(running)),
            Ok(Launch::Failed { message, hint: Some(hint) }) => {
                Err(ToolError::with_hint(message.clone(), hint.clone()).into())
            }
            Ok(Launch::Failed { message, hint: None }) => Err(ToolError::caller(message.clone()).into()),
            _ => Err(ToolError::Cancelled.into()),
        }
    }
}

async fn launch(
    call: Call,
    tool: &'static str,
    key: Key,
    detector: &'static dyn Detector,
    tell: watch::Sender<Launch>,
) {
    let stop = call.host().stop.clone();
    let limits = call.host().settings.limits.clone();
    let started = tokio::select! {
        () = stop.cancelled() => return,
        started = start(&call, tool, key, detector) => started,
    };
    // The session that was first must not be held for as long as the server runs.
    drop(call);
    match started {
        Err(error) => {
            let (message, hint) = match error {
                ToolError::Caller { message, hint } => (message, hint),
                other => (other.to_string(), None),
            };
            let _ = tell.send(Launch::Failed { message, hint });
        }
        Ok(running) => {
            let _ = tell.send(Launch::Up(Arc::clone(&running)));
            drop(tell);
            attend(&running, &stop, &limits).await;
        }
    }
}
