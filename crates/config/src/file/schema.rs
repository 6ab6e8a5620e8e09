//! The file as it is written.

use super::modes;
use crate::hook::{HookKind, HookMode, Phase};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::{borrow::Cow, collections::BTreeMap};

/// `codegen-sandbox/v1`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) enum ApiVersion {
    #[serde(rename = "codegen-sandbox/v1")]
    V1,
}

/// `RuntimeConfig`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) enum Kind {
    RuntimeConfig,
}

/// Configuration of codegen-sandbox.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "RuntimeConfig")]
pub(super) struct File {
    /// The version of this format.
    #[serde(rename = "apiVersion")]
    pub(super) _version: ApiVersion,
    /// The kind of this file.
    #[serde(rename = "kind")]
    pub(super) _kind: Kind,
    #[serde(default, deserialize_with = "empty_or")]
    pub(super) spec: Spec,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Spec {
    /// Places where commands run, by name.
    #[serde(deserialize_with = "empty_or")]
    pub(super) sandboxes: BTreeMap<String, SandboxBlock>,
    /// The tools and where they run.
    #[serde(deserialize_with = "empty_or")]
    pub(super) tools: ToolsBlock,
    /// Where the programs of a language run.
    #[serde(deserialize_with = "empty_or")]
    pub(super) languages: BTreeMap<String, LanguageBlock>,
    /// Programs that are asked, or told, when something happens. Run in the order of the file.
    #[serde(deserialize_with = "empty_or")]
    pub(super) hooks: BTreeMap<String, HookBlock>,
    /// What is taken out of everything that leaves, besides the shapes that are known anyway.
    #[serde(deserialize_with = "empty_or")]
    pub(super) scrub: ScrubBlock,
    /// Bounds; a flag wins over each.
    #[serde(deserialize_with = "empty_or")]
    pub(super) limits: LimitsBlock,
    /// What is kept so that a call can be undone.
    #[serde(deserialize_with = "empty_or")]
    pub(super) undo: UndoBlock,
    /// What may be done with secrets.
    #[serde(deserialize_with = "empty_or")]
    pub(super) secrets: SecretsBlock,
}

impl JsonSchema for SandboxBlock {
    fn schema_name() -> Cow<'static, str> {
        "SandboxBlock".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        modes::schema().into()
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct SandboxBlock {
    /// direct, isolated, docker_run, docker_exec, kubectl_exec, remote, or one that this build adds.
    pub(super) mode: String,
    /// What the mode takes.
    #[serde(flatten)]
    pub(super) config: Map<String, Value>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ToolsBlock {
    /// The sandbox where Bash and everything else runs; without it the strongest isolation of this host.
    pub(super) default_sandbox: Option<String>,
    /// Groups or names of tools to register; `-name` leaves one out. `--tools` wins.
    pub(super) enabled: Vec<String>,
    /// Replaces the list of commands that Bash refuses.
    pub(super) denylist: Option<Vec<String>>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LanguageBlock {
    /// The sandbox where its tests, linters and language server run.
    pub(super) sandbox: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HookBlock {
    /// What it is about.
    pub(super) hook: HookKind,
    /// When it is run.
    pub(super) phases: Vec<Phase>,
    /// What it may do.
    #[serde(default)]
    pub(super) mode: HookMode,
    /// Which tools it sees; `*` stands for anything. All when absent.
    #[serde(default)]
    pub(super) tools: Vec<String>,
    /// The program; a path that starts with `.` is relative to this file.
    pub(super) command: String,
    /// Its arguments.
    #[serde(default)]
    pub(super) args: Vec<String>,
    /// `KEY=value`, or a bare `KEY` to forward.
    #[serde(default)]
    pub(super) env: Vec<String>,
    /// How long it may take.
    #[serde(default = "ten_seconds", deserialize_with = "number")]
    pub(super) timeout_ms: u64,
    /// The sandbox it runs in.
    #[serde(default)]
    pub(super) sandbox: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ScrubBlock {
    /// Regular expressions by name; what they match becomes `[REDACTED:<name>]`.
    pub(super) patterns: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct LimitsBlock {
    /// Calls running at once.
    #[serde(deserialize_with = "optional_number")]
    pub(super) calls: Option<u64>,
    /// Sessions at once.
    #[serde(deserialize_with = "optional_number")]
    pub(super) sessions: Option<u64>,
    /// Connections at once.
    #[serde(deserialize_with = "optional_number")]
    pub(super) connections: Option<u64>,
    /// Bytes of one message, such as 64MiB.
    pub(super) body: Option<String>,
    /// How long a body may take, such as 60s.
    pub(super) body_time: Option<String>,
    /// How long a connection may say nothing.
    pub(super) connection_idle: Option<String>,
    /// How long nobody may use a session.
    pub(super) session_idle: Option<String>,
    /// How long calls may go on after SIGTERM.
    pub(super) grace: Option<String>,
    /// Memory that the index of one workspace may take, such as 256MiB.
    pub(super) index_budget: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct UndoBlock {
    /// Whether what calls change is kept at all; true when absent.
    pub(super) enabled: Option<bool>,
    /// How many changes are kept; 100 when absent.
    #[serde(deserialize_with = "optional_number")]
    pub(super) keep: Option<u64>,
    /// How long one is kept, such as 7d.
    pub(super) max_age: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SecretsBlock {
    /// Whether the tool `secret` shows values; false leaves only their use in commands. True when absent.
    pub(super) reveal: Option<bool>,
}

fn ten_seconds() -> u64 {
    10_000
}

/// A number, also one that came out of a variable.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let value = Value::deserialize(deserializer)?;
    if value.is_null() {
        return Err(serde::de::Error::invalid_type(serde::de::Unexpected::Unit, &"a whole number"));
    }
    let number = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok());
    number.ok_or_else(|| serde::de::Error::custom(format!("{value} is not a whole number")))
}

fn optional_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    number(deserializer).map(Some)
}

/// A block, also one whose keys are all left out.
fn empty_or<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}
