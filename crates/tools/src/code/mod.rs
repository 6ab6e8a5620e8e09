//! Code by meaning.

pub(crate) mod lsp;
