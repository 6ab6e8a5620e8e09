//! What the grammars take and the languages do not.

use std::collections::HashSet;

use tree_sitter::Node;

use crate::language::Language;
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

type Found = Option<(Sort, String)>;

/// Looks at the nodes of a file, parents first.
pub(crate) struct Strict<'s> {
    language: Language,
    source: &'s [u8],
    /// Where the functions end that it is in.
    function: usize,
}

impl<'s> Strict<'s> {
    pub(crate) fn new(language: Language, source: &'s [u8]) -> Self {
        Self { language, source, function: 0 }
    }

    /// Whether there is anything to look for.
    pub(crate) fn looks(&self) -> bool {
        self.language == Language::Python || self.language.is_script()
    }

    /// What the language has against a node that the grammar takes.
    pub(crate) fn look(&mut self, node: Node<'_>) -> Found {
        if !self.looks() || !node.is_named() {
            return None;
        }
        let kind = node.kind();
        if matches!(
            kind,
            "function_declaration"
                | "function_expression"
                | "generator_function"
                | "generator_function_declaration"
                | "arrow_function"
                | "method_definition"
        ) {
            self.function = self.function.max(node.end_byte());
        }
        // what is wrong in it says more
        if node.has_error() {
            return None;
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
            _ => None,
        }
    }

    /// Constants without a value are only announced, which declarations of types do outside of functions.
    fn constant(&self, node: Node<'_>) -> Found {
        let is_constant = node.child(0).is_some_and(|word| word.kind() == "const");
        let announces = self.language != Language::JavaScript && node.start_byte() >= self.function;
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
        for part in parts(node) {
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
                "dictionary_splat_pattern" => inner.named_child(0),
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
