//! What the SDK calls when a client asks for something.

use super::{convert, instructions, misfit, news};
use crate::{
    found,
    http::{Peer, auth::Principal},
    sessions::{Directory, InUse, Key, Opened},
};
use futures_util::FutureExt;
use http::request::Parts;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestMethod,
        CompleteRequestParams, CompleteResult, ConstString, ContentBlock, CustomRequest, CustomResult,
        DiscoverResult, ErrorCode, Extensions, Implementation, InitializeRequestParams, InitializeResult,
        JsonObject, ListPromptsRequestMethod, ListPromptsResult, ListResourceTemplatesRequestMethod,
        ListResourceTemplatesResult, ListResourcesRequestMethod, ListResourcesResult, ListToolsResult,
        PaginatedRequestParams, ProgressNotificationParam, ProgressToken, ServerCapabilities, ServerConfig,
        Tool,
    },
    service::{Peer as Client, RequestContext},
};
use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tools::{Access, Class, Host, Progress, ProgressUpdate, Reply, Session, Toolset};

/// The tool whose events are told when they happen.
const NEWSWORTHY: &str = "watch_process";

/// Progress beyond this many unsent updates is dropped: it is news, not an account.
const PROGRESS_BACKLOG: usize = 16;

/// How long the last progress may take to leave before the answer goes ahead of it.
const LAST_PROGRESS: Duration = Duration::from_millis(500);

/// Where `initialize` leaves the session it opened, for the route that learns the session's id.
#[derive(Clone, Default)]
pub(super) struct Slot(Arc<Mutex<Option<Opened>>>);

impl Slot {
    pub(super) fn take(&self) -> Option<Opened> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Fires when the HTTP request behind a call was abandoned.
#[derive(Clone)]
pub(super) struct Disconnect(pub(super) CancellationToken);

/// What never changes between requests.
struct Shared {
    directory: Option<Arc<Directory>>,
    host: Arc<Host>,
    info: ServerConfig,
    /// Languages that the start found.
    languages: Vec<&'static str>,
    /// Clients that are told when there are other tools than before.
    clients: Mutex<Vec<Client<RoleServer>>>,
}

impl Shared {
    fn listed(&self, access: Access) -> Vec<Tool> {
        let tools = self.host.tools();
        let shown = tools.listed().iter();
        shown
            .filter(|tool| access == Access::Full || tool.spec.class == Class::Read)
            .map(convert::tool)
            .collect()
    }

    fn clients(&self) -> MutexGuard<'_, Vec<Client<RoleServer>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that have left are forgotten whenever one comes.
    fn welcome(&self, client: Client<RoleServer>) {
        let mut clients = self.clients();
        clients.retain(|client| !client.is_transport_closed());
        clients.push(client);
    }
}

/// Tells clients about other tools until nobody can ask for them any more.
async fn tell_of_tools(shared: Weak<Shared>, mut changed: watch::Receiver<Arc<Toolset>>) {
    while changed.changed().await.is_ok() {
        let Some(shared) = shared.upgrade() else { return };
        let clients = shared.clients().clone();
        for client in clients {
            if let Err(error) = client.notify_tool_list_changed().await {
                tracing::debug!("a client was not told that the tools changed: {error}");
            }
        }
    }
}

/// Answers one client, or one request of a client that has no session on the wire. Cheap to clone and
/// without state of its own: sessions live in the process.
#[derive(Clone)]
pub(crate) struct Handler {
    shared: Arc<Shared>,
    own: Option<Arc<Session>>,
}

impl Handler {
    /// A handler whose requests find their sessions in `directory`.
    pub(crate) fn new(host: &Arc<Host>, directory: Option<Arc<Directory>>) -> Self {
        #[expect(deprecated, reason = "see `news`")]
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_tool_list_changed().enable_logging().build();
        let info = ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("codegen-sandbox", env!("CARGO_PKG_VERSION")));
        let (host, languages) = (Arc::clone(host), found::languages(&host.settings));
        let changed = host.tools_changed();
        let shared = Arc::new(Shared { host, info, languages, directory, clients: Mutex::default() });
        tokio::spawn(tell_of_tools(Arc::downgrade(&shared), changed));
        Self { shared, own: None }
    }

    /// The same handler for one session, whatever its requests say.
    pub(crate) fn of(&self, session: Arc<Session>) -> Self {
        Self { shared: Arc::clone(&self.shared), own: Some(session) }
    }

    /// The session a request belongs to.
    fn session(&self, context: &RequestContext<RoleServer>) -> Result<Attended, ErrorData> {
        if let Some(session) = &self.own {
            let directory = self.shared.directory.as_ref();
            let in_use = directory.and_then(|directory| directory.stay(Key::Stream(session.id.clone())));
            return Ok(Attended { session: Arc::clone(session), on_the_wire: true, in_use });
        }
        let parts = parts(&context.extensions).ok_or_else(|| fault("the request came without its head"))?;
        if let Some(session) = parts.extensions.get::<Arc<Session>>() {
            return Ok(Attended { session: Arc::clone(session), on_the_wire: true, in_use: None });
        }
        let directory =
            self.shared.directory.as_ref().ok_or_else(|| fault("there is no session directory"))?;
        let principal = principal(parts)?;
        let program = context.client_info().map(|info| format!("{} {}", info.name, info.version));
        let key = Key::Client {
            principal: principal.clone(),
            from: parts.extensions.get::<Peer>().map(|peer| peer.0.ip()),
            program: program.unwrap_or_default(),
            label: label(&parts.uri).to_owned(),
        };
        let in_use = directory.enter_or_open(&key, principal).map_err(|full| refusal(full.to_string()))?;
        Ok(Attended { session: in_use.session(), on_the_wire: false, in_use: Some(in_use) })
    }

    /// What the client may do.
    fn access(&self, context: &RequestContext<RoleServer>) -> Access {
        match (&self.own, parts(&context.extensions)) {
            (Some(session), _) => session.access,
            (None, Some(parts)) => principal(parts).map_or(Access::ReadOnly, Principal::access),
            (None, None) => Access::ReadOnly,
        }
    }

    fn instructions(&self, context: &RequestContext<RoleServer>) -> String {
        instructions::fitted(&self.shared.host, &self.shared.languages, self.access(context))
    }

    async fn call(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let Attended { session, on_the_wire, in_use } = self.session(context)?;
        // A client without a session on the wire has nowhere to hear of anything later.
        if on_the_wire && request.name == NEWSWORTHY {
            news::pass_on(&session, &context.peer);
        }
        let disconnect = parts(&context.extensions).and_then(|parts| parts.extensions.get::<Disconnect>());
        let cancel = either(&context.ct, disconnect.map(|disconnect| &disconnect.0));
        // Nor has it a connection on which the SDK would find the call that a cancel means.
        let _calling = in_use.as_ref().filter(|_| !on_the_wire).map(|in_use| {
            in_use.calling(serde_json::to_value(&context.id).unwrap_or_default(), cancel.clone())
        });
        let arguments = request.arguments.unwrap_or_default();
        let reply = match context.meta.get_progress_token() {
            None => session.call(&request.name, arguments, cancel, Progress::default()).await,
            // Boxed, since few ask for it and every call would carry the room for it.
            Some(token) => {
                Box::pin(told(&session, &request.name, arguments, cancel, &context.peer, token)).await
            }
        };
        Ok(convert::result(reply))
    }
}

/// The session of a request, kept from being idle meanwhile.
struct Attended {
    session: Arc<Session>,
    /// The client's requests say by themselves which session is theirs, and it hears what the server tells.
    on_the_wire: bool,
    in_use: Option<InUse>,
}

/// Calls a tool and tells the client of its progress meanwhile.
async fn told(
    session: &Arc<Session>,
    name: &str,
    arguments: JsonObject,
    cancel: CancellationToken,
    client: &Client<RoleServer>,
    token: ProgressToken,
) -> Reply {
    let (sender, receiver) = mpsc::channel(PROGRESS_BACKLOG);
    let progress = Progress::to(move |update| drop(sender.try_send(update)));
    let done = CancellationToken::new();
    let mut told = std::pin::pin!(tell(client, token, receiver, done.clone()));
    let mut work = std::pin::pin!(session.call(name, arguments, cancel, progress));
    let reply = loop {
        tokio::select! {
            reply = &mut work => break reply,
            // All updates are told once nothing can send any; then only the work is left.
            () = &mut told, if !done.is_cancelled() => done.cancel(),
        }
    };
    if !done.is_cancelled() {
        // No update may follow the answer.
        done.cancel();
        let _ = tokio::time::timeout(LAST_PROGRESS, told).await;
    }
    reply
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        self.shared.info.clone()
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        self.shared.welcome(context.peer.clone());
        let parts = parts(&context.extensions);
        if let (Some(directory), Some(parts)) = (&self.shared.directory, parts)
            && let Some(slot) = parts.extensions.get::<Slot>()
        {
            let opened = directory.open(principal(parts)?).map_err(|full| refusal(full.to_string()))?;
            *slot.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(opened);
        }
        let instructions = self.instructions(&context);
        Ok(self.negotiate_initialize(&request)?.with_instructions(instructions))
    }

    async fn discover(&self, context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let info = self.get_info().with_instructions(self.instructions(&context));
        Ok(DiscoverResult::from_server_info(self.supported_protocol_versions().into_owned(), info))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.shared.listed(self.access(&context))))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let tools = self.shared.host.tools();
        tools.listed().iter().find(|tool| tool.spec.name == name).map(convert::tool)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // Boxed: the SDK keeps room for the largest of all requests in every session that is open.
        guarded(Box::pin(self.call(request, &context))).await.map(Into::into)
    }

    #[expect(deprecated, reason = "see `news`")]
    async fn set_level(
        &self,
        request: rmcp::model::SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let Attended { session, on_the_wire, .. } = self.session(&context)?;
        if !on_the_wire {
            return undeclared::<rmcp::model::SetLevelRequestMethod, _>();
        }
        news::set_level(&session, request.level);
        Ok(())
    }

    // The SDK answers these with empty lists although nothing was declared.

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        undeclared::<ListPromptsRequestMethod, _>()
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        undeclared::<ListResourcesRequestMethod, _>()
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        undeclared::<ListResourceTemplatesRequestMethod, _>()
    }

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        undeclared::<CompleteRequestMethod, _>()
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(misfit::error(&request, &self.shared.host.scrubber()))
    }
}

fn undeclared<M: ConstString, T>() -> Result<T, ErrorData> {
    Err(ErrorData::method_not_found::<M>())
}

/// A panic anywhere in a call is an answer like any other: the SDK would leave the client waiting.
async fn guarded(
    call: impl Future<Output = Result<CallToolResult, ErrorData>>,
) -> Result<CallToolResult, ErrorData> {
    AssertUnwindSafe(call).catch_unwind().await.unwrap_or_else(|_| {
        Ok(CallToolResult::error(vec![ContentBlock::text("internal error; the server's log says more")]))
    })
}

/// Sends progress until there is no more to come, or `done`.
async fn tell(
    client: &Client<RoleServer>,
    token: ProgressToken,
    mut updates: mpsc::Receiver<ProgressUpdate>,
    done: CancellationToken,
) {
    loop {
        let update = tokio::select! {
            biased;
            update = updates.recv() => update,
            () = done.cancelled() => None,
        };
        let Some(update) = update else { return };
        let mut params =
            ProgressNotificationParam::new(token.clone(), update.done).with_message(update.message);
        params.total = update.total;
        if client.notify_progress(params).await.is_err() {
            return;
        }
    }
}

/// Fires with either.
fn either(first: &CancellationToken, second: Option<&CancellationToken>) -> CancellationToken {
    let joined = first.child_token();
    if let Some(second) = second.cloned() {
        let both = joined.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = second.cancelled() => both.cancel(),
                () = both.cancelled() => {}
            }
        });
    }
    joined
}

fn parts(extensions: &Extensions) -> Option<&Parts> {
    extensions.get::<Parts>()
}

fn principal(parts: &Parts) -> Result<&Principal, ErrorData> {
    parts.extensions.get::<Principal>().ok_or_else(|| fault("the request passed no gate"))
}

/// The `session` parameter of the address.
pub(super) fn label(uri: &http::Uri) -> &str {
    let query = uri.query().unwrap_or_default();
    query.split('&').find_map(|pair| pair.strip_prefix("session=")).unwrap_or_default()
}

fn refusal(why: String) -> ErrorData {
    ErrorData::new(ErrorCode(-32000), why, None)
}

fn fault(why: &'static str) -> ErrorData {
    tracing::error!("{why}");
    ErrorData::internal_error(why, None)
}
