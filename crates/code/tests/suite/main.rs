//! Edits and outlines by data, and properties on real sources.
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests read files and may fail")]

mod cases;
mod corpus;
mod places;
mod search;
mod total;
