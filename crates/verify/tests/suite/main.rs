//! Readers by data: real outputs in, expected results out.

#![expect(clippy::disallowed_methods, reason = "tests read fixtures")]

mod go;
mod support;
