//! A look back: what an edit broke is known only against what a server says of the files as they were, which it is
//! shown for that. Meanwhile nobody else asks it, and however the look ends, it is shown them as they are again.

use super::{running::Running, trouble::Trouble};
use crate::Call;
use serde_json::Value;
use std::path::PathBuf;
use tokio::sync::{RwLockReadGuard, RwLockWriteGuard};

/// A file as it was, and as it is: nothing for one that is gone.
pub(super) struct Then {
    pub(super) path: PathBuf,
    pub(super) was: String,
    pub(super) is: Option<String>,
}

/// Files are shown as they were for as long as this is there.
pub(super) struct Past<'a> {
    server: &'a Running,
    /// Each with the number that it is shown under.
    shown: Vec<(u64, Then)>,
    _alone: RwLockWriteGuard<'a, ()>,
}

impl Drop for Past<'_> {
    fn drop(&mut self) {
        for (number, then) in &self.shown {
            self.server.client.put_back(*number, &then.path, then.is.as_deref());
        }
    }
}

impl Running {
    /// Shows files as they were, as soon as nobody asks anything.
    pub(super) async fn look_back(&self, files: Vec<Then>) -> Past<'_> {
        let alone = self.present.write().await;
        let mut past = Past { server: self, shown: Vec::new(), _alone: alone };
        for then in files {
            let number = self.client.show(&then.path, &then.was);
            past.shown.push((number, then));
        }
        past
    }

    /// Waits until files are shown as they are; they are as long as this is there.
    pub(super) async fn present(&self) -> RwLockReadGuard<'_, ()> {
        self.present.read().await
    }

    /// Asks; a server that does not answer in time is replaced.
    pub(super) async fn ask(&self, call: &Call, method: &str, params: Value) -> Result<Value, Trouble> {
        let _present = self.present().await;
        self.in_time(call, self.client.request(method, params)).await
    }
}
