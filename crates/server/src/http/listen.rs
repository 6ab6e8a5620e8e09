//! Accepting connections within bounds, and letting go of them.

use super::patience::Patient;
use axum::Router;
use config::Limits;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use std::{io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// How long connections may still take to end once every call has ended.
const LINGER: Duration = Duration::from_millis(500);

/// The other end of a connection, among a request's extensions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// Serves `app` until `stop`; then takes no further connection and lets open ones end.
pub(crate) async fn serve(listener: TcpListener, app: Router, limits: &Limits, stop: CancellationToken) {
    let slots = Arc::new(Semaphore::new(limits.connections));
    let (open, mut last) = mpsc::channel(1);
    let closing = CancellationToken::new();
    loop {
        let (stream, peer) = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    give_in(&error).await;
                    continue;
                }
            },
        };
        match Arc::clone(&slots).try_acquire_owned() {
            Ok(slot) => attend(
                stream,
                peer,
                &app,
                limits,
                Place { closing: closing.clone(), _open: open.clone(), _slot: slot },
            ),
            Err(_) => turn_away(&stream, peer),
        }
    }
    drop((listener, open));
    closing.cancel();
    // It closes when the last connection has ended.
    if tokio::time::timeout(LINGER, last.recv()).await.is_err() {
        tracing::debug!("connections still open at the end are dropped");
    }
}

/// What a connection holds while it is open.
struct Place {
    /// It is to end after the answer under way.
    closing: CancellationToken,
    _open: mpsc::Sender<()>,
    _slot: OwnedSemaphorePermit,
}

fn attend(stream: TcpStream, peer: SocketAddr, app: &Router, limits: &Limits, place: Place) {
    // Small replies must not wait for the client's delayed acknowledgement.
    let _ = stream.set_nodelay(true);
    let app = app.clone().map_request(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        request.map(axum::body::Body::new)
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.idle_connection)
        .serve_connection(
            TokioIo::new(Patient::new(stream, limits.idle_connection)),
            TowerToHyperService::new(app),
        )
        .with_upgrades();
    tokio::spawn(async move {
        let Place { closing, _open, _slot } = place;
        tokio::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = closing.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%peer, "connection ended: {:#}", anyhow::Error::from(error));
        }
    });
}

/// One try and no waiting: whoever floods us gets no more of our time than that.
fn turn_away(stream: &TcpStream, peer: SocketAddr) {
    tracing::warn!(%peer, "too many connections; raise the limit with --max-connections");
    let _ = stream.try_write(
        b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\ncontent-length: 20\r\n\r\ntoo many connections",
    );
}

/// Out of descriptors: trying again at once would only burn the processor.
async fn give_in(error: &io::Error) {
    tracing::warn!("accept: {error}");
    tokio::time::sleep(Duration::from_millis(50)).await;
}
