//! What a tool is: declared once, in one place.

use crate::{Call, Output, Reply, ToolError, Touches, schema};
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::future::Future;

/// Whether a tool changes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Present in read-only mode.
    Read,
    /// Absent there.
    Write,
}

/// What `--tools` may name besides single tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Files and search.
    Files,
    /// The shell.
    Shell,
    /// Tests, linters, type checkers, formatters.
    Verify,
    /// Code by meaning.
    Code,
    /// Snapshots, secrets, pictures.
    State,
}

impl Group {
    /// As written in `--tools`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Shell => "shell",
            Self::Verify => "verify",
            Self::Code => "code",
            Self::State => "state",
        }
    }
}

/// Everything about a tool that is not its arguments or its work. There is no default: a tool without a
/// class or a description does not compile.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    /// The name agents call it by.
    pub name: &'static str,
    /// Its group.
    pub group: Group,
    /// Its class.
    pub class: Class,
    /// Written for a model: short and precise, paid for by every conversation.
    pub description: &'static str,
    /// It may destroy what was there.
    pub destructive: bool,
    /// Calling it twice is like calling it once.
    pub idempotent: bool,
    /// It may touch the world outside the workspace.
    pub open_world: bool,
    /// It can run for long: it takes `wait` and `handle`, which the pipeline deals with.
    pub long: bool,
}

/// One tool.
pub trait Tool: Send + Sync + 'static {
    /// Its declaration.
    const SPEC: Spec;
    /// What it does to files. The default is the careful one.
    const TOUCHES: Touches = match Self::SPEC.class {
        Class::Write => Touches::Anything,
        Class::Read => Touches::Nothing,
    };
    /// Its arguments; the input schema is derived from them.
    type Args: DeserializeOwned + JsonSchema + Send + 'static;
    /// Its result.
    type Output: Output;

    /// Does the work. Cancellation drops the future: whatever it started must end with it.
    fn run(
        &self,
        call: &Call,
        args: Self::Args,
    ) -> impl Future<Output = Result<Self::Output, ToolError>> + Send;
}

/// A [`Tool`] behind a pointer, as the toolset keeps it.
pub(crate) trait AnyTool: Send + Sync {
    fn spec(&self) -> &'static Spec;
    fn touches(&self) -> Touches;
    fn input_schema(&self) -> Map<String, Value>;
    fn output_schema(&self) -> Option<Map<String, Value>>;
    /// Whether it would take these arguments, which are its own alone.
    fn check(&self, args: Map<String, Value>, several_workspaces: bool) -> Result<(), ToolError>;
    fn run<'a>(&'a self, call: &'a Call, args: Map<String, Value>)
    -> BoxFuture<'a, Result<Reply, ToolError>>;
}

impl<T: Tool> AnyTool for T {
    fn spec(&self) -> &'static Spec {
        const { &T::SPEC }
    }

    fn touches(&self) -> Touches {
        T::TOUCHES
    }

    fn input_schema(&self) -> Map<String, Value> {
        schema::input::<T::Args>()
    }

    fn output_schema(&self) -> Option<Map<String, Value>> {
        T::Output::schema()
    }

    fn check(&self, args: Map<String, Value>, several_workspaces: bool) -> Result<(), ToolError> {
        decode::<T>(args, several_workspaces).map(drop)
    }

    fn run<'a>(
        &'a self,
        call: &'a Call,
        args: Map<String, Value>,
    ) -> BoxFuture<'a, Result<Reply, ToolError>> {
        Box::pin(async move {
            let args = decode::<T>(args, call.host().workspaces.len() > 1)?;
            Ok(Tool::run(self, call, args).await?.into_reply())
        })
    }
}

fn decode<T: Tool>(args: Map<String, Value>, several_workspaces: bool) -> Result<T::Args, ToolError> {
    schema::decode(T::SPEC.name, args, || schema::envelope(&T::SPEC, several_workspaces))
}
