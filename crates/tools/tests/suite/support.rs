//! A host in this process, and a client of it.

use config::{Limits, NamedRoot, Secret, Settings};
use sandbox::direct::Direct;
use serde_json::{Map, Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tools::{Access, Catalog, Host, Progress, ProgressUpdate, Reply, SessionGuard};

pub(crate) const SECRET: &str = "correct-horse-battery-staple";

/// A host over workspaces in a folder that goes with it.
pub(crate) struct Bench {
    pub(crate) host: Arc<Host>,
    pub(crate) dir: TempDir,
}

/// What a bench is made from.
pub(crate) struct Setup {
    pub(crate) settings: Settings,
    pub(crate) catalog: Catalog,
    pub(crate) workspaces: &'static [&'static str],
}

impl Default for Setup {
    fn default() -> Self {
        let environment = std::env::vars().collect();
        let secrets = vec![Secret { name: "TOKEN".to_owned(), value: SECRET.to_owned() }];
        let mut settings = Settings { environment, secrets, ..Settings::default() };
        // An edit waits for a ninth of that, on however busy a machine.
        settings.limits.server_answer = std::time::Duration::from_secs(270);
        Self { settings, catalog: Catalog::shipped(), workspaces: &["default"] }
    }
}

impl Setup {
    pub(crate) fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.settings.limits);
        self
    }

    pub(crate) fn bench(mut self) -> Bench {
        let dir = TempDir::new().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for name in self.workspaces {
            fs::create_dir(root.join(name)).unwrap();
            self.settings.workspaces.push(NamedRoot { name: (*name).to_owned(), root: root.join(name) });
        }
        if self.settings.state_dir.as_os_str().is_empty() {
            self.settings.state_dir = root.join(".state");
        }
        let variables = self.settings.environment.iter().map(|(k, v)| (k.into(), v.into())).collect();
        let sandbox = Arc::new(Direct::new("direct").with_baseline(variables));
        Bench { host: Host::with_catalog(self.settings, sandbox, self.catalog).unwrap(), dir }
    }
}

impl Bench {
    /// The shipped tools over one workspace.
    pub(crate) fn new() -> Self {
        Setup::default().bench()
    }

    pub(crate) fn client(&self) -> Client {
        self.client_with(Access::Full)
    }

    pub(crate) fn client_with(&self, access: Access) -> Client {
        Client { session: self.host.session("test", access) }
    }

    /// The root of the only workspace.
    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("default")
    }

    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// One session.
pub(crate) struct Client {
    pub(crate) session: SessionGuard,
}

impl Client {
    pub(crate) async fn call(&self, tool: &str, args: Value) -> Reply {
        self.call_with(tool, args, CancellationToken::new(), Progress::default()).await
    }

    pub(crate) async fn call_with(
        &self,
        tool: &str,
        args: Value,
        cancel: CancellationToken,
        progress: Progress,
    ) -> Reply {
        self.session.call(tool, object(args), cancel, progress).await
    }

    /// The same, as often as a language server is said to need more time: on a busy machine it may.
    async fn answered(&self, tool: &str, args: Value) -> Reply {
        let mut reply = self.call(tool, args.clone()).await;
        for _ in 0..10 {
            if !reply.is_error || !reply.all_text().contains(" is still loading the project\n") {
                break;
            }
            reply = self.call(tool, args.clone()).await;
        }
        reply
    }

    /// The text of a call that must succeed.
    pub(crate) async fn ok(&self, tool: &str, args: Value) -> String {
        let reply = self.answered(tool, args).await;
        assert!(!reply.is_error, "{tool}: {}", reply.all_text());
        reply.all_text()
    }

    /// The text of a call that must fail.
    pub(crate) async fn err(&self, tool: &str, args: Value) -> String {
        let reply = self.answered(tool, args).await;
        assert!(reply.is_error, "{tool}: {}", reply.all_text());
        reply.all_text()
    }

    /// A call in a task of its own.
    pub(crate) fn spawn(&self, tool: &'static str, args: Value) -> Running {
        let session = Arc::clone(&self.session);
        let cancel = CancellationToken::new();
        let token = cancel.clone();
        let task =
            tokio::spawn(async move { session.call(tool, object(args), token, Progress::default()).await });
        Running { task, cancel }
    }
}

/// A call that runs.
pub(crate) struct Running {
    pub(crate) task: tokio::task::JoinHandle<Reply>,
    pub(crate) cancel: CancellationToken,
}

fn object(args: Value) -> Map<String, Value> {
    match args {
        Value::Object(args) => args,
        other => panic!("arguments are an object, not {other}"),
    }
}

/// Progress whose updates can be looked at.
pub(crate) fn watched() -> (Progress, Arc<Mutex<Vec<ProgressUpdate>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    (Progress::to(move |update| sink.lock().unwrap().push(update)), seen)
}

/// The value after `key` up to white space or a quote.
pub(crate) fn after<'a>(text: &'a str, key: &str) -> &'a str {
    let (_, rest) = text.split_once(key).unwrap_or_else(|| panic!("no {key:?} in {text:?}"));
    rest.split(|c: char| c.is_whitespace() || c == '"' || c == ';').next().unwrap_or(rest)
}

pub(crate) fn none() -> Value {
    json!({})
}

/// Asks until there is an answer; a minute is the end of patience, not a measure.
pub(crate) async fn until<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(std::time::Instant::now() < patience, "nothing came of it");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}
