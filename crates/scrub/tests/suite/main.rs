//! The scrubber from outside.

mod assignments;
mod corpus;
mod exact;
mod json;
mod shapes;
mod stream;
