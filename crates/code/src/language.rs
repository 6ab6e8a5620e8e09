//! The languages that are known here.

use std::path::Path;

/// A language that has a grammar here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Language {
    /// Go.
    Go,
    /// Rust.
    Rust,
    /// TypeScript.
    TypeScript,
    /// TypeScript with JSX.
    Tsx,
    /// JavaScript, with or without JSX.
    JavaScript,
    /// Python.
    Python,
    /// Java: searched, not edited.
    Java,
    /// C: searched, not edited.
    C,
}

impl Language {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Go,
        Self::Rust,
        Self::TypeScript,
        Self::Tsx,
        Self::JavaScript,
        Self::Python,
        Self::Java,
        Self::C,
    ];

    /// The language of a file, by its name.
    #[must_use]
    pub fn of_path(path: &Path) -> Option<Self> {
        Some(match path.extension()?.to_str()? {
            "go" => Self::Go,
            "rs" => Self::Rust,
            "ts" | "mts" | "cts" => Self::TypeScript,
            "tsx" => Self::Tsx,
            "js" | "mjs" | "cjs" | "jsx" => Self::JavaScript,
            "py" | "pyi" => Self::Python,
            "java" => Self::Java,
            "c" | "h" => Self::C,
            _ => return None,
        })
    }

    /// The languages that a name written by a person stands for; none for a name that is not known.
    #[must_use]
    pub fn named(name: &str) -> &'static [Self] {
        match name.trim().to_ascii_lowercase().as_str() {
            "go" | "golang" => &[Self::Go],
            "rust" | "rs" => &[Self::Rust],
            "typescript" | "ts" => &[Self::TypeScript, Self::Tsx],
            "tsx" => &[Self::Tsx],
            "javascript" | "js" | "jsx" => &[Self::JavaScript],
            "node" | "nodejs" => &[Self::TypeScript, Self::Tsx, Self::JavaScript],
            "python" | "py" => &[Self::Python],
            "java" => &[Self::Java],
            "c" => &[Self::C],
            _ => &[],
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Go => "go",
            Self::Rust => "rust",
            Self::TypeScript => "typescript",
            Self::Tsx => "tsx",
            Self::JavaScript => "javascript",
            Self::Python => "python",
            Self::Java => "java",
            Self::C => "c",
        }
    }

    /// Whether [`edit`](crate::edit) takes it.
    #[must_use]
    pub fn editable(self) -> bool {
        !matches!(self, Self::Java | Self::C)
    }

    /// What stands between an owner and its member.
    #[must_use]
    pub fn separator(self) -> &'static str {
        if self == Self::Rust { "::" } else { "." }
    }

    /// Whether it is JavaScript, or that with types.
    pub(crate) fn is_script(self) -> bool {
        matches!(self, Self::TypeScript | Self::Tsx | Self::JavaScript)
    }

    pub(crate) fn grammar(self) -> tree_sitter::Language {
        match self {
            Self::Go => tree_sitter_go::LANGUAGE.into(),
            Self::Rust => tree_sitter_rust::LANGUAGE.into(),
            Self::TypeScript => tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into(),
            Self::Tsx => tree_sitter_typescript::LANGUAGE_TSX.into(),
            Self::JavaScript => tree_sitter_javascript::LANGUAGE.into(),
            Self::Python => tree_sitter_python::LANGUAGE.into(),
            Self::Java => tree_sitter_java::LANGUAGE.into(),
            Self::C => tree_sitter_c::LANGUAGE.into(),
        }
    }
}
