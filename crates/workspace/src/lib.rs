//! The only crate that opens workspace files.
//!
//! A [`Workspace`] is a folder held by a descriptor. A path a caller gives becomes a [`ContainedPath`] by
//! [`Workspace::resolve`]; only a `ContainedPath` can be opened, and every opening goes again from the root
//! descriptor with `openat2` and *no symlinks, no magic links, no mount points*. Resolving therefore decides what
//! a path means, and the kernel decides each time anew whether it still lies inside: a component swapped for
//! a symlink between the two is an error, never an escape.
//!
//! Everything here is synchronous; an async caller uses a blocking thread.
//!
//! # What counts as outside
//! - A symlink is followed when its target, relative or absolute, stays inside; else it is refused.
//! - A mount point below the root is refused ([`Options::cross_mounts`] allows it): what is mounted there is not
//!   the owner's checkout.
//! - A **hard link** cannot be told from an ordinary file, and package managers make them by the thousand.
//!   Reading one is allowed: whoever made the link could read the file already (`fs.protected_hardlinks`), and
//!   a sandboxed command cannot link across its mounts. Writing never goes through a link: a write makes a new
//!   file and renames it into place, so what the link pointed to outside keeps its bytes.
//! - FIFOs, sockets and devices are never read nor written; opening one cannot block.

mod beneath;
mod diagnose;
mod diff;
mod edit;
mod error;
mod glob;
mod grep;
mod guarded;
mod ledger;
mod live;
mod look;
mod mounts;
mod patch;
mod path;
mod read;
mod root;
mod rules;
mod snapshot;
mod spread;
mod temp;
mod text;
mod version;
mod walk;
mod write;

pub use diff::unified_diff;
pub use edit::{EditError, Edited, replace};
pub use error::{FileError, PathError};
pub use glob::{GlobError, GlobQuery, GlobReply};
pub use grep::{Cut as CutHit, FileHits, GrepError, GrepQuery, GrepSummary, HitLine, OutputMode};
pub use ledger::{Ledger, Stale};
pub use live::{Changes, Listing, LiveOptions, LiveStatus, Mode};
pub use look::Kind;
pub use patch::{PatchError, PatchPlan, PatchReport, PatchedFile, parse as parse_patch};
pub use path::{ContainedPath, quoted};
pub use read::{Content, Cut, Parts, Read, Window, WindowSpec};
pub use root::{Options, Workspace};
pub use snapshot::{
    Caller, Change, Finished, Noted, Recording, Restored, Retention, Snapshot, SnapshotError, Snapshots,
    UndoOptions, Undone,
};
pub use text::{Encoding, LineEnding, TextInfo};
pub use version::Version;
pub use write::{Durability, Expected, UpdateError, Written};
