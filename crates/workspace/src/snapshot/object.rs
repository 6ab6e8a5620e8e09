//! Git's object format: ids, trees and commits.

use sha1::{Digest, Sha1};
use std::{collections::BTreeMap, fmt};

/// The name of an object: the SHA-1 of its kind, size and content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Oid(pub(crate) [u8; 20]);

impl Oid {
    /// Its first bytes as a number, which orders ids as their bytes do.
    pub(crate) fn start(&self) -> u64 {
        self.0.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
    }

    /// Reads 40 hexadecimal digits.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 40 {
            return None;
        }
        let mut id = [0; 20];
        for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |at: usize| (pair[at] as char).to_digit(16);
            *byte = u8::try_from(digit(0)? << 4 | digit(1)?).ok()?;
        }
        Some(Self(id))
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Hundreds of them are written with every step: formatting byte by byte was half of its cost.
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 40];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Commit = 1,
    Tree = 2,
    Blob = 3,
}

impl Kind {
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        [Self::Commit, Self::Tree, Self::Blob].into_iter().find(|kind| *kind as u8 == code)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Tree => "tree",
            Self::Blob => "blob",
        }
    }

    /// The hash of an object of this kind and size, ready for its content.
    pub(crate) fn hasher(self, size: u64) -> Sha1 {
        let mut hash = Sha1::new();
        hash.update(format!("{} {size}\0", self.name()));
        hash
    }

    /// The id of a whole object.
    pub(crate) fn id(self, content: &[u8]) -> Oid {
        let mut hash = self.hasher(content.len() as u64);
        hash.update(content);
        Oid(hash.finalize().into())
    }
}

/// How an entry of a tree is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    File,
    Executable,
    Symlink,
    Tree,
}

impl Mode {
    const ALL: [Self; 4] = [Self::File, Self::Executable, Self::Symlink, Self::Tree];

    fn digits(self) -> &'static str {
        match self {
            Self::File => "100644",
            Self::Executable => "100755",
            Self::Symlink => "120000",
            Self::Tree => "40000",
        }
    }
}

/// A file or symlink in a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) mode: Mode,
    pub(crate) id: Oid,
}

/// One level of a tree, by name.
pub(crate) type Level = BTreeMap<Vec<u8>, Entry>;

/// The content of a tree object. Git sorts a folder as if its name ended in a slash.
pub(crate) fn encode_tree(level: &Level) -> Vec<u8> {
    let mut entries: Vec<(Vec<u8>, &Vec<u8>, &Entry)> = level
        .iter()
        .map(|(name, entry)| {
            let mut key = name.clone();
            if entry.mode == Mode::Tree {
                key.push(b'/');
            }
            (key, name, entry)
        })
        .collect();
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    let mut out = Vec::with_capacity(entries.len() * 40);
    for (_, name, entry) in entries {
        out.extend_from_slice(entry.mode.digits().as_bytes());
        out.push(b' ');
        out.extend_from_slice(name);
        out.push(0);
        out.extend_from_slice(&entry.id.0);
    }
    out
}

/// The entries of a tree object; `None` when it is malformed.
pub(crate) fn decode_tree(mut content: &[u8]) -> Option<Level> {
    let mut level = Level::new();
    while !content.is_empty() {
        let space = content.iter().position(|byte| *byte == b' ')?;
        let end = content.iter().position(|byte| *byte == 0)?;
        let digits = std::str::from_utf8(content.get(..space)?).ok()?;
        let mode = Mode::ALL.into_iter().find(|mode| mode.digits() == digits)?;
        let name = content.get(space + 1..end)?.to_vec();
        let id = content.get(end + 1..end + 21)?.try_into().ok()?;
        level.insert(name, Entry { mode, id: Oid(id) });
        content = content.get(end + 21..)?;
    }
    Some(level)
}

/// A commit, as far as snapshots use one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) tree: Oid,
    /// The same state with what this one leaves out.
    pub(crate) parent: Option<Oid>,
    pub(crate) seconds: i64,
    pub(crate) message: String,
}

const AUTHOR: &str = "codegen-sandbox <snapshots@localhost>";

impl Commit {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let Self { tree, parent, seconds, message } = self;
        let message = message.trim_end();
        let parent = parent.map_or_else(String::new, |parent| format!("parent {parent}\n"));
        format!(
            "tree {tree}\n{parent}author {AUTHOR} {seconds} +0000\ncommitter {AUTHOR} {seconds} +0000\n\n{message}\n"
        )
        .into_bytes()
    }

    pub(crate) fn decode(content: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(content);
        let (head, message) = text.split_once("\n\n")?;
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
        let seconds = field("committer ")?.rsplit(' ').nth(1)?.parse().ok()?;
        let parent = field("parent ").and_then(Oid::parse);
        Some(Self {
            tree: Oid::parse(field("tree ")?)?,
            parent,
            seconds,
            message: message.trim_end().to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_git_ids() {
        assert_eq!(Kind::Blob.id(b"").to_string(), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        assert_eq!(Kind::Tree.id(b"").to_string(), "4b825dc642cb6eb9a060e54bf8d69288fbee4904");
    }

    #[test]
    fn trees_come_back_in_git_order() {
        let entry = |mode| Entry { mode, id: Kind::Blob.id(b"x") };
        let level: Level = [
            (b"a".to_vec(), entry(Mode::Tree)),
            (b"a.b".to_vec(), entry(Mode::File)),
            (b"a0".to_vec(), entry(Mode::Executable)),
            (b"\xff\n".to_vec(), entry(Mode::Symlink)),
        ]
        .into();
        let bytes = encode_tree(&level);
        assert_eq!(decode_tree(&bytes), Some(level));
        let folder = bytes.windows(8).position(|w| w == b"40000 a\0");
        let dotted = bytes.windows(4).position(|w| w == b"a.b\0");
        assert!(folder > dotted, "a/ sorts after a.b");
        for cut in 0..bytes.len() {
            let _ = decode_tree(&bytes[..cut]);
        }
    }

    #[test]
    fn commits_come_back() {
        for parent in [None, Some(Kind::Tree.id(b"x"))] {
            let message = "one\n\ntwo".into();
            let commit = Commit { tree: Kind::Tree.id(b""), parent, seconds: 1_700_000_000, message };
            assert_eq!(Commit::decode(&commit.encode()), Some(commit));
        }
        assert_eq!(Commit::decode(b"\xff\xfe"), None);
    }
}
