//! Assignments `NAME=value` of secret-looking names.
//!
//! Two strengths, because the same text stands in source code. In the style of an environment file (`NAME` in
//! capitals, `=` without blanks) nearly every literal counts. Everywhere else the value must be a literal
//! that looks random. Expressions, types, variables and placeholders never count.

/// The type in `[REDACTED:<type>]`.
pub(crate) const NAME: &str = "assignment";

/// An assignment is looked for only where one of these stands (any case).
pub(crate) const WORDS: &[&str] =
    &["passw", "passphrase", "pwd", "_pass", "secret", "token", "key", "credential"];

/// A name that ends so (without `_`, `-`, `.`, in small letters) holds a secret.
const ENDINGS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "secretkey",
    "authkey",
    "encryptionkey",
    "signingkey",
    "masterkey",
    "accountkey",
    "sharedkey",
    "storagekey",
    "deploykey",
    "appkey",
    "clientkey",
    "servicekey",
    "sshkey",
    "credential",
    "credentials",
    "secretkeybase",
];

/// Tokens and keys that are no secrets: cursors, lexers, language models, public halves.
const HARMLESS: &[&str] = &[
    "next",
    "page",
    "continuation",
    "cancel",
    "cancellation",
    "sync",
    "resume",
    "stop",
    "start",
    "end",
    "pad",
    "eos",
    "bos",
    "unk",
    "mask",
    "sep",
    "cls",
    "special",
    "public",
    "max",
    "min",
    "num",
    "this",
    "prev",
    "previous",
    "last",
    "first",
    "current",
    "lookahead",
];

/// Longest value looked at.
const MAX_VALUE: usize = 8 * 1024;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// As in an environment file or a shell: the literal is the secret.
    Environment,
    /// Anything else.
    Code,
}

/// The value to redact for a word of [`WORDS`] found at `start..end`.
pub(crate) fn find(text: &str, start: usize, end: usize) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let name_end = end + bytes[end..].iter().take(40).take_while(|b| is_name(**b)).count();
    // The operator is what most occurrences of a word lack: look for it first.
    let assigned = Assigned::after(bytes, name_end)?;
    let name_start = start - bytes[..start].iter().rev().take(64).take_while(|b| is_name(**b)).count();
    let name = text.get(name_start..name_end)?;
    if !is_secret_name(name) {
        return None;
    }
    let style = if assigned.tight && is_environment_name(name) { Style::Environment } else { Style::Code };
    let value = Value::at(text, assigned.at, style)?;
    value.counts(name, style, assigned.tight).then_some((value.start, value.end))
}

/// Whether a string that stands under this name in structured data is a secret.
pub(crate) fn is_secret_member(name: &str, value: &str) -> bool {
    is_secret_name(name) && looks_like_password(name, value)
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

fn is_environment_name(name: &str) -> bool {
    !name.bytes().any(|b| b.is_ascii_lowercase()) && !name.contains('.')
}

fn is_secret_name(name: &str) -> bool {
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_');
    let flat: String =
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    if matches!(name, "PWD" | "OLDPWD") {
        return false; // the shell's working directory
    }
    let bare = name.rsplit(['_', '-', '.']).next().unwrap_or("");
    let pass = bare.len() < name.len() && bare.eq_ignore_ascii_case("pass");
    let Some(ending) = ENDINGS.iter().find(|ending| flat.ends_with(**ending)).copied() else { return pass };
    let before = &flat[..flat.len() - ending.len()];
    !HARMLESS.iter().any(|word| before.ends_with(word))
}

/// Where a value starts.
struct Assigned {
    at: usize,
    /// No blank around the operator.
    tight: bool,
}

impl Assigned {
    fn after(text: &[u8], name_end: usize) -> Option<Self> {
        let mut at = name_end;
        // The closing quote of a quoted name, escaped or not, and of an index: `env["NAME"] = `.
        for closing in [b'\\', b'"', b'\'', b']'] {
            at += usize::from(text.get(at) == Some(&closing));
        }
        let quoted = at > name_end;
        let blanks = blanks(text, at);
        at += blanks;
        let operator = match &text[at..(at + 3).min(text.len())] {
            [b'=', b'=' | b'~', ..] | [b':', b':', ..] => return None,
            [b':', b'=', ..] | [b'=', b'>', ..] | [b'?', b'=', ..] => 2,
            [b'=' | b':', ..] => 1,
            _ => return None,
        };
        let colon = operator == 1 && text[at] == b':';
        at += operator;
        let after = self::blanks(text, at);
        at += after;
        let mut found = Self { at, tight: blanks == 0 && after == 0 && !colon && !quoted };
        if colon && let Some(literal) = after_type(text, at) {
            found.at = literal;
        }
        Some(found)
    }
}

fn blanks(text: &[u8], at: usize) -> usize {
    text[at..].iter().take(32).take_while(|b| matches!(b, b' ' | b'\t')).count()
}

/// After `NAME: Type = `, where the literal starts.
fn after_type(text: &[u8], at: usize) -> Option<usize> {
    let is_type = |b: &&u8| {
        b.is_ascii_alphanumeric()
            || matches!(b, b'_' | b'&' | b'\'' | b'<' | b'>' | b' ' | b'?' | b'.' | b':' | b'|' | b'[' | b']')
    };
    let length = text[at..].iter().take(48).take_while(is_type).count();
    let operator = at + length;
    (length > 0 && text.get(operator) == Some(&b'=')).then(|| operator + 1 + blanks(text, operator + 1))
}

struct Value<'a> {
    start: usize,
    end: usize,
    text: &'a str,
    quoted: bool,
    /// What follows an unquoted value.
    next: Option<u8>,
}

impl<'a> Value<'a> {
    fn at(text: &'a str, at: usize, style: Style) -> Option<Self> {
        let bytes = text.as_bytes();
        let mut start = at;
        // Prefixes of string literals: b"…", r#"…"#.
        start += bytes[start..].iter().take(2).take_while(|b| matches!(b, b'b' | b'r' | b'u')).count();
        start += bytes[start..].iter().take(2).take_while(|b| **b == b'#').count();
        let escaped = usize::from(bytes.get(start) == Some(&b'\\'));
        let quote = bytes.get(start + escaped).copied().filter(|b| matches!(b, b'"' | b'\'' | b'`'));
        if let Some(quote) = quote {
            start += escaped + 1;
            let length = bytes[start..].iter().take(MAX_VALUE).position(|b| *b == quote || *b == b'\n');
            let mut end = length.map_or(bytes.len().min(start + MAX_VALUE), |n| start + n);
            end -= usize::from(escaped == 1 && end > start && bytes[end - 1] == b'\\');
            return Some(Self { start, end, text: text.get(start..end)?, quoted: true, next: None });
        }
        let ends = |b: &u8| match b {
            b' ' | b'\t' | b'\r' | b'\n' | b'"' | b'\'' | b'`' | b'<' => true,
            b'&' | b';' | b',' | b')' | b'}' | b']' | b'|' | b'>' => style == Style::Code,
            _ => false,
        };
        let length = bytes[at..].iter().take(MAX_VALUE).position(ends);
        let end = length.map_or(bytes.len().min(at + MAX_VALUE), |n| at + n);
        Some(Self { start: at, end, text: text.get(at..end)?, quoted: false, next: bytes.get(end).copied() })
    }

    fn counts(&self, name: &str, style: Style, tight: bool) -> bool {
        if self.quoted {
            return match style {
                // In `"NAME=" + x + "…"` the quote ends a text instead of starting one.
                Style::Environment => {
                    !self.text.starts_with(['+', ',', ')', ';', ' ', '.'])
                        && is_environment_value(name, self.text)
                }
                Style::Code => looks_like_password(name, self.text),
            };
        }
        match style {
            Style::Environment => {
                // `NAME=OTHER;` and `f(NAME=other)` are code.
                let value = self.text.trim_end_matches([';', ',', ')']);
                let name_like =
                    |class: fn(&u8) -> bool| value.bytes().all(|b| class(&b) || b == b'_' || b == b'.');
                let code = value.len() < self.text.len() && name_like(u8::is_ascii_alphabetic)
                    || name_like(u8::is_ascii_uppercase);
                !code && is_environment_value(name, value)
            }
            Style::Code => {
                let ends = self
                    .next
                    .is_none_or(|b| matches!(b, b' ' | b'\t' | b'\r' | b'\n' | b'&' | b'"' | b'\'' | b'<'));
                let plain = is_password_name(name) && !self.text.contains(['_', '-', '.', '/', ':']);
                let short =
                    tight && ends && self.text.len() >= 7 && is_mixed(self.text) && is_literal(self.text);
                short && (plain || !is_words(self.text)) && !is_placeholder(self.text)
                    || ends && looks_secret(self.text)
            }
        }
    }
}

fn is_password_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.contains("pass") || name.contains("pwd")
}

fn is_environment_value(name: &str, value: &str) -> bool {
    let number = value.bytes().all(|b| b.is_ascii_digit());
    let path = value.starts_with(['/', '.', '~']) || value.contains("://");
    value.len() >= 6
        && (!number || is_password_name(name))
        && !path
        && is_literal(value)
        && !is_placeholder(value)
}

/// A literal password or key as it stands quoted in code and data.
fn looks_like_password(name: &str, value: &str) -> bool {
    let strong = is_password_name(name) && value.len() >= 8 && classes(value) >= 3 && !value.contains(' ');
    (strong && is_literal(value) && !is_placeholder(value) && !is_words(value)) || looks_secret(value)
}

/// Whether a value looks random: long, of mixed characters, not made of words.
pub(crate) fn looks_secret(value: &str) -> bool {
    value.len() >= 16
        && is_mixed(value)
        && is_literal(value)
        && !value.bytes().any(|b| matches!(b, b' ' | b'(' | b')' | b',' | b';' | b'*' | b'?'))
        && entropy(value) >= 3.0
        && !is_words(value)
        && !is_placeholder(value)
}

/// Letters and digits both.
fn is_mixed(value: &str) -> bool {
    value.bytes().any(|b| b.is_ascii_digit()) && value.bytes().any(|b| b.is_ascii_alphabetic())
}

/// No expression, interpolation or markup.
fn is_literal(value: &str) -> bool {
    !value.starts_with(['$', '%', '<', '{', '[', '(', '@', '&', '*', '!', '/', '\\'])
        && !value.starts_with("[REDACTED:")
        && !["${", "$(", "{{", "#{", "%(", "%{", "://", "::", "()", "->", "=>", "\\n", "..."]
            .iter()
            .any(|s| value.contains(s))
        && !value.contains(['(', '[', '{', '<', '>'])
}

/// Made of words: identifiers, paths, dotted names, versions. Random text changes between letters and digits
/// more often than names do.
fn is_words(value: &str) -> bool {
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let groups = value.as_bytes().split(|b| !b.is_ascii_digit()).filter(|run| !run.is_empty()).count();
    let separated = value.contains(['_', '-', '.', '/', ':']);
    let pieces = value.split(['_', '-', '.', '/', ':']);
    let words = pieces.filter(|piece| piece.bytes().all(|b| b.is_ascii_alphabetic())).count();
    if separated {
        words >= 1 && groups < 4 || groups < 2
    } else {
        groups < 2 && digits * 4 < value.len() && value.len() < 32
    }
}

/// Kinds of characters: small, capital, digit, other.
fn classes(value: &str) -> usize {
    let has = |class: fn(&u8) -> bool| usize::from(value.as_bytes().iter().any(class));
    has(u8::is_ascii_lowercase)
        + has(u8::is_ascii_uppercase)
        + has(u8::is_ascii_digit)
        + has(u8::is_ascii_punctuation)
}

/// Bits per byte.
fn entropy(value: &str) -> f64 {
    let mut counts = [0u32; 256];
    value.bytes().for_each(|b| counts[usize::from(b)] += 1);
    let total = value.len() as f64;
    counts.iter().filter(|n| **n > 0).map(|n| f64::from(*n) / total).map(|p| -p * p.log2()).sum()
}

/// What documentation and templates put where a secret would stand.
pub(crate) fn is_placeholder(value: &str) -> bool {
    const WHOLE: &[&str] = &[
        "pass",
        "password",
        "passwd",
        "pw",
        "pwd",
        "null",
        "none",
        "nil",
        "true",
        "false",
        "undefined",
        "string",
        "secret",
        "token",
    ];
    const PARTS: &[&str] = &[
        "example",
        "changeme",
        "change-me",
        "change_me",
        "placeholder",
        "your",
        "dummy",
        "sample",
        "xxx",
        "***",
        "...",
        "todo",
        "fixme",
        "redacted",
        "insert",
        "replace",
        "${",
        "$(",
        "{{",
        "<",
        "env.",
        "environ",
        "getenv",
    ];
    let value = value.to_ascii_lowercase();
    let filler = value.bytes().all(|b| value.as_bytes().first() == Some(&b));
    filler
        || WHOLE.contains(&value.as_str())
        || value.starts_with(['$', '{', '%', '<', '['])
        || PARTS.iter().any(|part| value.contains(part))
}
