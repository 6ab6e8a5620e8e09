//! Parsing within bounds.

use std::ops::{ControlFlow, Range};
use std::time::{Duration, Instant};

use tree_sitter::{Node, ParseOptions, ParseState, Parser, Tree};

use crate::indent::{Hold, Text};
use crate::language::Language;
use crate::lax::{Sort, Strict};
use crate::misplaced;
use crate::outline::{self, Symbol};
use crate::skim;

/// Larger files are not parsed: what large files hold is tables.
pub const MAX_BYTES: usize = 4 << 20;

/// How long one file may take; a file of [`MAX_BYTES`] takes half a second.
const PATIENCE: Duration = Duration::from_secs(5);

/// How deep an outline goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Not into the bodies of functions.
    Items,
    /// Everywhere: functions in functions too.
    Everything,
}

/// Parses files, one after another.
#[derive(Default)]
pub struct Reader {
    parser: Parser,
    language: Option<Language>,
}

impl Reader {
    /// Parses a file; `None` when it is too large or takes too long.
    pub fn parse<'s>(&mut self, language: Language, source: &'s [u8]) -> Option<Parsed<'s>> {
        if source.len() > MAX_BYTES {
            return None;
        }
        if self.language != Some(language) {
            self.parser.set_language(&language.grammar()).ok()?;
            self.language = Some(language);
        }
        let end = Instant::now() + PATIENCE;
        let mut watch = |_: &ParseState| {
            if Instant::now() > end { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let options = ParseOptions::new().progress_callback(&mut watch);
        let read = &mut |at: usize, _| source.get(at..).unwrap_or_default();
        let tree = self.parser.parse_with_options(read, None, Some(options));
        if tree.is_none() {
            self.parser.reset();
        }
        Some(Parsed { tree: tree?, language, source })
    }

    /// The symbols of a file that are not in functions, sooner than by parsing all of it; `None` when it is too large
    /// or takes too long.
    pub fn items(&mut self, language: Language, source: &[u8]) -> Option<Vec<Symbol>> {
        if let Some(copy) = skim::without_bodies(language, source)
            && let Some(parsed) = self.parse(language, &copy)
            && !parsed.tree.root_node().has_error()
        {
            return Some(parsed.outline(Depth::Items));
        }
        Some(self.parse(language, source)?.outline(Depth::Items))
    }
}

/// The symbols of a file, in the order of the text; none when it cannot be parsed within bounds.
#[must_use]
pub fn outline(language: Language, source: &[u8], depth: Depth) -> Vec<Symbol> {
    Reader::default().parse(language, source).map(|parsed| parsed.outline(depth)).unwrap_or_default()
}

/// A parsed file.
pub struct Parsed<'s> {
    pub(crate) tree: Tree,
    pub(crate) language: Language,
    pub(crate) source: &'s [u8],
}

/// A place where a name is a variable's and that of what it is taken from at once: `{ name } = …`, `import { name } from`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Borrowed {
    /// The name.
    pub name: Range<usize>,
    /// Where the module is named that it is taken from, with its quotes; nothing for a property.
    pub module: Option<Range<usize>>,
}

/// A place where a file does not parse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub at: usize,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
    pub(crate) sort: Sort,
}

impl Parsed<'_> {
    /// The symbols, in the order of the text.
    #[must_use]
    pub fn outline(&self, depth: Depth) -> Vec<Symbol> {
        outline::collect(self, depth)
    }

    /// Where it does not parse, or is what the language does not take, in the order of the text.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut found = Vec::new();
        // the grammar takes blocks without anything in them
        let python = self.language == Language::Python;
        let mut strict = Strict::new(self.language, self.source);
        self.visit(|node| {
            if python && node.kind() == "block" && node.byte_range().is_empty() {
                found.push(problem(node, Sort::Broken, "nothing in a block".to_owned()));
            } else if node.is_missing() {
                found.push(problem(node, Sort::Broken, format!("missing {}", shown(node.kind()))));
            } else if node.is_error() {
                found.push(problem(node, Sort::Broken, self.unexpected(node)));
                return false;
            } else if node.has_error() && node.child_count() > 0 && hides_error(node) {
                let (part, reason) = self.unparted(node);
                found.push(problem(part, Sort::Broken, reason));
            } else if let Some((sort, reason)) = strict.look(node) {
                found.push(problem(node, sort, reason));
            }
            let misplaced = misplaced::inside(self.language, node).into_iter();
            found.extend(misplaced.map(|(part, reason)| problem(part, Sort::Rule, reason.to_owned())));
            strict.looks() || node.has_error() || misplaced::may_be_in(self.language, node)
        });
        found.sort_by_key(|problem| problem.at);
        found
    }

    /// The first line of which the grammar makes nothing: what is behind it may not be seen.
    pub(crate) fn broken(&self) -> Option<usize> {
        self.problems().iter().find(|problem| problem.sort == Sort::Broken).map(|problem| problem.line)
    }

    fn unexpected(&self, node: Node<'_>) -> String {
        // the innermost text that nothing could be made of says most
        let text = String::from_utf8_lossy(&self.source[node.byte_range()]);
        let text = text.lines().next().unwrap_or_default().trim();
        match text.char_indices().nth(40) {
            Some((end, _)) => format!("unexpected `{}…`", &text[..end]),
            None if text.is_empty() => "unexpected end of a line".to_owned(),
            None => format!("unexpected `{text}`"),
        }
    }

    /// Where the end of a line or the like is missing in a node, which is no node of its own.
    fn unparted<'t>(&self, node: Node<'t>) -> (Node<'t>, String) {
        let mut cursor = node.walk();
        let parts: Vec<Node<'t>> = node.named_children(&mut cursor).collect();
        let on_line = |pair: &&[Node<'t>]| {
            let between = self.source.get(pair[0].end_byte()..pair[1].start_byte());
            between.is_some_and(|between| between.iter().all(|byte| matches!(byte, b' ' | b'\t')))
        };
        match parts.windows(2).find(on_line) {
            Some(pair) => (pair[1], self.unexpected(pair[1])),
            None => (node, "the end of a line or the like is missing".to_owned()),
        }
    }

    /// Calls `look` on every node, parents first; what it says no to is not entered.
    pub(crate) fn visit(&self, mut look: impl FnMut(Node<'_>) -> bool) {
        let mut cursor = self.tree.walk();
        loop {
            if look(cursor.node()) && cursor.goto_first_child() {
                continue;
            }
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    return;
                }
            }
        }
    }

    /// What a Go file's package calls itself.
    pub(crate) fn package(&self) -> Option<&str> {
        let root = self.tree.root_node();
        let mut cursor = root.walk();
        let mut clauses = root.children(&mut cursor).filter(|child| child.kind() == "package_clause");
        let name = clauses.next().filter(|_| self.language == Language::Go)?.named_child(0)?;
        std::str::from_utf8(self.source.get(name.byte_range())?).ok()
    }

    /// Where a name stands in the code, not in its comments and texts: the first `most` places.
    #[must_use]
    pub fn uses(&self, name: &str, most: usize) -> Vec<usize> {
        let mut found = Vec::new();
        self.visit(|node| {
            let here = || self.source.get(node.byte_range()) == Some(name.as_bytes());
            if found.len() < most && node.child_count() == 0 && node.kind().contains("identifier") && here() {
                found.push(node.start_byte());
            }
            found.len() < most
        });
        found
    }

    /// Where an object is made with a name that is a property's and a variable's at once: `{ name }`.
    #[must_use]
    pub fn shorthands(&self) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        self.visit(|node| {
            if node.kind() == "shorthand_property_identifier" {
                found.push(node.byte_range());
            }
            true
        });
        found
    }

    /// Where a name is a variable's and that of what it is taken from at once.
    #[must_use]
    pub fn borrowed(&self) -> Vec<Borrowed> {
        let mut found = Vec::new();
        self.visit(|node| {
            let name = match node.kind() {
                "shorthand_property_identifier_pattern" => Some(node),
                "import_specifier" | "export_specifier" => {
                    node.child_by_field_name("name").filter(|_| node.child_by_field_name("alias").is_none())
                }
                _ => None,
            };
            // `export { a }` takes nothing from elsewhere.
            let source = || {
                std::iter::successors(Some(node), |it| it.parent())
                    .find_map(|it| it.child_by_field_name("source"))
            };
            match name {
                Some(name) if name == node => found.push(Borrowed { name: node.byte_range(), module: None }),
                Some(name) => {
                    found.extend(source().map(|source| Borrowed {
                        name: name.byte_range(),
                        module: Some(source.byte_range()),
                    }))
                }
                None => {}
            }
            true
        });
        found
    }

    /// Whether the name at a place is a property's alone.
    #[must_use]
    pub fn is_property(&self, at: usize) -> bool {
        let node = self.tree.root_node().named_descendant_for_byte_range(at, at);
        node.is_some_and(|node| matches!(node.kind(), "property_identifier" | "private_property_identifier"))
    }

    /// What a module of TypeScript or JavaScript gives to others under another name: both names in `export { a as b }`.
    #[must_use]
    pub fn given_names(&self) -> Vec<(Range<usize>, Range<usize>)> {
        let mut found = Vec::new();
        self.visit(|node| {
            let field = |name| node.child_by_field_name(name).filter(|_| node.kind() == "export_specifier");
            let both = field("name").zip(field("alias"));
            found.extend(both.map(|(name, alias)| (name.byte_range(), alias.byte_range())));
            true
        });
        found
    }

    /// Whether a place is in what a macro is given.
    #[must_use]
    pub fn in_macro(&self, at: usize) -> bool {
        let node = self.tree.root_node().named_descendant_for_byte_range(at, at);
        std::iter::successors(node, |it| it.parent()).any(|it| it.kind() == "token_tree")
    }

    /// Whether the name at a place in Python says which parameter a call's argument is for: `f(name=1)`.
    #[must_use]
    pub fn is_keyword(&self, at: usize) -> bool {
        let node = self.tree.root_node().named_descendant_for_byte_range(at, at);
        let parent = node.and_then(|node| node.parent()).filter(|it| it.kind() == "keyword_argument");
        parent.is_some_and(|parent| parent.child_by_field_name("name") == node)
    }

    /// Where a module of Python lists a name in `__all__`: the name in its quotes.
    #[must_use]
    pub fn listed(&self, name: &str) -> Vec<Range<usize>> {
        let text = |node: Node<'_>| self.source.get(node.byte_range()).unwrap_or_default();
        let (mut found, mut list) = (Vec::new(), 0..0);
        self.visit(|node| {
            let at = node.byte_range();
            if node.kind() == "expression_statement" && text(node).starts_with(b"__all__") {
                list = at.clone();
            }
            if node.kind() == "string_content" && list.contains(&at.start) && text(node) == name.as_bytes() {
                found.push(at);
            }
            true
        });
        found
    }

    /// Whether the name at a place is given to something of a module of Python there: declared, assigned or imported.
    #[must_use]
    pub fn binds(&self, at: usize) -> bool {
        let Some(mut node) = self.tree.root_node().named_descendant_for_byte_range(at, at) else {
            return false;
        };
        let mut bound = false;
        while let Some(parent) = node.parent() {
            let is = |field| parent.child_by_field_name(field) == Some(node);
            match parent.kind() {
                "function_definition" | "class_definition" if is("name") => bound = true,
                // Those are names of its own.
                "function_definition" | "class_definition" | "lambda" => return false,
                "assignment" => bound |= is("left"),
                "aliased_import" if is("name") => return false,
                "import_from_statement" if is("module_name") => return false,
                "import_from_statement" | "import_statement" => bound = true,
                _ => {}
            }
            node = parent;
        }
        bound
    }

    /// String literals and the like that reach over a line end, so that white space in them counts.
    pub(crate) fn long_strings(&self, within: &Range<usize>) -> Vec<Text> {
        let mut found = Vec::new();
        // a string that stands alone as a statement moves with the code
        let mut statement = 0..0;
        self.visit(|node| {
            let at = node.byte_range();
            if at.end < within.start || at.start > within.end {
                return false;
            }
            let lines = node.end_position().row > node.start_position().row;
            if node.kind() == "expression_statement" {
                statement = at.clone();
            }
            if lines && is_string(node.kind()) {
                let alone = node.kind() == "string" && at == statement;
                found.push(Text { at, hold: if alone { Hold::Along } else { Hold::Fixed } });
                return false;
            }
            lines
        });
        found
    }
}

/// Whether what is wrong with a node is none of the nodes in it.
fn hides_error(node: Node<'_>) -> bool {
    let mut cursor = node.walk();
    !node.children(&mut cursor).any(|part| part.has_error() || part.is_missing())
}

fn problem(node: Node<'_>, sort: Sort, reason: String) -> Problem {
    Problem { at: node.start_byte(), line: node.start_position().row + 1, reason, sort }
}

fn is_string(kind: &str) -> bool {
    matches!(
        kind,
        "raw_string_literal" | "string_literal" | "interpreted_string_literal" | "template_string" | "string"
    )
}

fn shown(kind: &str) -> String {
    if kind.chars().any(char::is_alphabetic) { kind.replace('_', " ") } else { format!("`{kind}`") }
}
