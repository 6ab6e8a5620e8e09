//! Edits put into a text.

use crate::{Encoding, Lines, Range, TextEdit};

/// What edits made of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextChange {
    /// The new text.
    pub text: String,
    /// How many places were changed.
    pub places: usize,
}

/// Applies a server's edits to the text they were made for. `None` when they overlap, which no server may send.
#[must_use]
pub fn apply(text: &str, edits: &[TextEdit], encoding: Encoding) -> Option<TextChange> {
    let lines = Lines::of(text);
    let mut places: Vec<(usize, usize, &str)> = edits
        .iter()
        .map(|edit| {
            let start = lines.byte(edit.range.start, encoding);
            (start, lines.byte(edit.range.end, encoding).max(start), edit.new_text.as_str())
        })
        .collect();
    // Insertions at one place keep their order.
    places.sort_by_key(|(start, end, _)| (*start, *end));
    places.dedup();
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for (start, end, new) in &places {
        if *start < done {
            return None;
        }
        out.push_str(&text[done..*start]);
        out.push_str(new);
        done = *end;
    }
    out.push_str(&text[done..]);
    Some(TextChange { text: out, places: places.len() })
}

/// Takes an edit that writes much anew for what it is where only words differ: edits of these words. pylsp replaces
/// whole files.
#[must_use]
pub fn narrowed(text: &str, edits: Vec<TextEdit>, encoding: Encoding) -> Vec<TextEdit> {
    let lines = Lines::of(text);
    let narrow = |edit: TextEdit| {
        let start = lines.byte(edit.range.start, encoding);
        let old = text.get(start..lines.byte(edit.range.end, encoding)).unwrap_or_default();
        let (was, is) = (words(old), words(&edit.new_text));
        let differ = was.iter().zip(&is).filter(|(was, is)| was.1 != is.1);
        if was.len() < 2
            || was.len() != is.len()
            || !differ.clone().all(|(was, is)| is_word(was.1) && is_word(is.1))
        {
            return vec![edit];
        }
        let one = |((at, was), (_, is)): (&(usize, &str), &(usize, &str))| {
            let at = start + at;
            let range =
                Range { start: lines.position(at, encoding), end: lines.position(at + was.len(), encoding) };
            TextEdit { range, new_text: (*is).to_owned() }
        };
        differ.map(one).collect()
    };
    edits.into_iter().flat_map(narrow).collect()
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

/// The words of a text and what is between them, each with its place.
fn words(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut start = 0;
    while start < text.len() {
        let rest = &text[start..];
        let word = is_word(rest);
        let end = rest.find(|c: char| (c.is_alphanumeric() || c == '_') != word).unwrap_or(rest.len());
        found.push((start, &rest[..end]));
        start += end;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Position, Range};

    fn edit(from: (u32, u32), to: (u32, u32), new: &str) -> TextEdit {
        let at = |(line, character)| Position { line, character };
        TextEdit { range: Range { start: at(from), end: at(to) }, new_text: new.to_owned() }
    }

    #[test]
    fn edits_come_in_any_order_and_may_not_overlap() {
        let text = "é add(1)\r\nadd\n";
        let edits = [edit((1, 0), (1, 3), "plus"), edit((0, 2), (0, 5), "plus")];
        let done = apply(text, &edits, Encoding::Utf16);
        assert_eq!(done, Some(TextChange { text: "é plus(1)\r\nplus\n".to_owned(), places: 2 }));
        assert_eq!(apply(text, &[edit((0, 0), (0, 4), ""), edit((0, 3), (0, 5), "")], Encoding::Utf16), None);
    }
    #[test]
    fn an_edit_of_a_whole_text_is_of_the_words_that_differ() {
        let text = "def add(a):\r\n    return a\r\n\nx = add(1)";
        let whole = |new: &str| vec![edit((0, 0), (4, 0), new)];
        let narrow = narrowed(text, whole(&text.replace("add", "plus")), Encoding::Utf16);
        assert_eq!(narrow, [edit((0, 4), (0, 7), "plus"), edit((3, 4), (3, 7), "plus")]);
        let rest = "def plus(a):\n    return a\n";
        assert_eq!(narrowed(text, whole(rest), Encoding::Utf16), whole(rest));
        let single = vec![edit((0, 4), (0, 7), "plus"), edit((3, 4), (3, 7), "x.plus")];
        assert_eq!(narrowed(text, single.clone(), Encoding::Utf16), single);
    }

    /// Programs that other programs wrote may be one line.
    #[test]
    fn a_line_may_hold_all_edits() {
        const MANY: u32 = 50_000;
        let edits: Vec<TextEdit> = (0..MANY).map(|n| edit((0, n * 5), (0, n * 5 + 4), "ab")).collect();
        let done = apply(&"mini;".repeat(MANY as usize), &edits, Encoding::Utf16);
        assert!(done.is_some_and(|done| done.text == "ab;".repeat(MANY as usize)));
    }
}
