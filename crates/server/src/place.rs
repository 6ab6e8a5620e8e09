//! Where commands run: what the configuration declares, or else the strongest isolation of this host.

use anyhow::Result;
use config::{FileError, RuntimeConfig, Settings, did_you_mean};
use futures_util::future::BoxFuture;
use sandbox::{
    Closer, FactoryError, Outcome, Process, Registry, Request, Response, Sandbox, StartRequest,
    StreamingSandbox, Variables,
    direct::{self, Direct},
    global_registry,
    isolated::{self, Isolated},
};
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};
use tools::{PathMap, Place, Runtime};

/// Tells the process-wide registry which workspaces and variables local sandboxes of this server have.
///
/// # Errors
/// The registry refuses.
pub(crate) fn register(settings: &Settings) -> Result<()> {
    let variables = variables(settings);
    global_registry().replace(isolated::MODE, isolated::factory(template(settings, "")))?;
    let plain = move |name: &str, config: &Map<String, Value>| -> Result<Arc<dyn Sandbox>, FactoryError> {
        // The mode's own factory knows which keys it takes.
        direct::factory().build(name, config)?;
        Ok(Arc::new(Direct::new(name).with_baseline(variables.clone())))
    };
    Ok(global_registry().replace(direct::MODE, Arc::new(plain))?)
}

/// The runtime that `config` declares.
///
/// # Errors
/// What is wrong in the file, and where.
pub(crate) fn runtime(settings: &Settings, config: Option<&RuntimeConfig>) -> Result<Runtime, FileError> {
    let plain: Arc<dyn Sandbox> = Arc::new(Direct::new(direct::MODE).with_baseline(variables(settings)));
    let strongest: Arc<dyn Sandbox> = Arc::new(Strongest::new(settings));
    let Some(config) = config else { return Ok(Runtime::new(Arc::clone(&strongest)).owning([strongest])) };
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
    factory.build(&spec.name, &spec.config).map_err(|error| match &error {
        FactoryError::UnknownKey { key: unknown, known } => {
            let mean = did_you_mean(unknown, known.iter().map(String::as_str));
            config.wrong(&key(unknown), format!("mode {} takes no such key{mean} ({error})", spec.mode))
        }
        FactoryError::BadValue { key: bad, why } => config.wrong(&key(bad), why),
        FactoryError::MissingKey(_) | FactoryError::Unavailable(_) => {
            config.wrong(&format!("spec.sandboxes.{}", spec.name), error.to_string())
        }
    })
}

fn variables(settings: &Settings) -> Variables {
    settings.environment.iter().map(|(name, value)| (name.into(), value.into())).collect()
}

fn template(settings: &Settings, name: &str) -> isolated::Builder {
    let builder = Isolated::builder(name).variables(variables(settings));
    settings.workspaces.iter().fold(builder, |builder, workspace| builder.workspace(&workspace.root))
}

/// The strongest isolation of this host, found out when the first command runs: a server that only reads
/// files starts without it. Where none works, commands run without, and every result says so.
struct Strongest {
    template: isolated::Builder,
    otherwise: Direct,
    found: OnceLock<Found>,
}

struct Found {
    sandbox: Option<Isolated>,
    remark: Option<String>,
}

impl Strongest {
    fn new(settings: &Settings) -> Self {
        Self {
            template: template(settings, isolated::MODE),
            otherwise: Direct::new(direct::MODE).with_baseline(variables(settings)),
            found: OnceLock::new(),
        }
    }

    fn found(&self) -> &Found {
        self.found.get_or_init(|| match self.template.clone().build() {
            Ok(sandbox) => {
                tracing::debug!("{}", sandbox.summary());
                Found { sandbox: Some(sandbox), remark: None }
            }
            Err(why) => {
                tracing::warn!("no isolation on this host: {why}");
                Found { sandbox: None, remark: Some(format!("not isolated: {why}")) }
            }
        })
    }

    fn in_force(&self) -> &dyn Sandbox {
        match &self.found().sandbox {
            Some(sandbox) => sandbox,
            None => &self.otherwise,
        }
    }
}

impl Sandbox for Strongest {
    fn name(&self) -> &str {
        isolated::MODE
    }

    fn spawn(&self, request: Request) -> BoxFuture<'_, Response> {
        Box::pin(async {
            let mut response = self.in_force().spawn(request).await;
            response.notes.extend(self.found().remark.clone());
            response
        })
    }

    fn streaming(&self) -> Option<&dyn StreamingSandbox> {
        Some(self)
    }

    fn closer(&self) -> Option<&dyn Closer> {
        self.found.get().and_then(|found| found.sandbox.as_ref()).and_then(Sandbox::closer)
    }
}

impl StreamingSandbox for Strongest {
    fn start(&self, request: StartRequest) -> BoxFuture<'_, Result<Process, Outcome>> {
        Box::pin(async {
            match self.in_force().streaming() {
                Some(streaming) => streaming.start(request).await,
                None => Err(Outcome::Refused { why: "this sandbox cannot keep a process".to_owned() }),
            }
        })
    }
}

/// Names of the guarantees that hold for a command that starts now, and of those that do not, where the host's isolation
/// decides.
pub(crate) fn guarantees(settings: &Settings) -> Option<(Vec<&'static str>, Vec<&'static str>)> {
    let probe = isolated::probe();
    if probe.tier.is_none()
        || settings.runtime.as_ref().is_some_and(|config| config.default_sandbox.is_some())
    {
        return None;
    }
    let (held, lacking): (Vec<_>, Vec<_>) = probe.table().into_iter().partition(|(_, holds)| holds.is_ok());
    let names =
        |list: Vec<(&'static isolated::Guarantee, _)>| list.into_iter().map(|(g, _)| g.name).collect();
    Some((names(held), names(lacking)))
}

/// What is in force for a command that starts now, in words.
pub(crate) fn in_force(settings: &Settings) -> String {
    let default = settings.runtime.as_ref().and_then(|config| config.default_sandbox.as_deref());
    match default {
        Some(direct::MODE) => "none: commands run as this user (direct)".to_owned(),
        Some(name) => format!("sandbox \"{name}\" of the configuration"),
        None => match isolated::probe().tier {
            Some(tier) => format!("isolated, {}", tier.name()),
            None => "none: this host allows no isolation; commands run as this user".to_owned(),
        },
    }
}
