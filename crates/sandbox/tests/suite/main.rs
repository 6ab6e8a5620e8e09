//! The behaviour of the backends, against real programs.
#![expect(clippy::disallowed_methods, reason = "tests drive real programs")]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod behaviour;
mod caps;
mod connections;
mod denials;
mod docker;
mod elsewhere;
mod escape;
mod homes;
mod isolated;
mod kubernetes;
mod load;
mod narrow;
mod orphans;
mod registry;
mod repositories;
mod work;
