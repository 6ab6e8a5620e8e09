//! What a word of the shell comes to, as far as the text alone tells.

use std::collections::HashMap;

use tree_sitter::Node;

/// The text of a node.
pub(super) fn source<'a>(node: Node<'_>, text: &'a str) -> &'a str {
    text.get(node.byte_range()).unwrap_or("")
}

/// The words a node comes to: several for an array or for an unquoted variable that holds several.
pub(super) fn resolve_all(
    node: Node<'_>,
    text: &str,
    variables: &HashMap<String, Vec<String>>,
) -> Vec<String> {
    match node.kind() {
        "array" => {
            let mut cursor = node.walk();
            node.named_children(&mut cursor).map(|item| resolve(item, text, variables)).collect()
        }
        "simple_expansion" | "expansion" => match variable(node, text).and_then(|name| variables.get(name)) {
            Some(values) => {
                values.iter().flat_map(|value| value.split_whitespace()).map(str::to_owned).collect()
            }
            None => vec![source(node, text).to_owned()],
        },
        "string" if is_only_expansion(node) => {
            let expansion = node.named_child(0).unwrap_or(node);
            match variable(expansion, text).and_then(|name| variables.get(name)) {
                Some(values) => values.clone(),
                None => vec![resolve(node, text, variables)],
            }
        }
        _ => vec![resolve(node, text, variables)],
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

/// One word. What is not known stays as it was written, which no refused name looks like.
pub(super) fn resolve(node: Node<'_>, text: &str, variables: &HashMap<String, Vec<String>>) -> String {
    let written = source(node, text);
    match node.kind() {
        "word" | "number" | "variable_name" => unescape(written),
        "raw_string" => written.trim_matches('\'').to_owned(),
        "ansi_c_string" => ansi_c(written.trim_start_matches('$').trim_matches('\'')),
        "string" | "concatenation" | "translated_string" => join(node, text, variables),
        "simple_expansion" | "expansion" => {
            let values = variable(node, text).and_then(|name| variables.get(name));
            values.map_or_else(|| written.to_owned(), |values| values.join(" "))
        }
        "command_substitution" => printed(node, text, variables).unwrap_or_else(|| written.to_owned()),
        _ => written.to_owned(),
    }
}

/// The children of a string or a concatenation, with the text between them, which the grammar leaves out.
fn join(node: Node<'_>, text: &str, variables: &HashMap<String, Vec<String>>) -> String {
    let string = node.kind() == "string";
    let range = node.byte_range();
    let (mut at, end) =
        if string { (range.start + 1, range.end.saturating_sub(1)) } else { (range.start, range.end) };
    let mut out = String::new();
    let mut cursor = node.walk();
    for child in node.named_children(&mut cursor) {
        out.push_str(text.get(at..child.start_byte()).unwrap_or(""));
        match child.kind() {
            "string_content" => out.push_str(&unescape_quoted(source(child, text))),
            _ => out.push_str(&resolve(child, text, variables)),
        }
        at = child.end_byte();
    }
    out.push_str(text.get(at..end.max(at)).unwrap_or(""));
    out
}

/// What `$(which x)` and its like print.
fn printed(node: Node<'_>, text: &str, variables: &HashMap<String, Vec<String>>) -> Option<String> {
    let command = node.named_child(0).filter(|command| command.kind() == "command")?;
    let name = command.child_by_field_name("name")?;
    if !matches!(source(name, text), "which" | "command" | "type" | "echo" | "printf") {
        return None;
    }
    let last = command.named_child(u32::try_from(command.named_child_count()).ok()?.checked_sub(1)?)?;
    (last.id() != name.id()).then(|| resolve(last, text, variables))
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
