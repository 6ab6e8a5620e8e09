//! The shapes of known credentials: a table, and the search for all of them in one pass.
//!
//! One pass looks for the keywords of all rules; only where one stands is the rule's expression tried.
//! Expressions are compiled when first needed, so that a start costs nothing for rules that never hit.

mod table;

use std::sync::{LazyLock, OnceLock};

use regex::Regex;

use crate::span::Span;
use crate::words::Words;
use crate::{assign, pem};

/// One shape. `example` and `near_miss` hold `<A36>` for 36 characters of a class: `A` letters and digits,
/// `H` hexadecimal, `D` digits, `U` capitals and digits, `L` small letters and digits.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// The type in `[REDACTED:<type>]`.
    pub name: &'static str,
    /// The expression is tried only where one of these stands (any case); each has at least three bytes.
    pub keywords: &'static [&'static str],
    /// Where the expression is tried.
    pub place: Place,
    /// The expression; its first group, if it has one, is what is replaced.
    pub regex: &'static str,
    /// A text that must be found.
    pub example: &'static str,
    /// A text that looks alike and must stay.
    pub near_miss: &'static str,
}

/// Where a rule's expression is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// At the keyword, which may stand within a word.
    Keyword,
    /// At the keyword, which must begin a word.
    Word,
    /// At the keyword, and what it finds must not be a placeholder.
    Password,
    /// Anywhere in the keyword's line.
    Line,
    /// Anywhere in the keyword's line, and what it finds must look random.
    Value,
}

impl Place {
    fn is_keyword(self) -> bool {
        matches!(self, Self::Keyword | Self::Word | Self::Password)
    }

    fn accepts(self, value: &str) -> bool {
        match self {
            Self::Value => assign::looks_secret(value),
            Self::Password => !assign::is_placeholder(value),
            Self::Keyword | Self::Word | Self::Line => true,
        }
    }
}

/// All built-in shapes.
#[must_use]
pub fn rules() -> &'static [Rule] {
    table::RULES
}

pub(crate) struct RuleSet {
    words: Words<3>,
    /// What stands where, and what it may mean.
    keywords: Vec<(&'static str, Target)>,
    compiled: Vec<OnceLock<Option<Regex>>>,
}

#[derive(Clone, Copy)]
enum Target {
    Rule(usize),
    PrivateKey,
    Assignment,
}

const PRIVATE_KEY: &str = "private-key";

/// The table never changes, so every scrubber shares what was made of it.
pub(crate) static SET: LazyLock<RuleSet> = LazyLock::new(RuleSet::new);

impl RuleSet {
    fn new() -> Self {
        let mut keywords = Vec::new();
        for (index, rule) in rules().iter().enumerate() {
            keywords.extend(rule.keywords.iter().map(|word| (*word, Target::Rule(index))));
        }
        keywords.push((pem::BEGIN, Target::PrivateKey));
        keywords.extend(assign::WORDS.iter().map(|word| (*word, Target::Assignment)));
        let words = Words::new(keywords.iter().map(|(word, _)| word.as_bytes()));
        let compiled = rules().iter().map(|_| OnceLock::new()).collect();
        Self { words, keywords, compiled }
    }

    /// The types this set can report, in the order of their kinds. Where spans overlap the later names the
    /// whole, so the vaguest comes first.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        [assign::NAME, PRIVATE_KEY].into_iter().chain(rules().iter().map(|rule| rule.name))
    }

    pub(crate) fn find(&self, text: &str, spans: &mut Vec<Span>) {
        let bytes = text.as_bytes();
        // A rule that searches a line has seen everything up to here.
        let mut seen: Vec<(usize, usize)> = Vec::new();
        self.words.find(bytes, |start, word| {
            let (keyword, target) = self.keywords[word];
            let end = start + keyword.len();
            if !bytes.get(start..end).is_some_and(|there| there.eq_ignore_ascii_case(keyword.as_bytes())) {
                return;
            }
            match target {
                Target::Assignment => {
                    if let Some((start, end)) = assign::find(text, start, end) {
                        spans.push(Span { start, end, kind: 0 });
                    }
                }
                Target::PrivateKey => {
                    if let Some(block) = pem::block(text, start)
                        && block.key
                    {
                        spans.push(Span { start, end: block.end, kind: 1 });
                    }
                }
                Target::Rule(index) => self.try_rule(index, text, start, &mut seen, spans),
            }
        });
    }

    fn try_rule(
        &self,
        index: usize,
        text: &str,
        at: usize,
        seen: &mut Vec<(usize, usize)>,
        spans: &mut Vec<Span>,
    ) {
        let rule = &rules()[index];
        let kind = index + 2;
        if rule.place == Place::Word && !begins_word(text.as_bytes(), at) {
            return;
        }
        let Some(regex) = self.regex(index) else { return };
        let (start, end) = if rule.place.is_keyword() {
            (at, text.len())
        } else {
            if seen.iter().any(|(rule, end)| *rule == index && at < *end) {
                return;
            }
            let line = line_around(text, at);
            seen.retain(|(rule, _)| *rule != index);
            seen.push((index, line.1));
            line
        };
        for found in regex.captures_iter(&text[start..end]) {
            if let Some(place) = found.get(1).or_else(|| found.get(0))
                && !goes_on(text.as_bytes(), start + place.end())
                && rule.place.accepts(place.as_str())
            {
                spans.push(Span { start: start + place.start(), end: start + place.end(), kind });
            }
        }
    }

    fn regex(&self, index: usize) -> Option<&Regex> {
        let rule = &rules()[index];
        let compile = || {
            let anchor = if rule.place.is_keyword() { "^" } else { "" };
            // A test compiles them all.
            Regex::new(&format!("{anchor}(?:{})", rule.regex)).ok()
        };
        self.compiled[index].get_or_init(compile).as_ref()
    }
}

/// Whether no word reaches up to `at`; `\n` and `%3D` written out are no part of one.
fn begins_word(text: &[u8], at: usize) -> bool {
    let before = &text[..at];
    match before {
        [.., last] if !last.is_ascii_alphanumeric() => true,
        [.., b'\\', b'n' | b'r' | b't'] => true,
        [.., b'%', high, low] => high.is_ascii_hexdigit() && low.is_ascii_hexdigit(),
        rest => rest.is_empty(),
    }
}

fn goes_on(text: &[u8], end: usize) -> bool {
    text.get(end).is_some_and(u8::is_ascii_alphanumeric)
}

fn line_around(text: &str, at: usize) -> (usize, usize) {
    let bytes = text.as_bytes();
    let start = memchr::memrchr(b'\n', &bytes[..at]).map_or(0, |n| n + 1);
    let end = memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |n| at + n);
    (start, end)
}
