//! What is known about particular servers: when their answers can be trusted.

use crate::client::State;
use std::path::Path;

/// A server as far as its habits matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// gopls.
    Gopls,
    /// rust-analyzer.
    RustAnalyzer,
    /// typescript-language-server, in front of tsserver.
    TypeScript,
    /// `tsc --lsp` of TypeScript 7.
    NativeTypeScript,
    /// pyright and basedpyright.
    Pyright,
    /// Any other: taken at its word.
    Other,
}

/// What a server must have done before it is asked.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wanted {
    /// Looks through the sources, counted from its start.
    pub(crate) scans: u64,
}

impl Kind {
    /// By the server's name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        match name {
            "gopls" => Self::Gopls,
            "rust-analyzer" => Self::RustAnalyzer,
            "typescript-language-server" => Self::TypeScript,
            "tsc" => Self::NativeTypeScript,
            "pyright-langserver" | "basedpyright-langserver" | "pyright" | "basedpyright" => Self::Pyright,
            _ => Self::Other,
        }
    }

    /// Whether it answers for a file only once that is open.
    #[must_use]
    pub fn needs_open(self) -> bool {
        matches!(self, Self::TypeScript | Self::Pyright | Self::Other | Self::NativeTypeScript)
    }

    /// Whether a change of this file makes it load the project anew.
    pub(crate) fn reloads_for(self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        self == Self::RustAnalyzer && matches!(name, "Cargo.toml" | "rust-project.json")
    }

    /// What it is still doing, in words; nothing when its answers can be trusted.
    pub(crate) fn waits_for(self, state: &State, wanted: Wanted) -> Option<String> {
        let works = |skip: &str| state.works.values().find(|work| !work.title.starts_with(skip));
        match self {
            Self::RustAnalyzer if state.quiescent == Some(true) => None,
            Self::RustAnalyzer => {
                Some(works("\0").map_or_else(|| "loading the project".to_owned(), ToString::to_string))
            }
            Self::Pyright if state.scans < wanted.scans.max(1) => Some("looking for source files".to_owned()),
            Self::Gopls | Self::TypeScript | Self::NativeTypeScript => {
                // What a request of ours makes it do is reported like its own loading.
                let own = |work: &&crate::client::Work| {
                    ["Setting up", "Loading", "Initializing", "Analyzing"]
                        .iter()
                        .any(|start| work.title.starts_with(start))
                };
                state.works.values().find(own).map(ToString::to_string)
            }
            Self::Pyright | Self::Other => None,
        }
    }
}
