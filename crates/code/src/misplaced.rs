//! What the grammars of Go and Rust take in places where the languages do not: they are made for fragments, too.

use tree_sitter::Node;

use crate::language::Language;

/// Whether there may be something misplaced in a node, or deeper in it.
pub(crate) fn may_be_in(language: Language, node: Node<'_>) -> bool {
    match language {
        Language::Go => node.kind() == "source_file",
        Language::Rust => {
            matches!(
                node.kind(),
                "source_file" | "mod_item" | "impl_item" | "trait_item" | "declaration_list"
            )
        }
        _ => false,
    }
}

/// What does not belong where it is, with the reason; nothing of a node that does not parse.
pub(crate) fn inside<'t>(language: Language, node: Node<'t>) -> Vec<(Node<'t>, &'static str)> {
    if !may_be_in(language, node) || node.has_error() {
        return Vec::new();
    }
    match language {
        Language::Go => go(node),
        _ => rust(node),
    }
}

fn go(file: Node<'_>) -> Vec<(Node<'_>, &'static str)> {
    let (mut begun, mut declared) = (false, false);
    let mut wrong = |node: &Node<'_>| {
        let before = (std::mem::replace(&mut begun, true), declared);
        match (node.kind(), before) {
            ("package_clause", (true, _)) => Some("a second `package` clause: leave it out"),
            ("package_clause", _) => None,
            ("import_declaration", (_, true)) => {
                Some("`import` behind other declarations: put it where the other imports are, with Edit")
            }
            ("import_declaration", _) => None,
            (
                "function_declaration"
                | "method_declaration"
                | "type_declaration"
                | "const_declaration"
                | "var_declaration",
                _,
            ) => {
                declared = true;
                None
            }
            ("empty_statement", _) => None,
            _ => Some("a statement outside of functions"),
        }
    };
    let mut cursor = file.walk();
    let parts = file.named_children(&mut cursor).filter(|part| !part.is_extra());
    parts.filter_map(|part| wrong(&part).map(|reason| (part, reason))).collect()
}

fn rust(node: Node<'_>) -> Vec<(Node<'_>, &'static str)> {
    let parent = node.parent().map(|parent| parent.kind());
    let members = match (node.kind(), parent) {
        ("source_file", _) | ("declaration_list", Some("mod_item")) => false,
        ("declaration_list", Some("impl_item" | "trait_item")) => true,
        _ => return Vec::new(),
    };
    let wrong = |node: &Node<'_>| match node.kind() {
        "let_declaration" => Some("`let` outside of functions"),
        "expression_statement" => {
            // a macro may stand anywhere
            let call = node.named_child(0).is_some_and(|inner| inner.kind() == "macro_invocation");
            (!call).then_some("a statement outside of functions")
        }
        "function_item"
        | "function_signature_item"
        | "const_item"
        | "type_item"
        | "associated_type"
        | "macro_invocation"
        | "empty_statement"
        | "attribute_item"
        | "inner_attribute_item" => None,
        _ if !members => None,
        "impl_item" | "trait_item" => {
            Some("a block of methods in another one: give what is in it without the block around it")
        }
        _ => Some("something in a block of methods that is no method, constant or type of it"),
    };
    let mut cursor = node.walk();
    let parts = node.named_children(&mut cursor).filter(|part| !part.is_extra());
    parts.filter_map(|part| wrong(&part).map(|reason| (part, reason))).collect()
}
