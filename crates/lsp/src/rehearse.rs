//! Having a server work out early what it will be asked.

use crate::{Client, Kind, uri::to_uri};
use serde_json::json;
use std::path::Path;

/// What rust-analyzer calls its preparing of a project that it has read.
const PREPARING: &str = "Indexing";
/// So much of a file is worked out: more would take long.
const LINES: u32 = 1000;

impl Client {
    /// Has rust-analyzer work out a file beside preparing the project. Types are worked out when somebody asks, so
    /// the first question would wait for them when everything else is done. Nobody takes the answer; it may be wrong.
    pub async fn rehearse(&self, path: &Path) {
        if self.kind() != Kind::RustAnalyzer {
            return;
        }
        self.begins(PREPARING).await;
        let (start, end) = (json!({"line": 0, "character": 0}), json!({"line": LINES, "character": 0}));
        let params = json!({"textDocument": {"uri": to_uri(path)}, "range": {"start": start, "end": end}});
        // A file that it does not know of, it refuses.
        let _ = self.request("textDocument/semanticTokens/range", params).await;
    }
}
