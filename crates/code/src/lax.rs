//! What the grammars take and the languages do not.

use tree_sitter::Node;

use crate::language::Language;

/// How a file is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    /// The grammar makes nothing of it.
    Broken,
    /// The grammar takes it, the language does not.
    Rule,
}

/// Looks at the nodes of a file, parents first.
pub(crate) struct Strict {
    language: Language,
}

impl Strict {
    pub(crate) fn new(language: Language) -> Self {
        Self { language }
    }

    /// Whether there is anything to look for.
    pub(crate) fn looks(&self) -> bool {
        self.language == Language::Python || self.language.is_script()
    }

    /// What the language has against a node that the grammar takes.
    pub(crate) fn look(&mut self, node: Node<'_>) -> Option<(Sort, String)> {
        // what is wrong in it says more
        if !node.is_named() || node.has_error() {
            return None;
        }
        let reason = if self.language.is_script() { script(node)? } else { return None };
        Some((Sort::Rule, reason))
    }
}

fn script(node: Node<'_>) -> Option<String> {
    match node.kind() {
        // where a statement may stand a brace begins a block; only what is wrong as one is taken for an object, and a
        // label that goes nowhere
        "arrow_function" => {
            node.child_by_field_name("body").filter(|body| body.kind() == "object")?;
            Some("`=> {` begins a block, not an object; an object needs parentheses: `=> ({ … })`".to_owned())
        }
        "expression_statement" => {
            let object = node.named_child(0).filter(|child| child.kind() == "object")?;
            let labelled = object.named_child_count() == 1 && object.named_child(0)?.kind() == "pair";
            let reason = "a `{` at the beginning of a statement begins a block, not an object";
            (!labelled).then(|| reason.to_owned())
        }
        _ => None,
    }
}
