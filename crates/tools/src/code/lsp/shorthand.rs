//! `{ add }` makes a property of a variable of the same name, or takes one out of something: when one of the two gets a
//! new name, both must be written. The servers for TypeScript rename such a place as if it were one name, or pass it
//! over.

use super::{ask::Spot, rename::Found, running::Running, trouble::Trouble, unseen::plain};
use crate::Call;
use ::code::{Language, Reader};
use ::lsp::{Encoding, Lines, Location, Position, Range, TextEdit};
use std::{collections::HashSet, path::PathBuf};
use workspace::ContainedPath;

/// Places that are asked about.
const MOST: usize = 500;

/// A place where one name stands for two.
struct Short {
    file: usize,
    range: Range,
    name: String,
    /// An object is made of it otherwise.
    taken: Option<Taken>,
}

/// What a variable is taken out of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taken {
    Property,
    /// A module of the project, as far as its name tells.
    Beside,
    Package,
}

/// Where an edit begins: of which file, and there.
type At = (usize, Position);

/// What the edits are about.
#[derive(Default)]
struct Looked {
    shorts: Vec<Short>,
    edited: HashSet<At>,
    /// Those that are of a property's name alone.
    properties: HashSet<At>,
    /// Names that a module gives to others in place of its own, and that get the new one.
    given: HashSet<String>,
}

/// Makes the edits write both names where only one of them is new; says, beginning with a line break, where what a
/// variable is taken from is not known.
pub(super) async fn complete(
    call: &Call,
    server: &Running,
    files: Vec<Found>,
    new: &str,
) -> Result<(Vec<Found>, String), Trouble> {
    let (name, encoding) = (new.to_owned(), server.client.encoding());
    let (mut files, looked) = call
        .blocking(move |_| {
            let looked = look(&files, &name, encoding);
            Ok((files, looked))
        })
        .await?;
    let paths: Vec<PathBuf> = files.iter().map(|file| server.theirs(file.path.relative())).collect();
    // A server may know nothing about a file that it was not shown.
    let mut shown: Vec<usize> = looked.shorts.iter().map(|short| short.file).collect();
    shown.dedup();
    let shown: Vec<ContainedPath> = shown.into_iter().map(|file| files[file].path.clone()).collect();
    if !shown.is_empty() {
        server.sync(call, &shown).await?;
    }
    let mut alone: Vec<(usize, Range, String, Taken)> = Vec::new();
    for Short { file, range, name, taken } in looked.shorts {
        let itself = |lead: &Location| lead.path == paths[file] && lead.range.start == range.start;
        let leads = server.leads(call, files[file].path.relative(), range.start).await?;
        let edits = leads.iter().filter_map(|lead| {
            let at = (paths.iter().position(|path| *path == lead.path)?, lead.range.start);
            // A shorthand that declares its property leads to itself.
            (looked.edited.contains(&at) && at != (file, range.start)).then_some(at)
        });
        let (property, variable): (Vec<At>, Vec<At>) = edits.partition(|at| looked.properties.contains(at));
        let here = looked.edited.contains(&(file, range.start));
        // What stands behind `as` in the export leads past it, to what is exported.
        let given = looked.given.contains(&name)
            && match taken {
                Some(Taken::Beside) => true,
                Some(Taken::Package) => {
                    leads.iter().any(|lead| !itself(lead) && server.ours(&lead.path).is_some())
                }
                Some(Taken::Property) | None => false,
            };
        let both = match (taken, variable.is_empty(), property.is_empty()) {
            (Some(_), ..) if given => continue,
            // What it is taken from is not known to the server and keeps its own name, or gets the new one, too.
            (Some(taken), true, true) if here => {
                alone.push((file, range, name, taken));
                continue;
            }
            (Some(_), ..) => continue,
            (None, false, false) => new.to_owned(),
            (None, false, true) => format!("{name}: {new}"),
            (None, true, _) if !here => continue,
            // Of a place that leads nowhere the variable is the likelier one.
            (None, true, _) if leads.is_empty() => format!("{name}: {new}"),
            (None, true, _) => format!("{new}: {name}"),
        };
        put(&mut files[file].edits, range, both);
    }
    // Modules that pass on what comes from a package get the new name from each other.
    let passed_on = alone.iter().any(|(.., taken)| *taken == Taken::Package);
    alone.retain(|(.., taken)| !(passed_on && *taken == Taken::Beside));
    let mut places = Vec::new();
    for (file, range, name, taken) in alone {
        let between = if taken == Taken::Property { ": " } else { " as " };
        places.push(format!("{}:{}", files[file].path, range.start.line + 1));
        put(&mut files[file].edits, range, format!("{name}{between}{new}"));
    }
    Ok((files, said(server.name, &places)))
}

/// Leaves out edits of other names than the one at the place that was asked about. What is exported under another name
/// (`export { add as plus }`) has two, and servers for TypeScript confuse them: they would give the new name to what
/// imports `plus` when `add` is meant, and to `add` when what imports `plus` through another module is.
pub(super) async fn only_asked(call: &Call, spot: &Spot, files: Vec<Found>) -> Result<Vec<Found>, Trouble> {
    let encoding = spot.ready.server.client.encoding();
    let (own, text, at) = (spot.ready.file.clone(), spot.ready.text.clone(), spot.position);
    let look = move |_: &Call| {
        let lines = Lines::of(&text);
        let asked = lines.byte(at, encoding);
        let here = files.iter().filter(|file| file.path == own).flat_map(|file| &file.edits);
        let name = here.into_iter().find_map(|edit| {
            let (start, end) = (lines.byte(edit.range.start, encoding), lines.byte(edit.range.end, encoding));
            text.get(start..end).filter(|_| (start..=end).contains(&asked)).map(bare)
        });
        // An answer that passes over the place itself says nothing about its name.
        let Some(name) = name.filter(|name| !name.is_empty()) else { return Ok(files) };
        let mut reader = Reader::default();
        let files = files.into_iter().map(|file| of_name(&mut reader, file, name, encoding));
        Ok(files.filter(|file| !file.edits.is_empty()).collect())
    };
    Ok(call.blocking(look).await?)
}

/// A file with those edits alone that are of a name; one that is of what is exported under it becomes one of the name.
fn of_name(reader: &mut Reader, file: Found, name: &str, encoding: Encoding) -> Found {
    let text = plain(&file.before);
    let lines = Lines::of(&text);
    let start = |edit: &TextEdit| lines.byte(edit.range.start, encoding);
    let is =
        |edit: &TextEdit| text.get(start(edit)..lines.byte(edit.range.end, encoding)).map(bare) == Some(name);
    let (mut edits, others): (Vec<TextEdit>, Vec<TextEdit>) = file.edits.into_iter().partition(is);
    let language = Language::of_path(file.path.relative()).filter(|_| !others.is_empty());
    let parsed = language.and_then(|language| reader.parse(language, text.as_bytes()));
    for (exported, given) in parsed.map(|parsed| parsed.given_names()).unwrap_or_default() {
        let other = others.iter().find(|edit| start(edit) == exported.start);
        let Some(other) = other.filter(|_| bare(&text[given.clone()]) == name) else { continue };
        let at = |byte: usize| lines.position(byte, encoding);
        let range = Range { start: at(given.start), end: at(given.end) };
        put(&mut edits, range, other.new_text.clone());
    }
    drop(lines);
    Found { edits, ..file }
}

/// A name without quotes: a property's may have some.
fn bare(text: &str) -> &str {
    text.trim_matches(['"', '\'', '`'])
}

/// Puts an edit in the place of another.
fn put(edits: &mut Vec<TextEdit>, range: Range, new_text: String) {
    edits.retain(|edit| edit.range.start != range.start);
    edits.push(TextEdit { range, new_text });
}

fn said(server: &str, alone: &[String]) -> String {
    /// Places that are named.
    const NAMED: usize = 5;
    if alone.is_empty() {
        return String::new();
    }
    let named = alone.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let etc = if alone.len() > NAMED { ", …" } else { "" };
    format!(
        "\n{} place(s) write both names, since {server} does not know what it is taken from there: {named}{etc}",
        alone.len()
    )
}

/// Finds the shorthands with a name that the edits replace.
fn look(files: &[Found], new: &str, encoding: Encoding) -> Looked {
    let mut reader = Reader::default();
    let mut looked = Looked::default();
    let mut old: HashSet<String> = HashSet::new();
    let mut shorts = Vec::new();
    for (n, file) in files.iter().enumerate() {
        let text = String::from_utf8_lossy(&file.before);
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let lines = Lines::of(text);
        let language = Language::of_path(file.path.relative());
        let parsed = language.and_then(|language| reader.parse(language, text.as_bytes()));
        for edit in file.edits.iter().filter(|edit| edit.new_text == new) {
            let (start, end) = (lines.byte(edit.range.start, encoding), lines.byte(edit.range.end, encoding));
            looked.edited.insert((n, edit.range.start));
            old.extend(text.get(start..end).map(str::to_owned));
            if parsed.as_ref().is_some_and(|parsed| parsed.is_property(start)) {
                looked.properties.insert((n, edit.range.start));
            }
        }
        let Some(parsed) = parsed else { continue };
        let given = parsed.given_names().into_iter().map(|(_, given)| given);
        let given = given.filter(|at| looked.edited.contains(&(n, lines.position(at.start, encoding))));
        looked.given.extend(given.map(|at| text[at].to_owned()));
        let taken = parsed.borrowed().into_iter().map(|it| {
            let taken = match it.module.map(|at| &text[at]) {
                None => Taken::Property,
                Some(module) if module[1..].starts_with('.') => Taken::Beside,
                Some(_) => Taken::Package,
            };
            (it.name, Some(taken))
        });
        for (range, taken) in parsed.shorthands().into_iter().map(|range| (range, None)).chain(taken) {
            let at = |byte: usize| lines.position(byte, encoding);
            let whole = Range { start: at(range.start), end: at(range.end) };
            shorts.push(Short { file: n, range: whole, name: text[range].to_owned(), taken });
        }
    }
    looked.shorts = shorts.into_iter().filter(|short| old.contains(&short.name)).take(MOST).collect();
    looked
}
