//! What the built product says of itself.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::steps::capture;

/// A tool as a client sees it, and where it belongs.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) group: String,
    pub(crate) class: String,
    pub(crate) listed: Value,
}

impl Tool {
    /// What a model is given of it: name, description, input schema.
    pub(crate) fn for_model(&self) -> String {
        let part = |key: &str| self.listed.get(key).map(Value::to_string).unwrap_or_default();
        format!(
            r#"{{"name":{},"description":{},"inputSchema":{}}}"#,
            part("name"),
            part("description"),
            part("inputSchema")
        )
    }
}

/// Every tool that a usual start registers.
pub(crate) fn tools(root: &Path) -> Result<Vec<Tool>> {
    let listed: Vec<Value> = serde_json::from_str(&ask(root, &["tools", "--json"])?)
        .context("`tools --json` printed something else")?;
    let table = ask(root, &["tools"])?;
    let mut tools = Vec::new();
    for tool in listed {
        let name = tool["name"].as_str().context("a tool without a name")?.to_owned();
        let row = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let row = row.into_iter().find(|row| row.first() == Some(&name.as_str()));
        let Some([_, group, class, ..]) = row.as_deref() else { bail!("`tools` does not show {name}") };
        tools.push(Tool { name, group: (*group).to_owned(), class: (*class).to_owned(), listed: tool });
    }
    if tools.is_empty() {
        bail!("the product registers no tools");
    }
    Ok(tools)
}

/// Runs the product (built when need be) and gives what it printed.
pub(crate) fn ask(root: &Path, arguments: &[&str]) -> Result<String> {
    let mut build = Command::new("cargo");
    build.current_dir(root).args(["build", "--quiet", "--locked", "--package", "codegen-sandbox"]);
    let built = capture(&mut build)?;
    if !built.success {
        bail!("{}", built.text);
    }
    let mut command = Command::new("cargo");
    command.current_dir(root).args(["run", "--quiet", "--locked", "--package", "codegen-sandbox", "--"]);
    let printed = capture(command.args(arguments).env("NO_COLOR", "1").env("COLUMNS", "100"))?;
    if printed.success { Ok(printed.text) } else { bail!("{}", printed.text) }
}
