//! MCP over HTTP: `/mcp` for current clients, `/sse` and `/message` for old ones, on one port.

use super::{
    Handler,
    conformance::Conformance,
    handler::{Disconnect, Slot, label},
    legacy::Legacy,
    misfit,
};
use crate::{
    http::{Gate, Held, Hold, Peer, auth::Principal, hold, pass, refuse},
    sessions::{Directory, Found, InUse, Key},
};
use axum::{
    Extension, Router,
    body::{Body, Bytes, to_bytes},
    extract::{DefaultBodyLimit, Request, State},
    middleware::{self, Next},
    response::Response,
    routing::{get, post},
};
use http::{HeaderMap, Method, StatusCode, Uri, header::CONTENT_TYPE};
use rmcp::{
    ServerHandler,
    model::{CancelledNotificationMethod, ConstString, ProtocolVersion},
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService,
        session::{
            SessionManager,
            local::{LocalSessionManager, SessionConfig},
        },
    },
};
use serde::Deserialize;
use serde_json::Value;
use std::{net::IpAddr, sync::Arc, time::Duration};
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
    let old = Legacy::new(Arc::clone(&directory), of_session);
    let ended = {
        let old = Arc::clone(&old);
        move |id: &str| old.hang_up(id)
    };
    tokio::spawn(reap(Arc::clone(&directory), manager, ended, Arc::clone(host), hang_up.clone()));
    let streamable =
        Router::new().route_service("/mcp", service).layer(middleware::from_fn_with_state(directory, attend));
    let legacy = Router::new()
        .route("/sse", get(Legacy::open))
        .route("/message", post(Legacy::message))
        // The gate has its own limit.
        .layer(DefaultBodyLimit::disable())
        .with_state(old);
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
    request: Request,
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
    let (mut request, told) = look_at(request, key.is_none()).await;
    request.extensions_mut().insert(Disconnect(gone.clone()));
    match &in_use {
        Some(in_use) => drop(request.extensions_mut().insert(in_use.session())),
        None => drop(request.extensions_mut().insert(slot.clone())),
    }
    let held = Held::new(Stream { gone, in_use });
    let mut response = next.run(request).await;
    match told {
        Told::Json(text) if response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            response = misfit::response(&text).unwrap_or(response);
        }
        Told::Cancel(cancel) if response.status() == StatusCode::ACCEPTED => {
            cancel.pass_on(&directory, &principal)
        }
        _ => {}
    }
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

/// What a request's body is to us beside the SDK.
enum Told {
    /// JSON, says its head. The SDK calls what it cannot read a wrong type of content.
    Json(Bytes),
    /// A client without a session gives up a call, which the SDK does not tell anybody.
    Cancel(Cancel),
    /// Nothing.
    Other,
}

/// The gate has read the body already.
async fn look_at(request: Request, stateless: bool) -> (Request, Told) {
    let (parts, body) = request.into_parts();
    let text = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let is = |name: &str, value: &str| {
        parts.headers.get(name).is_some_and(|header| header.as_bytes().starts_with(value.as_bytes()))
    };
    let told = if stateless
        && is("mcp-method", CancelledNotificationMethod::VALUE)
        && let Ok(Cancelled { params }) = serde_json::from_slice(&text)
    {
        let from = parts.extensions.get::<Peer>().map(|peer| peer.0.ip());
        Told::Cancel(Cancel { params, from, label: label(&parts.uri).to_owned() })
    } else if is(CONTENT_TYPE.as_str(), "application/json") {
        Told::Json(text.clone())
    } else {
        Told::Other
    };
    (Request::from_parts(parts, Body::from(text)), told)
}

/// `notifications/cancelled`.
#[derive(Deserialize)]
struct Cancelled {
    params: CancelledParams,
}

#[derive(Deserialize)]
struct CancelledParams {
    #[serde(rename = "requestId")]
    id: Value,
    #[serde(default, rename = "_meta")]
    meta: Value,
}

/// Which call is to be cancelled, as far as its client says so.
struct Cancel {
    params: CancelledParams,
    from: Option<IpAddr>,
    label: String,
}

impl Cancel {
    fn pass_on(&self, directory: &Directory, sender: &Principal) {
        let client = &self.params.meta["io.modelcontextprotocol/clientInfo"];
        let named = client["name"]
            .as_str()
            .map(|name| format!("{name} {}", client["version"].as_str().unwrap_or_default()));
        let meant = |key: &Key| match key {
            Key::Client { principal, from, program, label } => {
                principal == sender
                    && *from == self.from
                    && *label == self.label
                    && named.as_ref().is_none_or(|named| named == program)
            }
            Key::Id(_) | Key::Stream(_) => false,
        };
        if !directory.cancel(meant, &self.params.id) {
            tracing::debug!("a cancel that means no call, or might mean several");
        }
    }
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
    end_stream: impl Fn(&str),
    host: Arc<Host>,
    stop: CancellationToken,
) {
    // The limit may change.
    let pause = || (host.limits().idle_session / 4).clamp(Duration::from_millis(50), Duration::from_secs(60));
    while stop.run_until_cancelled(tokio::time::sleep(pause())).await.is_some() {
        for key in directory.reap(host.limits().idle_session) {
            match key {
                Key::Id(id) => {
                    if let Err(error) = manager.close_session(&id.into()).await {
                        tracing::debug!("closing an idle session: {error}");
                    }
                }
                Key::Stream(id) => end_stream(&id),
                Key::Client { .. } => {}
            }
        }
    }
}
