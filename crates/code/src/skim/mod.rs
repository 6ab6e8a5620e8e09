//! A file without the bodies of its functions: an outline of items does not look into them, and they are most of what
//! parsing costs. Texts, comments and brackets are all that must be told apart for that.

mod braces;
mod python;

use crate::language::Language;

/// A copy of a source in which the bodies of functions are blank and everything else is where it was; `None` for
/// languages whose bodies cannot be told without a parser.
pub(crate) fn without_bodies(language: Language, source: &[u8]) -> Option<Vec<u8>> {
    let blank: fn(&[u8], &mut [u8]) = match language {
        Language::Go => braces::go,
        Language::Rust => braces::rust,
        Language::Python => python::python,
        _ => return None,
    };
    let mut copy = source.to_vec();
    blank(source, &mut copy);
    Some(copy)
}

/// Lines keep their numbers.
fn wipe(part: &mut [u8]) {
    part.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
}

/// Goes from behind the quote that opens a string to behind the one that closes it. Where it may not go over `lines`,
/// one that nobody closes ends with its own.
fn string(source: &[u8], start: usize, quote: u8, lines: bool) -> usize {
    let mut at = start;
    while let Some(found) = memchr::memchr3(quote, b'\\', b'\n', source.get(at..).unwrap_or_default()) {
        at += found;
        match source[at] {
            b'\\' => at += 2,
            b'\n' if lines => at += 1,
            b'\n' => return at,
            _ => return at + 1,
        }
    }
    source.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Depth, Reader, outline};

    /// The source with `_` where it is blank.
    fn skimmed(language: Language, source: &str) -> String {
        let copy = String::from_utf8(without_bodies(language, source.as_bytes()).unwrap()).unwrap();
        let marked = |(old, new): (char, char)| if old != ' ' && new == ' ' { '_' } else { new };
        assert_eq!(copy.len(), source.len());
        source.chars().zip(copy.chars()).map(marked).collect()
    }

    #[test]
    fn bodies_are_blank_and_nothing_else_is() {
        use Language::{Go, Python, Rust};
        let cases = [
            (Go, "func f() { a }\nvar x", "func f() { _ }\nvar x"),
            (Go, "func f() struct{ a int } { a }", "func f() struct{ a int } { _ }"),
            (Go, "func f(a interface{ g() }) { '}' }", "func f(a interface{ g() }) { ___ }"),
            (Go, "func f() { \"}\\\"}\" }; var y", "func f() { ______ }; var y"),
            (Go, "func f() { `}\n\\` }; var y", "func f() { __\n__ }; var y"),
            (Go, "func f() { /*/ } */ // }\n }", "func f() { ___ _ __ __ _\n }"),
            (Go, "var t = []struct{ a int }{{1}}", "var t = []struct{ a int }{___}"),
            // what nobody closes is for the parser
            (Go, "func f() { a }\nfunc g() { b", "func f() { _ }\nfunc g() { b"),
            (Rust, "impl A { fn f(&self) { a } }", "impl A { fn f(&self) { _ } }"),
            (Rust, "fn f<'a>(x: &'a str) { '{' }", "fn f<'a>(x: &'a str) { ___ }"),
            (Rust, "fn f() { r#\"}\"#; br\"}\\\" }", "fn f() { _______ ______ }"),
            (Rust, "fn f() { '\\u{7d}'; b'\\'' } x", "fn f() { _________ _____ } x"),
            (Rust, "fn f() { /* /* } */ } */ } x", "fn f() { __ __ _ __ _ __ } x"),
            (Rust, "fn f() -> [u8; 2]; struct S { f: fn(u8) }", "fn f() -> [u8; 2]; struct S { f: fn(u8) }"),
            (Rust, "fn r#fn() { r#if }", "fn r#fn() { ____ }"),
            (Python, "def f():\n    a\n    b\nc", "def f():\n    0\n    _\nc"),
            (Python, "def f():\n    'd'\n    b\nc", "def f():\n    'd'\n    _\nc"),
            (
                Python,
                "def f(a={1: 2},\nb=1): # c\n  x\n\n  # d\n  y",
                "def f(a={1: 2},\nb=1): # c\n  0\n\n  _ _\n  _",
            ),
            (
                Python,
                "def f():\n  x = '''\ny'''\n  (\n1)\nz = 1",
                "def f():\n  0 _ ___\n____\n  _\n__\nz = 1",
            ),
            (
                Python,
                "class A:\n  async def f(self): return 1\n  x = 2",
                "class A:\n  async def f(self): return 1\n  x = 2",
            ),
            (Python, "async def f():\n  a \\\nb\ndefine = 1", "async def f():\n  0 _\n_\ndefine = 1"),
        ];
        for (language, source, expected) in cases {
            assert_eq!(skimmed(language, source), expected, "{}", language.name());
        }
    }

    /// What could not be told is parsed in full.
    #[test]
    fn broken_files_have_the_symbols_that_a_parser_finds() {
        for source in ["func f() { a }\n}\nfunc g() {}\n", "func f() {\n\tx := `\n}\nfunc g() {}\n"] {
            let all = outline(Language::Go, source.as_bytes(), Depth::Items);
            assert_eq!(Reader::default().items(Language::Go, source.as_bytes()), Some(all));
        }
    }
}
