//! Where programs run, and what the workspace's paths are called there.

use crate::endings::Endings;
use sandbox::{Narrowing, Sandbox};
use std::{
    borrow::Cow,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A sandbox, how it calls the workspace's files, and where it has room for files of our own.
#[derive(Clone)]
pub struct Place {
    /// What starts processes there.
    pub sandbox: Arc<dyn Sandbox>,
    /// Between the paths of this machine and the paths there.
    pub paths: PathMap,
    /// A folder there whose content one process leaves to the next, outside the workspace.
    pub scratch: PathBuf,
    /// What was given up there.
    pub(crate) endings: Endings,
}

impl Place {
    /// A place that sees the workspace under other paths.
    #[must_use]
    pub fn new(sandbox: Arc<dyn Sandbox>, paths: PathMap) -> Self {
        Self { sandbox, paths, scratch: "/tmp".into(), endings: Endings::default() }
    }

    /// The same with another folder for our own files.
    #[must_use]
    pub fn with_scratch(self, scratch: impl Into<PathBuf>) -> Self {
        Self { scratch: scratch.into(), ..self }
    }

    /// The same for work in one workspace alone; `None` where its sandbox cannot hold that.
    #[must_use]
    pub fn narrowed(&self, to: &Narrowing) -> Option<Self> {
        let sandbox = Arc::clone(&self.sandbox).narrowed(to)?;
        Some(Self { sandbox, ..self.clone() })
    }

    /// Whether both are the same sandbox; how it sees the workspace belongs to it.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.sandbox, &other.sandbox)
    }
}

impl From<Arc<dyn Sandbox>> for Place {
    /// A place that sees this machine's own paths.
    fn from(sandbox: Arc<dyn Sandbox>) -> Self {
        Self::new(sandbox, PathMap::default())
    }
}

/// Between the paths of this machine and those that a container, a pod or another machine has for the same
/// files. The default changes nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathMap(Option<Roots>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Roots {
    host: PathBuf,
    inside: PathBuf,
}

impl PathMap {
    /// What is `host` here is `inside` there. Both are absolute.
    #[must_use]
    pub fn between(host: impl Into<PathBuf>, inside: impl Into<PathBuf>) -> Self {
        let roots = Roots { host: host.into(), inside: inside.into() };
        Self((roots.host != roots.inside).then_some(roots))
    }

    /// Whether paths are the same on both sides.
    #[must_use]
    pub fn same(&self) -> bool {
        self.0.is_none()
    }

    /// A path of this machine as it is called there; one outside the workspace stays as it is.
    #[must_use]
    pub fn inward(&self, path: &Path) -> PathBuf {
        self.0.as_ref().map_or_else(|| path.to_owned(), |roots| moved(path, &roots.host, &roots.inside))
    }

    /// A path of that place as it is called here; one outside the workspace stays as it is.
    #[must_use]
    pub fn outward(&self, path: &Path) -> PathBuf {
        self.0.as_ref().map_or_else(|| path.to_owned(), |roots| moved(path, &roots.inside, &roots.host))
    }

    /// A text printed there, with every path of the workspace as it is called here.
    #[must_use]
    pub fn outward_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(roots) = &self.0 else { return Cow::Borrowed(text) };
        let (Some(inside), Some(host)) = (roots.inside.to_str(), roots.host.to_str()) else {
            return Cow::Borrowed(text);
        };
        if !text.contains(inside) {
            return Cow::Borrowed(text);
        }
        let (mut said, mut done) = (String::with_capacity(text.len() + 64), 0);
        for (at, _) in text.match_indices(inside) {
            let (before, after) = (&text[..at], &text[at + inside.len()..]);
            if begins(before) && ends(after) {
                said.push_str(&text[done..at]);
                said.push_str(host);
                done = at + inside.len();
            }
        }
        said.push_str(&text[done..]);
        Cow::Owned(said)
    }

    /// What whoever reads a text as it was printed there must know, when it names a path of the workspace.
    #[must_use]
    pub fn remark(&self, text: &str) -> Option<String> {
        (self.outward_text(text) != text).then(|| self.remark_always()).flatten()
    }

    /// The same before anything was printed.
    #[must_use]
    pub fn remark_always(&self) -> Option<String> {
        let Roots { host, inside } = self.0.as_ref()?;
        Some(format!("in this sandbox the workspace ({}) is {}", host.display(), inside.display()))
    }

    /// [`Self::outward_text`] in place.
    pub fn say_outward(&self, text: &mut String) {
        if let Cow::Owned(said) = self.outward_text(text) {
            *text = said;
        }
    }
}

fn moved(path: &Path, from: &Path, to: &Path) -> PathBuf {
    match path.strip_prefix(from) {
        Ok(rest) if rest.as_os_str().is_empty() => to.to_owned(),
        Ok(rest) => to.join(rest),
        Err(_) => path.to_owned(),
    }
}

/// Whether an absolute path can begin after this text: not in the middle of another one.
fn begins(before: &str) -> bool {
    let inner = |c: char| c.is_alphanumeric() || "_-./~".contains(c);
    before.ends_with("://") || !before.ends_with(inner)
}

/// Whether a folder's name can end before this text: it is no longer name that only starts alike.
fn ends(after: &str) -> bool {
    let inner = |c: char| c.is_alphanumeric() || "_-".contains(c);
    match after.strip_prefix('.') {
        // A full stop, or `name.more`.
        Some(rest) => !rest.starts_with(|c: char| inner(c) || c == '.'),
        None => !after.starts_with(inner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_go_in_and_come_back() {
        let map = PathMap::between("/home/ann/app", "/workspace");
        let both = [("/home/ann/app", "/workspace"), ("/home/ann/app/a/b.go", "/workspace/a/b.go")];
        for (host, inside) in both {
            assert_eq!(map.inward(Path::new(host)), Path::new(inside));
            assert_eq!(map.outward(Path::new(inside)), Path::new(host));
        }
        for outside in ["/home/ann/application/x", "/usr/lib/go/x.go", "a/b.go"] {
            assert_eq!(map.inward(Path::new(outside)), Path::new(outside));
            assert_eq!(map.outward(Path::new(outside)), Path::new(outside));
        }
        let remark = "in this sandbox the workspace (/home/ann/app) is /workspace";
        assert_eq!(map.remark("at /workspace/a.go:3").as_deref(), Some(remark));
        for nothing_new in ["", "at a.go:3", "/workspaces/a"] {
            assert_eq!(map.remark(nothing_new), None);
        }
        let same = PathMap::between("/w", "/w");
        assert_eq!(same.remark("/w/x"), None);
        assert!(same.same() && same == PathMap::default());
        assert_eq!(same.outward(Path::new("/w/x")), Path::new("/w/x"));
    }

    #[test]
    fn only_whole_paths_in_a_text_are_said_otherwise() {
        let map = PathMap::between("/home/ann/app", "/workspace");
        for (printed, said) in [
            ("at /workspace/a.go:3, see /workspace.", "at /home/ann/app/a.go:3, see /home/ann/app."),
            ("file:///workspace/a.ts", "file:///home/ann/app/a.ts"),
            ("(\"/workspace\")\n/workspace", "(\"/home/ann/app\")\n/home/ann/app"),
            ("DIR=/workspace:/workspace/bin", "DIR=/home/ann/app:/home/ann/app/bin"),
            ("/workspaces/a /workspace-2/b /workspace.bak", "/workspaces/a /workspace-2/b /workspace.bak"),
            ("vendor/workspace/a ../workspace/b", "vendor/workspace/a ../workspace/b"),
            ("/workspace/../x /workspace..", "/home/ann/app/../x /workspace.."),
            ("", ""),
        ] {
            assert_eq!(map.outward_text(printed), said);
        }
        // A root that contains the other is not said twice.
        let nested = PathMap::between("/src/app", "/src");
        assert_eq!(nested.outward_text("/src/a.go"), "/src/app/a.go");
    }
}
