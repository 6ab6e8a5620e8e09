//! Paths that were resolved inside a workspace, and how a path is shown.

use std::borrow::{Borrow, Cow};
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A path inside a workspace, relative to its root, without `.`, `..` or symlinks when it was resolved.
///
/// It is made by [`Workspace::resolve`](crate::Workspace::resolve) alone, and shown as [`quoted`] shows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContainedPath {
    pub(crate) relative: PathBuf,
}

impl ContainedPath {
    /// The path below the workspace's root; empty for the root itself.
    pub fn relative(&self) -> &Path {
        &self.relative
    }
}

impl Borrow<Path> for ContainedPath {
    fn borrow(&self) -> &Path {
        &self.relative
    }
}

impl fmt::Display for ContainedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.relative.as_os_str().is_empty() {
            f.write_str(".")
        } else {
            f.write_str(&quoted(&self.relative))
        }
    }
}

/// A path as it is shown to a reader: itself, or, when it holds control characters or is not UTF-8, between double
/// quotes with C escapes as git writes it, so that a name can never forge a line of output.
/// [`Workspace::resolve`](crate::Workspace::resolve) takes that form back.
pub fn quoted(path: &Path) -> Cow<'_, str> {
    let bytes = path.as_os_str().as_bytes();
    if let Ok(text) = std::str::from_utf8(bytes)
        && !text.chars().any(char::is_control)
        && !text.starts_with('"')
    {
        return Cow::Borrowed(text);
    }
    let mut out = String::from("\"");
    for &byte in bytes {
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\t' => out.push_str("\\t"),
            b'\r' => out.push_str("\\r"),
            0x20..=0x7e => out.push(char::from(byte)),
            _ => out.push_str(&format!("\\{byte:03o}")),
        }
    }
    out.push('"');
    Cow::Owned(out)
}

/// The inverse of [`quoted`] for text between double quotes; `None` when it is not such text.
pub(crate) fn unquote(text: &str) -> Option<OsString> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    let mut out = Vec::with_capacity(inner.len());
    let mut bytes = inner.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        out.push(match bytes.next()? {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'a' => 7,
            b'b' => 8,
            b'v' => 11,
            b'f' => 12,
            c @ (b'"' | b'\\') => c,
            high @ b'0'..=b'3' => {
                let (mid, low) = (bytes.next()?, bytes.next()?);
                if !(b'0'..=b'7').contains(&mid) || !(b'0'..=b'7').contains(&low) {
                    return None;
                }
                (high - b'0') << 6 | (mid - b'0') << 3 | (low - b'0')
            }
            _ => return None,
        });
    }
    Some(OsString::from_vec(out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ordinary_names_stay_as_they_are() {
        for name in ["src/main.rs", "with space", "überall/ß.txt", "a\\b"] {
            assert_eq!(quoted(Path::new(name)), name);
        }
        assert_eq!(quoted(Path::new("a\nb")), r#""a\nb""#);
    }

    proptest! {
        #[test]
        fn quoting_is_reversible_and_stays_on_one_line(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let path = PathBuf::from(OsString::from_vec(bytes));
            let shown = quoted(&path);
            prop_assert!(!shown.chars().any(char::is_control));
            if shown.starts_with('"') {
                prop_assert_eq!(unquote(&shown).unwrap(), path.into_os_string());
            } else {
                prop_assert_eq!(Path::new(shown.as_ref()), path.as_path());
            }
        }
    }
}
