//! `/sandbox/v1/exec`: runs commands for another server, to which this one is a sandbox of mode `remote`.
//!
//! It gives more than MCP does: no hooks, no denylist, output as it is. So it is off unless asked for, wants a
//! token that is not read-only, and runs everything in this server's default sandbox.

use super::{Gate, auth::Principal, pass, refuse};
use axum::{
    Extension, Router,
    extract::{Request, State},
    middleware,
    response::{IntoResponse, Response},
    routing::get,
};
use http::{StatusCode, header};
use hyper_util::rt::TokioIo;
use sandbox::remote::{self, Terms};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tools::Host;

struct Far {
    host: Arc<Host>,
    stop: CancellationToken,
    running: TaskTracker,
    /// An upgraded connection no longer counts among the others.
    slots: Arc<Semaphore>,
}

/// The route; what it runs ends when `stop` is cancelled, and is among `running` until it is gone.
pub(crate) fn routes(
    host: &Arc<Host>,
    gate: Arc<Gate>,
    stop: CancellationToken,
    running: TaskTracker,
) -> Router {
    let slots = Arc::new(Semaphore::new(host.settings.limits.connections));
    let far = Arc::new(Far { host: Arc::clone(host), stop, running, slots });
    let routes = Router::new().route(remote::PATH, get(exec)).with_state(far);
    routes.layer(middleware::from_fn_with_state(gate, pass))
}

async fn exec(
    State(far): State<Arc<Far>>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> Response {
    if principal.readonly {
        return refuse(StatusCode::FORBIDDEN, "a read-only token runs no commands");
    }
    let asked = request.headers().get(header::UPGRADE).is_some_and(|value| value == remote::PROTOCOL);
    if !asked {
        let why = format!("ask for an upgrade to {}", remote::PROTOCOL);
        return refuse(StatusCode::UPGRADE_REQUIRED, why);
    }
    let Ok(slot) = Arc::clone(&far.slots).try_acquire_owned() else {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "too many commands at once; raise --max-connections");
    };
    let Some(workspace) = far.host.settings.workspaces.first() else {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "this server has no workspace");
    };
    let runtime = far.host.runtime();
    let place = runtime.place();
    let terms =
        Terms { cwd: place.paths.inward(&workspace.root), stdin_bytes: far.host.settings.limits.body_bytes };
    let sandbox = Arc::clone(&place.sandbox);
    let stop = far.stop.clone();
    let upgraded = hyper::upgrade::on(request);
    far.running.spawn(async move {
        match upgraded.await {
            Ok(stream) => {
                tracing::info!(principal = &*principal.name, "a command for another server begins");
                remote::attend(TokioIo::new(stream), sandbox, terms, stop).await;
                tracing::info!(principal = &*principal.name, "a command for another server has ended");
            }
            Err(error) => tracing::debug!("the upgrade failed: {error}"),
        }
        drop(slot);
    });
    let headers = [(header::CONNECTION, "upgrade"), (header::UPGRADE, remote::PROTOCOL)];
    (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
}
