//! The statements of scripts: where no semicolon stands, one may go on in the next line.

use std::ops::Range;

use tree_sitter::Node;

use crate::language::Language;
use crate::parse::{Parsed, Reader};

/// A statement, or a member of a class or an interface.
pub(crate) struct Statement {
    kind: u16,
    /// Without the semicolon, which may stand behind another one tomorrow.
    at: Range<usize>,
}

/// What a statement is and where, as far as it is not in a hole: its kind and beginning, and its end.
pub(crate) type Placed = (Option<(usize, u16)>, Option<usize>);

impl Statement {
    /// Nothing for a statement that is all in the hole.
    pub(crate) fn placed(&self, hole: &Range<usize>, moved: impl Fn(usize) -> usize) -> Option<Placed> {
        let Range { start, end } = self.at;
        let end = match end {
            _ if end <= hole.start => Some(end),
            _ if end > hole.end => Some(moved(end)),
            _ => None,
        };
        if hole.contains(&start) {
            return end.is_some().then_some((None, end));
        }
        Some((Some((moved(start), self.kind)), end))
    }
}

/// All statements of a file, those in functions too.
pub(crate) fn all(parsed: &Parsed<'_>) -> Vec<Statement> {
    let mut found = Vec::new();
    parsed.visit(|node| {
        if holds_statements(node.kind()) {
            let mut cursor = node.walk();
            let inside = node.named_children(&mut cursor).filter(|child| !is_nothing(child.kind()));
            found.extend(inside.map(|child| Statement {
                kind: child.kind_id(),
                at: child.start_byte()..end_of_code(child),
            }));
        }
        true
    });
    found
}

fn holds_statements(kind: &str) -> bool {
    matches!(
        kind,
        "program"
            | "statement_block"
            | "class_body"
            | "interface_body"
            | "object_type"
            | "switch_case"
            | "switch_default"
    )
}

fn is_nothing(kind: &str) -> bool {
    matches!(kind, ";" | "comment" | "empty_statement")
}

/// Where a statement ends without its semicolon and the comments before that.
fn end_of_code(mut node: Node<'_>) -> usize {
    loop {
        let mut cursor = node.walk();
        let last = node.children(&mut cursor).filter(|child| !is_nothing(child.kind())).last();
        match last {
            Some(last) => node = last,
            None => return node.end_byte(),
        }
    }
}

/// Whether what begins so may go on the line before.
pub(crate) fn goes_on(text: &[u8]) -> bool {
    matches!(text.first(), Some(b'(' | b'[' | b'`' | b'+' | b'-' | b'*' | b'/' | b',' | b'.' | b'<'))
}

/// A text with a semicolon behind its last statement, if that takes one and has none. What is `around` it makes it a
/// file.
pub(crate) fn closed(language: Language, text: &str, around: (&str, &str)) -> Option<String> {
    let whole = [around.0, text, around.1].concat();
    let parsed = Reader::default().parse(language, whole.as_bytes())?;
    let root = parsed.tree.root_node();
    if root.has_error() {
        return None;
    }
    let body = match around.0.is_empty() {
        true => root,
        false => root.named_child(0)?.child_by_field_name("body")?,
    };
    let mut cursor = body.walk();
    let last = body.named_children(&mut cursor).filter(|child| !is_nothing(child.kind())).last()?;
    let end = end_of_code(last) - around.0.len();
    let (head, tail) = (text.get(..end)?, text.get(end..)?);
    (takes_semicolon(last) && !tail.trim_start().starts_with(';')).then(|| format!("{head};{tail}"))
}

fn takes_semicolon(node: Node<'_>) -> bool {
    match node.kind() {
        "lexical_declaration"
        | "variable_declaration"
        | "type_alias_declaration"
        | "field_definition"
        | "public_field_definition"
        | "property_signature"
        | "method_signature"
        | "abstract_method_signature"
        | "function_signature"
        | "import_statement" => true,
        "expression_statement" => node.named_child(0).is_some_and(|child| child.kind() != "internal_module"),
        "export_statement" | "ambient_declaration" => {
            let value = node.child_by_field_name("value");
            let named = |value: Node<'_>| !matches!(value.kind(), "function_expression" | "class");
            let declaration = node.child_by_field_name("declaration");
            let declaration = declaration.or_else(|| node.named_child(0));
            value.map_or_else(|| declaration.is_some_and(takes_semicolon), named)
        }
        _ => false,
    }
}
