//! A folder of the workspace as a detector sees it.

use super::looked::Variables;
use crate::{Call, Host, Place, ToolError};
use ::verify::{Detector, Facts, Plan};
use sandbox::Request;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use workspace::{ContainedPath, Kind, Workspace};

/// Text files larger than this are no configuration.
const READABLE: u64 = 4 << 20;
/// Names of a folder that are looked at.
const LISTED: usize = 10_000;
/// How long a look into the sandbox may take.
const LOOK: Duration = Duration::from_secs(10);

/// A project folder. Answers block: they are for threads that may.
pub(super) struct Project {
    host: Arc<Host>,
    workspace: Arc<Workspace>,
    /// Relative to the workspace's root; empty for the root itself.
    pub(super) folder: String,
    place: Place,
    /// That is a sandbox which its language has for itself.
    elsewhere: bool,
    /// Where commands see it.
    root: PathBuf,
    scratch: PathBuf,
    runtime: tokio::runtime::Handle,
    found: Mutex<BTreeMap<String, Option<PathBuf>>>,
    environment: Mutex<Option<Variables>>,
    scratch_made: AtomicBool,
}

impl Drop for Project {
    fn drop(&mut self) {
        if !self.scratch_made.load(Ordering::Relaxed) {
            return;
        }
        let folder = self.scratch.to_string_lossy().into_owned();
        let sandbox = Arc::clone(&self.place.sandbox);
        let remove = async move {
            let mut request = Request::new("rm").args(["-rf", "--", &folder]);
            request.timeout = LOOK;
            sandbox.spawn(request).await;
        };
        self.go_on(remove);
    }
}

impl Project {
    /// The project at `path`, or at the workspace's root.
    pub(super) fn open(call: &Call, tool: &str, path: Option<&str>) -> Result<Arc<Self>, ToolError> {
        let folder = match path.map(str::trim).filter(|path| !path.is_empty() && *path != ".") {
            None => String::new(),
            Some(path) => folder(&call.workspace, tool, path)?,
        };
        Ok(Arc::new(Self::new(call, folder, call.place())))
    }

    fn new(call: &Call, folder: String, place: Place) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let root = match folder.as_str() {
            "" => call.workspace.root().to_owned(),
            folder => call.workspace.root().join(folder),
        };
        Self {
            host: Arc::clone(call.host()),
            workspace: Arc::clone(&call.workspace),
            root: place.paths.inward(&root),
            folder,
            // Made where the commands run, and only when a plan needs it.
            scratch: place.scratch.join(format!("codegen-sandbox-{}-{number}", std::process::id())),
            elsewhere: !place.is(&call.place()),
            place,
            runtime: tokio::runtime::Handle::current(),
            found: Mutex::default(),
            environment: Mutex::default(),
            scratch_made: AtomicBool::new(false),
        }
    }

    /// The same folder as the programs of a language see it, where they run.
    pub(super) fn seen_by(self: &Arc<Self>, call: &Call, detector: &dyn Detector) -> Arc<Self> {
        let place = call.sandbox_for(detector.language());
        match place.is(&self.place) {
            true => Arc::clone(self),
            false => Arc::new(Self::new(call, self.folder.clone(), place)),
        }
    }

    /// Where its commands run.
    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// The sandbox in words, when it is one that the language has for itself.
    pub(super) fn elsewhere(&self, detector: &dyn Detector) -> Option<String> {
        self.elsewhere.then(|| {
            let (name, language) = (self.place.sandbox.name(), detector.language());
            format!("in sandbox \"{name}\" (spec.languages.{language}.sandbox)")
        })
    }

    /// Says among a plan's reasons where it is carried out.
    pub(super) fn explain(&self, detector: &dyn Detector, plan: &mut Plan) {
        plan.why.extend(self.elsewhere(detector).map(|there| format!("runs {there}")));
    }

    /// A text that a command printed, with the workspace's paths as they are called here.
    pub(super) fn say(&self, text: &mut String) {
        self.place.paths.say_outward(text);
    }

    /// The detectors that the `language` argument means.
    pub(super) fn select(&self, language: Option<&str>) -> Result<Vec<&'static dyn Detector>, ToolError> {
        let languages = &self.host.languages;
        languages.select(self, language).map_err(|error| ToolError::caller(error.to_string()))
    }

    /// A file of the project as the agent knows it: relative to the workspace.
    pub(super) fn shown(&self, file: &str) -> String {
        if self.folder.is_empty() || file.starts_with('/') {
            let file = self.place.paths.outward(Path::new(file));
            let inside = file.strip_prefix(self.workspace.root()).unwrap_or(&file);
            return inside.to_string_lossy().into_owned();
        }
        format!("{}/{file}", self.folder)
    }

    /// A file of the workspace as the project knows it.
    pub(super) fn own(&self, shown: &str) -> String {
        let inside = shown.strip_prefix(&self.folder).unwrap_or(shown);
        inside.trim_start_matches('/').to_owned()
    }

    /// Work that goes on after the call that began it.
    pub(super) fn go_on(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.host.background.spawn_on(work, &self.runtime);
    }

    /// The scratch folder exists from now on, and goes with the project.
    pub(super) fn scratch_is_made(&self) {
        self.scratch_made.store(true, Ordering::Relaxed);
    }

    /// A file of the project in the workspace.
    pub(super) fn resolve(&self, file: &str) -> Option<ContainedPath> {
        let path = Path::new(&self.folder).join(file);
        let path = if path.as_os_str().is_empty() { PathBuf::from(".") } else { path };
        self.workspace.resolve(path).ok()
    }

    /// Where a program is, as the place where commands run sees it.
    fn look_up(&self, binary: &str) -> Option<PathBuf> {
        let mut request = Request::new("sh").args(["-c", "command -v -- \"$0\"", binary]);
        request.timeout = LOOK;
        request.cwd = Some(self.root.clone());
        let response = self.await_here(request);
        let line = String::from_utf8_lossy(&response.stdout).trim().to_owned();
        (response.outcome.success() && line.starts_with('/')).then(|| line.into())
    }

    /// Runs a command and waits for it, whatever kind of thread this is: who only wants to say what is missing asks
    /// from wherever it noticed.
    fn await_here(&self, request: Request) -> sandbox::Response {
        tokio::task::block_in_place(|| self.runtime.block_on(self.place.spawn(request)))
    }

    fn look_around(&self) -> BTreeMap<String, String> {
        let mut request = Request::new("env").args(["-0"]);
        request.timeout = LOOK;
        let response = self.await_here(request);
        let text = String::from_utf8_lossy(&response.stdout).into_owned();
        text.split('\0')
            .filter_map(|entry| entry.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }
}

fn folder(workspace: &Workspace, tool: &str, path: &str) -> Result<String, ToolError> {
    let contained = workspace.resolve(path).map_err(|error| ToolError::caller(format!("{tool}: {error}")))?;
    match workspace.kind(&contained) {
        Some(Kind::Folder) => Ok(contained.relative().to_string_lossy().into_owned()),
        Some(_) => Err(ToolError::caller(format!(
            "{tool}: `path` must be a folder, {path} is a file; pass the one it is in"
        ))),
        None => Err(ToolError::caller(format!(
            "{tool}: no such folder: {path}; pass one relative to the workspace's root"
        ))),
    }
}

/// The nearest folder, from this one up, that is a project of one of these languages; relative to the workspace.
pub(super) fn nearest(call: &Call, from: &Path, detectors: &[&'static dyn Detector]) -> Option<String> {
    from.ancestors().find_map(|folder| {
        let marked = detectors.iter().flat_map(|detector| detector.markers()).any(|marker| {
            let place = call.workspace.resolve(folder.join(marker));
            place.is_ok_and(|place| call.workspace.kind(&place) == Some(Kind::File))
        });
        marked.then(|| folder.to_string_lossy().into_owned())
    })
}

impl Facts for Project {
    fn root(&self) -> &Path {
        &self.root
    }

    fn scratch(&self) -> &Path {
        &self.scratch
    }

    fn exists(&self, relative: &str) -> bool {
        self.resolve(relative).is_some_and(|path| self.workspace.kind(&path).is_some())
    }

    fn read(&self, relative: &str) -> Option<String> {
        let bytes = self.workspace.read_bytes(&self.resolve(relative)?, READABLE).ok()?;
        String::from_utf8(bytes).ok()
    }

    fn list(&self, relative: &str) -> Vec<String> {
        self.resolve(relative).map(|path| self.workspace.names(&path, LISTED)).unwrap_or_default()
    }

    fn which(&self, binary: &str) -> Option<PathBuf> {
        let known = self.found.lock().unwrap_or_else(PoisonError::into_inner).get(binary).cloned();
        known.unwrap_or_else(|| {
            let looked = &self.host.looked;
            let found = looked.program(&self.place, &self.root, binary).or_else(|| {
                let found = self.look_up(binary)?;
                looked.found(&self.place, &self.root, binary, found.clone());
                Some(found)
            });
            let mut all = self.found.lock().unwrap_or_else(PoisonError::into_inner);
            all.insert(binary.to_owned(), found.clone());
            found
        })
    }

    fn env(&self, name: &str) -> Option<String> {
        let mut environment = self.environment.lock().unwrap_or_else(PoisonError::into_inner);
        let variables = environment.get_or_insert_with(|| {
            let looked = &self.host.looked;
            looked.variables(&self.place).unwrap_or_else(|| {
                let variables = Arc::new(self.look_around());
                if !variables.is_empty() {
                    looked.saw(&self.place, Arc::clone(&variables));
                }
                variables
            })
        });
        variables.get(name).cloned()
    }
}
