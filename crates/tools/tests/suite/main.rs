//! Tools through the in-process pipeline.
#![expect(clippy::disallowed_methods, reason = "tests drive real programs")]

mod pipeline;
mod probes;
mod support;
