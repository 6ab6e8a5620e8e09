//! Finding the symbol that a name means.

use crate::edit::{EditError, Listed};
use crate::indent;
use crate::language::Language;
use crate::outline::{Kind, Symbol};

/// Names that are offered when none fits, or several do.
const OFFERED: usize = 10;

/// A name as an agent writes it: `Foo`, `(*T).Foo`, `T.foo`, `T::foo`, `mod.foo`, `<T as Trait>::foo`, each perhaps
/// with `:line` or `:line:column`.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    /// As it was written, without the place.
    text: String,
    path: Vec<String>,
    of_trait: Option<String>,
    line: Option<usize>,
    column: Option<usize>,
    /// `impl T` asks for the block.
    block: bool,
}

impl Wanted {
    fn parse(name: &str) -> Self {
        let mut name = name.trim();
        let (mut line, mut column) = (None, None);
        while let Some((before, digits)) = name.rsplit_once(':')
            && column.is_none()
            && !before.ends_with(':')
            && let Ok(number) = digits.trim().parse()
        {
            (name, column, line) = (before, line, Some(number));
        }
        let text = name.trim().to_owned();
        let mut of_trait = None;
        let mut block = false;
        let mut owned = name.trim_end_matches("()").to_owned();
        if let Some(rest) = name.strip_prefix("impl ") {
            owned = match rest.split_once(" for ") {
                Some((of, on)) => {
                    of_trait = Some(last_part(of));
                    on.to_owned()
                }
                None => rest.to_owned(),
            };
            // a method of the block
            block = !owned.contains('.');
        } else if let Some((inner, rest)) =
            name.strip_prefix('<').and_then(|rest| rest.split_once(">::").or_else(|| rest.split_once(">.")))
            && let Some((on, of)) = inner.split_once(" as ")
        {
            of_trait = Some(last_part(of));
            owned = format!("{on}::{rest}");
        }
        // a name that is computed: `A.[Symbol.iterator]`
        let computed = match owned.find(".[").filter(|_| owned.ends_with(']')) {
            Some(at) => Some(owned.split_off(at).split_off(1)),
            None => (owned.starts_with('[') && owned.ends_with(']')).then(|| std::mem::take(&mut owned)),
        };
        let plain = without_generics(&owned);
        let parts = plain.replace("::", ".");
        let parts = parts
            .split(['.', '/'])
            .map(|part| part.trim_matches(['(', ')', '*', '&', ' ']).to_owned())
            .filter(|part| !part.is_empty() && part != "prototype");
        let path = parts.chain(computed).collect();
        Self { text, path, of_trait, line, column, block }
    }

    /// `T` of `(t *T)`, as it stands in a declaration of Go.
    fn leave_out_receivers(&mut self) {
        for part in &mut self.path {
            if let Some((_, name)) = part.rsplit_once([' ', '*']) {
                *part = name.to_owned();
            }
        }
    }

    /// How well a symbol fits: 0 exactly, more the more is left open; `None` not at all.
    fn fits(&self, symbol: &Symbol, modules: &[&str]) -> Option<usize> {
        let (name, before) = self.path.split_last()?;
        if symbol.name != *name && symbol.alias != Some(name.as_str()) {
            return None;
        }
        if self.line.is_some_and(|line| line != symbol.line) || (self.block && symbol.kind != Kind::Impl) {
            return None;
        }
        if let Some(of) = &self.of_trait
            && !symbol.of_trait.as_deref().is_some_and(|its| same_trait(of, its))
        {
            return None;
        }
        let owners: Vec<&str> = symbol.owner.split('.').filter(|part| !part.is_empty()).collect();
        let shared = before.len().min(owners.len());
        let tail = owners.len() - shared;
        if owners[tail..].iter().ne(before[before.len() - shared..].iter()) {
            return None;
        }
        // what is left must be a name of the file's module, or of the folders it is in
        let known = |part: &String| {
            matches!(part.as_str(), "crate" | "self" | "super" | "this" | "exports" | "module")
                || modules.contains(&part.as_str())
        };
        before[..before.len() - shared].iter().all(known).then_some(tail)
    }
}

fn without_generics(text: &str) -> String {
    let mut depth = 0usize;
    text.chars()
        .filter(|c| {
            match c {
                '<' | '[' => depth += 1,
                '>' | ']' => {
                    depth = depth.saturating_sub(1);
                    return false;
                }
                _ => {}
            }
            depth == 0
        })
        .collect()
}

/// `From<a::T>` of `b::From<a::T>`.
fn last_part(path: &str) -> String {
    let (plain, given) = path.split_at(path.find('<').unwrap_or(path.len()));
    format!("{}{given}", plain.trim_end_matches("::").rsplit("::").next().unwrap_or(plain).trim())
}

/// Whether a trait is the one that is asked for, with what is given to it or without.
fn same_trait(asked: &str, its: &str) -> bool {
    let parts = |text: &str| -> String { text.chars().filter(|c| !c.is_whitespace()).collect() };
    parts(asked) == parts(its) || *asked == without_generics(its)
}

/// What is looked for.
pub(crate) struct Search<'a> {
    pub(crate) language: Language,
    pub(crate) source: &'a [u8],
    pub(crate) symbols: &'a [Symbol],
    pub(crate) name: &'a str,
    pub(crate) modules: &'a [&'a str],
    pub(crate) callable: bool,
}

impl<'a> Search<'a> {
    /// The one symbol that is meant.
    pub(crate) fn one(&self) -> Result<&'a Symbol, EditError> {
        let mut wanted = Wanted::parse(self.name);
        if self.language == Language::Go {
            wanted.leave_out_receivers();
        }
        let at = wanted.line.zip(wanted.column).map(|(line, column)| place(self.source, line, column));
        let fitting = |symbol: &&'a Symbol| {
            let here = at.is_none_or(|at| at == symbol.name_at.start);
            let fits = || wanted.fits(symbol, self.modules).filter(|_| here);
            // what was listed may be given back, whatever is in it: `routes./users/:id`
            let listed = wanted.text.ends_with(&symbol.name) && wanted.text == shown(self.language, symbol);
            let same = listed && here && wanted.line.is_none_or(|line| line == symbol.line);
            if same { Some(0) } else { fits() }.map(|loose| (loose, *symbol))
        };
        let all: Vec<(usize, &Symbol)> = self.symbols.iter().filter_map(|symbol| fitting(&symbol)).collect();
        if all.is_empty() {
            return Err(self.not_found(&wanted));
        }
        let mut left = all.clone();
        if self.callable {
            left.retain(|(_, symbol)| symbol.kind.is_callable());
            if left.is_empty() {
                let found = all[0].1;
                return Err(EditError::NotAFunction { found: self.listed(found) });
            }
        }
        // each rule holds only as long as something fits it
        type Rule<'r> = dyn Fn(usize, &Symbol) -> bool + 'r;
        let rules: [&Rule<'_>; 5] = [
            &|_, symbol| symbol.kind != Kind::Impl || wanted.block,
            // `impl T` is that of the type itself
            &|_, symbol| !wanted.block || wanted.of_trait.is_some() || symbol.of_trait.is_none(),
            &|_, symbol| wanted.line.is_some() || !symbol.overload,
            &|loose, _| loose == 0,
            &|_, symbol| !symbol.local,
        ];
        for rule in rules {
            if left.iter().any(|(loose, symbol)| rule(*loose, symbol)) {
                left.retain(|(loose, symbol)| rule(*loose, symbol));
            }
        }
        match left.as_slice() {
            [(_, one)] => Ok(one),
            several => Err(self.ambiguous(several)),
        }
    }

    fn ambiguous(&self, several: &[(usize, &Symbol)]) -> EditError {
        let mut candidates: Vec<Listed> =
            several.iter().take(OFFERED).map(|(_, symbol)| self.listed(symbol)).collect();
        let names: Vec<(String, usize)> = candidates.iter().map(|it| (it.name.clone(), it.line)).collect();
        // a getter and its setter may stand on one line
        for (listed, (_, symbol)) in candidates.iter_mut().zip(several) {
            let same = names.iter().filter(|(name, line)| (name, *line) == (&listed.name, listed.line));
            listed.column = (same.count() > 1).then(|| column_of(self.source, symbol));
        }
        EditError::Ambiguous { name: self.name.to_owned(), candidates, total: several.len() }
    }

    fn listed(&self, symbol: &Symbol) -> Listed {
        Listed { name: shown(self.language, symbol), kind: symbol.kind, line: symbol.line, column: None }
    }

    fn not_found(&self, wanted: &Wanted) -> EditError {
        let name = wanted.path.last().map(String::as_str).unwrap_or_default();
        let owner = wanted.path.len().checked_sub(2).and_then(|at| wanted.path.get(at));
        let offered = |symbol: &&Symbol| {
            symbol.kind != Kind::Impl && !symbol.overload && (!self.callable || symbol.kind.is_callable())
        };
        let mut near: Vec<(usize, &Symbol)> = self
            .symbols
            .iter()
            .filter(offered)
            .map(|symbol| {
                let of_owner = owner.is_some_and(|owner| symbol.owner.rsplit('.').next() == Some(owner));
                (distance(name, &symbol.name) + usize::from(owner.is_some() && !of_owner) * 8, symbol)
            })
            .collect();
        near.sort_by_key(|(far, symbol)| (*far, symbol.line));
        let total = near.len();
        EditError::NotFound {
            name: self.name.to_owned(),
            near: near.into_iter().take(OFFERED).map(|(_, symbol)| self.listed(symbol)).collect(),
            total,
            broken: None,
            stands: None,
        }
    }
}

/// The first line in which a name stands as a word.
pub(crate) fn stands(source: &[u8], name: &str) -> Option<usize> {
    let wanted = Wanted::parse(name);
    let word = wanted.path.last().filter(|word| word.len() > 1)?.as_bytes();
    let inner = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let whole = |at: &usize| {
        !inner(at.checked_sub(1).and_then(|at| source.get(at))) && !inner(source.get(at + word.len()))
    };
    let at = memchr::memmem::find_iter(source, word).find(whole)?;
    Some(memchr::memchr_iter(b'\n', &source[..at]).count() + 1)
}

/// Where a column of a line is, both from 1.
fn place(source: &[u8], line: usize, column: usize) -> usize {
    let start = match line.checked_sub(2) {
        None => indent::line_start(source, source.len().min(3)),
        Some(lines) => {
            memchr::memchr_iter(b'\n', source).nth(lines).map_or(source.len(), |newline| newline + 1)
        }
    };
    let text = source.iter().enumerate().skip(start);
    let letters = text.filter(|(_, byte)| **byte & 0xC0 != 0x80).map(|(at, _)| at);
    letters.take(column).last().unwrap_or(usize::MAX)
}

/// The column of a symbol's name, in characters from 1.
fn column_of(source: &[u8], symbol: &Symbol) -> usize {
    let at = symbol.name_at.start;
    let line = source.get(indent::line_start(source, at)..at).unwrap_or_default();
    String::from_utf8_lossy(line).chars().count() + 1
}

/// A symbol's name as it is shown and may be given back.
pub(crate) fn shown(language: Language, symbol: &Symbol) -> String {
    let separator = language.separator();
    let owner = symbol.owner.replace('.', separator);
    match (&symbol.of_trait, symbol.kind) {
        (Some(of), Kind::Impl) => format!("impl {of} for {}", symbol.name),
        (None, Kind::Impl) => format!("impl {}", symbol.name),
        (Some(of), _) if !owner.is_empty() => format!("<{owner} as {of}>::{}", symbol.name),
        _ if owner.is_empty() => symbol.name.clone(),
        _ => format!("{owner}{separator}{}", symbol.name),
    }
}

/// Edits that lead from one name to the other, case aside.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) =
        (a.to_lowercase().chars().take(64).collect(), b.to_lowercase().chars().take(64).collect());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> String {
        Wanted::parse(name).path.join("|")
    }

    #[test]
    fn every_form_of_a_name_is_understood() {
        assert_eq!(path("Foo"), "Foo");
        assert_eq!(path("(*T).Foo"), "T|Foo");
        assert_eq!(path("(*T[K]).Foo"), "T|Foo");
        assert_eq!(path("a::T<u8>::foo"), "a|T|foo");
        assert_eq!(path("A.prototype.b"), "A|b");
        assert_eq!(path("foo()"), "foo");
        assert_eq!(path("T::foo:12"), "T|foo");
        assert_eq!(Wanted::parse("T::foo:12").line, Some(12));
        assert_eq!(Wanted::parse("T::foo").line, None);
        let placed = Wanted::parse("T::foo:12:5");
        assert_eq!(
            (placed.path.join("|"), placed.line, placed.column),
            ("T|foo".to_owned(), Some(12), Some(5))
        );
        assert_eq!(Wanted::parse("<T as fmt::Display>::fmt").of_trait.as_deref(), Some("Display"));
        assert_eq!(path("<T as fmt::Display>::fmt"), "T|fmt");
        assert!(Wanted::parse("impl From<u8> for T").block);
        for name in ["<T as fmt::Display>.fmt", "impl fmt::Display for T.fmt"] {
            let wanted = Wanted::parse(name);
            let of = wanted.of_trait.as_deref();
            assert_eq!((wanted.path.join("|").as_str(), of, wanted.block), ("T|fmt", Some("Display"), false));
        }
        assert_eq!(path("A.[Symbol.iterator]"), "A|[Symbol.iterator]");
        assert_eq!(path("[Symbol.iterator]"), "[Symbol.iterator]");
    }

    #[test]
    fn near_names_are_near() {
        assert_eq!(distance("parse", "Parse"), 0);
        assert_eq!(distance("parse", "parser"), 1);
        assert_eq!(distance("", "abc"), 3);
    }
}
