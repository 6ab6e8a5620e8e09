//! A query made ready.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use grep_matcher::{LineTerminator, Matcher as _};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use ignore::overrides::{Override, OverrideBuilder};

use super::watched;
use super::{GrepError, GrepQuery, OutputMode};
use regex_automata::hybrid::regex::Regex as Stepwise;
use std::sync::OnceLock;

/// What one line, or one file in multiline mode, may take.
pub(super) const HEAP_LIMIT: usize = 64 << 20;

/// Bytes of a pattern.
const LONGEST: usize = 8 << 10;
/// Bytes that a pattern may take once it is compiled.
const COMPILED: usize = 16 << 20;
/// What a search of one text may cost, in steps: above it may take seconds, and is done so that a cancel is heard.
const QUICK: u64 = 1 << 30;

/// Compiled patterns that were used lately: one with a Unicode class costs milliseconds to compile.
#[derive(Default)]
pub(crate) struct Matchers(Mutex<VecDeque<(MatcherKey, Compiled)>>);

type MatcherKey = (String, bool, bool);
/// With what a byte may cost.
type Compiled = (RegexMatcher, u64);

impl Matchers {
    const KEPT: usize = 32;

    fn get(&self, query: &GrepQuery) -> Result<Compiled, grep_regex::Error> {
        let key = (query.pattern.clone(), query.case_insensitive, query.multiline);
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, matcher)) = kept().iter().find(|(other, _)| *other == key) {
            return Ok(matcher.clone());
        }
        let made = (matcher(query)?, watched::weight(&query.pattern));
        let mut kept = kept();
        kept.truncate(Self::KEPT - 1);
        kept.push_front((key, made.clone()));
        Ok(made)
    }
}

/// A query made ready: compiled once, used by every thread.
pub(super) struct Plan<'q> {
    pub(super) query: &'q GrepQuery,
    pub(super) matcher: RegexMatcher,
    filter: Option<Override>,
    weight: u64,
    stepwise: OnceLock<Result<Stepwise, String>>,
}

impl<'q> Plan<'q> {
    pub(super) fn new(query: &'q GrepQuery, matchers: &Matchers) -> Result<Self, GrepError> {
        if query.pattern.len() > LONGEST {
            return Err(GrepError::Pattern(format!(
                "the pattern has {} bytes, {LONGEST} are the most; look for a part of it",
                query.pattern.len()
            )));
        }
        let (matcher, weight) =
            matchers.get(query).map_err(|error| GrepError::Pattern(explain(&error, query)))?;
        let filter = match &query.glob {
            Some(glob) if !glob.is_empty() => Some(
                OverrideBuilder::new("")
                    .add(glob.strip_prefix("./").unwrap_or(glob))
                    .and_then(|builder| builder.build())
                    .map_err(|error| GrepError::Glob(error.to_string()))?,
            ),
            _ => None,
        };
        Ok(Self { query, matcher, filter, weight, stepwise: OnceLock::new() })
    }

    /// Bytes of a line that the usual engine searches quickly whatever is in it.
    pub(super) fn longest_line(&self) -> u64 {
        QUICK / self.weight.max(1)
    }

    /// The engine that hears a cancel, when a text of this size may take long.
    pub(super) fn stepwise(&self, size: u64) -> Option<&Result<Stepwise, String>> {
        let slow = self.weight.saturating_mul(size) > QUICK;
        slow.then(|| self.stepwise.get_or_init(|| watched::compile(self.query, COMPILED)))
    }

    /// Whether the query's glob lets a file through. The glob may mean its path from the root or from the folder
    /// searched, also when it leaves files out.
    pub(super) fn wants(&self, path: &Path) -> bool {
        let Some(filter) = &self.filter else { return true };
        let passes = |path: &Path| !filter.matched(path, false).is_ignore();
        let below = path.strip_prefix(self.query.path.relative());
        match filter.num_whitelists() {
            0 => passes(path) && below.map_or(true, passes),
            _ => passes(path) || below.is_ok_and(passes),
        }
    }

    pub(super) fn searcher(&self) -> Searcher {
        let context = if self.query.mode == OutputMode::Content { self.query.context } else { 0 };
        SearcherBuilder::new()
            .line_terminator(self.matcher.line_terminator().unwrap_or(LineTerminator::byte(b'\n')))
            .line_number(self.query.mode == OutputMode::Content)
            // where a file turns binary is decided before the searcher sees it, the same way for all sizes
            .binary_detection(BinaryDetection::none())
            .heap_limit(Some(HEAP_LIMIT))
            .multi_line(self.query.multiline)
            .before_context(context)
            .after_context(context)
            .build()
    }
}

fn matcher(query: &GrepQuery) -> Result<RegexMatcher, grep_regex::Error> {
    let mut builder = RegexMatcherBuilder::new();
    builder.case_insensitive(query.case_insensitive).multi_line(true).size_limit(COMPILED);
    if query.multiline {
        builder.dot_matches_new_line(true);
    } else if query.pattern.contains('$') {
        // `$` stands before the carriage return too, or it would never match in a file with \r\n
        builder.crlf(true);
    } else {
        builder.line_terminator(Some(b'\n'));
    }
    builder.build(&query.pattern)
}

fn explain(error: &grep_regex::Error, query: &GrepQuery) -> String {
    let hint = match query.multiline {
        false if query.pattern.contains("\\n") || query.pattern.contains('\n') => {
            "\nset multiline=true to match across lines"
        }
        _ if error.to_string().contains("size limit") => {
            "\nit is too large: take less than it in {…}, or look for a part of it"
        }
        _ if error.to_string().contains("not supported") => {
            "\nleave it out and look through what matches then, or use `grep -P` in a shell"
        }
        _ => "\nescape ( ) [ ] { } . * + ? | ^ $ with a backslash to match them literally",
    };
    // the engine wraps the pattern before it parses it; alone, the caret points at the right place
    let alone = regex_syntax::Parser::new().parse(&query.pattern).err().map(|error| error.to_string());
    format!("invalid pattern: {}{hint}", alone.unwrap_or_else(|| error.to_string()))
}
