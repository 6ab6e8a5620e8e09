//! The workspace itself: a folder held by a descriptor, and what a path means in it.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::beneath::Root;
use crate::error::{FileError, PathError};
use crate::grep::Matchers;
use crate::live::Live;
use crate::mounts::Mounts;
use crate::path::{ContainedPath, quoted, unquote};
use crate::write::{Durability, Locks};

/// As many symlinks as the kernel itself follows.
const MAX_LINKS: usize = 40;

/// How a workspace treats its files.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// How far a write goes before it is reported as done.
    pub durability: Durability,
    /// Whether what is mounted below the root belongs to the workspace.
    pub cross_mounts: bool,
}

impl Options {
    /// The same with another durability.
    pub fn with_durability(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }

    /// The same, with mount points below the root made part of the workspace.
    pub fn crossing_mounts(self) -> Self {
        Self { cross_mounts: true, ..self }
    }
}

/// A folder whose files may be read, searched and changed, and nothing beside it.
pub struct Workspace {
    name: String,
    given: PathBuf,
    canonical: PathBuf,
    pub(crate) root: Root,
    pub(crate) options: Options,
    pub(crate) locks: Locks,
    pub(crate) live: OnceLock<Live>,
    pub(crate) matchers: Matchers,
    pub(crate) mounts: Mounts,
    /// A folder below the root that is left out of everything.
    pub(crate) own: Option<PathBuf>,
}

impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workspace")
            .field("name", &self.name)
            .field("root", &self.canonical)
            .finish_non_exhaustive()
    }
}

impl Workspace {
    /// Opens the folder `root` as the workspace `name`.
    pub fn open(name: impl Into<String>, root: impl AsRef<Path>) -> Result<Self, FileError> {
        Self::open_with(name, root, Options::default())
    }

    /// Opens the folder `root` as the workspace `name`.
    pub fn open_with(
        name: impl Into<String>,
        root: impl AsRef<Path>,
        options: Options,
    ) -> Result<Self, FileError> {
        let given = root.as_ref();
        let io =
            |source| FileError::Io { action: "open the workspace", path: quoted(given).into_owned(), source };
        let absolute = std::path::absolute(given).map_err(io)?;
        let canonical = std::fs::canonicalize(given).map_err(io)?;
        let root = Root::open(&canonical, options.cross_mounts).map_err(|errno| io(errno.into()))?;
        Ok(Self {
            name: name.into(),
            given: absolute,
            canonical,
            root,
            options,
            locks: Locks::default(),
            live: OnceLock::new(),
            matchers: Matchers::default(),
            mounts: Mounts::default(),
            own: None,
        })
    }

    /// The same without what the product itself keeps in `folder`, should that lie inside: it is neither searched, nor
    /// part of a snapshot, nor touched by a restore.
    #[must_use]
    pub fn without(self, folder: &Path) -> Self {
        // Parts of it may still have to be made.
        let there = folder.ancestors().find_map(|above| Some((above, std::fs::canonicalize(above).ok()?)));
        let own = there.and_then(|(above, canonical)| {
            let folder = canonical.join(folder.strip_prefix(above).ok()?);
            Some(folder.strip_prefix(&self.canonical).ok()?.to_owned())
        });
        Self { own: own.filter(|own| !own.as_os_str().is_empty()), ..self }
    }

    /// The workspace's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The canonical path of the root, for showing it and for starting programs there.
    pub fn root(&self) -> &Path {
        &self.canonical
    }

    /// Refuses when the root's path no longer leads to the folder that was opened: files would be looked for in another
    /// folder than the one that programs run in.
    pub fn in_place(&self) -> Result<(), FileError> {
        let what = match self.root.in_place() {
            Some(true) => return Ok(()),
            Some(false) => "was replaced by another",
            None => "was removed or moved",
        };
        Err(FileError::Gone { path: quoted(&self.canonical).into_owned(), what })
    }

    /// What `path` means here: absolute or relative to the root, symlinks followed while they stay inside.
    ///
    /// A path that does not exist resolves too, so that it can be created. A name that cannot be written plainly
    /// may be given as [`quoted`] shows it.
    pub fn resolve(&self, path: impl AsRef<Path>) -> Result<ContainedPath, PathError> {
        self.resolve_as(path.as_ref(), Last::Follow)
    }

    /// Like [`resolve`](Self::resolve), but a symlink in the last place stands for itself.
    pub fn resolve_entry(&self, path: impl AsRef<Path>) -> Result<ContainedPath, PathError> {
        self.resolve_as(path.as_ref(), Last::Keep)
    }

    fn resolve_as(&self, path: &Path, last: Last) -> Result<ContainedPath, PathError> {
        let found = self.resolve_plain(path, last)?;
        // the quoted form is taken only when nothing bears that name literally
        if let Some(name) = path.to_str().and_then(unquote)
            && matches!(self.lstat(&found.relative), Err(Errno::NOENT))
        {
            return self.resolve_plain(Path::new(&name), last);
        }
        Ok(found)
    }

    /// What `path` means if it is what it looks like: below the root, and no symlink in it. Opening it finds that out.
    pub(crate) fn plain(&self, path: &Path) -> Option<ContainedPath> {
        let below = self.below_root(path)?;
        let mut plain = PathBuf::with_capacity(below.as_os_str().len());
        for component in below.components().filter(|component| *component != Component::CurDir) {
            let Component::Normal(name) = component else { return None };
            plain.push(name);
        }
        Some(ContainedPath { relative: plain })
    }

    fn resolve_plain(&self, path: &Path, last: Last) -> Result<ContainedPath, PathError> {
        let shown = || quoted(path).into_owned();
        let malformed = |why| PathError::Malformed { path: shown(), why };
        if path.as_os_str().is_empty() {
            return Err(malformed("it is empty"));
        }
        if path.as_os_str().as_bytes().contains(&0) {
            return Err(malformed("it holds a NUL byte"));
        }
        let Some(below) = self.below_root(path) else { return Err(PathError::Outside { path: shown() }) };
        let plain: PathBuf = below.components().filter(|c| *c != Component::CurDir).collect();
        // opening refuses a symlink anywhere, in the last place too unless it is to stand for itself
        let flags = if last == Last::Keep { OFlags::PATH | OFlags::NOFOLLOW } else { OFlags::PATH };
        if !plain.components().any(|c| c == Component::ParentDir)
            && self.root.open_at(&plain, flags, Mode::empty()).is_ok()
        {
            return Ok(ContainedPath { relative: plain });
        }
        Walk { workspace: self, given: path, last, done: PathBuf::new(), links: 0 }.run(below)
    }

    /// The part of `path` below the root, if it is relative or starts with the root.
    fn below_root<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        if path.is_relative() {
            return Some(path);
        }
        path.strip_prefix(&self.canonical).or_else(|_| path.strip_prefix(&self.given)).ok()
    }

    /// Stat data of the entry itself; the last component may be a symlink.
    pub(crate) fn lstat(&self, relative: &Path) -> Result<Stat, Errno> {
        rustix::fs::fstat(self.open_entry(relative)?)
    }

    fn open_entry(&self, relative: &Path) -> Result<OwnedFd, Errno> {
        self.root.open_at(relative, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Follow,
    Keep,
}

fn is_link(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
}

/// Resolution one component at a time, for paths with symlinks, `..` or missing parts.
struct Walk<'w> {
    workspace: &'w Workspace,
    given: &'w Path,
    last: Last,
    done: PathBuf,
    links: usize,
}

impl Walk<'_> {
    fn run(mut self, below: &Path) -> Result<ContainedPath, PathError> {
        let mut pending: Vec<OsString> = parts(below);
        while let Some(part) = pending.pop() {
            match part.as_bytes() {
                b"" | b"." => {}
                b".." => {
                    if !self.done.pop() {
                        return Err(PathError::Outside { path: self.shown() });
                    }
                }
                _ => self.step(&part, &mut pending)?,
            }
        }
        Ok(ContainedPath { relative: self.done })
    }

    fn step(&mut self, name: &OsStr, pending: &mut Vec<OsString>) -> Result<(), PathError> {
        let next = self.done.join(name);
        let entry = match self.workspace.open_entry(&next) {
            Ok(entry) => entry,
            // below something that does not exist there are no symlinks
            Err(Errno::NOENT) => {
                self.done = next;
                return Ok(());
            }
            Err(errno) => return Err(self.failed(errno)),
        };
        let stat = rustix::fs::fstat(&entry).map_err(|errno| self.failed(errno))?;
        if !is_link(&stat) || (pending.is_empty() && self.last == Last::Keep) {
            self.done = next;
            return Ok(());
        }
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(PathError::TooManyLinks { path: self.shown() });
        }
        let target = rustix::fs::readlinkat(&entry, "", Vec::new()).map_err(|errno| self.failed(errno))?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        let outside = || PathError::LinkOutside {
            path: self.shown(),
            link: quoted(&next).into_owned(),
            target: quoted(&target).into_owned(),
        };
        if target.is_absolute() {
            let below = self.workspace.below_root(&target).ok_or_else(outside)?;
            pending.extend(parts(below));
            self.done = PathBuf::new();
        } else {
            let climbs = target.components().take_while(|c| *c == Component::ParentDir).count();
            if climbs > self.done.components().count() {
                return Err(outside());
            }
            pending.extend(parts(&target));
        }
        Ok(())
    }

    fn shown(&self) -> String {
        quoted(self.given).into_owned()
    }

    fn failed(&self, errno: Errno) -> PathError {
        let path = self.shown();
        match errno {
            Errno::NOTDIR => PathError::NotAFolder { path, component: quoted(&self.done).into_owned() },
            Errno::XDEV => PathError::Mount { path },
            errno => PathError::Io { path, source: errno.into() },
        }
    }
}

/// The components of a path, last one first.
fn parts(path: &Path) -> Vec<OsString> {
    path.components().rev().map(|c| c.as_os_str().to_owned()).collect()
}
