//! Where commands run: what the configuration declares, or else the strongest isolation of this host.

use crate::named;
use anyhow::Result;
use config::{FileError, NO_VALUE, RuntimeConfig, Settings, did_you_mean};
use futures_util::future::BoxFuture;
use sandbox::{
    Closer, Control, Factory, FactoryError, Narrowing, Outcome, Process, Registry, Request, Response,
    Sandbox, StartRequest, StreamingSandbox, Variables,
    direct::{self, Direct},
    global_registry,
    isolated::{self, Isolated, Probe},
};
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
};
use tools::{PathMap, Place, Runtime};

/// Tells the process-wide registry which workspaces and variables local sandboxes of this server have.
///
/// # Errors
/// The registry refuses.
pub(crate) fn register(settings: &Settings) -> Result<()> {
    let variables = variables(settings);
    global_registry().replace(isolated::MODE, Arc::new(Remembering::new(template(settings, ""))))?;
    let strongest: Arc<dyn Sandbox> = Arc::new(Strongest::new(settings));
    *STRONGEST.lock().unwrap_or_else(PoisonError::into_inner) = Some(strongest);
    let plain = move |name: &str, config: &Map<String, Value>| -> Result<Arc<dyn Sandbox>, FactoryError> {
        // The mode's own factory knows which keys it takes.
        direct::factory().build(name, config)?;
        Ok(Arc::new(Direct::new(name).with_baseline(variables.clone())))
    };
    Ok(global_registry().replace(direct::MODE, Arc::new(plain))?)
}

/// The default of the process, which stays when the configuration is read again: it depends on the start alone.
static STRONGEST: Mutex<Option<Arc<dyn Sandbox>>> = Mutex::new(None);

/// Gives the same sandbox for the same block as long as it is open: a configuration that is read again must not take
/// `/tmp` and the loopback from what runs in a sandbox that did not change.
struct Remembering {
    template: isolated::Builder,
    built: Mutex<Vec<Built>>,
}

/// A sandbox with the name and the block that it was built from.
struct Built(String, Map<String, Value>, Weak<Isolated>);

impl Remembering {
    fn new(template: isolated::Builder) -> Self {
        Self { template, built: Mutex::default() }
    }
}

impl Factory for Remembering {
    fn build(&self, name: &str, config: &Map<String, Value>) -> Result<Arc<dyn Sandbox>, FactoryError> {
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        let known = built.iter().find(|Built(known, block, _)| known == name && block == config);
        if let Some(sandbox) =
            known.and_then(|Built(_, _, sandbox)| sandbox.upgrade()).filter(|it| !it.is_closed())
        {
            return Ok(sandbox);
        }
        let sandbox = Arc::new(self.template.clone().named(name).configure(config)?.build()?);
        built.retain(|Built(known, _, sandbox)| known != name && sandbox.strong_count() > 0);
        built.push(Built(name.to_owned(), config.clone(), Arc::downgrade(&sandbox)));
        Ok(sandbox)
    }
}

/// The runtime that `config` declares.
///
/// # Errors
/// What is wrong in the file, and where.
pub(crate) fn runtime(settings: &Settings, config: Option<&RuntimeConfig>) -> Result<Runtime, FileError> {
    let plain: Arc<dyn Sandbox> = Arc::new(Direct::new(direct::MODE).with_baseline(variables(settings)));
    let registered = STRONGEST.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let strongest = registered.unwrap_or_else(|| Arc::new(Strongest::new(settings)));
    let Some(config) = config else { return Ok(Runtime::new(Arc::clone(&strongest)).owning([strongest])) };
    named::check(settings, config)?;
    let plain = Place::from(plain);
    let mut declared = BTreeMap::from([(direct::MODE.to_owned(), plain.clone())]);
    for spec in &config.sandboxes {
        declared.insert(spec.name.clone(), place(settings, config, spec)?);
    }
    let named = |name: &str| declared.get(name).unwrap_or(&plain);
    let default = config.default_sandbox.as_deref();
    let mut runtime =
        Runtime::new(default.map_or_else(|| strongest.clone().into(), |name| named(name).clone()));
    let languages = verify::Languages::shipped();
    for (language, name) in &config.languages {
        if languages.get(language).is_none() {
            let known: Vec<&str> = languages.all().iter().map(|detector| detector.language()).collect();
            let why = format!("no detector for this language; known: {}", known.join(", "));
            return Err(config.wrong(&format!("spec.languages.{language}"), why));
        }
        runtime = runtime.with_language(language, named(name).clone());
    }
    for hook in &config.hooks {
        let place = hook.sandbox.as_deref().map_or(&plain, named);
        runtime = runtime.with_hook(hook.clone(), Arc::clone(&place.sandbox));
    }
    Ok(runtime.owning(declared.into_values().map(|place| place.sandbox).chain([strongest])))
}

/// Where the folder for our own files is mounted in containers that last for one call only.
const SCRATCH: &str = "/codegen-sandbox";

/// A declared sandbox, and where it sees the workspace: at its `workdir`, else under the same path.
fn place(
    settings: &Settings,
    config: &RuntimeConfig,
    spec: &config::SandboxSpec,
) -> Result<Place, FileError> {
    let named = config.default_sandbox.iter().chain(config.languages.values());
    if !named.into_iter().any(|name| *name == spec.name) {
        return Ok(build(global_registry(), config, spec)?.into());
    }
    let wrong = |why: &str| config.wrong(&format!("spec.sandboxes.{}.workdir", spec.name), why);
    let workdir = spec.config.get("workdir").and_then(Value::as_str).map(Path::new);
    let root = match (settings.workspaces.as_slice(), workdir) {
        (_, Some(workdir)) if !workdir.is_absolute() || workdir == Path::new("/") => {
            return Err(wrong("must be the absolute path at which the workspace is mounted"));
        }
        ([_, _, ..], Some(_)) => {
            return Err(wrong(
                "one folder cannot be several workspaces: leave it out and mount each at its own path",
            ));
        }
        (roots, _) => roots.first().map(|workspace| &workspace.root),
    };
    let paths = match (root, workdir) {
        (Some(root), Some(workdir)) => PathMap::between(root, workdir.components().collect::<PathBuf>()),
        _ => PathMap::default(),
    };
    if spec.mode != "docker_run" {
        return Ok(Place::new(build(global_registry(), config, spec)?, paths));
    }
    // A container of its own for every call has neither the workspace nor what the call before it left.
    let scratch = settings.state_dir.join("scratch");
    std::fs::create_dir_all(&scratch).map_err(|error| {
        config.wrong(&format!("spec.sandboxes.{}", spec.name), format!("{}: {error}", scratch.display()))
    })?;
    let roots = settings.workspaces.iter().map(|workspace| workspace.root.as_path());
    let mounts = roots.map(|root| (root, paths.inward(root))).chain([(scratch.as_path(), SCRATCH.into())]);
    let mut spec = spec.clone();
    let given = spec.config.entry("mounts").or_insert_with(|| json!([]));
    for (from, to) in mounts {
        let to = to.display().to_string();
        if let Value::Array(given) = given
            && !given.iter().filter_map(Value::as_str).any(|mount| mount.split(':').nth(1) == Some(&to))
        {
            given.push(json!(format!("{}:{to}", from.display())));
        }
    }
    Ok(Place::new(build(global_registry(), config, &spec)?, paths).with_scratch(SCRATCH))
}

fn build(
    registry: &Registry,
    config: &RuntimeConfig,
    spec: &config::SandboxSpec,
) -> Result<Arc<dyn Sandbox>, FileError> {
    let key = |inner: &str| format!("spec.sandboxes.{}.{inner}", spec.name);
    let factory = registry.lookup(&spec.mode).map_err(|unknown| {
        let modes = registry.modes();
        let mean = did_you_mean(&spec.mode, modes.iter().map(String::as_str));
        config.wrong(&key("mode"), format!("{unknown}{mean}"))
    })?;
    let built = factory.build(&spec.name, &spec.config).map_err(|error| match &error {
        FactoryError::UnknownKey { key: unknown, known } => {
            let mean = did_you_mean(unknown, known.iter().map(String::as_str));
            config.wrong(&key(unknown), format!("mode {} takes no such key{mean} ({error})", spec.mode))
        }
        FactoryError::BadValue { key: bad, why } => config.wrong(&key(bad), why),
        FactoryError::MissingKey(_) | FactoryError::Unavailable(_) => {
            config.wrong(&format!("spec.sandboxes.{}", spec.name), error.to_string())
        }
    })?;
    // A value that was forgotten must not become the default.
    match spec.config.iter().find(|(_, value)| value.is_null()) {
        Some((empty, _)) => Err(config.wrong(&key(empty), NO_VALUE)),
        None => Ok(built),
    }
}

fn variables(settings: &Settings) -> Variables {
    settings.environment.iter().map(|(name, value)| (name.into(), value.into())).collect()
}

fn template(settings: &Settings, name: &str) -> isolated::Builder {
    let builder = Isolated::builder(name).variables(variables(settings));
    // What the server keeps from those who call it, their commands must not read either.
    let kept = settings.secrets_dir.iter().chain(&settings.auth_token_file).map(PathBuf::as_path);
    let builder = kept.chain(token_files(settings)).fold(builder, |builder, path| builder.hide(path));
    settings.workspaces.iter().fold(builder, |builder, workspace| builder.workspace(&workspace.root))
}

/// The files with tokens for other servers that the configuration names.
fn token_files(settings: &Settings) -> impl Iterator<Item = &Path> {
    let declared = settings.runtime.iter().flat_map(|config| &config.sandboxes);
    let files = declared.filter_map(|spec| spec.config.get("token_file").and_then(Value::as_str));
    files.map(Path::new)
}

/// The strongest isolation of this host, found out when the first command runs: a server that only reads
/// files starts without it. Where none works, commands run without, and every result says so.
struct Strongest {
    template: isolated::Builder,
    variables: Variables,
    otherwise: Direct,
    found: OnceLock<Found>,
    /// What it is narrowed to; `None` when it is for all workspaces.
    narrow: Option<Narrowing>,
    /// Several workspaces, so that one call must be kept from the others.
    several: bool,
    narrowed: Mutex<Vec<Arc<Strongest>>>,
}

struct Found {
    sandbox: Option<Isolated>,
    remark: Option<String>,
}

impl Strongest {
    fn new(settings: &Settings) -> Self {
        let several = settings.workspaces.len() > 1;
        Self::of(template(settings, isolated::MODE), variables(settings), several, None)
    }

    fn of(
        template: isolated::Builder,
        variables: Variables,
        several: bool,
        narrow: Option<Narrowing>,
    ) -> Self {
        let otherwise = Direct::new(direct::MODE).with_baseline(variables.clone());
        let (found, narrowed) = (OnceLock::new(), Mutex::default());
        Self { template, variables, otherwise, found, narrow, several, narrowed }
    }

    fn found(&self) -> &Found {
        self.found.get_or_init(|| match self.template.clone().build() {
            Ok(sandbox) => {
                tracing::debug!("{}", sandbox.summary());
                Found { sandbox: Some(sandbox), remark: None }
            }
            Err(why) => {
                tracing::warn!("no isolation on this host: {why}");
                let remark = format!("isolation: none: commands run as this user, because {why}");
                Found { sandbox: None, remark: Some(remark) }
            }
        })
    }

    fn in_force(&self) -> Result<&dyn Sandbox, Outcome> {
        if self.found.get().is_none()
            && let Some(gone) = self.template.missing_workspace()
        {
            let why = format!("the workspace {} is gone; put it back", gone.display());
            return Err(Outcome::Refused { why });
        }
        Ok(match &self.found().sandbox {
            Some(sandbox) => sandbox,
            None => &self.otherwise,
        })
    }
}

impl Sandbox for Strongest {
    fn name(&self) -> &str {
        isolated::MODE
    }

    fn spawn(&self, request: Request) -> BoxFuture<'_, Response> {
        Box::pin(async {
            let mut response = match self.in_force() {
                Ok(sandbox) => sandbox.spawn(request).await,
                Err(refused) => return Response::nothing(refused),
            };
            response.notes.extend(self.found().remark.clone());
            response
        })
    }

    fn streaming(&self) -> Option<&dyn StreamingSandbox> {
        Some(self)
    }

    fn warm_up(&self) {
        // What is wrong is for the command itself to say.
        let _ = self.in_force();
    }

    fn narrowed(self: Arc<Self>, to: &Narrowing) -> Option<Arc<dyn Sandbox>> {
        if !self.several && !to.read_only || self.narrow.as_ref() == Some(to) {
            return Some(self);
        }
        let mut all = self.narrowed.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.iter().find(|known| known.narrow.as_ref() == Some(to)).cloned();
        let narrowed = known.unwrap_or_else(|| {
            let template = self.template.clone().narrowed(to);
            let made = Arc::new(Self::of(template, self.variables.clone(), false, Some(to.clone())));
            all.push(Arc::clone(&made));
            made
        });
        // Without isolation nobody is kept from anything.
        (!to.read_only || narrowed.in_force().is_ok() && narrowed.found().sandbox.is_some())
            .then_some(narrowed as Arc<dyn Sandbox>)
    }

    fn closer(&self) -> Option<&dyn Closer> {
        Some(self)
    }
}

impl Closer for Strongest {
    fn close(&self) -> BoxFuture<'_, Result<(), String>> {
        let narrowed = std::mem::take(&mut *self.narrowed.lock().unwrap_or_else(PoisonError::into_inner));
        Box::pin(async move {
            for one in &narrowed {
                one.close().await?;
            }
            let own = self.found.get().and_then(|found| found.sandbox.as_ref());
            match own.and_then(Sandbox::closer) {
                Some(closer) => closer.close().await,
                None => Ok(()),
            }
        })
    }
}

impl StreamingSandbox for Strongest {
    fn start(&self, request: StartRequest) -> BoxFuture<'_, Result<Process, Outcome>> {
        Box::pin(async {
            let Some(streaming) = self.in_force()?.streaming() else {
                return Err(Outcome::Refused { why: "this sandbox cannot keep a process".to_owned() });
            };
            let mut process = streaming.start(request).await?;
            if let Some(remark) = self.found().remark.clone() {
                process.control = Box::new(Remarked { control: process.control, remark });
            }
            Ok(process)
        })
    }
}

/// A process about which there is something to say besides what its sandbox says.
struct Remarked {
    control: Box<dyn Control>,
    remark: String,
}

impl Control for Remarked {
    fn wait(&self) -> BoxFuture<'_, Outcome> {
        self.control.wait()
    }

    fn kill(&self) {
        self.control.kill();
    }

    fn resize(&self, cols: u16, rows: u16) {
        self.control.resize(cols, rows);
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.control.notes();
        notes.push(self.remark.clone());
        notes
    }
}

/// What is in force for a command that starts now.
pub(crate) struct InForce {
    /// In words.
    pub(crate) text: String,
    /// Where our own isolation decides, what it can do for these workspaces.
    pub(crate) probe: Option<Probe>,
}

/// What this host's isolation can do for the workspaces of `settings`: as the configured default sandbox asks for it,
/// when that is such a one.
pub(crate) fn probe(settings: &Settings) -> Probe {
    let builder = template(settings, isolated::MODE);
    let config = default_spec(settings).filter(|spec| spec.mode == isolated::MODE).map(|spec| &spec.config);
    match config.map(|config| builder.clone().configure(config)) {
        Some(Ok(configured)) => configured.probe(),
        // A block that cannot be used has stopped the start already.
        Some(Err(_)) | None => builder.probe(),
    }
}

fn default_spec(settings: &Settings) -> Option<&config::SandboxSpec> {
    let config = settings.runtime.as_ref()?;
    let name = config.default_sandbox.as_ref()?;
    config.sandboxes.iter().find(|spec| spec.name == *name)
}

/// What is in force for a command that starts now; `probe` is what [`probe`] found.
pub(crate) fn in_force(settings: &Settings, probe: Probe) -> InForce {
    let named = settings.runtime.as_ref().and_then(|config| config.default_sandbox.as_deref());
    let mode = default_spec(settings).map(|spec| spec.mode.as_str());
    let (text, ours) = match (named, mode) {
        (Some(direct::MODE), None) | (_, Some(direct::MODE)) => {
            ("none: commands run as this user (direct)".to_owned(), false)
        }
        (Some(name), mode) if mode != Some(isolated::MODE) => {
            (format!("sandbox \"{name}\" of the configuration"), false)
        }
        (name, _) => {
            let by =
                name.map_or_else(String::new, |name| format!(" (sandbox \"{name}\" of the configuration)"));
            match (probe.tier, probe.refused.first()) {
                (Some(tier), _) => (format!("isolated, {}{by}", tier.name()), true),
                (None, why) => {
                    let why = why.map_or("this host allows no isolation", |(_, why)| why);
                    (format!("none: commands run as this user; {why}"), false)
                }
            }
        }
    };
    InForce { text, probe: ours.then_some(probe) }
}

impl InForce {
    /// Names of the guarantees that hold, and of those that do not, where our own isolation decides.
    pub(crate) fn guarantees(&self) -> Option<(Vec<&'static str>, Vec<&'static str>)> {
        let (held, lacking): (Vec<_>, Vec<_>) =
            self.probe.as_ref()?.table().into_iter().partition(|(_, holds)| holds.is_ok());
        let names =
            |list: Vec<(&'static isolated::Guarantee, _)>| list.into_iter().map(|(g, _)| g.name).collect();
        Some((names(held), names(lacking)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::NamedRoot;

    fn settings(root: &str) -> Settings {
        let workspaces = vec![NamedRoot { name: "default".to_owned(), root: root.into() }];
        Settings { workspaces, ..Settings::default() }
    }

    #[tokio::test]
    async fn what_runs_without_isolation_says_so() {
        let settings = settings("/");
        let sandbox = Strongest::new(&settings);
        let response = sandbox.spawn(Request::new("true")).await;
        let request = StartRequest { command: "true".into(), ..StartRequest::default() };
        let process = sandbox.start(request).await.unwrap();
        assert!(process.control.wait().await.success());
        for notes in [response.notes, process.control.notes()] {
            let said = "isolation: none: commands run as this user, because isolated: workspace / cannot be fenced in";
            assert!(notes.len() == 1 && notes[0].starts_with(said), "{notes:?}");
        }
        let found = in_force(&settings, probe(&settings));
        assert!(found.text.starts_with("none: ") && found.text.contains("workspace /"), "{}", found.text);
        assert!(found.guarantees().is_none());
    }

    #[tokio::test]
    async fn a_workspace_that_is_gone_is_no_reason_to_go_without() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("w");
        let sandbox = Strongest::new(&settings(root.to_str().unwrap()));
        let response = sandbox.spawn(Request::new("true")).await;
        assert!(
            matches!(&response.outcome, Outcome::Refused { why } if why.contains("is gone")),
            "{response:?}"
        );
        let request = StartRequest { command: "true".into(), ..StartRequest::default() };
        assert!(matches!(sandbox.start(request).await, Err(Outcome::Refused { .. })));
        std::fs::create_dir(&root).unwrap();
        assert!(
            sandbox.in_force().is_ok() && sandbox.found().remark.is_none(),
            "isolated as soon as it is back"
        );
    }

    #[test]
    fn a_configured_isolation_is_named_with_what_it_holds() {
        let place = std::env::temp_dir();
        let mut settings = settings(place.to_str().unwrap());
        let spec = config::SandboxSpec {
            name: "locked".to_owned(),
            mode: isolated::MODE.to_owned(),
            config: Map::from_iter([("pids".to_owned(), json!(50))]),
        };
        let mut config = RuntimeConfig::default();
        config.sandboxes.push(spec);
        config.default_sandbox = Some("locked".to_owned());
        settings.runtime = Some(config);
        let found = in_force(&settings, probe(&settings));
        assert!(found.text.starts_with("isolated, ") && found.text.contains("\"locked\""), "{}", found.text);
        assert!(found.guarantees().unwrap().0.contains(&"write-fence"));
        assert_eq!(found.probe.unwrap().caps.pids, Some(50));
    }
}
