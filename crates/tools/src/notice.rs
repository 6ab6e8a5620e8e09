//! News for the client that nobody asked for at this moment.

use std::sync::{Arc, OnceLock};
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
pub(crate) struct Notices(Arc<OnceLock<broadcast::Sender<Notice>>>);

impl Notices {
    pub(crate) fn send(&self, notice: Notice) {
        if let Some(sender) = self.0.get() {
            // Nobody listening is no failure.
            let _ = sender.send(notice);
        }
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Notice> {
        self.0.get_or_init(|| broadcast::channel(WAITING).0).subscribe()
    }
}
