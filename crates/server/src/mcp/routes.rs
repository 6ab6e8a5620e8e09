//! MCP over HTTP: `/mcp` for current clients, `/sse` and `/message` for old ones, on one port.

use super::{
    Handler,
    conformance::Conformance,
    handler::{Disconnect, Slot},
    legacy::Legacy,
};
use crate::{
    http::{Gate, Held, Hold, auth::Principal, hold, pass, refuse},
    sessions::{Directory, Found, InUse, Key},
};
use axum::{
    Extension, Router,
    extract::{DefaultBodyLimit, Request, State},
    middleware::{self, Next},
    response::Response,
    routing::{get, post},
};
use http::{HeaderMap, Method, StatusCode, Uri};
use rmcp::{
    ServerHandler,
    model::ProtocolVersion,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService,
        session::{
            SessionManager,
            local::{LocalSessionManager, SessionConfig},
        },
    },
};
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;
use tools::{Host, Session};

/// After how long a client that lost its stream should come back for it.
const RETRY: Duration = Duration::from_secs(1);

/// The routes of one server and what must be told when it ends.
pub(crate) struct Http {
    /// The routes.
    pub(crate) routes: Router,
    /// Ends every stream.
    pub(crate) hang_up: CancellationToken,
}

/// Everything a server offers over HTTP.
pub(crate) fn http(host: &Arc<Host>, gate: Arc<Gate>) -> Http {
    let directory = Directory::new(Arc::clone(host));
    let handler = Handler::new(host, Some(Arc::clone(&directory)));
    if host.settings.conformance {
        let fixtures = Conformance::new(handler.clone());
        routes(host, gate, directory, fixtures, move |session| Conformance::new(handler.of(session)))
    } else {
        routes(host, gate, directory, handler.clone(), move |session| handler.of(session))
    }
}

fn routes<H: ServerHandler + Clone>(
    host: &Arc<Host>,
    gate: Arc<Gate>,
    directory: Arc<Directory>,
    handler: H,
    of_session: impl Fn(Arc<Session>) -> H + Send + Sync + 'static,
) -> Http {
    let hang_up = CancellationToken::new();
    let mut manager = LocalSessionManager::default();
    manager.session_config = SessionConfig::default();
    // The SDK counts a session as idle while a long call runs, so we reap them ourselves.
    manager.session_config.keep_alive = None;
    manager.session_config.sse_retry = Some(RETRY);
    let manager = Arc::new(manager);
    let config = StreamableHttpServerConfig::default()
        .with_sse_retry(Some(RETRY))
        .with_json_response(true)
        .with_cancellation_token(hang_up.clone())
        // The gate has checked Host, Origin and size for every route.
        .disable_allowed_hosts()
        .with_max_request_body_bytes(host.settings.limits.body_bytes);
    let service = StreamableHttpService::new(move || Ok(handler.clone()), Arc::clone(&manager), config);
    tokio::spawn(reap(Arc::clone(&directory), manager, Arc::clone(host), hang_up.clone()));
    let streamable = Router::new()
        .route_service("/mcp", service)
        .layer(middleware::from_fn_with_state(Arc::clone(&directory), attend));
    let legacy = Router::new()
        .route("/sse", get(Legacy::open))
        .route("/message", post(Legacy::message))
        // The gate has its own limit.
        .layer(DefaultBodyLimit::disable())
        .with_state(Legacy::new(directory, of_session));
    let routes =
        streamable.merge(legacy).fallback(elsewhere).layer(middleware::from_fn_with_state(gate, pass));
    Http { routes, hang_up }
}

/// Somebody with a browser, or a client with half an address.
async fn elsewhere(uri: Uri) -> Response {
    let why = format!("nothing at {}; MCP clients connect to /mcp, older ones to /sse\n", uri.path());
    refuse(StatusCode::NOT_FOUND, why)
}

/// Middleware on `/mcp`: finds the session, keeps it from being idle, and cancels calls whose client left.
async fn attend(
    State(directory): State<Arc<Directory>>,
    Extension(principal): Extension<Principal>,
    mut request: Request,
    next: Next,
) -> Response {
    let method = request.method().clone();
    let key = session_id(request.headers()).map(|id| Key::Id(id.to_owned()));
    let resuming = method == Method::GET && request.headers().contains_key("last-event-id");
    let in_use = match &key {
        None => None,
        Some(key) => match directory.enter(key, &principal, resuming) {
            Found::Session(in_use) => Some(in_use),
            Found::Nothing => return refuse(StatusCode::NOT_FOUND, "unknown session; initialize again"),
        },
    };
    if key.is_none()
        && !is_stateless(request.headers())
        && let Some(full) = directory.full()
    {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, full.to_string());
    }
    let gone = CancellationToken::new();
    let slot = Slot::default();
    request.extensions_mut().insert(Disconnect(gone.clone()));
    match &in_use {
        Some(in_use) => drop(request.extensions_mut().insert(in_use.session())),
        None => drop(request.extensions_mut().insert(slot.clone())),
    }
    let held = Held::new(Stream { gone, in_use });
    let response = next.run(request).await;
    if let (Some(opened), Some(id)) = (slot.take(), session_id(response.headers())) {
        directory.keep(Key::Id(id.to_owned()), opened);
    }
    if let Some(key) = &key
        && method == Method::DELETE
        && response.status().is_success()
    {
        directory.close(key);
    }
    hold(response, held)
}

/// One answer on its way to the client.
struct Stream {
    gone: CancellationToken,
    in_use: Option<InUse>,
}

impl Hold for Stream {
    fn abandoned(&mut self) {
        match &self.in_use {
            Some(in_use) => in_use.orphan(self.gone.clone()),
            None => self.gone.cancel(),
        }
    }
}

fn session_id(headers: &HeaderMap) -> Option<&str> {
    headers.get("mcp-session-id")?.to_str().ok()
}

/// Clients from 2026-07-28 on have no session to open.
fn is_stateless(headers: &HeaderMap) -> bool {
    let version = headers.get("mcp-protocol-version").and_then(|value| value.to_str().ok());
    version.is_some_and(|version| version >= ProtocolVersion::V_2026_07_28.as_str())
}

/// Ends idle sessions, here and in the SDK, until the server ends.
async fn reap(
    directory: Arc<Directory>,
    manager: Arc<LocalSessionManager>,
    host: Arc<Host>,
    stop: CancellationToken,
) {
    // The limit may change.
    let pause = || (host.limits().idle_session / 4).clamp(Duration::from_millis(50), Duration::from_secs(60));
    while stop.run_until_cancelled(tokio::time::sleep(pause())).await.is_some() {
        for key in directory.reap(host.limits().idle_session) {
            if let Key::Id(id) = key
                && let Err(error) = manager.close_session(&id.into()).await
            {
                tracing::debug!("closing an idle session: {error}");
            }
        }
    }
}
