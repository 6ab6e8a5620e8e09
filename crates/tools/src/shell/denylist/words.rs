//! What a word of the shell comes to, as far as the text alone tells.

use std::{cell::Cell, collections::HashMap};

use tree_sitter::Node;

/// The text of a node.
pub(super) fn source<'a>(node: Node<'_>, text: &'a str) -> &'a str {
    text.get(node.byte_range()).unwrap_or("")
}

/// How deep words within words are followed.
const DEEPEST: usize = 32;

/// How many values of a loop's variable are followed.
const MOST_TURNS: usize = 256;

/// Reads the words of one text.
pub(super) struct Words<'a> {
    pub(super) text: &'a str,
    /// Variables that were given a literal value: `x=sudo; $x ls` is the plain case too.
    pub(super) variables: HashMap<String, Vec<String>>,
    /// Values that variables of loops take one after the other.
    loops: HashMap<String, Vec<String>>,
    /// Bytes that may still be written out, in this text and in all that it holds: variables that double each
    /// other would fill any memory.
    left: &'a Cell<usize>,
    gave_up: Cell<bool>,
}

impl<'a> Words<'a> {
    pub(super) fn new(text: &'a str, left: &'a Cell<usize>) -> Self {
        Self { text, variables: HashMap::new(), loops: HashMap::new(), left, gave_up: Cell::new(false) }
    }

    /// Whether something was too deep or too long to be followed.
    pub(super) fn gave_up(&self) -> bool {
        self.gave_up.get()
    }

    /// The words a node comes to: several for an array or for an unquoted variable that holds several.
    pub(super) fn resolve_all(&self, node: Node<'_>) -> Vec<String> {
        match node.kind() {
            "array" => {
                let mut cursor = node.walk();
                node.named_children(&mut cursor).map(|item| self.resolve(item)).collect()
            }
            "simple_expansion" | "expansion" => match self.values(node, 0) {
                Some(values) => {
                    let words = values.iter().flat_map(|value| value.split_whitespace());
                    words.map(|word| self.pay(word.to_owned())).collect()
                }
                None => vec![self.written(node)],
            },
            "string" if is_only_expansion(node) => {
                match self.values(node.named_child(0).unwrap_or(node), 0) {
                    Some(values) => values.iter().map(|value| self.pay(value.clone())).collect(),
                    None => vec![self.resolve(node)],
                }
            }
            _ => vec![self.resolve(node)],
        }
    }

    /// One word. What is not known stays as it was written, which no refused name looks like.
    pub(super) fn resolve(&self, node: Node<'_>) -> String {
        self.within(node, 0)
    }

    fn within(&self, node: Node<'_>, depth: usize) -> String {
        if depth > DEEPEST || self.left.get() == 0 {
            self.gave_up.set(true);
            return String::new();
        }
        let written = source(node, self.text);
        match node.kind() {
            "word" | "number" | "variable_name" => self.pay(unescape(written)),
            "raw_string" => self.pay(written.trim_matches('\'').to_owned()),
            "ansi_c_string" => self.pay(ansi_c(written.trim_start_matches('$').trim_matches('\''))),
            "string" | "concatenation" | "translated_string" => self.join(node, depth),
            "simple_expansion" | "expansion" => match self.values(node, depth) {
                Some(values) => self.pay(values.join(" ")),
                None => self.written(node),
            },
            "command_substitution" => self.printed(node, depth).unwrap_or_else(|| self.written(node)),
            _ => self.written(node),
        }
    }

    fn written(&self, node: Node<'_>) -> String {
        self.pay(source(node, self.text).to_owned())
    }

    fn values(&self, node: Node<'_>, depth: usize) -> Option<Vec<String>> {
        let Some(name) = variable(node, self.text) else { return self.otherwise(node, depth) };
        self.variables.get(name).cloned()
    }

    /// `${x:-word}` and its like: the value when one is known, else the word.
    fn otherwise(&self, node: Node<'_>, depth: usize) -> Option<Vec<String>> {
        let inner = source(node, self.text).strip_prefix("${")?;
        let name: String = inner.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        let operator = inner.get(name.len()..)?.trim_start_matches(':').chars().next()?;
        if name.is_empty() || !matches!(operator, '-' | '=' | '+') {
            return None;
        }
        let known = self.variables.get(&name).filter(|values| values.iter().any(|value| !value.is_empty()));
        if let Some(values) = known.filter(|_| operator != '+') {
            return Some(values.clone());
        }
        let mut cursor = node.walk();
        let words = node.named_children(&mut cursor).skip(1);
        Some(vec![words.map(|word| self.within(word, depth + 1)).collect()])
    }

    /// Keeps what a variable of a loop becomes.
    pub(super) fn take_in_turn(&mut self, name: String, mut values: Vec<String>) {
        if values.len() > MOST_TURNS {
            self.gave_up.set(true);
            values.truncate(MOST_TURNS);
        }
        self.loops.insert(name, values);
    }

    /// The variables of loops that a node names.
    pub(super) fn loops_in(&self, node: Node<'_>) -> Option<(String, Vec<String>)> {
        let written = source(node, self.text);
        let named = |name: &str| {
            let mut words = written.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            written.contains('$') && words.any(|word| word == name)
        };
        self.loops.iter().find(|(name, _)| named(name)).map(|(name, all)| (name.clone(), all.clone()))
    }

    /// Counts what was written out, and keeps none of it once there is too much.
    fn pay(&self, word: String) -> String {
        match self.left.get().checked_sub(word.len()) {
            Some(left) => {
                self.left.set(left);
                word
            }
            None => {
                self.left.set(0);
                self.gave_up.set(true);
                String::new()
            }
        }
    }

    /// The children of a string or a concatenation, with the text between them, which the grammar leaves out.
    fn join(&self, node: Node<'_>, depth: usize) -> String {
        let string = node.kind() == "string";
        let range = node.byte_range();
        let (mut at, end) =
            if string { (range.start + 1, range.end.saturating_sub(1)) } else { (range.start, range.end) };
        let one_word = !source(node, self.text).contains(char::is_whitespace);
        let mut out = String::new();
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor) {
            out.push_str(self.text.get(at..child.start_byte()).unwrap_or(""));
            match child.kind() {
                "string_content" => out.push_str(&unescape_quoted(source(child, self.text))),
                // A variable of which nothing is known is most often not set.
                "simple_expansion" | "expansion" if one_word && self.values(child, depth + 1).is_none() => {}
                _ => out.push_str(&self.within(child, depth + 1)),
            }
            at = child.end_byte();
        }
        out.push_str(self.text.get(at..end.max(at)).unwrap_or(""));
        self.pay(out)
    }

    /// What `$(which x)` and its like print.
    fn printed(&self, node: Node<'_>, depth: usize) -> Option<String> {
        let command = node.named_child(0).filter(|command| command.kind() == "command")?;
        let name = command.child_by_field_name("name")?;
        if !matches!(source(name, self.text), "which" | "command" | "type" | "echo" | "printf") {
            return None;
        }
        let last = command.named_child(u32::try_from(command.named_child_count()).ok()?.checked_sub(1)?)?;
        (last.id() != name.id()).then(|| self.within(last, depth + 1))
    }
}

fn is_only_expansion(node: Node<'_>) -> bool {
    node.named_child_count() == 1
        && node.named_child(0).is_some_and(|child| matches!(child.kind(), "expansion" | "simple_expansion"))
}

/// The variable of `$x`, `${x}` or `${x[@]}`; nothing for expansions that do more.
fn variable<'a>(node: Node<'_>, text: &'a str) -> Option<&'a str> {
    let inner = source(node, text).strip_prefix('$')?;
    let inner = inner.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(inner);
    let inner = inner.strip_suffix("[@]").or_else(|| inner.strip_suffix("[*]")).unwrap_or(inner);
    inner.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_').then_some(inner)
}

fn unescape(word: &str) -> String {
    let mut out = String::new();
    let mut chars = word.chars();
    while let Some(c) = chars.next() {
        out.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    out
}

/// Within double quotes a backslash counts before few characters only.
fn unescape_quoted(word: &str) -> String {
    let mut out = String::new();
    let mut chars = word.chars().peekable();
    while let Some(c) = chars.next() {
        match chars.peek() {
            Some('"' | '\\' | '$' | '`') if c == '\\' => {}
            _ => out.push(c),
        }
        if c == '\\' {
            out.extend(chars.next());
        }
    }
    out
}

/// `$'…'`: the escapes that can spell a name.
fn ansi_c(word: &str) -> String {
    let mut out = String::new();
    let mut rest = word;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let Some(kind) = rest.chars().next() else { break };
        let (digits, radix, most) = match kind {
            'x' => (&rest[1..], 16, 2),
            'u' => (&rest[1..], 16, 4),
            'U' => (&rest[1..], 16, 8),
            '0'..='7' => (rest, 8, 3),
            _ => (rest, 0, 0),
        };
        let length = digits.chars().take(most).take_while(|c| c.is_digit(radix.max(2))).count();
        match u32::from_str_radix(&digits[..length], radix.max(2)).ok().and_then(char::from_u32) {
            Some(c) if length > 0 => {
                out.push(c);
                rest = &digits[length..];
            }
            _ => {
                out.push(match kind {
                    'n' => '\n',
                    't' => '\t',
                    other => other,
                });
                rest = &rest[kind.len_utf8()..];
            }
        }
    }
    out + rest
}
