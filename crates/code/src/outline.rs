//! Symbols, and the one walk that collects them for every language.

use std::ops::Range;
use std::sync::Arc;

use tree_sitter::Node;

use crate::indent;
use crate::language::Language;
use crate::parse::{Depth, Parsed};
use crate::rules::{self, Draft, Scope, Visit};

/// Symbols in symbols, and bytes of what one belongs to. What goes beyond was written to hurt: it is not collected.
const NESTING: usize = 64;
const OWNER: usize = 1024;
/// Beginnings of one declaration.
const STARTS: usize = 8;

/// What a symbol is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A function of its own.
    Function,
    /// A function of a type.
    Method,
    /// A class.
    Class,
    /// A struct or a union.
    Struct,
    /// An enumeration.
    Enum,
    /// An interface.
    Interface,
    /// A trait.
    Trait,
    /// A type with another's shape.
    Type,
    /// A module or a namespace.
    Module,
    /// A constant.
    Constant,
    /// A variable or an attribute of a class.
    Variable,
    /// A macro.
    Macro,
    /// The block that gives a type its methods.
    Impl,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Function,
        Self::Method,
        Self::Class,
        Self::Struct,
        Self::Enum,
        Self::Interface,
        Self::Trait,
        Self::Type,
        Self::Module,
        Self::Constant,
        Self::Variable,
        Self::Macro,
        Self::Impl,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Method => "method",
            Self::Class => "class",
            Self::Struct => "struct",
            Self::Enum => "enum",
            Self::Interface => "interface",
            Self::Trait => "trait",
            Self::Type => "type",
            Self::Module => "module",
            Self::Constant => "constant",
            Self::Variable => "variable",
            Self::Macro => "macro",
            Self::Impl => "impl",
        }
    }

    /// Whether it is a function or a method.
    #[must_use]
    pub fn is_callable(self) -> bool {
        matches!(self, Self::Function | Self::Method)
    }
}

/// Something that has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// What it is.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Another name it goes by: `default` for what a module exports so.
    pub alias: Option<&'static str>,
    /// What it belongs to, outermost first, joined by `.`; empty at the top.
    pub owner: Arc<str>,
    /// The trait whose implementation it belongs to.
    pub of_trait: Option<Arc<str>>,
    /// The symbol around it, as an index into the outline.
    pub container: Option<usize>,
    /// Everything of it, with doc comments, attributes, decorators and overloads.
    pub full: Range<usize>,
    /// Where its name stands; empty when it has none of its own.
    pub name_at: Range<usize>,
    /// From its first word to its body.
    pub signature: Range<usize>,
    /// Where its declaration begins, innermost first: without and with `export` and the like.
    pub starts: Vec<usize>,
    /// Where the function begins that it holds, as `const f = () => 1` does.
    pub value: Option<usize>,
    /// Its body, with braces where it has them.
    pub body: Option<Range<usize>>,
    /// Whether the body is a block of statements, not an expression.
    pub block: bool,
    /// Whether it lives in a function.
    pub local: bool,
    /// Whether it only announces a form of a function that comes after it.
    pub overload: bool,
    /// Whether one declaration gives this and other names.
    pub shared: bool,
    /// Whether it is one of several that commas part: of an object, of an enumeration.
    pub listed: bool,
    /// The line of its name, from 1.
    pub line: usize,
}

/// Something around a declaration that belongs to it, as `export` does.
#[derive(Clone)]
struct Outer {
    full: Range<usize>,
    starts: Vec<usize>,
    alias: Option<&'static str>,
    marks_overload: bool,
    /// Whether there are several declarations in it.
    several: bool,
}

/// One level of the walk.
#[derive(Default)]
struct Frame {
    container: Option<usize>,
    /// What its symbols belong to, and how deep that is.
    owner: Arc<str>,
    level: usize,
    local: bool,
    /// In an object a comma is no part of what is before it.
    object: bool,
    /// The symbol that a semicolon would be part of, were it next.
    unclosed: Option<usize>,
    outer: Option<Outer>,
    /// Comments and attributes that wait for what they belong to.
    run: Option<Run>,
    /// The last line of what came before.
    row: Option<usize>,
    /// The last line of a licence, which may go on in the next.
    licence: Option<usize>,
}

#[derive(Clone)]
struct Run {
    start: usize,
    row: usize,
    overload: bool,
}

pub(crate) fn collect(parsed: &Parsed<'_>, depth: Depth) -> Vec<Symbol> {
    let mut walk = Walk { parsed, depth, symbols: Vec::new() };
    let mut cursor = parsed.tree.walk();
    let mut frames = vec![Frame::default()];
    loop {
        let node = cursor.node();
        let below = frames.last_mut().and_then(|frame| walk.look(node, frame));
        if let Some(below) = below
            && cursor.goto_first_child()
        {
            frames.push(below);
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                let mut symbols = walk.symbols;
                join_overloads(parsed.source, &mut symbols);
                return symbols;
            }
            frames.pop();
        }
    }
}

struct Walk<'p, 's> {
    parsed: &'p Parsed<'s>,
    depth: Depth,
    symbols: Vec<Symbol>,
}

impl Walk<'_, '_> {
    /// Takes in one node; the frame for its children, when they are to be looked at.
    fn look(&mut self, node: Node<'_>, frame: &mut Frame) -> Option<Frame> {
        let scope = Scope {
            source: self.parsed.source,
            nested: self.depth == Depth::Everything,
            local: frame.local,
            within: frame.container.map(|at| self.symbols[at].kind),
        };
        if let Some(at) = frame.unclosed.take()
            && matches!(node.kind(), ";" | ",")
        {
            self.symbols[at].full.end = node.end_byte();
        }
        let visit = rules::visit(self.parsed.language, node, &scope);
        if matches!(visit, Visit::Prefix) {
            frame.extend_run(node, self.parsed.source);
            return None;
        }
        let run = frame.run.take().filter(|run| node.start_position().row <= run.row + 1);
        frame.row = Some(last_row(node));
        let full = run.as_ref().map_or(node.start_byte(), |run| run.start)..node.end_byte();
        let same = Frame {
            container: frame.container,
            owner: Arc::clone(&frame.owner),
            level: frame.level,
            local: frame.local,
            object: node.kind() == "object",
            // what is said above the first thing of a block is not in the block
            run: run.clone().filter(|_| self.parsed.language == Language::Python && node.kind() == "block"),
            ..Frame::default()
        };
        match visit {
            Visit::Prefix | Visit::Skip => None,
            Visit::Descend => Some(same),
            Visit::Wrap { alias, several } => {
                let outer = wrap(self.parsed.source, node, full, alias, run.as_ref(), frame.outer.take());
                let outer = Outer { several, ..outer };
                Some(Frame { outer: Some(outer), ..same })
            }
            Visit::Symbol(draft) => {
                let long = draft.owner.as_ref().map_or(frame.owner.len(), String::len) > OWNER;
                if long || frame.level >= NESTING {
                    frame.outer = None;
                    return None;
                }
                let overload = run.as_ref().is_some_and(|run| run.overload);
                let at = self.take(node, &draft, full, frame, overload);
                frame.unclosed = (draft.closed_behind && !frame.object).then_some(at);
                let callable = draft.kind.is_callable();
                let enter = self.depth == Depth::Everything || !callable;
                enter.then(|| Frame {
                    container: Some(at),
                    owner: self.symbols[at].path().into(),
                    level: frame.level + 1,
                    local: callable,
                    ..Frame::default()
                })
            }
        }
    }

    fn take(
        &mut self,
        node: Node<'_>,
        draft: &Draft<'_>,
        full: Range<usize>,
        frame: &mut Frame,
        overload: bool,
    ) -> usize {
        let source = self.parsed.source;
        let several = frame.outer.as_ref().is_some_and(|outer| outer.several);
        let outer = if several { frame.outer.clone() } else { frame.outer.take() };
        let start = after_decorators(node);
        let mut starts = vec![start];
        let mut all = full;
        let (mut alias, mut overload) = (draft.alias, overload || draft.overload);
        if let Some(outer) = outer {
            // what stands before several declarations is the signature of none
            if !several {
                starts.extend(outer.starts);
                starts.dedup();
            }
            all = outer.full.start.min(all.start)..outer.full.end.max(all.end);
            alias = alias.or(outer.alias);
            overload |= outer.marks_overload;
        }
        // a comment at the end of a Python block has the first half of its line end
        let body =
            draft.body.clone().map(|body| body.start..before_line_end(source, body.end).max(body.start));
        all.end = before_line_end(source, all.end);
        let unnamed = draft.value.unwrap_or(start);
        let name_at = draft.name.map_or(unnamed..unnamed, |name| name.byte_range());
        let name = match &draft.called {
            Some(called) => called.clone(),
            None => rules::text(source, name_at.clone()).into_owned(),
        };
        let container = frame.container.map(|at| &self.symbols[at]);
        let owner = draft.owner.as_deref().map_or_else(|| Arc::clone(&frame.owner), Arc::from);
        let own = draft.of_trait.as_deref().map(Arc::from);
        let of_trait = own.or_else(|| container.and_then(|it| it.of_trait.clone()));
        let head = starts.last().copied().unwrap_or(start);
        let end = draft.signature_end.max(head);
        let end = head + source[head..end].trim_ascii_end().len();
        let line = draft.name.unwrap_or(node).start_position().row + 1;
        self.symbols.push(Symbol {
            kind: draft.kind,
            name,
            alias,
            owner,
            of_trait,
            container: frame.container,
            full: all,
            name_at,
            signature: head..end,
            starts,
            value: draft.value,
            body,
            block: draft.block,
            local: frame.local,
            overload,
            shared: several || !draft.others.is_empty(),
            listed: frame.object || container.is_some_and(|it| it.kind == Kind::Enum),
            line,
        });
        let at = self.symbols.len() - 1;
        for other in &draft.others {
            let (name_at, line) = (other.byte_range(), other.start_position().row + 1);
            let name = rules::text(source, name_at.clone()).into_owned();
            let together = self.symbols[at].clone();
            self.symbols.push(Symbol { name, name_at, line, ..together });
        }
        at
    }
}

impl Symbol {
    /// Its owner and its name, joined by `.`.
    #[must_use]
    pub fn path(&self) -> String {
        if self.owner.is_empty() { self.name.clone() } else { format!("{}.{}", self.owner, self.name) }
    }
}

impl Frame {
    fn extend_run(&mut self, node: Node<'_>, source: &[u8]) {
        let row = node.start_position().row;
        let overload = rules::text(source, node.byte_range()).trim_end().ends_with("overload");
        // a comment behind something belongs to that
        if self.row == Some(row) {
            self.run = None;
            return;
        }
        if self.row.is_none() && self.is_header(node, source) {
            self.run = None;
            return;
        }
        let run = self.run.take().filter(|run| row <= run.row + 1);
        self.run = Some(Run {
            start: run.as_ref().map_or(node.start_byte(), |run| run.start),
            row: last_row(node),
            overload: overload || run.is_some_and(|run| run.overload),
        });
    }

    /// Whether a comment that nothing stands before speaks of the file, not of what comes after it.
    fn is_header(&mut self, node: Node<'_>, source: &[u8]) -> bool {
        if node.parent().is_none_or(|parent| parent.parent().is_some()) {
            return false;
        }
        let text = rules::text(source, node.byte_range());
        let row = node.start_position().row;
        let plain = text.starts_with('#') || text.starts_with("//") && !text.starts_with("///");
        let goes_on = plain && self.licence.is_some_and(|last| row == last + 1);
        if goes_on || is_licence(&text) {
            self.licence = Some(last_row(node));
            return true;
        }
        is_directive(&text)
    }
}

/// Whether a comment tells under which terms a file may be used.
fn is_licence(text: &str) -> bool {
    const SAYS: [&str; 6] = [
        "copyright",
        "licensed under",
        "all rights reserved",
        "permission is hereby granted",
        "license that can be found",
        "subject to the terms of",
    ];
    let head: String = text.chars().take(1000).flat_map(char::to_lowercase).collect();
    SAYS.iter().any(|words| head.contains(words))
}

/// Whether a comment tells a tool how to treat a file.
fn is_directive(text: &str) -> bool {
    const BEGINS: [&str; 22] = [
        "!/",
        "-*-",
        "vim:",
        "SPDX-",
        "@ts-check",
        "@ts-nocheck",
        "@flow",
        "@jsx",
        "@jest-environment",
        "@vitest-environment",
        "eslint-env",
        "eslint ",
        "tslint:disable",
        "go:build",
        "+build",
        "Code generated",
        "<reference",
        "pylint:",
        "mypy:",
        "ruff: noqa",
        "flake8: noqa",
        "istanbul ignore file",
    ];
    let said = text.trim_start_matches(['/', '*', '#', ' ']);
    let encoding = text.starts_with('#') && (text.contains("coding:") || text.contains("coding="));
    let lint = said.starts_with("eslint-disable") && !said.starts_with("eslint-disable-");
    encoding || lint || BEGINS.iter().any(|begin| said.starts_with(begin))
}

/// The line on which a node's text ends; a line end at its end does not count.
fn last_row(node: Node<'_>) -> usize {
    let end = node.end_position();
    if end.column == 0 && end.row > node.start_position().row { end.row - 1 } else { end.row }
}

fn before_line_end(source: &[u8], end: usize) -> usize {
    let split = end > 0 && source.get(end - 1..=end) == Some(b"\r\n");
    end - usize::from(split)
}

fn wrap(
    source: &[u8],
    node: Node<'_>,
    full: Range<usize>,
    alias: Option<&'static str>,
    run: Option<&Run>,
    outer: Option<Outer>,
) -> Outer {
    let start = after_decorators(node);
    // `decorated_definition` adds decorators, not a beginning of the declaration
    let mut starts = if node.kind() == "decorated_definition" { Vec::new() } else { vec![start] };
    let mut cursor = node.walk();
    let decorated = node
        .children(&mut cursor)
        .take_while(|child| child.kind() == "decorator")
        .any(|child| rules::text(source, child.byte_range()).ends_with("overload"));
    let marks_overload = decorated || run.is_some_and(|run| run.overload);
    let mut outermost = Outer { full, starts: Vec::new(), alias, marks_overload, several: false };
    if let Some(outer) = outer {
        starts.extend(outer.starts);
        outermost.full = outer.full.start.min(outermost.full.start)..outer.full.end.max(outermost.full.end);
        outermost.alias = alias.or(outer.alias);
        outermost.marks_overload |= outer.marks_overload;
    }
    starts.truncate(STARTS);
    outermost.starts = starts;
    outermost
}

/// Where a declaration begins behind its decorators.
fn after_decorators(node: Node<'_>) -> usize {
    let mut cursor = node.walk();
    let first = node.children(&mut cursor).find(|child| child.kind() != "decorator");
    first.map_or(node.start_byte(), |child| child.start_byte())
}

/// Forms of a function that stand right before it are part of it; forms without one stand for themselves.
fn join_overloads(source: &[u8], symbols: &mut [Symbol]) {
    let mut at = 0;
    while at < symbols.len() {
        let first = at;
        let same = |symbols: &[Symbol], at: usize| {
            let (a, b) = (&symbols[first], &symbols[at]);
            a.name == b.name && a.container == b.container && b.kind.is_callable()
        };
        while at < symbols.len() && symbols[at].overload && same(symbols, at) {
            at += 1;
        }
        if at == first {
            at += 1;
            continue;
        }
        if at < symbols.len() && same(symbols, at) {
            // forms under a condition stay where they are
            let indent = |symbol: &Symbol| indent::at(source, symbol.full.start);
            let beside = |form: &Symbol| indent(form) == indent(&symbols[at]);
            let apart =
                (first..at).rev().find(|form| !beside(&symbols[*form])).map_or(first, |form| form + 1);
            symbols[at].full.start = symbols[apart].full.start;
        } else {
            symbols[first..at].iter_mut().for_each(|form| form.overload = false);
        }
    }
}
