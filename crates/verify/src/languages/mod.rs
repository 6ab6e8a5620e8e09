//! The languages this build ships, in detection order. Adding one: a file here and a line in [`all`].

mod go;
mod node;
mod python;
mod rust;
mod tasks;

use crate::Detector;

/// Every shipped detector, in detection order: Go, Rust, Node, Python.
#[must_use]
pub fn all() -> &'static [&'static dyn Detector] {
    &[&go::Go, &rust::Rust, &node::Node, &python::Python]
}
