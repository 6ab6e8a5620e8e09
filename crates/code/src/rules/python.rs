//! Python.

use std::ops::Range;

use tree_sitter::Node;

use super::{Draft, Scope, Visit};
use crate::outline::Kind;

/// Names that one statement assigns to: more are a table.
const NAMES: usize = 64;

pub(super) fn visit<'t>(node: Node<'t>, scope: &Scope<'_>) -> Visit<'t> {
    match node.kind() {
        "comment" | "decorator" => Visit::Prefix,
        "decorated_definition" => Visit::WRAP,
        "function_definition" => {
            let kind = if scope.within == Some(Kind::Class) { Kind::Method } else { Kind::Function };
            definition(kind, node, scope)
        }
        "class_definition" => definition(Kind::Class, node, scope),
        "module" | "block" | "if_statement" | "elif_clause" | "else_clause" | "try_statement"
        | "except_clause" | "finally_clause" | "with_statement" => Visit::Descend,
        "expression_statement" if !scope.local => match node.named_child(0).map(|child| child.kind()) {
            Some("assignment") => Visit::WRAP,
            _ => scope.unknown(node),
        },
        "assignment" if !scope.local => assignment(node, scope),
        "type_alias_statement" if !scope.local => {
            // `Pair` of `type Pair[T] = …`
            let mut name = node.child_by_field_name("left");
            while let Some(inner) = name.and_then(|name| name.named_child(0)) {
                name = Some(inner);
            }
            Draft { name, ..Draft::new(Kind::Type, node) }.visit()
        }
        _ => scope.unknown(node),
    }
}

/// `a = 1`, `a = b = 1`, `a, b = 1, 2`: all of the names, unless what is assigned to is none.
fn assignment<'t>(node: Node<'t>, scope: &Scope<'_>) -> Visit<'t> {
    // the inner ones of a chain are part of the first
    if node.parent().is_some_and(|parent| parent.kind() == "assignment") {
        return scope.unknown(node);
    }
    let (mut names, mut at) = (Vec::new(), Some(node));
    while let Some(one) = at.filter(|_| names.len() < NAMES) {
        let Some(left) = one.child_by_field_name("left") else { break };
        let mut cursor = left.walk();
        let listed = matches!(left.kind(), "pattern_list" | "tuple_pattern" | "list_pattern");
        let parts = left.named_children(&mut cursor).filter(|_| listed);
        names.extend(parts.chain([left]).filter(|part| part.kind() == "identifier").take(NAMES));
        at = one.child_by_field_name("right").filter(|right| right.kind() == "assignment");
    }
    if names.is_empty() {
        return scope.unknown(node);
    }
    let first = names.remove(0);
    let name = scope.text(first);
    let constant = name.chars().any(char::is_uppercase) && !name.chars().any(char::is_lowercase);
    let kind = if constant { Kind::Constant } else { Kind::Variable };
    Draft { name: Some(first), others: names, ..Draft::new(kind, node) }.visit()
}

fn definition<'t>(kind: Kind, node: Node<'t>, scope: &Scope<'_>) -> Visit<'t> {
    let draft = Draft::new(kind, node);
    let mut cursor = node.walk();
    // the last one: a lambda among the defaults is deeper, a return type has none
    let colon = node.children(&mut cursor).filter(|child| child.kind() == ":").last();
    let (Some(colon), Some(body)) = (colon, node.child_by_field_name("body")) else { return draft.visit() };
    let body = region(scope.source, colon.end_byte(), body);
    Draft { signature_end: colon.end_byte(), body: Some(body), block: true, ..draft }.visit()
}

/// A body from the beginning of its first line, comments before the first statement included.
fn region(source: &[u8], colon: usize, body: Node<'_>) -> Range<usize> {
    let behind = source.get(colon..body.start_byte()).unwrap_or_default();
    let start = match memchr::memchr(b'\n', behind) {
        Some(newline) => colon + newline + 1,
        None => body.start_byte(),
    };
    start..body.end_byte().max(start)
}
