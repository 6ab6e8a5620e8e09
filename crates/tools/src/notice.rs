//! News for the client that nobody asked for at this moment.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};
use tokio::sync::broadcast;

/// News that wait for a slow client; older ones are dropped, and the client's reader is told how many.
const WAITING: usize = 64;

/// One piece of news. Its text is scrubbed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The tool it comes from.
    pub source: &'static str,
    /// It is bad news.
    pub error: bool,
    /// For the model or a person.
    pub text: String,
}

/// Where news go. Nobody waits for a reader.
#[derive(Clone, Default)]
pub(crate) struct Notices(Arc<Inner>);

#[derive(Default)]
struct Inner {
    sender: OnceLock<broadcast::Sender<Notice>>,
    bad_only: AtomicBool,
}

impl Notices {
    pub(crate) fn send(&self, notice: Notice) {
        if let Some(sender) = self.0.sender.get()
            && (notice.error || !self.0.bad_only.load(Ordering::Relaxed))
        {
            // Nobody listening is no failure.
            let _ = sender.send(notice);
        }
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Notice> {
        self.0.sender.get_or_init(|| broadcast::channel(WAITING).0).subscribe()
    }

    pub(crate) fn followed(&self) -> bool {
        self.0.sender.get().is_some_and(|sender| sender.receiver_count() > 0)
    }

    pub(crate) fn bad_only(&self, only: bool) {
        self.0.bad_only.store(only, Ordering::Relaxed);
    }
}
