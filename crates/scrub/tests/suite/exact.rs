//! Configured secrets in every form, and the property that none of them ever leaves.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use proptest::prelude::*;
use scrub::Scrubber;

fn percent(value: &str, keep: impl Fn(u8) -> bool, upper: bool) -> String {
    value
        .bytes()
        .map(|b| match (keep(b), upper) {
            (true, _) => char::from(b).to_string(),
            (false, true) => format!("%{b:02X}"),
            (false, false) => format!("%{b:02x}"),
        })
        .collect()
}

/// Every form of a secret that must not leave, given what precedes and follows it where that matters.
pub(crate) fn forms(value: &str, before: &str, after: &str) -> Vec<String> {
    let around = format!("{before}{value}{after}");
    let unreserved = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    vec![
        value.to_owned(),
        STANDARD.encode(&around),
        STANDARD_NO_PAD.encode(&around),
        URL_SAFE.encode(&around),
        URL_SAFE_NO_PAD.encode(&around),
        percent(value, unreserved, true),
        percent(value, unreserved, false),
        percent(value, |b| unreserved(b) || b"!'()*/".contains(&b), true),
        percent(value, |_| false, true),
        percent(value, |b| unreserved(b) || b == b' ', true).replace(' ', "+"),
        percent(&STANDARD.encode(&around), unreserved, true),
    ]
}

/// The characters of the base64 text around a value that it alone decides.
pub(crate) fn telling(value: &str, before: &str, encoded: &str) -> String {
    let first = (before.len() * 8).div_ceil(6);
    let last = (before.len() + value.len()) * 8 / 6;
    encoded[first..last].to_owned()
}

#[test]
fn named_and_counted() {
    let scrubber = Scrubber::builder().secret("DB", " hunter2hunter2\n").build();
    let scrubbed = scrubber.scrub_counted("a hunter2hunter2 b xhunter2hunter2x");
    assert_eq!(scrubbed.text, "a [REDACTED:secret:DB] b x[REDACTED:secret:DB]x");
    assert_eq!(scrubbed.hits.count("secret"), 2);
}

#[test]
fn overlapping_secrets_go_together() {
    let scrubber = Scrubber::builder().secret("A", "abcd-1234-efgh").secret("B", "efgh-5678-ijkl").build();
    assert_eq!(scrubber.scrub("abcd-1234-efgh-5678-ijkl"), "[REDACTED:secret:B]");
}

#[test]
fn short_secrets() {
    let scrubber = Scrubber::builder().secret("TINY", "abc").secret("SHORT", "pa55").build();
    assert_eq!(scrubber.unprotected(), ["TINY"]);
    assert_eq!(
        scrubber.scrub("abc pa55 xpa55 pa55x (pa55)"),
        "abc [REDACTED:secret:SHORT] xpa55 pa55x ([REDACTED:secret:SHORT])"
    );
}

#[test]
fn a_marker_never_tells_a_secret() {
    let scrubber = Scrubber::builder().secret("alpha-bravo", "alpha-bravo").secret("X", "REDACTED").build();
    assert_eq!(scrubber.scrub("is alpha-bravo"), "is [REDACTED:secret]");
    assert_eq!(scrubber.unprotected(), ["X"]);
}

#[test]
fn json_writers_differ() {
    let value = "pä\"ss/wo<rd>&\\1\u{1f600}";
    let scrubber = Scrubber::builder().secret("S", value).build();
    for text in [
        r#"{"x":"pä\"ss/wo<rd>&\\1😀"}"#,
        r#"{"x":"p\u00e4\"ss/wo<rd>&\\1\ud83d\ude00"}"#,
        r#"{"x":"pä\"ss\/wo<rd>&\\1😀"}"#,
        r#"{"x":"pä\"ss/wo\u003crd\u003e\u0026\\1😀"}"#,
    ] {
        assert_eq!(scrubber.scrub(text), r#"{"x":"[REDACTED:secret:S]"}"#, "{text}");
    }
}

/// `set -x`, `declare -p`, `printf %q`, `$'...'` of bash; `set -x` of dash; `repr` of Python; HTML.
#[test]
fn shells_and_pages_write_it_with_escapes() {
    let scrubber =
        Scrubber::builder().secret("S", "it's#9 $x \"ä\\&<1>").secret("T", "two\nlines of it\t1").build();
    for text in [
        r#"+ curl -u 'it'\''s#9 $x "ä\&<1>'"#,
        r#"+ curl -u 'it'"'"'s#9 $x "ä\&<1>'"#,
        r#"declare -- v="it's#9 \$x \"ä\\&<1>""#,
        r#"it\'s#9\ \$x\ \"ä\\\&\<1\>"#,
        r#"$'it\'s#9 $x "\303\244\\&<1>'"#,
        r#"'it\'s#9 $x "ä\\&<1>'"#,
        r#"b'it\'s#9 $x "\xc3\xa4\\&<1>'"#,
        r#""it\u0027s#9 $x \"\u00e4\\&<1>""#,
        r#"<td>it&#39;s#9 $x &quot;ä\&amp;&lt;1&gt;</td>"#,
        r#"<td>it&#x27;s#9 $x &#34;&#228;\&amp;&lt;1&gt;</td>"#,
        r#"it&apos;s#9 $x "ä\&amp;&lt;1>"#,
    ] {
        let scrubbed = scrubber.scrub(text);
        assert!(scrubbed.contains("[REDACTED:secret:S]") && !scrubbed.contains("#9"), "{text} => {scrubbed}");
    }
    assert_eq!(scrubber.scrub(r"+ echo $'two\nlines of it\t1'"), "+ echo $'[REDACTED:secret:T]'");
    for text in
        [r"\", r"\x", r"\u12", r"\400", r"\u{e4}", "&", "&#;", "&#xFFFFFFFF;", "&#12345678901;", "C:\\new\\ä"]
    {
        assert_eq!(scrubber.scrub(text), text);
    }
}

#[test]
fn hexadecimal() {
    let scrubber = Scrubber::builder().secret("S", "hunter2-hunter3").build();
    let hex: String = "hunter2-hunter3".bytes().map(|b| format!("{b:02x}")).collect();
    assert_eq!(scrubber.scrub(&hex), "[REDACTED:secret:S]");
    assert_eq!(scrubber.scrub(&hex.to_uppercase()), "[REDACTED:secret:S]");
}

/// `base64` and our own Read and Grep break a long text into lines.
#[test]
fn wrapped_base64_goes_to_its_last_character() {
    let value: String = (0..40).map(|n| format!("{n:02}-zQ")).collect();
    let scrubber = Scrubber::builder().secret("S", &value).build();
    for shift in 0..3 {
        let encoded = STANDARD.encode(format!("{}{value}", "x".repeat(shift)));
        let lines: Vec<&str> =
            encoded.as_bytes().chunks(76).map(|l| std::str::from_utf8(l).expect("ASCII")).collect();
        let numbered: Vec<String> =
            lines.iter().enumerate().map(|(n, l)| format!("{:6}\t{l}", n + 1)).collect();
        let grepped: Vec<String> =
            lines.iter().enumerate().map(|(n, l)| format!("a.txt:{}:{l}", n + 1)).collect();
        for text in [lines.join("\n"), lines.join("\r\n"), numbered.join("\n"), grepped.join("\n")] {
            let scrubbed = scrubber.scrub(&text);
            for line in &lines {
                let inner = &line[4.min(line.len() / 2)..line.len() - line.len().min(4)];
                assert!(inner.is_empty() || !scrubbed.contains(inner), "{text}\n=>\n{scrubbed}");
            }
            let mut stream = scrubber.stream();
            let streamed: String = text.as_bytes().chunks(7).map(|chunk| stream.push(chunk)).collect();
            assert_eq!(streamed + &stream.finish(), scrubbed);
        }
    }
}

#[test]
fn lines_of_a_key_file_count_on_their_own() {
    let value = "-----BEGIN X-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\nplain words here\n-----END X-----\n";
    let scrubber = Scrubber::builder().secret("S", value).build();
    assert_eq!(scrubber.scrub("x MIIEvQIBADANBgkqhkiG9w0BAQ"), "x [REDACTED:secret:S]");
    assert_eq!(scrubber.scrub("plain words here"), "plain words here");
}

/// `base64 .env`: the secret is short, what it stands in is not.
#[test]
fn a_short_secret_on_both_sides_of_a_line_end_of_base64_is_found() {
    let value = "zq!Tr0ub4dor/& +x=9";
    let scrubber = Scrubber::builder().secret("S", value).build();
    for before in 30..60 {
        let encoded = STANDARD.encode(format!("{}{value}{}", "x".repeat(before), "y".repeat(40)));
        let telling = telling(value, &"x".repeat(before), &encoded);
        for (end, number) in [("\n", false), ("\r\n", false), ("\n", true)] {
            let lines = encoded.as_bytes().chunks(76).map(|l| std::str::from_utf8(l).expect("ASCII"));
            let lines =
                (1..).zip(lines).map(|(n, l)| if number { format!("{n}\t{l}") } else { l.to_owned() });
            let text = lines.collect::<Vec<_>>().join(end) + end;
            let mut stream = scrubber.stream();
            let streamed: String = text.as_bytes().chunks(7).map(|chunk| stream.push(chunk)).collect();
            for scrubbed in [scrubber.scrub(&text).into_owned(), streamed + &stream.finish()] {
                for part in [&telling[..8], &telling[telling.len() - 8..]] {
                    assert!(!scrubbed.replace(['\r', '\n'], "").contains(part), "{text}\n=>\n{scrubbed}");
                }
                assert!(scrubbed.contains("[REDACTED:secret:S]"), "{text}\n=>\n{scrubbed}");
            }
        }
    }
}

/// `Read`, `Grep`, a diff and YAML put something before every line.
#[test]
fn a_secret_of_several_lines_is_found_behind_numbers_paths_and_indentation() {
    let value = "{\n  \"type\": \"robot\",\n\n  \"phrase\": \"correct horse staple\",\n  \"key\": \"q9Zk2Lx7Wm4Rt8Vb3N\"\n}\n";
    let scrubber = Scrubber::builder()
        .secret("S", value)
        .secret("T", "{\n  \"phrase\": \"correct horse staple\",\n}")
        .build();
    let each = |before: &dyn Fn(usize) -> String, end: &str| -> String {
        value.lines().enumerate().map(|(n, line)| format!("{}{line}{end}", before(n + 1))).collect()
    };
    for text in [
        each(&|_| String::new(), "\r\n"),
        each(&|n| format!("{n}\t"), "\n"),
        each(&|n| format!("{n:6}\t"), "\r\n"),
        each(&|n| format!("dir/a.json:{n}:"), "\n"),
        each(&|n| format!("a.json{0}{n}{0}", if n == 2 { ':' } else { '-' }), "\n"),
        each(&|_| "    ".to_owned(), "\n"),
        each(&|_| "+".to_owned(), "\n"),
    ] {
        let scrubbed = scrubber.scrub(&text);
        for part in ["robot", "horse", "q9Zk", "phrase"] {
            assert!(!scrubbed.contains(part), "{text}\n=>\n{scrubbed}");
        }
    }
    assert_eq!(
        scrubber.scrub("a.json:5:  \"key\": \"q9Zk2Lx7Wm4Rt8Vb3N\""),
        "a.json:5:  \"key\": \"[REDACTED:secret:S]\""
    );
    for text in ["{\n  \"type\": \"robot\",\n}", "1\t\"phrase\": \"correct horse staple\",\n2\tx"] {
        assert_eq!(scrubber.scrub(text), text, "a part that tells nothing");
    }
}

prop_compose! {
    /// A secret of printable characters, now and then beyond ASCII or with blanks.
    pub(crate) fn secret()(value in "[!-~]{8,40}|[a-zé ]{3}[!-~]{6,20}[ -~]{2}x|[A-Za-z0-9+/]{60,120}") -> String { value }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn no_form_of_a_secret_leaves(
        value in secret(), before in "[a-z\n:= ]{0,7}", after in "[a-z\n\", ]{0,7}", text in "(?s).{0,60}", at in any::<prop::sample::Index>(),
    ) {
        let scrubber = Scrubber::builder().secret("S", &value).build();
        prop_assume!(!"[REDACTED:secret:S]".contains(value.trim()));
        let value = value.trim();
        for form in forms(value, &before, &after) {
            let places: Vec<usize> = (0..=text.len()).filter(|n| text.is_char_boundary(*n)).collect();
            let place = places[at.index(places.len())];
            let full = format!("{}{form}{}", &text[..place], &text[place..]);
            let scrubbed = scrubber.scrub(&full);
            prop_assert!(!scrubbed.contains(&form), "{full:?} => {scrubbed:?}");
            prop_assert!(!scrubbed.contains(value));
        }
        for engine in [&STANDARD, &URL_SAFE] {
            let encoded = engine.encode(format!("{before}{value}{after}"));
            let scrubbed = scrubber.scrub(&encoded).into_owned();
            prop_assert!(!scrubbed.contains(&telling(value, &before, &encoded)), "{encoded} => {scrubbed}");
        }
    }

    #[test]
    fn text_without_secrets_never_panics(text in "\\PC{0,400}", value in "\\PC{0,20}") {
        let scrubber = Scrubber::builder().secret("S", value).build();
        let _ = scrubber.scrub(&text);
    }

    #[test]
    fn syntax_soup_never_panics(parts in prop::collection::vec(prop::sample::select(vec![
        "password", "=", ": ", "\"", "'", "\\", "-----BEGIN", " PRIVATE KEY", "-----", "-----END", "\n", "é", "AKIA", "://", "@", "%3D", "%", "&#39;", "&", "token", "sk-", "eyJ", ".", "x9", "\t", "b", "r#",
    ]), 0..40)) {
        let text = parts.concat();
        let once = Scrubber::default().scrub(&text).into_owned();
        let mut stream = Scrubber::default().stream();
        let streamed: String = text.as_bytes().chunks(3).map(|chunk| stream.push(chunk)).collect();
        prop_assert_eq!(streamed + &stream.finish(), once);
    }
}
