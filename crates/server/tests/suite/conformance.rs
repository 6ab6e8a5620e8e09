//! The protocol's own suite, complete: also what it does not score.

use crate::launch;
use testkit::{Workspace, clients::conformance};

#[test]
fn conforms_to_2025_11_25() {
    conforms("2025-11-25", 33);
}

#[test]
fn conforms_to_2026_07_28() {
    conforms("2026-07-28", 40);
}

/// A suite that runs fewer scenarios than it did is not a pass.
fn conforms(revision: &str, scenarios: usize) {
    let workspace = Workspace::new();
    let served = launch(&workspace).arg("--conformance").serve();
    let found = conformance(&served.url("/mcp"), revision);
    assert!(found.failed.is_empty(), "{}\n\n{}", found.failed.join("\n"), found.output);
    assert!(found.passed.len() >= scenarios, "only {} scenarios:\n{}", found.passed.len(), found.output);
}

#[test]
fn a_normal_start_shows_no_fixtures() {
    let workspace = Workspace::new();
    let mut client = launch(&workspace).stdio();
    let hello = client.initialize();
    let names: Vec<String> = client.tools().iter().map(|tool| tool["name"].to_string()).collect();
    assert!(!names.iter().any(|name| name.starts_with("\"test_")), "{names:?}");
    assert!(hello["capabilities"].get("resources").is_none(), "{hello}");
    assert!(hello["capabilities"].get("prompts").is_none(), "{hello}");
}
