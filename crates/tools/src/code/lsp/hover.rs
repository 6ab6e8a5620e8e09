//! `hover`: what a symbol is.

use super::{
    args::{Place, place_tool},
    ask::spot,
    trouble::{Trouble, twice},
    unlinked,
};
use crate::{Call, Class, Group, Spec, Tool, ToolError};

/// Bytes of documentation that are shown.
const SHOWN: usize = 8 << 10;

/// Tells what a symbol is.
pub(crate) struct Hover;

place_tool!(Hover, "hover", "Type, signature and documentation of a symbol.", hover);

async fn hover(call: &Call, at: &Place) -> Result<String, Trouble> {
    let spot = spot(call, "hover", &at.at()).await?;
    let text = ::lsp::hover(&spot.ready.server.ask(call, "textDocument/hover", spot.params()).await?);
    let text = text.trim();
    Ok(match text.is_empty() {
        true => {
            let unlinked = unlinked::said(call, &spot.ready).await?;
            format!("nothing is known about {}{unlinked}", spot.shown)
        }
        false => format!("{}:\n{}", spot.shown, ::verify::bound(text, SHOWN)),
    })
}
