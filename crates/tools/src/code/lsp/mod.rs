//! Language servers: where things are defined and used, what they are, what is wrong with them.
//!
//! A [`pool::Key`] says which server a file has; the pool starts it where its language runs and shares it
//! among sessions. [`ask`] makes a server that knows the workspace as it is now out of a tool's arguments:
//! before every question the journal of changes is told to it, and it is waited for until its answers can be
//! trusted. One that ends is started anew by the next call, one that hangs is replaced.

mod args;
mod ask;
mod constraints;
mod diagnostics;
mod family;
mod find;
mod hierarchy;
mod hover;
mod identifiers;
mod installed;
mod macros;
mod memory;
mod names;
mod past;
mod pool;
mod rename;
mod running;
mod shorthand;
mod show;
mod siblings;
mod status;
mod strangers;
mod symbols;
mod taken;
mod told;
mod trouble;
mod unlinked;
mod unseen;
mod unwatched;
mod users;
mod workspace_symbols;

pub(crate) use diagnostics::{Diagnostics, News, Warm, Was};
pub(crate) use find::{FindDefinition, FindReferences};
pub(crate) use hierarchy::CallHierarchy;
pub(crate) use hover::Hover;
pub use memory::{MachineServer, machine_servers};
pub(crate) use pool::Servers;
pub(crate) use rename::RenameSymbol;
pub use status::ServerStatus;
pub(crate) use symbols::DocumentSymbols;
pub(crate) use workspace_symbols::WorkspaceSymbols;
