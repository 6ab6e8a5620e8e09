//! What the tools' arguments have in common.

use crate::ToolError;

/// A timeout within its bounds.
pub(super) fn timeout(tool: &str, given: Option<u64>, default: u64, most: u64) -> Result<u64, ToolError> {
    match given {
        None => Ok(default),
        Some(seconds) if (1..=most).contains(&seconds) => Ok(seconds),
        Some(seconds) => {
            Err(ToolError::caller(format!("{tool}: `timeout` must be 1 to {most} seconds, got {seconds}")))
        }
    }
}

/// A limit within its bounds.
pub(super) fn limit(
    tool: &str,
    given: Option<usize>,
    default: usize,
    most: usize,
) -> Result<usize, ToolError> {
    match given {
        None => Ok(default),
        Some(limit) if (1..=most).contains(&limit) => Ok(limit),
        Some(limit) => Err(ToolError::caller(format!("{tool}: `limit` must be 1 to {most}, got {limit}"))),
    }
}
