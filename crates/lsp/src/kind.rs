//! What is known about particular servers: when their answers can be trusted.

use crate::client::State;
use std::{path::Path, time::Duration};

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

/// How long a sign is waited for that a server may not give.
const SIGN: Duration = Duration::from_secs(5);

/// What a server is doing.
pub(crate) struct Doing {
    pub(crate) what: String,
    /// How long to believe it.
    pub(crate) patience: Option<Duration>,
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

    /// Mistakes that it does not look for, though the language forbids them.
    #[must_use]
    pub fn blind_to(self) -> Option<&'static str> {
        (self == Self::RustAnalyzer).then_some("unknown types and paths, borrows, traits and macros")
    }

    /// Symbols that it finds in a workspace at most, however many there are.
    #[must_use]
    pub fn most_symbols(self) -> Option<usize> {
        match self {
            Self::Gopls => Some(100),
            Self::RustAnalyzer => Some(4096),
            _ => None,
        }
    }

    /// How long an answer is waited for before it is asked for again: what ty is asked for while it takes a change in,
    /// it was seen never to answer, and at once when it was asked again.
    pub(crate) fn patience(self, method: &str) -> &'static [Duration] {
        const TWICE: &[Duration] = &[Duration::from_secs(1), Duration::from_secs(10)];
        if self == Self::Other && method.starts_with("textDocument/") { TWICE } else { &[] }
    }

    /// Whether it answers for a file only once that is open.
    #[must_use]
    pub fn needs_open(self) -> bool {
        matches!(self, Self::TypeScript | Self::Pyright | Self::Other | Self::NativeTypeScript)
    }

    /// Whether it is asked for this file when that has changed: it reads files when it likes.
    pub(crate) fn confirms(self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let governs = matches!(name, "Cargo.toml" | "Cargo.lock" | "rust-project.json");
        self == Self::RustAnalyzer && (governs || path.extension().is_some_and(|end| end == "rs"))
    }

    /// What it is still doing; nothing when its answers can be trusted.
    pub(crate) fn waits_for(self, state: &State) -> Option<Doing> {
        let work = || {
            // What a question makes a server do is reported like its own loading.
            let own = ["Setting up", "Loading", "Initializing", "Analyzing"];
            state.works.values().find(|work| own.iter().any(|start| work.title.starts_with(start)))
        };
        match self {
            Self::RustAnalyzer if state.quiescent == Some(true) => None,
            // It is believed at its own word alone: between two pieces of work that it reports there may be a third
            // that it has not begun.
            Self::RustAnalyzer => {
                let work = state.works.values().next().map(ToString::to_string);
                Some(Doing { what: work.unwrap_or_else(|| "loading the project".to_owned()), patience: None })
            }
            Self::Pyright if state.scans < state.wanted.max(1) => {
                Some(Doing { what: "looking for source files".to_owned(), patience: Some(SIGN) })
            }
            Self::Gopls if state.loads == 0 && work().is_none() => {
                Some(Doing { what: "loading the workspace".to_owned(), patience: Some(SIGN) })
            }
            Self::Gopls | Self::TypeScript | Self::NativeTypeScript => {
                work().map(|work| Doing { what: work.to_string(), patience: None })
            }
            Self::Pyright | Self::Other => None,
        }
    }

    /// Whether what becomes of this file makes it look for sources again.
    pub(crate) fn looks_again_for(self, path: &Path) -> bool {
        self == Self::Pyright && path.extension().is_some_and(|end| end == "py" || end == "pyi")
    }
}
