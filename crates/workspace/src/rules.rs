//! Ignore files: `.gitignore` and `.ignore` in every folder, with or without a git repository.
//!
//! `.ignore` wins over `.gitignore`, deeper folders over higher ones; the `.gitignore` rules of a repository end
//! where another one begins. `.git/info/exclude` comes last, wherever a linked worktree or a submodule has it. When
//! the workspace lies inside a larger repository, that one's ignore files above the root count too. A person's global
//! excludes do not: a workspace looks the same to everybody. What the product itself keeps, should that be inside the
//! workspace, is left out whatever ignore files say.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{FileType, Mode, OFlags};

use crate::beneath::{Root, as_path};

/// More than this is no ignore file.
const SIZE_LIMIT: u64 = 1 << 20;

/// The ignore rules in force in a folder: its own, and those above it.
pub(crate) type Rules = Option<Arc<Level>>;

/// The ignore files of one folder.
#[derive(Clone)]
pub(crate) struct Level {
    above: Rules,
    /// Bytes of a workspace-relative path that lead to this folder, the slash included.
    skip: usize,
    /// For folders above the root: the way from there down to the root.
    prefix: Option<PathBuf>,
    ignore: Option<Gitignore>,
    gitignore: Option<Gitignore>,
    exclude: Option<Gitignore>,
    /// A repository starts here.
    repository: bool,
    /// A folder below the root that is nobody's but ours.
    own: Option<PathBuf>,
}

/// What a listing says about the ignore files of a folder.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Present {
    pub(crate) ignore: bool,
    pub(crate) gitignore: bool,
    pub(crate) git: bool,
}

impl Present {
    /// Notes a name; says whether it matters to the rules.
    pub(crate) fn note(&mut self, name: &[u8]) -> bool {
        match name {
            b".ignore" => self.ignore = true,
            b".gitignore" => self.gitignore = true,
            b".git" => self.git = true,
            _ => return false,
        }
        true
    }
}

/// The rules for what lies in `folder`, given those in force above it.
pub(crate) fn enter(root: &Root, folder: &Path, above: &Rules, present: Present) -> Rules {
    if present == Present::default() {
        return above.clone();
    }
    let load = |there: bool, name: &str| there.then(|| read_beneath(root, &folder.join(name))).flatten();
    let level = Level {
        above: above.clone(),
        skip: match folder.as_os_str().len() {
            0 => 0,
            n => n + 1,
        },
        prefix: None,
        ignore: compile(load(present.ignore, ".ignore")),
        gitignore: compile(load(present.gitignore, ".gitignore")),
        exclude: compile(load(present.git, ".git/info/exclude").or_else(|| {
            let pointer = load(present.git, ".git")?;
            read_outside(&linked(&root.path().join(folder), &pointer)?)
        })),
        repository: present.git,
        own: None,
    };
    if level.ignore.is_none() && level.gitignore.is_none() && level.exclude.is_none() && !level.repository {
        return above.clone();
    }
    Some(Arc::new(level))
}

/// Where the excludes of a repository are whose `.git` is a file: of the one that its worktrees share.
fn linked(repository: &Path, pointer: &[u8]) -> Option<PathBuf> {
    let line = |bytes: &[u8]| as_path(bytes.trim_ascii_end()).to_owned();
    let own = repository.join(line(pointer.strip_prefix(b"gitdir: ")?));
    let common = read_outside(&own.join("commondir")).map_or_else(|| own.clone(), |to| own.join(line(&to)));
    Some(common.join("info/exclude"))
}

/// Where the excludes of a repository are.
fn excludes(repository: &Path) -> PathBuf {
    let git = repository.join(".git");
    let linked = read_outside(&git).and_then(|pointer| linked(repository, &pointer));
    linked.unwrap_or_else(|| git.join("info/exclude"))
}

/// The larger repository inside which the root lies.
fn repository_above(canonical: &Path) -> Option<&Path> {
    if canonical.join(".git").exists() {
        return None;
    }
    canonical.ancestors().skip(1).find(|folder| folder.join(".git").exists())
}

/// Folders above the root whose ignore files count, innermost first.
fn folders_above<'p>(canonical: &'p Path, repository: &'p Path) -> impl Iterator<Item = &'p Path> {
    canonical.ancestors().skip(1).take_while(move |folder| folder.starts_with(repository))
}

/// Files outside the root that decide about what is inside, whether they exist or not; another list, other rules.
pub(crate) fn sources_above(canonical: &Path) -> Vec<PathBuf> {
    let Some(repository) = repository_above(canonical) else {
        let own = excludes(canonical);
        return if own.starts_with(canonical) { Vec::new() } else { vec![own] };
    };
    let names = [".ignore", ".gitignore"];
    let files = folders_above(canonical, repository).flat_map(|folder| names.map(|name| folder.join(name)));
    files.chain([excludes(repository)]).collect()
}

/// The rules that hold at the root because it lies inside a larger repository, or holds what is `own` to the product.
pub(crate) fn above_root(canonical: &Path, own: Option<&Path>) -> Rules {
    let nothing = Level {
        above: None,
        skip: 0,
        prefix: None,
        ignore: None,
        gitignore: None,
        exclude: None,
        repository: false,
        own: None,
    };
    let mut rules = own.map(|own| Arc::new(Level { own: Some(own.to_owned()), ..nothing.clone() }));
    let Some(repository) = repository_above(canonical) else { return rules };
    let mut between: Vec<&Path> = folders_above(canonical, repository).collect();
    between.reverse();
    for folder in between {
        let load = |name: &str| compile(read_outside(&folder.join(name)));
        let top = folder == repository;
        rules = Some(Arc::new(Level {
            above: rules,
            prefix: Some(canonical.strip_prefix(folder).unwrap_or(canonical).to_owned()),
            ignore: load(".ignore"),
            gitignore: load(".gitignore"),
            exclude: if top { compile(read_outside(&excludes(repository))) } else { None },
            repository: top,
            ..nothing.clone()
        }));
    }
    rules
}

/// Whether the entry at this workspace-relative path is ignored. What lies in an ignored folder is not asked about.
pub(crate) fn ignored(rules: &Rules, path: &Path, is_folder: bool) -> bool {
    let levels = || std::iter::successors(rules.as_deref(), |level| level.above.as_deref());
    if is_folder && levels().any(|level| level.own.as_deref() == Some(path)) {
        return true;
    }
    for level in levels() {
        match level.verdict(level.ignore.as_ref(), path, is_folder) {
            Match::None => {}
            verdict => return verdict.is_ignore(),
        }
    }
    for level in levels() {
        for matcher in [&level.gitignore, &level.exclude] {
            match level.verdict(matcher.as_ref(), path, is_folder) {
                Match::None => {}
                verdict => return verdict.is_ignore(),
            }
        }
        if level.repository {
            break;
        }
    }
    false
}

impl Level {
    fn verdict(&self, matcher: Option<&Gitignore>, path: &Path, is_folder: bool) -> Match<()> {
        let Some(matcher) = matcher else { return Match::None };
        match &self.prefix {
            Some(prefix) => matcher.matched(prefix.join(path), is_folder).map(|_| ()),
            None => {
                let below = as_path(path.as_os_str().as_bytes().get(self.skip..).unwrap_or_default());
                matcher.matched(below, is_folder).map(|_| ())
            }
        }
    }
}

fn compile(text: Option<Vec<u8>>) -> Option<Gitignore> {
    let text = text?;
    let text = String::from_utf8_lossy(text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&text));
    let mut builder = GitignoreBuilder::new("");
    for line in text.lines() {
        // a line that is no glob ignores nothing, as in git
        let _ = builder.add_line(None, line);
    }
    builder.build().ok().filter(|matcher| !matcher.is_empty())
}

fn read_beneath(root: &Root, path: &Path) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    read_regular(root.open_at(path, flags, Mode::empty()).ok()?.into())
}

/// For ignore files above the root, and what says where they are: the one place where this crate reads outside, and
/// all it keeps are patterns.
fn read_outside(path: &Path) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    read_regular(rustix::fs::open(path, flags, Mode::empty()).ok()?.into())
}

fn read_regular(file: File) -> Option<Vec<u8>> {
    let stat = rustix::fs::fstat(&file).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut bytes = Vec::with_capacity((stat.st_size as u64).min(SIZE_LIMIT) as usize);
    file.take(SIZE_LIMIT).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
