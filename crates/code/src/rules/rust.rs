//! Rust.

use tree_sitter::Node;

use super::{Draft, Scope, Visit};
use crate::outline::Kind;

pub(super) fn visit<'t>(node: Node<'t>, scope: &Scope<'_>) -> Visit<'t> {
    let kind = match node.kind() {
        "line_comment" | "block_comment" => {
            // what documents the thing around it belongs to nothing that comes after
            return if node.child_by_field_name("inner").is_some() { Visit::Skip } else { Visit::Prefix };
        }
        "attribute_item" => return Visit::Prefix,
        "source_file" | "declaration_list" | "foreign_mod_item" | "enum_variant_list" => {
            return Visit::Descend;
        }
        "enum_variant" => {
            let draft = Draft::new(Kind::Constant, node);
            let end = node.end_byte();
            return Draft { body: None, block: false, signature_end: end, closed_behind: true, ..draft }
                .visit();
        }
        "impl_item" => return implementation(node, scope),
        "function_item" | "function_signature_item" => match scope.within {
            Some(Kind::Impl | Kind::Trait) => Kind::Method,
            _ => Kind::Function,
        },
        "struct_item" | "union_item" => Kind::Struct,
        "enum_item" => Kind::Enum,
        "trait_item" => Kind::Trait,
        "mod_item" => Kind::Module,
        "const_item" | "static_item" => Kind::Constant,
        "type_item" | "associated_type" => Kind::Type,
        "macro_definition" => Kind::Macro,
        _ => return scope.unknown(node),
    };
    let draft = Draft::new(kind, node);
    let end = match node.kind() {
        "function_signature_item" | "mod_item" if draft.body.is_none() => node.end_byte().saturating_sub(1),
        // rules in a macro are its body
        "macro_definition" => draft.name.map_or(draft.signature_end, |name| name.end_byte()),
        _ => draft.signature_end,
    };
    Draft { signature_end: end, ..draft }.visit()
}

fn implementation<'t>(node: Node<'t>, scope: &Scope<'_>) -> Visit<'t> {
    let Some(name) = node.child_by_field_name("type") else { return Visit::Descend };
    let name = base(name);
    // `From<A>` and `From<B>` are two
    let of_trait = node.child_by_field_name("trait").map(|of| {
        let given = of.child_by_field_name("type_arguments").map(|given| scope.text(given));
        let plain: Vec<&str> = given.iter().flat_map(|given| given.split_whitespace()).collect();
        format!("{}{}", scope.text(base(of)), plain.join(" "))
    });
    Draft { name: Some(name), of_trait, ..Draft::new(Kind::Impl, node) }.visit()
}

/// `T` of `a::T<U>`, `&T` and the like.
fn base(mut node: Node<'_>) -> Node<'_> {
    for _ in 0..8 {
        let inner = match node.kind() {
            "generic_type" | "reference_type" | "pointer_type" => node.child_by_field_name("type"),
            "scoped_type_identifier" => node.child_by_field_name("name"),
            _ => None,
        };
        match inner {
            Some(inner) => node = inner,
            None => break,
        }
    }
    node
}
