//! Drives the real binary in tests, and knows the tools that the tests need.
//!
//! Nothing here depends on the product's crates: a test sees what a user sees.
//!
//! ```no_run
//! use serde_json::json;
//!
//! let workspace = testkit::Workspace::with(&[("hello.txt", "hello\n")]);
//! let launch = testkit::Launch::new("target/debug/codegen-sandbox").workspace(&workspace);
//! let mut client = launch.stdio();
//! client.initialize();
//! let reply = client.call("Read", json!({ "file_path": "hello.txt" }));
//! assert!(reply.text().contains("hello"));
//! ```
#![expect(clippy::disallowed_methods, reason = "tests drive real programs")]

mod client;
pub mod clients;
pub mod engines;
pub mod http;
mod process;
mod redact;
pub mod tools;
mod transport;
mod workspace;

pub use client::{Client, Reply};
pub use process::{Launch, Process, Served};
pub use redact::Redaction;
pub use workspace::Workspace;
