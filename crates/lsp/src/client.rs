//! The connection: requests out, answers in, and what the server tells on the way.

use crate::{
    Diagnostic, Encoding, Kind, codec,
    types::{diagnostics, tsserver_diagnostics},
    uri::to_uri,
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader},
    sync::{mpsc, oneshot, watch},
    time::{sleep, timeout},
};

/// Documents that are open at once; those used longest ago are closed.
const OPEN: usize = 96;
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

struct Document {
    version: i64,
    text: Arc<str>,
    used: u64,
}

#[derive(Default)]
struct Documents {
    open: HashMap<PathBuf, Document>,
    clock: u64,
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
        tokio::spawn(read_all(Arc::downgrade(&inner), from));
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
        loop {
            match self.once(method, &params).await {
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

    /// The documents that are open.
    #[must_use]
    pub fn open(&self) -> Vec<PathBuf> {
        lock(&self.0.documents).open.keys().cloned().collect()
    }

    /// Whether it can be shown files now: a file that is opened before rust-analyzer has found it makes that load the
    /// project once more.
    #[must_use]
    pub fn takes_files(&self) -> bool {
        self.kind() != Kind::RustAnalyzer || lock(&self.0.state).rested
    }

    /// Whether a document is open.
    #[must_use]
    pub fn is_open(&self, path: &Path) -> bool {
        lock(&self.0.documents).open.contains_key(path)
    }

    /// Shows the server a text in place of a file's, or what it is now. Gives a number for [`Client::put_back`].
    pub fn show(&self, path: &Path, text: &str) -> u64 {
        self.show_among(&mut lock(&self.0.documents), path, text)
    }

    fn show_among(&self, documents: &mut Documents, path: &Path, text: &str) -> u64 {
        documents.clock += 1;
        let clock = documents.clock;
        if let Some(document) = documents.open.get_mut(path) {
            document.used = clock;
            if *document.text != *text {
                document.version += 1;
                document.text = text.into();
                self.notify(
                    "textDocument/didChange",
                    json!({
                        "textDocument": {"uri": to_uri(path), "version": document.version},
                        "contentChanges": [{"text": text}],
                    }),
                );
            }
            return clock;
        }
        if documents.open.len() >= OPEN {
            let oldest = documents.open.iter().min_by_key(|(_, document)| document.used);
            if let Some(path) = oldest.map(|(path, _)| path.clone()) {
                documents.open.remove(&path);
                self.close(&path);
            }
        }
        documents.open.insert(path.to_owned(), Document { version: 1, text: text.into(), used: clock });
        self.notify(
            "textDocument/didOpen",
            json!({"textDocument": {
                "uri": to_uri(path), "languageId": language_id(path), "version": 1, "text": text,
            }}),
        );
        clock
    }

    /// Shows another text in place of one that was shown under this number, or the file's own, unless the document has
    /// been shown or closed since.
    pub fn put_back(&self, shown: u64, path: &Path, text: Option<&str>) {
        let mut documents = lock(&self.0.documents);
        if documents.open.get(path).is_none_or(|document| document.used != shown) {
            return;
        }
        if let Some(text) = text {
            self.show_among(&mut documents, path, text);
        } else {
            documents.open.remove(path);
            self.close(path);
        }
    }

    /// Takes a document back; the file's own text counts again.
    pub fn hide(&self, path: &Path) {
        if lock(&self.0.documents).open.remove(path).is_some() {
            self.close(path);
        }
    }

    fn close(&self, path: &Path) {
        self.notify("textDocument/didClose", json!({"textDocument": {"uri": to_uri(path)}}));
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
        let uri = to_uri(path);
        if self.offers("diagnosticProvider") {
            let params = json!({"textDocument": {"uri": uri}});
            return Ok(diagnostics(&self.request("textDocument/diagnostic", params).await?));
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
        // It tells when it likes: wait for a word about what it was shown last, then take what it said.
        let version = lock(&self.0.documents).open.get(path).map(|document| document.version);
        let mut news = self.0.news.subscribe();
        let said = async {
            let current = |said: &Published| said.version.is_none() || said.version == version;
            while !lock(&self.0.state).published.get(&uri).is_some_and(current)
                && news.changed().await.is_ok()
            {}
        };
        let _ = timeout(SIGN, said).await;
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

async fn read_all(client: Weak<Inner>, from: impl AsyncRead + Unpin) {
    let mut from = BufReader::with_capacity(64 << 10, from);
    loop {
        let message = codec::read(&mut from).await;
        let Some(inner) = client.upgrade() else { return };
        match message {
            Ok(Some(message)) => match serde_json::from_slice(&message) {
                Ok(message) => inner.take(message),
                Err(error) => tracing::debug!("a language server sent no JSON: {error}"),
            },
            ended => {
                if let Err(error) = ended {
                    tracing::debug!("reading from a language server: {error}");
                }
                lock(&inner.state).end();
                inner.news.send_modify(|news| *news += 1);
                return;
            }
        }
    }
}

impl Inner {
    fn send(&self, message: &Value) {
        // A server that has gone is noticed by the reader.
        let _ = self.out.send(codec::frame(message.to_string().as_bytes()));
    }

    fn take(&self, mut message: Value) {
        let method = message.get("method").and_then(Value::as_str).map(str::to_owned);
        let id = message.get("id").cloned();
        match (method, id) {
            (Some(method), Some(id)) => {
                let params = message.get("params").unwrap_or(&Value::Null);
                let answer = match self.answer(&method, params) {
                    Some(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
                    None => {
                        let error = json!({"code": -32601, "message": format!("{method}: not offered")});
                        json!({"jsonrpc": "2.0", "id": id, "error": error})
                    }
                };
                self.send(&answer);
            }
            (Some(method), None) => {
                self.note(&method, message.get("params").unwrap_or(&Value::Null));
                self.news.send_modify(|news| *news += 1);
            }
            (None, id) => {
                let waiting =
                    id.and_then(|id| id.as_i64()).and_then(|id| lock(&self.state).pending.remove(&id));
                let Some(waiting) = waiting else { return };
                let answer = match message.get("error") {
                    Some(error) => Err(Error::Refused {
                        code: error.get("code").and_then(Value::as_i64).unwrap_or_default(),
                        message: error.get("message").and_then(Value::as_str).unwrap_or_default().to_owned(),
                    }),
                    None => Ok(message.get_mut("result").map(Value::take).unwrap_or_default()),
                };
                let _ = waiting.send(answer);
            }
        }
    }

    /// What a server asks of a client; `None` for what this one does not do.
    fn answer(&self, method: &str, params: &Value) -> Option<Value> {
        Some(match method {
            "workspace/configuration" => {
                let items = params.get("items").and_then(Value::as_array).map(Vec::as_slice);
                items.unwrap_or_default().iter().map(|item| self.configuration(item)).collect()
            }
            "workspace/workspaceFolders" => {
                json!([{"uri": to_uri(&self.hello.root), "name": "workspace"}])
            }
            // Only our own tools write.
            "workspace/applyEdit" => json!({"applied": false}),
            "window/showDocument" => json!({"success": false}),
            "client/registerCapability" => {
                let all = params.get("registrations").and_then(Value::as_array).map(Vec::as_slice);
                let methods = all.unwrap_or_default().iter().filter_map(|one| one.get("method")?.as_str());
                let mut state = lock(&self.state);
                // The one that matters: who offers it this way offers nothing at the beginning.
                if methods.into_iter().any(|method| method == "textDocument/diagnostic") {
                    state.registered.insert("diagnosticProvider".to_owned());
                }
                Value::Null
            }
            "client/unregisterCapability"
            | "window/workDoneProgress/create"
            | "window/showMessageRequest"
            | "workspace/diagnostic/refresh"
            | "workspace/semanticTokens/refresh"
            | "workspace/inlayHint/refresh"
            | "workspace/codeLens/refresh" => Value::Null,
            _ => return None,
        })
    }

    /// A section of the configuration: that of the options, or all of them where a server's section is its own.
    fn configuration(&self, item: &Value) -> Value {
        let section = item.get("section").and_then(Value::as_str).unwrap_or_default();
        let options = &self.hello.options;
        let named = section.split('.').try_fold(options, |value, name| value.get(name));
        match (named, self.hello.kind) {
            (Some(named), _) => named.clone(),
            (None, Kind::Pyright | Kind::Other) => Value::Null,
            (None, _) => options.clone(),
        }
    }

    fn note(&self, method: &str, params: &Value) {
        let text = |value: &Value, name: &str| {
            value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let mut state = lock(&self.state);
        match method {
            "$/progress" => {
                let (Some(token), Some(value)) = (params.get("token"), params.get("value")) else { return };
                let token = token.to_string();
                match value.get("kind").and_then(Value::as_str) {
                    Some("begin") => {
                        let work = Work { title: text(value, "title"), message: text(value, "message") };
                        state.works.insert(token, work);
                    }
                    Some("report") => {
                        if let Some(work) = state.works.get_mut(&token) {
                            work.message = text(value, "message");
                        }
                    }
                    _ => {
                        state.works.remove(&token);
                        state.loads += 1;
                    }
                }
            }
            "experimental/serverStatus" => {
                state.quiescent = params.get("quiescent").and_then(Value::as_bool);
                state.rested |= state.quiescent == Some(true);
                let bad = params.get("health").and_then(Value::as_str).is_some_and(|health| health != "ok");
                state.trouble = bad.then(|| text(params, "message")).filter(|why| !why.is_empty());
            }
            "textDocument/publishDiagnostics" => {
                let version = params.get("version").and_then(Value::as_i64);
                state
                    .published
                    .insert(text(params, "uri"), Published { version, found: diagnostics(params) });
            }
            "window/logMessage" => {
                let said = text(params, "message");
                // pyright counts them each time it has looked.
                if said.contains("source file") && (said.contains("Found ") || said.starts_with("No ")) {
                    state.scans += 1;
                }
                // typescript-language-server stays when a signal ended the one behind it, and answers everything with
                // nothing. It says so, as an error, which it always tells, before it answers what was asked.
                if self.hello.kind == Kind::TypeScript && said.contains("[tsserver] Exited") {
                    state.end();
                }
                tracing::debug!("language server: {said}");
            }
            _ => {}
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

/// The protocol's name for the language of a file.
fn language_id(path: &Path) -> &'static str {
    match path.extension().and_then(|end| end.to_str()).unwrap_or_default() {
        "go" => "go",
        "rs" => "rust",
        "py" | "pyi" => "python",
        "ts" | "mts" | "cts" => "typescript",
        "tsx" => "typescriptreact",
        "jsx" => "javascriptreact",
        "js" | "mjs" | "cjs" => "javascript",
        _ => match path.file_name().and_then(|name| name.to_str()) {
            Some("go.mod") => "go.mod",
            Some("go.sum") => "go.sum",
            Some("go.work") => "go.work",
            _ => "plaintext",
        },
    }
}
