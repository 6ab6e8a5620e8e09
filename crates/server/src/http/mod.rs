//! HTTP without MCP: who may come in, how much, how fast.

pub(crate) mod auth;
mod exec;
mod listen;
mod origin;
mod patience;
mod watch;

pub(crate) use exec::routes as exec_routes;
pub(crate) use listen::{Peer, serve};
pub(crate) use watch::{Held, Hold, hold};

use auth::Door;
use axum::{
    body::{Body, to_bytes},
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use config::{Limits, Listen};
use http::{HeaderValue, StatusCode, header};
use origin::Names;
use std::sync::Arc;

/// What every request passes before any route sees it.
pub(crate) struct Gate {
    door: Door,
    names: Names,
    limits: Limits,
}

impl Gate {
    pub(crate) fn new(listen: &Listen, limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            door: Door::new(&listen.tokens),
            names: Names { hosts: listen.hosts.clone(), origins: listen.origins.clone() },
            limits: limits.clone(),
        })
    }
}

/// Middleware: Host and Origin, token, then the whole body within its bounds.
pub(crate) async fn pass(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    if let Err(why) = gate.names.check(request.headers()) {
        tracing::warn!("refused: {why}");
        return refuse(StatusCode::FORBIDDEN, why);
    }
    let Some(principal) = gate.door.admit(request.headers()) else {
        let mut response = refuse(
            StatusCode::UNAUTHORIZED,
            "send \"Authorization: Bearer <token>\" with a token of the server's --auth-token-file",
        );
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        return response;
    };
    let (mut parts, body) = request.into_parts();
    parts.extensions.insert(principal);
    match collect(body, &parts.headers, &gate.limits).await {
        Ok(body) => next.run(Request::from_parts(parts, body)).await,
        Err(response) => *response,
    }
}

/// Reads a body to its end, so that a slow or endless one never reaches a route.
async fn collect(body: Body, headers: &http::HeaderMap, limits: &Limits) -> Result<Body, Box<Response>> {
    let too_large = || {
        let why =
            format!("the body is larger than {} bytes; raise the limit with --max-body", limits.body_bytes);
        Box::new(refuse(StatusCode::PAYLOAD_TOO_LARGE, why))
    };
    let announced =
        headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > limits.body_bytes) {
        return Err(too_large());
    }
    match tokio::time::timeout(limits.body_time, to_bytes(body, limits.body_bytes)).await {
        Ok(Ok(bytes)) => Ok(Body::from(bytes)),
        Ok(Err(error)) if is_length_limit(&error) => Err(too_large()),
        Ok(Err(_)) => Err(Box::new(refuse(StatusCode::BAD_REQUEST, "the body ended early"))),
        Err(_) => {
            let why =
                format!("the body took longer than {:?}; raise the limit with --body-time", limits.body_time);
            Err(Box::new(refuse(StatusCode::REQUEST_TIMEOUT, why)))
        }
    }
}

fn is_length_limit(error: &axum::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<http_body_util::LengthLimitError>())
}

/// A refusal in words. The connection is closed: what the client still sends is not read.
pub(crate) fn refuse(status: StatusCode, why: impl Into<String>) -> Response {
    (status, [(header::CONNECTION, "close")], why.into()).into_response()
}
