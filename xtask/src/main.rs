//! `cargo xtask`: what everybody who works on the project runs.
fn main() {}
