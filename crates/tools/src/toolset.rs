//! The tools of this process, and how they are shown.

use crate::{
    ToolError,
    code::lsp::{
        CallHierarchy, Diagnostics, DocumentSymbols, FindDefinition, FindReferences, Hover, RenameSymbol,
        WorkspaceSymbols,
    },
    code::{
        ChangeFunctionSignature, DeleteSymbol, EditFunctionBody, InsertAfterMethod, InsertAfterSymbol,
        InsertBeforeSymbol, ReplaceSymbol, SearchCode,
    },
    files::{ApplyPatch, Edit, Glob, Grep, Read, Write},
    schema,
    shell::{Bash, BashOutput, KillShell, WatchProcess, WatchProcessEvents},
    state::{
        RenderDot, RenderMermaid, SecretValue, SecretsAvailable, SnapshotCreate, SnapshotDelete,
        SnapshotDiff, SnapshotList, SnapshotRestore, Undo,
    },
    tool::{AnyTool, Class, Spec, Tool},
    verify::{
        LastTestFailures, RunFailingTests, RunFormat, RunLint, RunScript, RunTests, RunTypecheck,
        TestsCovering,
    },
};
use config::Settings;
use serde_json::{Map, Value};
use std::sync::{Arc, OnceLock};

/// The tools a process may register.
#[derive(Default, Clone)]
pub struct Catalog(Vec<Arc<dyn AnyTool>>);

impl Catalog {
    /// Every tool this product ships: a line each.
    #[must_use]
    pub fn shipped() -> Self {
        Self::default()
            .with(Read)
            .with(Write)
            .with(Edit)
            .with(ApplyPatch)
            .with(Glob)
            .with(Grep)
            .with(Bash)
            .with(BashOutput)
            .with(KillShell)
            .with(WatchProcess)
            .with(WatchProcessEvents)
            .with(RunTests)
            .with(LastTestFailures)
            .with(RunFailingTests)
            .with(RunLint)
            .with(RunTypecheck)
            .with(RunFormat)
            .with(RunScript)
            .with(TestsCovering)
            .with(FindDefinition)
            .with(FindReferences)
            .with(RenameSymbol)
            .with(DocumentSymbols)
            .with(WorkspaceSymbols)
            .with(Hover)
            .with(Diagnostics)
            .with(CallHierarchy)
            .with(SearchCode)
            .with(EditFunctionBody)
            .with(ChangeFunctionSignature)
            .with(InsertAfterMethod)
            .with(ReplaceSymbol)
            .with(InsertBeforeSymbol)
            .with(InsertAfterSymbol)
            .with(DeleteSymbol)
            .with(SnapshotCreate)
            .with(SnapshotList)
            .with(SnapshotDiff)
            .with(SnapshotRestore)
            .with(SnapshotDelete)
            .with(Undo)
            .with(SecretValue)
            .with(SecretsAvailable)
            .with(RenderDot)
            .with(RenderMermaid)
    }

    /// What each of them declares.
    pub fn specs(&self) -> impl Iterator<Item = &'static Spec> {
        self.0.iter().map(|tool| tool.spec())
    }

    /// One more.
    #[must_use]
    pub fn with(mut self, tool: impl Tool) -> Self {
        self.0.push(Arc::new(tool));
        self
    }
}

/// A tool as it is shown to clients.
#[derive(Debug, Clone)]
pub struct Listed {
    /// Its declaration.
    pub spec: &'static Spec,
    /// What it takes.
    pub input_schema: Map<String, Value>,
    /// What its structured part looks like, when it has one.
    pub output_schema: Option<Map<String, Value>>,
}

/// The registered tools.
pub struct Toolset {
    tools: Vec<Arc<dyn AnyTool>>,
    several_workspaces: bool,
    /// Made when somebody asks: a start that is followed by calls only does not wait for schemas.
    listed: OnceLock<Vec<Listed>>,
}

impl Toolset {
    /// The tools of `catalog` that `settings` register.
    ///
    /// # Errors
    /// A `--tools` entry that names nothing.
    pub fn new(settings: &Settings, catalog: Catalog) -> anyhow::Result<Self> {
        let mut tools = chosen(catalog.0, &settings.tools.0)?;
        tools.retain(|tool| !settings.readonly || tool.spec().class == Class::Read);
        tools.retain(|tool| !settings.hide_secrets || tool.spec().name != SecretValue::SPEC.name);
        tools.retain(|tool| settings.undo.enabled || tool.spec().name != Undo::SPEC.name);
        Ok(Self { tools, several_workspaces: settings.workspaces.len() > 1, listed: OnceLock::new() })
    }

    /// As shown to clients, in a stable order.
    #[must_use]
    pub fn listed(&self) -> &[Listed] {
        let list = |tool: &Arc<dyn AnyTool>| list(tool.as_ref(), self.several_workspaces);
        self.listed.get_or_init(|| self.tools.iter().map(list).collect())
    }

    /// What each of them declares, in the same order.
    pub fn specs(&self) -> impl Iterator<Item = &'static Spec> {
        self.tools.iter().map(|tool| tool.spec())
    }

    /// Their names, in the same order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.specs().map(|spec| spec.name)
    }

    /// Whether both have the same tools.
    pub(crate) fn same(&self, other: &Self) -> bool {
        let names = |set: &Self| set.tools.iter().map(|tool| tool.spec().name).collect::<Vec<_>>();
        names(self) == names(other)
    }

    pub(crate) fn find(&self, name: &str) -> Result<Arc<dyn AnyTool>, ToolError> {
        self.tools.iter().find(|tool| tool.spec().name == name).cloned().ok_or_else(|| {
            let known: Vec<&str> = self.names().collect();
            ToolError::caller(format!("unknown tool \"{name}\"; registered: {}", known.join(", ")))
        })
    }
}

fn list(tool: &dyn AnyTool, several_workspaces: bool) -> Listed {
    let mut input_schema = tool.input_schema();
    if let Some(Value::Object(properties)) = input_schema.get_mut("properties") {
        properties.extend(schema::envelope(tool.spec(), several_workspaces));
    }
    let mut output_schema = tool.output_schema();
    output_schema.iter_mut().filter(|_| tool.spec().long).for_each(schema::or_handle);
    Listed { spec: tool.spec(), input_schema, output_schema }
}

/// `--tools`: groups or names; `-name` leaves one out; nothing chosen means all.
fn chosen(tools: Vec<Arc<dyn AnyTool>>, filter: &[String]) -> anyhow::Result<Vec<Arc<dyn AnyTool>>> {
    let hit =
        |entry: &str, tool: &Arc<dyn AnyTool>| entry == tool.spec().group.name() || entry == tool.spec().name;
    for entry in filter {
        let name = entry.strip_prefix('-').unwrap_or(entry);
        anyhow::ensure!(
            tools.iter().any(|tool| hit(name, tool)),
            "--tools: \"{name}\" is neither a group (files, shell, verify, code, state) nor a tool"
        );
    }
    let (out, into): (Vec<&String>, Vec<&String>) = filter.iter().partition(|entry| entry.starts_with('-'));
    Ok(tools
        .into_iter()
        .filter(|tool| into.is_empty() || into.iter().any(|entry| hit(entry, tool)))
        .filter(|tool| !out.iter().any(|entry| hit(entry.trim_start_matches('-'), tool)))
        .collect())
}
