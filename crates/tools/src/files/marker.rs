//! Secrets that a session was not shown must not be overwritten with what it was shown in their place.

use crate::{Call, ToolError};
use std::collections::BTreeSet;
use workspace::ContainedPath;

/// How every marker begins.
const BEGIN: &str = "[REDACTED:";
/// Longer ones are none of ours.
const LONGEST: usize = 200;

/// Whether there is anything to look at.
pub(crate) fn is_in(text: &str) -> bool {
    text.contains(BEGIN)
}

/// The markers in a text.
fn markers(text: &str) -> BTreeSet<&str> {
    let ends = |(at, _): (usize, &str)| {
        let rest = &text[at..];
        let end = rest.find([']', '\n'])?;
        (rest.as_bytes()[end] == b']' && end < LONGEST).then(|| &rest[..=end])
    };
    text.match_indices(BEGIN).filter_map(ends).collect()
}

/// The first marker of `text` that stands for a secret in a file with this content. Looks at the content only when there
/// is a marker at all.
fn hidden<'a>(call: &Call, content: &[u8], text: &'a str) -> Option<&'a str> {
    if !is_in(text) {
        return None;
    }
    let content = String::from_utf8_lossy(content);
    let shown = call.host().scrubber().scrub(&content).into_owned();
    // A file may hold the text of a marker itself: documentation, tests.
    let stands_for_one = |marker: &&str| shown.matches(*marker).count() > content.matches(*marker).count();
    markers(text).into_iter().find(stands_for_one)
}

/// Refuses to put `text` into a file in which one of its markers stands for a secret.
pub(crate) fn refuse(
    call: &Call,
    action: &str,
    path: &ContainedPath,
    content: &[u8],
    text: &str,
) -> Result<(), ToolError> {
    let Some(marker) = hidden(call, content, text) else { return Ok(()) };
    Err(ToolError::with_hint(
        format!(
            "refusing to {action} {path}: {marker} is shown in the place of a secret that the file holds, and would \
             overwrite it"
        ),
        "Edit only the other lines; nothing was changed",
    ))
}

/// What to say about a text that was looked for in a file and holds a marker.
pub(crate) fn explain(call: &Call, content: &[u8], text: &str) -> Option<String> {
    hidden(call, content, text).map(|marker| {
        format!(
            "{marker} is shown in the place of a secret; the file holds the secret itself: leave that line out and \
             change only the others"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::markers;

    #[test]
    fn markers_are_found_and_nothing_else() {
        let text = "a=[REDACTED:assignment] [REDACTED:secret:X][REDACTED:open\n] [REDACTED:";
        assert_eq!(
            markers(text).into_iter().collect::<Vec<_>>(),
            ["[REDACTED:assignment]", "[REDACTED:secret:X]"]
        );
        assert!(markers(&format!("[REDACTED:{}]", "x".repeat(300))).is_empty());
    }
}
