//! Drives the real binary as clients and people do.

mod clients;
mod conformance;
mod smoke;

/// The binary on a workspace of its own.
fn launch(workspace: &testkit::Workspace) -> testkit::Launch {
    testkit::Launch::new(env!("CARGO_BIN_EXE_codegen-sandbox")).workspace(workspace)
}
