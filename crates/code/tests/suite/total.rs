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

#[test]
fn deep_nesting_is_no_danger() {
    for (language, open) in
        [(Language::Go, "("), (Language::Rust, "{"), (Language::TypeScript, "["), (Language::Python, "(")]
    {
        let source = format!("x {}", open.repeat(20_000));
        try_everything(language, source.as_bytes());
    }
}
