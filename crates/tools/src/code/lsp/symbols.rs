//! `document_symbols`: what is in a file.

use super::{
    args::{File, read_tool},
    ask::ready,
    names, show,
    trouble::{Trouble, twice},
};
use crate::{Call, Class, Group, Spec, Tool, ToolError};
use ::code::{Depth, Kind, Language, Symbol, outline as parsed};
use ::lsp::{Encoding, Lines, outline};
use serde_json::json;
use std::{collections::HashSet, fmt::Write as _};

/// Symbols that are shown.
const SHOWN: usize = 400;

/// Lists the symbols of a file.
pub(crate) struct DocumentSymbols;

read_tool!(DocumentSymbols, File, "document_symbols", "The symbols of a file with their lines.", symbols);

/// A line of the list.
struct Row {
    first: u32,
    last: u32,
    depth: usize,
    kind: &'static str,
    name: String,
}

async fn symbols(call: &Call, args: &File) -> Result<String, Trouble> {
    let ready = ready(call, "document_symbols", &args.file_path).await?;
    let params = json!({"textDocument": ready.document()});
    let answer = ready.server.ask(call, "textDocument/documentSymbol", params).await?;
    let (mut all, mut known) = (Vec::new(), HashSet::new());
    for named in names::flat(&outline(&answer)) {
        known.insert((named.line(), named.name.clone()));
        all.push(Row {
            first: named.range.start.line + 1,
            last: named.range.end.line + 1,
            depth: named.depth,
            kind: named.kind.word(),
            name: named.name,
        });
    }
    if ready.server.key.language == "python" {
        let text = ready.text.clone();
        all.extend(call.blocking(move |_| Ok(passed_over(&text, &known))).await?);
        all.sort_by_key(|row| (row.first, row.depth));
    }
    let next = all.get(SHOWN).map(|row| row.first);
    let page = show::Page::of(&mut all, None, SHOWN);
    let mut text = format!("{} symbol(s) in {}", page.total(), ready.file);
    for Row { first, last, depth, kind, name } in &all {
        let _ = write!(text, "\n{first}-{last}\t{}{kind} {}", "  ".repeat(*depth), show::short(name));
    }
    if let Some(line) = next {
        let _ = write!(text, "\n… {} more of {}; Read goes on at line {line}", page.left(), page.total());
    }
    Ok(text)
}

/// Functions and classes of a file in Python that are not known: of those with one name, pyright tells the last alone
/// (overloads, properties, what is declared under conditions).
fn passed_over(text: &str, known: &HashSet<(u32, String)>) -> Vec<Row> {
    let lines = Lines::of(text);
    let line = |byte: usize| lines.position(byte, Encoding::Utf8).line + 1;
    let all = parsed(Language::Python, text.as_bytes(), Depth::Everything);
    let above = |symbol: &Symbol| symbol.container.and_then(|at| all.get(at));
    let row = |symbol: &Symbol| {
        let declared = symbol.kind.is_callable() || symbol.kind == Kind::Class;
        if !declared || known.contains(&(line(symbol.name_at.start), symbol.name.clone())) {
            return None;
        }
        let end = symbol.body.as_ref().unwrap_or(&symbol.signature).end;
        Some(Row {
            first: line(symbol.full.start),
            last: line(end),
            depth: std::iter::successors(above(symbol), |it| above(it)).count(),
            kind: symbol.kind.name(),
            name: symbol.name.clone(),
        })
    };
    all.iter().filter_map(row).collect()
}
