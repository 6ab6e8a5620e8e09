//! The scrubber from outside.

#![expect(clippy::disallowed_methods, reason = "the corpus test asks cargo where sources are")]

mod assignments;
mod corpus;
mod exact;
mod json;
mod shapes;
mod stream;
