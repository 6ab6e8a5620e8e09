//! Telling a server what changed on disk, and being sure that it goes by that.

use crate::{ChangeKind, Client, Error, Kind, uri::to_uri};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::{sleep, timeout};

/// Files of one change that rust-analyzer is asked for. It reads them in the order it is told of them, so that the last
/// ones vouch for the others.
const CONFIRMED: usize = 64;
/// The end of patience for a file that it reads in a way nobody thought of: reading takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest pause between two questions.
const PAUSE: Duration = Duration::from_millis(50);

/// What there is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OnDisk {
    /// Nothing.
    Gone,
    /// A text, without a byte order mark.
    Text(String),
    /// Something else.
    Other,
}

impl Client {
    /// Tells of files that changed on disk and waits until the server goes by them. `now` looks at what is there.
    ///
    /// # Errors
    /// The server has gone.
    pub async fn absorb(
        &self,
        changes: &[(PathBuf, ChangeKind)],
        now: impl Fn(&Path) -> OnDisk,
    ) -> Result<(), Error> {
        if changes.is_empty() {
            return Ok(());
        }
        let kind = self.kind();
        let new = |(path, change): &(PathBuf, ChangeKind)| {
            *change != ChangeKind::Changed && kind.looks_again_for(path)
        };
        if changes.iter().any(new) {
            self.expect_look();
        }
        let all: Vec<Value> = changes
            .iter()
            .map(|(path, change)| json!({"uri": to_uri(path), "type": change.number()}))
            .collect();
        self.notify("workspace/didChangeWatchedFiles", json!({"changes": all}));
        let asked = changes.iter().rev().map(|(path, _)| path);
        for path in asked.filter(|path| kind.confirms(path)).take(CONFIRMED) {
            let confirmed = timeout(PATIENCE, self.confirm(path, &now)).await;
            confirmed.unwrap_or_else(|_| {
                tracing::warn!(path = %path.display(), "rust-analyzer does not see a file as it is");
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Shows the server a text in place of a file's. What it does because of that, it has told then.
    ///
    /// # Errors
    /// The server has gone.
    pub async fn present(&self, path: &Path, text: &str) -> Result<(), Error> {
        let new = !self.is_open(path);
        self.show(path, text);
        if new && self.kind() == Kind::RustAnalyzer {
            // For a file that it did not know it loads the project anew; it says so before it answers.
            self.known(path).await?;
        }
        Ok(())
    }

    /// A file as rust-analyzer knows it, if it does. It answers in turn: what it does because of what it was told
    /// before, it has told then.
    async fn known(&self, path: &Path) -> Result<Option<String>, Error> {
        match self.request("rust-analyzer/viewFileText", json!({"uri": to_uri(path)})).await {
            Ok(Value::String(text)) => Ok(Some(text)),
            Err(Error::Gone) => Err(Error::Gone),
            Ok(_) | Err(_) => Ok(None),
        }
    }

    /// rust-analyzer reads changed files on another thread: it is asked until it has this one.
    async fn confirm(&self, path: &Path, now: &impl Fn(&Path) -> OnDisk) -> Result<(), Error> {
        let mut pause = Duration::from_millis(2);
        // Open documents are what they were shown as.
        while !self.is_open(path) {
            match (self.known(path).await?, now(path)) {
                (Some(known), OnDisk::Text(text)) if same(&known, &text) => break,
                (_, OnDisk::Other) | (None, OnDisk::Gone) => break,
                _ => sleep(pause).await,
            }
            pause = PAUSE.min(pause * 2);
            if pause > Duration::from_millis(8) {
                // It may have changed once more since it was read.
                let change = json!({"uri": to_uri(path), "type": ChangeKind::Changed.number()});
                self.notify("workspace/didChangeWatchedFiles", json!({"changes": [change]}));
            }
        }
        Ok(())
    }
}

/// Whether rust-analyzer's text of a file is this one: it ends lines its own way, and takes what is no text for none.
fn same(known: &str, text: &str) -> bool {
    let known = known.strip_prefix('\u{feff}').unwrap_or(known);
    let no_text = || known.is_empty() && text.contains('\u{fffd}');
    known == text || (text.contains('\r') && known == text.replace("\r\n", "\n")) || no_text()
}
