//! `find_definition` and `find_references`.

use super::{
    args::{Place, place_tool},
    ask::{Spot, spot},
    show,
    trouble::{Trouble, twice},
};
use crate::{Call, Class, Group, Spec, Tool, ToolError};
use ::lsp::{Location, locations};
use serde_json::json;

/// Places that are shown.
const SHOWN: usize = 100;

/// Finds where a symbol is defined.
pub(crate) struct FindDefinition;
/// Finds where a symbol is used.
pub(crate) struct FindReferences;

place_tool!(
    FindDefinition,
    "find_definition",
    "Where a symbol is defined: give file_path, line and col, or symbol (`Foo`, `T.foo`), or both.",
    definition
);
place_tool!(FindReferences, "find_references", "Every use of a symbol, its definition included.", references);

async fn definition(call: &Call, at: &Place) -> Result<String, Trouble> {
    let spot = spot(call, "find_definition", &at.at()).await?;
    let server = &spot.ready.server;
    let found = locations(&server.ask(call, "textDocument/definition", spot.params()).await?);
    listed(call, &spot, "definition", found).await
}

async fn references(call: &Call, at: &Place) -> Result<String, Trouble> {
    let spot = spot(call, "find_references", &at.at()).await?;
    let server = &spot.ready.server;
    let mut params = spot.params();
    params["context"] = json!({"includeDeclaration": true});
    let mut found = locations(&server.ask(call, "textDocument/references", params).await?);
    found.sort_by(|a, b| (&a.path, a.range.start).cmp(&(&b.path, b.range.start)));
    listed(call, &spot, "reference", found).await
}

async fn listed(call: &Call, spot: &Spot, what: &str, mut found: Vec<Location>) -> Result<String, Trouble> {
    let (server, at) = (&spot.ready.server, &spot.shown);
    found.dedup();
    if found.is_empty() {
        let trouble =
            server.client.trouble().map(|why| format!("\n{} says: {why}", server.name)).unwrap_or_default();
        return Ok(format!("Found 0 {what}(s) for symbol at {at}{trouble}"));
    }
    let total = found.len();
    found.truncate(SHOWN);
    let mut text = format!("Found {total} {what}(s) for symbol at {at}:");
    for (number, shown) in (1..).zip(show::places(call, server, &found, Some(spot.ready.known())).await) {
        shown.write(number, &mut text);
    }
    show::more(total, found.len(), &mut text);
    Ok(text)
}
