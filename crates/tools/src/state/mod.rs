//! Secrets and snapshots.

mod graph;
mod render;
mod secrets;
mod snapshots;
mod svg;
mod undo;

pub(crate) use render::{RenderDot, RenderMermaid};
pub(crate) use secrets::{SecretValue, SecretsAvailable};
pub(crate) use snapshots::{
    Archive, SnapshotCreate, SnapshotDelete, SnapshotDiff, SnapshotList, SnapshotRestore, Stores,
};
pub(crate) use undo::Undo;
