//! The `codegen-sandbox` binary.
fn main() {}
