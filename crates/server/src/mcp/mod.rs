//! The only module that knows MCP.

mod conformance;
mod convert;
mod handler;
mod instructions;
mod legacy;
mod lines;
mod misfit;
mod news;
mod routes;
mod stdio;
mod unread;

pub(crate) use convert::tool as describe;
pub(crate) use handler::Handler;
pub(crate) use routes::http;
pub(crate) use stdio::stdio;
