//! What is asked about places in a text.

use code::{Language, Reader};

/// Where a text has a word for the nth time.
fn nth(text: &str, word: &str, n: usize) -> usize {
    text.match_indices(word).nth(n).map(|(at, _)| at).unwrap()
}

#[test]
fn macros_are_given_names() {
    let text = "fn f() {\n    g(1);\n    println!(\"{}\", h(g(2)));\n}\n";
    let mut reader = Reader::default();
    let parsed = reader.parse(Language::Rust, text.as_bytes()).unwrap();
    assert!(!parsed.in_macro(nth(text, "g(", 0)) && parsed.in_macro(nth(text, "g(", 1)));
    assert!(!parsed.in_macro(text.len()));
}

#[test]
fn exports_have_two_names() {
    let text = "export { a as b, c };\nexport { d as e } from './x';\nimport { f as g } from './y';\n";
    let mut reader = Reader::default();
    let given = reader.parse(Language::TypeScript, text.as_bytes()).unwrap().given_names();
    let given: Vec<_> = given.into_iter().map(|(own, other)| (&text[own], &text[other])).collect();
    assert_eq!(given, [("a", "b"), ("d", "e")]);
}
