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

/// Takes the ends of the longest lists away until `value` is no longer than `limit`, and where there are none the middle
/// of the longest texts; how many items are gone.
pub(crate) fn shorten(value: &mut Value, limit: usize) -> usize {
    let mut gone = 0;
    while over(value, limit).is_some() {
        let rest = |value: &Value| value.as_array().map_or(0, |list| list.len().saturating_sub(1));
        if let Some(Value::Array(list)) = longest(value, &rest) {
            let half = list.len() / 2;
            gone += list.len() - half;
            list.truncate(half);
        } else if let Some(Value::String(text)) = longest(value, &|value| value.as_str().map_or(0, escaped)) {
            // What says that something is missing takes some room itself.
            let most = (escaped(text) / 2).saturating_sub(64);
            let cut = head_and_tail(text, most).filter(|cut| escaped(cut) < escaped(text));
            *text = cut.unwrap_or_default();
        } else {
            return gone;
        }
    }
    gone
}

/// Of a value and all in it the one that measures most; one that measures nothing is none.
fn longest<'v>(value: &'v mut Value, measure: &dyn Fn(&Value) -> usize) -> Option<&'v mut Value> {
    fn most(value: &Value, measure: &dyn Fn(&Value) -> usize) -> usize {
        let below = match value {
            Value::Array(items) => items.iter().map(|item| most(item, measure)).max(),
            Value::Object(fields) => fields.values().map(|item| most(item, measure)).max(),
            _ => None,
        };
        measure(value).max(below.unwrap_or(0))
    }
    let wanted = most(value, measure);
    let mut at = value;
    while wanted > 0 && measure(at) < wanted {
        at = match at {
            Value::Array(items) => items.iter_mut().find(|item| most(item, measure) == wanted)?,
            Value::Object(fields) => fields.values_mut().find(|item| most(item, measure) == wanted)?,
            _ => return None,
        };
    }
    (wanted > 0).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keeps_both_ends_and_whole_characters() {
        assert_eq!(head_and_tail("short", 10), None);
        let cut = head_and_tail(&"é".repeat(100), 21).unwrap();
        assert_eq!(cut, format!("{0}\n… 180 bytes left out …\n{0}", "é".repeat(5)));
        let cut = head_and_tail(&"\u{1}".repeat(100), 24).unwrap();
        assert_eq!(cut, format!("{0}\n… 96 bytes left out …\n{0}", "\u{1}".repeat(2)));
    }

    #[test]
    fn shortens_lists_before_texts_and_leaves_the_shape() {
        let list: Vec<usize> = (0..1000).collect();
        let mut value = json!({"name": "x", "parts": [{"found": list, "few": [1, 2]}]});
        assert_eq!(shorten(&mut value, 1 << 20), 0);
        let gone = shorten(&mut value, 2000);
        let found = value["parts"][0]["found"].as_array().unwrap().len();
        assert!(over(&value, 2000).is_none() && found > 100 && found + gone == 1000, "{value}");
        assert_eq!((&value["name"], &value["parts"][0]["few"]), (&json!("x"), &json!([1, 2])));
        let mut value = json!({"one": ["a".repeat(5000)], "two": "\n".repeat(5000), "three": "b"});
        assert_eq!(shorten(&mut value, 2000), 0);
        assert!(
            over(&value, 2000).is_none() && value["one"][0].as_str().unwrap().starts_with("aaa"),
            "{value}"
        );
        assert_eq!(value["three"], "b");
        for mut hopeless in [json!({"a": "x"}), json!([[[]]]), json!("ab")] {
            shorten(&mut hopeless, 1);
        }
    }
}
