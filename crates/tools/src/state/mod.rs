//! Secrets and snapshots.

mod secrets;
mod snapshots;

pub(crate) use secrets::{SecretValue, SecretsAvailable};
pub(crate) use snapshots::{
    SnapshotCreate, SnapshotDelete, SnapshotDiff, SnapshotList, SnapshotRestore, Stores,
};
