//! Content versions: which bytes a session has seen.

use std::fmt;

use rustix::fs::Stat;
use sha2::{Digest, Sha256};

/// Files above this are told apart by their stat data, not by hashing: hashing them would cost seconds a read.
pub(crate) const HASH_LIMIT: u64 = 64 << 20;

/// Identifies the content of a file: its length and a 128-bit digest.
///
/// Two versions are equal when the bytes are, except above 64 MiB, where inode, times and length stand in.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Version {
    len: u64,
    digest: [u8; 16],
}

impl Version {
    /// The version of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::default();
        hasher.update(bytes);
        hasher.finish()
    }

    /// Stands in for the content of a file too large to hash.
    pub(crate) fn of_stat(stat: &Stat) -> Self {
        let mut hasher = Sha256::new();
        let words =
            [stat.st_ino, stat.st_mtime as u64, stat.st_mtime_nsec, stat.st_ctime as u64, stat.st_ctime_nsec];
        for word in words {
            hasher.update(word.to_le_bytes());
        }
        Self { len: stat.st_size as u64, digest: truncated(hasher) }
    }

    /// Bytes in the file.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the file was empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Version({} bytes, ", self.len)?;
        self.digest.iter().take(6).try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}

/// Computes a [`Version`] piece by piece.
#[derive(Default)]
pub(crate) struct Hasher {
    len: u64,
    sha: Sha256,
}

impl Hasher {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.len += bytes.len() as u64;
        self.sha.update(bytes);
    }

    pub(crate) fn finish(self) -> Version {
        Version { len: self.len, digest: truncated(self.sha) }
    }
}

fn truncated(sha: Sha256) -> [u8; 16] {
    let full: [u8; 32] = sha.finalize().into();
    let mut half = [0; 16];
    half.copy_from_slice(&full[..16]);
    half
}
