//! One server: how it is started, kept true to the workspace, and ended.

use super::{
    diagnostics::Said,
    memory,
    pool::Key,
    strangers::{Gathered, of_server},
    told::{Asked, Seen, Told, on_disk, source_of},
    trouble::Trouble,
};
use crate::{Call, Place, ProgressUpdate, ToolError, call::Pace, verify::Candidates};
use ::lsp::{Client, Hello, Kind, Location, OnDisk, Position, locations, to_uri};
use ::verify::{Detector, ServerPlan};
use config::Limits;
use sandbox::{Control, EnvEntry, Sandbox, StartRequest, Stdio};
use serde_json::{Value, json};
use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio_util::sync::CancellationToken;
use workspace::{ContainedPath, Workspace};

/// How long a server may take to say that it is there.
const HELLO: Duration = Duration::from_secs(30);
/// How long a call waits for a server that loads its project, before it says so: many clients give up at 60 s.
const LOADING: Duration = Duration::from_secs(50);
/// How long a sign of life may take.
const ALIVE: Duration = Duration::from_secs(5);
/// Bytes of a server's last words.
const WORDS: usize = 2000;
/// Files in new folders that gopls is shown; for more it is started anew.
const UNLOADED: usize = 32;
/// How often a server is looked after.
const LOOK: Duration = Duration::from_secs(5);

/// A server that was started.
pub(crate) struct Running {
    pub(crate) key: Key,
    pub(crate) name: &'static str,
    pub(crate) client: Client,
    workspace: Arc<Workspace>,
    place: Place,
    control: Box<dyn Control>,
    /// In the environment of everything it starts.
    pub(crate) marker: String,
    since: Instant,
    used: Mutex<Instant>,
    busy: AtomicUsize,
    ended: AtomicBool,
    /// It has not answered lately.
    doubted: AtomicBool,
    why: Mutex<Option<String>>,
    words: Arc<Mutex<Vec<u8>>>,
    told: Arc<tokio::sync::Mutex<Told>>,
    /// Held alone while it is shown files as they were.
    pub(super) present: tokio::sync::RwLock<()>,
    /// How long a look at what there is to tell takes.
    pace: Arc<Pace>,
    /// How long it takes to look for a name in other projects.
    pub(super) looking: Arc<Pace>,
    /// What it last said about files, against which news are told.
    pub(super) said: Mutex<HashMap<PathBuf, Said>>,
    /// What it was shown for questions.
    pub(super) gathered: Mutex<Gathered>,
    /// How many changes it was told of.
    pub(super) changes: AtomicU64,
}

/// What a server was told and shown.
pub(super) struct Synced {
    /// The texts of the files it was shown.
    pub(super) texts: Vec<String>,
    /// What had changed.
    pub(super) changed: HashSet<PathBuf>,
}

/// A server in use: it does not count as idle meanwhile.
pub(crate) struct InUse(pub(super) Arc<Running>);

impl std::ops::Deref for InUse {
    type Target = Arc<Running>;

    fn deref(&self) -> &Arc<Running> {
        &self.0
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        *lock(&self.0.used) = Instant::now();
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the server of a project, where its language runs: the first of those it could be that is there.
pub(super) async fn start(
    call: &Call,
    tool: &'static str,
    key: Key,
    detector: &'static dyn Detector,
) -> Result<Arc<Running>, ToolError> {
    let place = place(call, tool, &key)?;
    let (folder, root, sandbox) = (key.root.clone(), PathBuf::from(&key.root), Arc::clone(&place.sandbox));
    // What changes from here on is told; what was before, the server reads itself.
    let (candidates, told, warm) = tokio::join!(
        call.blocking(move |call| Candidates::of(call, tool, detector, &folder)),
        call.blocking(move |call| Ok(Told::first(&call.workspace, detector, root))),
        call.blocking(move |_| {
            sandbox.warm_up();
            Ok(())
        }),
    );
    warm?;
    let (candidates, told) = (Arc::new(candidates?), Arc::new(tokio::sync::Mutex::new(told?)));
    for (n, plan) in candidates.plans.iter().enumerate() {
        let why = match begin(call, tool, key.clone(), plan, (place.clone(), Arc::clone(&told))).await {
            Ok(running) => return Ok(running),
            Err(why) => why,
        };
        let (known, plan) = (Arc::clone(&candidates), plan.clone());
        // What stands in for one that is missing may be there and be no server: then the missing one is named.
        if n == 0 && call.blocking(move |_| Ok(known.has(&plan))).await? {
            return Err(why);
        }
    }
    call.blocking(move |_| Ok(candidates.missing(tool))).await.and_then(Err)
}

/// Where a server runs. What it reads may make it run code of the project: for whoever may change nothing it is kept
/// from changing the workspace, or not started.
fn place(call: &Call, tool: &str, key: &Key) -> Result<Place, ToolError> {
    if !key.read_only {
        return Ok(call.writing_place(key.language));
    }
    call.reading_place(key.language).ok_or_else(|| {
        ToolError::with_hint(
            format!(
                "{tool}: no language server for a read-only session here: it may run code of the project, and the \
                 sandbox of {} cannot keep that from changing the workspace",
                key.language
            ),
            "Grep, search_code and Read need none; with the isolation of mode isolated, or once a session that may \
             write has started the server, this works",
        )
    })
}

/// Starts one server and hears its hello.
async fn begin(
    call: &Call,
    tool: &'static str,
    key: Key,
    plan: &ServerPlan,
    (place, told): (Place, Arc<tokio::sync::Mutex<Told>>),
) -> Result<Arc<Running>, ToolError> {
    let streaming = place.sandbox.streaming().ok_or_else(|| {
        let name = place.sandbox.name();
        ToolError::caller(format!("{tool}: the sandbox \"{name}\" cannot keep a language server"))
    })?;
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let marker = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let home = match key.root.as_str() {
        "" => call.workspace.root().to_owned(),
        root => call.workspace.root().join(root),
    };
    let home = place.paths.inward(&home);
    let mut env = vec![EnvEntry::Set(memory::VARIABLE.to_owned(), marker.clone())];
    if key.read_only {
        let folder =
            place.scratch.join(format!("codegen-sandbox-{}", plan.name)).to_string_lossy().into_owned();
        env.extend(plan.folders.iter().map(|name| EnvEntry::Set((*name).to_owned(), folder.clone())));
    }
    let request = StartRequest {
        command: plan.program.clone(),
        args: plan.args.clone(),
        env,
        cwd: Some(home.clone()),
        stdio: Stdio::Separate,
    };
    let not_started =
        |why: &dyn std::fmt::Display| ToolError::caller(format!("{tool}: {}: {why}", plan.name));
    let mut process = streaming.start(request).await.map_err(|outcome| not_started(&outcome))?;
    let stdin = process.stdin.take().ok_or_else(|| not_started(&"it has no stdin"))?;
    let words = Arc::new(Mutex::new(Vec::new()));
    if let Some(stderr) = process.stderr.take() {
        tokio::spawn(listen(stderr, Arc::clone(&words)));
    }
    let hello = Hello { kind: Kind::named(plan.name), root: home, options: plan.options.clone() };
    let client = Client::connect(hello, process.stdout, stdin);
    let running = Arc::new(Running {
        key,
        name: plan.name,
        client,
        workspace: Arc::clone(&call.workspace),
        place,
        control: process.control,
        marker,
        since: Instant::now(),
        used: Mutex::new(Instant::now()),
        busy: AtomicUsize::new(0),
        ended: AtomicBool::new(false),
        doubted: AtomicBool::new(false),
        why: Mutex::default(),
        words,
        told,
        present: tokio::sync::RwLock::default(),
        pace: Arc::default(),
        looking: Arc::default(),
        said: Mutex::default(),
        gathered: Mutex::default(),
        changes: AtomicU64::new(0),
    });
    match tokio::time::timeout(HELLO, running.client.initialize()).await {
        Ok(Ok(())) => {
            *lock(&running.used) = Instant::now();
            Ok(running)
        }
        Ok(Err(::lsp::Error::Gone)) => {
            let outcome = tokio::time::timeout(Duration::from_secs(2), running.control.wait()).await;
            let ended = outcome.map_or_else(|_| "it closed its streams".to_owned(), |end| end.to_string());
            Err(not_started(&format!("{ended}\n{}", running.last_words()).trim_end()))
        }
        Ok(Err(error)) => Err(not_started(&error)),
        Err(_) => Err(not_started(&format!("it said nothing within {} s", HELLO.as_secs()))),
    }
}

async fn listen(mut from: Box<dyn AsyncRead + Send + Unpin>, words: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = vec![0; 4096];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let mut words = lock(&words);
        words.extend_from_slice(&buffer[..read]);
        let extra = words.len().saturating_sub(WORDS);
        words.drain(..extra);
    }
}

/// Looks after a server until it ends: idle, too large, told to stop, or of itself.
pub(super) async fn attend(running: &Arc<Running>, stop: &CancellationToken, limits: &Limits) {
    let mut ticks = tokio::time::interval(LOOK.min(limits.server_idle / 4).max(Duration::from_millis(20)));
    loop {
        tokio::select! {
            outcome = running.control.wait() => {
                running.end(&format!("{} ended: {outcome}", running.name));
                return;
            }
            () = stop.cancelled() => {
                running.end("the server is shutting down");
                break;
            }
            _ = ticks.tick() => {
                if running.busy.load(Ordering::Relaxed) == 0
                    && lock(&running.used).elapsed() >= limits.server_idle
                {
                    running.retire("nobody asked it");
                    running.client.farewell().await;
                    break;
                }
                let marker = running.marker.clone();
                let used = tokio::task::spawn_blocking(move || memory::of(&marker)).await.unwrap_or_default();
                if used.bytes > limits.server_memory {
                    tracing::warn!(server = running.name, bytes = used.bytes, "a language server took too much memory");
                    running.end(&format!(
                        "{} was ended: it took {} MiB of memory (--server-memory allows {})",
                        running.name,
                        used.bytes >> 20,
                        limits.server_memory >> 20
                    ));
                    break;
                }
            }
        }
    }
    running.control.kill();
    let _ = tokio::time::timeout(Duration::from_secs(5), running.control.wait()).await;
}

impl Running {
    /// Whether it can be asked.
    pub(super) fn usable(&self) -> bool {
        !self.ended.load(Ordering::Acquire) && !self.client.gone()
    }

    /// Whether it is worth asking in passing.
    pub(super) fn prompt(&self) -> bool {
        !self.doubted.load(Ordering::Acquire)
    }

    /// It did not answer in time. It is not asked in passing any more until it has given a sign of life, and is ended
    /// when it gives none for as long as an answer may take.
    pub(super) fn doubt(self: &Arc<Self>, call: &Call, answer: Duration) {
        if self.doubted.swap(true, Ordering::AcqRel) {
            return;
        }
        let (this, stop) = (Arc::clone(self), call.host().stop.clone());
        call.host().background.spawn(async move {
            // Whoever lives answers, if only that it does not know what is meant.
            let sign = this.client.request("$/alive", Value::Null);
            tokio::select! {
                () = stop.cancelled() => {}
                sign = tokio::time::timeout(answer, sign) => match sign {
                    Ok(_) => this.doubted.store(false, Ordering::Release),
                    Err(_) => this.end(&format!("{} did not answer and was ended", this.name)),
                },
            }
        });
    }

    /// Whether it runs where the call wants its language to run.
    pub(super) fn lives_in(&self, call: &Call) -> bool {
        let language = self.key.language;
        match self.key.read_only {
            true => call.reading_place(language).is_some_and(|place| self.place.is(&place)),
            false => self.place.is(&call.writing_place(language)),
        }
    }

    /// Takes it out of use.
    fn retire(&self, why: &str) {
        lock(&self.why).get_or_insert_with(|| why.to_owned());
        self.ended.store(true, Ordering::Release);
    }

    /// Takes it out of use and ends its processes.
    pub(super) fn end(&self, why: &str) {
        self.retire(why);
        self.control.kill();
    }

    /// Why it is no more.
    pub(super) fn obituary(&self) -> String {
        let why = lock(&self.why).clone();
        let words = self.last_words();
        let why = why.unwrap_or_else(|| format!("{} ended unexpectedly", self.name));
        if words.is_empty() { why } else { format!("{why}\n{words}") }
    }

    fn last_words(&self) -> String {
        let words = lock(&self.words);
        let text = String::from_utf8_lossy(&words);
        let lines: Vec<&str> = text.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n").trim().to_owned()
    }

    /// How long it has been up.
    pub(crate) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Holds it in use.
    pub(super) fn hold(self: Arc<Self>) -> InUse {
        self.busy.fetch_add(1, Ordering::Relaxed);
        InUse(self)
    }

    /// A file of the workspace as the server calls it.
    pub(super) fn theirs(&self, relative: &Path) -> PathBuf {
        self.place.paths.inward(&self.workspace.root().join(relative))
    }

    /// A file of the server's as the workspace calls it, when it is in there.
    pub(super) fn ours(&self, path: &Path) -> Option<PathBuf> {
        let path = self.place.paths.outward(path);
        path.strip_prefix(self.workspace.root()).ok().map(Path::to_owned)
    }

    /// Words of the server's with files of the workspace called as the workspace calls them.
    pub(super) fn within(&self, words: &str) -> String {
        let root = self.theirs(Path::new(""));
        match root.to_str().map(|root| root.trim_end_matches('/')).filter(|root| !root.is_empty()) {
            Some(root) => words.replace(&format!("{root}/"), ""),
            None => words.to_owned(),
        }
    }

    /// Where else its files can be read: in its sandbox.
    pub(super) fn sandbox(&self) -> &Arc<dyn Sandbox> {
        &self.place.sandbox
    }

    /// Where a place leads; nowhere when the server refuses to tell, as it does for files that it does not load.
    pub(super) async fn leads(
        &self,
        call: &Call,
        file: &Path,
        position: Position,
    ) -> Result<Vec<Location>, Trouble> {
        let params = json!({"textDocument": {"uri": to_uri(&self.theirs(file))}, "position": position});
        self.places(call, "textDocument/definition", params).await
    }

    /// The places that an answer names; none when the server refuses to answer.
    pub(super) async fn places(
        &self,
        call: &Call,
        method: &str,
        params: Value,
    ) -> Result<Vec<Location>, Trouble> {
        let asked = async {
            match self.client.request(method, params).await {
                Err(::lsp::Error::Refused { .. }) => Ok(Value::Null),
                answer => answer,
            }
        };
        let _present = self.present().await;
        Ok(locations(&self.in_time(call, asked).await?))
    }

    /// Awaits an answer for as long as a server may take.
    pub(super) async fn in_time<T>(
        &self,
        call: &Call,
        answer: impl Future<Output = Result<T, ::lsp::Error>>,
    ) -> Result<T, Trouble> {
        let limit = call.host().settings.limits.server_answer;
        match tokio::time::timeout(limit, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(Trouble::of(&error, self)),
            Err(_) => {
                let why =
                    format!("{} did not answer within {} s and was ended", self.name, limit.as_secs_f32());
                self.end(&why);
                Err(ToolError::with_hint(why, "the next call starts it anew").into())
            }
        }
    }

    /// Waits until its answers can be trusted, when it will be asked about this file next.
    pub(super) async fn settle_about(&self, call: &Call, file: &ContainedPath) -> Result<(), Trouble> {
        let path = self.theirs(file.relative());
        let rehearse = async {
            self.client.rehearse(&path).await;
            std::future::pending().await
        };
        tokio::select! {
            biased;
            settled = self.settle(call) => settled,
            never = rehearse => never,
        }
    }

    /// Waits until its answers can be trusted, and tells what it waits for.
    pub(super) async fn settle(&self, call: &Call) -> Result<(), Trouble> {
        let begin = Instant::now();
        let tell = |doing: &str| {
            call.progress.report(ProgressUpdate {
                done: begin.elapsed().as_secs_f64(),
                total: None,
                message: format!("waiting for {}: {doing}", self.name),
            });
        };
        match tokio::time::timeout(LOADING, self.client.settle(tell)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Trouble::of(&error, self)),
            Err(_) => {
                // Whoever loads still answers, if only that it does not know what is meant.
                let sign = self.client.request("$/alive", Value::Null);
                if tokio::time::timeout(ALIVE, sign).await.is_err() {
                    self.end("it gave no sign of life while it loaded the project");
                    return Err(ToolError::with_hint(self.obituary(), "the next call starts it anew").into());
                }
                let why = format!("{} is still loading the project", self.name);
                Err(ToolError::with_hint(why, "it goes on: call again in a while").into())
            }
        }
    }

    /// Tells the server everything that changed in the workspace, and shows it these files if it takes any now. Gives
    /// their texts.
    pub(super) async fn sync(&self, call: &Call, shown: &[ContainedPath]) -> Result<Vec<String>, Trouble> {
        Ok(self.sync_telling(call, shown).await?.texts)
    }

    /// The same; gives what it was told as well.
    pub(super) async fn sync_telling(&self, call: &Call, shown: &[ContainedPath]) -> Result<Synced, Trouble> {
        let mut told = Arc::clone(&self.told).lock_owned().await;
        let open: HashSet<PathBuf> = self.client.open().iter().filter_map(|path| self.ours(path)).collect();
        let (wanted, key) = (shown.to_vec(), self.key.clone());
        let go = self.client.kind() == Kind::Gopls;
        let look = move |call: &Call| {
            let asked = Asked { open: &open, shown: &wanted };
            let seen = told.look(&call.workspace, &asked)?;
            let new = seen.as_ref().filter(|_| go).map(|seen| unloaded(call, &key, &told, seen));
            Ok((told, open, seen, new.unwrap_or_default()))
        };
        let (mut told, open, seen, unloaded) = call.paced(&self.pace, look).await?;
        let Some(seen) = seen.filter(|_| unloaded.len() <= UNLOADED) else {
            let why = format!("{} must look at everything again", self.name);
            self.end(&why);
            return Err(Trouble::Gone(why));
        };
        if !seen.changed.is_empty() && !self.client.settled() {
            // While it loads it may take a change for part of what it loads, or not.
            self.settle(call).await?;
        }
        let mut changes = Vec::new();
        for (relative, text) in &seen.changed {
            let path = self.theirs(relative);
            let kind = told.becomes(relative, text.is_some());
            match text {
                None => self.client.hide(&path),
                Some(Some(text)) if open.contains(relative) => drop(self.client.show(&path, text)),
                Some(_) => {}
            }
            changes.push((path, kind));
        }
        told.follow(seen.stand);
        self.changes.fetch_add(changes.len() as u64, Ordering::Relaxed);
        let now = |path: &Path| self.ours(path).map_or(OnDisk::Other, |file| on_disk(&self.workspace, &file));
        self.in_time(call, self.client.absorb(&changes, now)).await?;
        for (path, text) in &unloaded {
            self.client.show(&self.theirs(path), text);
        }
        for (path, _) in &unloaded {
            // It loads a file's package when it is asked about the file.
            self.leads(call, path, Position { line: 0, character: 0 }).await?;
        }
        if self.client.takes_files() {
            for (path, text) in shown.iter().zip(&seen.shown) {
                self.in_time(call, self.client.present(&self.theirs(path.relative()), text)).await?;
            }
        }
        Ok(Synced { texts: seen.shown, changed: seen.changed.into_keys().collect() })
    }
}

/// What gopls must be shown to know of: it loads the folders that it finds at its start, and of those that come later
/// only what others import. More than are shown when they are too many.
fn unloaded(call: &Call, key: &Key, told: &Told, seen: &Seen) -> Vec<(PathBuf, String)> {
    // As `go list ./...` has it.
    let skipped = |path: &PathBuf| {
        let folders = path.parent().into_iter().flat_map(Path::iter).filter_map(|name| name.to_str());
        folders.into_iter().any(|name| name.starts_with(['.', '_']) || name == "testdata" || name == "vendor")
    };
    let new = told.in_new_folders(&call.workspace, seen).into_iter().filter(|path| !skipped(path));
    let new = of_server(call, key, new).into_iter().take(UNLOADED + 1);
    new.filter_map(|path| Some((source_of(&call.workspace, &path, u64::MAX)?, path)))
        .map(|(text, path)| (path, text))
        .collect()
}
