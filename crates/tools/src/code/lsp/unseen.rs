//! What a new name leaves behind: places that have the old one and of which the server cannot tell what they mean, since
//! they are built under other conditions (tags, platforms, features), have no type that is known, or are examples.

use super::{
    ask::Spot,
    family::{self, Class, Family, Member},
    rename::{Found, origin},
    strangers::{of_server, shared},
    taken::function,
    trouble::Trouble,
    workspace_symbols::files_with,
};
use crate::Call;
use ::code::{Depth, Language, Reader, Symbol, outline};
use ::lsp::{Encoding, Lines, Position, Range, TextEdit};
use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
};
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
    /// The class in Python that it names a member of, and how.
    member: Option<(Class, Member)>,
    /// It names a parameter in Python.
    parameter: bool,
    /// What it is called, where it says in Python which parameter an argument is for.
    keyword: Option<String>,
}

/// What was looked at.
struct Looked {
    places: Vec<Left>,
    /// Places that were too many.
    more: usize,
    /// The classes in Python whose members get the new name, and what they are called.
    classes: HashMap<Class, String>,
    /// A fixture of pytest gets the new name: parameters that are called so ask for it.
    fixture: bool,
    /// A parameter in Python does: it may be passed on by others, through `**`.
    parameter: bool,
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
    let Looked { places, more, classes, fixture, parameter } = call.blocking(look).await?;
    let mut shown: Vec<ContainedPath> = places.iter().map(|left| left.file.clone()).collect();
    shown.dedup();
    if !shown.is_empty() {
        server.sync(call, &shown).await?;
        server.settle(call).await?;
    }
    let mut unseen = Vec::new();
    let [go, python, rust] = ["go", "python", "rust"].map(|language| server.key.language == language);
    let all_known = |leads: &[Option<(PathBuf, Position)>]| {
        leads.iter().all(|lead| lead.as_ref().is_some_and(|at| edited.contains(at)))
    };
    let implementations =
        if go && !places.is_empty() { implementations(call, spot).await? } else { HashSet::new() };
    let mut family = Family::of(call, server, classes).await?;
    for left in places {
        let found = server.leads(call, left.file.relative(), left.range.start).await?;
        let lead = |at: &::lsp::Location| Some((server.ours(&at.path)?, at.range.start));
        let leads: Vec<Option<(PathBuf, Position)>> = found.iter().map(lead).collect();
        let file = left.file.relative();
        let at = left.range.start;
        let itself = |lead: &::lsp::Location| {
            let range = &lead.range;
            server.ours(&lead.path).as_deref() == Some(file) && (range.start..=range.end).contains(&at)
        };
        let overrides = match &left.member {
            Some((class, Member::Declared)) => family.has(class).await?,
            Some((class, Member::Used)) if found.iter().any(itself) => family.has(class).await?,
            _ => false,
        };
        let asks_for_it = fixture && left.parameter;
        let keyword = left.keyword.filter(|_| parameter);
        let passed_on = keyword.is_some_and(|name| leads_past(call, &leads, &name, encoding));
        let here = Some((file.to_owned(), at));
        let implements = !left.declares && here.as_ref().is_some_and(|here| implementations.contains(here));
        if leads.is_empty()
            || (go && left.declares && leads == [here])
            || overrides
            || implements
            || asks_for_it
            || passed_on
        {
            unseen.push(left.shown);
        } else if (go && leads.iter().flatten().any(|at| edited.contains(at)))
            || ((python || rust) && all_known(&leads))
        {
            add(call, files, &left.file, TextEdit { range: left.range, new_text: new.to_owned() }).await?;
        } else if rust && leads.iter().flatten().any(|at| edited.contains(at)) {
            // One name for two things, of which only one gets a new one.
            unseen.push(left.shown);
        }
    }
    if python {
        let (all, new) = (std::mem::take(files), new.to_owned());
        *files = call.blocking(move |_| Ok(with_lists(all, &new, encoding))).await?;
    }
    Ok(said(server.name, &unseen, more))
}

/// Renames what `__all__` lists in modules of Python that get the new name for something of theirs: a name that is
/// listed and not there makes `from x import *` fail.
fn with_lists(mut files: Vec<Found>, new: &str, encoding: Encoding) -> Vec<Found> {
    let mut reader = Reader::default();
    for file in &mut files {
        let text = plain(&file.before);
        let Some(parsed) = reader.parse(Language::Python, text.as_bytes()) else { continue };
        let lines = Lines::of(&text);
        let at = |byte: usize| lines.position(byte, encoding);
        let bound = file.edits.iter().filter(|edit| edit.new_text == new).filter_map(|edit| {
            let (start, end) = (lines.byte(edit.range.start, encoding), lines.byte(edit.range.end, encoding));
            text.get(start..end).filter(|_| parsed.binds(start))
        });
        let bound: HashSet<&str> = bound.collect();
        for place in bound.into_iter().flat_map(|name| parsed.listed(name)) {
            let range = Range { start: at(place.start), end: at(place.end) };
            // Some servers know the list; their edit may be of the quotes as well.
            let known = |edit: &TextEdit| edit.range.start <= range.start && range.end <= edit.range.end;
            if !file.edits.iter().any(known) {
                file.edits.push(TextEdit { range, new_text: new.to_owned() });
            }
        }
    }
    files
}

/// Whether an argument's name leads to something of the workspace that is called otherwise: to a function that takes
/// whatever it is given, and may pass it on.
fn leads_past(call: &Call, leads: &[Option<(PathBuf, Position)>], name: &str, encoding: Encoding) -> bool {
    leads.iter().flatten().any(|(file, at)| {
        let text = super::told::source_of(&call.workspace, file, u64::MAX).unwrap_or_default();
        super::names::around(&text, Lines::of(&text).byte(*at, encoding)).is_some_and(|found| found != name)
    })
}

/// Methods in Go that implement the one at a spot, or that it implements: gopls gives them its name only where it sees
/// one assigned to the other.
async fn implementations(call: &Call, spot: &Spot) -> Result<HashSet<(PathBuf, Position)>, Trouble> {
    let server = &spot.ready.server;
    let params = origin(call, spot).await?;
    let found = server.places(call, "textDocument/implementation", params).await?;
    Ok(found.into_iter().filter_map(|at| Some((server.ours(&at.path)?, at.range.start))).collect())
}

fn said(server: &str, unseen: &[String], more: usize) -> String {
    let mut text = String::new();
    if !unseen.is_empty() {
        let named = unseen.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
        let etc = if unseen.len() > NAMED { ", …" } else { "" };
        text = format!(
            "\n{} place(s) keep the name, since {server} cannot tell what they mean (built under other conditions, of \
             no known type, examples) or takes them for something else (overrides, implementations, fixtures, what \
             `**` takes): {named}{etc}",
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

/// A text as servers see it.
pub(super) fn plain(bytes: &[u8]) -> String {
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
    let mut looked = in_python(call, edited, encoding);
    let local = local(call, edited, encoding);
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
        let member = |byte: usize| {
            let (class, how) = family::class_of(&symbols, &text, byte)?;
            let line = lines.position(class.name_at.start, encoding).line;
            (language == Language::Python).then(|| ((file.clone(), line), how))
        };
        let parameter =
            |byte: usize| language == Language::Python && symbols.iter().any(|it| takes(it, byte));
        let inside = |byte: usize| local.as_ref().is_none_or(|(own, at)| own == file && at.contains(&byte));
        for name in names {
            let mentions = parsed.mentions(name).into_iter().filter(|it| !(it.example && local.is_some()));
            let all = parsed.uses(name, usize::MAX).into_iter().chain(mentions.map(|it| it.at));
            for byte in all.filter(|byte| inside(*byte)) {
                let (start, end) =
                    (lines.position(byte, encoding), lines.position(byte + name.len(), encoding));
                // `x` becomes `x: new` by what is put behind it.
                if edited.contains(&(file.clone(), start)) || edited.contains(&(file.clone(), end)) {
                    continue;
                }
                if n >= FILES || looked.places.len() >= ASKED {
                    looked.more += 1;
                    continue;
                }
                let (line, col) = lines.shown(start, encoding);
                looked.places.push(Left {
                    file: path.clone(),
                    range: Range { start, end },
                    shown: format!("{path}:{line}:{col}"),
                    declares: top(byte),
                    member: member(byte),
                    parameter: parameter(byte),
                    keyword: parsed.is_keyword(byte).then(|| (*name).to_owned()),
                });
            }
        }
    }
    looked
}

/// The function in Rust that has all of the edits in it: what it knows alone, nothing outside can mean.
fn local(
    call: &Call,
    edited: &HashSet<(PathBuf, Position)>,
    encoding: Encoding,
) -> Option<(PathBuf, std::ops::Range<usize>)> {
    let (file, _) = edited.iter().next()?;
    let alone = edited.iter().all(|(other, _)| other == file);
    let language = Language::of_path(file).filter(|language| alone && *language == Language::Rust)?;
    let text = super::told::source_of(&call.workspace, file, u64::MAX)?;
    let lines = Lines::of(&text);
    let places: Vec<usize> = edited.iter().map(|(_, at)| lines.byte(*at, encoding)).collect();
    let within = function(&Reader::default().parse(language, text.as_bytes())?, &places)?;
    Some((file.clone(), within))
}

/// What the edits are about in Python, before any place is looked at.
fn in_python(call: &Call, edited: &HashSet<(PathBuf, Position)>, encoding: Encoding) -> Looked {
    let mut files: HashMap<&PathBuf, Vec<Position>> = HashMap::new();
    for (file, at) in edited.iter().filter(|(file, _)| Language::of_path(file) == Some(Language::Python)) {
        files.entry(file).or_default().push(*at);
    }
    let (mut classes, mut fixture, mut parameter) = (HashMap::new(), false, false);
    for (file, places) in files {
        let Some(text) = super::told::source_of(&call.workspace, file, u64::MAX) else { continue };
        let lines = Lines::of(&text);
        let symbols = outline(Language::Python, text.as_bytes(), Depth::Items);
        for at in places {
            let byte = lines.byte(at, encoding);
            if let Some((class, _)) = family::class_of(&symbols, &text, byte) {
                let line = lines.position(class.name_at.start, encoding).line;
                classes.insert((file.clone(), line), class.name.clone());
            }
            parameter |= symbols.iter().any(|it| takes(it, byte));
            let here = symbols.iter().find(|it| it.name_at.start == byte && it.kind.is_callable());
            let head = here.and_then(|it| text.get(it.full.start..it.name_at.start)).unwrap_or_default();
            fixture |=
                head.lines().any(|line| line.trim_start().starts_with('@') && line.contains("fixture"));
        }
    }
    Looked { places: Vec::new(), more: 0, classes, fixture, parameter }
}

/// Whether a place is among a function's parameters.
fn takes(symbol: &Symbol, byte: usize) -> bool {
    symbol.kind.is_callable() && (symbol.name_at.end..symbol.signature.end).contains(&byte)
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
