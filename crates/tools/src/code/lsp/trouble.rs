//! What can go wrong between a tool and a server.

use super::running::Running;
use crate::ToolError;

/// Why a question has no answer.
pub(crate) enum Trouble {
    /// The server ended meanwhile: asking again starts another.
    Gone(String),
    /// Anything else.
    Tool(ToolError),
}

impl From<ToolError> for Trouble {
    fn from(error: ToolError) -> Self {
        Self::Tool(error)
    }
}

impl From<Trouble> for ToolError {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Tool(error) => error,
            Trouble::Gone(why) => Self::with_hint(why, "the next call starts it anew"),
        }
    }
}

impl Trouble {
    /// A server's refusal in a tool's words.
    pub(crate) fn of(error: &lsp::Error, running: &Running) -> Self {
        match error {
            lsp::Error::Gone => Self::Gone(running.obituary()),
            lsp::Error::Refused { message, .. } => {
                let message = running.within(message);
                // What gopls says of a file that it loads nothing for.
                match message.strip_prefix("no package metadata for file file://") {
                    Some(file) => Self::Tool(ToolError::with_hint(
                        format!("{} does not load {file}: build constraints leave it out", running.name),
                        "with GOFLAGS=-tags=… in the environment of codegen-sandbox it does; Grep and Read need no server",
                    )),
                    None => Self::Tool(ToolError::caller(format!("{}: {message}", running.name))),
                }
            }
        }
    }
}

/// Asks again when the server ended while it was asked.
macro_rules! twice {
    ($ask:expr) => {
        match $ask.await {
            Err($crate::code::lsp::trouble::Trouble::Gone(_)) => $ask.await,
            done => done,
        }
        .map_err($crate::ToolError::from)
    };
}

pub(super) use twice;
