//! `secret` and `secrets_available`.

use crate::{Call, Class, Facts, Group, Output, Reply, Spec, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Gives a secret's value.
pub(crate) struct SecretValue;

/// What `secret` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    name: String,
}

/// The one result that is not scrubbed.
pub(crate) struct Value(String);

impl Output for Value {
    fn into_reply(self) -> Reply {
        Reply::revealing(self.0)
    }
}

impl Tool for SecretValue {
    const SPEC: Spec = Spec {
        name: "secret",
        group: Group::State,
        class: Class::Read,
        description: "A secret's value. For a command, pass its name to Bash as `secrets` instead.",
        destructive: false,
        idempotent: true,
        open_world: false,
        long: false,
    };
    type Args = Args;
    type Output = Value;

    async fn run(&self, call: &Call, args: Args) -> Result<Value, ToolError> {
        let name = args.name;
        let asked = name.clone();
        let value = call.blocking(move |call| call.host().vault.get(&asked)).await;
        let (session, principal) = (&call.session.id, call.session.principal.as_deref());
        let granted = value.is_ok();
        tracing::info!(target: "audit", event = "secret", name, session, principal, granted);
        value.map(Value)
    }
}

/// Names the secrets.
pub(crate) struct SecretsAvailable;

/// What `secrets_available` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct None {}

/// What there is.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Names {
    names: Vec<String>,
}

impl Tool for SecretsAvailable {
    const SPEC: Spec = Spec {
        name: "secrets_available",
        group: Group::State,
        class: Class::Read,
        description: "Names of the secrets there are.",
        destructive: false,
        idempotent: true,
        open_world: false,
        long: false,
    };
    type Args = None;
    type Output = Facts<Names>;

    async fn run(&self, call: &Call, _: None) -> Result<Facts<Names>, ToolError> {
        let names = call.blocking(|call| Ok(call.host().vault.names())).await?;
        let text = if names.is_empty() { "no secrets".to_owned() } else { names.join("\n") };
        Ok(Facts { text, facts: Names { names } })
    }
}
