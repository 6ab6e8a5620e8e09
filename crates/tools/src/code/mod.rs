//! Code by meaning: language servers, safe edits of one symbol by its name, and search over all symbols.

mod edits;
mod index;
pub(crate) mod lsp;
mod search_code;

pub(crate) use edits::{
    ChangeFunctionSignature, DeleteSymbol, EditFunctionBody, InsertAfterMethod, InsertAfterSymbol,
    InsertBeforeSymbol, ReplaceSymbol,
};
pub(crate) use index::Indexes;
pub(crate) use search_code::SearchCode;
