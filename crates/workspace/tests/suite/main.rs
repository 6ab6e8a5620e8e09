//! The workspace crate against real files: one binary so that it links once.
#![expect(clippy::disallowed_methods, reason = "tests run themselves again to be killed or measured")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on shall fail loudly")]

mod bare;
mod big;
mod crash;
mod guards;
mod held;
mod holes;
mod kit;
mod live;
mod odd;
mod oracle;
mod others;
mod patch;
mod paths;
mod race;
mod rare;
mod running;
mod search;
mod snapshots;
mod undo;
mod write;
