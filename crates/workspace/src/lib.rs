//! The only crate that opens workspace files.

use std::{
    io,
    path::{Path, PathBuf},
};

/// One checkout.
pub struct Workspace {
    name: String,
    root: PathBuf,
}

impl Workspace {
    /// Opens it.
    ///
    /// # Errors
    /// The root is not a folder that can be opened.
    pub fn open(name: &str, root: &Path) -> io::Result<Self> {
        Ok(Self { name: name.to_owned(), root: root.canonicalize()? })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its root.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }
}
