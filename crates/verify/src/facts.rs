//! What a detector may know about a project without looking itself.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Answers about one project folder. Paths are relative to it; `../` reaches up to the workspace root
/// and no further, so that hoisted tools and workspace manifests can be found.
pub trait Facts {
    /// The project folder as the commands will see it.
    fn root(&self) -> &Path;

    /// A private folder outside the project into which injected files are written.
    fn scratch(&self) -> &Path;

    /// Whether a file or folder is there.
    fn exists(&self, relative: &str) -> bool;

    /// A text file's content, when it is there and of reasonable size.
    fn read(&self, relative: &str) -> Option<String>;

    /// Names in a folder, sorted; empty when there is none.
    fn list(&self, relative: &str) -> Vec<String>;

    /// Where a program of this name is found on the PATH of the place where commands will run.
    fn which(&self, binary: &str) -> Option<PathBuf>;

    /// A variable of the environment in which commands will run.
    fn env(&self, name: &str) -> Option<String>;
}

/// [`Facts`] from memory, for tests and examples.
#[derive(Debug, Clone, Default)]
pub struct MapFacts {
    /// Relative path to content.
    pub files: BTreeMap<String, String>,
    /// Programs that are installed.
    pub binaries: BTreeMap<String, PathBuf>,
    /// The environment.
    pub env: BTreeMap<String, String>,
    /// The project folder.
    pub root: PathBuf,
    /// The private folder.
    pub scratch: PathBuf,
}

impl Facts for MapFacts {
    fn root(&self) -> &Path {
        &self.root
    }

    fn scratch(&self) -> &Path {
        &self.scratch
    }

    fn exists(&self, relative: &str) -> bool {
        let folder = format!("{relative}/");
        self.files.keys().any(|path| path == relative || path.starts_with(&folder))
    }

    fn read(&self, relative: &str) -> Option<String> {
        self.files.get(relative).cloned()
    }

    fn list(&self, relative: &str) -> Vec<String> {
        let folder =
            if relative.is_empty() || relative == "." { String::new() } else { format!("{relative}/") };
        let mut names: Vec<String> = self
            .files
            .keys()
            .filter_map(|path| path.strip_prefix(&folder))
            .filter_map(|rest| rest.split('/').next())
            .map(str::to_owned)
            .collect();
        names.sort();
        names.dedup();
        names
    }

    fn which(&self, binary: &str) -> Option<PathBuf> {
        self.binaries.get(binary).cloned()
    }

    fn env(&self, name: &str) -> Option<String> {
        self.env.get(name).cloned()
    }
}
