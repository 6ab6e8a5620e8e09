//! What an agent may call, and the pipeline every call goes through.
//!
//! A [`Tool`] is declared once: its [`Spec`], its arguments, its [`Output`]. A transport opens a
//! [`Session`] on a [`Host`] and makes [`Session::call`]s; everything between is the pipeline's business.
//! This crate knows no transport.

mod bound;
mod call;
mod code;
mod endings;
mod error;
mod files;
mod hooks;
mod host;
mod jobs;
mod notice;
mod pipeline;
mod place;
mod progress;
mod record;
mod reply;
mod runtime;
mod schema;
mod session;
mod shell;
mod state;
mod tool;
mod toolset;
mod vault;
mod verify;
mod visit;

pub use call::Call;
pub use code::lsp::{MachineServer, ServerStatus, machine_servers};
pub use error::ToolError;
pub use hooks::HookTally;
pub use host::Host;
pub use notice::Notice;
pub(crate) use notice::Notices;
pub use place::{PathMap, Place};
pub use progress::{Progress, ProgressUpdate};
pub use record::Touches;
pub use reply::{Content, Facts, Output, Reply};
pub use runtime::Runtime;
pub use session::{Access, Session, SessionGuard};
pub use tool::{Class, Group, Spec, Tool};
pub use toolset::{Catalog, Listed, Toolset};
pub use verify::{LanguageSurvey, Need, Planned, survey};
