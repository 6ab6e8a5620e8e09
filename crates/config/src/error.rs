//! Why settings could not be made.

use crate::FileError;
use std::{net::SocketAddr, path::PathBuf};

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
    #[error("--secrets-dir {}: {why}; pass a folder with a file for each secret", dir.display())]
    Secrets {
        /// The folder or file.
        dir: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// An address that cannot be listened on.
    #[error("--addr {addr}: {why}; write for example 127.0.0.1:8080")]
    Address {
        /// As given.
        addr: String,
        /// What is wrong with it.
        why: String,
    },
    /// An address that others can reach, without tokens.
    #[error(
        "--addr {addr} can be reached from outside: pass --auth-token-file FILE, \
         or --insecure-no-auth if whoever reaches the port may own the workspace"
    )]
    OpenAddress {
        /// The address.
        addr: SocketAddr,
    },
    /// A token file that cannot be used.
    #[error("--auth-token-file {}: {why}; pass a file with a line name:token for each holder", file.display())]
    Tokens {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A RuntimeConfig file that cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
}
