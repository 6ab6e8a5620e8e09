//! What can go wrong, in words.

use std::{
    io,
    path::{Path, PathBuf},
};

/// Why a snapshot could not be made, found or restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The name cannot be used.
    #[error(
        "\"{0}\" cannot name a snapshot: use up to 200 letters, digits, `_`, `.` and `-`, not starting with `.` or \
         `-`; auto-<number> names automatic ones"
    )]
    Name(String),
    /// The name is taken.
    #[error("snapshot \"{0}\" exists; delete it first or choose another name")]
    Exists(String),
    /// There is none of that name.
    #[error("{}", unknown(name, known, *automatic))]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is, newest first.
        known: Vec<String>,
        /// The numbers of the oldest and the newest automatic one.
        automatic: Option<(u64, u64)>,
    },
    /// A path that is asked about is in neither of the states that are compared.
    #[error("{}", nowhere(path, snapshot, *there))]
    Nowhere {
        /// What was asked for.
        path: PathBuf,
        /// The snapshot.
        snapshot: String,
        /// Something is there now, which no snapshot holds.
        there: bool,
    },
    /// No call to take back.
    #[error("nothing to undo: no call of this session changed a file that the history covers (not ignored, in no repository of its own){}", others.as_ref().map(|others| format!("; a file was {others}")).unwrap_or_default())]
    NothingToUndo {
        /// What another session's last change was, when there is one.
        others: Option<String>,
    },
    /// Taking the call back would take away somebody else's work.
    #[error("{}", conflict(tool, files, *shared))]
    Conflict {
        /// The call's tool.
        tool: String,
        /// Files that are not as the call left them, and why.
        files: Vec<(PathBuf, String)>,
        /// Another session's call ran at the same time.
        shared: bool,
    },
    /// The disk failed, and then once more when what was done was to be taken back.
    #[error(
        "{why}\nsome files are restored and others are not; what was there before is the snapshot {before}"
    )]
    Halfway {
        /// The automatic snapshot that holds everything as it was before.
        before: String,
        /// What failed first.
        why: String,
    },
    /// The disk or the store failed.
    #[error("{action}: {source}")]
    Io {
        /// What was being done.
        action: String,
        /// Why it failed.
        source: io::Error,
    },
}

impl From<io::Error> for SnapshotError {
    fn from(source: io::Error) -> Self {
        Self::Io { action: "snapshot store".to_owned(), source }
    }
}

fn unknown(name: &str, known: &[String], automatic: Option<(u64, u64)>) -> String {
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    let kept = |(first, last)| format!("; of before and after calls: auto-{first} to auto-{last}");
    let automatic = automatic.map(kept).unwrap_or_default();
    format!("no snapshot named \"{name}\"; there are: {known}{automatic}")
}

fn nowhere(path: &Path, snapshot: &str, there: bool) -> String {
    let path = crate::quoted(path);
    if there {
        return format!(
            "{path} is in no snapshot, so that it cannot be compared: it is ignored, git's own, in a repository of its own, \
             not readable or no file"
        );
    }
    format!(
        "{path} is neither in snapshot {snapshot} nor in the workspace; leave `path` out to see all that changed"
    )
}

fn conflict(tool: &str, files: &[(PathBuf, String)], shared: bool) -> String {
    let mut out = format!("not undone: the last call was {tool}, and taking it back would lose other work");
    for (path, why) in files.iter().take(20) {
        out.push_str(&format!("\n{}: {why}", crate::quoted(path)));
    }
    if files.len() > 20 {
        out.push_str(&format!("\n[{} more]", files.len() - 20));
    }
    if shared {
        out.push_str(
            "\nanother session's call ran at the same time: which of the two changed what is unknown",
        );
    }
    out.push_str("\nundo it all the same with `force`");
    out
}
