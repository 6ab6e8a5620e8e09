//! What can go wrong with a path or a file, told so that the caller knows what to do next.

use std::io;

use rustix::io::Errno;

/// A path that means nothing inside this workspace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// The path names a place outside the root.
    #[error("{path} is outside the workspace; give a path inside it, relative to its root")]
    Outside {
        /// The path as it was given.
        path: String,
    },
    /// A symlink on the way leads outside.
    #[error(
        "{path} leads outside the workspace: {link} is a symlink to {target}; give a path that stays inside"
    )]
    LinkOutside {
        /// The path as it was given.
        path: String,
        /// The symlink.
        link: String,
        /// What the symlink holds.
        target: String,
    },
    /// Symlinks that go round in circles.
    #[error("{path} passes through too many symlinks; give the path they are meant to lead to")]
    TooManyLinks {
        /// The path as it was given.
        path: String,
    },
    /// A component that is no folder.
    #[error("{path}: {component} is a file, not a folder; give a path below a folder")]
    NotAFolder {
        /// The path as it was given.
        path: String,
        /// The component in question.
        component: String,
    },
    /// Something else is mounted there.
    #[error("{path} lies on a mount point inside the workspace, which is not part of it; use Bash there")]
    Mount {
        /// The path as it was given.
        path: String,
    },
    /// Empty, or holding a NUL byte.
    #[error("{path:?} is not a file name: {why}; give a path relative to the workspace's root")]
    Malformed {
        /// The path as it was given.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The system said no.
    #[error("cannot look up {path}: {source}")]
    Io {
        /// The path as it was given.
        path: String,
        /// What the system said.
        source: io::Error,
    },
}

/// A file operation that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// Nothing there.
    #[error("{path} does not exist{hint}")]
    NotFound {
        /// The file.
        path: String,
        /// `; did you mean …?`, or nothing.
        hint: String,
    },
    /// A folder where a file is needed.
    #[error("{path} is a folder, not a file; use Glob to list it")]
    IsFolder {
        /// The folder.
        path: String,
    },
    /// A FIFO, socket or device.
    #[error("{path} is {kind}, not a regular file; only those are read and written here")]
    Special {
        /// The file.
        path: String,
        /// `a FIFO`, `a socket`, …
        kind: &'static str,
    },
    /// The path was resolved, and then something on it was swapped.
    #[error("{path} was replaced while it was being opened; nothing was done, try again")]
    Swapped {
        /// The file.
        path: String,
    },
    /// The window starts behind the last line.
    #[error("offset {offset} is past the end of {path} ({lines} line(s)); give a smaller one")]
    PastEnd {
        /// The file.
        path: String,
        /// The line asked for.
        offset: u64,
        /// The lines there are.
        lines: u64,
    },
    /// No write permission for anybody.
    #[error("{path} is read-only (mode {mode:04o}); make it writable first if it is meant to change")]
    ReadOnly {
        /// The file.
        path: String,
        /// Its permission bits.
        mode: u32,
    },
    /// Too large to hold in memory for this operation.
    #[error("{path} has {len} bytes; files above {limit} bytes cannot be changed here, only in a shell")]
    TooLarge {
        /// The file.
        path: String,
        /// Its size.
        len: u64,
        /// The limit.
        limit: u64,
    },
    /// Git runs what is written there.
    #[error(
        "{path} is not written here: git runs programs that are named in it, outside of any sandbox; ask a person \
         to change it, with an editor or with `git` itself"
    )]
    Guarded {
        /// The file.
        path: String,
    },
    /// The workspace's own folder is no longer where it was.
    #[error(
        "the workspace's folder {path} {what} since the server started; put it back, or start the server again"
    )]
    Gone {
        /// The folder.
        path: String,
        /// What became of it.
        what: &'static str,
    },
    /// Another process holds the file's lock.
    #[error("{path} is locked by another process; try again when it is done")]
    Locked {
        /// The file.
        path: String,
    },
    /// The path itself is wrong.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The call was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The system said no.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
}

impl FileError {
    /// Names what an errno of an opening means for a path that had been resolved.
    pub(crate) fn from_errno(errno: Errno, action: &'static str, path: &impl ToString) -> Self {
        let path = path.to_string();
        match errno {
            Errno::NOENT => Self::NotFound { path, hint: String::new() },
            Errno::LOOP | Errno::NOTDIR | Errno::AGAIN => Self::Swapped { path },
            Errno::XDEV => Self::Path(PathError::Mount { path }),
            Errno::ISDIR => Self::IsFolder { path },
            Errno::NXIO => Self::Special { path, kind: "a socket or a FIFO" },
            _ => Self::Io { action, path, source: errno.into() },
        }
    }
}
