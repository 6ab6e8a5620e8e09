//! Names of symbols as agents write them and as servers do.

use ::lsp::{DocumentSymbol, Encoding, Lines, Position, Range, SymbolKind};
use std::path::Path;

/// The parts of a name: `(*T).Foo`, `T.foo`, `T::foo` and `impl Trait for T<U>` alike.
pub(super) fn parts(name: &str) -> Vec<String> {
    let name = name.strip_prefix("impl").filter(|rest| rest.starts_with([' ', '<'])).unwrap_or(name);
    let name = name.rsplit_once(" for ").map_or(name, |(_, of)| of);
    // What is between brackets belongs to a part, not to the path.
    let mut plain = String::new();
    let mut depth = 0_usize;
    for c in name.chars() {
        match c {
            '<' | '[' => depth += 1,
            '>' | ']' => depth = depth.saturating_sub(1),
            '(' | ')' | '*' | '&' | ' ' => {}
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    plain.split(['.', ':', '#', '/']).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// The parts of a name that a server gives. What has none (`<unknown>` for a spread, `[Symbol.iterator]`) is a part of
/// its own: it must not be taken for what it is in.
pub(super) fn own_parts(name: &str) -> Vec<String> {
    let parts = parts(name);
    if parts.is_empty() { vec![name.to_owned()] } else { parts }
}

/// A name and the line that may stand behind it: `Foo:12`, `T::foo:12:5`, as the tools that edit list them.
pub(super) fn placed(name: &str) -> (&str, Option<u32>) {
    let number = |name: &'_ str| -> Option<(usize, u32)> {
        let (before, digits) = name.rsplit_once(':')?;
        let plain = !before.is_empty() && !before.ends_with(':');
        Some((before.len(), digits.parse().ok().filter(|_| plain)?))
    };
    let name = name.trim();
    let Some((end, last)) = number(name) else { return (name, None) };
    match number(&name[..end]) {
        Some((end, line)) => (&name[..end], Some(line)),
        None => (&name[..end], Some(last)),
    }
}

/// The last part of a name: what stands in the text.
pub(super) fn last(name: &str) -> &str {
    let end = name.trim_end_matches(['(', ')']);
    end.rsplit(['.', ':', '#', ')']).next().filter(|part| !part.is_empty()).unwrap_or(end)
}

/// Whether a path of names ends with another.
pub(super) fn ends_with(have: &[String], wanted: &[String]) -> bool {
    !wanted.is_empty() && have.ends_with(wanted)
}

/// The package that a Go file says it belongs to: its folder may be called otherwise.
pub(super) fn package<'a>(file: &Path, text: &'a str) -> Option<&'a str> {
    let go = file.extension().is_some_and(|end| end == "go");
    let clause = text.lines().filter(|_| go).find_map(|line| line.strip_prefix("package "));
    clause?.split(|c: char| !inner(c)).find(|name| !name.is_empty())
}

/// A pattern for any of these words, each whole.
pub(super) fn any_word(words: &[&str]) -> String {
    let edge = |c: Option<char>| if c.is_some_and(|c| c.is_alphanumeric() || c == '_') { r"\b" } else { "" };
    let one = |word: &&str| {
        let (start, end) = (edge(word.chars().next()), edge(word.chars().next_back()));
        format!("{start}{}{end}", regex::escape(word))
    };
    words.iter().map(one).collect::<Vec<_>>().join("|")
}

/// Whether a path of names in a file is meant by another, which may begin with names of the file's module.
pub(super) fn fits(have: &[String], wanted: &[String], file: &Path, package: Option<&str>) -> bool {
    let shared = have.len().min(wanted.len());
    let (module, rest) = wanted.split_at(wanted.len() - shared);
    let names: Vec<&str> = file.iter().filter_map(|part| part.to_str()).collect();
    let known = |part: &String| {
        let stem = file.file_stem().and_then(|stem| stem.to_str());
        matches!(part.as_str(), "crate" | "self" | "super")
            || stem == Some(part)
            || package == Some(part)
            || names.contains(&part.as_str())
    };
    shared > 0 && have.ends_with(rest) && module.iter().all(known)
}

/// Whether a character may be part of a name.
pub(super) fn inner(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

/// Whether a text is one name.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(inner) && !text.starts_with(|c: char| c.is_numeric())
}

/// The name that a place is in or at the end of.
pub(super) fn around(text: &str, at: usize) -> Option<&str> {
    let (before, behind) = (text.get(..at)?, text.get(at..)?);
    let start = before.len() - before.trim_end_matches(inner).len();
    let end = behind.len() - behind.trim_start_matches(inner).len();
    text.get(at - start..at + end).filter(|name| is_name(name))
}

/// What a file is called by those who import it: the file of a folder by the folder's name.
pub(super) fn module(file: &Path) -> Option<&str> {
    let stem = file.file_stem()?.to_str()?;
    let folder = || file.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    let of_folder = ["mod", "index", "__init__", "lib", "main"].contains(&stem);
    if of_folder { folder().or(Some(stem)) } else { Some(stem) }
}

/// Where a text has this whole word first.
pub(super) fn word(text: &str, word: &str) -> Option<usize> {
    if word.is_empty() {
        return None;
    }
    text.match_indices(word)
        .map(|(at, _)| at)
        .find(|at| !text[..*at].ends_with(inner) && !text[at + word.len()..].starts_with(inner))
}

/// A symbol with what it is in.
pub(super) struct Named {
    pub(super) parts: Vec<String>,
    pub(super) name: String,
    pub(super) kind: SymbolKind,
    pub(super) range: Range,
    selection: Position,
    pub(super) depth: usize,
}

impl Named {
    /// Whether `symbol` means it.
    pub(super) fn is(&self, symbol: &str) -> bool {
        ends_with(&self.parts, &parts(symbol))
    }

    pub(super) fn path(&self) -> String {
        self.parts.join(".")
    }

    pub(super) fn line(&self) -> u32 {
        self.selection.line + 1
    }
}

/// All symbols of a file, each after what it is in.
pub(super) fn flat(symbols: &[DocumentSymbol]) -> Vec<Named> {
    fn add(symbols: &[DocumentSymbol], above: &[String], depth: usize, all: &mut Vec<Named>) {
        for symbol in symbols {
            let path: Vec<String> = above.iter().cloned().chain(own_parts(&symbol.name)).collect();
            let children = symbol.children.as_deref().unwrap_or_default();
            all.push(Named {
                parts: path.clone(),
                name: symbol.name.clone(),
                kind: symbol.kind,
                range: symbol.range,
                selection: symbol.selection_range.start,
                depth,
            });
            add(children, &path, depth + 1, all);
        }
    }
    let mut all = Vec::new();
    add(symbols, &[], 0, &mut all);
    all
}

/// Where a symbol's own name stands: some servers point at the beginning of its declaration.
pub(super) fn place(text: &str, named: &Named, encoding: Encoding) -> Position {
    near(text, named.selection, named.parts.last().map_or("", String::as_str), encoding)
}

/// The first whole word `name` from a position on, on its line or one of the next; else the position.
pub(super) fn near(text: &str, from: Position, name: &str, encoding: Encoding) -> Position {
    /// Attributes and decorators may stand before a name.
    const LINES: u32 = 10;
    let lines = Lines::of(text);
    let start = lines.byte(from, encoding);
    let end = lines.byte(Position { line: from.line.saturating_add(LINES), character: 0 }, encoding);
    match word(&text[start..end.max(start)], name) {
        Some(at) => lines.position(start + at, encoding),
        None => from,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_every_language_have_the_same_parts() {
        for name in ["(*T).Foo", "T.Foo", "T::Foo", "(T).Foo", "T[K, V].Foo", "T<U>::Foo"] {
            assert_eq!(parts(name), ["T", "Foo"], "{name}");
        }
        assert_eq!(parts("impl Display for Shape<'a>"), ["Shape"]);
        assert_eq!(parts("impl<T> Stack<T>"), ["Stack"]);
        assert_eq!(parts("implode"), ["implode"]);
        assert_eq!(
            (own_parts("T.Foo"), own_parts("<unknown>")),
            (parts("T.Foo"), vec!["<unknown>".to_owned()])
        );
        assert_eq!((placed("T::foo"), placed("a:b")), (("T::foo", None), ("a:b", None)));
        for name in ["T::foo:12", "T::foo:12:5", " T::foo:12"] {
            assert_eq!(placed(name), ("T::foo", Some(12)), "{name}");
        }
        assert_eq!((last("(*T).Foo"), last("a::b"), last("foo()"), last("x")), ("Foo", "b", "foo", "x"));
    }

    #[test]
    fn a_module_may_stand_before_a_name() {
        let file = Path::new("go/calc/shapes.go");
        let package = package(file, "// Package x\npackage main // y\n");
        let fit = |have: &str, wanted: &str| fits(&parts(have), &parts(wanted), file, package);
        assert!(fit("Add", "main.Add"));
        assert!(fit("Add", "calc.Add") && fit("Add", "shapes::Add") && fit("Box.Add", "calc.Box.Add"));
        assert!(fit("Box.Add", "Box.Add") && fit("Box.Add", "Add") && fit("add", "crate::calc::add"));
        assert!(!fit("Add", "Box.Add") && !fit("Box.Add", "calc.Add") && !fit("Sub", "calc.Add"));
    }

    #[test]
    fn only_whole_words_count() {
        assert_eq!(word("add_one(add)", "add"), Some(8));
        assert_eq!(word("badd", "add"), None);
        assert_eq!(word("x", ""), None);
        assert_eq!(
            (around("a.größe(", 4), around("a.größe(", 9), around("a.(", 2)),
            (Some("größe"), Some("größe"), None)
        );
        assert_eq!(any_word(&["add", "\"a/b\""]), r#"\badd\b|"a/b""#);
    }
}
