//! Where the index of a repository has other repositories: git enters those by itself.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _, path::PathBuf};

/// What stands before the name of an entry: times, numbers, mode, owner, size, the name of the object, flags.
const HEAD: usize = 62;
const MODE: usize = 24;
const FLAGS: usize = 60;
/// The entry has two bytes more of flags.
const EXTENDED: u16 = 0x4000;
/// The mode of a commit of another repository.
const GITLINK: u32 = 0o160_000;

/// The paths that are commits of other repositories, in the content of an index with names of 20 bytes for objects. As far
/// as it can be read: nobody but git need understand the rest.
pub(super) fn gitlinks(index: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let number = |at: usize| index.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
    let (Some(version @ 2..=4), Some(count)) = (number(4).filter(|_| index.starts_with(b"DIRC")), number(8))
    else {
        return found;
    };
    let (mut at, mut path) = (12, Vec::new());
    for _ in 0..count {
        let Some((next, mode)) = entry(index, at, version, &mut path) else { break };
        if mode == GITLINK {
            found.push(OsStr::from_bytes(&path).into());
        }
        at = next;
    }
    found
}

/// Reads the entry at `at`: where the next one begins, and the mode. `path` is the name of the one before, and then its own.
fn entry(index: &[u8], at: usize, version: u32, path: &mut Vec<u8>) -> Option<(usize, u32)> {
    let mode = u32::from_be_bytes(index.get(at + MODE..at + MODE + 4)?.try_into().ok()?);
    let flags = u16::from_be_bytes(index.get(at + FLAGS..at + FLAGS + 2)?.try_into().ok()?);
    let mut name = at + HEAD + if version > 2 && flags & EXTENDED != 0 { 2 } else { 0 };
    if version == 4 {
        // So many bytes of the name before are not part of this one.
        let (dropped, behind) = variable(index, name)?;
        path.truncate(path.len().checked_sub(dropped)?);
        name = behind;
    } else {
        path.clear();
    }
    let length = index.get(name..)?.iter().position(|byte| *byte == 0)?;
    path.extend_from_slice(&index[name..name + length]);
    let end = name + length;
    let next = if version == 4 { end + 1 } else { at + (end - at + 8) / 8 * 8 };
    Some((next, mode))
}

/// A number of git's in as many bytes as it needs.
fn variable(index: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut byte = *index.get(at)?;
    let mut value = usize::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        at += 1;
        byte = *index.get(at)?;
        value = value.checked_add(1)?.checked_shl(7)? | usize::from(byte & 0x7f);
    }
    Some((value, at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version_4(entries: &[(u32, u8, &str)]) -> Vec<u8> {
        let mut index = b"DIRC\0\0\0\x04".to_vec();
        index.extend(u32::try_from(entries.len()).unwrap().to_be_bytes());
        for (mode, dropped, suffix) in entries {
            let mut head = vec![0; HEAD];
            head[MODE..MODE + 4].copy_from_slice(&mode.to_be_bytes());
            index.extend(head);
            index.push(*dropped);
            index.extend(suffix.as_bytes());
            index.push(0);
        }
        index
    }

    #[test]
    fn names_that_share_their_beginning() {
        let index = version_4(&[(0o100_644, 0, "libs/a"), (GITLINK, 1, "sub"), (GITLINK, 3, "z")]);
        assert_eq!(gitlinks(&index), [PathBuf::from("libs/sub"), PathBuf::from("libs/z")]);
        for end in 0..index.len() {
            gitlinks(&index[..end]);
        }
    }
}
