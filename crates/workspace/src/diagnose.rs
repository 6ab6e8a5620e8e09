//! Why a text was not found: the closest place, and what differs there, by name.

use std::collections::HashMap;

use memchr::memmem;

/// Above this a file is only compared line by line.
const SKELETON_LIMIT: usize = 4 << 20;
/// Above this many lines nothing is compared by likeness.
const LIKENESS_LINES: usize = 20_000;
const SHOWN_LINES: usize = 12;
const SHOWN_WIDTH: usize = 160;

/// Says where in `body` something like `wanted` stands and how it differs. `wanted_name` names it in the text.
pub(crate) fn closest(body: &[u8], wanted: &str, wanted_name: &str) -> String {
    let text = String::from_utf8_lossy(body);
    let lines: Vec<&str> = text.split('\n').collect();
    let wanted_lines: Vec<&str> =
        wanted.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    if let Some((start, end)) = same_but_for_space(&text, wanted) {
        let first = text[..start].matches('\n').count();
        let last = text[..end].matches('\n').count();
        return report(&lines, first, last, &wanted_lines, wanted_name, Some(&text[start..end]));
    }
    match most_alike(&lines, &wanted_lines) {
        Some(first) => {
            let last = (first + wanted_lines.len() - 1).min(lines.len() - 1);
            report(&lines, first, last, &wanted_lines, wanted_name, None)
        }
        None => "nothing in the file resembles it; Read the file again".to_owned(),
    }
}

fn report(
    lines: &[&str],
    first: usize,
    last: usize,
    wanted: &[&str],
    wanted_name: &str,
    exact: Option<&str>,
) -> String {
    let mut out = match first == last {
        true => format!("closest place: line {}", first + 1),
        false => format!("closest place: lines {}-{}", first + 1, last + 1),
    };
    let found: Vec<&str> = match exact {
        Some(region) => region.split('\n').collect(),
        None => lines[first..=last].to_vec(),
    };
    if exact.is_some() && found.len() != wanted.len() {
        out.push_str(&format!("\nthe same text, with line breaks in other places than in {wanted_name}"));
    }
    let mut shown = 0;
    for (k, (have, want)) in found.iter().zip(wanted).enumerate() {
        let have = have.strip_suffix('\r').unwrap_or(have);
        // a match may begin and end within a line; only the part that was compared counts
        if have == *want {
            continue;
        }
        let whole = lines.get(first + k).map_or(have, |line| line.strip_suffix('\r').unwrap_or(line));
        if exact.is_none()
            && (k == 0 && whole.ends_with(want) || k + 1 == wanted.len() && whole.starts_with(want))
        {
            continue;
        }
        shown += 1;
        if shown > SHOWN_LINES {
            out.push_str("\n… more lines differ");
            break;
        }
        let kinds = differences(have, want);
        out.push_str(&format!("\nline {}: {}", first + k + 1, kinds.join("; ")));
        out.push_str(&format!("\n  in the file:  {}", clip(have)));
        out.push_str(&format!("\n  {:<13} {}", format!("{wanted_name}:"), clip(want)));
    }
    if exact.is_none() && found.len() < wanted.len() {
        out.push_str(&format!("\nthe file ends {} line(s) earlier", wanted.len() - found.len()));
    }
    out
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
    let bare = |line: &str| line.chars().filter(|c| !is_space(*c)).collect::<String>();
    if skeleton(have).0 == skeleton(want).0 {
        let (mut h, mut w) = (bare(have), bare(want));
        if h == w {
            out.push("white space within the line differs".to_owned());
        }
        for c in h.clone().chars().chain(w.clone().chars()).filter(|c| alike(*c).is_some()) {
            let here = h.contains(c) && !w.contains(c);
            if here || w.contains(c) && !h.contains(c) {
                let owner = if here { "in the file" } else { "in what was looked for" };
                let plain = alike(c).unwrap_or_default();
                out.push(format!("look-alike {owner}: {c} (U+{:04X}) for {plain:?}", u32::from(c)));
                h = h.replace(c, plain);
                w = w.replace(c, plain);
            }
        }
    } else if skeleton(have).0.eq_ignore_ascii_case(&skeleton(want).0) {
        out.push("upper and lower case differ".to_owned());
    } else {
        out.push("text differs".to_owned());
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
    let others = space.chars().count() - tabs - blanks;
    let parts = [count(tabs, "tab"), count(blanks, "space"), count(others, "other white-space character")];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

/// What an ASCII reader takes a character for, if it is easily taken for something else.
fn alike(c: char) -> Option<&'static str> {
    Some(match c {
        '\u{2018}' | '\u{2019}' | '\u{201A}' | '\u{2032}' | '\u{02BC}' | '\u{FF07}' => "'",
        '\u{201C}' | '\u{201D}' | '\u{201E}' | '\u{2033}' | '\u{FF02}' => "\"",
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{FE58}' | '\u{FF0D}' => "-",
        '\u{2026}' => "...",
        '\u{00D7}' => "x",
        '\u{037E}' => ";",
        '\u{FF01}'..='\u{FF5E}' => {
            const ASCII: &str = "!\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~";
            let at = (u32::from(c) - 0xFF01) as usize;
            &ASCII[at..=at]
        }
        'а' => "a",
        'е' => "e",
        'о' => "o",
        'р' => "p",
        'с' => "c",
        'х' => "x",
        'у' => "y",
        'і' => "i",
        'А' => "A",
        'В' => "B",
        'Е' => "E",
        'К' => "K",
        'М' => "M",
        'Н' => "H",
        'О' => "O",
        'Р' => "P",
        'С' => "C",
        'Т' => "T",
        'Х' => "X",
        _ => return None,
    })
}

fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{200B}'..='\u{200D}' | '\u{FEFF}' | '\u{2060}' | '\u{00AD}')
}

/// The text without white space and with look-alikes made plain, and for each byte where it came from.
fn skeleton(text: &str) -> (String, Vec<u32>) {
    let (mut out, mut from) = (String::with_capacity(text.len()), Vec::with_capacity(text.len()));
    for (at, c) in text.char_indices().filter(|(_, c)| !is_space(*c)) {
        match alike(c) {
            Some(plain) => out.push_str(plain),
            None => out.push(c),
        }
        from.resize(out.len(), at as u32);
    }
    (out, from)
}

/// Where `wanted` stands if white space and look-alikes are not looked at, then if case is not either.
fn same_but_for_space(text: &str, wanted: &str) -> Option<(usize, usize)> {
    if text.len() > SKELETON_LIMIT {
        return None;
    }
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
    let blank = |c: char| c == ' ' || c == '\t';
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

/// The line at which most of `wanted`'s lines stand where they should, else the line most like its longest one.
fn most_alike(lines: &[&str], wanted: &[&str]) -> Option<usize> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (k, line) in wanted.iter().enumerate().filter(|(_, line)| line.trim().len() >= 4) {
        places.entry(line.trim()).or_default().push(k);
    }
    let mut votes: HashMap<usize, usize> = HashMap::new();
    for (i, line) in lines.iter().enumerate() {
        for k in places.get(line.trim()).into_iter().flatten().filter(|k| **k <= i) {
            *votes.entry(i - k).or_default() += 1;
        }
    }
    let best = votes.into_iter().max_by_key(|&(start, votes)| (votes, std::cmp::Reverse(start)));
    if let Some((start, _)) = best {
        return Some(start);
    }
    if lines.len() > LIKENESS_LINES {
        return None;
    }
    let (offset, longest) = wanted.iter().enumerate().max_by_key(|(_, line)| line.trim().len())?;
    let grams = bigrams(longest.trim());
    let alike = lines.iter().enumerate().map(|(i, line)| (i, likeness(&grams, line.trim())));
    let (line, score) = alike.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))?;
    (score >= 0.5).then(|| line.saturating_sub(offset))
}

fn bigrams(line: &str) -> HashMap<[u8; 2], i32> {
    let mut grams = HashMap::new();
    for pair in line.as_bytes().windows(2).take(500) {
        *grams.entry([pair[0], pair[1]]).or_default() += 1;
    }
    grams
}

/// Dice's coefficient over byte pairs: 1 for equal lines, 0 for lines that share nothing.
fn likeness(grams: &HashMap<[u8; 2], i32>, line: &str) -> f64 {
    let other = bigrams(line);
    let total: i32 = grams.values().chain(other.values()).sum();
    let shared: i32 = other.iter().map(|(gram, n)| grams.get(gram).map_or(0, |m| *n.min(m))).sum();
    if total == 0 { 0.0 } else { 2.0 * f64::from(shared) / f64::from(total) }
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
    fn case_is_named() {
        let said = closest(b"let Value = 3;\n", "let value = 3;", "old_string");
        assert!(said.contains("upper and lower case differ"), "{said}");
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
