//! Structured content.

use scrub::Scrubber;
use serde_json::json;

#[test]
fn strings_and_keys_at_any_depth() {
    let scrubber = Scrubber::builder().secret("S", "very-secret-1").build();
    let mut value = json!({
        "a": ["x very-secret-1", {"very-secret-1": 1, "b": null}],
        "n": 5,
        "password": "Tr0ub4dor&3",
        "token": "<token>",
    });
    let hits = scrubber.scrub_json(&mut value);
    assert_eq!(
        value,
        json!({
            "a": ["x [REDACTED:secret:S]", {"[REDACTED:secret:S]": 1, "b": null}],
            "n": 5,
            "password": "[REDACTED:assignment]",
            "token": "<token>",
        })
    );
    assert_eq!((hits.count("secret"), hits.count("assignment")), (2, 1));
}

#[test]
fn keys_that_become_equal_keep_both_values() {
    let scrubber = Scrubber::builder().secret("S", "very-secret-1").secret("S", "very-secret-2").build();
    let mut value = json!({"very-secret-1": 1, "very-secret-2": 2});
    scrubber.scrub_json(&mut value);
    assert_eq!(value.as_object().map(serde_json::Map::len), Some(2));
    assert!(!value.to_string().contains("very-secret"));
}
