//! Indentation of text that moves into a file.

use std::collections::HashSet;
use std::ops::Range;

use crate::language::Language;

/// The white space at the beginning of the line that `at` is on.
pub(crate) fn at(source: &[u8], at: usize) -> String {
    let start = line_start(source, at);
    let line = &source[start..];
    let blank = line.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    String::from_utf8_lossy(&line[..blank.min(at.max(start) - start)]).into_owned()
}

/// Where the line that `at` is on begins; a byte-order mark is not part of it.
pub(crate) fn line_start(source: &[u8], at: usize) -> usize {
    let before = source.get(..at).unwrap_or(source);
    let start = memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1);
    if start == 0 && source.starts_with(b"\xEF\xBB\xBF") { at.min(3) } else { start }
}

/// One step of indentation in a file: the one that most lines make below the line before them.
pub(crate) fn unit(language: Language, source: &[u8]) -> String {
    let (mut tabs, mut spaces, mut last) = (0usize, 0usize, 0usize);
    let mut steps = [0usize; 9];
    let lines = source.split(|byte| *byte == b'\n').take(2000).map(<[u8]>::trim_ascii_end);
    for line in lines.filter(|line| !line.is_empty()) {
        if line.starts_with(b"\t") {
            tabs += 1;
            continue;
        }
        let here = line.iter().take_while(|byte| **byte == b' ').count();
        // a single space is the margin of a block comment
        spaces += usize::from(here > 1);
        if let Some(step @ 2..=8) = here.checked_sub(last) {
            steps[step] += 1;
        }
        last = here;
    }
    let common = (2..steps.len()).rev().max_by_key(|step| steps[*step]).filter(|step| steps[*step] > 0);
    match common {
        _ if language == Language::Go || tabs > spaces => "\t".to_owned(),
        Some(step) => " ".repeat(step),
        None if matches!(language, Language::Rust | Language::Python | Language::Java | Language::C) => {
            " ".repeat(4)
        }
        None => "  ".to_owned(),
    }
}

/// How a line takes part when text moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// As code does.
    Code,
    /// It is in a string that stands for itself: it moves along, but says nothing about the code's indentation.
    Along,
    /// It is in a string literal: its white space is content.
    Fixed,
}

/// A string literal that reaches over a line end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) at: Range<usize>,
    /// [`Hold::Along`] or [`Hold::Fixed`].
    pub(crate) hold: Hold,
}

/// Where text goes.
pub(crate) struct Place<'a> {
    pub(crate) language: Language,
    /// The indentation of its outermost lines there.
    pub(crate) target: &'a str,
    /// One step of indentation in the file.
    pub(crate) unit: &'a str,
    /// What is there now.
    pub(crate) old: &'a str,
}

/// Text by lines.
#[derive(Clone)]
pub(crate) struct Lines<'t> {
    lines: Vec<&'t str>,
    hold: Vec<Hold>,
}

impl<'t> Lines<'t> {
    /// `strings` are ranges of `text`.
    pub(crate) fn new(text: &'t str, strings: &[Text]) -> Self {
        let lines: Vec<&str> = text.split('\n').collect();
        let mut hold = Vec::with_capacity(lines.len());
        let mut at = 0;
        for line in &lines {
            let around = strings.iter().find(|string| string.at.start < at && at < string.at.end);
            hold.push(around.map_or(Hold::Code, |string| string.hold));
            at += line.len() + 1;
        }
        Self { lines, hold }
    }

    /// Some of the lines.
    pub(crate) fn part(&self, lines: Range<usize>) -> Self {
        Self { lines: self.lines[lines.clone()].to_vec(), hold: self.hold[lines].to_vec() }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    /// The last line, when it is code.
    pub(crate) fn last_of_code(&self) -> Option<&'t str> {
        self.lines.last().copied().filter(|_| self.hold.last() == Some(&Hold::Code))
    }

    fn held(&self, wanted: Hold) -> impl Iterator<Item = &'t str> {
        let fits = move |(line, hold): &(&&'t str, &Hold)| **hold == wanted && !line.trim().is_empty();
        self.lines.iter().zip(&self.hold).filter(fits).map(|(line, _)| *line)
    }

    fn code(&self) -> impl Iterator<Item = &'t str> {
        self.held(Hold::Code)
    }

    /// The white space that all lines begin with; `None` when there are only blank ones.
    fn common(&self) -> Option<&'t str> {
        let shared = |a: &'t str, b: &'t str| {
            let same = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
            &a[..same]
        };
        self.code().map(white).reduce(shared).or_else(|| self.held(Hold::Along).map(white).reduce(shared))
    }

    /// The indentation of the first statement: a comment in Python and a label in Go may stand anywhere.
    pub(crate) fn base(&self, language: Language) -> Option<&'t str> {
        let stands = |line: &&str| match language {
            Language::Python => !line.trim_start().starts_with('#'),
            Language::Go => !line.trim_end().strip_suffix(':').is_some_and(is_word),
            _ => true,
        };
        self.code().find(stands).map(white).or_else(|| self.common())
    }

    /// Whether the first line may have lost its indentation on the way while the others kept it: unlikely or likely.
    fn first_is_bare(&self, place: &Place<'_>) -> Option<bool> {
        let Place { language, target, unit, .. } = *place;
        let first = self.code().next().filter(|line| white(line).is_empty() && !target.is_empty())?;
        let rest = self.part(1..self.lines.len());
        let below = rest.common()?.strip_prefix(target)?;
        let (whole, first) = (first, without_comment(language, first));
        // lines that come back tell how they stand, and the body of a Python function has nothing that closes it
        let old: HashSet<&str> = place.old.lines().map(str::trim_end).collect();
        let kept = rest.code().any(|line| old.contains(line.trim_end()));
        let moved = |line: &str| old.contains(format!("{target}{}", line.trim_end()).as_str());
        if below.is_empty() && kept && place.old.trim_start().starts_with(whole.trim_end()) {
            return Some(true);
        }
        if !below.is_empty() {
            let body = language == Language::Python && first.ends_with(':') && below == unit;
            return (body || kept && !rest.code().any(moved)).then_some(true);
        }
        let second = rest.code().next().unwrap_or_default();
        // what the first line opens or leaves unfinished is indented below it: then the first line is where the rest
        // of the text ends up, or below that
        let deeper = white(second).len() > target.len();
        if first.ends_with(['{', '(', '[']) {
            let closes = |line: &str| line.trim_start().starts_with([')', ']', '}']);
            return Some(deeper || rest.code().any(closes));
        }
        Some(deeper || !goes_on(first, second.trim_start()))
    }

    /// Whether it is indented by spaces where the file has tabs, or the other way round.
    fn is_foreign(&self, place: &Place<'_>) -> bool {
        let indented = || self.code().filter(|line| !white(line).is_empty());
        let own = if place.unit == "\t" { "\t" } else { " " };
        let known = |line: &str| place.old.lines().any(|old| old.trim_end() == line.trim_end());
        indented().next().is_some() && !indented().any(|line| white(line).contains(own) || known(line))
    }

    /// The text as it may stand at its place, the likeliest form first.
    pub(crate) fn fitted(&self, place: &Place<'_>) -> Vec<String> {
        let whole = || self.lines.join("\n");
        let Some(common) = self.common() else { return vec![whole()] };
        let target = place.target;
        let bare = || format!("{target}{}", whole());
        let foreign = self.is_foreign(place);
        let moved = || self.moved(common, place, foreign);
        // what is decorated stands below its decorator, not further in: the first line alone lost its indentation
        let first =
            self.lines.first().filter(|line| place.language == Language::Python && line.starts_with('@'));
        if let Some(first) = first {
            let rest = self.part(1..self.lines.len());
            if let Some(common) = rest.common().filter(|common| !common.is_empty()) {
                return vec![format!("{target}{first}\n{}", rest.moved(common, place, foreign))];
            }
        }
        match self.first_is_bare(place) {
            Some(true) => vec![bare(), moved()],
            Some(false) => vec![moved(), bare()],
            None if common == target && !foreign => vec![whole()],
            None if !target.is_empty() && self.base(place.language) == Some(target) => vec![whole()],
            None => vec![moved()],
        }
    }

    fn moved(&self, common: &str, place: &Place<'_>, foreign: bool) -> String {
        let step = self.code().map(|line| white(line).len() - common.len()).filter(|n| *n > 0).min();
        let mut out = String::new();
        for (at, (line, hold)) in self.lines.iter().zip(&self.hold).enumerate() {
            if at > 0 {
                out.push('\n');
            }
            let blank = line.trim().is_empty();
            match line.strip_prefix(common) {
                Some(line) if *hold != Hold::Fixed && !blank => {
                    let (extra, rest) = line.split_at(white(line).len());
                    out.push_str(place.target);
                    match foreign {
                        true => out.push_str(&converted(extra, place.unit, step.unwrap_or(4))),
                        false => out.push_str(extra),
                    }
                    out.push_str(rest);
                }
                _ if *hold == Hold::Code && blank => {}
                _ => out.push_str(line),
            }
        }
        out
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// A line without the comment at its end.
fn without_comment(language: Language, line: &str) -> &str {
    let mark = if language == Language::Python { '#' } else { '/' };
    let mut quote = None;
    let mut last = ' ';
    for (at, c) in line.char_indices() {
        match quote {
            Some(open) if c == open && last != '\\' => quote = None,
            Some(_) => {}
            None if matches!(c, '"' | '`') || c == '\'' && language != Language::Rust => quote = Some(c),
            None if c == mark
                && (c == '#' || line[at..].starts_with("//") || line[at..].starts_with("/*")) =>
            {
                return line[..at].trim_end();
            }
            None => {}
        }
        last = c;
    }
    line.trim_end()
}

/// Whether what begins in one line goes on in the next.
fn goes_on(first: &str, second: &str) -> bool {
    const OPEN: [char; 13] = [':', ',', '\\', '=', '>', '+', '-', '*', '&', '|', '?', '<', '.'];
    const GOES_ON: [&str; 16] =
        ["?", ".", "=>", "->", "||", "&&", "??", "==", "!=", "+ ", "- ", "* ", "/ ", ": ", "and ", "or "];
    const ASKS: [&str; 8] = ["if ", "if(", "for ", "for(", "while ", "while(", "else if ", "} else if "];
    let hangs = first.ends_with(')') && ASKS.iter().any(|word| first.starts_with(word));
    let done = [";", "}", "++", "--"].iter().any(|end| first.ends_with(end));
    let open = first.ends_with(OPEN) || matches!(first, "else" | "do" | "} else");
    !done && (open || hangs || GOES_ON.iter().any(|mark| second.starts_with(mark)))
}

fn white(line: &str) -> &str {
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

/// Indentation in the file's own kind of white space.
fn converted(extra: &str, unit: &str, step: usize) -> String {
    match unit {
        "\t" => "\t".repeat(extra.len() / step) + &" ".repeat(extra.len() % step),
        spaces => extra.replace('\t', spaces),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forms(language: Language, text: &str, target: &str, unit: &str) -> Vec<String> {
        Lines::new(text, &[]).fitted(&Place { language, target, unit, old: "" })
    }

    fn fitted(text: &str, target: &str, unit: &str) -> String {
        forms(Language::Rust, text, target, unit).swap_remove(0)
    }

    #[test]
    fn text_moves_as_a_whole() {
        assert_eq!(fitted("if x {\n    y\n}", "\t", "\t"), "\tif x {\n\t\ty\n\t}");
        assert_eq!(fitted("a\n\n  b", "    ", "    "), "    a\n\n      b");
        assert_eq!(fitted("    a\n    b", "    ", "    "), "    a\n    b");
        assert_eq!(fitted("a\n\tb", "  ", "  "), "  a\n    b");
        assert_eq!(
            fitted("a\n    b", "    ", "    "),
            "    a\n    b",
            "the first line had lost its indentation"
        );
        let lost = "match a {\n        _ => b,\n    }";
        assert_eq!(fitted(lost, "    ", "    "), format!("    {lost}"));
    }

    /// What goes on below the first line is indented because of it.
    #[test]
    fn what_goes_on_keeps_its_step() {
        let kept = |language, text: &str| {
            let forms = forms(language, text, "    ", "    ");
            let moved: Vec<_> = text.lines().map(|line| format!("    {line}")).collect();
            assert_eq!(forms[0], moved.join("\n"));
            assert_eq!(forms[1], format!("    {text}"), "the other way of reading it");
        };
        kept(Language::Python, "if a:\n    b");
        kept(Language::Python, "if a:  # note\n    return 1");
        kept(Language::Python, "if a == '#':\n    return 1");
        kept(Language::Rust, "v.iter()\n    .map(|x| x + 1)\n    .sum()");
        kept(Language::Rust, "f(\n    a, b)");
        kept(Language::TypeScript, "if (v) // why\n    return 1;");
        kept(Language::TypeScript, "return a\n    ? b\n    : c;");
        kept(Language::Go, "return a &&\n    b");
        // and is not read so when the lines below lie deeper than that
        let lost = "if a:  # note\n        return 1\n    return 2";
        assert_eq!(forms(Language::Python, lost, "    ", "    ")[0], format!("    {lost}"));
    }

    #[test]
    fn lines_in_strings_stay() {
        let text = "x = '''\nkeep\n'''\ny";
        let place = Place { language: Language::Python, target: "  ", unit: "  ", old: "" };
        let string = |hold| [Text { at: 4..16, hold }];
        let fitted = |hold| Lines::new(text, &string(hold)).fitted(&place).swap_remove(0);
        assert_eq!(fitted(Hold::Fixed), "  x = '''\nkeep\n'''\n  y");
        assert_eq!(fitted(Hold::Along), "  x = '''\n  keep\n  '''\n  y");
    }

    /// A file with both kinds of white space keeps them where its own lines come back.
    #[test]
    fn lines_of_the_file_are_not_converted() {
        let text = "def f():\n    a\n    b";
        let place = |old| Place { language: Language::Python, target: "", unit: "\t", old };
        let fitted = |old| Lines::new(text, &[]).fitted(&place(old)).swap_remove(0);
        assert_eq!(fitted("def f():\n    a"), text);
        assert_eq!(fitted("def f():\n\ta"), "def f():\n\ta\n\tb");
    }
}
