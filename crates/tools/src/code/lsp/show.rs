//! Places as agents read them: `file:line:col  source line`.

use super::{running::Running, told::source_of};
use crate::{Call, files::foreign};
use ::lsp::{Lines, Location};
use std::{
    collections::HashMap,
    fmt::Write as _,
    path::{Path, PathBuf},
};

/// Files of a list that are read where the call runs, when none is larger than [`SMALL`].
const FEW: usize = 4;
/// Bytes of a small file.
const SMALL: u64 = 128 << 10;
/// Characters of a source line that are shown.
const WIDE: usize = 200;
/// Lines of a file outside the workspace that are shown.
const EXCERPT: u32 = 12;
/// How many such files are looked into.
const FOREIGN: usize = 5;

/// A place in words.
pub(super) struct Shown {
    /// `file:line:col`.
    pub(super) place: String,
    /// The line, without indentation.
    pub(super) line: String,
    /// More of it, when the file is not of the workspace.
    pub(super) excerpt: Option<String>,
}

impl Shown {
    /// One line of a list, and the excerpt below.
    pub(super) fn write(&self, number: usize, text: &mut String) {
        let _ = write!(text, "\n{number}. {}  {}", self.place, self.line);
        if let Some(excerpt) = &self.excerpt {
            let _ = write!(text, "\n{excerpt}");
        }
    }
}

/// Where a file is, for a reader: relative to the workspace when it is in there.
pub(super) fn name(server: &Running, path: &Path) -> String {
    workspace::quoted(server.ours(path).as_deref().unwrap_or(path)).into_owned()
}

/// A file of the workspace whose text is known.
pub(super) type Known<'a> = (&'a Path, &'a str);

/// Shows places, with the lines that are there.
pub(super) async fn places(
    call: &Call,
    server: &Running,
    locations: &[Location],
    known: Option<Known<'_>>,
) -> Vec<Shown> {
    let ours: Vec<Option<PathBuf>> = locations.iter().map(|at| server.ours(&at.path)).collect();
    let mut unread: Vec<PathBuf> = ours.iter().flatten().cloned().collect();
    unread.sort();
    unread.dedup();
    unread.retain(|file| known.is_none_or(|(known, _)| known != file));
    let mut texts: HashMap<PathBuf, String> = HashMap::new();
    // Waking a thread takes longer than reading a few small files.
    if unread.len() <= FEW {
        unread.retain(|file| match source_of(&call.workspace, file, SMALL) {
            Some(text) => texts.insert(file.clone(), text).is_some(),
            None => true,
        });
    }
    if !unread.is_empty() {
        let read = move |call: &Call| {
            let text = |file: PathBuf| source_of(&call.workspace, &file, u64::MAX).map(|text| (file, text));
            Ok(unread.into_iter().filter_map(text).collect::<Vec<_>>())
        };
        texts.extend(call.blocking(read).await.unwrap_or_default());
    }
    let all = texts.iter().map(|(file, text)| (file.as_path(), text.as_str())).chain(known);
    let lines: HashMap<&Path, Lines<'_>> = all.map(|(file, text)| (file, Lines::of(text))).collect();
    let mut shown = Vec::new();
    let mut looked = 0;
    for (at, ours) in locations.iter().zip(&ours) {
        if let Some((file, lines)) = ours.as_deref().and_then(|file| lines.get_key_value(file)) {
            let (line, col) = lines.shown(at.range.start, server.client.encoding());
            let text = short(lines.line(at.range.start.line as usize).trim());
            shown.push(Shown {
                place: format!("{}:{line}:{col}", workspace::quoted(file)),
                line: text,
                excerpt: None,
            });
            continue;
        }
        looked += 1;
        let look = looked <= FOREIGN;
        call.session.foreign.name(&name(server, &at.path), server.sandbox(), &at.path);
        shown.push(if look { elsewhere(server, at).await } else { bare(server, at) });
    }
    shown
}

fn bare(server: &Running, at: &Location) -> Shown {
    let start = at.range.start;
    let place = format!("{}:{}:{}", name(server, &at.path), start.line + 1, start.character + 1);
    Shown { place, line: String::new(), excerpt: None }
}

/// A place outside of the workspace: what the server's sandbox lets one read of it.
async fn elsewhere(server: &Running, at: &Location) -> Shown {
    let first = at.range.start.line + 1;
    let window = (u64::from(first), u64::from(first + EXCERPT - 1));
    let text = foreign::lines(&**server.sandbox(), &at.path, window).await.unwrap_or_default();
    let Some(line) = text.lines().next() else { return bare(server, at) };
    let within = ::lsp::Position { line: 0, character: at.range.start.character };
    let (_, col) = Lines::of(line).shown(within, server.client.encoding());
    let mut excerpt = String::from("   (outside the workspace, read-only; Read shows more)");
    for (number, line) in (first..).zip(text.lines()) {
        let _ = write!(excerpt, "\n   {number}\t{}", short(line));
    }
    let place = format!("{}:{first}:{col}", name(server, &at.path));
    Shown { place, line: short(line.trim()), excerpt: Some(excerpt) }
}

/// A line that is not too long.
pub(super) fn short(line: &str) -> String {
    match line.char_indices().nth(WIDE) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

/// The part of a list that is shown, from `offset` on.
pub(super) struct Page {
    total: usize,
    first: usize,
    end: usize,
}

impl Page {
    /// Takes a list's part of at most `most`.
    pub(super) fn of<T>(list: &mut Vec<T>, offset: Option<u32>, most: usize) -> Self {
        let total = list.len();
        let first = offset.map_or(0, |offset| offset as usize).min(total);
        let end = total.min(first + most);
        list.truncate(end);
        list.drain(..first);
        Self { total, first, end }
    }

    /// How many there are.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// The numbers of its entries.
    pub(super) fn numbers(&self) -> impl Iterator<Item = usize> + use<> {
        self.first + 1..
    }

    /// How many come after it.
    pub(super) fn left(&self) -> usize {
        self.total - self.end
    }

    /// What it leaves out and how to get it.
    pub(super) fn more(&self, text: &mut String) {
        if self.left() > 0 {
            let _ = write!(text, "\n… {} more of {}; offset={} goes on", self.left(), self.total, self.end);
        }
    }
}
