//! `document_symbols`: what is in a file.

use super::{
    args::{File, read_tool},
    ask::ready,
    names, show,
    trouble::{Trouble, twice},
};
use crate::{Call, Class, Group, Spec, Tool, ToolError};
use ::lsp::outline;
use serde_json::json;
use std::fmt::Write as _;

/// Symbols that are shown.
const SHOWN: usize = 400;

/// Lists the symbols of a file.
pub(crate) struct DocumentSymbols;

read_tool!(
    DocumentSymbols,
    File,
    "document_symbols",
    "Outline of a file: its symbols with their lines.",
    symbols
);

async fn symbols(call: &Call, args: &File) -> Result<String, Trouble> {
    let ready = ready(call, "document_symbols", &args.file_path).await?;
    let params = json!({"textDocument": ready.document()});
    let answer = ready.server.ask(call, "textDocument/documentSymbol", params).await?;
    let all = names::flat(&outline(&answer));
    let mut text = format!("{} symbol(s) in {}", all.len(), ready.file);
    for named in all.iter().take(SHOWN) {
        let (first, last) = (named.range.start.line + 1, named.range.end.line + 1);
        let indent = "  ".repeat(named.depth);
        let _ = write!(text, "\n{first}-{last}\t{indent}{} {}", named.kind.word(), show::short(&named.name));
    }
    show::more(all.len(), SHOWN, &mut text);
    Ok(text)
}
