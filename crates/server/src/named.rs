//! Names and patterns in the configuration that only the whole product knows how to judge.

use crate::probes;
use config::{FileError, RuntimeConfig, Settings, did_you_mean, tool_matches};
use scrub::Scrubber;
use std::collections::BTreeSet;

/// Refuses tools that do not exist and patterns that cannot be used: a hook that looks at nothing would let
/// everything pass.
///
/// # Errors
/// The first of them, and where it stands.
pub(crate) fn check(settings: &Settings, config: &RuntimeConfig) -> Result<(), FileError> {
    let catalog = probes::catalog(settings.conformance);
    let tools: BTreeSet<&str> = catalog.specs().map(|spec| spec.name).collect();
    let groups: BTreeSet<&str> = catalog.specs().map(|spec| spec.group.name()).collect();
    let named: Vec<&str> = groups.union(&tools).copied().collect();
    for (index, entry) in config.tools.iter().enumerate() {
        let name = entry.strip_prefix('-').unwrap_or(entry);
        if !named.contains(&name) {
            let mean = did_you_mean(name, named.iter().copied());
            let groups = groups.iter().copied().collect::<Vec<_>>().join(", ");
            let why = format!("\"{name}\" is neither a tool nor a group of them ({groups}){mean}");
            return Err(config.wrong(&format!("spec.tools.enabled[{index}]"), why));
        }
    }
    for hook in &config.hooks {
        for (index, pattern) in hook.tools.iter().enumerate() {
            if !tools.iter().any(|tool| tool_matches(pattern, tool)) {
                let why = format!("\"{pattern}\" matches no tool{}", meant(pattern, &tools));
                return Err(config.wrong(&format!("spec.hooks.{}.tools[{index}]", hook.name), why));
            }
        }
    }
    for (name, pattern) in &config.patterns {
        if let Err(why) = Scrubber::builder().pattern(name, pattern) {
            return Err(config.wrong(&format!("spec.scrub.patterns.{name}"), why.to_string()));
        }
    }
    Ok(())
}

/// A pattern in small letters that would match, else the tool whose name is closest.
fn meant(pattern: &str, tools: &BTreeSet<&str>) -> String {
    let small = pattern.to_lowercase();
    if pattern.contains('*') && tools.iter().any(|tool| tool_matches(&small, tool)) {
        return format!("; did you mean \"{small}\"?");
    }
    match did_you_mean(pattern, tools.iter().copied()) {
        none if none.is_empty() => "; `codegen-sandbox tools` lists them".to_owned(),
        mean => mean,
    }
}
