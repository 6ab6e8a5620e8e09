//! Cutting without hiding: head and tail stay, the text says what is missing.

use serde_json::Value;

/// `text` cut to about `limit` bytes, or `None` when it fits.
pub(crate) fn head_and_tail(text: &str, limit: usize) -> Option<String> {
    let (head, tail) = middle(text, limit)?;
    Some(format!("{}\n{}\n{}", &text[..head], left_out((tail - head) as u64, ""), &text[tail..]))
}

/// The part of `text` to leave out so that about `limit` bytes stay in a JSON string, or `None` when it fits.
pub(crate) fn middle(text: &str, limit: usize) -> Option<(usize, usize)> {
    // Most texts are far from any limit, however much of them has to be escaped.
    if text.len() <= limit / 6 || escaped(text) <= limit {
        return None;
    }
    let fitting = |bytes: &mut dyn Iterator<Item = u8>| {
        let mut room = limit / 2;
        bytes
            .take_while(|byte| {
                let left = room.checked_sub(width(*byte));
                room = left.unwrap_or(0);
                left.is_some()
            })
            .count()
    };
    let head = fitting(&mut text.bytes());
    let tail = text.len() - fitting(&mut text.bytes().rev());
    Some((text.floor_char_boundary(head), text.ceil_char_boundary(tail)))
}

/// How long a text is as a JSON string.
fn escaped(text: &str) -> usize {
    text.bytes().map(width).sum()
}

fn width(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
        0..32 => 6,
        _ => 1,
    }
}

/// The line that stands for what is not shown.
pub(crate) fn left_out(bytes: u64, more: &str) -> String {
    format!("… {bytes} bytes left out{more} …")
}

/// About how large `value` is as text, when that is more than `limit`.
pub(crate) fn over(value: &Value, limit: usize) -> Option<usize> {
    let size = size(value);
    (size > limit).then_some(size)
}

fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => escaped(text) + 2,
        Value::Array(items) => items.iter().map(|item| size(item) + 1).sum::<usize>() + 2,
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| key.len() + size(value) + 4).sum::<usize>() + 2
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_both_ends_and_whole_characters() {
        assert_eq!(head_and_tail("short", 10), None);
        let cut = head_and_tail(&"é".repeat(100), 21).unwrap();
        assert_eq!(cut, format!("{0}\n… 180 bytes left out …\n{0}", "é".repeat(5)));
        let cut = head_and_tail(&"\u{1}".repeat(100), 24).unwrap();
        assert_eq!(cut, format!("{0}\n… 96 bytes left out …\n{0}", "\u{1}".repeat(2)));
    }
}
