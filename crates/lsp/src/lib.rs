//! A client of language servers.
//!
//! A [`Client`] speaks the protocol over any reader and writer; it starts no process and opens no file. It
//! answers what servers ask of a client, keeps count of their work in progress, and tells when a server's
//! answers can be trusted ([`Client::settle`]): an answer before that may be wrong, and is worse than a wait.
//! [`Documents`](Client::show) hold what a server was told; columns are converted to what was agreed on.

mod absorb;
mod client;
mod codec;
mod edit;
mod kind;
mod position;
mod rehearse;
mod types;
mod uri;

pub use absorb::OnDisk;
pub use client::{Client, Error, Hello};
pub use edit::{TextChange, apply, narrowed};
pub use kind::Kind;
pub use position::{Encoding, Lines};
pub use types::{
    CallItem, ChangeKind, Diagnostic, DocumentSymbol, IncomingCall, Location, OutgoingCall, Position, Range,
    Severity, Symbol, SymbolKind, TextEdit, UnknownEdit, calls_in, calls_out, diagnostics, edits, hover,
    locations, outline, symbols, tsserver_diagnostics,
};
pub use uri::{from_uri, to_uri};
