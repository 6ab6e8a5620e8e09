//! Secrets and snapshots.

mod render;
mod secrets;
mod snapshots;

pub(crate) use render::RenderDot;
pub(crate) use secrets::{SecretValue, SecretsAvailable};
pub(crate) use snapshots::{
    SnapshotCreate, SnapshotDelete, SnapshotDiff, SnapshotList, SnapshotRestore, Stores,
};
