//! Go.

use std::ops::Range;

use tree_sitter::Node;

use super::{Draft, Scope, Visit};
use crate::outline::Kind;
use crate::parse::Parsed;

pub(super) fn visit<'t>(node: Node<'t>, scope: &Scope<'_>) -> Visit<'t> {
    match node.kind() {
        "comment" => Visit::Prefix,
        "source_file" | "interface_type" | "var_spec_list" => Visit::Descend,
        "function_declaration" => Draft::new(Kind::Function, node).visit(),
        "method_declaration" => {
            let owner = node.child_by_field_name("receiver").and_then(|list| receiver(list, scope));
            Draft { owner, ..Draft::new(Kind::Method, node) }.visit()
        }
        "method_elem" => Draft::new(Kind::Method, node).visit(),
        "type_declaration" | "const_declaration" | "var_declaration" if !scope.local => {
            let group = node.child(1).is_some_and(|child| matches!(child.kind(), "(" | "var_spec_list"));
            if group { Visit::Descend } else { Visit::WRAP }
        }
        "type_spec" | "type_alias" if !scope.local => {
            let shape = node.child_by_field_name("type");
            let kind = match shape.map(|shape| shape.kind()) {
                Some("struct_type") => Kind::Struct,
                Some("interface_type") => Kind::Interface,
                _ => Kind::Type,
            };
            let end = shape.filter(|_| kind != Kind::Type).and_then(|shape| {
                let mut cursor = shape.walk();
                let open =
                    shape.children(&mut cursor).find(|c| matches!(c.kind(), "{" | "field_declaration_list"));
                open.map(|open| open.start_byte())
            });
            let draft = Draft::new(kind, node);
            Draft { signature_end: end.unwrap_or(draft.signature_end), ..draft }.visit()
        }
        "const_spec" if !scope.local => {
            Draft { others: other_names(node), ..Draft::new(Kind::Constant, node) }.visit()
        }
        "var_spec" if !scope.local => variable(node),
        _ => scope.unknown(node),
    }
}

/// A variable, or a function that a variable holds.
fn variable(node: Node<'_>) -> Visit<'_> {
    let value = node.child_by_field_name("value").and_then(|list| list.named_child(0));
    let function = value.filter(|value| value.kind() == "func_literal");
    let body = function.and_then(|function| function.child_by_field_name("body"));
    let others = other_names(node);
    let body = body.filter(|_| others.is_empty());
    let draft = Draft { others, ..Draft::new(Kind::Variable, node) };
    match body {
        None => draft.visit(),
        Some(body) => Draft {
            kind: Kind::Function,
            body: Some(body.byte_range()),
            block: true,
            signature_end: body.start_byte(),
            value: function.map(|function| function.start_byte()),
            ..draft
        }
        .visit(),
    }
}

/// The names behind the first in `a, b = 1, 2`.
fn other_names(node: Node<'_>) -> Vec<Node<'_>> {
    let mut cursor = node.walk();
    let names = node.children_by_field_name("name", &mut cursor).filter(|name| name.kind() == "identifier");
    names.skip(1).collect()
}

/// The name of the type in `(t *T[K])`.
fn receiver(list: Node<'_>, scope: &Scope<'_>) -> Option<String> {
    let mut at = list.named_child(0)?.child_by_field_name("type")?;
    // `*T[K]` has two layers, `*(T)` no more than three
    for _ in 0..4 {
        at = match at.kind() {
            "generic_type" => at.child_by_field_name("type")?,
            "pointer_type" | "parenthesized_type" => at.named_child(0)?,
            _ => break,
        };
    }
    Some(scope.text(at).into_owned())
}

/// A constant without an expression of its own.
pub(crate) struct Repeat {
    /// Where its name stands.
    pub(crate) name: Range<usize>,
    /// The type and the expression that it repeats, those of a constant before it.
    pub(crate) of: Option<Range<usize>>,
}

/// The constants of a file that repeat what another has.
pub(crate) fn repeats(parsed: &Parsed<'_>) -> Vec<Repeat> {
    let mut found = Vec::new();
    parsed.visit(|node| {
        if node.kind() == "const_declaration" {
            let (mut of, mut cursor) = (None, node.walk());
            for spec in node.named_children(&mut cursor).filter(|child| child.kind() == "const_spec") {
                let name = spec.child_by_field_name("name").map(|name| name.byte_range());
                match (spec.child_by_field_name("value"), name) {
                    (Some(value), _) => {
                        let start = spec.child_by_field_name("type").unwrap_or(value).start_byte();
                        of = Some(start..value.end_byte());
                    }
                    (None, Some(name)) => found.push(Repeat { name, of: of.clone() }),
                    (None, None) => {}
                }
            }
        }
        true
    });
    found
}
