//! Indentation of text that moves into a file.

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

/// One step of indentation in a file.
pub(crate) fn unit(language: Language, source: &[u8]) -> String {
    let mut least = usize::MAX;
    let mut tabs = language == Language::Go;
    for line in source.split(|byte| *byte == b'\n').take(2000) {
        if line.first() == Some(&b'\t') {
            tabs = true;
            break;
        }
        let spaces = line.iter().take_while(|byte| **byte == b' ').count();
        // a single space is the margin of a block comment
        if spaces > 1 && spaces < line.trim_ascii_end().len() {
            least = least.min(spaces);
        }
    }
    match (tabs, least) {
        (true, _) => "\t".to_owned(),
        (false, 2..=8) => " ".repeat(least),
        _ if matches!(language, Language::Rust | Language::Python | Language::Java | Language::C) => {
            " ".repeat(4)
        }
        _ => "  ".to_owned(),
    }
}

/// Text by lines, with those that begin inside a string literal marked: their white space is content.
pub(crate) struct Lines<'t> {
    pub(crate) lines: Vec<&'t str>,
    pub(crate) fixed: Vec<bool>,
}

impl<'t> Lines<'t> {
    /// `strings` are ranges of `text`.
    pub(crate) fn new(text: &'t str, strings: &[std::ops::Range<usize>]) -> Self {
        let lines: Vec<&str> = text.split('\n').collect();
        let mut fixed = Vec::with_capacity(lines.len());
        let mut at = 0;
        for line in &lines {
            fixed.push(strings.iter().any(|string| string.start < at && at < string.end));
            at += line.len() + 1;
        }
        Self { lines, fixed }
    }

    fn counting(&self) -> impl Iterator<Item = &'t str> {
        let counts = |(line, fixed): &(&&'t str, &bool)| !**fixed && !line.trim().is_empty();
        self.lines.iter().zip(&self.fixed).filter(counts).map(|(line, _)| *line)
    }

    /// The white space that all lines begin with; `None` when there are only blank ones.
    pub(crate) fn common(&self) -> Option<&'t str> {
        self.counting().map(white).reduce(|a, b| {
            let same = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
            &a[..same]
        })
    }

    /// Whether the first line lost its indentation on the way while the others kept it.
    fn first_is_bare(&self, target: &str) -> bool {
        let mut counting = self.counting();
        let Some(first) = counting.next() else { return false };
        let rest = Lines { lines: self.lines[1..].to_vec(), fixed: self.fixed[1..].to_vec() };
        let first = first.trim_end();
        let opens = first.ends_with([':', '{', '(', '[', ',', '\\', '=', '>']);
        let closes = counting.last().is_some_and(|last| last.trim_start().starts_with([')', ']', '}']));
        !target.is_empty() && white(first).is_empty() && rest.common() == Some(target) && (!opens || closes)
    }

    /// Whether it is indented by spaces where the file has tabs, or the other way round.
    fn is_foreign(&self, unit: &str) -> bool {
        let mut indented = self.counting().map(white).filter(|white| !white.is_empty()).peekable();
        let other = if unit == "\t" { "\t" } else { " " };
        indented.peek().is_some() && !indented.any(|white| white.contains(other))
    }

    /// The text with `target` as the indentation of its outermost lines.
    pub(crate) fn fitted(&self, target: &str, unit: &str) -> String {
        let foreign = self.is_foreign(unit);
        let Some(common) = self.common().filter(|common| foreign || *common != target) else {
            return self.lines.join("\n");
        };
        if self.first_is_bare(target) {
            return format!("{target}{}", self.lines.join("\n"));
        }
        let step = self.counting().map(|line| white(&line[common.len()..]).len()).filter(|n| *n > 0).min();
        let mut out = String::new();
        for (at, (line, fixed)) in self.lines.iter().zip(&self.fixed).enumerate() {
            if at > 0 {
                out.push('\n');
            }
            if *fixed {
                out.push_str(line);
            } else if !line.trim().is_empty() {
                let line = &line[common.len()..];
                let (extra, rest) = line.split_at(white(line).len());
                out.push_str(target);
                match foreign {
                    true => out.push_str(&converted(extra, unit, step.unwrap_or(4))),
                    false => out.push_str(extra),
                }
                out.push_str(rest);
            }
        }
        out
    }
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

    fn fitted(text: &str, target: &str, unit: &str) -> String {
        Lines::new(text, &[]).fitted(target, unit)
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
        assert_eq!(fitted("if a:\n    b", "    ", "    "), "    if a:\n        b");
    }

    #[test]
    fn lines_in_strings_stay() {
        let text = "x = '''\nkeep\n'''\ny";
        let strings = std::iter::once(4..16).collect::<Vec<_>>();
        assert_eq!(Lines::new(text, &strings).fitted("  ", "  "), "  x = '''\nkeep\n'''\n  y");
    }
}
