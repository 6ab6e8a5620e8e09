//! Documents that a server is shown in place of files.

use super::{Client, lock};
use crate::{Kind, uri::to_uri};
use serde_json::json;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Documents that are open at once; those used longest ago are closed.
const OPEN: usize = 96;

pub(super) struct Document {
    pub(super) version: i64,
    text: Arc<str>,
    used: u64,
}

#[derive(Default)]
pub(super) struct Documents {
    pub(super) open: HashMap<PathBuf, Document>,
    clock: u64,
}

impl Client {
    /// The documents that are open.
    #[must_use]
    pub fn open(&self) -> Vec<PathBuf> {
        lock(&self.0.documents).open.keys().cloned().collect()
    }

    /// Whether it can be shown files now: a file that is opened before rust-analyzer has found it makes that load the
    /// project once more.
    #[must_use]
    pub fn takes_files(&self) -> bool {
        self.kind() != Kind::RustAnalyzer || lock(&self.0.state).rested
    }

    /// Whether a document is open.
    #[must_use]
    pub fn is_open(&self, path: &Path) -> bool {
        lock(&self.0.documents).open.contains_key(path)
    }

    /// Shows the server a text in place of a file's, or what it is now. Gives a number for [`Client::put_back`].
    pub fn show(&self, path: &Path, text: &str) -> u64 {
        self.show_among(&mut lock(&self.0.documents), path, text)
    }

    fn show_among(&self, documents: &mut Documents, path: &Path, text: &str) -> u64 {
        documents.clock += 1;
        let clock = documents.clock;
        if let Some(document) = documents.open.get_mut(path) {
            document.used = clock;
            if *document.text != *text {
                document.version += 1;
                document.text = text.into();
                self.notify(
                    "textDocument/didChange",
                    json!({
                        "textDocument": {"uri": to_uri(path), "version": document.version},
                        "contentChanges": [{"text": text}],
                    }),
                );
            }
            return clock;
        }
        if documents.open.len() >= OPEN {
            let oldest = documents.open.iter().min_by_key(|(_, document)| document.used);
            if let Some(path) = oldest.map(|(path, _)| path.clone()) {
                documents.open.remove(&path);
                self.close(&path);
            }
        }
        documents.open.insert(path.to_owned(), Document { version: 1, text: text.into(), used: clock });
        self.notify(
            "textDocument/didOpen",
            json!({"textDocument": {
                "uri": to_uri(path), "languageId": language_id(path), "version": 1, "text": text,
            }}),
        );
        clock
    }

    /// Shows another text in place of one that was shown under this number, or the file's own, unless the document has
    /// been shown or closed since.
    pub fn put_back(&self, shown: u64, path: &Path, text: Option<&str>) {
        let mut documents = lock(&self.0.documents);
        if documents.open.get(path).is_none_or(|document| document.used != shown) {
            return;
        }
        if let Some(text) = text {
            self.show_among(&mut documents, path, text);
        } else {
            documents.open.remove(path);
            self.close(path);
        }
    }

    /// Takes a document back; the file's own text counts again.
    pub fn hide(&self, path: &Path) {
        if lock(&self.0.documents).open.remove(path).is_some() {
            self.close(path);
        }
    }

    fn close(&self, path: &Path) {
        self.notify("textDocument/didClose", json!({"textDocument": {"uri": to_uri(path)}}));
    }
}

/// The protocol's name for the language of a file.
fn language_id(path: &Path) -> &'static str {
    match path.extension().and_then(|end| end.to_str()).unwrap_or_default() {
        "go" => "go",
        "rs" => "rust",
        "py" | "pyi" => "python",
        "ts" | "mts" | "cts" => "typescript",
        "tsx" => "typescriptreact",
        "jsx" => "javascriptreact",
        "js" | "mjs" | "cjs" => "javascript",
        _ => match path.file_name().and_then(|name| name.to_str()) {
            Some("go.mod") => "go.mod",
            Some("go.sum") => "go.sum",
            Some("go.work") => "go.work",
            _ => "plaintext",
        },
    }
}
