//! The HTTP+SSE transport of protocol 2024-11-05, which is still many agents' default for an address.
//!
//! `GET /sse` opens a session and a stream whose first event names where to post; answers to posts come
//! back on the stream. The session ends with the stream, and the stream with a session that nobody uses.

use super::misfit;
use crate::{
    http::{auth::Principal, refuse},
    sessions::{Directory, Key},
};
use axum::{
    Extension,
    body::Bytes,
    extract::{Query, State},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures_util::{Stream, StreamExt, stream};
use http::{StatusCode, request::Parts};
use rmcp::{
    RoleServer, ServerHandler, ServiceExt,
    model::{GetExtensions, JsonRpcMessage},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
};
use serde::Deserialize;
use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::mpsc;
use tokio_util::sync::PollSender;
use tools::Session;

const BACKLOG: usize = 64;
const KEEP_ALIVE: Duration = Duration::from_secs(15);

type Incoming = RxJsonRpcMessage<RoleServer>;
type Outgoing = TxJsonRpcMessage<RoleServer>;

struct Line {
    owner: Principal,
    messages: mpsc::Sender<Incoming>,
}

/// The open streams.
pub(super) struct Legacy<H> {
    directory: Arc<Directory>,
    handler: Box<dyn Fn(Arc<Session>) -> H + Send + Sync>,
    lines: Mutex<HashMap<String, Line>>,
}

impl<H: ServerHandler> Legacy<H> {
    pub(super) fn new(
        directory: Arc<Directory>,
        handler: impl Fn(Arc<Session>) -> H + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { directory, handler: Box::new(handler), lines: Mutex::default() })
    }

    /// `GET /sse`.
    pub(super) async fn open(
        State(legacy): State<Arc<Self>>,
        Extension(owner): Extension<Principal>,
    ) -> Response {
        let opened = match legacy.directory.open(&owner) {
            Ok(opened) => opened,
            Err(full) => return refuse(StatusCode::SERVICE_UNAVAILABLE, full.to_string()),
        };
        let session = opened.session();
        let id = session.id.clone();
        legacy.directory.keep(Key::Stream(id.clone()), opened);
        let (messages, incoming) = mpsc::channel::<Incoming>(BACKLOG);
        let (outgoing, answers) = mpsc::channel::<Outgoing>(BACKLOG);
        let handler = (legacy.handler)(session);
        tokio::spawn(async move {
            match handler.serve((PollSender::new(outgoing), received(incoming))).await {
                Ok(serving) => drop(serving.waiting().await),
                Err(error) => tracing::debug!("a legacy client said no hello: {error}"),
            }
        });
        legacy.lines().insert(id.clone(), Line { owner, messages });
        // Nothing follows `endpoint` until the client has spoken: some clients would miss it.
        let endpoint = Event::default().event("endpoint").data(format!("/message?sessionId={id}"));
        let hang_up = HangUp { legacy, id };
        let answers = received(answers).filter_map(move |message| {
            let _until_dropped = &hang_up;
            let event =
                serde_json::to_string(&message).map(|data| Event::default().event("message").data(data));
            std::future::ready(event.inspect_err(|error| tracing::error!("unsendable answer: {error}")).ok())
        });
        let events = stream::once(std::future::ready(endpoint)).chain(answers).map(Ok::<_, Infallible>);
        Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
    }

    /// `POST /message?sessionId=…`.
    pub(super) async fn message(
        State(legacy): State<Arc<Self>>,
        Extension(sender): Extension<Principal>,
        Query(address): Query<Address>,
        parts: Parts,
        body: Bytes,
    ) -> Response {
        let line = legacy
            .lines()
            .get(&address.session_id)
            .filter(|line| line.owner == sender)
            .map(|line| line.messages.clone());
        let Some(line) = line else {
            return refuse(StatusCode::NOT_FOUND, "unknown sessionId; open a stream with GET /sse first");
        };
        let _in_use = legacy.directory.stay(Key::Stream(address.session_id));
        let mut message: Incoming = match serde_json::from_slice(&body) {
            Ok(message) => message,
            Err(error) => {
                let plain = || refuse(StatusCode::BAD_REQUEST, format!("not a JSON-RPC message: {error}"));
                return misfit::response(&body).unwrap_or_else(plain);
            }
        };
        if let JsonRpcMessage::Request(request) = &mut message {
            request.request.extensions_mut().insert(parts);
        }
        match line.send(message).await {
            Ok(()) => StatusCode::ACCEPTED.into_response(),
            Err(_) => refuse(StatusCode::GONE, "the session has ended; open a stream with GET /sse"),
        }
    }

    /// Ends a stream: nothing more is taken for it, and what serves it ends once it has nothing more to say.
    pub(super) fn hang_up(&self, id: &str) {
        self.lines().remove(id);
    }

    fn lines(&self) -> std::sync::MutexGuard<'_, HashMap<String, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a legacy client posts.
#[derive(Deserialize)]
pub(super) struct Address {
    #[serde(rename = "sessionId")]
    session_id: String,
}

/// Ends the session with its stream.
struct HangUp<H: ServerHandler> {
    legacy: Arc<Legacy<H>>,
    id: String,
}

impl<H: ServerHandler> Drop for HangUp<H> {
    fn drop(&mut self) {
        self.legacy.hang_up(&self.id);
        self.legacy.directory.close(&Key::Stream(std::mem::take(&mut self.id)));
    }
}

fn received<T: Send + 'static>(receiver: mpsc::Receiver<T>) -> impl Stream<Item = T> + Send + Unpin {
    Box::pin(stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) }))
}
