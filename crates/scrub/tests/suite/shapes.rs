//! Every rule is held to its own example and near miss.

use scrub::{Scrubber, rules};

/// Writes out `<A36>` and its like, the same each time.
fn expand(pattern: &str) -> String {
    let mut out = String::new();
    let mut rest = pattern;
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    while let Some(open) = rest.find('<') {
        let close = rest[open..].find('>').map(|n| open + n).expect("a class is closed");
        out.push_str(&rest[..open]);
        let class = match &rest[open + 1..open + 2] {
            "A" => "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
            "H" => "0123456789abcdef",
            "D" => "0123456789",
            "U" => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
            "L" => "abcdefghijklmnopqrstuvwxyz0123456789",
            other => panic!("unknown class {other} in {pattern}"),
        };
        for _ in 0..rest[open + 2..close].parse::<usize>().expect("a length") {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            out.push(char::from(class.as_bytes()[(state % class.len() as u64) as usize]));
        }
        rest = &rest[close + 1..];
    }
    out + rest
}

#[test]
fn every_rule_finds_its_example_and_leaves_its_near_miss() {
    let scrubber = Scrubber::default();
    let mut wrong = Vec::new();
    for rule in rules() {
        let example = expand(rule.example);
        for text in
            [example.clone(), format!("first\n  x = \"{example}\", y\n"), format!("     7\t{example} # c\n")]
        {
            if scrubber.scrub_counted(&text).hits.count(rule.name) != 1 {
                wrong.push(format!("{}: not found in {text:?}: {:?}", rule.name, scrubber.scrub(&text)));
            }
        }
        let near_miss = expand(rule.near_miss);
        if scrubber.scrub(&near_miss) != near_miss {
            wrong.push(format!("{}: found in {near_miss:?}: {:?}", rule.name, scrubber.scrub(&near_miss)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn keywords_are_long_enough_to_be_looked_for() {
    for rule in rules() {
        assert!(rule.keywords.iter().all(|word| word.len() >= 3), "{}: {:?}", rule.name, rule.keywords);
    }
}

#[test]
fn names_are_unique_and_fit_for_a_label() {
    let mut names: Vec<_> = rules().iter().map(|rule| rule.name).collect();
    assert!(
        names.iter().all(|n| n.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'))
    );
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), rules().len());
}

#[test]
fn scrubbing_twice_changes_nothing_more() {
    let scrubber = Scrubber::default();
    for rule in rules() {
        let text = format!("TOKEN={0} password: \"{0}\"", expand(rule.example));
        let once = scrubber.scrub(&text).into_owned();
        assert_eq!(scrubber.scrub(&once), once, "{}", rule.name);
    }
}

#[test]
fn a_token_is_found_wherever_it_stands() {
    let scrubber = Scrubber::default();
    let key = expand("AKIA<U16>");
    for text in [
        key.clone(),
        format!("{{\"a\":\"line\\n{key}\\n\"}}"),
        format!("https://x.test/?q%3D{key}&y=1"),
        format!("a={key};b"),
        format!("src/a.rs:12:{key}"),
    ] {
        assert!(!scrubber.scrub(&text).contains(&key), "{text}");
    }
}

const BODY: &str = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n\
MzEfYyjiWA4R4/M2bS1GB4t7NXp98C3SC6dVMvDuictGeurT8jNbvJZHtCSuYEvu\n\
NMoSfm76oqFvAp8Gy0iz5sxjZmSnXyCdPEovGhLa0VzMaQ8s+CLOyS56YyCFGeJZ\n\
aB3=";

fn pem(label: &str) -> String {
    format!("-----BEGIN {label}-----\n{BODY}\n-----END {label}-----")
}

#[test]
fn private_keys_go_as_a_block() {
    let scrubber = Scrubber::default();
    for label in
        ["RSA PRIVATE KEY", "PRIVATE KEY", "OPENSSH PRIVATE KEY", "EC PRIVATE KEY", "PGP PRIVATE KEY BLOCK"]
    {
        let text = format!("before\n{}\nafter", pem(label));
        assert_eq!(scrubber.scrub(&text), "before\n[REDACTED:private-key]\nafter", "{label}");
    }
    let public = pem("CERTIFICATE");
    assert_eq!(scrubber.scrub(&public), public);
}

#[test]
fn private_keys_are_found_numbered_escaped_quoted_and_cut_off() {
    let scrubber = Scrubber::default();
    let key = pem("PRIVATE KEY");
    let numbered: String =
        key.lines().enumerate().map(|(n, line)| format!("{:6}\t{line}\n", n + 1)).collect();
    let grepped: String = key.lines().map(|line| format!("a/key.pem:3:{line}\n")).collect();
    let added: String = key.lines().map(|line| format!("+{line}\n")).collect();
    let quoted: String = key.lines().map(|line| format!("    \"{line}\\n\" +\n")).collect();
    let escaped = format!("{{\"private_key\": \"{}\\n\"}}", key.replace('\n', "\\n"));
    let cut: String = numbered.lines().take(3).collect::<Vec<_>>().join("\n");
    let headed = key.replacen('\n', "\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,0011223344\n\n", 1);
    for text in [numbered, grepped, added, quoted, escaped, cut, headed] {
        let scrubbed = scrubber.scrub(&text);
        assert!(BODY.lines().all(|line| !scrubbed.contains(line)), "{text}\n=>\n{scrubbed}");
        assert!(scrubbed.contains("[REDACTED:private-key]"), "{scrubbed}");
    }
}

#[test]
fn a_part_of_a_text_hides_what_begins_before_it_or_ends_behind_it() {
    let scrubber = Scrubber::builder().secret("TOKEN", "correct horse battery").build();
    let key = pem("PRIVATE KEY");
    let text = format!("one\n{key}\ntwo correct horse battery three\n");
    let boundaries = |from: usize| (from..text.len()).step_by(7);
    for from in boundaries(0) {
        for until in boundaries(from) {
            let (before, part, after) = (&text[..from], &text[from..until], &text[until..]);
            let shown = scrubber.scrub_part(before, part, after);
            let rest = shown.replace("[REDACTED:private-key]", "").replace("[REDACTED:secret:TOKEN]", "");
            assert!("one\n\ntwo  three\n".contains(rest.as_str()), "{from}..{until}: {shown}");
        }
    }
    assert!(matches!(scrubber.scrub_part("a", "b", "c"), std::borrow::Cow::Borrowed("b")));
}

#[test]
fn the_lines_of_a_private_key_are_told() {
    let key = pem("RSA PRIVATE KEY");
    let lines = key.lines().count() as u64;
    let text = format!("{key}\nx = \"-----BEGIN RSA PRIVATE KEY-----\"\n\n{key}\n");
    assert_eq!(scrub::key_lines(&text), [2..=lines, lines + 4..=2 * lines + 2]);
    assert!(key.lines().skip(1).filter(|line| !line.starts_with('-')).all(scrub::may_be_key));
    assert!(!scrub::may_be_key("let value = compute(\"input\", 7);"));
    for end in key.char_indices().map(|(at, _)| at).filter(|at| key[..*at].ends_with('\n')) {
        assert_eq!(scrub::open_key(&format!("a\n{}", &key[..end])), Some(&key[..end]));
    }
    assert_eq!(scrub::open_key(&format!("{key}\n")), None);
}

#[test]
fn code_that_names_the_markers_stays() {
    let scrubber = Scrubber::default();
    let code = "const BEGIN: &str = \"-----BEGIN RSA PRIVATE KEY-----\";\nconst END: &str = \"-----END RSA PRIVATE KEY-----\";\n\
                if line.startswith('-----BEGIN PRIVATE KEY-----'):\n    return parse_private_key_from_lines(lines)\n";
    assert_eq!(scrubber.scrub(code), code);
}

#[test]
fn passwords_in_urls_go_and_placeholders_stay() {
    let scrubber = Scrubber::default();
    let real = "see https://alice:s3cret!@git.test/x and redis://:hunter2@cache:6379";
    assert_eq!(
        scrubber.scrub(real),
        "see https://alice:[REDACTED:url-password]@git.test/x and redis://:[REDACTED:url-password]@cache:6379"
    );
    for text in [
        "postgres://user:password@localhost/db",
        "https://user:${TOKEN}@host/x",
        "https://{user}:{password}@host",
        "http://localhost:8080/a@b",
        "git+ssh://git@host:22/x",
    ] {
        assert_eq!(scrubber.scrub(text), text);
    }
}
