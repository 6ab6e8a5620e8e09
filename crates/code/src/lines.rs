//! The lines of Python: the grammar lets a statement go on in the next line wherever more must come, the language only
//! between brackets and behind a backslash.

use tree_sitter::Node;

/// Goes through the nodes of a file, parents first.
#[derive(Default)]
pub(crate) struct Lines {
    /// Where the last token ends, and in which row.
    last: (usize, usize),
    /// Brackets that are open.
    depth: usize,
    /// Where something begins that may begin a line.
    begins: usize,
    /// Where the text ends that it is in.
    text: usize,
}

impl Lines {
    /// Whether a token stands in a line that the one before it does not go on in.
    pub(crate) fn is_cut_off(&mut self, node: Node<'_>, source: &[u8]) -> bool {
        let (kind, at) = (node.kind(), node.byte_range());
        let begins = ["_statement", "_clause", "_definition"].iter().any(|end| kind.ends_with(end));
        if begins || matches!(kind, "decorator" | "comment") {
            self.begins = at.start;
        }
        let text = kind == "string";
        if at.start < self.text
            || at.is_empty()
            || kind == "line_continuation"
            || !text && node.child_count() > 0
        {
            return false;
        }
        let gap = source.get(self.last.0..at.start).unwrap_or_default();
        let (row, begun) = (node.start_position().row, self.begins == at.start);
        let cut_off = row > self.last.1 && self.depth == 0 && !begun && !gap.contains(&b'\\');
        match kind {
            "(" | "[" | "{" => self.depth += 1,
            ")" | "]" | "}" => self.depth = self.depth.saturating_sub(1),
            "string" => self.text = at.end,
            _ => {}
        }
        self.last = (at.end, node.end_position().row);
        cut_off
    }
}
