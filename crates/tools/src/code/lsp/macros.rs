//! Uses in what macros of Rust are given: rust-analyzer passes over some of them when it looks for uses, depending on
//! what it did first, but always knows where one leads.

use super::{
    ask::Spot,
    strangers::{Left, of_server, shared},
    trouble::Trouble,
    workspace_symbols::files_with,
};
use crate::Call;
use ::code::{Language, Reader};
use ::lsp::{Lines, Location, Position, Range};
use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

/// Places that are asked about.
const PLACES: usize = 60;

/// Uses of the symbol that was `found` that are not among them; and how many files were too many.
pub(super) async fn elsewhere(
    call: &Call,
    spot: &Spot,
    found: &[Location],
) -> Result<(Vec<Location>, Left), Trouble> {
    let server = &spot.ready.server;
    let encoding = server.client.encoding();
    let Some(word) = spot.word() else { return Ok(Default::default()) };
    let known: HashSet<(PathBuf, Position)> =
        found.iter().filter_map(|at| Some((server.ours(&at.path)?, at.range.start))).collect();
    let (key, near) = (server.key.clone(), spot.ready.file.relative().to_owned());
    let look = move |call: &Call| {
        let mut files = of_server(call, &key, files_with(call, &[&word]).into_iter());
        files.sort_by_key(|file| std::cmp::Reverse(shared(file, &near)));
        let mut reader = Reader::default();
        let (mut places, mut left): (Vec<(PathBuf, Range)>, Left) = Default::default();
        for file in files {
            let text = super::told::source_of(&call.workspace, &file, u64::MAX).unwrap_or_default();
            let Some(parsed) = reader.parse(Language::Rust, text.as_bytes()) else { continue };
            let lines = Lines::of(&text);
            let place = |byte: usize| lines.position(byte, encoding);
            let uses = parsed.uses(&word, usize::MAX).into_iter().filter(|byte| parsed.in_macro(*byte));
            let ranges = uses.map(|byte| Range { start: place(byte), end: place(byte + word.len()) });
            let new: Vec<Range> =
                ranges.filter(|range| !known.contains(&(file.clone(), range.start))).collect();
            if places.len() + new.len() > PLACES {
                left.files += 1;
                continue;
            }
            places.extend(new.into_iter().map(|range| (file.clone(), range)));
        }
        Ok((places, left))
    };
    let (places, left) = call.blocking(look).await?;
    let starts: HashSet<(&Path, Position)> =
        found.iter().map(|at| (at.path.as_path(), at.range.start)).collect();
    let mut more = Vec::new();
    for (file, range) in places {
        let leads = server.leads(call, &file, range.start).await?;
        if leads.iter().any(|lead| starts.contains(&(lead.path.as_path(), lead.range.start))) {
            more.push(Location { path: server.theirs(&file), range });
        }
    }
    Ok((more, left))
}
