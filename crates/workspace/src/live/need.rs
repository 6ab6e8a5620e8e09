//! What a text must contain to match a pattern, so that the index can leave out the rest.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

use super::trigram::{fold, trigram};

/// What a text must contain to match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing in particular.
    Anything,
    /// These trigrams, and each of these needs.
    All { grams: Vec<u32>, also: Vec<Need> },
    /// One of these.
    Any(Vec<Need>),
}

/// What a part of a pattern matches: one of few strings, or whatever satisfies a need.
enum Part {
    Strings(Vec<Vec<u8>>),
    Needs(Need),
}

/// Strings that are followed at once; more make a plan longer than it helps.
const MAX_STRINGS: usize = 24;
/// Members of a class that are followed.
const MAX_CLASS: usize = 8;

impl Need {
    /// What a text must contain to match this pattern. A pattern that cannot be parsed needs nothing.
    pub(crate) fn of(pattern: &str, case_insensitive: bool, dot_matches_new_line: bool) -> Self {
        let hir = ParserBuilder::new()
            .case_insensitive(case_insensitive)
            .multi_line(true)
            .dot_matches_new_line(dot_matches_new_line)
            .utf8(false)
            .build()
            .parse(pattern);
        hir.map_or(Self::Anything, |hir| part(&hir).into_need())
    }

    fn of_strings(strings: &[Vec<u8>]) -> Self {
        if strings.is_empty() || strings.iter().any(|string| string.len() < 3) {
            return Self::Anything;
        }
        let mut needs: Vec<Self> = strings
            .iter()
            .map(|string| {
                let mut grams: Vec<u32> = string.windows(3).map(trigram).collect();
                grams.sort_unstable();
                grams.dedup();
                Self::All { grams, also: Vec::new() }
            })
            .collect();
        if needs.len() > 1 { Self::Any(needs) } else { needs.pop().unwrap_or(Self::Anything) }
    }
}

impl Part {
    fn into_need(self) -> Need {
        match self {
            Self::Strings(strings) => Need::of_strings(&strings),
            Self::Needs(need) => need,
        }
    }
}

fn part(hir: &Hir) -> Part {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Part::Strings(vec![Vec::new()]),
        // a part of a character may have been folded away with the rest of it
        HirKind::Literal(literal) if std::str::from_utf8(&literal.0).is_err() => Part::Needs(Need::Anything),
        HirKind::Literal(literal) => {
            let mut folded = Vec::new();
            fold(&literal.0, &mut folded);
            Part::Strings(vec![folded])
        }
        HirKind::Class(class) => of_class(class),
        HirKind::Capture(capture) => part(&capture.sub),
        HirKind::Repetition(repetition) => match (repetition.min, repetition.max) {
            (1, Some(1)) => part(&repetition.sub),
            (0, Some(1)) => match part(&repetition.sub) {
                Part::Strings(mut strings) if strings.len() < MAX_STRINGS => {
                    strings.push(Vec::new());
                    Part::Strings(strings)
                }
                _ => Part::Needs(Need::Anything),
            },
            (0, _) => Part::Needs(Need::Anything),
            _ => Part::Needs(part(&repetition.sub).into_need()),
        },
        HirKind::Alternation(parts) => alternation(parts),
        HirKind::Concat(parts) => concatenation(parts),
    }
}

fn alternation(parts: &[Hir]) -> Part {
    let (mut all, mut needs, mut exact) = (Vec::new(), Vec::new(), true);
    for one in parts {
        match part(one) {
            Part::Strings(strings) => {
                needs.push(Need::of_strings(&strings));
                all.extend(strings);
            }
            Part::Needs(need) => {
                exact = false;
                needs.push(need);
            }
        }
    }
    if exact && all.len() <= MAX_STRINGS {
        return Part::Strings(all);
    }
    Part::Needs(if needs.contains(&Need::Anything) { Need::Anything } else { Need::Any(needs) })
}

fn concatenation(parts: &[Hir]) -> Part {
    let mut needs = Vec::new();
    // the strings that the parts since the last break make together
    let mut run: Vec<Vec<u8>> = vec![Vec::new()];
    let mut whole = true;
    for one in parts {
        match part(one) {
            Part::Strings(strings) => {
                if strings.len() * run.len() > MAX_STRINGS {
                    needs.push(Need::of_strings(&run));
                    run = vec![Vec::new()];
                    whole = false;
                }
                run = match strings.len() {
                    0..=MAX_STRINGS => {
                        run.iter().flat_map(|a| strings.iter().map(move |b| [&a[..], b].concat())).collect()
                    }
                    _ => vec![Vec::new()],
                };
            }
            Part::Needs(need) => {
                needs.push(Need::of_strings(&run));
                needs.push(need);
                run = vec![Vec::new()];
                whole = false;
            }
        }
    }
    if whole {
        return Part::Strings(run);
    }
    needs.push(Need::of_strings(&run));
    let (mut all_grams, mut rest) = (Vec::new(), Vec::new());
    for need in needs {
        match need {
            Need::Anything => {}
            Need::All { grams, also } => {
                all_grams.extend(grams);
                rest.extend(also);
            }
            any @ Need::Any(_) => rest.push(any),
        }
    }
    if all_grams.is_empty() && rest.is_empty() {
        return Part::Needs(Need::Anything);
    }
    all_grams.sort_unstable();
    all_grams.dedup();
    Part::Needs(Need::All { grams: all_grams, also: rest })
}

fn of_class(class: &Class) -> Part {
    let mut strings: Vec<Vec<u8>> = Vec::new();
    let mut folded = Vec::new();
    match class {
        Class::Unicode(class) => {
            for range in class.ranges() {
                if range.len() > 64 {
                    return Part::Needs(Need::Anything);
                }
                for c in range.start()..=range.end() {
                    fold(c.encode_utf8(&mut [0; 4]).as_bytes(), &mut folded);
                    strings.push(folded.clone());
                }
            }
        }
        Class::Bytes(class) => {
            for range in class.ranges() {
                if range.end() >= 128 {
                    return Part::Needs(Need::Anything);
                }
                strings.extend((range.start()..=range.end()).map(|byte| vec![byte.to_ascii_lowercase()]));
            }
        }
    }
    strings.sort();
    strings.dedup();
    if strings.len() > MAX_CLASS { Part::Needs(Need::Anything) } else { Part::Strings(strings) }
}

#[cfg(test)]
mod tests {
    use super::super::trigram::{Extractor, Index};
    use super::*;
    use regex_syntax::escape;

    const CORPUS: [&str; 2] = [include_str!("../edit.rs"), include_str!("../patch/hunk.rs")];

    struct Random(u64);

    impl Random {
        fn below(&mut self, n: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 11) as usize % n
        }
    }

    /// Pieces of real lines, glued with operators.
    fn pattern(random: &mut Random, line: &[char]) -> String {
        let mut out = String::new();
        let mut at = random.below(line.len() / 2);
        for _ in 0..=random.below(4) {
            let end = (at + 1 + random.below(6)).min(line.len());
            let text = escape(&line[at..end].iter().collect::<String>());
            at = end;
            out += &match random.below(13) {
                0 => format!("({text}|zz)"),
                1 => format!("(?:{text})?"),
                2 => format!("(?:{text})+"),
                3 => format!("{text}.*"),
                4 => {
                    at = (at + 1).min(line.len());
                    format!("{text}.")
                }
                5 => format!("(?i:{text})"),
                6 => format!("{text}[a-z]?"),
                7 => format!(r"{text}[ \t]*"),
                8 => format!("(?:{text}){{1,2}}"),
                9 => format!(r"(?-u:\b){text}"),
                10 => format!("(?:{text}|(?:x|y)+){{0,3}}"),
                _ => text,
            };
            if at >= line.len() {
                break;
            }
        }
        // these take long to compile, so that not all can have one
        match random.below(500) {
            0 => format!(r"\b{out}"),
            1 => format!(r"{out}\s*"),
            2 => format!(r"(?:{out}|\p{{Greek}}\s)\B?"),
            3 => format!(r"\s?{out}[\s\d]?\S*"),
            4 => format!(r"\w*{out}"),
            _ => out,
        }
    }

    /// Ten thousand patterns: every text that matches is a candidate.
    #[test]
    fn no_match_is_missed() {
        let texts: Vec<String> = CORPUS
            .iter()
            .flat_map(|file| {
                file.lines().collect::<Vec<_>>().chunks(40).map(|c| c.join("\n")).collect::<Vec<_>>()
            })
            .chain(["\u{212A}elvin and long \u{17F}".to_owned(), "GRÜN grün KELVIN Straße".to_owned()])
            .collect();
        let (mut index, mut extractor) = (Index::default(), Extractor::default());
        for text in &texts {
            extractor.run(text.as_bytes());
            index.add(&extractor.found);
        }
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        let (mut tried, mut planned) = (0, 0);
        while tried < 10_000 {
            let lines: Vec<&str> = texts[random.below(texts.len())].lines().collect();
            let line: Vec<char> = lines[random.below(lines.len())].trim().chars().collect();
            if line.len() < 6 {
                continue;
            }
            let pattern = pattern(&mut random, &line);
            let insensitive = random.below(4) == 0;
            tried += 1;
            let Some(candidates) = index.candidates(&Need::of(&pattern, insensitive, false), tried % 2 == 0)
            else {
                continue;
            };
            planned += 1;
            let matcher = grep_regex::RegexMatcherBuilder::new()
                .case_insensitive(insensitive)
                .multi_line(true)
                .build(&pattern)
                .unwrap();
            for (id, text) in texts.iter().enumerate() {
                use grep_matcher::Matcher as _;
                if candidates.binary_search(&(id as u32)).is_err() {
                    assert!(!matcher.is_match(text.as_bytes()).unwrap(), "{pattern} misses {text:?}");
                }
            }
        }
        assert!(planned > 6000, "only {planned} of {tried} patterns had trigrams");
    }
}
