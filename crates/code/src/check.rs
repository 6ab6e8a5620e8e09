//! Whether a file with a change in it still is what it was, apart from the change.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::language::Language;
use crate::lax::Sort;
use crate::outline::Symbol;
use crate::parse::{Depth, Parsed, Problem};
use crate::rules::{
    self,
    go::{self, Repeat},
};
use crate::statement::{self, Placed};

const NOT_CLOSED: &str = "a bracket, a quote or a comment in the new text is not closed, or closed too early";

/// Why a change is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The place in the changed file.
    pub(crate) line: usize,
    pub(crate) reason: String,
    /// Whether the place is in the new text.
    pub(crate) inside: bool,
}

/// A change: what was at `old` is replaced, and what is there now is at `new`.
pub(crate) struct Changed<'a> {
    pub(crate) before: &'a Parsed<'a>,
    pub(crate) symbols: &'a [Symbol],
    pub(crate) old: Range<usize>,
    pub(crate) new: Range<usize>,
}

impl Changed<'_> {
    /// Holds the changed file against the one before; its symbols when all is well.
    pub(crate) fn hold(&self, after: &Parsed<'_>) -> Result<Vec<Symbol>, Refusal> {
        let was = self.before.problems();
        let mut now = after.problems();
        // a file for Python 2 stays one
        if was.iter().any(|problem| problem.sort == Sort::Old) {
            now.retain(|problem| problem.sort != Sort::Old);
        }
        let known = self.known(&was);
        let new = |problem: &Problem| !known.contains(&(problem.at, problem.reason.as_str()));
        let inside = |problem: &Problem| self.new.start <= problem.at && problem.at <= self.new.end;
        if let Some(problem) = now.iter().find(|problem| inside(problem) && new(problem)) {
            return Err(self.refuse(problem.line, problem.reason.clone(), true));
        }
        let broken = |all: &[Problem]| all.iter().filter(|problem| problem.sort == Sort::Broken).count();
        let (was_broken, broken) = (broken(&was), broken(&now));
        // what a broken file is taken for changes with everything in it
        let rule = |problem: &&Problem| problem.sort != Sort::Broken && new(problem);
        if let Some(problem) = now.iter().find(rule).filter(|_| was_broken == 0 && broken == 0) {
            return Err(self.refuse(problem.line, problem.reason.clone(), false));
        }
        if broken > was_broken {
            let first = now.iter().find(|problem| problem.sort == Sort::Broken && new(problem));
            let (line, reason) =
                first.map_or((1, "it no longer parses".to_owned()), |p| (p.line, p.reason.clone()));
            return Err(self.refuse(line, reason, false));
        }
        if after.language == Language::Python
            && let Some(line) = crooked(after, &self.new)
        {
            return Err(self.refuse(line, "unexpected indentation".to_owned(), true));
        }
        let symbols = after.outline(Depth::Everything);
        if broken == was_broken {
            if after.language.is_script() {
                self.same_statements(after)?;
            }
            if after.language == Language::Go {
                self.same_constants(after)?;
            }
            self.same_outside(&symbols, after)?;
        }
        Ok(symbols)
    }

    fn refuse(&self, line: usize, reason: String, inside: bool) -> Refusal {
        Refusal { line, reason, inside }
    }

    /// What was wrong outside the change, and where that is now.
    fn known<'p>(&self, was: &'p [Problem]) -> HashSet<(usize, &'p str)> {
        let outside = was.iter().filter(|problem| !self.old.contains(&problem.at));
        outside.map(|problem| (self.moved(problem.at), problem.reason.as_str())).collect()
    }

    /// Where a place outside the change is now.
    pub(crate) fn moved(&self, at: usize) -> usize {
        if at >= self.old.end { at - self.old.end + self.new.end } else { at }
    }

    /// Statements outside the change are what and where they were: none goes on in the next line that did not before.
    fn same_statements(&self, after: &Parsed<'_>) -> Result<(), Refusal> {
        let was = statement::all(self.before);
        let was = was.iter().filter_map(|it| it.placed(&self.old, |at| self.moved(at)));
        let now = statement::all(after);
        let now = now.iter().filter_map(|it| it.placed(&self.new, |at| at));
        let (mut was, mut now): (Vec<Placed>, Vec<Placed>) = (was.collect(), now.collect());
        was.sort_unstable();
        now.sort_unstable();
        if was == now {
            return Ok(());
        }
        let source = after.source;
        let starts: HashSet<usize> = now.iter().filter_map(|it| Some(it.0?.0)).collect();
        let swallowed = was.iter().filter_map(|it| Some(it.0?.0)).find(|start| !starts.contains(start));
        let text = |at: usize| source.get(at..).unwrap_or_default();
        let new = text(self.new.start).trim_ascii_start();
        let (at, inside) = match swallowed {
            Some(at) if statement::goes_on(text(at)) => (at, false),
            None if statement::goes_on(new) => (source.len() - new.len(), true),
            // what is not closed in the new text is seen by the symbols; where there are none this is all that is
            _ => {
                let differs = (0..was.len().max(now.len())).find(|at| was.get(*at) != now.get(*at));
                let one = differs.and_then(|at| was.get(at).or(now.get(at)));
                let at = one.and_then(|one| Some(one.0?.0)).unwrap_or(self.new.start);
                let reason = "what is there would no longer be what it is";
                return Err(self.refuse(line_of(source, at), format!("{reason}; {NOT_CLOSED}"), false));
            }
        };
        let line = String::from_utf8_lossy(text(at));
        let line: String = line.lines().next().unwrap_or_default().trim_end().chars().take(40).collect();
        let reason = format!(
            "`{line}` would go on the statement before it, which no semicolon ends; put a `;` between the two"
        );
        Err(self.refuse(line_of(source, at), reason, inside))
    }

    /// Constants of Go that repeat an expression repeat the same one, unless the one that has it was changed itself.
    fn same_constants(&self, after: &Parsed<'_>) -> Result<(), Refusal> {
        let was = go::repeats(self.before).into_iter().filter(|it| !self.old.contains(&it.name.start));
        let was: HashMap<usize, Repeat> = was.map(|it| (self.moved(it.name.start), it)).collect();
        for now in go::repeats(after) {
            let Some(old) = was.get(&now.name.start).filter(|_| !self.new.contains(&now.name.start)) else {
                continue;
            };
            let within = |of: &Option<Range<usize>>, hole: &Range<usize>| {
                of.as_ref().is_some_and(|of| of.start < hole.end && of.end > hole.start)
            };
            let changed = within(&old.of, &self.old) && within(&now.of, &self.new);
            let text = |of: &Option<Range<usize>>, source: &[u8]| {
                of.clone().map(|of| rules::text(source, of).into_owned())
            };
            if !changed && text(&old.of, self.before.source) != text(&now.of, after.source) {
                let reason = format!(
                    "the constant {} would have another value: it repeats the expression of one before it; give it \
                     one of its own first",
                    rules::text(after.source, now.name.clone())
                );
                return Err(self.refuse(line_of(after.source, now.name.start), reason, false));
            }
        }
        Ok(())
    }

    /// Symbols outside the change are what and where they were: nothing was closed early, nothing swallowed.
    fn same_outside(&self, symbols: &[Symbol], after: &Parsed<'_>) -> Result<(), Refusal> {
        let outside = |at: usize, hole: &Range<usize>| at < hole.start || at >= hole.end;
        let was = self.symbols.iter().filter(|symbol| outside(symbol.name_at.start, &self.old));
        let was = was.map(|symbol| {
            let around = around(self.symbols, symbol, &self.old, |at| self.moved(at));
            (symbol.kind, &symbol.name, around, self.moved(symbol.name_at.start))
        });
        let now = symbols.iter().filter(|symbol| outside(symbol.name_at.start, &self.new));
        let now = now.map(|symbol| {
            (symbol.kind, &symbol.name, around(symbols, symbol, &self.new, |at| at), symbol.name_at.start)
        });
        let (was, now): (Vec<_>, Vec<_>) = (was.collect(), now.collect());
        let Some(first) = (0..was.len().max(now.len())).find(|at| was.get(*at) != now.get(*at)) else {
            return Ok(());
        };
        let (at, reason) = match (was.get(first), now.get(first)) {
            (Some(was), Some(now)) if was.1 == now.1 => {
                (now.3, format!("{} would belong to something else", was.1))
            }
            (Some(was), _) => (was.3, format!("{} would no longer be what it is", was.1)),
            (None, Some(now)) => (now.3, format!("{} would appear outside of it", now.1)),
            (None, None) => return Ok(()),
        };
        Err(self.refuse(line_of(after.source, at), format!("{reason}; {NOT_CLOSED}"), false))
    }
}

/// What a symbol belongs to: where that is, since it may have got another name, or else what it is called.
fn around<'s>(
    all: &'s [Symbol],
    symbol: &'s Symbol,
    hole: &Range<usize>,
    place: impl Fn(usize) -> usize,
) -> (Option<usize>, Option<&'s str>) {
    let container = symbol.container.and_then(|at| all.get(at));
    let at = container.map(|it| {
        let named = it.body.as_ref().filter(|_| hole.contains(&it.name_at.start));
        place(named.map_or(it.name_at.start, |body| body.end))
    });
    let derived = container.is_some_and(|it| it.path() == *symbol.owner);
    (at, (!derived).then_some(&*symbol.owner))
}

/// The line of a place, from 1.
pub(crate) fn line_of(source: &[u8], at: usize) -> usize {
    memchr::memchr_iter(b'\n', source.get(..at).unwrap_or(source)).count() + 1
}

/// The grammar takes any indentation where Python does not: statements of a block begin in one column.
fn crooked(parsed: &Parsed<'_>, within: &Range<usize>) -> Option<usize> {
    let mut found = None;
    parsed.visit(|node| {
        if found.is_some() || node.end_byte() < within.start || node.start_byte() > within.end {
            return false;
        }
        // what is decorated stands where its decorators do
        if matches!(node.kind(), "module" | "block" | "decorated_definition") {
            let (mut column, mut row) = ((node.kind() == "module").then_some(0), None);
            let mut cursor = node.walk();
            for child in node.named_children(&mut cursor) {
                let start = child.start_position();
                let first = row.is_none_or(|row| start.row > row);
                row = Some(child.end_position().row);
                if child.kind() == "comment" || !first {
                    continue;
                }
                // a byte-order mark takes up columns of the first line
                let mark = if start.row == 0 && parsed.source.starts_with(b"\xEF\xBB\xBF") { 3 } else { 0 };
                let here = start.column.saturating_sub(mark);
                let expected = *column.get_or_insert(here);
                // also where something was taken away before it
                let touched = child.start_byte() >= within.start
                    && child.start_byte() - start.column.min(child.start_byte()) <= within.end;
                if here != expected && touched {
                    found = Some(start.row + 1);
                    break;
                }
            }
        }
        true
    });
    found
}
