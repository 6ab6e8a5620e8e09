//! `tools`: what is registered.

use super::print;
use crate::{mcp, probes};
use ::tools::{Class, Listed, Toolset};
use config::Settings;
use std::{fmt::Write, process::ExitCode};

/// Lists the tools that these settings register: a line each, or as clients see them.
pub(crate) fn tools(settings: &Settings, json: bool) -> anyhow::Result<ExitCode> {
    let tools = Toolset::new(settings, probes::catalog(settings.conformance))?;
    if json {
        let all: Vec<_> = tools.listed().iter().map(mcp::describe).collect();
        print(&format!("{}\n", serde_json::to_string_pretty(&all)?));
    } else {
        print(&table(tools.listed()));
    }
    Ok(ExitCode::SUCCESS)
}

fn table(tools: &[Listed]) -> String {
    let mut text = String::new();
    for tool in tools {
        let spec = tool.spec;
        let class = if spec.class == Class::Read { "read" } else { "write" };
        let first = spec.description.lines().next().unwrap_or_default();
        let _ = writeln!(text, "{:<22} {:<6} {:<5}  {first}", spec.name, spec.group.name(), class);
    }
    text
}
