//! A new name that something else has already: what was renamed may hide it, be hidden by it or become one with it. gopls
//! refuses that; the others rename, and the code may still compile and mean something else.

use super::{rename::Found, running::Running, trouble::Trouble, unseen::plain};
use crate::Call;
use ::code::{Depth, Language, Parsed, Reader};
use ::lsp::{Encoding, Lines};
use std::ops::Range;

/// Places that are named.
const NAMED: usize = 5;

/// Says, beginning with a line break, where the new name already stands in the files that would change.
pub(super) async fn told(
    call: &Call,
    server: &Running,
    files: Vec<Found>,
    new: &str,
) -> Result<(Vec<Found>, String), Trouble> {
    if server.key.language == "go" {
        return Ok((files, String::new()));
    }
    let (new, encoding) = (new.to_owned(), server.client.encoding());
    let look = move |_: &Call| {
        let (places, all) = standing(&files, &new, encoding);
        let text = match all {
            0 => String::new(),
            all => format!(
                "\n{all} place(s) are called `{new}` already; see that none of them is hidden or merged: {}{}",
                places.join(", "),
                if all > NAMED { ", …" } else { "" }
            ),
        };
        Ok((files, text))
    };
    Ok(call.blocking(look).await?)
}

/// The first places that have the new name, and how many there are.
fn standing(files: &[Found], new: &str, encoding: Encoding) -> (Vec<String>, usize) {
    let mut reader = Reader::default();
    let (mut places, mut all) = (Vec::new(), 0);
    let texts: Vec<String> = files.iter().map(|file| plain(&file.before)).collect();
    let edited: Vec<Vec<usize>> =
        files.iter().zip(&texts).map(|(file, text)| starts(file, text, encoding)).collect();
    // A variable's name is no member's: `x.total` is something else than `total`.
    let of_something = |text: &str, at: usize| text[..at].ends_with('.');
    let member =
        edited.iter().zip(&texts).any(|(edited, text)| edited.iter().any(|at| of_something(text, *at)));
    for ((file, text), edited) in files.iter().zip(&texts).zip(&edited) {
        let language = Language::of_path(file.path.relative());
        let Some(parsed) = language.and_then(|language| reader.parse(language, text.as_bytes())) else {
            continue;
        };
        let within = if files.len() == 1 { function(&parsed, edited) } else { None };
        let lines = Lines::of(text);
        for at in parsed.uses(new, usize::MAX) {
            let inside = within.as_ref().is_none_or(|within| within.contains(&at));
            if !inside || edited.contains(&at) || (!member && of_something(text, at)) {
                continue;
            }
            all += 1;
            if places.len() < NAMED {
                let (line, col) = lines.shown(lines.position(at, encoding), encoding);
                places.push(format!("{}:{line}:{col}", file.path));
            }
        }
    }
    (places, all)
}

/// Where the edits of a file begin.
fn starts(file: &Found, text: &str, encoding: Encoding) -> Vec<usize> {
    let lines = Lines::of(text);
    file.edits.iter().map(|edit| lines.byte(edit.range.start, encoding)).collect()
}

/// The innermost function that holds all these places and is not itself called by one of them: what is known only in
/// there cannot be mistaken for what is outside.
pub(super) fn function(parsed: &Parsed<'_>, edited: &[usize]) -> Option<Range<usize>> {
    let holds = |it: &::code::Symbol| {
        it.kind.is_callable() && edited.iter().all(|at| it.full.contains(at) && !it.name_at.contains(at))
    };
    let all = parsed.outline(Depth::Everything);
    all.into_iter().filter(holds).map(|it| it.full).min_by_key(ExactSizeIterator::len)
}
