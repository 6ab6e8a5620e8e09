//! Files made from the product itself: the reference of tools, of the command line and of the configuration.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::product::{Product, Tool};
use crate::steps::Verdict;

/// Where they go, under the project's root.
const FOLDER: &str = "docs/src/reference";

const NOTE: &str = "<!-- Made by `cargo xtask generate`; do not edit. -->\n\n";

/// Groups in the order of the book, with what they are.
const GROUPS: &[(&str, &str)] = &[
    ("files", "Files and search"),
    ("shell", "Shell"),
    ("verify", "Tests, linters, type checkers, formatters"),
    ("code", "Code by meaning"),
    ("state", "Snapshots, secrets, pictures"),
];

/// `cargo xtask generate`: writes them.
pub(crate) fn write(root: &Path, product: &Product) -> Result<String> {
    let wanted = pages(product)?;
    let folder = root.join(FOLDER);
    fs::create_dir_all(&folder).with_context(|| format!("creating {FOLDER}"))?;
    let mut changed = Vec::new();
    for name in present(&folder)? {
        if !wanted.contains_key(&name) {
            fs::remove_file(folder.join(&name)).with_context(|| format!("removing {name}"))?;
            changed.push(name);
        }
    }
    for (name, content) in &wanted {
        let path = folder.join(name);
        if fs::read_to_string(&path).ok().as_ref() != Some(content) {
            fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
            changed.push(name.clone());
        }
    }
    summary_lists(root, wanted.keys())?;
    Ok(match changed.as_slice() {
        [] => format!("{} files in {FOLDER}, all as they should be", wanted.len()),
        list => format!("changed in {FOLDER}: {}", list.join(", ")),
    })
}

/// `cargo xtask generate --check`: whether writing them would change something.
pub(crate) fn verdict(root: &Path, product: &Product) -> Result<Verdict> {
    let wanted = pages(product)?;
    let folder = root.join(FOLDER);
    let current = |name: &String| fs::read_to_string(folder.join(name)).ok();
    let mut stale: Vec<String> = wanted
        .iter()
        .filter(|(name, content)| current(name).as_ref() != Some(*content))
        .map(|(name, _)| name.clone())
        .collect();
    stale.extend(present(&folder)?.into_iter().filter(|name| !wanted.contains_key(name)));
    if !stale.is_empty() {
        return Ok(Verdict::Failed(format!(
            "out of date in {FOLDER}: {}. Run `cargo xtask generate` and commit what it writes.",
            stale.join(", ")
        )));
    }
    summary_lists(root, wanted.keys())?;
    Ok(Verdict::Passed(format!("{} files", wanted.len())))
}

fn present(folder: &Path) -> Result<Vec<String>> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(Vec::new()) };
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    names.collect::<Result<Vec<_>>>().with_context(|| format!("reading {}", folder.display()))
}

/// A page that the table of contents does not name is a page that nobody finds.
fn summary_lists<'a>(root: &Path, pages: impl Iterator<Item = &'a String>) -> Result<()> {
    let summary =
        fs::read_to_string(root.join("docs/src/SUMMARY.md")).context("reading docs/src/SUMMARY.md")?;
    for page in pages.filter(|page| page.ends_with(".md")) {
        if !summary.contains(&format!("(reference/{page})")) {
            bail!("docs/src/SUMMARY.md does not list reference/{page}");
        }
    }
    Ok(())
}

fn pages(product: &Product) -> Result<BTreeMap<String, String>> {
    let tools = product.tools()?;
    let mut pages = BTreeMap::from([
        ("cli.md".to_owned(), command_line(product)?),
        ("runtime-config.schema.json".to_owned(), product.ask(&["config", "schema"])?),
    ]);
    for (group, title) in GROUPS {
        let members: Vec<&Tool> = tools.iter().filter(|tool| tool.group == *group).collect();
        if !members.is_empty() {
            pages.insert(format!("{group}.md"), group_page(title, group, &members));
        }
    }
    if let Some(lost) = tools.iter().find(|tool| !GROUPS.iter().any(|(group, _)| *group == tool.group)) {
        bail!("{} is in the group {}, which xtask/src/generate.rs does not know", lost.name, lost.group);
    }
    Ok(pages)
}

fn command_line(product: &Product) -> Result<String> {
    let overview = product.ask(&["--help"])?;
    let mut page = format!("# Command line\n\n{NOTE}```text\n{}\n```\n", tidy(&overview));
    let commands =
        overview.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    for command in commands.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help") {
        let help = product.ask(&[command, "--help"])?;
        // Writing to a String does not fail.
        let _ = write!(page, "\n## {command}\n\n```text\n{}\n```\n", tidy(&help));
    }
    Ok(page)
}

fn tidy(text: &str) -> String {
    text.trim_end().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

fn group_page(title: &str, group: &str, tools: &[&Tool]) -> String {
    let mut page = format!("# {title}\n\n{NOTE}Registered by `--tools {group}`, and by default.\n");
    for tool in tools {
        page.push_str(&tool_section(tool));
    }
    page
}

fn tool_section(tool: &Tool) -> String {
    let description = tool.listed["description"].as_str().unwrap_or_default();
    let mut text = format!("\n## {}\n\n{}\n\n*{}*\n", tool.name, description.trim(), traits(tool));
    let schema = &tool.listed["inputSchema"];
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let Some(properties) = schema["properties"].as_object().filter(|properties| !properties.is_empty())
    else {
        text.push_str("\nNo parameters.\n");
        return text;
    };
    text.push_str("\n| parameter | type | default | |\n|---|---|---|---|\n");
    for (name, property) in properties {
        let needed =
            if required.contains(&name.as_str()) { "required".to_owned() } else { default(property) };
        let about =
            property["description"].as_str().unwrap_or_default().replace('\n', " ").replace('|', "\\|");
        // Writing to a String does not fail.
        let _ = writeln!(text, "| `{name}` | {} | {needed} | {about} |", kind(property));
    }
    text
}

fn traits(tool: &Tool) -> String {
    let annotations = &tool.listed["annotations"];
    let mut words = vec![match tool.class.as_str() {
        "read" => "changes nothing",
        _ => "absent in read-only mode",
    }];
    for (key, word) in [
        ("destructiveHint", "may destroy"),
        ("idempotentHint", "idempotent"),
        ("openWorldHint", "reaches outside the workspace"),
    ] {
        if annotations[key] == true {
            words.push(word);
        }
    }
    words.join(" · ")
}

fn default(property: &Value) -> String {
    match property.get("default") {
        None | Some(Value::Null) => String::new(),
        Some(value) => format!("`{value}`"),
    }
}

fn kind(property: &Value) -> String {
    if let Some(values) = property["enum"].as_array() {
        return values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(" \\| ");
    }
    if let Some(choices) = property["oneOf"].as_array().or_else(|| property["anyOf"].as_array()) {
        return choices.iter().map(kind).collect::<Vec<_>>().join(" \\| ");
    }
    if let Some(constant) = property.get("const") {
        return format!("`{constant}`");
    }
    match &property["type"] {
        Value::String(name) if name == "array" => format!("array of {}", kind(&property["items"])),
        Value::String(name) => name.clone(),
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" \\| "),
        _ => "any".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_tool_becomes_a_section() {
        let listed = json!({
            "name": "Glob", "description": "Finds files.", "annotations": { "readOnlyHint": true, "idempotentHint": true },
            "inputSchema": { "type": "object", "required": ["pattern"], "properties": {
                "pattern": { "type": "string", "description": "A glob | pattern" },
                "limit": { "type": "integer", "default": 100 },
                "mode": { "enum": ["a", "b"] },
            } },
        });
        let tool = Tool { name: "Glob".into(), group: "files".into(), class: "read".into(), listed };
        let expected = "\n## Glob\n\nFinds files.\n\n*changes nothing · idempotent*\n\n\
            | parameter | type | default | |\n|---|---|---|---|\n\
            | `limit` | integer | `100` |  |\n\
            | `mode` | `\"a\"` \\| `\"b\"` |  |  |\n\
            | `pattern` | string | required | A glob \\| pattern |\n";
        let section = tool_section(&tool);
        let mut lines: Vec<&str> = section.lines().collect();
        let mut wanted: Vec<&str> = expected.lines().collect();
        // Whether a map keeps its order is a choice of another crate.
        lines.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(lines, wanted);
    }
}
