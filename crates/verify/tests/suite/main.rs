//! Readers by data: real outputs in, expected results out.

#![expect(clippy::expect_used, reason = "a test may stop where its fixture is wrong")]
#![expect(clippy::disallowed_methods, reason = "tests drive real programs")]

mod go;
mod node;
mod node_lint;
mod outputs;
mod python;
mod real;
mod runs;
mod rust;
mod support;
mod total;
