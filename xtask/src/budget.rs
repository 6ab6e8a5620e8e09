//! What `tools/list` costs: every conversation of every user pays for it.

use anyhow::Result;

use crate::product::{Product, Tool};
use crate::steps::Verdict;

/// The tools that every start should have, whatever else it leaves out.
const CORE: &[&str] =
    &["Read", "Write", "Edit", "apply_patch", "Glob", "Grep", "Bash", "BashOutput", "KillShell"];

/// Bytes that the core may cost, and that all tools may cost: name, description and input schema of each.
const LIMITS: Limits = Limits { core: 5_000, all: 18_000 };

struct Limits {
    core: usize,
    all: usize,
}

/// The verdict for the product as it is.
pub(crate) fn verdict(product: &Product) -> Result<Verdict> {
    let tools = product.tools()?;
    let (text, held) = judge(&tools, &LIMITS);
    Ok(if held { Verdict::Passed(text) } else { Verdict::Failed(format!("{text}\n\n{}", table(&tools))) })
}

/// `cargo xtask budget`: each tool's share, the dearest first.
pub(crate) fn report(product: &Product) -> Result<(String, bool)> {
    let tools = product.tools()?;
    let (text, held) = judge(&tools, &LIMITS);
    Ok((format!("{}\n{text}", table(&tools)), held))
}

fn judge(tools: &[Tool], limits: &Limits) -> (String, bool) {
    let cost = |tool: &Tool| tool.for_model().len();
    let core: usize = tools.iter().filter(|tool| CORE.contains(&tool.name.as_str())).map(cost).sum();
    let all: usize = tools.iter().map(cost).sum();
    let text = format!(
        "files and shell {core} of {} bytes, all {} tools {all} of {}",
        limits.core,
        tools.len(),
        limits.all
    );
    (text, core <= limits.core && all <= limits.all)
}

fn table(tools: &[Tool]) -> String {
    let mut rows: Vec<(usize, &Tool)> = tools.iter().map(|tool| (tool.for_model().len(), tool)).collect();
    rows.sort_by_key(|(size, tool)| (std::cmp::Reverse(*size), &tool.name));
    rows.iter().map(|(size, tool)| format!("{size:6}  {:<24} {}\n", tool.name, tool.group)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tool(name: &str) -> Tool {
        let listed =
            json!({ "name": name, "description": "Does.", "inputSchema": {}, "annotations": { "x": 1 } });
        Tool { name: name.into(), group: "files".into(), class: "read".into(), listed }
    }

    #[test]
    fn counts_what_a_model_is_given_and_fails_above_the_limits() {
        let tools = [tool("Read"), tool("Else")];
        let size = r#"{"name":"Read","description":"Does.","inputSchema":{}}"#.len();
        let held = |core, all| judge(&tools, &Limits { core, all }).1;
        assert!(held(size, 2 * size));
        assert!(!held(size - 1, 2 * size));
        assert!(!held(size, 2 * size - 1));
        let (text, _) = judge(&tools, &Limits { core: 99, all: 999 });
        assert_eq!(text, format!("files and shell {size} of 99 bytes, all 2 tools {} of 999", 2 * size));
    }
}
