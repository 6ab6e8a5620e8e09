//! What one server process holds for all its sessions.

use crate::{
    Access, Catalog, HookTally, Runtime, Session, SessionGuard, ToolError, Toolset,
    call::Pace,
    code::{Indexes, lsp::Servers},
    endings::KILL_TIME,
    hooks::{Stage, Tallies},
    state::Stores,
    vault::Vault,
    verify::Looked,
};
use ::verify::Languages;
use config::{Limits, Settings};
use sandbox::Sandbox;
use scrub::Scrubber;
use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};
use tokio::{
    sync::{Semaphore, watch},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use workspace::{LiveOptions, Workspace};

/// Everything shared by the sessions of one process.
pub struct Host {
    /// How the process was started.
    pub settings: Settings,
    /// By name, sorted.
    pub workspaces: BTreeMap<String, Arc<Workspace>>,
    /// What the verify tools know, in detection order.
    pub languages: Languages,
    catalog: Catalog,
    tools: watch::Sender<Arc<Toolset>>,
    limits: RwLock<Limits>,
    pub(crate) vault: Vault,
    runtime: RwLock<Arc<Runtime>>,
    tallies: Arc<Tallies>,
    pub(crate) snapshots: Stores,
    remarks: Vec<String>,
    pub(crate) servers: Servers,
    /// Programs and variables of the places where commands run.
    pub(crate) looked: Looked,
    pub(crate) indexes: Indexes,
    pub(crate) slots: Arc<Semaphore>,
    pub(crate) pace: Arc<Pace>,
    /// Calls.
    pub(crate) running: TaskTracker,
    /// What goes on after the call that started it, until its session ends.
    pub(crate) background: TaskTracker,
    pub(crate) stop: CancellationToken,
}

impl Host {
    /// Opens the workspaces and registers the shipped tools.
    ///
    /// # Errors
    /// A workspace or a folder of secrets that cannot be opened, or a `--tools` entry that names nothing.
    pub fn new(settings: Settings, sandbox: Arc<dyn Sandbox>) -> anyhow::Result<Arc<Self>> {
        Self::with_catalog(settings, sandbox, Catalog::shipped())
    }

    /// The same with tools of the caller's choice.
    ///
    /// # Errors
    /// As [`Host::new`].
    pub fn with_catalog(
        settings: Settings,
        sandbox: Arc<dyn Sandbox>,
        catalog: Catalog,
    ) -> anyhow::Result<Arc<Self>> {
        Self::with_runtime(settings, Runtime::new(sandbox), catalog)
    }

    /// The same with sandboxes and hooks of the caller's choice.
    ///
    /// # Errors
    /// As [`Host::new`], or a pattern to scrub that is not a regular expression.
    pub fn with_runtime(settings: Settings, runtime: Runtime, catalog: Catalog) -> anyhow::Result<Arc<Self>> {
        Self::with_languages(settings, runtime, catalog, Languages::shipped())
    }

    /// The same with languages of the caller's choice.
    ///
    /// # Errors
    /// As [`Host::with_runtime`].
    pub fn with_languages(
        settings: Settings,
        runtime: Runtime,
        catalog: Catalog,
        languages: Languages,
    ) -> anyhow::Result<Arc<Self>> {
        let mut workspaces = BTreeMap::new();
        for named in &settings.workspaces {
            let workspace = Workspace::open(&named.name, &named.root)?.without(&settings.state_dir);
            let workspace = Arc::new(workspace);
            let budget = settings.limits.index_budget;
            workspace.go_live(LiveOptions { budget, ..LiveOptions::default() });
            workspaces.insert(named.name.clone(), workspace);
        }
        let snapshots = Stores::new(&settings);
        let mut remarks = snapshots.finish_restores(workspaces.values());
        snapshots.remove_abandoned();
        let runtime = runtime.with_denylist(settings.denylist.clone());
        let vault = Vault::new(&settings)?;
        remarks.extend_from_slice(vault.remarks());
        Ok(Arc::new(Self {
            languages,
            tools: watch::Sender::new(Arc::new(Toolset::new(&settings, catalog.clone())?)),
            catalog,
            limits: RwLock::new(settings.limits.clone()),
            tallies: Arc::default(),
            snapshots,
            remarks,
            servers: Servers::default(),
            looked: Looked::default(),
            indexes: Indexes::default(),
            slots: Arc::new(Semaphore::new(settings.limits.concurrent_calls)),
            vault,
            workspaces,
            runtime: RwLock::new(Arc::new(runtime)),
            settings,
            pace: Arc::default(),
            running: TaskTracker::new(),
            background: TaskTracker::new(),
            stop: CancellationToken::new(),
        }))
    }

    /// What an operator should know of the start: there is no log yet when it happens.
    #[must_use]
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// What takes secrets out of everything that leaves. Ask again for every text: secrets change.
    #[must_use]
    pub fn scrubber(&self) -> Arc<Scrubber> {
        self.vault.scrubber()
    }

    /// The same for a text that is whole and leaves now: it knows what was replaced this moment.
    #[must_use]
    pub fn scrubber_now(&self) -> Arc<Scrubber> {
        self.vault.scrubber_now()
    }

    /// Where commands run and which hooks look on, as of now.
    pub fn runtime(&self) -> Arc<Runtime> {
        Arc::clone(&self.runtime.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What agents may call, as of now.
    #[must_use]
    pub fn tools(&self) -> Arc<Toolset> {
        Arc::clone(&self.tools.borrow())
    }

    /// Tells whenever agents may call other tools than before.
    #[must_use]
    pub fn tools_changed(&self) -> watch::Receiver<Arc<Toolset>> {
        self.tools.subscribe()
    }

    /// The bounds, as of now.
    pub fn limits(&self) -> Limits {
        self.limits.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What each hook did since the start.
    #[must_use]
    pub fn hook_tallies(&self) -> BTreeMap<String, HookTally> {
        self.tallies.all()
    }

    /// Puts new settings in force as far as they can change while sessions go on: sandboxes, hooks, tools,
    /// denylist, patterns to scrub, limits. Gives back the runtime that was there; calls that run keep theirs.
    ///
    /// # Errors
    /// Something in them cannot be used; then nothing changes.
    pub fn reload(&self, settings: &Settings, runtime: Runtime) -> anyhow::Result<Arc<Runtime>> {
        let tools = Toolset::new(settings, self.catalog.clone())?;
        self.vault.replace_patterns(&settings.patterns)?;
        self.tools.send_if_modified(|current| {
            let changed = !current.same(&tools);
            if changed {
                *current = Arc::new(tools);
            }
            changed
        });
        let calls = settings.limits.concurrent_calls;
        let mut limits = self.limits.write().unwrap_or_else(PoisonError::into_inner);
        self.resize(limits.concurrent_calls, calls);
        *limits = settings.limits.clone();
        drop(limits);
        let runtime = Arc::new(runtime.with_denylist(settings.denylist.clone()));
        let mut current = self.runtime.write().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::replace(&mut current, runtime))
    }

    /// Calls beyond a lower limit go on; their places go as they end.
    fn resize(&self, from: usize, to: usize) {
        self.slots.add_permits(to.saturating_sub(from));
        let fewer = from.saturating_sub(to);
        let taken = fewer - self.slots.forget_permits(fewer);
        let slots = Arc::clone(&self.slots);
        if let (Ok(taken @ 1..), Ok(runtime)) = (u32::try_from(taken), tokio::runtime::Handle::try_current())
        {
            runtime.spawn(async move {
                if let Ok(permits) = slots.acquire_many_owned(taken).await {
                    permits.forget();
                }
            });
        }
    }

    /// Where hooks run for `session`.
    pub(crate) fn stage<'a>(&'a self, session: &'a Session) -> Stage<'a> {
        let (background, tallies) = (&self.background, &self.tallies);
        Stage { session, scrubber: self.scrubber(), background, tallies }
    }

    /// A new session of nobody in particular, held open by its guard.
    pub fn session(self: &Arc<Self>, id: impl Into<String>, access: Access) -> SessionGuard {
        self.session_of(id, access, None)
    }

    /// A new session of whoever has this name, held open by its guard.
    pub fn session_of(
        self: &Arc<Self>,
        id: impl Into<String>,
        access: Access,
        principal: Option<&str>,
    ) -> SessionGuard {
        // Where nothing may be changed, nobody may: some tools that only look would run code of the project.
        let access = if self.settings.readonly { Access::ReadOnly } else { access };
        let session = Session::new(id.into(), Arc::clone(self), access, principal);
        let readonly = access == Access::ReadOnly;
        let id = &session.id;
        tracing::debug!(target: "audit", event = "session_start", session = id, principal, readonly);
        SessionGuard(Arc::new(session))
    }

    /// Refuses new calls, lets running ones end within the configured grace, then cancels the rest. When it
    /// returns, nothing that a call started runs any more.
    pub async fn shut_down(&self) {
        self.slots.close();
        self.running.close();
        self.background.close();
        let grace = self.limits().grace;
        if timeout(grace, self.running.wait()).await.is_err() {
            tracing::info!("calls are still running after {grace:?}; cancelling them");
        }
        self.stop.cancel();
        // A call that does not heed its cancellation must not keep the process.
        let all = async { tokio::join!(self.running.wait(), self.background.wait()) };
        if timeout(grace.max(KILL_TIME), all).await.is_err() {
            tracing::warn!("some calls did not end when they were cancelled");
        }
        // A disk that does not answer must not keep it either.
        let _ = timeout(KILL_TIME, self.snapshots.rest()).await;
        self.runtime().close().await;
    }

    /// Whether no other call runs beside the one that asks.
    pub(crate) fn is_only_call(&self) -> bool {
        self.running.len() <= 1
    }

    /// The workspace a call means.
    pub(crate) fn workspace(&self, name: Option<&str>) -> Result<Arc<Workspace>, ToolError> {
        let names = || self.workspaces.keys().cloned().collect::<Vec<_>>().join(", ");
        match name {
            Some(name) => self.workspaces.get(name).cloned().ok_or_else(|| {
                ToolError::caller(format!("unknown workspace \"{name}\"; configured: {}", names()))
            }),
            None => match self.workspaces.values().next() {
                Some(only) if self.workspaces.len() == 1 => Ok(Arc::clone(only)),
                _ => Err(ToolError::caller(format!(
                    "multi-workspace sandbox: {} workspaces configured ({}) — pass `workspace` to pick one",
                    self.workspaces.len(),
                    names()
                ))),
            },
        }
    }
}
