//! Files that no crate names: rust-analyzer takes questions about them, and answers with nothing.

use super::{ask::Ready, trouble::Trouble};
use crate::Call;
use ::lsp::Kind;

/// What rust-analyzer calls such a file.
pub(super) const UNLINKED: &str = "unlinked-file";

/// What to say where nothing was found, when that is because the file belongs to no crate; begins with a line break.
pub(super) async fn said(call: &Call, ready: &Ready) -> Result<String, Trouble> {
    let server = &ready.server;
    if server.client.kind() != Kind::RustAnalyzer {
        return Ok(String::new());
    }
    let _present = server.present().await;
    let found = server.in_time(call, server.client.diagnose(&ready.path)).await?;
    Ok(match found.iter().any(|one| one.code == UNLINKED) {
        true => format!("\nno `mod` names {}: nothing in it is known until one does", ready.file),
        false => String::new(),
    })
}
