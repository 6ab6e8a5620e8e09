//! Knowing when a client went away before it had its whole answer.

use axum::{body::Body, response::Response};
use http_body::{Body as _, Frame, SizeHint};
use std::{
    pin::Pin,
    task::{Context, Poll},
};

/// Something that lives as long as a response does, and hears whether the client took all of it.
pub(crate) trait Hold: Send + 'static {
    /// The client went away early. Not called when the answer was complete.
    fn abandoned(&mut self);
}

/// Ties `held` to the response: dropped with its body, told when that is too early.
pub(crate) fn hold(response: Response, held: Held) -> Response {
    response.map(|inner| Body::new(Watched { inner, held }))
}

/// Holds something through the making of a response too: dropping it before its time counts as abandoned.
pub(crate) struct Held(Option<Box<dyn Hold>>);

impl Held {
    pub(crate) fn new(hold: impl Hold) -> Self {
        Self(Some(Box::new(hold)))
    }

    fn complete(&mut self) {
        self.0 = None;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(hold) = &mut self.0 {
            hold.abandoned();
        }
    }
}

struct Watched {
    inner: Body,
    held: Held,
}

impl http_body::Body for Watched {
    type Data = axum::body::Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        let ended = matches!(polled, Poll::Ready(None)) || self.inner.is_end_stream();
        if ended {
            self.held.complete();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if self.inner.is_end_stream() {
            self.held.complete();
        }
    }
}
