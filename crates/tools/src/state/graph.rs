//! Graphviz's language, as far as it takes to see which attributes a graph sets.

/// Attributes that make Graphviz, or whoever opens the picture, load something.
const LOADING: [&str; 5] = ["image", "imagepath", "shapefile", "fontpath", "stylesheet"];

/// A word of the language. Spaces and comments are none.
enum Word<'a> {
    /// What stood between quotes.
    Text(String),
    /// With its brackets.
    Html(&'a str),
    Name(&'a str),
    Sign(char),
}

fn words(source: &str) -> impl Iterator<Item = Word<'_>> {
    let mut rest = source;
    std::iter::from_fn(move || {
        loop {
            let first = rest.chars().next()?;
            if first.is_whitespace() {
                rest = &rest[first.len_utf8()..];
            } else if rest.starts_with("//") || first == '#' {
                rest = after(rest, "\n");
            } else if let Some(comment) = rest.strip_prefix("/*") {
                rest = after(comment, "*/");
            } else if let Some(text) = rest.strip_prefix('"') {
                let (text, left) = quoted(text);
                rest = left;
                return Some(Word::Text(text));
            } else if first == '<' {
                let (html, left) = nested(rest);
                rest = left;
                return Some(Word::Html(html));
            } else if is_name(first) {
                let (name, left) = rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len()));
                rest = left;
                return Some(Word::Name(name));
            } else {
                rest = &rest[first.len_utf8()..];
                return Some(Word::Sign(first));
            }
        }
    })
}

/// What in a graph refers to a file. Labels may say what they like.
pub(super) fn reference(source: &str) -> Option<&'static str> {
    // The last name or text, to which an `=` would give a value.
    let mut last: Option<String> = None;
    let mut joining = false;
    for word in words(source) {
        match word {
            Word::Text(text) => {
                let before = last.take().filter(|_| joining).unwrap_or_default();
                (last, joining) = (Some(before + &text), false);
            }
            Word::Html(html) if has_picture(html) => return Some("<img>"),
            Word::Html(_) => (last, joining) = (None, false),
            Word::Name(name) => (last, joining) = (Some(name.to_owned()), false),
            Word::Sign(sign) => {
                let name = last.take_if(|_| sign != '+');
                let found = name.filter(|_| sign == '=').map(|name| name.to_lowercase());
                if let Some(loading) = LOADING.into_iter().find(|known| found.as_deref() == Some(known)) {
                    return Some(loading);
                }
                joining = sign == '+';
            }
        }
    }
    None
}

/// How many graphs a source holds, one behind the other.
pub(super) fn graphs(source: &str) -> usize {
    let (mut depth, mut count) = (0_usize, 0);
    for word in words(source) {
        match word {
            Word::Sign('{') => {
                count += usize::from(depth == 0);
                depth += 1;
            }
            Word::Sign('}') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    count
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '.' || !c.is_ascii()
}

fn after<'a>(text: &'a str, end: &str) -> &'a str {
    text.find(end).map_or("", |at| &text[at + end.len()..])
}

/// The text up to the closing quote, and what follows. A backslash before the end of a line joins two lines.
fn quoted(text: &str) -> (String, &str) {
    let mut said = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (said, &text[at + 1..]),
            '\\' => match letters.next() {
                Some((_, '\n')) | None => {}
                Some((_, '"')) => said.push('"'),
                Some((_, other)) => said.extend(['\\', other]),
            },
            other => said.push(other),
        }
    }
    (said, "")
}

/// An HTML-like text with its brackets, and what follows.
fn nested(text: &str) -> (&str, &str) {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(letter) = text[at..].chars().next() {
        if depth > 0 && text[at..].starts_with("<!--") {
            at = text.len() - after(&text[at..], "-->").len();
            continue;
        }
        at += letter.len_utf8();
        match letter {
            '<' => depth += 1,
            '>' if depth == 1 => return text.split_at(at),
            '>' => depth -= 1,
            _ => {}
        }
    }
    (text, "")
}

fn has_picture(html: &str) -> bool {
    html.split('<').any(|tag| {
        let tag = tag.trim_start().as_bytes();
        let name = tag.get(..3).is_some_and(|name| name.eq_ignore_ascii_case(b"img"));
        name && !tag.get(3).is_some_and(u8::is_ascii_alphanumeric)
    })
}

#[cfg(test)]
mod tests {
    use super::{graphs, reference};

    #[test]
    fn graphs_are_counted_and_not_what_looks_like_them() {
        for (source, count) in [
            ("", 0),
            ("digraph { subgraph a { b } { c } }", 1),
            ("graph { a [label=\"} graph {\"] } // graph {}\n/* graph {} */", 1),
            ("digraph { a [label=<} {<b>}</b>>] }", 1),
            ("digraph { a } digraph { b }", 2),
            ("strict graph x {} graph \"y\" {}\ngraph {}", 3),
            ("} graph {", 1),
        ] {
            assert_eq!(graphs(source), count, "{source}");
        }
    }

    #[test]
    fn attributes_count_and_labels_do_not() {
        for source in [
            "digraph { a [label=\"docker image = nginx\"] }",
            "digraph { image -> shapefile; a [label=image] }",
            "digraph { a [label=\"say \\\"image=x\\\"\"] } // image=x",
            "digraph { /* image=\"x\" */ a }\n# image=x\n",
            "digraph { a [label=<b image=1 <i>x</i>>] }",
            "digraph { a [images=2, imagescale=true] }",
            "digraph { a [label=\"<img src='x'>\"] }",
        ] {
            assert_eq!(reference(source), None, "{source}");
        }
        for (source, found) in [
            ("digraph { a [image=\"x\"] }", "image"),
            ("digraph { a [\"im\" + \"age\" = x] }", "image"),
            ("digraph { a [\"im\\\nage\"=x] }", "image"),
            ("digraph { a [label=\"\\\\\" ImagePath=x] }", "imagepath"),
            ("digraph { stylesheet=\"http://x/y.css\" }", "stylesheet"),
            ("digraph { a [label=<<table><tr><td>< IMG src='x'/></td></tr></table>>] }", "<img>"),
            ("digraph { a [label=<<!-- < -->x> shapefile=\"x\"] }", "shapefile"),
            ("digraph { a [label=<x> image=\"x\"] }", "image"),
        ] {
            assert_eq!(reference(source), Some(found), "{source}");
        }
    }
}
