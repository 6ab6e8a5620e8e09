//! `KillShell`: ends a background shell.

use super::Entry;
use crate::{Call, Class, Facts, Group, Spec, Tool, ToolError, Touches};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Ends a shell.
pub(crate) struct KillShell;

/// What `KillShell` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    shell_id: String,
}

/// What `KillShell` did.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Killed {
    shell_id: String,
    /// false: it had ended before
    killed: bool,
}

impl Tool for KillShell {
    const SPEC: Spec = Spec {
        name: "KillShell",
        group: Group::Shell,
        class: Class::Write,
        description: "End a background shell and everything it started.",
        destructive: true,
        idempotent: true,
        open_world: false,
        long: false,
    };
    const TOUCHES: Touches = Touches::Nothing;
    type Args = Args;
    type Output = Facts<Killed>;

    async fn run(&self, call: &Call, args: Args) -> Result<Facts<Killed>, ToolError> {
        let shell_id = args.shell_id;
        match call.session.shells.find(&shell_id)? {
            Entry::Background(shell) if !shell.ended() => {
                shell.kill().await;
                Ok(Facts { text: format!("killed: {shell_id}"), facts: Killed { shell_id, killed: true } })
            }
            _ => Ok(Facts {
                text: format!("{shell_id} had already ended"),
                facts: Killed { shell_id, killed: false },
            }),
        }
    }
}
