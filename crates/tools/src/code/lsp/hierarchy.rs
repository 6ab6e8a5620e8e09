//! `call_hierarchy`: who calls a function, and whom it calls.

use super::{
    args::{place_args, read_tool},
    ask::spot,
    show, siblings, strangers,
    trouble::{Trouble, twice},
    unlinked,
};
use crate::{Call, Class, Group, Spec, Tool, ToolError};
use ::lsp::{CallItem, Location, calls_in, calls_out};
use serde_json::json;
use std::{collections::HashSet, fmt::Write as _, path::PathBuf};

/// Calls that are shown.
const SHOWN: usize = 100;

/// Tells who calls whom.
pub(crate) struct CallHierarchy;

place_args! {
    /// What `call_hierarchy` takes.
    Args {
        #[serde(default)]
        outgoing: Option<bool>,
        #[serde(default)]
        offset: Option<u32>,
    }
}

read_tool!(CallHierarchy, Args, "call_hierarchy", "Callers of a function; outgoing: what it calls.", calls);

async fn calls(call: &Call, args: &Args) -> Result<String, Trouble> {
    let spot = spot(call, "call_hierarchy", &args.at()).await?;
    let server = &spot.ready.server;
    if !server.client.offers("callHierarchyProvider") {
        return Err(ToolError::caller(format!("call_hierarchy: {} does not offer it", server.name)).into());
    }
    let items = server.ask(call, "textDocument/prepareCallHierarchy", spot.params()).await?;
    let Some(item) = CallItem::all(&items).into_iter().next() else {
        let unlinked = unlinked::said(call, &spot.ready).await?;
        return Ok(format!("no function at {}{unlinked}", spot.shown));
    };
    let out = args.outgoing == Some(true);
    let method = if out { "callHierarchy/outgoingCalls" } else { "callHierarchy/incomingCalls" };
    let answer = server.ask(call, method, json!({"item": item.raw})).await?;
    // A call is where it is made: in the caller, which is this function or the other one.
    let mut found: Vec<(String, Location)> = Vec::new();
    for (other, ranges) in if out { calls_out(&answer) } else { calls_in(&answer) } {
        let path = if out { &item.location.path } else { &other.location.path };
        let name = format!("{} {}", other.kind.word(), server.within(&other.name));
        found.extend(ranges.into_iter().map(|range| (name.clone(), Location { path: path.clone(), range })));
    }
    let mut left = strangers::Left::default();
    if !out {
        let mut known: HashSet<PathBuf> = found.iter().map(|(_, at)| at.path.clone()).collect();
        known.insert(item.location.path.clone());
        let (more, unknown) = strangers::calls(call, &spot, known).await?;
        found.extend(more);
        left = unknown;
    }
    let mut elsewhere = String::new();
    if !out {
        let known = found.iter().map(|(_, at)| at).chain([&item.location]);
        let known = known.filter_map(|at| Some((server.ours(&at.path)?, at.range.start))).collect();
        elsewhere = siblings::told(call, &spot, known).await?;
    }
    found.sort_by(|a, b| (&a.1.path, a.1.range.start).cmp(&(&b.1.path, b.1.range.start)));
    found.dedup();
    let page = show::Page::of(&mut found, args.offset, SHOWN);
    let (total, what) = (page.total(), if out { "call(s) made by" } else { "call(s) of" });
    let mut text = format!("Found {total} {what} {}{}", item.name, if total == 0 { "" } else { ":" });
    let places: Vec<Location> = found.iter().map(|(_, at)| at.clone()).collect();
    let shown = show::places(call, server, &places, Some(spot.ready.known())).await;
    for (number, ((name, _), shown)) in page.numbers().zip(found.iter().zip(shown)) {
        let _ = write!(text, "\n{number}. {}  {name}  {}", shown.place, shown.line);
    }
    page.more(&mut text);
    text.push_str(&strangers::said(call, server, left).await);
    Ok(text + &elsewhere)
}
