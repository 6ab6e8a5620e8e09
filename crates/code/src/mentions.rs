//! Where a name stands in Rust that is no code to the parser and still means it: in examples and links of documentation,
//! in texts that macros put values into.

use crate::{Language, Parsed};

/// A place that mentions a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mention {
    /// Where.
    pub at: usize,
    /// Whether an example has it: code of its own, which knows no variables from around.
    pub example: bool,
}

impl Parsed<'_> {
    /// Where documentation has a name as code, and texts in macros have it in braces: `{name}`. Only in Rust.
    #[must_use]
    pub fn mentions(&self, name: &str) -> Vec<Mention> {
        let mut found = Vec::new();
        if self.language != Language::Rust || name.is_empty() {
            return found;
        }
        let (mut fenced, mut last) = (false, 0);
        self.visit(|node| {
            let text = self.source.get(node.byte_range()).and_then(|text| std::str::from_utf8(text).ok());
            let (start, text) = (node.start_byte(), text.unwrap_or_default());
            match node.kind() {
                "doc_comment" => {
                    // A line of its own each, as a rule: what is further away is another one's documentation.
                    fenced &= node.start_position().row <= last + 1;
                    last = node.end_position().row;
                    in_documentation(text, start, name, &mut fenced, &mut found);
                }
                "string_literal" | "raw_string_literal"
                    if node.parent().is_some_and(|parent| parent.kind() == "token_tree") =>
                {
                    let put_in = words(text, name).filter(|at| is_put_in(text, *at, name.len()));
                    found.extend(put_in.map(|at| Mention { at: start + at, example: false }));
                }
                _ => {}
            }
            true
        });
        found
    }
}

/// Finds a name in a piece of documentation; `fenced` is whether an example goes on there.
fn in_documentation(text: &str, start: usize, name: &str, fenced: &mut bool, found: &mut Vec<Mention>) {
    let mut from = start;
    for line in text.split_inclusive('\n') {
        if line.trim_start_matches([' ', '*']).starts_with("```") {
            *fenced = !*fenced;
        } else {
            let code = words(line, name).filter(|at| *fenced || is_code(line, *at, name.len()));
            found.extend(code.map(|at| Mention { at: from + at, example: *fenced }));
        }
        from += line.len();
    }
}

/// Where a text has a name as a whole word.
fn words<'t>(text: &'t str, name: &'t str) -> impl Iterator<Item = usize> + 't {
    let inner = |c: char| c.is_alphanumeric() || c == '_';
    let whole =
        move |at: &usize| !text[..*at].ends_with(inner) && !text[at + name.len()..].starts_with(inner);
    text.match_indices(name).map(|(at, _)| at).filter(whole)
}

/// Whether a word in a line of prose is in backticks or the name in a link, `[name]`.
fn is_code(line: &str, at: usize, length: usize) -> bool {
    let (before, behind) = (&line[..at], &line[at + length..]);
    let ticks = before.matches('`').count() % 2 == 1 && behind.contains('`');
    let open = before.rfind(['[', ']', ' ']).is_some_and(|at| before[at..].starts_with('['));
    let close = behind.find(['[', ']', ' ']).is_some_and(|at| behind[at..].starts_with(']'));
    ticks || (open && close)
}

/// Whether a word in a text stands for a value: `{name}`, `{name:?}`, `{:name$}`.
fn is_put_in(text: &str, at: usize, length: usize) -> bool {
    let (before, behind) = (&text[..at], &text[at + length..]);
    let braces = before.len() - before.trim_end_matches('{').len();
    (braces % 2 == 1 && behind.starts_with(['}', ':'])) || behind.starts_with('$')
}

#[cfg(test)]
mod tests {
    use crate::{Language, Reader};

    #[test]
    fn only_what_means_the_name_mentions_it() {
        let source = "//! The add of `add(1)`, see [add], [to add](x) and [`r::add`].\n\n/// ```\n/// add(2);\n/// ```\n/// An add.\nfn add() {\n    // `add`\n    say!(\"{add} {add:?} {{add}} {:add$} add {x}\", \"add\");\n    let _ = \"{add}\";\n}\n/** ```\n * add(3)\n * ``` */\nfn other() {}\n";
        let mut reader = Reader::default();
        let parsed = reader.parse(Language::Rust, source.as_bytes()).unwrap();
        let found = parsed.mentions("add");
        let around = |at: usize| (&source[at - 1..at + 4], source[..at].lines().count());
        let found: Vec<_> = found.iter().map(|it| (around(it.at), it.example)).collect();
        let expected = [
            (("`add(", 1), false),
            (("[add]", 1), false),
            ((":add`", 1), false),
            ((" add(", 4), true),
            (("{add}", 9), false),
            (("{add:", 9), false),
            ((":add$", 9), false),
            ((" add(", 13), true),
        ];
        assert_eq!(found, expected);
        let parsed = reader.parse(Language::Go, b"package a // `add`\n").unwrap();
        assert!(parsed.mentions("add").is_empty());
    }
}
