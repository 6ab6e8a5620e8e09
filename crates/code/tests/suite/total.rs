//! Any bytes in, no panic; and no edit of broken text breaks it further.

use crate::cases;
use code::{Change, Depth, Facts, Language, Reader, Target, edit, outline};
use proptest::prelude::*;
use std::sync::OnceLock;

/// Sources of the cases, with their languages.
fn seeds() -> &'static [(Language, String)] {
    static SEEDS: OnceLock<Vec<(Language, String)>> = OnceLock::new();
    SEEDS.get_or_init(|| {
        let language = |head: &str| {
            let name = head.split(' ').next().unwrap();
            *Language::ALL.iter().find(|it| it.name() == name).unwrap()
        };
        cases::all().into_iter().map(|case| (language(&case.head), case.source)).collect()
    })
}

fn try_everything(language: Language, source: &[u8]) {
    let symbols = outline(language, source, Depth::Everything);
    Facts::of(&mut Reader::default(), language, source);
    for symbol in symbols.iter().take(3) {
        let name = format!("{}:{}", symbol.path(), symbol.line);
        let target = Target { name: &name, modules: &[] };
        for change in [Change::Body("x()"), Change::Signature("f()"), Change::After("y = 1"), Change::Delete]
        {
            if let Ok(done) = edit(language, source, &target, &change) {
                assert_ne!(done.bytes, source);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes(language in 0..Language::ALL.len(), bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        try_everything(Language::ALL[language], &bytes);
    }

    #[test]
    fn mutilated_sources(seed in any::<prop::sample::Index>(), cut in any::<prop::sample::Index>(),
                         other in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let (language, source) = seed.get(seeds());
        let mut bytes = source.clone().into_bytes();
        let at = cut.index(bytes.len());
        bytes[at] = byte;
        let end = other.index(bytes.len());
        bytes.drain(end..(end + 5).min(bytes.len()));
        try_everything(*language, &bytes);
    }
}

/// A block that nothing has been written into yet ends between the two halves of a Windows line end.
#[test]
fn blocks_without_anything_in_them() {
    for source in ["class A:#\r\n", "def f():#\r\n", "class A:\r\n    def f(self):  # soon\r\n"] {
        try_everything(Language::Python, source.as_bytes());
    }
}

/// What the grammars' own scanners look for, and what they may not expect: ends of text in the middle of anything,
/// letters of other scripts where a letter may stand, broken UTF-8, every kind of space and line end.
const TOKENS: &[&[u8]] = &[
    b"\"",
    b"'",
    b"`",
    b"\"\"\"",
    b"'''",
    b"f\"",
    b"rb'",
    b"{",
    b"}",
    b"{{",
    b"${",
    b"!r}",
    b":>10}",
    b"r#\"",
    b"\"#",
    b"r##\"",
    b"br#",
    b"c\"",
    b"b'",
    b"'a",
    b"/*",
    b"*/",
    b"/**/",
    b"//",
    b"///",
    b"//!",
    b"#",
    b"<!--",
    b"-->",
    b"<",
    b"</",
    b"/>",
    b"<a b=",
    b"&nbsp;",
    b"&",
    b";",
    b"/",
    b"/[/]/g",
    b"\\",
    b"\\\n",
    b"\\u{",
    b"\\x",
    b"\n",
    b"\r\n",
    b"\r",
    b"\t",
    b"    ",
    b"\n    ",
    b"\n\t",
    b"\n  ",
    b"\x0c",
    b"\0",
    b"\xef\xbb\xbf",
    b"\xe2\x80\xa8",
    b"\xc2\xa0",
    b"\xff",
    b"\xc3",
    b"\xf0\x9f",
    b"\xed\xa0\x80",
    "\u{e9}".as_bytes(),
    "\u{1f980}".as_bytes(),
    "\u{301}".as_bytes(),
    "\u{10ffff}".as_bytes(),
    "\u{3000}".as_bytes(),
    "\u{661}".as_bytes(),
    b"fn f",
    b"func f",
    b"def f",
    b"class A",
    b"if",
    b"else",
    b"async ",
    b"(",
    b")",
    b"[",
    b"]",
    b":",
    b",",
    b"=>",
    b"=",
    b"?.",
    b"++",
    b"!",
    b"1.",
    b"1.0",
    b"0x",
    b"..",
    b"@",
    b"#!",
    b"package p",
    b"static",
    b"return ",
    b"a",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn hostile_tokens_in_every_grammar(picks in proptest::collection::vec(0..TOKENS.len(), 0..60)) {
        let source: Vec<u8> = picks.iter().flat_map(|pick| TOKENS[*pick]).copied().collect();
        let mut reader = Reader::default();
        for language in Language::ALL {
            // one reader for all, as the index does it: what one scanner left must not trip the next
            let parsed = reader.parse(language, &source);
            prop_assert!(parsed.is_some());
            Facts::of(&mut reader, language, &source);
        }
    }
}

#[test]
fn deep_nesting_is_no_danger() {
    for (language, open) in
        [(Language::Go, "("), (Language::Rust, "{"), (Language::TypeScript, "["), (Language::Python, "(")]
    {
        let source = format!("x {}", open.repeat(20_000));
        try_everything(language, source.as_bytes());
    }
}

/// Sources that were written to hurt: what is kept of them stays in proportion to them.
#[test]
fn what_is_collected_stays_in_proportion() {
    let most = |language, source: &str| {
        let mut kept = 0;
        for depth in [Depth::Items, Depth::Everything] {
            let symbols = outline(language, source.as_bytes(), depth);
            // siblings share what they belong to
            let mut owners: Vec<_> = symbols.iter().map(|symbol| symbol.owner.as_ptr()).collect();
            owners.sort();
            owners.dedup();
            let longest = symbols.iter().map(|symbol| symbol.owner.len()).max().unwrap_or_default();
            kept = kept.max(owners.len() * longest.min(1100));
            assert!(longest <= 1100, "{longest}");
            assert!(symbols.iter().all(|symbol| symbol.starts.len() <= 9));
        }
        kept
    };
    let deep = "class A {\n".repeat(50_000) + &"}".repeat(50_000);
    assert_eq!(outline(Language::Java, deep.as_bytes(), Depth::Items).len(), 64);
    assert!(most(Language::Java, &deep) < 64 * 1100);
    let script = "class A { m() { ".repeat(10_000) + &"}}".repeat(10_000);
    assert_eq!(outline(Language::TypeScript, script.as_bytes(), Depth::Everything).len(), 64);
    // one very long name, and many that belong to it
    let wide = format!("class {} {{ {} }}", "A".repeat(100_000), "a(){} ".repeat(20_000));
    assert_eq!(outline(Language::TypeScript, wide.as_bytes(), Depth::Everything).len(), 1);
    let wide = format!("class {} {{ {} }}", "A".repeat(1000), "a(){} ".repeat(20_000));
    assert_eq!(outline(Language::TypeScript, wide.as_bytes(), Depth::Everything).len(), 20_001);
    assert!(most(Language::TypeScript, &wide) < 10_000);
    // and none of it keeps an edit
    let target = Target { name: "A.m", modules: &[] };
    let done = edit(Language::TypeScript, script.as_bytes(), &target, &Change::Body("x()")).unwrap();
    assert_eq!((done.symbol.as_str(), done.bytes.len() < 40), ("A.m", true));
    let target = Target { name: "a", modules: &[] };
    let told = edit(Language::TypeScript, wide.as_bytes(), &target, &Change::Body("x()")).unwrap_err();
    let code::EditError::Ambiguous { candidates, total, .. } = told else { panic!("{told}") };
    assert_eq!((candidates.len(), total), (10, 20_000));
    let name = candidates[1].to_string().replace(" (method)", "");
    let target = Target { name: &name, modules: &[] };
    let done = edit(Language::TypeScript, wide.as_bytes(), &target, &Change::Body("x()")).unwrap();
    let text = String::from_utf8(done.bytes).unwrap();
    assert!(text.contains("{ a(){} a(){\n") && text.matches("x()").count() == 1, "{name}");
}
