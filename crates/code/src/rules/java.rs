//! Java.

use tree_sitter::Node;

use super::{Draft, Scope, Visit};
use crate::outline::Kind;

pub(super) fn visit<'t>(node: Node<'t>, scope: &Scope<'_>) -> Visit<'t> {
    let kind = match node.kind() {
        "line_comment" | "block_comment" => return Visit::Prefix,
        "program"
        | "class_body"
        | "interface_body"
        | "enum_body"
        | "enum_body_declarations"
        | "annotation_type_body" => return Visit::Descend,
        "class_declaration" | "record_declaration" => Kind::Class,
        "interface_declaration" | "annotation_type_declaration" => Kind::Interface,
        "enum_declaration" => Kind::Enum,
        "enum_constant" => Kind::Constant,
        "method_declaration" | "constructor_declaration" | "compact_constructor_declaration" => Kind::Method,
        "field_declaration" | "constant_declaration" => {
            let mut cursor = node.walk();
            let declared = node.children_by_field_name("declarator", &mut cursor);
            let mut names = declared.filter_map(|it| it.child_by_field_name("name"));
            let name = names.next();
            return Draft { name, others: names.collect(), ..Draft::new(Kind::Variable, node) }.visit();
        }
        _ => return scope.unknown(node),
    };
    Draft::new(kind, node).visit()
}
