//! Changes to whole symbols: replacing, inserting beside, deleting.

use std::borrow::Cow;
use std::ops::Range;

use super::{EditError, Edited, Job, Splice, Within};
use crate::indent;
use crate::language::Language;
use crate::outline::{Kind, Symbol};
use crate::statement;

impl Job<'_> {
    pub(super) fn replace(&self, new: &str) -> Result<Edited, EditError> {
        let full = self.symbol.full.clone();
        let bare = new.trim_end().trim_start_matches('\n');
        if bare.trim().is_empty() {
            return Err(EditError::DoesNotParse {
                reason: "there is nothing in it; delete_symbol deletes".to_owned(),
            });
        }
        let indent = indent::at(self.source(), full.start);
        let symbol = self.symbol;
        let forms = self.with_commas(self.fitted(&full, &Within::own_lines(&self.as_listed(bare)), &indent));
        let forms = match self.source()[full.clone()].ends_with(b";") {
            true => forms.into_iter().map(|text| self.closed(&text).unwrap_or(text)).collect(),
            false => self.with_semicolons(forms),
        };
        first_that_fits(forms, |text| {
            let splice = Splice { at: full.clone(), text: text.trim_start().to_owned(), lead: 0 };
            self.splice(&splice, |changed, symbols| {
                symbols
                    .iter()
                    .any(|it| changed.new.contains(&it.signature.start) && it.container == symbol.container)
            })
        })
    }

    pub(super) fn before(&self, new: &str) -> Result<Edited, EditError> {
        let source = self.source();
        let start = self.symbol.full.start;
        let line = indent::line_start(source, start);
        let own_line = source[line..start].trim_ascii().is_empty();
        let at = if own_line { line } else { start };
        let indent = indent::at(source, start);
        let forms = self.fitted(&(at..at), &Within::own_lines(trimmed(new)?), &indent);
        first_that_fits(self.with_semicolons(self.with_commas(forms)), |text| {
            let gap = "\n".repeat(1 + self.blank_lines(text));
            let text = match own_line {
                true => format!("{text}{gap}"),
                false => format!("{}{gap}{indent}", text.trim_start()),
            };
            self.splice(&Splice { at: at..at, text, lead: 0 }, |_, _| true)
        })
    }

    pub(super) fn after(&self, new: &str, method: bool) -> Result<Edited, EditError> {
        let source = self.source();
        let (end, whole_line) = self.behind();
        let at = end..end;
        let indent = indent::at(source, self.symbol.full.start);
        let symbol = self.symbol;
        let within = |it: &Symbol| it.container == symbol.container;
        let forms = self.fitted(&at, &Within::own_lines(trimmed(new)?), &indent);
        // the last of a list has no comma behind it
        let open = symbol.listed
            && !source[..symbol.full.end].ends_with(b",")
            && !source[symbol.full.end..end].starts_with(b",");
        let forms = if open { forms } else { self.with_semicolons(self.with_commas(forms)) };
        let at = if open { symbol.full.end..end } else { at };
        let lead = match open {
            true => format!(",{}", String::from_utf8_lossy(&source[at.clone()])),
            false => String::new(),
        };
        first_that_fits(forms, |text| {
            let blank = self.blank_lines(text);
            let before = "\n".repeat(1 + blank);
            let after = match whole_line {
                true => "\n".repeat(self.missing_blank_lines(end, &indent, blank)),
                false => format!("\n{indent}"),
            };
            let splice =
                Splice { at: at.clone(), text: format!("{lead}{before}{text}{after}"), lead: before.len() };
            self.splice(&splice, |changed, symbols| {
                let mut new =
                    symbols.iter().filter(|it| changed.new.contains(&it.signature.start)).peekable();
                let first = new.peek().is_none_or(|first| within(first));
                first && (!method || new.any(|it| it.kind.is_callable()))
            })
        })
    }

    pub(super) fn delete(&self) -> Result<Edited, EditError> {
        let source = self.source();
        let start = self.symbol.full.start;
        let line = indent::line_start(source, start);
        let own_line = source[line..start].trim_ascii().is_empty();
        let (end, whole_line) = self.behind();
        // what follows on the line stands where this stood
        let blank = |byte: &&u8| matches!(byte, b' ' | b'\t');
        let gap = if whole_line { 0 } else { source[end..].iter().take_while(blank).count() };
        let spaced = own_line || source[..start].ends_with(b" ");
        let at = match own_line && whole_line {
            true => self.with_line_ends(line..end),
            false => start..end + if spaced { gap } else { 0 },
        };
        let done = self.splice(&Splice { at, text: String::new(), lead: 0 }, |_, _| true);
        done.map_err(|error| match error {
            EditError::DoesNotParse { reason } => {
                EditError::DoesNotParse { reason: format!("without it the file is broken: {reason}") }
            }
            other => other,
        })
    }

    /// Where the symbol and what closes its line end, and whether nothing else is on the line.
    fn behind(&self) -> (usize, bool) {
        let source = self.source();
        let full = self.symbol.full.end;
        let rest = &source[full..];
        let line = &rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())];
        let text = String::from_utf8_lossy(line);
        let behind = text.trim_start_matches([' ', '\t']);
        let closed = behind.strip_prefix([';', ',']).unwrap_or(behind);
        if self.is_comment(closed.trim()) {
            return (full + line.trim_ascii_end().len(), true);
        }
        let taken = if closed.len() < behind.len() { text.len() - closed.len() } else { 0 };
        (full + taken.min(line.len()), false)
    }

    /// Whether there is nothing but comments in the rest of a line; one that goes on in the next line is more.
    fn is_comment(&self, mut rest: &str) -> bool {
        if self.before.language == Language::Python {
            return rest.is_empty() || rest.starts_with('#');
        }
        while let Some(inner) = rest.strip_prefix("/*") {
            let Some((_, behind)) = inner.split_once("*/") else { return false };
            rest = behind.trim_start();
        }
        rest.is_empty() || rest.starts_with("//")
    }

    /// New text with the comma behind it that is there now, if it is one of several that commas part.
    fn as_listed<'t>(&self, new: &'t str) -> Cow<'t, str> {
        let last = new.lines().next_back().unwrap_or_default();
        if !self.symbol.listed || last.contains("//") || last.contains("/*") {
            return new.into();
        }
        let bare = new.strip_suffix(',').unwrap_or(new);
        let comma = self.source()[..self.symbol.full.end].ends_with(b",");
        if comma { format!("{bare},").into() } else { bare.into() }
    }

    /// New text as it is, and with the comma behind it that parts what is listed.
    fn with_commas(&self, forms: Vec<String>) -> Vec<String> {
        let commas = forms.iter().filter(|text| self.symbol.listed && !text.ends_with(','));
        let commas: Vec<String> = commas.map(|text| format!("{text},")).collect();
        forms.into_iter().chain(commas).collect()
    }

    /// New text as it is, and with the semicolon behind it that keeps the next line from being part of it.
    fn with_semicolons(&self, forms: Vec<String>) -> Vec<String> {
        let closed: Vec<String> = forms.iter().filter_map(|text| self.closed(text)).collect();
        forms.into_iter().chain(closed).collect()
    }

    /// New text with a semicolon behind it, if it is something that takes one and has none.
    fn closed(&self, text: &str) -> Option<String> {
        let language = self.before.language;
        if !language.is_script() || self.symbol.listed {
            return None;
        }
        let around = match self.symbol.container.and_then(|at| self.symbols.get(at)).map(|it| it.kind) {
            Some(Kind::Class) => ("class A {\n", "\n}"),
            Some(Kind::Interface) => ("interface A {\n", "\n}"),
            _ => ("", ""),
        };
        statement::closed(language, text, around)
    }

    /// Lines between this symbol and its neighbour.
    fn blank_lines(&self, new: &str) -> usize {
        let symbol = self.symbol;
        let single = memchr::memchr(b'\n', &self.source()[symbol.full.clone()]).is_none();
        let top = symbol.container.is_none() && !new.starts_with([' ', '\t']);
        match self.before.language {
            Language::Python if top && (symbol.kind.is_callable() || symbol.block || new.contains('\n')) => 2,
            _ if single && !new.trim().contains('\n') => 0,
            _ => 1,
        }
    }

    /// Blank lines that are wanting between what is inserted at `end` and what follows on the same level.
    fn missing_blank_lines(&self, end: usize, indent: &str, wanted: usize) -> usize {
        let text = String::from_utf8_lossy(&self.source()[end..]);
        let mut blank = 0;
        for line in text.split('\n').skip(1) {
            if line.trim().is_empty() {
                blank += 1;
                continue;
            }
            let closes = line.trim_start().starts_with(['}', ')', ']']);
            let same = line.len() - line.trim_start().len() >= indent.len();
            return if closes || !same { 0 } else { wanted.saturating_sub(blank) };
        }
        0
    }

    /// A deletion of whole lines takes the blank lines behind it along when there are some before it.
    fn with_line_ends(&self, at: Range<usize>) -> Range<usize> {
        let source = self.source();
        let next = |from: usize| memchr::memchr(b'\n', &source[from..]).map(|newline| from + newline + 1);
        let Some(mut end) = next(at.end) else {
            // the last line of the file: the one before it becomes the last
            let before = source[..at.start].trim_ascii_end().len();
            let keep = source[before..at.start]
                .iter()
                .position(|byte| *byte == b'\n')
                .map_or(before, |n| before + n + 1);
            return keep.min(at.start)..at.end;
        };
        let before = &source[..at.start];
        let above = &before[..before.len() - usize::from(before.ends_with(b"\n"))];
        let above = &above[indent::line_start(above, above.len())..];
        let opens = above.trim_ascii_end().ends_with(b"{") || above.trim_ascii_end().ends_with(b":");
        if at.start == 0 || above.trim_ascii().is_empty() || opens {
            while let Some(line) = next(end).filter(|line| source[end..*line].trim_ascii().is_empty()) {
                end = line;
            }
        }
        let closes = source[end..].trim_ascii_start().first().is_none_or(|byte| matches!(byte, b'}' | b')'));
        if closes && above.trim_ascii().is_empty() {
            let kept = before.trim_ascii_end().len();
            let start = next(kept).unwrap_or(at.start).min(at.start);
            return start..end;
        }
        at.start..end
    }
}

/// What the first form makes that can stand; what is wrong with the likeliest when none can.
fn first_that_fits(
    forms: Vec<String>,
    make: impl Fn(&str) -> Result<Edited, EditError>,
) -> Result<Edited, EditError> {
    let mut refused = None;
    for form in &forms {
        match make(form) {
            Ok(done) => return Ok(done),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(refused.unwrap_or(EditError::Same))
}

fn trimmed(new: &str) -> Result<&str, EditError> {
    let bare = new.trim_end().trim_start_matches('\n');
    if bare.trim().is_empty() {
        return Err(EditError::DoesNotParse { reason: "there is nothing in it".to_owned() });
    }
    Ok(bare)
}
