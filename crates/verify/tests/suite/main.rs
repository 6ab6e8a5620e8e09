//! Readers by data: real outputs in, expected results out.

#![expect(clippy::expect_used, reason = "a test may stop where its fixture is wrong")]

mod go;
mod rust;
mod support;
