//! Structured content: every string and every key.

use serde_json::Value;

use crate::{Hits, Scrubber, assign};

pub(crate) fn scrub(scrubber: &Scrubber, value: &mut Value, hits: &mut Hits) {
    match value {
        Value::String(text) => scrub_string(scrubber, text, hits),
        Value::Array(items) => items.iter_mut().for_each(|item| scrub(scrubber, item, hits)),
        Value::Object(map) => {
            for (name, item) in map.iter_mut() {
                // Name and value are apart here, so the assignment rule would not see the two together.
                if let Value::String(text) = item
                    && assign::is_secret_member(name, text)
                {
                    hits.add(assign::NAME, text.len());
                    *text = format!("[REDACTED:{}]", assign::NAME);
                } else {
                    scrub(scrubber, item, hits);
                }
            }
            rename_keys(scrubber, map, hits);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn scrub_string(scrubber: &Scrubber, text: &mut String, hits: &mut Hits) {
    let scrubbed = scrubber.scrub_counted(text);
    if !scrubbed.hits.is_empty() {
        hits.merge(scrubbed.hits);
        *text = scrubbed.text.into_owned();
    }
}

/// Rebuilds the map only when a key holds a secret. Two keys that become equal keep both values: the later
/// one gets a number.
fn rename_keys(scrubber: &Scrubber, map: &mut serde_json::Map<String, Value>, hits: &mut Hits) {
    if map.keys().all(|key| matches!(scrubber.scrub(key), std::borrow::Cow::Borrowed(_))) {
        return;
    }
    for (mut key, value) in std::mem::take(map) {
        scrub_string(scrubber, &mut key, hits);
        let mut unique = key.clone();
        let mut number = 2;
        while map.contains_key(&unique) {
            unique = format!("{key} {number}");
            number += 1;
        }
        map.insert(unique, value);
    }
}
