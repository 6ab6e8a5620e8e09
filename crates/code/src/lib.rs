//! Source code as facts: bytes in, facts out.
//!
//! [`outline`] lists the symbols of a file. [`edit`] changes one of them by name: it splices bytes, so that
//! everything else stays as it was, and gives nothing back unless the result still parses and holds every other
//! symbol where it belongs. [`Index`] finds symbols by words.
//!
//! Nothing here opens a file or waits for anything; parsers are total.

mod check;
mod edit;
mod find;
mod indent;
mod index;
mod language;
mod lax;
mod lines;
mod mentions;
mod misplaced;
mod outline;
mod parse;
mod rules;
mod skim;
mod statement;

pub use edit::{Change, EditError, Edited, Listed, Target, edit};
pub use index::{Facts, Filter, Found, Hit, Index};
pub use language::Language;
pub use mentions::Mention;
pub use outline::{Kind, Symbol};
pub use parse::{Borrowed, Depth, MAX_BYTES, Parsed, Problem, Reader, outline};
