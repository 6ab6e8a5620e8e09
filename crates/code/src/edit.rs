//! Changes to one symbol of a file.

mod body;
mod place;
mod signature;

use std::fmt;
use std::ops::Range;

use crate::check::{Changed, Refusal, line_of};
use crate::find::{self, Search};
use crate::indent::{self, Lines, Place, Text};
use crate::language::Language;
use crate::outline::{Kind, Symbol};
use crate::parse::{Depth, Parsed, Reader};

/// Which symbol.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Its name: `Foo`, `(*T).Foo`, `T.foo`, `T::foo`, `mod.foo`, with `:line` or `:line:column` when there
    /// are several.
    pub name: &'a str,
    /// What the file's module may be called in such a name.
    pub modules: &'a [&'a str],
}

/// What is to become of it.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// A function gets another body, given with or without its braces.
    Body(&'a str),
    /// A function gets another signature and keeps its body.
    Signature(&'a str),
    /// All of it is replaced, with its comments, attributes and decorators.
    Replace(&'a str),
    /// Something comes before it.
    Before(&'a str),
    /// Something comes after it.
    After(&'a str),
    /// A method comes after it.
    MethodAfter(&'a str),
    /// It goes.
    Delete,
}

/// A file with a change in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    /// The file.
    pub bytes: Vec<u8>,
    /// The symbol, as it is called.
    pub symbol: String,
    /// The first and the last line of what is new, from 1.
    pub lines: (usize, usize),
}

/// A symbol, for those who look for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// As it may be called.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Where its name stands.
    pub line: usize,
    /// And in which column, where the line does not tell.
    pub column: Option<usize>,
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let column = self.column.map(|column| format!(":{column}")).unwrap_or_default();
        write!(f, "{}:{}{column} ({})", self.name, self.line, self.kind.name())
    }
}

/// Why a change was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// The language can only be searched.
    #[error("cannot edit {} by name", .0.name())]
    Language(Language),
    /// Too large, or no text.
    #[error("cannot be parsed")]
    Unreadable,
    /// There is no such symbol.
    #[error("no symbol named \"{name}\"")]
    NotFound {
        /// What was looked for.
        name: String,
        /// The nearest.
        near: Vec<Listed>,
        /// How many there are that could be meant.
        total: usize,
        /// The first line that does not parse: what is behind it may not be seen.
        broken: Option<usize>,
        /// Where the name stands all the same, as nothing that is seen here.
        stands: Option<usize>,
    },
    /// There are several.
    #[error("\"{name}\" is ambiguous")]
    Ambiguous {
        /// What was looked for.
        name: String,
        /// The first of them.
        candidates: Vec<Listed>,
        /// How many there are.
        total: usize,
    },
    /// A function was asked for.
    #[error("{found} is not a function")]
    NotAFunction {
        /// What the name means.
        found: Listed,
    },
    /// It only has a signature.
    #[error("{found} has no body")]
    NoBody {
        /// The function.
        found: Listed,
    },
    /// One declaration gives it and other names.
    #[error("{found} is declared together with {others}")]
    Together {
        /// What the name means.
        found: Listed,
        /// The other names.
        others: String,
    },
    /// What stands before it is given again.
    #[error("{found} keeps its own {what}, and the new signature has more of them")]
    Dressed {
        /// The function.
        found: Listed,
        /// What that is.
        what: &'static str,
    },
    /// A whole function is given where its body is asked for.
    #[error("the new body is the whole function {name}, not what is in it")]
    WholeFunction {
        /// What it is called.
        name: String,
    },
    /// What a symbol is in is given once more, around the new text.
    #[error("the new text is all of {name} once more, not what belongs in it")]
    WholeType {
        /// What that is called.
        name: String,
    },
    /// The file would no longer be what it is.
    #[error("replacement did not parse: {reason}")]
    DoesNotParse {
        /// Where and why.
        reason: String,
    },
    /// It is already so.
    #[error("nothing to change")]
    Same,
}

/// Changes one symbol of a file.
///
/// # Errors
/// No such symbol, or a result that does not parse; see [`EditError`].
pub fn edit(
    language: Language,
    source: &[u8],
    target: &Target<'_>,
    change: &Change<'_>,
) -> Result<Edited, EditError> {
    if !language.editable() {
        return Err(EditError::Language(language));
    }
    if source.starts_with(b"\xFF\xFE") || source.starts_with(b"\xFE\xFF") {
        return Err(EditError::Unreadable);
    }
    let before = Reader::default().parse(language, source).ok_or(EditError::Unreadable)?;
    let symbols = before.outline(Depth::Everything);
    let callable = matches!(change, Change::Body(_) | Change::Signature(_) | Change::MethodAfter(_));
    let package = before.package();
    let modules: Vec<&str> = target.modules.iter().copied().chain(package).collect();
    let search =
        Search { language, source, symbols: &symbols, name: target.name, modules: &modules, callable };
    let symbol = search.one().map_err(|error| match error {
        EditError::NotFound { name, near, total, .. } => {
            let stands = find::stands(source, &name);
            EditError::NotFound { name, near, total, broken: before.broken(), stands }
        }
        other => other,
    })?;
    let mut job = Job { before: &before, symbols: &symbols, symbol };
    if matches!(change, Change::Replace(_) | Change::Delete) {
        job.is_alone()?;
    }
    let own = job.without_next_semicolon();
    job.symbol = own.as_ref().unwrap_or(symbol);
    let edited = match change {
        Change::Body(new) => job.body(&clean(new)),
        Change::Signature(new) => job.signature(&clean(new)),
        Change::Replace(new) => job.replace(&clean(new)),
        Change::Before(new) => job.before(&clean(new)),
        Change::After(new) => job.after(&clean(new), false),
        Change::MethodAfter(new) => job.after(&clean(new), true),
        Change::Delete => job.delete(),
    }?;
    if edited.bytes == source { Err(EditError::Same) } else { Ok(edited) }
}

/// The caller's text with plain line ends.
fn clean(text: &str) -> String {
    text.strip_prefix('\u{FEFF}').unwrap_or(text).replace("\r\n", "\n")
}

struct Job<'a> {
    before: &'a Parsed<'a>,
    symbols: &'a [Symbol],
    symbol: &'a Symbol,
}

/// New text and where it goes.
struct Splice {
    at: Range<usize>,
    text: String,
    /// Lines at its beginning that are not the caller's.
    lead: usize,
}

/// New text with what will stand around it.
struct Within<'t> {
    before: &'static str,
    text: &'t str,
    after: &'static str,
}

impl<'t> Within<'t> {
    fn alone(text: &'t str) -> Self {
        Self { before: "", text, after: "" }
    }

    fn own_lines(text: &'t str) -> Self {
        Self { before: "\n", text, after: "\n" }
    }
}

impl Job<'_> {
    fn source(&self) -> &[u8] {
        self.before.source
    }

    fn listed(&self) -> Listed {
        let name = find::shown(self.before.language, self.symbol);
        Listed { name, kind: self.symbol.kind, line: self.symbol.line, column: None }
    }

    /// Whether its declaration gives no other name.
    fn is_alone(&self) -> Result<(), EditError> {
        let it = self.symbol;
        let other = |other: &&Symbol| other.full == it.full && other.name_at != it.name_at && other.shared;
        let others: Vec<&str> = self
            .symbols
            .iter()
            .filter(|_| it.shared)
            .filter(other)
            .map(|other| other.name.as_str())
            .collect();
        match others.is_empty() {
            true => Ok(()),
            false => Err(EditError::Together { found: self.listed(), others: others.join(", ") }),
        }
    }

    /// The symbol without the semicolon before the next statement, as those write it who end none with one:
    /// `;[1, 2].map(f)`.
    fn without_next_semicolon(&self) -> Option<Symbol> {
        let (source, full) = (self.source(), &self.symbol.full);
        let bare = source[full.clone()].strip_suffix(b";").filter(|_| self.before.language.is_script())?;
        let end = memchr::memrchr(b'\n', bare).filter(|end| bare[*end..].trim_ascii().is_empty())?;
        let behind = source[full.end..].iter().take_while(|byte| **byte != b'\n');
        if behind.copied().all(|byte| byte.is_ascii_whitespace()) {
            return None;
        }
        let end = full.start + bare[..end].trim_ascii_end().len();
        Some(Symbol { full: full.start..end, ..self.symbol.clone() })
    }

    /// The indentation of the line on which the symbol's declaration begins.
    fn indent(&self) -> String {
        indent::at(self.source(), self.symbol.signature.start)
    }

    /// The ways in which new text may stand at a place with `target` as its indentation, the likeliest first.
    fn fitted(&self, at: &Range<usize>, text: &Within<'_>, target: &str) -> Vec<String> {
        self.fitted_lines(at, &self.lines(at, text), target)
    }

    fn fitted_lines(&self, at: &Range<usize>, lines: &Lines<'_>, target: &str) -> Vec<String> {
        let language = self.before.language;
        let unit = indent::unit(language, self.source());
        let old = String::from_utf8_lossy(&self.source()[at.clone()]);
        lines.fitted(&Place { language, target, unit: &unit, old: &old })
    }

    /// New text by lines, with its string literals known from how it parses at its place.
    fn lines<'t>(&self, at: &Range<usize>, text: &Within<'t>) -> Lines<'t> {
        if !text.text.contains('\n') {
            return Lines::new(text.text, &[]);
        }
        let python = self.before.language == Language::Python;
        // there indentation is syntax: alone the text is nearer to what it will be
        let around = if python { Default::default() } else { (&self.source()[..at.start], text.before) };
        let behind = if python { Default::default() } else { (text.after, &self.source()[at.end..]) };
        let start = around.0.len() + around.1.len();
        let new = start..start + text.text.len();
        let whole =
            [around.0, around.1.as_bytes(), text.text.as_bytes(), behind.0.as_bytes(), behind.1].concat();
        let parsed = Reader::default().parse(self.before.language, &whole);
        let found = parsed.map(|parsed| parsed.long_strings(&new)).unwrap_or_default();
        Lines::new(text.text, &within(found, &new))
    }

    /// What is at a place now, by lines.
    fn old_lines<'t>(&self, at: &Range<usize>, text: &'t str) -> Lines<'t> {
        Lines::new(text, &within(self.before.long_strings(at), at))
    }

    /// Puts new text into the file and holds the result against the file before.
    fn splice(
        &self,
        splice: &Splice,
        fits: impl FnOnce(&Changed<'_>, &[Symbol]) -> bool,
    ) -> Result<Edited, EditError> {
        let text = self.line_ends(&splice.at, &splice.text);
        let source = self.source();
        let bytes = [&source[..splice.at.start], text.as_bytes(), &source[splice.at.end..]].concat();
        let new = splice.at.start..splice.at.start + text.len();
        let after = Reader::default().parse(self.before.language, &bytes).ok_or(EditError::Unreadable)?;
        let changed =
            Changed { before: self.before, symbols: self.symbols, old: splice.at.clone(), new: new.clone() };
        let first = line_of(&bytes, new.start) + splice.lead;
        let held = changed.hold(&after).map_err(|refusal| explain(&refusal, first))?;
        if !fits(&changed, &held) {
            let reason = match (self.symbol.kind.is_callable(), self.before.language) {
                (true, Language::Python) => {
                    "it is not one function of this kind: a line is indented less than the first, or something is \
                     left open"
                }
                (true, _) => {
                    "it is not one function of this kind: something in it is closed too early or left open"
                }
                (false, _) => "it is not what belongs there",
            };
            return Err(EditError::DoesNotParse { reason: reason.to_owned() });
        }
        if let Some(name) = self.wrapped(&changed, &held, &text) {
            return Err(EditError::WholeType { name });
        }
        let blank = text.len() - text.trim_start_matches(['\n', '\r']).len();
        let shown = new.start + blank..new.start + text.trim_end().len().max(blank);
        let lines = (line_of(&bytes, shown.start), line_of(&bytes, shown.end));
        drop(after);
        Ok(Edited { bytes, symbol: self.listed().name, lines })
    }

    /// The class that the symbol is in, when the new text is nothing but another of that name: in it that would be a
    /// class of its own.
    fn wrapped(&self, changed: &Changed<'_>, symbols: &[Symbol], text: &str) -> Option<String> {
        let it = self.symbol;
        let around = it.container.and_then(|at| self.symbols.get(at)).filter(|it| it.kind == Kind::Class)?;
        let is_class = |symbol: &Symbol| symbol.kind == Kind::Class && symbol.name == around.name;
        let new = &changed.new;
        let again = symbols.iter().find(|it| new.contains(&it.signature.start) && is_class(it))?;
        let part = |at: Range<usize>| text.get(at.start - new.start..at.end - new.start).unwrap_or_default();
        let (start, end) = (again.full.start.max(new.start), again.full.end.min(new.end));
        let alone = [part(new.start..start), part(end..new.end)];
        let alone = !alone.iter().any(|part| part.contains(char::is_alphanumeric));
        (alone && !is_class(it)).then(|| find::shown(self.before.language, around))
    }

    /// Text with the line ends of the place where it goes.
    fn line_ends(&self, at: &Range<usize>, text: &str) -> String {
        let source = self.source();
        let inside = memchr::memchr(b'\n', &source[at.clone()]).map(|newline| at.start + newline);
        let newline = inside
            .or_else(|| memchr::memchr(b'\n', &source[at.end..]).map(|newline| at.end + newline))
            .or_else(|| memchr::memrchr(b'\n', &source[..at.start]));
        let crlf = newline.is_some_and(|at| at > 0 && source[at - 1] == b'\r');
        if crlf { text.replace('\n', "\r\n") } else { text.to_owned() }
    }
}

/// String literals of a whole as those of the part at `at`.
fn within(strings: Vec<Text>, at: &Range<usize>) -> Vec<Text> {
    let inside = strings.into_iter().filter(|string| at.contains(&string.at.start));
    inside.map(|string| Text { at: string.at.start - at.start..string.at.end - at.start, ..string }).collect()
}

fn explain(refusal: &Refusal, first: usize) -> EditError {
    let Refusal { line, reason, inside } = refusal;
    let place = match inside {
        true => format!("line {} of the new text", line.saturating_sub(first) + 1),
        false => format!("line {line} of the file, outside of the new text"),
    };
    EditError::DoesNotParse { reason: format!("{place}: {reason}") }
}
