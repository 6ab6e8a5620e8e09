//! Paths as the live workspace keeps them.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use crate::beneath::as_path;

/// A workspace-relative path, ordered by its bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Rel(Arc<[u8]>);

impl Rel {
    pub(crate) fn new(path: &Path) -> Self {
        Self::of(path.as_os_str().as_bytes())
    }

    pub(super) fn of(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    pub(super) fn root() -> Self {
        Self::of(b"")
    }

    pub(super) fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn child(&self, name: &[u8]) -> Self {
        if self.is_root() { Self::of(name) } else { Self([&self.0, &b"/"[..], name].concat().into()) }
    }

    pub(super) fn parent(&self) -> Option<Self> {
        self.as_ref().parent().map(Self::new)
    }

    /// Whether it is `folder` or lies below it.
    pub(super) fn is_within(&self, folder: &Self) -> bool {
        folder.is_root()
            || self.0.strip_prefix(&folder.0[..]).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
    }

    /// Whether it lies directly in `folder`.
    pub(super) fn is_child_of(&self, folder: &Self) -> bool {
        self.parent().as_ref() == Some(folder)
    }
}

impl AsRef<Path> for Rel {
    fn as_ref(&self) -> &Path {
        as_path(&self.0)
    }
}

impl Borrow<[u8]> for Rel {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

/// Everything at or below a folder, in order; with `after`, only what comes behind that path.
///
/// In byte order that is the folder itself and the range from `folder/` to `folder0`.
pub(super) fn within<'m, T>(
    map: &'m BTreeMap<Rel, T>,
    folder: &Rel,
    after: Option<&Rel>,
) -> Box<dyn Iterator<Item = (&'m Rel, &'m T)> + 'm> {
    let behind = |first: Bound<&'_ [u8]>, end: Bound<&'_ [u8]>| match after.map(Rel::bytes) {
        Some(after) if !matches!(first, Bound::Included(first) if after < first) => match end {
            Bound::Excluded(end) if after >= end => None,
            end => Some(map.range::<[u8], _>((Bound::Excluded(after), end))),
        },
        _ => Some(map.range::<[u8], _>((first, end))),
    };
    if folder.is_root() {
        return Box::new(behind(Bound::Unbounded, Bound::Unbounded).into_iter().flatten());
    }
    let itself =
        map.get_key_value(folder.bytes()).filter(|(path, _)| after.is_none_or(|after| *path > after));
    let first = [folder.bytes(), b"/"].concat();
    let end = [folder.bytes(), b"0"].concat();
    let below = behind(Bound::Included(&first), Bound::Excluded(&end));
    Box::new(itself.into_iter().chain(below.into_iter().flatten()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_within_is_found_from_anywhere() {
        let names = ["a", "a-b", "a/b", "a/b/c", "a/d", "a0", "b/x", "z"];
        let map: BTreeMap<Rel, ()> = names.iter().map(|name| (Rel::of(name.as_bytes()), ())).collect();
        for folder in ["", "a", "a/b", "b", "c"] {
            let folder = Rel::of(folder.as_bytes());
            for after in [None, Some(""), Some("a"), Some("a-b"), Some("a/b"), Some("a/zz"), Some("zz")] {
                let after = after.map(|after| Rel::of(after.as_bytes()));
                let got: Vec<_> = within(&map, &folder, after.as_ref()).map(|(path, ())| path).collect();
                let wanted =
                    |path: &&Rel| path.is_within(&folder) && after.as_ref().is_none_or(|a| *path > a);
                assert_eq!(got, map.keys().filter(wanted).collect::<Vec<_>>(), "{folder:?} {after:?}");
            }
        }
    }
}
