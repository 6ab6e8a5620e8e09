//! Mode `isolated`: a local process under the strongest isolation this host offers, without a container engine
//! and without root.
//!
//! The default profile lets real work succeed: the workspace, temporary folders and package caches are writable,
//! the rest of the disk is read-only, credential stores are hidden, secret-looking variables are not passed on,
//! hooks and configuration of git are frozen. Which [`Tier`] is in force is found out by trying the whole set-up,
//! and what it holds is in [`GUARANTEES`]; a required guarantee that the host cannot give is an error.

mod confine;
mod denial;
mod filter;
mod folder;
mod git;
mod guarantee;
mod index;
mod lists;
mod mounts;
mod narrow;
mod places;
pub(crate) mod plan;
mod profile;
mod restore;
mod rules;
mod secrets;
mod session;
mod settings;
pub(crate) mod zygote;

pub use guarantee::{GUARANTEES, Guarantee, Holds, Kernel};
pub use plan::{Caps, Network, Tier};
pub use secrets::without_secrets;
pub use settings::KEYS;

use crate::{
    Closer, Factory, FactoryError, Narrowing, Outcome, Process, Request, Response, Sandbox, StartRequest,
    StreamingSandbox, Variables, cgroup, env::Environment, host_variables, local::DEFAULT_TIMEOUT,
};
use futures_util::future::BoxFuture;
use narrow::Narrowed;
use places::{Placeholder, Temporary};
use profile::Profile;
use restore::Baseline;
use serde_json::{Map, Value};
use session::Session;
use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The name of the mode.
pub const MODE: &str = "isolated";

/// How long a plan is trusted before the host is looked at again for new hidden places and repositories.
const TRUSTED: Duration = Duration::from_secs(2);

/// How long a close waits for those who still hold something.
const LAST_ONES: Duration = Duration::from_secs(5);

/// What every command may have that no configuration says otherwise about.
const DEFAULT_PIDS: u64 = 4096;

/// An isolated sandbox in the making.
///
/// ```
/// use sandbox::{Request, Sandbox as _, isolated::{Isolated, Network}};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # if sandbox::isolated::probe().tier != Some(sandbox::isolated::Tier::Namespaces) { return }
/// let workspace = std::env::temp_dir().join("isolated-example");
/// std::fs::create_dir_all(&workspace).unwrap();
/// let locked = Isolated::builder("locked").workspace(&workspace).network(Network::None).build().unwrap();
/// let response = locked.spawn(Request::new("sh").args(["-c", "echo inside > file; touch /usr/x"])).await;
/// assert!(workspace.join("file").exists());
/// assert!(!response.outcome.success());
/// assert!(response.notes.iter().any(|note| note.contains("/usr/x is read-only inside")), "{response:?}");
/// # });
/// ```
#[derive(Clone)]
pub struct Builder {
    name: String,
    pub(crate) profile: Profile,
    pub(crate) allowed: Vec<String>,
    pub(crate) required: Vec<&'static Guarantee>,
    tier: Option<Tier>,
    timeout: Duration,
}

impl Builder {
    /// Under another name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Adds a workspace: a writable folder. Commands run in the first one.
    #[must_use]
    pub fn workspace(mut self, path: impl Into<PathBuf>) -> Self {
        self.profile.workspaces.push(path.into());
        self
    }

    /// Makes a hidden path readable.
    #[must_use]
    pub fn read(mut self, path: impl Into<PathBuf>) -> Self {
        self.profile.read.push(path.into());
        self
    }

    /// Hides a further path, and what links directly in it lead to.
    #[must_use]
    pub fn hide(mut self, path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        self.profile.hide.push(std::path::absolute(&path).unwrap_or(path));
        self
    }

    /// Makes a further path writable.
    #[must_use]
    pub fn write(mut self, path: impl Into<PathBuf>) -> Self {
        self.profile.write.push(path.into());
        self
    }

    /// What commands see of the network; the host's unless changed.
    #[must_use]
    pub fn network(mut self, network: Network) -> Self {
        self.profile.network = network;
        self
    }

    /// What one command may use.
    #[must_use]
    pub fn caps(mut self, caps: Caps) -> Self {
        self.profile.caps = caps;
        self
    }

    /// Passes a variable on though its name or value looks like a secret.
    #[must_use]
    pub fn allow_variable(mut self, name: impl Into<String>) -> Self {
        self.allowed.push(name.into());
        self
    }

    /// Fails the build when the host cannot hold this guarantee.
    #[must_use]
    pub fn require(mut self, guarantee: &'static Guarantee) -> Self {
        self.required.push(guarantee);
        self
    }

    /// Uses this tier and no other.
    #[must_use]
    pub fn tier(mut self, tier: Tier) -> Self {
        self.tier = Some(tier);
        self
    }

    /// Takes the home folder and the baseline of the environment from these variables instead of this process's.
    #[must_use]
    pub fn variables(mut self, variables: Variables) -> Self {
        self.profile.home = home(&variables);
        self.profile.variables = variables;
        self
    }

    /// How long a request may take that does not say; 10 seconds unless changed.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Finds the strongest tier that works and puts it in force.
    ///
    /// # Errors
    /// No tier works, or none that holds what is required; the error says why and what to do.
    pub fn build(self) -> Result<Isolated, FactoryError> {
        self.check_workspaces()?;
        let tmp = Arc::new(Temporary::new().map_err(unusable)?);
        let placeholders = Placeholder::put(&self.profile.checkouts());
        self.profile.make_caches();
        let (session, refused) = self.strongest(&tmp)?;
        let tier = session.plan.tier;
        self.check_read_only(tier)?;
        for guarantee in &self.required {
            guarantee.check(tier, Kernel::running()).map_err(|why| {
                let because =
                    refused.first().map_or_else(String::new, |(t, e)| format!(" ({t} is refused: {e})"));
                FactoryError::Unavailable(format!(
                    "require: this host cannot hold \"{}\": {why}; in force would be {tier}{because}; {}",
                    guarantee.name,
                    guarantee.way_out(tier)
                ))
            })?;
        }
        let template = self.clone();
        let (mut baseline, left_out) = without_secrets(&self.profile.variables, &self.allowed);
        baseline.remove(OsStr::new("TMPDIR"));
        if tier == Tier::Landlock && !session.plan.shared.iter().any(|place| place == Path::new("/tmp")) {
            // Something in /tmp is hidden, so that nothing new can be made in it.
            baseline.insert("TMPDIR".into(), tmp.path().into());
        }
        let environment = Environment { baseline, host: self.profile.variables.clone() };
        let shared = Shared {
            environment,
            cwd: self.profile.workspaces.first().cloned(),
            timeout: self.timeout,
            profile: Arc::new(self.profile),
            baseline: Arc::default(),
        };
        let held = Held { force: shared.put_in_force(session), tmp, placeholders };
        let state = State { held: Some(held), checked: Instant::now() };
        let (state, narrowed) = (Mutex::new(state), Narrowed::default());
        Ok(Isolated { name: self.name, tier, left_out, shared, state, template, narrowed })
    }

    /// What this host allows for these workspaces, found out by running the whole set-up on `true`.
    #[must_use]
    pub fn probe(&self) -> Probe {
        let kernel = Kernel::running();
        let found = self.check_workspaces().and_then(|()| {
            let tmp = Arc::new(Temporary::new().map_err(unusable)?);
            self.strongest(&tmp)
        });
        match found {
            Ok((session, refused)) => Probe {
                tier: Some(session.plan.tier),
                refused,
                kernel,
                control_groups: session.grouped,
                caps: self.profile.caps,
            },
            Err(error) => Probe {
                tier: None,
                refused: vec![(Tier::Landlock, error.to_string())],
                kernel,
                control_groups: false,
                caps: Caps::default(),
            },
        }
    }

    /// The first of the workspaces that is not there, which is no reason to go without isolation.
    #[must_use]
    pub fn missing_workspace(&self) -> Option<&Path> {
        let there = |workspace: &&PathBuf| !workspace.is_dir();
        self.profile.workspaces.iter().find(there).map(PathBuf::as_path)
    }

    fn check_workspaces(&self) -> Result<(), FactoryError> {
        for workspace in &self.profile.workspaces {
            let path = std::fs::canonicalize(workspace).map_err(|error| {
                FactoryError::Unavailable(format!("isolated: workspace {}: {error}", workspace.display()))
            })?;
            if path.parent().is_none() || !path.is_dir() {
                return Err(FactoryError::Unavailable(format!(
                    "isolated: workspace {} cannot be fenced in; name a folder below /",
                    path.display()
                )));
            }
        }
        Ok(())
    }

    /// The strongest session that works, and why the stronger ones do not.
    fn strongest(&self, tmp: &Arc<Temporary>) -> Result<(Session, Vec<(Tier, String)>), FactoryError> {
        let mut refused = Vec::new();
        for tier in [Tier::Namespaces, Tier::Landlock] {
            if self.tier.is_some_and(|only| only != tier) {
                continue;
            }
            let opened = usable(tier, self.profile.network)
                .and_then(|()| self.profile.resolve(tier, tmp.path()).map_err(|e| e.to_string()))
                .and_then(|plan| Session::open(plan, tmp, None).map_err(|e| e.to_string()));
            match opened {
                Ok(session) => return Ok((session, refused)),
                Err(why) => refused.push((tier, why)),
            }
        }
        let reasons: Vec<String> = refused.iter().map(|(tier, why)| format!("{tier}: {why}")).collect();
        Err(FactoryError::Unavailable(format!(
            "isolated: this host allows none of the ways to isolate a command ({}); \
             use mode direct, or a container",
            reasons.join("; ")
        )))
    }
}

fn unusable(error: std::io::Error) -> FactoryError {
    FactoryError::Unavailable(format!("isolated: {error}"))
}

fn home(variables: &Variables) -> Option<PathBuf> {
    let home = PathBuf::from(variables.get(OsStr::new("HOME"))?);
    std::fs::canonicalize(home).ok().filter(|home| home.parent().is_some())
}

fn usable(tier: Tier, network: Network) -> Result<(), String> {
    if tier != Tier::Landlock {
        return Ok(());
    }
    if network != Network::Host {
        return Err(format!("`network: {}` needs a network namespace", network.name()));
    }
    if Kernel::running().landlock == 0 { Err("this kernel has no Landlock".to_owned()) } else { Ok(()) }
}

/// Three quarters of the machine's memory.
fn default_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kib: u64 =
        text.lines().find_map(|l| l.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse().ok())?;
    Some(kib * 1024 / 4 * 3)
}

/// What stays the same when a sandbox is set up anew.
struct Shared {
    profile: Arc<Profile>,
    baseline: Arc<Baseline>,
    environment: Environment,
    cwd: Option<PathBuf>,
    timeout: Duration,
}

struct State {
    /// `None` after `close`.
    held: Option<Held>,
    checked: Instant,
}

/// What a sandbox holds of the host until it is closed.
struct Held {
    force: Arc<session::Force>,
    /// Calls that run keep it, too.
    tmp: Arc<Temporary>,
    placeholders: Vec<Placeholder>,
}

impl Shared {
    fn put_in_force(&self, session: Session) -> Arc<session::Force> {
        Arc::new(session::Force::new(
            session,
            self.profile.clone(),
            self.baseline.clone(),
            self.environment.clone(),
            self.cwd.clone(),
            self.timeout,
        ))
    }
}

/// A local process, isolated.
pub struct Isolated {
    name: String,
    tier: Tier,
    left_out: Vec<String>,
    shared: Shared,
    state: Mutex<State>,
    /// What it was built from, for narrower ones.
    template: Builder,
    narrowed: Narrowed,
}

impl Isolated {
    /// A sandbox for the given workspaces, with the default profile.
    #[must_use]
    pub fn builder(name: impl Into<String>) -> Builder {
        let variables = host_variables();
        let caps = Caps { memory: default_memory(), pids: Some(DEFAULT_PIDS), ..Caps::default() };
        let profile = Profile { home: home(&variables), variables, caps, ..Profile::default() };
        Builder {
            name: name.into(),
            profile,
            allowed: Vec::new(),
            required: Vec::new(),
            tier: None,
            timeout: DEFAULT_TIMEOUT,
        }
    }

    /// Whether it was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).held.is_none()
    }

    /// The tier in force.
    #[must_use]
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// One line on what is in force, as in the notes of every response.
    #[must_use]
    pub fn summary(&self) -> String {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.held.as_ref().map_or_else(|| "closed".to_owned(), |held| held.force.summary().to_owned())
    }

    /// Variables of the host that look like secrets and are not passed on.
    #[must_use]
    pub fn left_out_variables(&self) -> &[String] {
        &self.left_out
    }

    /// The session in force; a new one when the host has changed in what the plan depends on, or when its
    /// zygote was killed. Calls that run go on in theirs.
    fn force(&self) -> Result<Arc<session::Force>, Outcome> {
        let mut guard = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *guard;
        let Some(held) = &mut state.held else {
            return Err(Outcome::Refused { why: format!("sandbox \"{}\" is closed", self.name) });
        };
        let alive = held.force.alive();
        if alive && state.checked.elapsed() < TRUSTED {
            return Ok(held.force.clone());
        }
        let broken = |error: std::io::Error| Outcome::Transport {
            why: format!("isolation cannot be renewed: {error}"),
        };
        let profile = &self.shared.profile;
        profile.make_caches();
        let plan = profile.resolve(self.tier, held.tmp.path()).map_err(broken)?;
        state.checked = Instant::now();
        if alive && plan == *held.force.plan() {
            return Ok(held.force.clone());
        }
        // Repositories and worktrees that are new have places to occupy, too. Taken before the old ones go, so that
        // what both hold stays.
        held.placeholders = Placeholder::put(&profile.checkouts());
        let plan = profile.resolve(self.tier, held.tmp.path()).map_err(broken)?;
        let session = Session::open(plan, &held.tmp, Some(&held.force)).map_err(broken)?;
        held.force = self.shared.put_in_force(session);
        Ok(held.force.clone())
    }
}

impl Sandbox for Isolated {
    fn name(&self) -> &str {
        &self.name
    }

    fn spawn(&self, request: Request) -> BoxFuture<'_, Response> {
        Box::pin(async {
            match self.force() {
                Ok(force) => force.local().spawn(request).await,
                Err(outcome) => Response::nothing(outcome),
            }
        })
    }

    fn streaming(&self) -> Option<&dyn StreamingSandbox> {
        Some(self)
    }

    fn closer(&self) -> Option<&dyn Closer> {
        Some(self)
    }

    fn narrowed(self: Arc<Self>, to: &Narrowing) -> Option<Arc<dyn Sandbox>> {
        self.narrow(to)
    }
}

impl StreamingSandbox for Isolated {
    fn start(&self, request: StartRequest) -> BoxFuture<'_, Result<Process, Outcome>> {
        Box::pin(async { self.force()?.local().start(request).await })
    }
}

impl Closer for Isolated {
    fn close(&self) -> BoxFuture<'_, Result<(), String>> {
        let held = self.state.lock().unwrap_or_else(PoisonError::into_inner).held.take();
        Box::pin(async {
            for (_, narrowed) in self.narrowed.take() {
                narrowed.close().await?;
            }
            let Some(Held { force, tmp, placeholders }) = held else { return Ok(()) };
            let left = Arc::downgrade(&tmp);
            drop((force, tmp, placeholders));
            // The last call lets go of it a moment after its end was told, and supervisors leave their control groups
            // when they notice that they are alone. A process that ends now would leave both behind.
            let until = Instant::now() + LAST_ONES;
            while (left.strong_count() > 0 || !cgroup::sweep()) && Instant::now() < until {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Ok(())
        })
    }
}

/// Builds [`Isolated`] sandboxes for these workspaces; the first is where commands run.
///
/// The factory in the process-wide registry isolates the current directory; a server puts its own in its place:
///
/// ```
/// use sandbox::isolated::{self, Isolated};
///
/// let template = Isolated::builder("").workspace(std::env::temp_dir());
/// sandbox::replace_factory(isolated::MODE, isolated::factory(template)).unwrap();
/// ```
#[must_use]
pub fn factory(template: Builder) -> Arc<dyn Factory> {
    Arc::new(move |name: &str, config: &Map<String, Value>| -> Result<Arc<dyn Sandbox>, FactoryError> {
        Ok(Arc::new(template.clone().named(name).configure(config)?.build()?))
    })
}

/// [`factory`] for the directory that is current when a sandbox is built.
pub(crate) fn factory_for_current_directory() -> Arc<dyn Factory> {
    Arc::new(|name: &str, config: &Map<String, Value>| -> Result<Arc<dyn Sandbox>, FactoryError> {
        let here =
            std::env::current_dir().map_err(|e| FactoryError::Unavailable(format!("isolated: {e}")))?;
        Ok(Arc::new(Isolated::builder(name).workspace(here).configure(config)?.build()?))
    })
}

/// What this host allows.
#[derive(Debug, Clone)]
pub struct Probe {
    /// The strongest tier that works.
    pub tier: Option<Tier>,
    /// The stronger ones that do not, with the reason.
    pub refused: Vec<(Tier, String)>,
    /// What the kernel offers.
    pub kernel: Kernel,
    /// Whether a control group enforces the memory cap; else limits and a watchdog do.
    pub control_groups: bool,
    /// What one command may use unless a configuration says otherwise.
    pub caps: Caps,
}

/// A cap in force and what holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapInForce {
    /// The key in the configuration.
    pub name: &'static str,
    /// The cap; `None` where there is none.
    pub value: Option<u64>,
    /// What holds it on this host.
    pub by: &'static str,
}

impl Probe {
    /// Every guarantee, and why it does not hold when it does not.
    #[must_use]
    pub fn table(&self) -> Vec<(&'static Guarantee, Result<(), String>)> {
        let check = |guarantee: &Guarantee| match self.tier {
            Some(tier) => guarantee.check(tier, self.kernel),
            None => Err("no isolation is available on this host".to_owned()),
        };
        GUARANTEES.iter().map(|guarantee| (guarantee, check(guarantee))).collect()
    }

    /// Every cap of the default profile, and what holds it here.
    #[must_use]
    pub fn caps(&self) -> [CapInForce; 4] {
        let Caps { memory, pids, cpu_seconds, file_size } = self.caps;
        let memory_by = if self.control_groups { "a control group" } else { "a watchdog and RLIMIT_DATA" };
        let counted = self.tier == Some(Tier::Namespaces) && mounts::own_largest_pid();
        let pids_by = if counted { "the PID namespace and a watchdog" } else { "a watchdog" };
        [
            CapInForce { name: "memory", value: memory, by: memory_by },
            CapInForce { name: "pids", value: pids, by: pids_by },
            CapInForce { name: "cpu", value: cpu_seconds, by: "a watchdog and RLIMIT_CPU" },
            CapInForce { name: "file_size", value: file_size, by: "RLIMIT_FSIZE" },
        ]
    }
}

/// What this host allows for a workspace that is an ordinary folder.
#[must_use]
pub fn probe() -> Probe {
    match Temporary::new() {
        Ok(folder) => Isolated::builder("probe").workspace(folder.path()).probe(),
        // Says why itself.
        Err(_) => Isolated::builder("probe").probe(),
    }
}
