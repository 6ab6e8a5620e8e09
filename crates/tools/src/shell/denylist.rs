//! Commands that are refused before they start.
//!
//! Defence in depth, and no more: a program can always be reached by a way no parser sees (a script written
//! first, a variable read from a file, an interpreter). The boundary that counts is the sandbox the command
//! runs in. What this catches is the plain case, early and with a reason.
//!
//! The text is parsed as a shell would, so words count only where a command stands: after `&&`, in
//! substitutions, function bodies and loops, behind `env`, `xargs`, `find -exec` and their like, in the text
//! given to `bash -c` or `eval`, and in what is piped or redirected into a shell.

mod words;
mod wrappers;

#[cfg(test)]
mod tests;

use std::{borrow::Cow, cell::Cell};

use tree_sitter::{Node, Parser, Tree};
use words::Words;
use wrappers::{Next, Reads};

/// Refused unless the operator says otherwise.
const DEFAULT: &[&str] =
    &["sudo", "su", "shutdown", "reboot", "halt", "poweroff", "chroot", "mount", "umount", "mkfs*"];
/// How deep `bash -c "bash -c …"` is followed.
const MAX_DEPTH: usize = 8;
/// How much text may be written out for each byte of a command, and what any command may have.
const SPREAD: usize = 8;
const SPREAD_AT_LEAST: usize = 64 << 10;

/// Words that begin more than a command, or stand before one.
const KEYWORDS: &[&str] = &[
    "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "select",
    "then", "time", "until", "while",
];

/// The commands that are refused.
#[derive(Debug, Clone)]
pub(crate) struct Denylist(Vec<Entry>);

/// One refused command: a name, which may end in `*`, and words that must follow it, if any.
#[derive(Debug, Clone)]
struct Entry {
    token: String,
    words: Vec<String>,
}

/// Why a command is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "refusing to run `{word}`: it is on the command denylist (`{token}`); do it without, or ask the operator"
)]
pub(crate) struct Denied {
    /// The entry of the list.
    pub(crate) token: String,
    /// The command as it was written.
    pub(crate) word: String,
}

impl Default for Denylist {
    fn default() -> Self {
        Self::new(DEFAULT.iter().map(|token| (*token).to_owned()).collect())
    }
}

impl Denylist {
    /// A list of command names. A name may end in `*`; further words (`git push`) must follow it literally. Of a path
    /// the name counts: whoever is kept from one way to a program must not find another.
    pub(crate) fn new(tokens: Vec<String>) -> Self {
        let entry = |token: String| {
            let mut words: Vec<String> =
                token.split_whitespace().map(|word| ascii(word).into_owned()).collect();
            if let Some(first) = words.first_mut() {
                *first = base_name(first).to_owned();
            }
            (!words.is_empty()).then_some(Entry { token, words })
        };
        Self(tokens.into_iter().filter_map(entry).collect())
    }

    /// Whether `command`, a text for `bash -c`, starts nothing that is on the list.
    pub(crate) fn check(&self, command: &str) -> Result<(), Denied> {
        if self.0.is_empty() {
            return Ok(());
        }
        let left = Cell::new(command.len().saturating_mul(SPREAD).saturating_add(SPREAD_AT_LEAST));
        Script { list: self, depth: 0, left: &left }.check(command)
    }

    fn check_words(&self, words: &[String]) -> Result<(), Denied> {
        let Some(written) = words.first() else { return Ok(()) };
        let words: Vec<Cow<'_, str>> = words.iter().map(|word| ascii(word)).collect();
        let name = base_name(&words[0]);
        let hit = self.0.iter().find(|entry| {
            let named = match entry.words[0].strip_suffix('*') {
                Some(start) => name.starts_with(start),
                None => name == entry.words[0],
            };
            let rest = words.iter().zip(&entry.words).skip(1);
            named && words.len() >= entry.words.len() && rest.into_iter().all(|(word, wanted)| word == wanted)
        });
        hit.map_or(Ok(()), |entry| Err(Denied { token: entry.token.clone(), word: written.clone() }))
    }
}

pub(crate) fn base_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// One text, at some depth of nesting.
struct Script<'a> {
    list: &'a Denylist,
    depth: usize,
    left: &'a Cell<usize>,
}

/// What one text holds.
#[derive(Default)]
struct Found {
    /// The words of every command.
    commands: Vec<Vec<String>>,
    /// Texts that go to some command's input: here-documents, here-strings, what `echo` prints.
    inputs: Vec<String>,
    /// Something could not be followed.
    partly: bool,
}

impl Script<'_> {
    fn check(&self, text: &str) -> Result<(), Denied> {
        match plain(text) {
            Some(words) => self.check_command(&words).map(drop),
            None => self.check_parsed(text),
        }
    }

    fn check_parsed(&self, text: &str) -> Result<(), Denied> {
        // A shell joins these before it reads words; the grammar does not.
        let text = text.replace("\\\n", "");
        let text = ascii(&text);
        let Some(tree) = parse(&text) else { return self.check_naively(&text) };
        let found = collect(&tree, Words::new(&text, self.left));
        let mut shell_reads_input = false;
        for words in &found.commands {
            shell_reads_input |= self.check_command(words)?;
        }
        if shell_reads_input {
            for input in &found.inputs {
                self.nested(input)?;
            }
        }
        if found.partly || tree.root_node().has_error() { self.check_naively(&text) } else { Ok(()) }
    }

    /// Follows a command through the ones it starts. Tells whether a shell at its end reads its input.
    fn check_command(&self, words: &[String]) -> Result<bool, Denied> {
        let mut rest = words;
        // A wrapper leaves fewer words each time.
        loop {
            self.list.check_words(rest)?;
            match wrappers::next(rest) {
                Next::Nothing => return Ok(false),
                Next::Command(at) => rest = &rest[at..],
                Next::Commands(ranges) => {
                    for range in ranges {
                        self.check_command(&rest[range])?;
                    }
                    return Ok(false);
                }
                Next::Script(text) => return self.nested(&text).map(|()| false),
                Next::Shell(Reads::Input) => return Ok(true),
            }
        }
    }

    fn nested(&self, text: &str) -> Result<(), Denied> {
        if self.depth >= MAX_DEPTH {
            return self.check_naively(text);
        }
        Script { depth: self.depth + 1, ..*self }.check(text)
    }

    /// For what does not parse: the first word of everything that looks like a command.
    fn check_naively(&self, text: &str) -> Result<(), Denied> {
        for part in text.split(['\n', ';', '&', '|', '(', ')', '{', '}', '`', ',']) {
            let mut words: Vec<String> = part
                .split_whitespace()
                .map(|word| word.chars().filter(|c| !matches!(c, '"' | '\'' | '\\')).collect())
                .collect();
            let keyword = |word: &String| {
                matches!(
                    word.as_str(),
                    "if" | "then" | "else" | "elif" | "while" | "until" | "do" | "!" | "$"
                )
            };
            let skip = words.iter().take_while(|word| keyword(word) || is_assignment(word)).count();
            words.drain(..skip);
            self.list.check_words(&words)?;
        }
        Ok(())
    }
}

/// The words of a text that is nothing but one command of bare words. Most commands are, and parsing takes longer
/// than all else that is done before they start.
fn plain(text: &str) -> Option<Vec<String>> {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:,@%+ \t".contains(&byte);
    if !text.bytes().all(bare) {
        return None;
    }
    let words: Vec<String> =
        text.split([' ', '\t']).filter(|word| !word.is_empty()).map(str::to_owned).collect();
    words.first().is_none_or(|first| !KEYWORDS.contains(&first.as_str())).then_some(words)
}

/// Every byte of a character outside ASCII becomes `_`: to a shell all of them are letters of a word, but the
/// grammar's scanner asks C's `isdigit` about them, which reads wherever a large number leads.
fn ascii(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.bytes().map(|byte| if byte.is_ascii() { char::from(byte) } else { '_' }).collect())
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    })
}

fn parse(text: &str) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    parser.parse(text, None)
}

/// All commands and inputs of a text, in order, at any depth of the tree.
fn collect(tree: &Tree, mut words: Words<'_>) -> Found {
    let mut found = Found::default();
    let mut cursor = tree.walk();
    loop {
        let node = cursor.node();
        match node.kind() {
            "command" => found.command(node, &mut words),
            "for_statement" | "select_statement" => {
                if let Some(name) = node.child_by_field_name("variable") {
                    let name = words::source(name, words.text).to_owned();
                    let mut values = node.walk();
                    let values = node.children_by_field_name("value", &mut values);
                    let values: Vec<String> = values.flat_map(|value| words.resolve_all(value)).collect();
                    words.take_in_turn(name, values);
                }
            }
            "heredoc_body" => found.inputs.push(words::source(node, words.text).to_owned()),
            "herestring_redirect" => {
                found.inputs.extend(node.named_child(0).map(|value| words.resolve(value)));
            }
            "variable_assignment" => {
                if let (Some(name), Some(value)) =
                    (node.child_by_field_name("name"), node.child_by_field_name("value"))
                {
                    let value = words.resolve_all(value);
                    words.variables.insert(words::source(name, words.text).to_owned(), value);
                }
            }
            _ => {}
        }
        if cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                found.partly = words.gave_up();
                return found;
            }
        }
    }
}

impl Found {
    /// A command, once for each value of a loop's variable that names it.
    fn command(&mut self, node: Node<'_>, read: &mut Words<'_>) {
        let name = node.child_by_field_name("name");
        let Some((variable, values)) = name.and_then(|name| read.loops_in(name)) else {
            return self.command_as_it_is(node, read);
        };
        for value in values {
            if read.gave_up() {
                break;
            }
            read.variables.insert(variable.clone(), vec![value]);
            self.command_as_it_is(node, read);
        }
    }

    fn command_as_it_is(&mut self, node: Node<'_>, read: &Words<'_>) {
        let mut cursor = node.walk();
        let mut words = Vec::new();
        for child in node.children(&mut cursor) {
            match child.kind() {
                "command_name" => {
                    let Some(name) = child.named_child(0) else { continue };
                    words.extend(read.resolve_all(name));
                }
                "variable_assignment" | "file_redirect" | "herestring_redirect" | "heredoc_redirect" => {}
                _ if child.is_named() && !words.is_empty() => words.extend(read.resolve_all(child)),
                _ => {}
            }
        }
        if matches!(words.first().map(|name| base_name(name)), Some("echo" | "printf")) {
            self.inputs.push(words[1..].join(" ").replace("\\n", "\n"));
        }
        self.commands.push(words);
    }
}
