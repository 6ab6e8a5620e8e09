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

read_tool!(DocumentSymbols, File, "document_symbols", "The symbols of a file with their lines.", symbols);

async fn symbols(call: &Call, args: &File) -> Result<String, Trouble> {
    let ready = ready(call, "document_symbols", &args.file_path).await?;
    let params = json!({"textDocument": ready.document()});
    let answer = ready.server.ask(call, "textDocument/documentSymbol", params).await?;
    let mut all = names::flat(&outline(&answer));
    let next = all.get(SHOWN).map(|named| named.range.start.line + 1);
    let page = show::Page::of(&mut all, None, SHOWN);
    let mut text = format!("{} symbol(s) in {}", page.total(), ready.file);
    for named in &all {
        let (first, last) = (named.range.start.line + 1, named.range.end.line + 1);
        let indent = "  ".repeat(named.depth);
        let _ = write!(text, "\n{first}-{last}\t{indent}{} {}", named.kind.word(), show::short(&named.name));
    }
    if let Some(line) = next {
        let _ = write!(text, "\n… {} more of {}; Read goes on at line {line}", page.left(), page.total());
    }
    Ok(text)
}
