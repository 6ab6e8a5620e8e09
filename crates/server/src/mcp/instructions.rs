//! What `initialize` tells the model: how to work well with the tools that are there.

use crate::found;
use tools::Host;

/// What every conversation pays for must stay short.
pub(super) const LONGEST: usize = 700;

/// Instructions that name only tools that are registered and languages that were found.
pub(super) fn fitted(host: &Host) -> String {
    let tools = host.tools();
    let names: Vec<&str> = tools.names().collect();
    let has = |name: &str| names.contains(&name);
    let mut lines: Vec<String> = Vec::new();
    let roots: Vec<&str> = host.workspaces.keys().map(String::as_str).collect();
    if roots.len() > 1 {
        lines.push(format!("Workspaces: {}; pass `workspace` in every call.", roots.join(", ")));
    }
    let languages = found::languages(&host.settings);
    if !languages.is_empty() {
        lines.push(format!("Languages here: {}.", languages.join(", ")));
    }
    lines.push("Paths are relative to the workspace root.".to_owned());
    if has("Grep") {
        lines.push(
            "Search with Grep and Glob rather than in a shell: quicker, bounded, .gitignore-aware."
                .to_owned(),
        );
    }
    if has("Edit") {
        lines.push(
            "Read a file before you change it; a change on top of an older version is refused and shows what differs."
                .to_owned(),
        );
    }
    if has("find_definition") {
        lines.push(
            "Ask find_definition and find_references where code is, rename_symbol to rename.".to_owned(),
        );
    }
    if has("run_tests") {
        lines.push("Verify with run_tests and run_lint: structured results, nothing to parse.".to_owned());
    }
    if has("Bash") {
        lines.push(
            "Long commands: pass `wait`, then call again with the handle you get; run servers with run_in_background."
                .to_owned(),
        );
    }
    let mut text = String::new();
    for line in lines {
        if text.len() + line.len() < LONGEST {
            text.push_str(if text.is_empty() { "" } else { "\n" });
            text.push_str(&line);
        }
    }
    text
}
