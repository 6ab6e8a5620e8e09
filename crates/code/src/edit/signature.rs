//! Another signature for a function.

use super::{EditError, Edited, Job, Splice, Within};
use crate::language::Language;
use crate::parse::Reader;

/// Places in a signature where a comment may begin.
const MARKS: usize = 16;

/// What may stand before a signature.
#[derive(Default)]
struct Dress {
    comments: bool,
    /// Decorators or attributes.
    marks: bool,
}

impl Job<'_> {
    /// What a text begins with before there is a declaration.
    fn dress(&self, text: &str) -> Dress {
        let language = self.before.language;
        let mark = if language == Language::Rust { "#[" } else { "@" };
        let comment: &[&str] = if language == Language::Python { &["#"] } else { &["//", "/*"] };
        let (mut dress, mut block, mut depth) = (Dress::default(), false, 0usize);
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let marked = depth > 0 || line.starts_with(mark);
            if block {
                block = !line.contains("*/");
            } else if marked {
                dress.marks = true;
                let count = |brackets: [char; 3]| line.matches(brackets).count();
                depth = (depth + count(['(', '[', '{'])).saturating_sub(count([')', ']', '}']));
            } else if comment.iter().any(|begin| line.starts_with(begin)) {
                dress.comments = true;
                block = line.starts_with("/*") && !line.contains("*/");
            } else {
                break;
            }
        }
        dress
    }

    pub(super) fn signature(&self, new: &str) -> Result<Edited, EditError> {
        let symbol = self.symbol;
        let mut text = new.trim();
        if symbol.body.is_some() && self.before.language != Language::Python {
            text = text.strip_suffix('{').unwrap_or(text).trim_end();
        }
        text = text.strip_suffix(';').unwrap_or(text).trim_end();
        let mut text = text.to_owned();
        let comment = split_comment(self.before.language, &mut text);
        let old = String::from_utf8_lossy(&self.source()[symbol.signature.clone()]).into_owned();
        let ending = if self.before.language == Language::Python { ":" } else { "=>" };
        if old.ends_with(ending) && !text.ends_with(ending) {
            text.push_str(if ending == ":" { ":" } else { " =>" });
        }
        let indent = self.indent();
        let mut refused = EditError::DoesNotParse { reason: "there is nothing in it".to_owned() };
        if text.is_empty() {
            return Err(refused);
        }
        let mut end = symbol.signature.end;
        if let Some(comment) = comment {
            let line = self.source()[end..].split(|byte| *byte == b'\n').next().unwrap_or_default();
            let behind = line.trim_ascii_end();
            if !matches!(behind.trim_ascii_start().first(), None | Some(b'#')) {
                let reason =
                    format!("`{comment}` would make a comment of the body, which is on the same line");
                return Err(EditError::DoesNotParse { reason });
            }
            // it takes the place of the one that is there
            end += behind.len();
            text.push_str("  ");
            text.push_str(&comment);
        }
        let before = &self.source()[symbol.full.start..symbol.signature.start];
        let (has, given) = (self.dress(&String::from_utf8_lossy(before)), self.dress(&text));
        let twice = [
            (has.marks && given.marks, "decorators and attributes"),
            (has.comments && given.comments, "comments"),
        ];
        if let Some((_, what)) = twice.into_iter().find(|(twice, _)| *twice) {
            return Err(EditError::Dressed { found: self.listed(), what });
        }
        // a function alone takes the place of the one that is held, and what has the name that of all before the body
        let value = symbol.value.filter(|_| is_function(self.before.language, &text));
        let mut starts = value.map_or_else(|| symbol.starts.clone(), |value| vec![value]);
        // what it begins with is not there twice: `declare` is taken for a name where it stands behind another
        let words = self.source();
        starts.sort_by_key(|start| first_word(&words[*start..]) != first_word(text.as_bytes()));
        for (turn, start) in starts.iter().enumerate() {
            let at = *start..end.max(*start);
            let fitted = self.fitted(&at, &Within::alone(&text), &indent).swap_remove(0);
            let splice = Splice { at, text: fitted.trim_start().to_owned(), lead: 0 };
            let done = self.splice(&splice, |changed, symbols| {
                let body =
                    symbol.body.as_ref().map(|body| changed.moved(body.start)..changed.moved(body.end));
                symbols.iter().any(|it| {
                    let here =
                        changed.new.contains(&it.name_at.start) || it.name_at.start == symbol.name_at.start;
                    it.kind.is_callable() && here && it.body == body
                })
            });
            match done {
                Ok(done) => return Ok(done),
                // the first way of reading it is the one to explain
                Err(error) if turn == 0 => refused = error,
                Err(_) => {}
            }
        }
        Err(match refused {
            EditError::DoesNotParse { reason } => {
                EditError::DoesNotParse { reason: format!("{reason}; the signature now is: {}", old.trim()) }
            }
            other => other,
        })
    }
}

/// Takes the comment away that a signature of Python ends with.
fn split_comment(language: Language, text: &mut String) -> Option<String> {
    let last = text.rfind('\n').map_or(0, |newline| newline + 1);
    // a `#` may stand in a text: the comment begins where a signature is whole
    let mut places = text[last..].match_indices('#').map(|(at, _)| last + at).take(MARKS);
    let at = places.find(|at| {
        let head = text[..*at].trim_end().trim_end_matches(':').trim_start();
        let whole = format!("{head}: pass\n");
        let parsed = Reader::default().parse(language, whole.as_bytes());
        parsed.is_some_and(|parsed| language == Language::Python && parsed.broken().is_none())
    })?;
    let comment = text.split_off(at);
    text.truncate(text.trim_end().len());
    Some(comment)
}

/// The letters that a text begins with.
fn first_word(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| !byte.is_ascii_alphanumeric());
    &text[..end.unwrap_or(text.len())]
}

/// Whether the signature of a function that a variable or a property holds comes without what holds it.
fn is_function(language: Language, text: &str) -> bool {
    let word = |text: &str, word: &str| {
        let rest = text.strip_prefix(word)?;
        (!rest.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '$'))).then(|| rest.to_owned())
    };
    if language == Language::Go {
        return word(text, "func").is_some();
    }
    let rest = word(text, "async").unwrap_or_else(|| text.to_owned());
    let rest = rest.trim_start();
    let named = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
    let parameter = rest.split_once("=>").is_some_and(|(name, _)| name.trim_end().chars().all(named));
    rest.starts_with(['(', '<']) || word(rest, "function").is_some() || parameter
}
