//! Patterns that may cost much for every byte of a long text: matched step by step, so that a cancel is heard.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};

use grep_matcher::{Match, Matcher, NoCaptures};
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::hybrid::{dfa, regex};
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};
use regex_syntax::hir::{Hir, HirKind};

use super::GrepQuery;

/// Bytes of memory for states that are kept.
const KEPT: usize = 8 << 20;
/// Bytes between two looks at the flag: with the largest pattern that is let through, some milliseconds.
const LOOK: usize = 128;

/// How many places of a pattern can be matched at the same time, at most: what a byte may cost.
pub(super) fn weight(pattern: &str) -> u64 {
    regex_syntax::Parser::new().parse(pattern).map_or(u64::MAX, |hir| places(&hir))
}

fn places(hir: &Hir) -> u64 {
    let sum = |all: &[Hir]| all.iter().map(places).fold(0, u64::saturating_add);
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 0,
        HirKind::Literal(literal) => literal.0.len() as u64,
        HirKind::Class(_) => 1,
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or_else(|| repetition.min.saturating_add(1));
            places(&repetition.sub).saturating_mul(u64::from(times))
        }
        HirKind::Capture(capture) => places(&capture.sub),
        HirKind::Concat(all) | HirKind::Alternation(all) => sum(all),
    }
}

/// Makes a pattern ready that the usual engine has accepted already.
pub(super) fn compile(query: &GrepQuery, limit: usize) -> Result<regex::Regex, String> {
    let crlf = !query.multiline && query.pattern.contains('$');
    let syntax = syntax::Config::new()
        .case_insensitive(query.case_insensitive)
        .multi_line(true)
        .dot_matches_new_line(query.multiline)
        .crlf(crlf)
        .utf8(false);
    regex::Regex::builder()
        .syntax(syntax)
        .thompson(thompson::Config::new().utf8(false).nfa_size_limit(Some(limit)))
        .dfa(
            dfa::Config::new()
                .cache_capacity(KEPT)
                .skip_cache_capacity_check(true)
                .unicode_word_boundary(true),
        )
        .build(&query.pattern)
        .map_err(|error| error.to_string())
}

/// A pattern of one thread, which stops when the flag rises.
pub(super) struct Watched<'c> {
    regex: &'c regex::Regex,
    cache: RefCell<regex::Cache>,
    cancel: &'c AtomicBool,
}

/// Why a text was not matched to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Stopped {
    #[error("cancelled")]
    Cancelled,
    #[error(
        "a pattern as large as this cannot be held against text that is not ASCII where it says \\b; write (?-u:\\b)"
    )]
    Quit,
}

impl<'c> Watched<'c> {
    pub(super) fn new(regex: &'c regex::Regex, cancel: &'c AtomicBool) -> Self {
        Self { regex, cache: RefCell::new(regex.create_cache()), cancel }
    }

    /// Where the leftmost match ends; with `soon`, the end of any match.
    fn end(
        &self,
        dfa: &DFA,
        cache: &mut Cache,
        text: &[u8],
        at: usize,
        soon: bool,
    ) -> Result<Option<usize>, Stopped> {
        let input = Input::new(text).range(at..);
        let mut state = dfa.start_state_forward(cache, &input).map_err(|_| Stopped::Quit)?;
        let mut found = None;
        for (k, byte) in text.iter().enumerate().skip(at) {
            self.look(k)?;
            state = dfa.next_state(cache, state, *byte).map_err(|_| Stopped::Quit)?;
            if state.is_match() {
                // A match is known one byte after its end.
                found = Some(k);
                if soon {
                    return Ok(found);
                }
            } else if state.is_dead() {
                return Ok(found);
            } else if state.is_quit() {
                return Err(Stopped::Quit);
            }
        }
        state = dfa.next_eoi_state(cache, state).map_err(|_| Stopped::Quit)?;
        Ok(if state.is_match() { Some(text.len()) } else { found })
    }

    /// Where the match begins that ends at `end`.
    fn start(
        &self,
        dfa: &DFA,
        cache: &mut Cache,
        text: &[u8],
        at: usize,
        end: usize,
    ) -> Result<usize, Stopped> {
        let input = Input::new(text).range(at..end).anchored(Anchored::Yes);
        let mut state = dfa.start_state_reverse(cache, &input).map_err(|_| Stopped::Quit)?;
        let mut found = end;
        for k in (at..end).rev() {
            self.look(k)?;
            state = dfa.next_state(cache, state, text[k]).map_err(|_| Stopped::Quit)?;
            if state.is_match() {
                found = k + 1;
            } else if state.is_dead() {
                return Ok(found);
            } else if state.is_quit() {
                return Err(Stopped::Quit);
            }
        }
        let last = match at.checked_sub(1) {
            Some(before) => dfa.next_state(cache, state, text[before]),
            None => dfa.next_eoi_state(cache, state),
        };
        Ok(if last.map_err(|_| Stopped::Quit)?.is_match() { at } else { found })
    }

    fn look(&self, k: usize) -> Result<(), Stopped> {
        if k.is_multiple_of(LOOK) && self.cancel.load(Ordering::Relaxed) {
            return Err(Stopped::Cancelled);
        }
        Ok(())
    }
}

impl Matcher for Watched<'_> {
    type Captures = NoCaptures;
    type Error = Stopped;

    fn find_at(&self, text: &[u8], at: usize) -> Result<Option<Match>, Stopped> {
        let mut cache = self.cache.borrow_mut();
        let (forward, reverse) = cache.as_parts_mut();
        let Some(end) = self.end(self.regex.forward(), forward, text, at, false)? else { return Ok(None) };
        let start = self.start(self.regex.reverse(), reverse, text, at, end)?;
        Ok(Some(Match::new(start, end)))
    }

    fn shortest_match_at(&self, text: &[u8], at: usize) -> Result<Option<usize>, Stopped> {
        let mut cache = self.cache.borrow_mut();
        self.end(self.regex.forward(), cache.as_parts_mut().0, text, at, true)
    }

    fn new_captures(&self) -> Result<NoCaptures, Stopped> {
        Ok(NoCaptures::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grep::plan::{Matchers, Plan};
    use crate::root::Workspace;
    use proptest::prelude::*;

    #[test]
    fn a_pattern_weighs_what_it_can_be_in_at_once() {
        for (pattern, places) in [
            ("abc", 3),
            ("a|bc", 3),
            (r"\w+$", 2),
            ("(ab){10}c?", 21),
            ("x{100}{200}", 20_000),
            ("[", u64::MAX),
        ] {
            assert_eq!(weight(pattern), places, "{pattern}");
        }
    }

    proptest! {
        /// Both engines find the same.
        #[test]
        fn it_finds_what_the_usual_engine_finds(
            pattern in r"(\^)?([abx.]|a\*|b\{2\}|\(a\|bx\)|\[ab\]\+|\\b|x\?){1,5}(\$)?",
            text in "[abx \r]{0,30}",
            at in 0usize..5,
            multiline in any::<bool>(),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let place = Workspace::open("w", dir.path()).unwrap().resolve(".").unwrap();
            let mut query = GrepQuery::new(pattern, place);
            query.multiline = multiline;
            let Ok(plan) = Plan::new(&query, &Matchers::default()) else { return Ok(()) };
            let regex = compile(&query, 10 << 20).unwrap();
            let never = AtomicBool::new(false);
            let watched = Watched::new(&regex, &never);
            let at = at.min(text.len());
            prop_assert_eq!(
                watched.find_at(text.as_bytes(), at).unwrap(),
                plan.matcher.find_at(text.as_bytes(), at).unwrap()
            );
            prop_assert_eq!(
                watched.is_match(text.as_bytes()).unwrap(),
                plan.matcher.is_match(text.as_bytes()).unwrap()
            );
        }
    }
}
