//! Drives the real binary in tests, and knows the tools that the tests need.
//!
//! Nothing here depends on the product's crates: a test sees what a user sees.

pub mod tools;
