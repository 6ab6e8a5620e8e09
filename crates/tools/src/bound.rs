//! Cutting without hiding: head and tail stay, the text says what is missing.

use serde_json::Value;

/// `text` cut to about `limit` bytes, or `None` when it fits.
pub(crate) fn head_and_tail(text: &str, limit: usize) -> Option<String> {
    if text.len() <= limit {
        return None;
    }
    let head = floor(text, limit / 2);
    let tail = ceil(text, text.len() - limit / 2);
    Some(format!("{}\n… {} bytes left out …\n{}", &text[..head], tail - head, &text[tail..]))
}

fn floor(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

fn ceil(text: &str, at: usize) -> usize {
    (at..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

/// About how large `value` is as text, when that is more than `limit`.
pub(crate) fn over(value: &Value, limit: usize) -> Option<usize> {
    let size = size(value);
    (size > limit).then_some(size)
}

fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
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
    }
}
