//! Edits put into a text.

use crate::{Encoding, Lines, TextEdit};

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
}
