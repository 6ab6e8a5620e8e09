//! Unified diffs that know when to stop.

use std::time::Duration;

use similar::{Algorithm, TextDiff};

/// What a diff may cost: beyond it similar falls back to coarser hunks, which are still right.
const DEADLINE: Duration = Duration::from_millis(200);

/// The unified diff of two texts, at most `max_lines` lines, with a line that counts what was left out.
/// Empty when the texts are equal.
pub fn unified_diff(path: &str, old: &[u8], new: &[u8], max_lines: usize) -> String {
    if old == new {
        return String::new();
    }
    let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
    let diff = TextDiff::configure()
        .algorithm(Algorithm::Myers)
        .timeout(DEADLINE)
        .diff_lines(old.as_ref(), new.as_ref());
    let whole =
        diff.unified_diff().context_radius(3).header(&format!("a/{path}"), &format!("b/{path}")).to_string();
    let total = whole.lines().count();
    if total <= max_lines {
        return whole;
    }
    let mut out: String = whole.split_inclusive('\n').take(max_lines).collect();
    out.push_str(&format!("[{} more diff lines left out]\n", total - max_lines));
    out
}
