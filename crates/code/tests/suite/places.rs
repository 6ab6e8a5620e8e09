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

#[test]
fn modules_of_python_bind_and_list_names() {
    let text = "from Item.x import Item\nfrom y import Item as other\nimport z as Item\n__all__ = ['Item', \"Items\"]\n__all__.extend((\"Item\",))\nnames = ['Item']\nclass Item(Item): pass\ndef f(Item=1): Item = 2\nif f: Item, b = 1, Item\n";
    let mut reader = Reader::default();
    let parsed = reader.parse(Language::Python, text.as_bytes()).unwrap();
    let listed: Vec<usize> = parsed.listed("Item").into_iter().map(|at| at.start).collect();
    assert_eq!(listed, [nth(text, "'Item'", 0) + 1, nth(text, "\"Item\"", 0) + 1]);
    let bound: Vec<bool> = parsed.uses("Item", usize::MAX).into_iter().map(|at| parsed.binds(at)).collect();
    // From `Item.x`; imported; imported as `other`; as `Item`; the class; its base; a parameter; in a function; assigned.
    assert_eq!(bound, [false, true, false, true, true, false, false, false, true, false]);
}
