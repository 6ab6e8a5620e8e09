//! Drives the real binary as clients and people do.
#![expect(clippy::disallowed_methods, reason = "tests drive real programs")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod access;
mod call;
mod cancel;
mod clients;
mod config;
mod conformance;
mod doctor;
mod elsewhere;
mod leavings;
mod limits;
mod news;
mod reach;
mod remote;
mod sessions;
mod start;
mod stop;
mod support;
mod transports;

use support::plain as launch;
