//! Why settings could not be made.

use std::path::PathBuf;

/// A setting that cannot be used: each names the thing, the reason and the next step.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A workspace root that cannot be used.
    #[error("workspace {}: {why}; pass a directory with --workspace", root.display())]
    Workspace {
        /// The root as given.
        root: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// An entry of `--workspaces` that is not `name=dir`.
    #[error("--workspaces: \"{entry}\" is not name=dir; write for example --workspaces api=./api,web=./web")]
    WorkspaceEntry {
        /// The entry.
        entry: String,
    },
    /// Two workspaces of one name.
    #[error("--workspaces: \"{name}\" is named twice; give each workspace a name of its own")]
    DuplicateWorkspace {
        /// The name.
        name: String,
    },
    /// A secrets folder that cannot be read.
    #[error("--secrets-dir {}: {why}", dir.display())]
    Secrets {
        /// The folder or file.
        dir: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}
