//! Tools through the in-process pipeline.
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests drive real programs and may fail")]

mod catalog;
mod code;
mod denylist;
mod feedback;
mod files;
mod freshness;
mod hooks;
mod language_servers;
mod loading;
mod meaning;
mod orphans;
mod pipeline;
mod probes;
mod renames;
mod render;
mod replies;
mod scripted;
mod secrets;
mod server_lives;
mod shell;
mod snapshots;
mod strangers;
mod support;
mod undo;
mod verify;
mod watch;
