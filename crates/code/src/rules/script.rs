//! TypeScript and JavaScript, with or without JSX.

use tree_sitter::Node;

use super::{Draft, Scope, Visit};
use crate::outline::Kind;

/// What a class may stand in that it has its name from.
const HOLDERS: [&str; 3] = ["export_statement", "variable_declarator", "assignment_expression"];

pub(super) fn visit<'t>(node: Node<'t>, scope: &Scope<'_>) -> Visit<'t> {
    match node.kind() {
        "comment" | "decorator" => Visit::Prefix,
        "program" | "class_body" | "interface_body" | "enum_body" | "object" | "internal_module_body" => {
            Visit::Descend
        }
        "export_statement" => export(node),
        "ambient_declaration" => Visit::WRAP,
        "expression_statement" => match node.named_child(0).map(|child| child.kind()) {
            Some("internal_module" | "assignment_expression") => Visit::WRAP,
            _ => scope.unknown(node),
        },
        "lexical_declaration" | "variable_declaration" => {
            Visit::Wrap { alias: None, several: declarators(node) > 1 }
        }
        "variable_declarator" => variable(node, scope),
        "assignment_expression" => assignment(node, scope),
        "pair" => pair(node, scope),
        "function_declaration" | "generator_function_declaration" => Draft::new(Kind::Function, node).visit(),
        "function_signature" => without_semicolon(Kind::Function, node, true),
        "class_declaration" | "abstract_class_declaration" => Draft::new(Kind::Class, node).visit(),
        "class" if HOLDERS.iter().any(|holder| is_in(node, holder)) => Visit::Descend,
        // `{ … } as const`
        "as_expression" | "satisfies_expression" if object_in(Some(node)).is_some() => Visit::Descend,
        "interface_declaration" => Draft::new(Kind::Interface, node).visit(),
        "enum_declaration" => Draft::new(Kind::Enum, node).visit(),
        "enum_assignment" => with_semicolon(Draft::new(Kind::Constant, node)),
        "property_identifier" if scope.within == Some(Kind::Enum) && is_in(node, "enum_body") => {
            with_semicolon(Draft { name: Some(node), ..Draft::new(Kind::Constant, node) })
        }
        "type_alias_declaration" => Draft::new(Kind::Type, node).visit(),
        "internal_module" | "module" => {
            let name = node.child_by_field_name("name");
            let called = name.map(|name| unquoted(&scope.text(name)));
            Draft { called, ..Draft::new(Kind::Module, node) }.visit()
        }
        // a namespace's body is a block as a function's is
        "statement_block" if scope.within == Some(Kind::Module) => Visit::Descend,
        // `declare global { … }`
        "statement_block" if is_global(node, scope) => Visit::Descend,
        "method_definition" => with_semicolon(Draft::new(Kind::Method, node)),
        "method_signature" => {
            let overload = scope.within == Some(Kind::Class);
            with_semicolon(Draft { overload, ..Draft::new(Kind::Method, node) })
        }
        "abstract_method_signature" => with_semicolon(Draft::new(Kind::Method, node)),
        "public_field_definition" | "field_definition" => field(node),
        "property_signature" => with_semicolon(Draft::new(Kind::Variable, node)),
        _ => scope.unknown(node),
    }
}

fn is_in(node: Node<'_>, kind: &str) -> bool {
    node.parent().is_some_and(|parent| parent.kind() == kind)
}

/// Whether a block is that of `declare global`; to ask each for its parent takes long where they are deep.
fn is_global(node: Node<'_>, scope: &Scope<'_>) -> bool {
    let before = scope.source.get(..node.start_byte()).unwrap_or_default();
    before.trim_ascii_end().ends_with(b"global") && is_in(node, "ambient_declaration")
}

fn declarators(node: Node<'_>) -> usize {
    let mut cursor = node.walk();
    node.named_children(&mut cursor).filter(|child| child.kind() == "variable_declarator").count()
}

fn export(node: Node<'_>) -> Visit<'_> {
    let mut cursor = node.walk();
    let default = node.children(&mut cursor).any(|child| child.kind() == "default");
    let value = node.child_by_field_name("value");
    if let Some(function) = value.filter(|_| default).and_then(function_in) {
        // `export default memo(function Button() {})` goes by both names
        let name = function.child_by_field_name("name");
        let called = name.is_none().then(|| "default".to_owned());
        let draft = Draft { name, called, alias: Some("default"), ..Draft::new(Kind::Function, node) };
        return holding(draft, function).visit();
    }
    // a class without a name goes by what it is exported as
    if let Some(class) = value.filter(|value| default && value.kind() == "class")
        && class.child_by_field_name("name").is_none()
        && let Some(body) = class.child_by_field_name("body")
    {
        let draft = Draft { called: Some("default".to_owned()), ..Draft::new(Kind::Class, node) };
        return Draft { body: Some(body.byte_range()), signature_end: body.start_byte(), ..draft }.visit();
    }
    Visit::Wrap { alias: default.then_some("default"), several: false }
}

fn unquoted(text: &str) -> String {
    text.trim_matches(['"', '\'', '`']).to_owned()
}

/// The function that an expression is, or that it hands to another function, as `memo(() => …)` does.
fn function_in(mut node: Node<'_>) -> Option<Node<'_>> {
    for _ in 0..4 {
        node = match node.kind() {
            "arrow_function" | "function_expression" | "generator_function" => return Some(node),
            "parenthesized_expression" | "as_expression" | "satisfies_expression" => node.named_child(0)?,
            "call_expression" => node.child_by_field_name("arguments")?.named_child(0)?,
            _ => return None,
        };
    }
    None
}

/// A symbol whose body is that of the function it holds.
fn holding<'t>(draft: Draft<'t>, function: Node<'t>) -> Draft<'t> {
    let Some(body) = function.child_by_field_name("body") else { return draft };
    let block = body.kind() == "statement_block";
    let value = Some(function.start_byte());
    Draft { body: Some(body.byte_range()), block, signature_end: body.start_byte(), value, ..draft }
}

fn variable<'t>(node: Node<'t>, scope: &Scope<'_>) -> Visit<'t> {
    let named = node.child_by_field_name("name").is_some_and(|name| name.kind() == "identifier");
    let value = node.child_by_field_name("value");
    match value.and_then(function_in) {
        Some(function) if named => holding(Draft::new(Kind::Function, node), function).visit(),
        _ if named && value.is_some_and(|value| value.kind() == "class") => {
            having_class(Draft::new(Kind::Class, node), value).visit()
        }
        _ if named && !scope.local => {
            let draft = Draft::new(Kind::Variable, node);
            match object_in(value) {
                Some(object) => Draft { signature_end: object.start_byte(), ..draft }.visit(),
                None => draft.visit(),
            }
        }
        _ => scope.unknown(node),
    }
}

/// A symbol that has the members of a class without being its declaration.
fn having_class<'t>(draft: Draft<'t>, class: Option<Node<'t>>) -> Draft<'t> {
    let Some(body) = class.and_then(|class| class.child_by_field_name("body")) else { return draft };
    Draft { body: Some(body.byte_range()), signature_end: body.start_byte(), ..draft }
}

/// The object that an expression is, whatever type it is said to have.
fn object_in(value: Option<Node<'_>>) -> Option<Node<'_>> {
    let mut node = value?;
    for _ in 0..4 {
        match node.kind() {
            "object" => return Some(node),
            "as_expression" | "satisfies_expression" => node = node.named_child(0)?,
            _ => return None,
        }
    }
    None
}

/// `exports.f = function () {}`, `A.prototype.f = () => {}`, `module.exports = class A {}`, `module.exports = { f() {} }`.
fn assignment<'t>(node: Node<'t>, scope: &Scope<'_>) -> Visit<'t> {
    let value = node.child_by_field_name("right");
    let left = node.child_by_field_name("left").filter(|left| left.kind() == "member_expression");
    let Some(left) = left else { return scope.unknown(node) };
    let object = left.child_by_field_name("object").map(|object| scope.text(object).into_owned());
    let object = object.unwrap_or_default();
    let property = left.child_by_field_name("property");
    if let Some(class) = value.filter(|value| value.kind() == "class") {
        let draft = Draft { name: property, owner: Some(object), ..Draft::new(Kind::Class, node) };
        return having_class(exported(draft, class), Some(class)).visit();
    }
    let Some(function) = value.and_then(function_in) else {
        return if object_in(value).is_some() { Visit::Descend } else { scope.unknown(node) };
    };
    let owner = object.trim_end_matches(".prototype").to_owned();
    let kind = if object.ends_with(".prototype") || object == "this" { Kind::Method } else { Kind::Function };
    let draft = Draft { name: property, owner: Some(owner), ..Draft::new(kind, node) };
    holding(exported(draft, function), function).visit()
}

/// What is all that a module is goes by the name it has itself, if it has one, and by that of the module's exports.
fn exported<'t>(draft: Draft<'t>, value: Node<'t>) -> Draft<'t> {
    match value.child_by_field_name("name") {
        Some(name) if draft.owner.as_deref() == Some("module") => {
            Draft { name: Some(name), owner: Some(String::new()), alias: Some("exports"), ..draft }
        }
        _ => draft,
    }
}

fn pair<'t>(node: Node<'t>, scope: &Scope<'_>) -> Visit<'t> {
    let value = node.child_by_field_name("value");
    let Some(function) = value.and_then(function_in) else {
        return if object_in(value).is_some() { Visit::Descend } else { scope.unknown(node) };
    };
    let key = node.child_by_field_name("key").filter(|key| key.kind() != "computed_property_name");
    let called = key.map(|key| unquoted(&scope.text(key)));
    holding(Draft { name: key, called, ..Draft::new(Kind::Method, node) }, function).visit()
}

fn field(node: Node<'_>) -> Visit<'_> {
    let name = node.child_by_field_name("name").or_else(|| node.child_by_field_name("property"));
    let function = node.child_by_field_name("value").and_then(function_in);
    let kind = if function.is_some() { Kind::Method } else { Kind::Variable };
    let draft = Draft { name, ..Draft::new(kind, node) };
    with_semicolon(match function {
        Some(function) => holding(draft, function),
        None => draft,
    })
}

/// In classes and interfaces the semicolon is no part of the node.
fn with_semicolon(draft: Draft<'_>) -> Visit<'_> {
    Draft { closed_behind: true, ..draft }.visit()
}

fn without_semicolon(kind: Kind, node: Node<'_>, overload: bool) -> Visit<'_> {
    let draft = Draft::new(kind, node);
    let closed = node.child(node.child_count().saturating_sub(1)).is_some_and(|last| last.kind() == ";");
    Draft { overload, signature_end: draft.signature_end - usize::from(closed), ..draft }.visit()
}
