//! What the built product says of itself.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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

/// The built binary.
#[derive(Debug)]
pub(crate) struct Product {
    binary: PathBuf,
}

impl Product {
    /// Builds it as a developer does.
    pub(crate) fn build(root: &Path) -> Result<Self> {
        let mut command = Command::new("cargo");
        command.current_dir(root).args(["build", "--quiet", "--locked", "--package", "codegen-sandbox"]);
        let printed = capture(&mut command)?;
        if printed.success { Self::built(root) } else { bail!("{}", printed.text) }
    }

    /// The one that a step before has built: building a single package anew may choose other features.
    pub(crate) fn built(root: &Path) -> Result<Self> {
        let mut command = Command::new("cargo");
        command.current_dir(root).args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
        let output = command.stdin(Stdio::null()).output().context("cannot start cargo")?;
        let metadata: Value =
            serde_json::from_slice(&output.stdout).context("`cargo metadata` printed no JSON")?;
        let target =
            metadata["target_directory"].as_str().context("`cargo metadata` names no target directory")?;
        let binary = Path::new(target).join("debug/codegen-sandbox");
        if binary.is_file() { Ok(Self { binary }) } else { bail!("{} is not built", binary.display()) }
    }

    /// Every tool that a usual start registers.
    pub(crate) fn tools(&self) -> Result<Vec<Tool>> {
        let listed = self.ask(&["tools", "--json"])?;
        let listed: Vec<Value> =
            serde_json::from_str(&listed).context("`tools --json` printed something else")?;
        let table = self.ask(&["tools"])?;
        let mut tools = Vec::new();
        for tool in listed {
            let name = tool["name"].as_str().context("a tool without a name")?.to_owned();
            let mut rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
            let row = rows.find(|row| row.first() == Some(&name.as_str()));
            let Some([_, group, class, ..]) = row.as_deref() else { bail!("`tools` does not show {name}") };
            tools.push(Tool { name, group: (*group).to_owned(), class: (*class).to_owned(), listed: tool });
        }
        if tools.is_empty() {
            bail!("the product registers no tools");
        }
        Ok(tools)
    }

    /// What it prints for its user.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.binary);
        command.args(arguments).env("NO_COLOR", "1").env("COLUMNS", "100");
        let output = command.stdin(Stdio::null()).output().context("cannot start the product")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            bail!("`codegen-sandbox {}` failed:\n{said}", arguments.join(" "));
        }
        String::from_utf8(output.stdout).context("the product printed something else than text")
    }
}
