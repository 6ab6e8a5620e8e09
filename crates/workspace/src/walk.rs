//! Walking the tree: folders are opened below the root descriptor, so that a folder swapped for a symlink in mid-walk
//! is an error for that folder and never a way out. Ignored entries, `.git` and our own temporary files are left out;
//! hidden files are not (an agent needs `.github` and `.env.example`); symlinks are not followed.

use std::mem::MaybeUninit;
use std::num::NonZero;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, FileType, RawDir};

use crate::beneath::{Root, as_path, split};
use crate::guarded::{self, Gits};
use crate::root::Workspace;
use crate::rules::{self, Present, Rules};
use crate::temp;

/// Entries seen before other threads are worth their start.
const ALONE: usize = 400;
const MAX_THREADS: usize = 8;

/// A folder to be listed.
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    /// Rules in force for the folder itself, that is, from above.
    pub(crate) rules: Rules,
    /// Folders between the start and this one.
    pub(crate) depth: usize,
}

/// Takes what a walk finds. Each thread has its own.
pub(crate) trait Visit: Send {
    /// A folder was opened and is about to be listed.
    fn folder(&mut self, _path: &Path, _fd: BorrowedFd<'_>) {}
    /// A folder could not be opened.
    fn closed(&mut self, _path: &Path) {}
    /// A regular file was found, in a folder that is open.
    fn file(&mut self, folder: BorrowedFd<'_>, path: &Path);
    /// A symlink was found.
    fn link(&mut self, _path: &Path) {}
    /// Something was found that a rule ignores.
    fn ignored(&mut self, _path: &Path, _is_folder: bool) {}
    /// Whether a folder below the root that is a repository of its own is entered.
    fn nested_repository(&mut self, _path: &Path) -> bool {
        true
    }
    /// Whether a folder that was found is entered.
    fn enters(&mut self, _path: &Path) -> bool {
        true
    }
    /// The rules for the entries of a folder are known.
    fn rules(&mut self, _rules: &Rules, _present: Present) {}
    /// One of our temporary names was found.
    fn litter(&mut self, _folder: BorrowedFd<'_>, _name: &Path) {}
}

/// How far to walk.
pub(crate) struct Reach<'a> {
    pub(crate) start: &'a Path,
    /// Folders below the start that are entered; 0 lists the start alone.
    pub(crate) depth: usize,
    pub(crate) cancel: &'a AtomicBool,
}

/// Buffers that a thread reuses for every folder.
pub(crate) struct Scratch {
    entries: Box<[MaybeUninit<u8>]>,
    names: Vec<u8>,
    found: Vec<(usize, FileType)>,
    path: Vec<u8>,
    /// There is something of the name that a repository's store has.
    objects: bool,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            entries: vec![MaybeUninit::uninit(); 32 << 10].into_boxed_slice(),
            names: Vec::new(),
            found: Vec::new(),
            path: Vec::new(),
            objects: false,
        }
    }
}

/// Walks from a start and gives back what each thread's visitor collected.
pub(crate) fn walk<V: Visit>(
    workspace: &Workspace,
    reach: &Reach<'_>,
    make: impl Fn() -> V + Sync,
) -> Vec<V> {
    let first = Folder { path: reach.start.to_owned(), rules: rules_above(workspace, reach.start), depth: 0 };
    let queue = Queue { state: Mutex::new(State { todo: vec![first], busy: 0 }), ready: Condvar::new() };
    let mut visitor = make();
    let mut scratch = Scratch::default();
    let mut seen = 0;
    let mut children = Vec::new();
    while seen < ALONE {
        let Some(folder) = queue.lock().todo.pop() else { return vec![visitor] };
        seen += 1 + list(&workspace.root, &folder, &mut scratch, &mut visitor, &mut children);
        children.retain(|child| child.depth <= reach.depth);
        queue.lock().todo.append(&mut children);
        if reach.cancel.load(Ordering::Relaxed) {
            return vec![visitor];
        }
    }
    let helpers = threads().saturating_sub(1);
    std::thread::scope(|scope| {
        let others: Vec<_> = (0..helpers)
            .map(|_| scope.spawn(|| queue.work(workspace, reach, make(), Scratch::default())))
            .collect();
        let mut all = vec![queue.work(workspace, reach, visitor, scratch)];
        all.extend(others.into_iter().filter_map(|other| other.join().ok()));
        all
    })
}

/// How many threads a search may use. Asked once: the answer is in a dozen files.
pub(crate) fn threads() -> usize {
    static THREADS: LazyLock<usize> =
        LazyLock::new(|| std::thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS));
    *THREADS
}

struct Queue {
    state: Mutex<State>,
    ready: Condvar,
}

struct State {
    todo: Vec<Folder>,
    busy: usize,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work<V: Visit>(
        &self,
        workspace: &Workspace,
        reach: &Reach<'_>,
        mut visitor: V,
        mut scratch: Scratch,
    ) -> V {
        let mut children = Vec::new();
        let mut state = self.lock();
        loop {
            if reach.cancel.load(Ordering::Relaxed) {
                state.todo.clear();
            }
            let Some(folder) = state.todo.pop() else {
                if state.busy == 0 {
                    self.ready.notify_all();
                    return visitor;
                }
                state = self.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            state.busy += 1;
            drop(state);
            list(&workspace.root, &folder, &mut scratch, &mut visitor, &mut children);
            children.retain(|child| child.depth <= reach.depth);
            state = self.lock();
            state.busy -= 1;
            if !children.is_empty() || state.busy == 0 {
                self.ready.notify_all();
            }
            state.todo.append(&mut children);
        }
    }
}

/// Lists one folder: files go to the visitor, folders to `children`. Says how many entries it saw.
pub(crate) fn list(
    root: &Root,
    folder: &Folder,
    scratch: &mut Scratch,
    visitor: &mut impl Visit,
    children: &mut Vec<Folder>,
) -> usize {
    // a folder that vanished, or that we may not read, holds nothing for us
    let Ok(fd) = root.open_dir(&folder.path) else {
        visitor.closed(&folder.path);
        return 0;
    };
    visitor.folder(&folder.path, fd.as_fd());
    let present = read_names(fd.as_fd(), scratch, &mut |name| visitor.litter(fd.as_fd(), name));
    let is_repository = present.git || (scratch.objects && guarded::is_bare(fd.as_fd()));
    if is_repository && !folder.path.as_os_str().is_empty() && !visitor.nested_repository(&folder.path) {
        return 0;
    }
    let rules = rules::enter(root, &folder.path, &folder.rules, present);
    visitor.rules(&rules, present);
    scratch.path.clear();
    scratch.path.extend_from_slice(folder.path.as_os_str().as_bytes());
    if !scratch.path.is_empty() {
        scratch.path.push(b'/');
    }
    let stem = scratch.path.len();
    let mut from = 0;
    for &(end, kind) in &scratch.found {
        scratch.path.truncate(stem);
        scratch.path.extend_from_slice(&scratch.names[from..end]);
        from = end;
        let path = as_path(&scratch.path);
        let is_folder = kind == FileType::Directory;
        if rules.is_some() && rules::ignored(&rules, path, is_folder) {
            visitor.ignored(path, is_folder);
            continue;
        }
        if is_folder {
            if visitor.enters(path) {
                children.push(Folder {
                    path: path.to_owned(),
                    rules: rules.clone(),
                    depth: folder.depth + 1,
                });
            }
        } else if kind == FileType::Symlink {
            visitor.link(path);
        } else {
            visitor.file(fd.as_fd(), path);
        }
    }
    scratch.found.len()
}

/// Reads the names of files and folders into the scratch buffers.
fn read_names(fd: BorrowedFd<'_>, scratch: &mut Scratch, litter: &mut dyn FnMut(&Path)) -> Present {
    scratch.names.clear();
    scratch.found.clear();
    scratch.objects = false;
    let mut present = Present::default();
    let mut entries = RawDir::new(fd, &mut scratch.entries);
    while let Some(Ok(entry)) = entries.next() {
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        if name.starts_with(temp::PREFIX) {
            litter(as_path(name));
            continue;
        }
        present.note(name);
        scratch.objects |= name == b"objects";
        if name == b".git" {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => rustix::fs::statat(fd, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
                .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
            kind => kind,
        };
        if matches!(kind, FileType::RegularFile | FileType::Directory | FileType::Symlink) {
            scratch.names.extend_from_slice(name);
            scratch.found.push((scratch.names.len(), kind));
        }
    }
    present
}

/// Whether a walk from `base` would never enter the folder `below`, which lies below it.
pub(crate) fn leaves_out(workspace: &Workspace, base: &Path, below: &Path) -> bool {
    let mut entered: Vec<&Path> = below
        .ancestors()
        .take_while(|folder| *folder != base)
        .filter(|folder| *folder != Path::new(""))
        .collect();
    entered.reverse();
    entered.iter().any(|folder| {
        folder.file_name().is_some_and(|name| name == ".git")
            || rules::ignored(&rules_above(workspace, folder), folder, true)
    })
}

/// Whether a file belongs to no snapshot: it is ignored, or lies in a repository of its own.
pub(crate) fn leaves_out_file(workspace: &Workspace, path: &Path) -> bool {
    let folder = path.parent().unwrap_or(Path::new(""));
    let nested = |folder: &Path| !folder.as_os_str().is_empty() && workspace.has_repository(folder);
    Gits::of(workspace).own(path)
        || folder.ancestors().any(nested)
        || leaves_out(workspace, Path::new(""), folder)
        || rules::ignored(&rules_above(workspace, path), path, false)
}

/// The rules in force in the folder that holds `start`.
pub(crate) fn rules_above(workspace: &Workspace, start: &Path) -> Rules {
    let mut rules = rules::above_root(workspace.root(), workspace.own.as_deref());
    let mut above: Vec<&Path> = start.ancestors().skip(1).collect();
    above.reverse();
    for folder in above {
        let has = |name: &str| workspace.lstat(&folder.join(name)).is_ok();
        let present = Present { ignore: has(".ignore"), gitignore: has(".gitignore"), git: has(".git") };
        rules = rules::enter(&workspace.root, folder, &rules, present);
    }
    rules
}

/// A visitor that keeps the files.
#[derive(Default)]
pub(crate) struct Files(pub(crate) Vec<Box<Path>>);

impl Visit for Files {
    fn file(&mut self, _: BorrowedFd<'_>, path: &Path) {
        self.0.push(path.into());
    }
}

/// All files below a start, in byte order of their paths.
pub(crate) fn files(workspace: &Workspace, reach: &Reach<'_>) -> Vec<Box<Path>> {
    let order = |a: &Path, b: &Path| a.as_os_str().as_bytes().cmp(b.as_os_str().as_bytes());
    let mut parts = walk(workspace, reach, Files::default);
    if parts.len() > 1 {
        std::thread::scope(|scope| {
            for part in &mut parts {
                scope.spawn(|| part.0.sort_unstable_by(|a, b| order(a, b)));
            }
        });
    }
    let mut all: Vec<Box<Path>> = parts.into_iter().flat_map(|part| part.0).collect();
    // a stable sort only merges what is in order already
    all.sort_by(|a, b| order(a, b));
    all
}

impl Workspace {
    /// Removes temporary files that a killed process left behind; says how many. Meant for the start, in the background.
    pub fn remove_litter(&self, cancel: &AtomicBool) -> usize {
        #[derive(Default)]
        struct Sweeper(usize);
        impl Visit for Sweeper {
            fn file(&mut self, _: BorrowedFd<'_>, _: &Path) {}
            fn litter(&mut self, folder: BorrowedFd<'_>, name: &Path) {
                self.0 += usize::from(temp::sweep(folder, name.as_os_str()));
            }
        }
        let reach = Reach { start: Path::new(""), depth: usize::MAX, cancel };
        walk(self, &reach, Sweeper::default).iter().map(|sweeper| sweeper.0).sum()
    }
}

/// Names in the same folder that `missing` may have meant, best first.
pub(crate) fn near_names(workspace: &Workspace, missing: &Path) -> Vec<String> {
    const SHOWN: usize = 3;
    let Some((folder, name)) = split(missing) else { return Vec::new() };
    let Ok(fd) = workspace.root.open_dir(folder) else { return Vec::new() };
    let mut scratch = Scratch::default();
    read_names(fd.as_fd(), &mut scratch, &mut |_| {});
    let wanted = name.to_string_lossy().to_lowercase();
    let mut from = 0;
    let mut near = Vec::new();
    for &(end, _) in &scratch.found {
        let name = &scratch.names[from..end];
        from = end;
        let like = similar::TextDiff::from_chars(
            wanted.as_str(),
            String::from_utf8_lossy(name).to_lowercase().as_str(),
        )
        .ratio();
        if like >= 0.7 {
            near.push((like, crate::path::quoted(&folder.join(as_path(name))).into_owned()));
        }
    }
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    near.into_iter().take(SHOWN).map(|(_, path)| path).collect()
}
