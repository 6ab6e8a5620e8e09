//! What `initialize` tells the model: how to work well with the tools that are there.

use tools::{Access, Class, Host};

/// What every conversation pays for must stay short.
pub(super) const LONGEST: usize = 700;

/// Instructions that name only tools that a client with this access can call, and languages that were found.
pub(super) fn fitted(host: &Host, languages: &[&str], access: Access) -> String {
    let tools = host.tools();
    let callable: Vec<&str> = tools
        .specs()
        .filter(|spec| access == Access::Full || spec.class == Class::Read)
        .map(|spec| spec.name)
        .collect();
    let mut lines: Vec<String> = Vec::new();
    let roots: Vec<&str> = host.workspaces.keys().map(String::as_str).collect();
    if roots.len() > 1 {
        lines.push(format!("Workspaces: {}; pass `workspace` in every call.", roots.join(", ")));
    }
    if !languages.is_empty() {
        lines.push(format!("Languages here: {}.", languages.join(", ")));
    }
    lines.push("Paths are relative to the workspace root.".to_owned());
    lines.extend(advice(&callable));
    let mut text = String::new();
    for line in lines {
        if text.len() + line.len() < LONGEST {
            text.push_str(if text.is_empty() { "" } else { "\n" });
            text.push_str(&line);
        }
    }
    text
}

/// How to use the tools of these names.
fn advice(callable: &[&str]) -> Vec<String> {
    let has = |name: &str| callable.contains(&name);
    // Those of `names` that are there, in words.
    let some = |names: &[&'static str]| {
        let there: Vec<&str> = names.iter().copied().filter(|name| has(name)).collect();
        (!there.is_empty()).then(|| there.join(" and "))
    };
    let mut lines = Vec::new();
    if let Some(searching) = some(&["Grep", "Glob"]) {
        let shell = if has("Bash") { " rather than in a shell" } else { "" };
        lines.push(format!("Search with {searching}{shell}: quick, bounded, .gitignore-aware."));
    }
    if some(&["Edit", "Write", "apply_patch"]).is_some() {
        let first = if has("Read") { "Read a file before you change it; a" } else { "A" };
        lines.push(format!("{first} change on top of an older version is refused and shows what differs."));
    }
    let finding =
        some(&["find_definition", "find_references"]).map(|finding| format!("{finding} where code is"));
    let renaming = has("rename_symbol").then(|| "rename_symbol to rename".to_owned());
    let asking: Vec<String> = finding.into_iter().chain(renaming).collect();
    if !asking.is_empty() {
        lines.push(format!("Ask {}.", asking.join(", ")));
    }
    if let Some(verifying) = some(&["run_tests", "run_lint"]) {
        lines.push(format!("Verify with {verifying}: structured results, nothing to parse."));
    }
    if has("Bash") {
        lines.push(
            "Long commands: pass `wait`, then call again with the handle you get; run servers with run_in_background."
                .to_owned(),
        );
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_there_is_named() {
        assert!(advice(&[]).is_empty());
        assert_eq!(advice(&["Grep"]), ["Search with Grep: quick, bounded, .gitignore-aware."]);
        let some = advice(&["Edit", "run_tests", "Bash"]).join("\n");
        assert!(some.contains("Verify with run_tests:") && some.contains("Long commands"), "{some}");
        for absent in ["Read", "Glob", "run_lint", "rename_symbol", "find_"] {
            assert!(!some.contains(absent), "{absent}: {some}");
        }
        let finding = advice(&["find_definition", "find_references", "Read"]);
        assert_eq!(finding, ["Ask find_definition and find_references where code is."]);
    }
}
