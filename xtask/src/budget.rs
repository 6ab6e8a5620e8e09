//! What `tools/list` costs: every conversation of every user pays for it.

use anyhow::Result;

use crate::product::{Product, Tool};
use crate::steps::Verdict;

/// Bytes that some groups of tools may cost together: name, description and input schema of each.
const LIMITS: &[(&[&str], usize)] =
    &[(&["files", "shell"], 5_000), (&["files", "shell", "verify", "code", "state"], 18_000)];

/// The verdict for the product as it is.
pub(crate) fn verdict(product: &Product) -> Result<Verdict> {
    let tools = product.tools()?;
    let (text, held) = judge(&tools, LIMITS);
    Ok(if held { Verdict::Passed(text) } else { Verdict::Failed(format!("{text}\n\n{}", table(&tools))) })
}

/// `cargo xtask budget`: each tool's share, the dearest first.
pub(crate) fn report(product: &Product) -> Result<(String, bool)> {
    let tools = product.tools()?;
    let (text, held) = judge(&tools, LIMITS);
    Ok((format!("{}\n{text}", table(&tools)), held))
}

fn judge(tools: &[Tool], limits: &[(&[&str], usize)]) -> (String, bool) {
    let mut parts = Vec::new();
    let mut held = true;
    for (groups, limit) in limits {
        let counted = tools.iter().filter(|tool| groups.contains(&tool.group.as_str()));
        let size: usize = counted.map(|tool| tool.for_model().len()).sum();
        parts.push(format!("{}: {size} of {limit} bytes", groups.join("+")));
        held &= size <= *limit;
    }
    (parts.join("; "), held)
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

    #[test]
    fn counts_what_a_model_is_given_and_fails_above_the_limit() {
        let listed =
            json!({ "name": "Ab", "description": "Does.", "inputSchema": {}, "annotations": { "x": 1 } });
        let tool = Tool { name: "Ab".into(), group: "files".into(), class: "read".into(), listed };
        let size = r#"{"name":"Ab","description":"Does.","inputSchema":{}}"#.len();
        let tools = [tool];
        let groups: &[&str] = &["files"];
        assert_eq!(judge(&tools, &[(groups, size)]), (format!("files: {size} of {size} bytes"), true));
        assert!(!judge(&tools, &[(groups, size - 1)]).1);
    }
}
