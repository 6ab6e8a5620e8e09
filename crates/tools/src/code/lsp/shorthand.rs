//! `{ add }` makes a property of a variable of the same name: when one of the two gets a new name, both must be written.
//! The servers for TypeScript rename such a place as if it were one name, or pass it over.

use super::{rename::Found, running::Running, trouble::Trouble};
use crate::Call;
use ::code::{Language, Reader};
use ::lsp::{Encoding, Lines, Position, Range, TextEdit, locations, to_uri};
use serde_json::json;
use std::{collections::HashSet, path::PathBuf};
use workspace::ContainedPath;

/// Places that are asked about.
const MOST: usize = 500;

/// A place where an object is made with a shorthand.
struct Short {
    file: usize,
    range: Range,
    name: String,
}

/// Where an edit begins: of which file, and there.
type At = (usize, Position);

/// What the edits are about.
struct Looked {
    shorts: Vec<Short>,
    edited: HashSet<At>,
    /// Those that are of a property's name alone.
    properties: HashSet<At>,
}

/// Makes the edits write both names where only one of them is new.
pub(super) async fn complete(
    call: &Call,
    server: &Running,
    files: Vec<Found>,
    new: &str,
) -> Result<Vec<Found>, Trouble> {
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
    for Short { file, range, name } in looked.shorts {
        let params = json!({"textDocument": {"uri": to_uri(&paths[file])}, "position": range.start});
        let leads = locations(&server.ask(call, "textDocument/definition", params).await?);
        let edits = leads.iter().filter_map(|lead| {
            let at = (paths.iter().position(|path| *path == lead.path)?, lead.range.start);
            // A shorthand that declares its property leads to itself.
            (looked.edited.contains(&at) && at != (file, range.start)).then_some(at)
        });
        let (property, variable): (Vec<At>, Vec<At>) = edits.partition(|at| looked.properties.contains(at));
        let here = looked.edited.contains(&(file, range.start));
        let both = match (variable.is_empty(), property.is_empty()) {
            (false, false) => new.to_owned(),
            (false, true) => format!("{name}: {new}"),
            (true, _) if !here => continue,
            // Of a place that leads nowhere the variable is the likelier one.
            (true, _) if leads.is_empty() => format!("{name}: {new}"),
            (true, _) => format!("{new}: {name}"),
        };
        let edits = &mut files[file].edits;
        edits.retain(|edit| edit.range.start != range.start);
        edits.push(TextEdit { range, new_text: both });
    }
    Ok(files)
}

/// Finds the shorthands with a name that the edits replace.
fn look(files: &[Found], new: &str, encoding: Encoding) -> Looked {
    let mut reader = Reader::default();
    let mut looked = Looked { shorts: Vec::new(), edited: HashSet::new(), properties: HashSet::new() };
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
        for range in parsed.map(|parsed| parsed.shorthands()).unwrap_or_default() {
            let at = |byte: usize| lines.position(byte, encoding);
            let whole = Range { start: at(range.start), end: at(range.end) };
            shorts.push(Short { file: n, range: whole, name: text[range].to_owned() });
        }
    }
    looked.shorts = shorts.into_iter().filter(|short| old.contains(&short.name)).take(MOST).collect();
    looked
}
