//! `file:` addresses.

use std::{
    fmt::Write as _,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
};

/// The address of an absolute path.
#[must_use]
pub fn to_uri(path: &Path) -> String {
    let mut uri = String::from("file://");
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'~' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                uri.push(char::from(byte));
            }
            _ => {
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    uri
}

/// The path of a `file:` address; `None` for anything else.
#[must_use]
pub fn from_uri(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    // A host may stand before the path; only this machine's files mean anything here.
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    if !path.starts_with('/') {
        return None;
    }
    let mut bytes = Vec::with_capacity(path.len());
    let mut left = path.bytes();
    while let Some(byte) = left.next() {
        match byte {
            b'%' => {
                let digits = [left.next()?, left.next()?];
                let digits = std::str::from_utf8(&digits).ok()?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
            }
            _ => bytes.push(byte),
        }
    }
    Some(std::ffi::OsString::from_vec(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn as_servers_write_them() {
        assert_eq!(to_uri(Path::new("/a b/ü.rs")), "file:///a%20b/%C3%BC.rs");
        assert_eq!(from_uri("file:///c%3a/x%2Bs.py"), Some("/c:/x+s.py".into()));
        assert_eq!(from_uri("file://localhost/x"), Some("/x".into()));
        assert_eq!(from_uri("untitled:1"), None);
        assert_eq!(from_uri("file:///%zz"), None);
    }

    proptest! {
        #[test]
        fn there_and_back(bytes in proptest::collection::vec(1_u8.., 0..40)) {
            let path = Path::new("/").join(PathBuf::from(std::ffi::OsString::from_vec(bytes)));
            prop_assert_eq!(from_uri(&to_uri(&path)), Some(path));
        }
    }
}
