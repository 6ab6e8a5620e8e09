//! What the nodes of each language's tree mean: one file per language.

mod c;
pub(crate) mod go;
mod java;
mod python;
mod rust;
mod script;

use std::borrow::Cow;
use std::ops::Range;

use tree_sitter::Node;

use crate::language::Language;
use crate::outline::Kind;

/// What to do with a node.
pub(crate) enum Visit<'t> {
    /// Neither it nor what is in it matters.
    Skip,
    /// Look at what is in it.
    Descend,
    /// It belongs to what comes after it: a comment, an attribute, a decorator.
    Prefix,
    /// It belongs to the declaration in it, as `export` does.
    Wrap {
        /// What the declaration is called besides.
        alias: Option<&'static str>,
        /// Whether there are several declarations in it.
        several: bool,
    },
    /// It is a symbol.
    Symbol(Draft<'t>),
}

/// A symbol in the making.
pub(crate) struct Draft<'t> {
    pub(crate) kind: Kind,
    pub(crate) name: Option<Node<'t>>,
    /// More names that the same declaration gives, as in `var a, b = 1, 2`.
    pub(crate) others: Vec<Node<'t>>,
    /// The name, when it is not the text of [`Self::name`].
    pub(crate) called: Option<String>,
    /// Another name it goes by, of its own and not of what it is wrapped in.
    pub(crate) alias: Option<&'static str>,
    /// The owner, when it is not what stands around it.
    pub(crate) owner: Option<String>,
    pub(crate) of_trait: Option<String>,
    pub(crate) body: Option<Range<usize>>,
    pub(crate) block: bool,
    pub(crate) signature_end: usize,
    pub(crate) overload: bool,
    /// Where the function begins that it holds.
    pub(crate) value: Option<usize>,
    /// Whether a semicolon right behind the node is part of it.
    pub(crate) closed_behind: bool,
}

impl<'t> Draft<'t> {
    /// A symbol that `node` declares: its name and body are in the fields of these names.
    pub(crate) fn new(kind: Kind, node: Node<'t>) -> Self {
        let body = node.child_by_field_name("body");
        Self {
            kind,
            name: node.child_by_field_name("name"),
            others: Vec::new(),
            called: None,
            alias: None,
            owner: None,
            of_trait: None,
            body: body.map(|body| body.byte_range()),
            block: body.is_some_and(|body| is_block(body.kind())),
            signature_end: body.map_or(node.end_byte(), |body| body.start_byte()),
            overload: false,
            value: None,
            closed_behind: false,
        }
    }

    /// The same as what to do; nothing when it has no name.
    pub(crate) fn visit(self) -> Visit<'t> {
        if self.name.is_some() || self.called.is_some() { Visit::Symbol(self) } else { Visit::Descend }
    }
}

impl Visit<'_> {
    /// It belongs to the one declaration in it and gives it no other name.
    pub(crate) const WRAP: Self = Self::Wrap { alias: None, several: false };
}

fn is_block(kind: &str) -> bool {
    matches!(kind, "block" | "statement_block" | "compound_statement" | "constructor_body")
}

/// Where a node stands.
pub(crate) struct Scope<'s> {
    pub(crate) source: &'s [u8],
    /// Bodies of functions are looked into.
    pub(crate) nested: bool,
    /// This is in one.
    pub(crate) local: bool,
    /// What it is in.
    pub(crate) within: Option<Kind>,
}

impl Scope<'_> {
    /// What is not known is looked into when everything is.
    pub(crate) fn unknown<'t>(&self, node: Node<'t>) -> Visit<'t> {
        if self.nested || node.is_error() { Visit::Descend } else { Visit::Skip }
    }

    fn text(&self, node: Node<'_>) -> Cow<'_, str> {
        text(self.source, node.byte_range())
    }
}

pub(crate) fn text(source: &[u8], at: Range<usize>) -> Cow<'_, str> {
    String::from_utf8_lossy(source.get(at).unwrap_or_default())
}

pub(crate) fn visit<'t>(language: Language, node: Node<'t>, scope: &Scope<'_>) -> Visit<'t> {
    if !node.is_named() {
        return Visit::Skip;
    }
    match language {
        Language::Go => go::visit(node, scope),
        Language::Rust => rust::visit(node, scope),
        Language::TypeScript | Language::Tsx | Language::JavaScript => script::visit(node, scope),
        Language::Python => python::visit(node, scope),
        Language::Java => java::visit(node, scope),
        Language::C => c::visit(node, scope),
    }
}
