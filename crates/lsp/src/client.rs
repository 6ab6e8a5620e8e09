//! The connection: requests out, answers in, and what the server tells on the way.

mod documents;
mod hear;

use self::documents::Documents;
use crate::{
    Diagnostic, Encoding, Kind,
    types::{diagnostics, tsserver_diagnostics},
    uri::to_uri,
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
    sync::{mpsc, oneshot, watch},
    time::{sleep, timeout},
};

/// How often a request is made again that the server gave up because something changed.
const AGAIN: u32 = 40;
/// How long a sign is waited for that a server may not give.
const SIGN: Duration = Duration::from_secs(3);

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The server has gone.
    #[error("the language server has gone")]
    Gone,
    /// It refused.
    #[error("{message}")]
    Refused {
        /// The protocol's number.
        code: i64,
        /// Its words.
        message: String,
    },
}

/// What a server is told at the beginning.
#[derive(Debug, Clone)]
pub struct Hello {
    /// Which one it is.
    pub kind: Kind,
    /// The project, as the server sees it.
    pub root: PathBuf,
    /// Its options, which are also its configuration.
    pub options: Value,
}

/// A piece of work a server reports.
pub(crate) struct Work {
    pub(crate) title: String,
    message: String,
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.message.as_str() {
            "" => write!(f, "{}", self.title),
            message => write!(f, "{}: {message}", self.title),
        }
    }
}

/// What the server has told so far.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) works: BTreeMap<String, Work>,
    pub(crate) quiescent: Option<bool>,
    /// Whether it has rested once.
    rested: bool,
    /// Looks for sources.
    pub(crate) scans: u64,
    /// The look that must be over.
    pub(crate) wanted: u64,
    /// Works that are over.
    pub(crate) loads: u64,
    /// What it offers since it began.
    registered: HashSet<String>,
    trouble: Option<String>,
    pending: HashMap<i64, oneshot::Sender<Result<Value, Error>>>,
    published: HashMap<String, Published>,
    gone: bool,
}

impl State {
    /// Nothing more comes from the server; whoever waits for an answer learns that.
    fn end(&mut self) {
        self.gone = true;
        self.pending.clear();
    }
}

/// What a server said of its own accord, and of which version.
struct Published {
    version: Option<i64>,
    found: Vec<Diagnostic>,
}

struct Inner {
    hello: Hello,
    out: mpsc::UnboundedSender<Vec<u8>>,
    state: Mutex<State>,
    documents: Mutex<Documents>,
    news: watch::Sender<u64>,
    next: AtomicI64,
    /// What `initialize` brought: capabilities and encoding.
    granted: Mutex<(Value, Encoding)>,
}

/// A connection to a server. Clones share it.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

impl Client {
    /// Connects to a server that was just started. Must be called inside a runtime.
    pub fn connect(
        hello: Hello,
        from: impl AsyncRead + Send + Unpin + 'static,
        into: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        let (out, lines) = mpsc::unbounded_channel();
        let inner = Arc::new(Inner {
            hello,
            out,
            state: Mutex::default(),
            documents: Mutex::default(),
            news: watch::Sender::new(0),
            next: AtomicI64::new(1),
            granted: Mutex::default(),
        });
        tokio::spawn(write_all(lines, into));
        tokio::spawn(hear::read_all(Arc::downgrade(&inner), from));
        Self(inner)
    }

    /// The beginning of every conversation.
    ///
    /// # Errors
    /// The server has gone or refuses.
    pub async fn initialize(&self) -> Result<(), Error> {
        let Hello { root, options, .. } = &self.0.hello;
        let uri = to_uri(root);
        let params = json!({
            // Where it runs, our number may mean somebody else, whose end would be its own.
            "processId": null,
            "clientInfo": {"name": "codegen-sandbox", "version": env!("CARGO_PKG_VERSION")},
            "rootUri": uri,
            "rootPath": root.to_string_lossy(),
            "workspaceFolders": [{"uri": uri, "name": "workspace"}],
            "initializationOptions": options,
            "capabilities": capabilities(),
        });
        let answer = self.request("initialize", params).await?;
        let granted = answer.get("capabilities").cloned().unwrap_or_default();
        let encoding =
            granted.get("positionEncoding").and_then(Value::as_str).map(Encoding::named).unwrap_or_default();
        *lock(&self.0.granted) = (granted, encoding);
        self.notify("initialized", json!({}));
        if self.0.hello.kind == Kind::Pyright {
            self.notify("workspace/didChangeConfiguration", json!({"settings": null}));
        }
        Ok(())
    }

    /// Asks; an answer that the server gave up because something changed is asked for again. Dropping the
    /// future tells the server that nobody waits any more.
    ///
    /// # Errors
    /// The server has gone or refuses.
    pub async fn request(&self, method: &str, params: Value) -> Result<Value, Error> {
        /// The content changed, or the server cancelled.
        const GIVEN_UP: [i64; 3] = [-32801, -32802, -32800];
        let mut tries = 0;
        let mut patience = self.kind().patience(method).iter();
        loop {
            let answer = match patience.next() {
                // Nobody waits for this one any more, which the server is told.
                Some(patience) => match timeout(*patience, self.once(method, &params)).await {
                    Ok(answer) => answer,
                    Err(_) => continue,
                },
                None => self.once(method, &params).await,
            };
            match answer {
                Err(Error::Refused { code, .. }) if GIVEN_UP.contains(&code) && tries < AGAIN => {
                    tries += 1;
                    sleep(Duration::from_millis(10)).await;
                }
                done => return done,
            }
        }
    }

    async fn once(&self, method: &str, params: &Value) -> Result<Value, Error> {
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        let (tell, told) = oneshot::channel();
        {
            let mut state = lock(&self.0.state);
            if state.gone {
                return Err(Error::Gone);
            }
            state.pending.insert(id, tell);
        }
        let waiting = Waiting { inner: &self.0, id };
        self.0.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let answer = told.await.unwrap_or(Err(Error::Gone));
        drop(waiting);
        answer
    }

    /// Tells.
    pub fn notify(&self, method: &str, params: Value) {
        self.0.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Waits until the server's answers can be trusted; `tell` hears what it is doing.
    ///
    /// # Errors
    /// The server has gone.
    pub async fn settle(&self, mut tell: impl FnMut(&str)) -> Result<(), Error> {
        let kind = self.0.hello.kind;
        let mut news = self.0.news.subscribe();
        loop {
            let doing = {
                let state = lock(&self.0.state);
                if state.gone {
                    return Err(Error::Gone);
                }
                kind.waits_for(&state)
            };
            let Some(doing) = doing else { return Ok(()) };
            tell(&doing.what);
            match doing.patience {
                None => drop(news.changed().await),
                Some(patience) => {
                    if timeout(patience, news.changed()).await.is_err() {
                        // It may have nothing to say about it; then it is not waited for again.
                        let mut state = lock(&self.0.state);
                        state.loads += 1;
                        state.scans += u64::from(state.scans == 0);
                        state.wanted = state.scans;
                    }
                }
            }
        }
    }

    /// Waits until it is in the middle of a piece of work; for ever, when that never comes.
    pub(crate) async fn begins(&self, title: &str) {
        let mut news = self.0.news.subscribe();
        let is_on = |work: &Work| work.title == title && !work.message.is_empty();
        while !lock(&self.0.state).works.values().any(is_on) && news.changed().await.is_ok() {}
    }

    /// Whether its answers can be trusted now.
    #[must_use]
    pub fn settled(&self) -> bool {
        let state = lock(&self.0.state);
        !state.gone && self.0.hello.kind.waits_for(&state).is_none()
    }

    /// Which server it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.0.hello.kind
    }

    /// What the server counts along a line.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        lock(&self.0.granted).1
    }

    /// Whether the server offers something ("hoverProvider").
    #[must_use]
    pub fn offers(&self, capability: &str) -> bool {
        let granted = lock(&self.0.granted).0.get(capability).cloned().unwrap_or_default();
        !matches!(granted, Value::Null | Value::Bool(false))
            || lock(&self.0.state).registered.contains(capability)
    }

    /// What the server says is wrong with the project.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        lock(&self.0.state).trouble.clone()
    }

    /// Whether it has gone.
    #[must_use]
    pub fn gone(&self) -> bool {
        lock(&self.0.state).gone
    }

    /// The server is to look for sources once more before it is believed again.
    pub(crate) fn expect_look(&self) {
        let mut state = lock(&self.0.state);
        state.wanted = state.scans + 1;
    }

    /// What is wrong with a file, as of now. The file should be open.
    ///
    /// # Errors
    /// The server has gone or refuses.
    pub async fn diagnose(&self, path: &Path) -> Result<Vec<Diagnostic>, Error> {
        const ON_REQUEST: &str = "diagnosticProvider";
        let uri = to_uri(path);
        let pull = async || {
            let params = json!({"textDocument": {"uri": uri}});
            Ok(diagnostics(&self.request("textDocument/diagnostic", params).await?))
        };
        if self.offers(ON_REQUEST) {
            return pull().await;
        }
        if self.kind() == Kind::TypeScript {
            let mut found = Vec::new();
            for command in ["syntacticDiagnosticsSync", "semanticDiagnosticsSync"] {
                let params = json!({
                    "command": "typescript.tsserverRequest",
                    "arguments": [command, {"file": path.to_string_lossy()}],
                });
                found.extend(tsserver_diagnostics(&self.request("workspace/executeCommand", params).await?));
            }
            return Ok(found);
        }
        // It tells when it likes: wait for a word about what it was shown last, then take what it said. Or it has yet to
        // say that it can be asked, and tells nothing then.
        let version = lock(&self.0.documents).open.get(path).map(|document| document.version);
        let mut news = self.0.news.subscribe();
        let said = async {
            let current = |said: &Published| said.version.is_none() || said.version == version;
            while !lock(&self.0.state).published.get(&uri).is_some_and(current)
                && !self.offers(ON_REQUEST)
                && news.changed().await.is_ok()
            {}
        };
        let _ = timeout(SIGN, said).await;
        if self.offers(ON_REQUEST) {
            return pull().await;
        }
        Ok(lock(&self.0.state).published.get(&uri).map(|said| said.found.clone()).unwrap_or_default())
    }

    /// The files of the project that an open file belongs to, from a server that can tell; else none.
    ///
    /// # Errors
    /// The server has gone.
    pub async fn project_files(&self, path: &Path) -> Result<Vec<PathBuf>, Error> {
        if self.kind() != Kind::TypeScript {
            return Ok(Vec::new());
        }
        let params = json!({
            "command": "typescript.tsserverRequest",
            "arguments": ["projectInfo", {"file": path.to_string_lossy(), "needFileNameList": true}],
        });
        let answer = match self.request("workspace/executeCommand", params).await {
            Err(Error::Refused { .. }) => return Ok(Vec::new()),
            answer => answer?,
        };
        let names = answer.pointer("/body/fileNames").and_then(Value::as_array).map(Vec::as_slice);
        Ok(names.unwrap_or_default().iter().filter_map(Value::as_str).map(PathBuf::from).collect())
    }

    /// Makes the project that an open file belongs to what its files say now, where the server does so only for a
    /// project that is asked about: until then, it does not know what they import.
    ///
    /// # Errors
    /// The server has gone.
    pub async fn renew_project(&self, path: &Path) -> Result<(), Error> {
        let (method, params) = match self.kind() {
            Kind::TypeScript => (
                "workspace/executeCommand",
                json!({
                    "command": "typescript.tsserverRequest",
                    "arguments": ["projectInfo", {"file": path.to_string_lossy(), "needFileNameList": false}],
                }),
            ),
            // Any question about what something means will do.
            Kind::NativeTypeScript => {
                let start = json!({"line": 0, "character": 0});
                ("textDocument/definition", json!({"textDocument": {"uri": to_uri(path)}, "position": start}))
            }
            _ => return Ok(()),
        };
        match self.request(method, params).await {
            Err(Error::Gone) => Err(Error::Gone),
            Ok(_) | Err(Error::Refused { .. }) => Ok(()),
        }
    }

    /// Asks the server to end; it has two seconds, and whoever owns its process ends it then.
    pub async fn farewell(&self) {
        let _ = timeout(Duration::from_secs(2), self.once("shutdown", &Value::Null)).await;
        self.notify("exit", Value::Null);
    }
}

/// A request somebody waits for.
struct Waiting<'a> {
    inner: &'a Inner,
    id: i64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let given_up = lock(&self.inner.state).pending.remove(&self.id).is_some();
        if given_up {
            let params = json!({"id": self.id});
            self.inner.send(&json!({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": params}));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn write_all(mut lines: mpsc::UnboundedReceiver<Vec<u8>>, mut into: impl AsyncWrite + Unpin) {
    while let Some(message) = lines.recv().await {
        if into.write_all(&message).await.is_err() || into.flush().await.is_err() {
            return;
        }
    }
}

/// What this client can do.
fn capabilities() -> Value {
    json!({
        "general": {"positionEncodings": ["utf-8", "utf-16"]},
        "window": {"workDoneProgress": true},
        "experimental": {"serverStatusNotification": true},
        "workspace": {
            "configuration": true,
            "workspaceFolders": true,
            "didChangeWatchedFiles": {"dynamicRegistration": true, "relativePatternSupport": true},
            "didChangeConfiguration": {},
            "workspaceEdit": {"documentChanges": true, "resourceOperations": []},
            "symbol": {},
        },
        "textDocument": {
            "synchronization": {"didSave": true},
            "definition": {"linkSupport": false},
            "references": {},
            "rename": {"prepareSupport": true},
            "hover": {"contentFormat": ["markdown", "plaintext"]},
            "documentSymbol": {"hierarchicalDocumentSymbolSupport": true},
            "callHierarchy": {},
            "publishDiagnostics": {},
            "diagnostic": {"dynamicRegistration": true},
        },
    })
}
