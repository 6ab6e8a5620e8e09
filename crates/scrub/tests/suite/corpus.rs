//! Ordinary source code is not mangled.
