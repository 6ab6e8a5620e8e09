//! Two kinds of failure, split by who can mend them.

/// Why a tool gave no result.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The caller can mend it: the agent reads this text.
    #[error("{message}{}", hint.as_deref().map(|hint| format!("\n{hint}")).unwrap_or_default())]
    Caller {
        /// What is wrong.
        message: String,
        /// What to do next, when the message does not already say.
        hint: Option<String>,
    },
    /// We broke: logged under an id, and the agent gets the id.
    #[error(transparent)]
    Fault(#[from] anyhow::Error),
    /// The caller cancelled.
    #[error("cancelled")]
    Cancelled,
}

impl ToolError {
    /// A failure whose message says everything.
    pub fn caller(message: impl Into<String>) -> Self {
        Self::Caller { message: message.into(), hint: None }
    }

    /// A failure with the next step.
    pub fn with_hint(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Caller { message: message.into(), hint: Some(hint.into()) }
    }
}
