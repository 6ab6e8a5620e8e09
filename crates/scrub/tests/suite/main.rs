//! The scrubber from outside.

#![expect(clippy::disallowed_methods, reason = "the corpus test asks cargo where sources are")]
#![expect(clippy::expect_used, reason = "helpers of tests fail the test")]

mod assignments;
mod corpus;
mod exact;
mod json;
mod shapes;
mod stream;
