//! C.

use tree_sitter::Node;

use super::{Draft, Scope, Visit};
use crate::outline::Kind;

pub(super) fn visit<'t>(node: Node<'t>, scope: &Scope<'_>) -> Visit<'t> {
    match node.kind() {
        "comment" => Visit::Prefix,
        "translation_unit"
        | "preproc_ifdef"
        | "preproc_if"
        | "preproc_else"
        | "preproc_elif"
        | "linkage_specification"
        | "declaration_list"
        | "enumerator_list" => Visit::Descend,
        "function_definition" => Draft { name: declared(node), ..Draft::new(Kind::Function, node) }.visit(),
        "struct_specifier" | "union_specifier" => shape(Kind::Struct, node, scope),
        "enum_specifier" => shape(Kind::Enum, node, scope),
        "enumerator" => Draft::new(Kind::Constant, node).visit(),
        "type_definition" => Draft { name: declared(node), ..Draft::new(Kind::Type, node) }.visit(),
        "preproc_def" | "preproc_function_def" => {
            let draft = Draft::new(Kind::Macro, node);
            let value = node.child_by_field_name("value");
            Draft { signature_end: value.map_or(draft.signature_end, |value| value.start_byte()), ..draft }
                .visit()
        }
        // prototypes are what a header is read for
        "declaration" if !scope.local => match node.child_by_field_name("declarator") {
            Some(it) if has_parameters(it) => {
                Draft { name: declared(node), ..Draft::new(Kind::Function, node) }.visit()
            }
            Some(it) => variable(node, it),
            None => Visit::Skip,
        },
        _ => scope.unknown(node),
    }
}

/// A variable, as far as the value that it may begin with, or all that one declaration declares.
fn variable<'t>(node: Node<'t>, first: Node<'t>) -> Visit<'t> {
    let mut cursor = node.walk();
    let more = node.children_by_field_name("declarator", &mut cursor).skip(1);
    let others: Vec<Node<'t>> = more.filter(|it| !has_parameters(*it)).filter_map(bottom).collect();
    let value = first.child_by_field_name("value").filter(|_| others.is_empty());
    let draft = Draft { name: declared(node), others, ..Draft::new(Kind::Variable, node) };
    Draft { signature_end: value.map_or(draft.signature_end, |value| value.start_byte()), ..draft }.visit()
}

/// A struct, union or enum that is defined here, not just named.
fn shape<'t>(kind: Kind, node: Node<'t>, scope: &Scope<'_>) -> Visit<'t> {
    if node.child_by_field_name("body").is_none() {
        return scope.unknown(node);
    }
    Draft::new(kind, node).visit()
}

/// The identifier at the bottom of the declarators.
fn declared(node: Node<'_>) -> Option<Node<'_>> {
    bottom(node.child_by_field_name("declarator")?)
}

fn bottom(mut at: Node<'_>) -> Option<Node<'_>> {
    for _ in 0..64 {
        match at.child_by_field_name("declarator").or_else(|| inside(at)) {
            Some(inner) => at = inner,
            None => return at.kind().ends_with("identifier").then_some(at),
        }
    }
    None
}

fn inside(node: Node<'_>) -> Option<Node<'_>> {
    (node.kind() == "parenthesized_declarator").then(|| node.named_child(0)).flatten()
}

fn has_parameters(mut node: Node<'_>) -> bool {
    for _ in 0..64 {
        if node.kind() == "function_declarator" {
            return true;
        }
        match node.child_by_field_name("declarator") {
            Some(inner) => node = inner,
            None => return false,
        }
    }
    false
}
