//! One binary so that it links once.
#![expect(clippy::disallowed_methods, reason = "tests drive real programs")]

mod snapshots;
