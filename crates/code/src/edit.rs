//! Changes to one symbol of a file.

mod place;

use std::fmt;
use std::ops::Range;

use crate::check::{Changed, Refusal, line_of};
use crate::find::{self, Search};
use crate::indent::{self, Lines};
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
    let search =
        Search { language, source, symbols: &symbols, name: target.name, modules: target.modules, callable };
    let symbol = search.one()?;
    let job = Job { before: &before, symbols: &symbols, symbol };
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
}

impl Job<'_> {
    fn source(&self) -> &[u8] {
        self.before.source
    }

    fn listed(&self) -> Listed {
        let name = find::shown(self.before.language, self.symbol);
        Listed { name, kind: self.symbol.kind, line: self.symbol.line, column: None }
    }

    /// The indentation of the line on which the symbol's declaration begins.
    fn indent(&self) -> String {
        indent::at(self.source(), self.symbol.signature.start)
    }

    /// New text for a place, with `target` as its indentation.
    fn fitted(&self, at: &Range<usize>, text: &str, target: &str) -> String {
        let strings = self.strings(at, text);
        Lines::new(text, &strings).fitted(target, &indent::unit(self.before.language, self.source()))
    }

    /// The string literals in new text that reach over a line end.
    fn strings(&self, at: &Range<usize>, text: &str) -> Vec<Range<usize>> {
        if !text.contains('\n') {
            return Vec::new();
        }
        let mut reader = Reader::default();
        if self.before.language == Language::Python {
            // there indentation is syntax: alone the text is nearer to what it will be
            let parsed = reader.parse(Language::Python, text.as_bytes());
            return parsed.map(|parsed| parsed.long_strings(&(0..text.len()))).unwrap_or_default();
        }
        let whole = [&self.source()[..at.start], text.as_bytes(), &self.source()[at.end..]].concat();
        let new = at.start..at.start + text.len();
        let found = reader.parse(self.before.language, &whole).map(|parsed| parsed.long_strings(&new));
        let found = found.unwrap_or_default().into_iter().filter(|at| new.contains(&at.start));
        found.map(|at| at.start - new.start..at.end - new.start).collect()
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
        let first = line_of(&bytes, new.start);
        let held = changed.hold(&after).map_err(|refusal| explain(&refusal, first))?;
        if !fits(&changed, &held) {
            let reason = match self.symbol.kind.is_callable() {
                true => {
                    "it is not one function of this kind: something in it is closed too early or left open"
                }
                false => "it is not what belongs there",
            };
            return Err(EditError::DoesNotParse { reason: reason.to_owned() });
        }
        let blank = text.len() - text.trim_start_matches(['\n', '\r']).len();
        let shown = new.start + blank..new.start + text.trim_end().len().max(blank);
        let lines = (line_of(&bytes, shown.start), line_of(&bytes, shown.end));
        drop(after);
        Ok(Edited { bytes, symbol: self.listed().name, lines })
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

    fn body(&self, new: &str) -> Result<Edited, EditError> {
        let symbol = self.symbol;
        let Some(body) = symbol.body.clone() else { return Err(EditError::NoBody { found: self.listed() }) };
        let old = String::from_utf8_lossy(&self.source()[body.clone()]).replace("\r\n", "\n");
        if inner(&old).trim() == inner(new).trim() {
            return Err(EditError::Same);
        }
        let python = self.before.language == Language::Python;
        let forms =
            if python { self.python_bodies(&body, new) } else { self.braced_bodies(&body, &old, new) };
        let mut refused = EditError::DoesNotParse { reason: "there is nothing in it".to_owned() };
        for (form, start) in forms {
            let done = self.splice(&form, |changed, symbols| {
                let same = |it: &&Symbol| it.name_at == symbol.name_at && it.name == symbol.name;
                let now = symbols.iter().find(same).and_then(|it| it.body.clone());
                // a comment at the end of a Python block may count as part of it or not
                let code = form
                    .text
                    .lines()
                    .rev()
                    .take_while(|line| line.trim().is_empty() || python && line.trim().starts_with('#'));
                let loose: usize = code.map(|line| line.len() + 2).sum();
                now.is_some_and(|now| {
                    now.start == start && now.end <= changed.new.end && now.end + loose >= changed.new.end
                })
            });
            match done {
                Ok(done) => return Ok(done),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    /// The ways to read a new body between braces, the likeliest first, with where the body then begins.
    fn braced_bodies(&self, body: &Range<usize>, old: &str, new: &str) -> Vec<(Splice, usize)> {
        let mut forms = Vec::new();
        let mut add = |text: String| forms.push((Splice { at: body.clone(), text }, body.start));
        let outer = self.indent();
        let unit = indent::unit(self.before.language, self.source());
        let target = if self.symbol.block { Lines::new(inner(old), &[]).inner_indent() } else { None };
        let target = target.unwrap_or_else(|| format!("{outer}{unit}"));
        let closing = old.rsplit('\n').next().and_then(|line| line.strip_suffix('}')).unwrap_or_default();
        let closing = if old.contains('\n') && closing.trim().is_empty() { closing } else { &outer };
        let trimmed = new.trim();
        let braced = trimmed.len() > 1 && trimmed.starts_with('{') && trimmed.ends_with('}');
        if braced {
            let within = inner(trimmed);
            add(match within.split_once('\n') {
                None => trimmed.to_owned(),
                Some((head, rest)) => {
                    let rest = rest.trim_end_matches([' ', '\t']);
                    let rest = self.fitted(body, rest, &target);
                    format!(
                        "{{{head}\n{}{}}}",
                        rest,
                        if rest.is_empty() || rest.ends_with('\n') { closing } else { "" }
                    )
                }
            });
        }
        if !self.symbol.block && !braced {
            add(trimmed.trim_end_matches(';').to_owned());
        }
        let bare = new.trim_end().trim_start_matches('\n');
        if bare.trim().is_empty() {
            add("{}".to_owned());
        } else {
            add(format!("{{\n{}\n{closing}}}", self.fitted(body, bare, &target)));
        }
        forms
    }

    fn python_bodies(&self, body: &Range<usize>, new: &str) -> Vec<(Splice, usize)> {
        let bare = new.trim_end().trim_start_matches('\n');
        if bare.trim().is_empty() {
            return Vec::new();
        }
        let source = self.source();
        let same_line = indent::line_start(source, body.start) != body.start;
        let old = String::from_utf8_lossy(&source[body.clone()]).replace("\r\n", "\n");
        let strings = self.before.long_strings(body);
        let strings: Vec<_> =
            strings.iter().map(|at| at.start - body.start.min(at.start)..at.end - body.start).collect();
        let target = if same_line { None } else { Lines::new(&old, &strings).common() };
        let target = target.map(str::to_owned);
        let target =
            target.unwrap_or_else(|| format!("{}{}", self.indent(), indent::unit(Language::Python, source)));
        let text = self.fitted(body, bare, &target);
        if !same_line {
            return vec![(Splice { at: body.clone(), text }, body.start)];
        }
        let colon = self.symbol.signature.end;
        let newline = self.line_ends(body, "\n").len();
        let below = (Splice { at: colon..body.end, text: format!("\n{text}") }, colon + newline);
        let beside = (Splice { at: body.clone(), text: bare.trim().to_owned() }, body.start);
        if bare.contains('\n') { vec![below] } else { vec![beside, below] }
    }

    fn signature(&self, new: &str) -> Result<Edited, EditError> {
        let symbol = self.symbol;
        let mut text = new.trim();
        if symbol.body.is_some() && self.before.language != Language::Python {
            text = text.strip_suffix('{').unwrap_or(text).trim_end();
        }
        text = text.strip_suffix(';').unwrap_or(text).trim_end();
        let mut text = text.to_owned();
        let old = String::from_utf8_lossy(&self.source()[symbol.signature.clone()]).into_owned();
        let ending = if self.before.language == Language::Python { ":" } else { "=>" };
        if old.ends_with(ending) && !text.ends_with(ending) {
            text.push_str(if ending == ":" { ":" } else { " =>" });
        }
        let indent = self.indent();
        let mut refused = EditError::DoesNotParse { reason: "there is nothing in it".to_owned() };
        if text.is_empty() {
            return Err(refused);
        }
        for start in &symbol.starts {
            let at = *start..symbol.signature.end.max(*start);
            let fitted = self.fitted(&at, &text, &indent);
            let splice = Splice { at, text: fitted.trim_start().to_owned() };
            let done = self.splice(&splice, |changed, symbols| {
                let body =
                    symbol.body.as_ref().map(|body| changed.moved(body.start)..changed.moved(body.end));
                symbols.iter().any(|it| {
                    let here =
                        changed.new.contains(&it.name_at.start) || it.name_at.start == symbol.name_at.start;
                    it.kind.is_callable() && here && it.body == body
                })
            });
            match done {
                Ok(done) => return Ok(done),
                // the first way of reading it is the one to explain
                Err(error) if *start == symbol.starts[0] => refused = error,
                Err(_) => {}
            }
        }
        Err(match refused {
            EditError::DoesNotParse { reason } => {
                EditError::DoesNotParse { reason: format!("{reason}; the signature now is: {}", old.trim()) }
            }
            other => other,
        })
    }
}

impl<'t> Lines<'t> {
    /// The indentation of what stands between braces: the first line behind the opening one does not count, nor does
    /// the last before the closing one.
    fn inner_indent(&self) -> Option<String> {
        if self.lines.len() < 2 {
            return None;
        }
        let rest = Lines { lines: self.lines[1..].to_vec(), fixed: self.fixed[1..].to_vec() };
        rest.common().map(str::to_owned)
    }
}

/// What stands between braces; text without them as it is.
fn inner(text: &str) -> &str {
    let trimmed = text.trim();
    trimmed.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(text)
}

fn explain(refusal: &Refusal, first: usize) -> EditError {
    let Refusal { line, reason, inside } = refusal;
    let place = match inside {
        true => format!("line {} of the new text", line.saturating_sub(first) + 1),
        false => format!("line {line} of the file, outside of the new text"),
    };
    EditError::DoesNotParse { reason: format!("{place}: {reason}") }
}
