//! Why a text was not found: the closest place, and what differs there, by name.

mod chars;
mod places;

use memchr::memmem;

use chars::{alike, is_space, parts, spelled};

/// Up to this size a text is compared as a whole; of a larger one, the places that a quick look finds.
const SKELETON_LIMIT: usize = 1 << 20;
/// A place that is less like it than this is not shown.
const LIKE: f64 = 0.5;
/// Lines around a place that are compared with it.
const AROUND: usize = 3;
const SHOWN_LINES: usize = 12;
const SHOWN_WIDTH: usize = 160;

/// Says where in `body` something like `wanted` stands and how it differs. `wanted_name` names it in the text.
pub(crate) fn closest(body: &[u8], wanted: &str, wanted_name: &str) -> String {
    let text = String::from_utf8_lossy(body);
    let wanted_lines: Vec<&str> =
        wanted.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    let asked = Asked { body, wanted: &wanted_lines, name: wanted_name };
    if text.len() <= SKELETON_LIMIT
        && let Some(found) = same_but_for_space(&text, wanted)
    {
        return asked.report(&text, found, true);
    }
    let places = places::find(&text, &wanted_lines);
    if text.len() > SKELETON_LIMIT {
        for place in &places {
            let (start, end) = window(&text, place.start, &wanted_lines);
            if let Some((from, to)) = same_but_for_space(&text[start..end], wanted) {
                return asked.report(&text, (start + from, start + to), true);
            }
        }
    }
    match places.iter().find(|place| place.votes > 0 || place.likeness >= LIKE) {
        Some(place) => {
            let mut end = place.start;
            for k in 0..wanted_lines.len() {
                end = places::line_end(&text, if k == 0 { end } else { (end + 1).min(text.len()) });
            }
            asked.report(&text, (place.start, end), false)
        }
        None => "nothing in the file resembles it; Read the file again".to_owned(),
    }
}

/// The lines around a place, within reason.
fn window(text: &str, start: usize, wanted: &[&str]) -> (usize, usize) {
    let begin = places::lines_before(text, start, AROUND).unwrap_or(0);
    let mut end = begin;
    for _ in 0..wanted.len() + 2 * AROUND {
        end = places::line_end(text, end).saturating_add(1).min(text.len());
    }
    let longest = wanted.iter().map(|line| line.len()).sum::<usize>() * 4 + 4096;
    (begin, text.floor_char_boundary(end.min(start + longest)))
}

/// What was looked for, and where.
struct Asked<'a> {
    body: &'a [u8],
    wanted: &'a [&'a str],
    name: &'a str,
}

impl Asked<'_> {
    /// What differs between the text and its place, which is `exact` but for what is not seen, or made of whole lines.
    fn report(&self, text: &str, (start, end): (usize, usize), exact: bool) -> String {
        let first = memchr::memchr_iter(b'\n', &text.as_bytes()[..start]).count();
        let found: Vec<&str> = text[start..end].split('\n').collect();
        let mut out = match found.len() {
            1 => format!("closest place: line {}", first + 1),
            lines => format!("closest place: lines {}-{}", first + 1, first + lines),
        };
        let head = out.len();
        if exact && found.len() != self.wanted.len() {
            out.push_str(&format!("\nthe same text, with line breaks in other places than in {}", self.name));
        }
        let mut shown = 0;
        for (k, (have, want)) in found.iter().zip(self.wanted).enumerate() {
            let have = have.strip_suffix('\r').unwrap_or(have);
            let border =
                k == 0 && have.ends_with(want) || k + 1 == self.wanted.len() && have.starts_with(want);
            // a text may begin and end within a line; only the part that was compared counts
            if have == *want || !exact && border {
                continue;
            }
            shown += 1;
            if shown > SHOWN_LINES {
                out.push_str("\n… more lines differ");
                break;
            }
            out.push_str(&format!("\nline {}: {}", first + k + 1, differences(have, want).join("; ")));
            out.push_str(&format!("\n  in the file:  {}", clip(have)));
            out.push_str(&format!("\n  {:<13} {}", format!("{}:", self.name), clip(want)));
        }
        if !exact && found.len() < self.wanted.len() {
            out.push_str(&format!("\nthe file ends {} line(s) earlier", self.wanted.len() - found.len()));
        }
        if let Some((line, byte)) = self.not_text(first, found.len()) {
            let unseen = self.wanted.iter().any(|line| line.contains(char::REPLACEMENT_CHARACTER));
            if unseen || out.len() == head {
                out.push_str(&format!(
                    "\nline {line} holds bytes that are no UTF-8 (0x{byte:02X}); they are shown as \u{FFFD}, which matches \
                     nothing: leave them out of {}",
                    self.name
                ));
            }
        }
        out
    }

    /// The first byte in some lines that belongs to no character, and its line.
    fn not_text(&self, first: usize, lines: usize) -> Option<(usize, u8)> {
        let all = self.body.split(|&byte| byte == b'\n').enumerate().skip(first).take(lines);
        let invalid = |(k, line): (usize, &[u8])| {
            let chunk = line.utf8_chunks().find_map(|chunk| chunk.invalid().first().copied());
            chunk.map(|byte| (k + 1, byte))
        };
        all.into_iter().find_map(invalid)
    }
}

fn clip(line: &str) -> String {
    let mut out: String = line.chars().take(SHOWN_WIDTH).map(|c| if c == '\t' { '→' } else { c }).collect();
    if line.chars().count() > SHOWN_WIDTH {
        out.push('…');
    }
    out
}

/// What is different between a line of the file and the one that was looked for.
fn differences(have: &str, want: &str) -> Vec<String> {
    let mut out = Vec::new();
    let indent = |line: &str| line[..line.len() - line.trim_start().len()].to_owned();
    if indent(have) != indent(want) {
        out.push(format!(
            "indentation is {} in the file, not {}",
            spell(&indent(have)),
            spell(&indent(want))
        ));
    }
    let tail = |line: &str| line[line.trim_end().len()..].to_owned();
    if !have.trim().is_empty() && tail(have) != tail(want) {
        out.push(match tail(have).is_empty() {
            true => "no trailing white space in the file".to_owned(),
            false => format!("trailing {} in the file", spell(&tail(have))),
        });
    }
    let (have, want) = (have.trim(), want.trim());
    if have == want {
        return out;
    }
    if skeleton(have).0 == skeleton(want).0 {
        out.extend(unseen(have, want));
    } else if skeleton(have).0.eq_ignore_ascii_case(&skeleton(want).0) {
        out.push("upper and lower case differ".to_owned());
    } else {
        let pair = have.chars().zip(want.chars()).find(|(a, b)| a != b);
        out.push(match pair.filter(|(a, b)| !a.is_ascii() || !b.is_ascii()) {
            Some((a, b)) => format!("text differs: {} in the file, not {}", spelled(a), spelled(b)),
            None => "text differs".to_owned(),
        });
    }
    out
}

/// What differs between lines that look the same.
fn unseen(have: &str, want: &str) -> Vec<String> {
    const SIDES: [&str; 2] = ["in the file", "in what was looked for"];
    let mut out: Vec<String> = Vec::new();
    let mut tell = |said: String| {
        if !out.contains(&said) {
            out.push(said);
        }
    };
    let count = |line: &str, c: char| line.matches(c).count();
    for (side, line, other) in [(0, have, want), (1, want, have)] {
        for c in line.chars().filter(|c| !matches!(c, ' ' | '\t') && count(line, *c) > count(other, *c)) {
            if is_space(c) {
                tell(format!("{} {}", spelled(c), SIDES[side]));
            } else if let Some(plain) = alike(c) {
                tell(format!("look-alike {}: {} for {plain:?}", SIDES[side], spelled(c)));
            } else if let Some((letter, mark)) = parts(c) {
                tell(format!(
                    "{c} is one character (U+{:04X}) {} and two (U+{:04X} U+{:04X}) {}: another Unicode normalisation",
                    u32::from(c),
                    SIDES[side],
                    u32::from(letter),
                    u32::from(mark),
                    SIDES[1 - side]
                ));
            }
        }
    }
    let bare = |line: &str| line.chars().filter(|c| !is_space(*c)).collect::<String>();
    if out.is_empty()
        || bare(have) == bare(want) && !have.chars().chain(want.chars()).any(|c| is_space(c) && !c.is_ascii())
    {
        out.push("white space within the line differs".to_owned());
    }
    out
}

fn spell(space: &str) -> String {
    if space.is_empty() {
        return "nothing".to_owned();
    }
    let count = |n: usize, what: &str| match n {
        0 => None,
        1 => Some(format!("1 {what}")),
        n => Some(format!("{n} {what}s")),
    };
    let tabs = space.matches('\t').count();
    let blanks = space.matches(' ').count();
    let mut others: Vec<char> = space.chars().filter(|c| !matches!(c, '\t' | ' ')).collect();
    others.sort_unstable();
    let mut parts: Vec<String> = [count(tabs, "tab"), count(blanks, "space")].into_iter().flatten().collect();
    for run in others.chunk_by(|a, b| a == b) {
        parts.push(format!("{} {}", run.len(), spelled(run[0])));
    }
    parts.join(" and ")
}

/// The text without white space, with look-alikes made plain and marks apart from their letters, and for each byte where
/// it came from.
fn skeleton(text: &str) -> (String, Vec<u32>) {
    let (mut out, mut from) = (String::with_capacity(text.len()), Vec::with_capacity(text.len()));
    for (at, c) in text.char_indices().filter(|(_, c)| !is_space(*c)) {
        plain(c, &mut out);
        from.resize(out.len(), at as u32);
    }
    (out, from)
}

fn plain(c: char, out: &mut String) {
    if c.is_ascii() {
        out.push(c);
    } else if let Some((letter, mark)) = parts(c) {
        plain(letter, out);
        out.push(mark);
    } else if let Some(plain) = alike(c) {
        out.push_str(plain);
    } else {
        out.push(c);
    }
}

/// Where `wanted` stands if white space and look-alikes are not looked at, then if case is not either.
fn same_but_for_space(text: &str, wanted: &str) -> Option<(usize, usize)> {
    let (mut hay, from) = skeleton(text);
    let (mut needle, _) = skeleton(wanted);
    if needle.len() < 2 {
        return None;
    }
    let mut at = memmem::find(hay.as_bytes(), needle.as_bytes());
    if at.is_none() {
        hay.make_ascii_lowercase();
        needle.make_ascii_lowercase();
        at = memmem::find(hay.as_bytes(), needle.as_bytes());
    }
    let at = at?;
    let mut start = from[at] as usize;
    let last = from[at + needle.len() - 1] as usize;
    let mut end = last + text[last..].chars().next().map_or(1, char::len_utf8);
    // white space at the borders belongs to what was looked for
    let blank = |c: char| is_space(c) && !matches!(c, '\n' | '\r');
    if wanted.starts_with(blank)
        || text[..start].trim_end_matches(blank).ends_with('\n') && !wanted.starts_with('\n')
    {
        start = text[..start].trim_end_matches(blank).len();
    }
    let tail = &text[end..];
    if wanted.ends_with(blank) || tail.trim_start_matches(blank).starts_with(['\n', '\r']) {
        end += tail.len() - tail.trim_start_matches(blank).len();
    }
    if wanted.ends_with('\n') {
        end += text[end..].find('\n').map_or(0, |at| at + 1);
    }
    if wanted.starts_with('\n') {
        start = text[..start]
            .trim_end_matches(|c: char| blank(c) || c == '\r')
            .strip_suffix('\n')
            .map_or(start, str::len);
    }
    Some((start, end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILE: &str = "fn main() {\n\tlet a = 1;\n\tprintln!(“hi”);  \n}\n\nfn other() {}\n";

    #[test]
    fn tabs_are_named() {
        let said = closest(FILE.as_bytes(), "fn main() {\n    let a = 1;", "old_string");
        assert!(said.starts_with("closest place: lines 1-2"), "{said}");
        assert!(said.contains("line 2: indentation is 1 tab in the file, not 4 spaces"), "{said}");
    }

    #[test]
    fn look_alikes_and_trailing_space_are_named() {
        let said = closest(FILE.as_bytes(), "\tprintln!(\"hi\");\n}", "old_string");
        assert!(said.contains("line 3:"), "{said}");
        assert!(said.contains("trailing 2 spaces in the file"), "{said}");
        assert!(said.contains("look-alike in the file: “ (U+201C) for \"\\\"\""), "{said}");
    }

    #[test]
    fn other_text_is_shown_side_by_side() {
        let said = closest(FILE.as_bytes(), "fn other() { todo() }", "old_string");
        assert!(said.contains("closest place: line 6"), "{said}");
        assert!(said.contains("in the file:  fn other() {}"), "{said}");
        assert_eq!(
            closest(FILE.as_bytes(), "QQQQQQQQQQQQQQ", "old_string"),
            "nothing in the file resembles it; Read the file again"
        );
    }

    #[test]
    fn short_lines_count_together() {
        let said = closest(b"1\n2\n3\n4\n5\n", "3\n4x\n5", "old_string");
        assert!(said.starts_with("closest place: lines 3-5\nline 4: text differs"), "{said}");
        let said = closest(b"1\n2\n3\n4\n5\n", "7\n8\n5", "old_string");
        assert_eq!(said, "nothing in the file resembles it; Read the file again");
    }

    #[test]
    fn case_is_named() {
        let said = closest(b"let Value = 3;\n", "let value = 3;", "old_string");
        assert!(said.contains("upper and lower case differ"), "{said}");
    }

    #[test]
    fn what_nobody_sees_is_named() {
        for (file, wanted, said) in [
            ("let a\u{A0}= 1;\n", "let a = 1;", "NO-BREAK SPACE (U+00A0) in the file"),
            ("let a = 1;\n", "let\u{200B} a = 1;", "ZERO WIDTH SPACE (U+200B) in what was looked for"),
            (
                "\u{A0} let a = 1;\n",
                "    let a = 1;",
                "indentation is 1 space and 1 NO-BREAK SPACE (U+00A0) in the file, not 4 spaces",
            ),
            (
                "x = caf\u{E9};\n",
                "x = cafe\u{301};",
                "é is one character (U+00E9) in the file and two (U+0065 U+0301) in what was looked for",
            ),
            (
                "x = cafe\u{301};\n",
                "x = caf\u{E9};",
                "é is one character (U+00E9) in what was looked for and two (U+0065 U+0301) in the file",
            ),
            (
                "print(hello)\n",
                "print(hell\u{3BF})",
                "look-alike in what was looked for: Greek ο (U+03BF) for \"o\"",
            ),
            ("let  a = 1;\n", "let a = 1;", "white space within the line differs"),
            ("let a = 'ﬁ';\n", "let a = 'fi';", "text differs: ﬁ (U+FB01) in the file, not f (U+0066)"),
        ] {
            let told = closest(file.as_bytes(), wanted, "old_string");
            assert!(told.starts_with("closest place: line 1\n") && told.contains(said), "{told}");
        }
        let told = closest(b"# caf\xe9\nnext\n", "# caf\u{FFFD}\nnext", "old_string");
        assert!(
            told.contains("line 1 holds bytes that are no UTF-8 (0xE9)")
                && told.contains("leave them out of old_string"),
            "{told}"
        );
    }

    /// However many lines there are, the one that is meant is found.
    #[test]
    fn a_large_file_is_looked_through_as_well() {
        let mut file: String =
            (0..60_000).map(|n| format!("    let value_{n} = compute({n}, \"some text\");\n")).collect();
        assert!(file.len() > 2 * SKELETON_LIMIT && file.lines().count() > 20_000);
        file.push_str("fn  last(a: u32) -> u32 { a }\n    let spread = one(\n        two,\n    );\n");
        for (wanted, line, said) in [
            ("    let valeu_41234 = compute(41234, \"some text\");", 41_235, "text differs"),
            ("let value_999  = compute(999, \"some text\")", 1_000, "white space within the line differs"),
            ("fn last(a: u32) -> u32 { a }", 60_001, "white space within the line differs"),
            ("let spread = one(two,\n", 60_002, "line breaks in other places"),
            (
                "    let value_7 = compute(7, \"some text\");\n    let value_8 = compute(9, \"some text\");",
                8,
                "text differs",
            ),
        ] {
            let told = closest(file.as_bytes(), wanted, "old_string");
            assert!(
                told.starts_with(&format!("closest place: line {line}\n"))
                    || told.starts_with(&format!("closest place: lines {line}-")),
                "{wanted}: {told}"
            );
            assert!(told.contains(said), "{wanted}: {told}");
        }
        let nothing = closest(file.as_bytes(), "QQQQQQQQQQQQQQ", "old_string");
        assert!(nothing.starts_with("nothing in the file resembles it"), "{nothing}");
    }

    proptest! {
        #[test]
        fn never_panics(body in "[aé“ \t\r\n\u{200B}]{0,40}", wanted in "[aé\" \t\r\n]{1,12}") {
            closest(body.as_bytes(), &wanted, "old_string");
        }

        #[test]
        fn never_panics_on_bytes(body in proptest::collection::vec(any::<u8>(), 0..60), wanted in "\\PC{1,12}") {
            closest(&body, &wanted, "old_string");
        }
    }
}
