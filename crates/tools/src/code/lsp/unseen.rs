//! What a new name leaves behind: places that have the old one and of which the server cannot tell what they mean, since
//! they are built under other conditions (tags, platforms, features) or have no type that is known.

use super::{
    ask::Spot,
    rename::Found,
    strangers::{of_server, shared},
    trouble::Trouble,
    workspace_symbols::files_with,
};
use crate::Call;
use ::code::{Depth, Kind, Language, Reader, Symbol, outline};
use ::lsp::{Encoding, Lines, Position, Range, TextEdit, locations, to_uri};
use serde_json::json;
use std::{collections::HashSet, path::PathBuf};
use workspace::ContainedPath;

/// Places that are asked about, and files they are in.
const ASKED: usize = 60;
const FILES: usize = 24;
/// Those that are named.
const NAMED: usize = 5;

/// A place that still has the old name.
struct Left {
    file: ContainedPath,
    range: Range,
    shown: String,
    /// It declares something of the package, or of the module.
    declares: bool,
    /// It declares a method of a class that is derived from one whose method gets the new name.
    overrides: bool,
}

/// What was looked at.
struct Looked {
    places: Vec<Left>,
    /// Places that were too many.
    more: usize,
}

/// Renames what the server knows at a place but passed over; the rest in words, beginning with a line break.
pub(super) async fn complete(
    call: &Call,
    spot: &Spot,
    files: &mut Vec<Found>,
    new: &str,
) -> Result<String, Trouble> {
    let server = &spot.ready.server;
    let encoding = server.client.encoding();
    let (mut old, mut edited) = (HashSet::new(), HashSet::new());
    for file in files.iter() {
        let text = plain(&file.before);
        let lines = Lines::of(&text);
        for edit in &file.edits {
            edited.insert((file.path.relative().to_owned(), edit.range.start));
            if edit.new_text == new {
                let (start, end) =
                    (lines.byte(edit.range.start, encoding), lines.byte(edit.range.end, encoding));
                old.extend(text.get(start..end).map(str::to_owned));
            }
        }
    }
    old.retain(|name| name != new && super::names::is_name(name));
    let (key, near, known) = (server.key.clone(), spot.ready.file.relative().to_owned(), edited.clone());
    let look = move |call: &Call| {
        let names: Vec<&str> = old.iter().map(String::as_str).collect();
        let found = if names.is_empty() { Vec::new() } else { files_with(call, &names) };
        let mut found = of_server(call, &key, found.into_iter());
        found.sort_by_key(|file| std::cmp::Reverse(shared(file, &near)));
        Ok(look(call, &found, &names, &known, encoding))
    };
    let Looked { places, more } = call.blocking(look).await?;
    let mut shown: Vec<ContainedPath> = places.iter().map(|left| left.file.clone()).collect();
    shown.dedup();
    if !shown.is_empty() {
        server.sync(call, &shown).await?;
        server.settle(call).await?;
    }
    let mut unseen = Vec::new();
    let go = server.key.language == "go";
    for left in places {
        let params = json!({
            "textDocument": {"uri": to_uri(&server.theirs(left.file.relative()))},
            "position": left.range.start,
        });
        let leads = locations(&server.ask(call, "textDocument/definition", params).await?);
        let lead = |at: &::lsp::Location| Some((server.ours(&at.path)?, at.range.start));
        let leads: Vec<Option<(PathBuf, Position)>> = leads.iter().map(lead).collect();
        let here = Some((left.file.relative().to_owned(), left.range.start));
        let own = leads == [here];
        if leads.is_empty() || (go && left.declares && own) || (left.overrides && own) {
            unseen.push(left.shown);
        } else if go && leads.iter().flatten().any(|at| edited.contains(at)) {
            add(call, files, &left.file, TextEdit { range: left.range, new_text: new.to_owned() }).await?;
        }
    }
    Ok(said(server.name, &unseen, more))
}

fn said(server: &str, unseen: &[String], more: usize) -> String {
    let mut text = String::new();
    if !unseen.is_empty() {
        let named = unseen.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
        let etc = if unseen.len() > NAMED { ", …" } else { "" };
        text = format!(
            "\n{} place(s) keep the name, since {server} cannot tell what they mean (built under other conditions, of \
             no known type) or takes them for something else (overrides): {named}{etc}",
            unseen.len()
        );
    }
    if more > 0 {
        text.push_str(&format!(
            "\n{more} more place(s) have the name and were not looked at; Grep finds them"
        ));
    }
    text
}

fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned()
}

/// Finds the names in code that no edit is about.
fn look(
    call: &Call,
    files: &[PathBuf],
    names: &[&str],
    edited: &HashSet<(PathBuf, Position)>,
    encoding: Encoding,
) -> Looked {
    let mut reader = Reader::default();
    let mut looked = Looked { places: Vec::new(), more: 0 };
    let bases = bases(call, edited, encoding);
    for (n, file) in files.iter().enumerate() {
        let Some(language) = Language::of_path(file) else { continue };
        let Ok(path) = call.workspace.resolve(file) else { continue };
        let Ok(text) = super::told::source(&call.workspace, &path) else { continue };
        let Some(parsed) = reader.parse(language, text.as_bytes()) else { continue };
        let lines = Lines::of(&text);
        let symbols = parsed.outline(Depth::Items);
        let top = |byte: usize| {
            let here = |symbol: &&Symbol| symbol.name_at.start == byte;
            symbols.iter().find(here).is_some_and(|it| it.container.is_none() && it.owner.is_empty())
        };
        let derived = |byte: usize| {
            let method = symbols.iter().find(|symbol| symbol.name_at.start == byte);
            let class = method.and_then(|method| method.container).map(|class| &symbols[class]);
            let head = class.and_then(|class| text.get(class.name_at.end..class.signature.end));
            head.is_some_and(|head| bases.iter().any(|base| super::names::word(head, base).is_some()))
        };
        for name in names {
            for byte in parsed.uses(name, usize::MAX) {
                let start = lines.position(byte, encoding);
                if edited.contains(&(file.clone(), start)) {
                    continue;
                }
                if n >= FILES || looked.places.len() >= ASKED {
                    looked.more += 1;
                    continue;
                }
                let end = lines.position(byte + name.len(), encoding);
                let (line, col) = lines.shown(start, encoding);
                looked.places.push(Left {
                    file: path.clone(),
                    range: Range { start, end },
                    shown: format!("{path}:{line}:{col}"),
                    declares: top(byte),
                    overrides: derived(byte),
                });
            }
        }
    }
    looked
}

/// The classes in Python whose methods are edited: its servers do not take an override for the same thing.
fn bases(call: &Call, edited: &HashSet<(PathBuf, Position)>, encoding: Encoding) -> HashSet<String> {
    let files: HashSet<&PathBuf> = edited.iter().map(|(file, _)| file).collect();
    let mut found = HashSet::new();
    for file in files.into_iter().filter(|file| Language::of_path(file) == Some(Language::Python)) {
        let Some(text) = super::told::source_of(&call.workspace, file, u64::MAX) else { continue };
        let lines = Lines::of(&text);
        let symbols = outline(Language::Python, text.as_bytes(), Depth::Items);
        let is_edited = |symbol: &&Symbol| {
            let at = lines.position(symbol.name_at.start, encoding);
            symbol.kind == Kind::Method && edited.contains(&(file.clone(), at))
        };
        let class = |symbol: &Symbol| Some(symbols[symbol.container?].name.clone());
        found.extend(symbols.iter().filter(is_edited).filter_map(class));
    }
    found
}

/// Adds an edit of a file.
async fn add(
    call: &Call,
    files: &mut Vec<Found>,
    path: &ContainedPath,
    edit: TextEdit,
) -> Result<(), Trouble> {
    if let Some(file) = files.iter_mut().find(|file| file.path == *path) {
        file.edits.push(edit);
        return Ok(());
    }
    let (one, relative) = (vec![edit], path.relative().to_owned());
    files.extend(call.blocking(move |call| super::rename::read(call, [(relative, one)].into())).await?);
    Ok(())
}
