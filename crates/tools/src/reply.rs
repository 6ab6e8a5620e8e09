//! What a call gives back, before any transport.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// One piece of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Text for the model.
    Text(String),
    /// A picture.
    Image {
        /// Its bytes.
        data: Vec<u8>,
        /// Its media type.
        mime: &'static str,
    },
}

/// A finished call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reply {
    /// For the model.
    pub content: Vec<Content>,
    /// The same facts for programs.
    pub structured: Option<Value>,
    /// The call failed in a way the caller can mend.
    pub is_error: bool,
    /// The text is a secret that was asked for by name: it is not scrubbed.
    pub(crate) revealing: bool,
}

impl Reply {
    /// A reply of one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Content::Text(text.into())], ..Self::default() }
    }

    /// A secret that was asked for by name. Only this way does one leave.
    pub(crate) fn revealing(secret: String) -> Self {
        Self { revealing: true, ..Self::text(secret) }
    }

    /// A failed call.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// Bytes of everything for the model.
    pub(crate) fn size(&self) -> usize {
        let of = |content: &Content| match content {
            Content::Text(text) => text.len(),
            Content::Image { data, .. } => data.len(),
        };
        self.content.iter().map(of).sum()
    }

    /// All text of it, for terminals and tests.
    #[must_use]
    pub fn all_text(&self) -> String {
        let texts: Vec<&str> = self
            .content
            .iter()
            .filter_map(|content| match content {
                Content::Text(text) => Some(text.as_str()),
                Content::Image { .. } => None,
            })
            .collect();
        texts.join("\n")
    }
}

/// What a tool may return.
pub trait Output: Send {
    /// The schema of its structured part, when it has one.
    #[must_use]
    fn schema() -> Option<Map<String, Value>> {
        None
    }

    /// Text and facts.
    fn into_reply(self) -> Reply;
}

/// Text only: some clients show structured content *instead of* text, so tools whose text is the
/// whole point (Read, Bash, Grep) return nothing else.
impl Output for String {
    fn into_reply(self) -> Reply {
        Reply::text(self)
    }
}

impl Output for Reply {
    fn into_reply(self) -> Reply {
        self
    }
}

/// Compact text for the model and the same facts for programs.
#[derive(Debug, Clone)]
pub struct Facts<T> {
    /// For the model.
    pub text: String,
    /// For programs.
    pub facts: T,
}

impl<T: Serialize + JsonSchema + Send> Output for Facts<T> {
    fn schema() -> Option<Map<String, Value>> {
        Some(crate::schema::output::<T>())
    }

    fn into_reply(self) -> Reply {
        Reply { structured: serde_json::to_value(self.facts).ok(), ..Reply::text(self.text) }
    }
}
