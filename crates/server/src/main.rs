//! Turns any checkout into a safe workspace that an agent can read, change and verify over MCP.

mod arguments;
mod cli;
mod commands;
mod found;
mod http;
mod logging;
mod mcp;
mod named;
mod place;
mod probes;
mod reload;
mod sessions;
mod stop;

use std::{io::Write, process::ExitCode};

/// What was asked for cannot be done as asked.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    cli::run().unwrap_or_else(|error| {
        let _ = writeln!(std::io::stderr(), "codegen-sandbox: {error:#}");
        USAGE.into()
    })
}
