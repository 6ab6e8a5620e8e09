//! What the grammars take and the languages do not.

use std::collections::HashSet;

use tree_sitter::Node;

use crate::language::Language;
use crate::lines::Lines;
use crate::rules::text;

/// How a file is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    /// The grammar makes nothing of it.
    Broken,
    /// The grammar takes it, the language does not.
    Rule,
    /// The language took it when it was Python 2.
    Old,
}

/// Words of JavaScript that are never names of values, in order; `export default function ();` without a body is taken
/// for one that is.
const RESERVED: [&str; 32] = [
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "debugger",
    "default",
    "delete",
    "do",
    "else",
    "enum",
    "extends",
    "false",
    "finally",
    "for",
    "function",
    "if",
    "in",
    "instanceof",
    "new",
    "null",
    "return",
    "switch",
    "throw",
    "true",
    "try",
    "typeof",
    "var",
    "void",
    "while",
    "with",
];

type Found = Option<(Sort, String)>;

/// Looks at the nodes of a file, parents first.
pub(crate) struct Strict<'s> {
    language: Language,
    source: &'s [u8],
    /// The functions that it is in, innermost last: where each ends, and whether there may be an `await` in it.
    functions: Vec<(usize, bool)>,
    lines: Lines,
}

impl<'s> Strict<'s> {
    pub(crate) fn new(language: Language, source: &'s [u8]) -> Self {
        Self { language, source, functions: Vec::new(), lines: Lines::default() }
    }

    /// Whether there is anything to look for.
    pub(crate) fn looks(&self) -> bool {
        self.language == Language::Python || self.language.is_script()
    }

    /// What the language has against a node that the grammar takes.
    pub(crate) fn look(&mut self, node: Node<'_>) -> Found {
        if self.language == Language::Python && self.lines.is_cut_off(node, self.source) {
            return rule("it goes on with the line before, which only brackets or a `\\` at its end allow");
        }
        if !self.looks() || !node.is_named() {
            return None;
        }
        let kind = node.kind();
        while self.functions.pop_if(|(end, _)| *end <= node.start_byte()).is_some() {}
        if matches!(
            kind,
            "function_declaration"
                | "function_expression"
                | "generator_function"
                | "generator_function_declaration"
                | "arrow_function"
                | "method_definition"
                | "function_definition"
                | "lambda"
        ) {
            self.functions.push((node.end_byte(), has(node, "async")));
        }
        // what it is made of is waited for by those who take from it
        if kind == "generator_expression" {
            self.functions.push((node.end_byte(), true));
        }
        // what is wrong in it says more
        if node.has_error() {
            return None;
        }
        let waits = match kind {
            "await_expression" | "await" => true,
            // `for await (…)`, `async with …:`
            "for_in_statement" => has(node, "await"),
            "with_statement" | "for_statement" | "for_in_clause" => has(node, "async"),
            _ => false,
        };
        if waits && self.functions.last().is_some_and(|(_, may_wait)| !may_wait) {
            return rule("`await` or the like in a function that is not `async`: make that `async` first");
        }
        if self.language == Language::Python { self.python(node, kind) } else { self.script(node, kind) }
    }

    fn script(&self, node: Node<'_>, kind: &str) -> Found {
        match kind {
            // where a statement may stand a brace begins a block; only what is wrong as one is taken for an object, and
            // a label that goes nowhere
            "arrow_function" => {
                node.child_by_field_name("body").filter(|body| body.kind() == "object")?;
                rule("`=> {` begins a block, not an object; an object needs parentheses: `=> ({ … })`")
            }
            "expression_statement"
                if matches!(node.named_child(0)?.kind(), "function_expression" | "generator_function") =>
            {
                rule("a function without a name as a statement")
            }
            "expression_statement" => {
                let object = node.named_child(0).filter(|child| child.kind() == "object")?;
                let labelled = object.named_child_count() == 1 && object.named_child(0)?.kind() == "pair";
                if labelled {
                    return None;
                }
                rule("a `{` at the beginning of a statement begins a block, not an object")
            }
            "formal_parameters" => {
                let is_rest = |node: &Node<'_>| {
                    let pattern = node.child_by_field_name("pattern");
                    pattern.unwrap_or(*node).kind() == "rest_pattern"
                };
                let parts = parts(node);
                let early = parts.split_last().is_some_and(|(_, before)| before.iter().any(is_rest));
                if early { rule("a parameter behind `...`, which takes all the rest") } else { None }
            }
            "lexical_declaration" => self.constant(node),
            "import_statement" | "export_statement" if !self.functions.is_empty() => {
                rule("`import` and `export` stand outside of functions")
            }
            "try_statement" => {
                let handled = |name| node.child_by_field_name(name).is_some();
                if handled("handler") || handled("finalizer") {
                    return None;
                }
                rule("`try` without `catch` or `finally`")
            }
            "identifier" | "statement_identifier" if self.language != Language::JavaScript => {
                self.reserved(node)
            }
            "export_statement" => {
                let around = node.parent().map(|parent| parent.kind()).unwrap_or_default();
                let typed = matches!(around, "interface_body" | "object_type");
                if typed { rule("`export` among the members of a type") } else { None }
            }
            "arguments" | "object" => {
                let mut cursor = node.walk();
                let mut last = "";
                let empty = node.children(&mut cursor).filter(|part| !part.is_extra()).any(|part| {
                    let before = std::mem::replace(&mut last, part.kind());
                    part.kind() == "," && matches!(before, "," | "(" | "{")
                });
                if empty { rule("there is nothing before a `,`") } else { None }
            }
            // a text cannot be called
            "call_expression" => {
                let is_text = |name| {
                    node.child_by_field_name(name).is_some_and(|part| part.kind() == "template_string")
                };
                let texts = is_text("function") && is_text("arguments");
                if texts { rule("a text right behind a text; leave the ``` of Markdown out") } else { None }
            }
            _ => None,
        }
    }

    /// Words that are no names, where the grammar of TypeScript takes them for some: `=> return (x)`.
    fn reserved(&self, node: Node<'_>) -> Found {
        let word = text(self.source, node.byte_range());
        if RESERVED.binary_search(&&*word).is_err() {
            return None;
        }
        let around = node.parent();
        let parent = around.map(|parent| parent.kind()).unwrap_or_default();
        let name = ["import_specifier", "export_specifier", "namespace_export"].contains(&parent);
        // what the parts of a tuple are called: `[in: string, default?: number]`
        let tuple = || around.and_then(|parent| parent.parent()).is_some_and(|it| it.kind() == "tuple_type");
        if name || parent.starts_with("jsx_") || tuple() {
            return None;
        }
        rule(&format!("`{word}` where a value or a name belongs"))
    }

    /// Constants without a value are only announced, which declarations of types do outside of functions.
    fn constant(&self, node: Node<'_>) -> Found {
        let is_constant = node.child(0).is_some_and(|word| word.kind() == "const");
        let announces = self.language != Language::JavaScript && self.functions.is_empty();
        if !is_constant || announces {
            return None;
        }
        let empty = |part: &&Node<'_>| {
            part.kind() == "variable_declarator" && part.child_by_field_name("value").is_none()
        };
        let parts = parts(node);
        let name = parts.iter().find(empty)?.child_by_field_name("name")?;
        rule(&format!("the constant `{}` has no value", text(self.source, name.byte_range())))
    }

    fn python(&self, node: Node<'_>, kind: &str) -> Found {
        match kind {
            "try_statement" => {
                let handled = |part: &Node<'_>| {
                    matches!(part.kind(), "except_clause" | "except_group_clause" | "finally_clause")
                };
                if parts(node).iter().any(handled) {
                    return None;
                }
                rule("`try` without `except` or `finally`")
            }
            // `print >>f, x` is an expression of Python 3
            "print_statement" => {
                let chevron = parts(node).first().is_some_and(|part| part.kind() == "chevron");
                if chevron { None } else { old("`print` without parentheses") }
            }
            "exec_statement" => old("`exec` without parentheses"),
            "raise_statement" => {
                let listed = parts(node).first().is_some_and(|part| part.kind() == "expression_list");
                if listed { old("`raise` with several values; write `raise Error(…)`") } else { None }
            }
            "except_clause" => self.except(node),
            "parameters" | "lambda_parameters" => self.parameters(node),
            "argument_list" => {
                let mut named = false;
                for part in parts(node) {
                    match part.kind() {
                        "keyword_argument" | "dictionary_splat" => named = true,
                        "list_splat" => {}
                        _ if named => return rule("an argument without a name behind one that has a name"),
                        _ => {}
                    }
                }
                None
            }
            _ => None,
        }
    }

    /// `except A, e:`; newer Python takes several types without parentheses, so that the second must look like none.
    fn except(&self, node: Node<'_>) -> Found {
        const USUAL: [&str; 8] = ["e", "ex", "exc", "err", "exception", "inst", "msg", "why"];
        let mut cursor = node.walk();
        let mut values = node.children_by_field_name("value", &mut cursor).skip(1);
        let (Some(second), None) = (values.next(), values.next()) else { return None };
        let name = text(self.source, second.byte_range());
        if !USUAL.contains(&&*name) {
            return None;
        }
        old(&format!("`except …, {name}:`; write `except … as {name}:`"))
    }

    fn parameters(&self, node: Node<'_>) -> Found {
        let (mut default, mut starred, mut seen) = (false, false, HashSet::new());
        let mut last = false;
        for part in parts(node) {
            if last {
                return rule("a parameter behind `**`, which takes all the rest");
            }
            let typed = part.kind() == "typed_parameter";
            let inner = if typed { part.named_child(0)? } else { part };
            let name = match inner.kind() {
                "default_parameter" | "typed_default_parameter" => {
                    default = true;
                    inner.child_by_field_name("name")
                }
                "keyword_separator" => {
                    starred = true;
                    None
                }
                "list_splat_pattern" => {
                    starred = true;
                    inner.named_child(0)
                }
                "dictionary_splat_pattern" => {
                    last = true;
                    inner.named_child(0)
                }
                "identifier" if default && !starred => {
                    let name = text(self.source, inner.byte_range());
                    return rule(&format!("the parameter `{name}` has no default and follows one that has"));
                }
                "identifier" => Some(inner),
                _ => None,
            };
            let name = name.filter(|name| name.kind() == "identifier");
            if let Some(name) = name.map(|name| text(self.source, name.byte_range()))
                && !seen.insert(name.clone())
            {
                return rule(&format!("two parameters `{name}`"));
            }
        }
        None
    }
}

/// Whether a word is among the parts of a node.
fn has(node: Node<'_>, word: &str) -> bool {
    let mut cursor = node.walk();
    node.children(&mut cursor).any(|part| part.kind() == word)
}

fn rule(reason: &str) -> Found {
    Some((Sort::Rule, reason.to_owned()))
}

fn old(reason: &str) -> Found {
    Some((Sort::Old, format!("Python 2: {reason}")))
}

/// What is in a node, comments and continued lines aside.
fn parts(node: Node<'_>) -> Vec<Node<'_>> {
    let mut cursor = node.walk();
    node.named_children(&mut cursor).filter(|part| !part.is_extra()).collect()
}
