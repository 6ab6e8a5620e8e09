//! The scrubber: finds places to redact and replaces them.

use std::borrow::Cow;
use std::sync::Arc;

use regex::Regex;

use crate::exact::Exact;
use crate::rules;
use crate::span::{Hits, Span, unite};
use crate::{StreamScrubber, json};

/// Takes secrets out of text. Cheap to clone; built once per configuration.
#[derive(Clone)]
pub struct Scrubber(Arc<Inner>);

struct Inner {
    patterns: Vec<Pattern>,
    exact: Exact,
    /// Indexed by `Span::kind`: first the rules, then the patterns, then the secrets.
    kinds: Vec<Kind>,
}

struct Pattern {
    regex: Regex,
    kind: usize,
}

struct Kind {
    marker: String,
    label: String,
}

/// A scrubbed text and what was taken out of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scrubbed<'a> {
    /// The text; borrowed when nothing was found.
    pub text: Cow<'a, str>,
    /// What was redacted, by type.
    pub hits: Hits,
}

/// Why an operator's pattern was refused.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    /// The name would not make a readable type.
    #[error("scrub pattern name {0:?}: use letters, digits, `-` and `_`")]
    Name(String),
    /// The regular expression does not compile.
    #[error("scrub pattern {name:?}: {source}")]
    Regex {
        /// The pattern's name.
        name: String,
        /// What is wrong with it.
        source: regex::Error,
    },
    /// The regular expression matches the empty text, hence everywhere.
    #[error("scrub pattern {0:?} matches the empty text: make it require at least one character")]
    Empty(String),
}

/// Collects secrets and patterns for a [`Scrubber`].
#[derive(Clone, Default)]
pub struct Builder {
    secrets: Vec<(String, String)>,
    patterns: Vec<(String, Regex)>,
}

impl Builder {
    /// Adds a configured secret: its value must never leave. Surrounding white space is not part of it.
    #[must_use]
    pub fn secret(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.secrets.push((name.into(), value.into()));
        self
    }

    /// Adds an operator's pattern (Rust regex, matched within a line). When it has a capture group, only the
    /// first group's text is replaced.
    ///
    /// # Errors
    /// When the name is not made of letters, digits, `-` and `_`, or the expression does not compile or
    /// matches the empty text.
    pub fn pattern(mut self, name: impl Into<String>, regex: &str) -> Result<Self, PatternError> {
        let name = name.into();
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_') {
            return Err(PatternError::Name(name));
        }
        let regex = match Regex::new(regex) {
            Ok(regex) => regex,
            Err(source) => return Err(PatternError::Regex { name, source }),
        };
        if regex.is_match("") {
            return Err(PatternError::Empty(name));
        }
        self.patterns.push((name, regex));
        Ok(self)
    }

    /// Builds the scrubber.
    #[must_use]
    pub fn build(self) -> Scrubber {
        let mut kinds: Vec<Kind> = rules::SET.names().map(Kind::of).collect();
        let mut patterns = Vec::with_capacity(self.patterns.len());
        for (name, regex) in self.patterns {
            patterns.push(Pattern { regex, kind: kinds.len() });
            kinds.push(Kind::of(&name));
        }
        let exact = Exact::new(&self.secrets, kinds.len());
        for (name, _) in &self.secrets {
            kinds.push(Kind { marker: exact.marker(name), label: "secret".to_owned() });
        }
        Scrubber(Arc::new(Inner { patterns, exact, kinds }))
    }
}

impl Kind {
    fn of(name: &str) -> Self {
        Self { marker: format!("[REDACTED:{name}]"), label: name.to_owned() }
    }
}

impl Default for Scrubber {
    fn default() -> Self {
        Self::builder().build()
    }
}

impl std::fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Never the secrets themselves.
        f.debug_struct("Scrubber").field("kinds", &self.0.kinds.len()).finish_non_exhaustive()
    }
}

impl Scrubber {
    /// Starts a scrubber that knows the built-in rules only.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Replaces every secret in `text`.
    #[must_use]
    pub fn scrub<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.scrub_counted(text).text
    }

    /// Replaces every secret in `text` and tells what was replaced.
    #[must_use]
    pub fn scrub_counted<'a>(&self, text: &'a str) -> Scrubbed<'a> {
        let spans = self.find(text);
        let mut hits = Hits::default();
        if spans.is_empty() {
            return Scrubbed { text: Cow::Borrowed(text), hits };
        }
        let mut out = String::with_capacity(text.len());
        let mut from = 0;
        for span in &spans {
            out.push_str(&text[from..span.start]);
            out.push_str(self.redact(*span, &mut hits));
            from = span.end;
        }
        out.push_str(&text[from..]);
        Scrubbed { text: Cow::Owned(out), hits }
    }

    /// Replaces every secret in `text`, which is all that is shown of a longer one: `before` and `after` stand around
    /// it. What begins before it or ends behind it is replaced too, as far as it is in it.
    #[must_use]
    pub fn scrub_part<'a>(&self, before: &str, text: &'a str, after: &str) -> Cow<'a, str> {
        let whole = [before, text, after].concat();
        let shown = before.len()..before.len() + text.len();
        let mut out = String::new();
        let mut from = 0;
        for span in self.find(&whole) {
            if span.end <= shown.start || span.start >= shown.end {
                continue;
            }
            out.push_str(&text[from..span.start.max(shown.start) - shown.start]);
            out.push_str(self.redact(span, &mut Hits::default()));
            from = span.end.min(shown.end) - shown.start;
        }
        if out.is_empty() {
            return Cow::Borrowed(text);
        }
        out.push_str(&text[from..]);
        Cow::Owned(out)
    }

    /// Replaces every secret in all strings and keys of a JSON value.
    pub fn scrub_json(&self, value: &mut serde_json::Value) -> Hits {
        let mut hits = Hits::default();
        json::scrub(self, value, &mut hits);
        hits
    }

    /// A scrubber for text that comes in chunks.
    #[must_use]
    pub fn stream(&self) -> StreamScrubber {
        StreamScrubber::new(self.clone())
    }

    /// The text without an end that a configured secret may go on from, in the same line or in the next: what is
    /// shown before it is complete.
    #[must_use]
    pub fn settled<'a>(&self, text: &'a str) -> &'a str {
        let exact = &self.0.exact;
        let lines = text.trim_end_matches(['\r', '\n']);
        let open = exact.open_at(lines);
        let wraps = if open < lines.len() { open } else { text.len() };
        &text[..exact.open_at(text).min(wraps)]
    }

    /// Names of configured secrets that are too short to be searched for.
    #[must_use]
    pub fn unprotected(&self) -> &[String] {
        self.0.exact.unprotected()
    }

    /// All places to redact, in order, without overlaps, on character boundaries.
    pub(crate) fn find(&self, text: &str) -> Vec<Span> {
        let mut spans = Vec::new();
        rules::SET.find(text, &mut spans);
        for pattern in &self.0.patterns {
            for found in pattern.regex.captures_iter(text) {
                if let Some(place) = found.get(1).or_else(|| found.get(0))
                    && !place.is_empty()
                {
                    spans.push(Span { start: place.start(), end: place.end(), kind: pattern.kind });
                }
            }
        }
        self.0.exact.find(text, &mut spans);
        unite(&mut spans);
        spans
    }

    pub(crate) fn redact(&self, span: Span, hits: &mut Hits) -> &str {
        let kind = &self.0.kinds[span.kind];
        hits.add(&kind.label, span.end - span.start);
        &kind.marker
    }

    pub(crate) fn exact(&self) -> &Exact {
        &self.0.exact
    }
}
