//! Text in chunks.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use proptest::prelude::*;
use scrub::Scrubber;

use crate::exact::{forms, secret};

/// Pushes `bytes` cut at `cuts` (modulo the length).
fn streamed(scrubber: &Scrubber, bytes: &[u8], cuts: &[usize]) -> String {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    cuts.sort_unstable();
    cuts.push(bytes.len());
    let mut stream = scrubber.stream();
    let mut from = 0;
    let mut out = String::new();
    for cut in cuts {
        out += &stream.push(&bytes[from..cut]);
        from = cut;
    }
    out + &stream.finish()
}

#[test]
fn a_secret_that_has_only_begun_is_not_shown() {
    let scrubber = Scrubber::builder().secret("T", "topsecretvalue12345").build();
    let mut stream = scrubber.stream();
    assert_eq!(stream.push("Password: "), "");
    assert_eq!(stream.pending(), "Password: ");
    stream.push("topsecretvalue1234");
    assert_eq!(stream.pending(), "Password: ");
    stream.push("6");
    assert_eq!(stream.pending(), "Password: topsecretvalue12346");
}

#[test]
fn a_line_that_waits_for_the_next_one_can_be_looked_at() {
    let value = "a long value with many words, which base64 wraps";
    let scrubber = Scrubber::builder().secret("T", value).build();
    let encoded = STANDARD.encode(value);
    let (first, rest) = encoded.split_at(40);
    let path = "/var/lib/postgresql/data/pg_wal/archive_status";
    let mut stream = scrubber.stream();
    // Only what may be the beginning of the secret is kept back.
    for (line, clean) in [
        (format!("cannot open {path}\n"), format!("cannot open {path}\n")),
        (format!("one: {value}, {path}\n"), format!("one: [REDACTED:secret:T], {path}\n")),
        (format!("two: {first}\n"), "two: [REDACTED:secret:T]\n".to_owned()),
    ] {
        let before = stream.push(&line);
        assert!(!before.contains(&line), "it waits: {before}");
        assert_eq!(stream.pending_lines(), clean);
        assert!(!stream.pending().contains(first), "{}", stream.pending());
    }
    assert_eq!(stream.push(format!("{rest}\nnext\nhalf")), "two: [REDACTED:secret:T]\nnext\n");
    assert_eq!((stream.pending_lines().as_str(), stream.pending()), ("", "half"));
}

#[test]
fn complete_lines_leave_at_once() {
    let mut stream = Scrubber::default().stream();
    assert_eq!(stream.push("one\ntw"), "one\n");
    assert_eq!(stream.push("o\n"), "two\n");
    assert_eq!(stream.push("three"), "");
    assert_eq!(stream.finish(), "three");
    assert_eq!(stream.finish(), "");
}

#[test]
fn a_private_key_waits_for_its_end() {
    let mut stream = Scrubber::default().stream();
    let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
    let mut out = stream.push("a\n-----BEGIN PRIVATE KEY-----\n");
    for _ in 0..30 {
        out += &stream.push(format!("{body}\n"));
    }
    assert_eq!(out, "a\n");
    out += &stream.push("-----END PRIVATE KEY-----\nb\n");
    assert_eq!(out, "a\n[REDACTED:private-key]\nb\n");
    assert_eq!(stream.hits().count("private-key"), 1);
}

#[test]
fn invalid_bytes_become_replacement_characters() {
    let scrubber = Scrubber::builder().secret("S", "naïve-secret").build();
    assert_eq!(streamed(&scrubber, b"a\xffb\n", &[2]), "a\u{fffd}b\n");
    assert_eq!(streamed(&scrubber, "x naïve-secret\n".as_bytes(), &[5]), "x [REDACTED:secret:S]\n");
    assert_eq!(streamed(&scrubber, b"x\xc3", &[]), "x\u{fffd}");
}

#[test]
fn endless_lines_leave_in_parts_and_memory_stays_bounded() {
    let scrubber = Scrubber::builder().secret("S", "s3cret-value-77").build();
    let mut stream = scrubber.stream();
    let mut sent = 0;
    let piece = "abc, def; ".repeat(100);
    for n in 0..1000 {
        let out = stream.push(&piece)
            + &stream.push("s3cret-val")
            + &stream.push("ue-77 PASSW")
            + &stream.push("ORD=hunter2 ");
        assert!(!out.contains("hunter2") && !out.contains("s3cret"), "{n}");
        sent += out.len();
        let pushed = (n + 1) * (piece.len() + 35);
        assert!(sent + 400_000 > pushed, "held back {} of {pushed}", pushed - sent);
    }
    let out = stream.finish();
    assert!(!out.contains("hunter2") && !out.contains("s3cret"));
    assert_eq!(stream.hits().count("secret"), 1000);
    assert_eq!(stream.hits().count("assignment"), 1000);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn chunking_changes_nothing(
        values in prop::collection::vec(secret(), 1..4),
        fill in prop::collection::vec("[a-z =:\n\"]{0,30}", 1..12),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let scrubber = values.iter().fold(Scrubber::builder(), |b, v| b.secret("S", v)).build();
        let mut text = String::new();
        for (n, fill) in fill.iter().enumerate() {
            text += fill;
            let value = values[n % values.len()].trim();
            let forms = forms(value, fill, "\n");
            text += &forms[n * 7 % forms.len()];
        }
        let whole = scrubber.scrub(&text);
        let parts = streamed(&scrubber, text.as_bytes(), &cuts);
        prop_assert_eq!(&parts, &whole);
        for value in &values {
            prop_assert!(!parts.contains(value.trim()) || "[REDACTED:secret:S]".contains(value.trim()));
        }
    }

    #[test]
    fn secrets_of_several_lines_survive_chunking(
        lines in prop::collection::vec("[a-z0-9 ]{3,20}", 2..5), cuts in prop::collection::vec(any::<usize>(), 0..12), again in 1usize..4,
    ) {
        let value = lines.join("\n").trim().to_owned();
        // shorter ones are not looked for
        prop_assume!(value.contains('\n') && value.len() >= 8);
        let scrubber = Scrubber::builder().secret("S", &value).build();
        let text = format!("{}\nx {value} y\n{value}\n", lines[0]).repeat(again);
        let parts = streamed(&scrubber, text.as_bytes(), &cuts);
        prop_assert!(!parts.contains(&value));
        prop_assert_eq!(parts, scrubber.scrub(&text));
    }
}
