//! Applying hunks to a text: every context and removed line must stand there exactly.

use super::parse::{Hunk, Line};
use crate::diagnose;
use crate::text::{self, LineEnding};

/// The outcome of applying a file's hunks.
#[derive(Debug)]
pub(crate) struct Applied {
    pub(crate) bytes: Vec<u8>,
    pub(crate) added: usize,
    pub(crate) removed: usize,
    /// Hunks that fit only at another line than their header says: number, line.
    pub(crate) moved: Vec<(usize, usize)>,
}

/// A hunk that does not fit.
#[derive(Debug)]
pub(crate) struct Misfit {
    /// Which one, from 1.
    pub(crate) number: usize,
    pub(crate) why: String,
}

/// Applies hunks in order. A hunk may stand at another line than its header says if there is only one such place.
pub(crate) fn apply(bytes: &[u8], hunks: &[Hunk]) -> Result<Applied, Misfit> {
    let (encoding, bom) = text::encoding_of(bytes);
    let body = text::decode(bytes);
    let end: &[u8] = if text::line_ending_of(&body) == LineEnding::CrLf { b"\r\n" } else { b"\n" };
    let lines: Vec<&[u8]> = body.split_inclusive(|&byte| byte == b'\n').collect();
    let mut out = Vec::with_capacity(body.len());
    let mut done = Applied { bytes: Vec::new(), added: 0, removed: 0, moved: Vec::new() };
    let (mut at, mut drift) = (0usize, 0isize);
    for (k, hunk) in hunks.iter().enumerate() {
        let place = find(&lines, at, drift, hunk).map_err(|why| Misfit {
            number: k + 1,
            why: why.unwrap_or_else(|| diagnose::closest(&body, &old_text(hunk), "patch")),
        })?;
        if let Some(start) = hunk.old_start {
            drift = place as isize - (start as isize - 1);
            if drift != 0 {
                done.moved.push((k + 1, place + 1));
            }
        }
        lines[at..place].iter().for_each(|line| out.extend_from_slice(line));
        at = place;
        for line in &hunk.lines {
            match line {
                Line::Context(_) => {
                    close_line(&mut out, end);
                    out.extend_from_slice(lines[at]);
                    at += 1;
                }
                Line::Removed(_) => {
                    at += 1;
                    done.removed += 1;
                }
                Line::Added(text) => {
                    close_line(&mut out, end);
                    out.extend_from_slice(text.as_bytes());
                    out.extend_from_slice(end);
                    done.added += 1;
                }
            }
        }
        if hunk.open_end && at == lines.len() && out.ends_with(end) {
            out.truncate(out.len() - end.len());
        }
    }
    lines[at..].iter().for_each(|line| out.extend_from_slice(line));
    done.bytes = text::encode_bytes(out, encoding, bom && !bytes.is_empty());
    Ok(done)
}

/// The last line of a file may lack its end; when a line follows, it needs one.
fn close_line(out: &mut Vec<u8>, end: &[u8]) {
    if out.last().is_some_and(|&byte| byte != b'\n') {
        out.extend_from_slice(end);
    }
}

/// Where a hunk stands, as an index of lines. `Err(None)`: nowhere.
fn find(lines: &[&[u8]], from: usize, drift: isize, hunk: &Hunk) -> Result<usize, Option<String>> {
    let old: Vec<&str> = hunk.lines.iter().filter_map(Line::old).collect();
    let stands = |place: usize| {
        let have = lines.get(place..place + old.len());
        have.is_some_and(|have| have.iter().zip(&old).all(|(a, b)| same(a, b)))
    };
    let fits = |place: usize| place >= from && stands(place);
    let told = hunk.old_start.map(|start| start.saturating_sub(1));
    for place in [told.map(|at| at.saturating_add_signed(drift)), told].into_iter().flatten() {
        if fits(place) {
            return Ok(place);
        }
    }
    if old.is_empty() {
        return match told {
            None if lines.is_empty() => Ok(0),
            _ => Err(Some(format!(
                "it only adds lines, and the file has {} line(s); add context",
                lines.len()
            ))),
        };
    }
    let last = lines.len().saturating_sub(old.len());
    let places: Vec<usize> = (from..=last).filter(|&place| fits(place)).collect();
    match places[..] {
        [only] => Ok(only),
        [] => Err((0..from.min(lines.len())).find(|&place| stands(place)).map(|place| {
            format!(
                "it stands at line {}, and the hunk before it reaches to line {from}: put the hunks of a file in the order \
                 of its lines, none over another",
                place + 1
            )
        })),
        _ => {
            let numbers: Vec<String> = places.iter().take(10).map(|place| (place + 1).to_string()).collect();
            let numbers = numbers.join(", ");
            Err(Some(format!("it fits at {} places (lines {numbers}); add context lines", places.len())))
        }
    }
}

fn same(have: &[u8], want: &str) -> bool {
    let have = have.strip_suffix(b"\n").unwrap_or(have);
    have == want.as_bytes() || have.strip_suffix(b"\r") == Some(want.as_bytes())
}

fn old_text(hunk: &Hunk) -> String {
    hunk.lines.iter().filter_map(Line::old).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::*;
    use proptest::prelude::*;

    fn patched(text: &str, hunks: &str) -> Result<String, String> {
        let plan = parse(&format!("--- a/f\n+++ b/f\n{hunks}")).map_err(|e| e.to_string())?;
        let done =
            apply(text.as_bytes(), &plan.files[0].hunks).map_err(|m| format!("{}: {}", m.number, m.why))?;
        Ok(String::from_utf8(done.bytes).unwrap())
    }

    #[test]
    fn exact_moved_and_ambiguous() {
        assert_eq!(patched("a\nb\nc\n", "@@ -2 +2 @@\n-b\n+B\n").unwrap(), "a\nB\nc\n");
        assert_eq!(patched("x\nx\na\nb\nc\n", "@@ -2 +2 @@\n-b\n+B\n").unwrap(), "x\nx\na\nB\nc\n");
        assert!(patched("b\nx\nb\n", "@@ -2 +2 @@\n-b\n+B\n").unwrap_err().contains("lines 1, 3"));
        assert!(patched("a\nb\n", "@@ -1 +1 @@\n-zzz\n+B\n").is_err());
        assert_eq!(patched("a\nb\n", "@@ ... @@\n a\n-b\n+B\n").unwrap(), "a\nB\n");
    }

    #[test]
    fn line_ends() {
        assert_eq!(patched("a\r\nb\r\n", "@@ -1,2 +1,3 @@\n a\n+n\n b\n").unwrap(), "a\r\nn\r\nb\r\n");
        assert_eq!(patched("a\nb", "@@ -1,2 +1,3 @@\n a\n b\n+c\n").unwrap(), "a\nb\nc\n");
        let open = "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n";
        assert_eq!(patched("a", open).unwrap(), "b");
        assert_eq!(patched("", "@@ -0,0 +1,2 @@\n+x\n+y\n").unwrap(), "x\ny\n");
    }

    #[test]
    fn hunks_out_of_order_are_called_that() {
        let error =
            patched("a\nb\nc\nd\n", "@@ -3 +3 @@\n-c\n+C\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n").unwrap_err();
        assert!(
            error.starts_with("2: it stands at line 1, and the hunk before it reaches to line 3"),
            "{error}"
        );
    }

    #[test]
    fn a_misfit_says_what_differs() {
        let error =
            patched("fn a() {\n\tone();\n}\n", "@@ -1,3 +1,3 @@\n fn a() {\n-    one();\n+    two();\n }\n");
        let error = error.unwrap_err();
        assert!(error.contains("indentation is 1 tab in the file, not 4 spaces"), "{error}");
    }

    proptest! {
        /// What the diff library says about two texts turns the one into the other.
        #[test]
        fn applies_what_differs(old in "([ab]{0,2}\n){0,10}[ab]?", new in "([ab]{0,2}\n){0,10}[ab]?") {
            prop_assume!(old != new);
            let diff = crate::unified_diff("f", old.as_bytes(), new.as_bytes(), 10_000);
            let plan = parse(&diff).unwrap();
            let done = apply(old.as_bytes(), &plan.files[0].hunks).unwrap();
            prop_assert_eq!(String::from_utf8(done.bytes).unwrap(), new, "{}", diff);
        }
    }
}
