//! `find_definition` and `find_references`.

use super::{
    args::{Place, place_args, place_tool, read_tool},
    ask::{Spot, spot},
    show, siblings, strangers,
    trouble::{Trouble, twice},
    unlinked,
};
use crate::{Call, Class, Group, Spec, Tool, ToolError};
use ::lsp::{Location, locations};

/// Places that are shown.
const SHOWN: usize = 100;

/// Finds where a symbol is defined.
pub(crate) struct FindDefinition;
/// Finds where a symbol is used.
pub(crate) struct FindReferences;

place_tool!(
    FindDefinition,
    "find_definition",
    "Where a symbol is defined: by file_path, line and col, or by symbol (`Foo`, `T.foo`), or both.",
    definition
);
read_tool!(FindReferences, Args, "find_references", "Uses of a symbol, and its definition.", references);

place_args! {
    /// What `find_references` takes.
    Args {
        #[serde(default)]
        offset: Option<u32>,
    }
}

async fn definition(call: &Call, at: &Place) -> Result<String, Trouble> {
    let spot = spot(call, "find_definition", &at.at()).await?;
    let server = &spot.ready.server;
    let found = locations(&server.ask(call, "textDocument/definition", spot.params()).await?);
    let unresolved = strangers::unresolved(call, &spot, &found).await?;
    Ok(listed(call, &spot, "definition", found, None).await? + &unresolved)
}

async fn references(call: &Call, args: &Args) -> Result<String, Trouble> {
    let spot = spot(call, "find_references", &args.at()).await?;
    let (mut found, left) = strangers::references(call, &spot).await?;
    found.sort_by(|a, b| (&a.path, a.range.start).cmp(&(&b.path, b.range.start)));
    let unresolved = strangers::unresolved(call, &spot, &found).await?;
    let server = &spot.ready.server;
    let known = found.iter().filter_map(|at| Some((server.ours(&at.path)?, at.range.start))).collect();
    let elsewhere = siblings::told(call, &spot, known).await?;
    let mut text = listed(call, &spot, "reference", found, args.offset).await? + &unresolved;
    text.push_str(&strangers::said(call, server, left).await);
    Ok(text + &elsewhere)
}

async fn listed(
    call: &Call,
    spot: &Spot,
    what: &str,
    mut found: Vec<Location>,
    offset: Option<u32>,
) -> Result<String, Trouble> {
    let (server, at) = (&spot.ready.server, &spot.shown);
    found.dedup();
    if found.is_empty() {
        let trouble =
            server.client.trouble().map(|why| format!("\n{} says: {why}", server.name)).unwrap_or_default();
        let unlinked = unlinked::said(call, &spot.ready).await?;
        return Ok(format!("Found 0 {what}(s) for symbol at {at}{trouble}{unlinked}"));
    }
    let page = show::Page::of(&mut found, offset, SHOWN);
    let mut text = format!("Found {} {what}(s) for symbol at {at}:", page.total());
    let shown = show::places(call, server, &found, Some(spot.ready.known())).await;
    for (number, shown) in page.numbers().zip(shown) {
        shown.write(number, &mut text);
    }
    page.more(&mut text);
    Ok(text)
}
