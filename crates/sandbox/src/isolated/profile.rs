//! The default profile: what is writable, what is hidden, what of git is frozen, resolved to what exists.

use super::{
    folder,
    git::{self, Checkout},
    lists::{
        CACHE_FILES, CACHE_VARIABLES, CACHES, KEPT_RUN, MOVED, Make, NAMED, RUN_FROM_CACHE, SECRETS,
        SECRETS_OF_THE_SYSTEM, SOMETIMES_SECRET, START_UP,
    },
    plan::{Caps, Network, Plan, Tier},
    rules,
};
use crate::Variables;
use std::{
    collections::{BTreeSet, VecDeque},
    ffi::OsStr,
    fs, io,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// What a sandbox is built from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Profile {
    pub(crate) workspaces: Vec<PathBuf>,
    /// Workspaces that are not this sandbox's business.
    pub(crate) others: Vec<PathBuf>,
    /// Nothing in the workspaces can be changed.
    pub(crate) read_only: bool,
    pub(crate) home: Option<PathBuf>,
    pub(crate) read: Vec<PathBuf>,
    /// Hidden besides the credentials that everybody has: those of whoever runs the sandbox.
    pub(crate) hide: Vec<PathBuf>,
    pub(crate) write: Vec<PathBuf>,
    pub(crate) network: Network,
    pub(crate) caps: Caps,
    /// The variables of the host, for caches they move.
    pub(crate) variables: Variables,
    /// The latest look for repositories.
    pub(crate) looked: Arc<Mutex<Option<Looked>>>,
    /// The latest look for sockets in HOME.
    pub(crate) sockets: Arc<Mutex<Option<Sockets>>>,
}

/// Repositories as they were found, when and where.
#[derive(Debug)]
pub(crate) struct Looked {
    at: Instant,
    /// What the look cost, and for how long commands have run since.
    took: Duration,
    run: Duration,
    workspaces: Vec<PathBuf>,
    found: Vec<Checkout>,
    /// Those that were not there before, until they are named.
    new: Vec<PathBuf>,
}

/// Sockets as they were found, and when.
#[derive(Debug)]
pub(crate) struct Sockets {
    at: Instant,
    found: Vec<PathBuf>,
}

/// How many times longer than a look commands run before there is another.
const WORTH: u32 = 100;

/// How long a look for nested repositories holds.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

impl Profile {
    fn variable(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(|v| v.as_os_str()).filter(|v| !v.is_empty())
    }

    /// The workspaces, and the folders in them that have a repository of their own.
    pub(crate) fn checkouts(&self) -> Vec<Checkout> {
        // Where nothing can be changed, nothing need be guarded.
        if self.read_only {
            return Vec::new();
        }
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(looked) = looked.as_ref()
            && looked.workspaces == self.workspaces
            && looked.at.elapsed() < LOOK_AGAIN
        {
            return looked.found.clone();
        }
        self.look_again(&mut looked);
        looked.as_ref().map(|looked| looked.found.clone()).unwrap_or_default()
    }

    fn look_again(&self, looked: &mut Option<Looked>) {
        let mut now = self.look();
        if let Some(before) = looked.take().filter(|before| before.workspaces == now.workspaces) {
            let known: BTreeSet<&Path> =
                before.found.iter().map(|checkout| checkout.folder.as_path()).collect();
            let folders = now.found.iter().map(|checkout| &checkout.folder);
            now.new = folders.filter(|folder| !known.contains(folder.as_path())).cloned().collect();
            now.new.extend(before.new);
        }
        *looked = Some(now);
    }

    fn look(&self) -> Looked {
        let at = Instant::now();
        let all = |path: &PathBuf| Checkout::all(path, self.home.as_deref());
        let found = self.workspaces.iter().flat_map(all).collect();
        let workspaces = self.workspaces.clone();
        Looked { at, took: at.elapsed(), run: Duration::ZERO, workspaces, found, new: Vec::new() }
    }

    /// Folders that have become repositories since the latest look, after a command that ran for so long. Looked for only
    /// once commands have run for much longer than a look takes, so that short ones are not slowed down.
    pub(crate) fn new_repositories(&self, run: Duration) -> Vec<PathBuf> {
        let mut guard = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(looked) = guard.as_mut() else { return Vec::new() };
        looked.run += run;
        if looked.run >= looked.took * WORTH {
            self.look_again(&mut guard);
        }
        guard.as_mut().map(|looked| std::mem::take(&mut looked.new)).unwrap_or_default()
    }

    /// Workspaces as the mounts see them.
    pub(super) fn roots(&self) -> Vec<PathBuf> {
        self.workspaces.iter().filter_map(|path| fs::canonicalize(path).ok()).collect()
    }

    /// What a shell of the user would run, where commands could write it because HOME lies in a workspace.
    fn start_up(&self) -> Vec<PathBuf> {
        let inside = |home: &&PathBuf| self.roots().iter().any(|root| home.starts_with(root));
        let Some(home) = self.home.iter().find(inside).filter(|_| !self.read_only) else {
            return Vec::new();
        };
        let mut files: Vec<PathBuf> = START_UP.iter().map(|name| home.join(name)).collect();
        let cache = home.join(".cache");
        files.extend(fs::read_dir(&cache).into_iter().flatten().flatten().map(|entry| entry.path()));
        files.retain(|path| !path.starts_with(&cache) || !path.is_dir() || is_run_from_cache(path));
        let user = self.variable("USER").map(|user| user.to_string_lossy().into_owned()).unwrap_or_default();
        files.push(cache.join(format!("p10k-instant-prompt-{user}.zsh")));
        files.sort();
        files.dedup();
        files
    }

    /// The folder of all caches, and the one of our own that commands see in its place: files that lie directly in it,
    /// and folders of shells, are run by the shells of the host.
    fn cache(&self) -> Option<(PathBuf, PathBuf)> {
        let moved = self.variable("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let cache = fs::canonicalize(moved.or_else(|| Some(self.home.as_ref()?.join(".cache")))?).ok()?;
        // In a workspace it is content of the workspace.
        if self.roots().iter().any(|root| cache.starts_with(root)) {
            return None;
        }
        let own = cache.join("codegen-sandbox/instead-of-cache");
        Some((cache, own))
    }

    /// The folders in a folder of caches that tools fill.
    fn in_cache(cache: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(cache).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        folders.map(|entry| entry.path()).filter(|path| !is_run_from_cache(path)).collect()
    }

    fn has_program(&self, name: &str) -> bool {
        self.variable("PATH")
            .is_some_and(|path| std::env::split_paths(path).any(|dir| dir.join(name).is_file()))
    }

    /// Makes the caches that the tools at hand are going to want. A place that cannot be made is left out.
    pub(crate) fn make_caches(&self) {
        let Some(home) = &self.home else { return };
        for (path, make) in CACHES {
            let place = home.join(path);
            let wanted = match make {
                _ if place.is_dir() => false,
                Make::Always => true,
                Make::For(program) => self.has_program(program),
                Make::Never => false,
            };
            if wanted {
                let _ = fs::create_dir_all(place);
            }
        }
        if let Some((_, own)) = self.cache() {
            let _ = fs::create_dir_all(own);
        }
        for (path, program) in CACHE_FILES {
            let place = home.join(path);
            if !place.exists() && self.has_program(program) {
                let _ = fs::OpenOptions::new().append(true).create(true).open(place);
            }
        }
    }

    fn writable(&self, git: &[git::Repository]) -> Vec<PathBuf> {
        let mut wanted = self.workspaces.clone();
        wanted.extend(self.write.iter().cloned());
        if let Some(home) = &self.home {
            wanted.extend(CACHES.iter().map(|(path, _)| home.join(path)).filter(|p| !p.ends_with(".cache")));
        }
        if let Some((cache, _)) = self.cache() {
            wanted.extend(Self::in_cache(&cache));
        }
        for (name, parts) in CACHE_VARIABLES {
            if let Some(base) = self.variable(name).map(Path::new).filter(|p| p.is_absolute()) {
                wanted.extend(parts.iter().map(|part| base.join(part)));
            }
        }
        // A worktree's repository lies outside of it.
        wanted.extend(git.iter().flat_map(|repository| repository.outside.clone()));
        let mut found: Vec<PathBuf> = wanted.iter().filter_map(|path| real(path)).collect();
        // Parents first: a place inside another is mounted onto it.
        found.sort();
        found.dedup();
        found.retain(|path| path != Path::new("/"));
        if self.read_only {
            let roots = self.roots();
            let beside =
                |path: &PathBuf| roots.iter().all(|root| !path.starts_with(root) && !root.starts_with(path));
            found.retain(beside);
        }
        found
    }

    /// The other workspaces that lie apart from these: one that holds another is seen with it, and one with the home
    /// folder in it holds the caches that all use.
    fn apart(&self) -> Vec<PathBuf> {
        let mut near = self.roots();
        near.extend(self.home.clone());
        let others = self.others.iter().filter_map(|path| fs::canonicalize(path).ok());
        let within = |other: &Path| self.roots().iter().any(|root| other.starts_with(root));
        others.filter(|other| !within(other) && !near.iter().any(|path| path.starts_with(other))).collect()
    }

    /// A home that lies where the sandbox has folders of its own shows through, as any other does.
    fn kept_home(&self) -> Option<PathBuf> {
        let home = self.home.as_ref()?;
        let own = ["/tmp", "/var/tmp", "/run"].map(Path::new);
        own.iter().any(|own| home.starts_with(own) && home != own).then(|| home.clone())
    }

    /// Hidden places, as (folders, files). What lies in another workspace and is needed all the same (the repository of
    /// a worktree, a cache) is in `needed`.
    fn hidden(&self, others: &[PathBuf], needed: &[PathBuf]) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let mut homes: Vec<PathBuf> = self.home.iter().cloned().collect();
        if rustix::process::geteuid().is_root() {
            // Root could read the others', too.
            homes.push(PathBuf::from("/root"));
            homes.extend(fs::read_dir("/home").into_iter().flatten().flatten().map(|entry| entry.path()));
        }
        let mut wanted: Vec<PathBuf> = SECRETS_OF_THE_SYSTEM.iter().map(PathBuf::from).collect();
        for home in homes {
            wanted.extend(SECRETS.iter().map(|secret| home.join(secret)));
            wanted.extend(SOMETIMES_SECRET.iter().map(|p| home.join(p)).filter(|p| holds_a_credential(p)));
        }
        for (variable, below) in MOVED {
            let Some(base) = self.variable(variable).map(Path::new).filter(|p| p.is_absolute()) else {
                continue;
            };
            wanted.extend(SECRETS.iter().filter_map(|secret| Some(base.join(secret.strip_prefix(below)?))));
        }
        wanted.extend(NAMED.iter().filter_map(|name| self.variable(name)).flat_map(std::env::split_paths));
        let read: Vec<PathBuf> = self.read.iter().filter_map(|p| fs::canonicalize(p).ok()).collect();
        let roots = self.roots();
        let (mut folders, mut files) = (Vec::new(), Vec::new());
        for path in wanted.into_iter().chain(self.named()) {
            // A mount goes onto what a link points at.
            let Some(path) = real(&path) else { continue };
            if path.parent().is_none() || self.home.as_ref().is_some_and(|home| home.starts_with(&path)) {
                continue;
            }
            hide(path, &read, &roots, &mut folders, &mut files);
        }
        for other in others {
            hide(other.clone(), needed, &roots, &mut folders, &mut files);
        }
        for list in [&mut folders, &mut files] {
            list.sort();
            list.dedup();
        }
        // What lies in a hidden folder is hidden with it.
        let all = folders.clone();
        for list in [&mut folders, &mut files] {
            list.retain(|path| !all.iter().any(|folder| folder != path && path.starts_with(folder)));
        }
        (folders, files)
    }

    /// The places that are hidden by name. Of a folder also what its links lead to, and of one that holds the home only
    /// its files: programs need the home.
    fn named(&self) -> Vec<PathBuf> {
        let mut named = Vec::new();
        for place in self.hide.iter().filter_map(|path| real(path)) {
            let holds_home = self.home.as_ref().is_some_and(|home| home.starts_with(&place));
            let entries = fs::read_dir(&place).into_iter().flatten().flatten();
            let targets = entries.filter_map(|entry| fs::canonicalize(entry.path()).ok());
            named.extend(targets.filter(|path| path.is_file() && (holds_home || !path.starts_with(&place))));
            named.push(place);
        }
        named
    }

    /// Everything resolved for one tier; `tmp` is the private folder for temporary files.
    pub(crate) fn resolve(&self, tier: Tier, tmp: &Path) -> io::Result<Plan> {
        std::thread::scope(|scope| {
            // The longest of all looks, beside the others; whoever needs it waits for its end.
            if tier == Tier::Namespaces && self.known_sockets().is_none() {
                scope.spawn(|| self.sockets_in_home());
            }
            self.resolve_all(tier, tmp)
        })
    }

    fn resolve_all(&self, tier: Tier, tmp: &Path) -> io::Result<Plan> {
        let mut git: Vec<git::Repository> = self.checkouts().iter().filter_map(git::Repository::of).collect();
        // Submodules are named by their own folder and by the repository they belong to.
        let mut known = BTreeSet::new();
        for repository in &mut git {
            repository.frozen.retain(|path| known.insert(path.clone()));
            repository.pinned.retain(|path| known.insert(path.clone()));
        }
        let mut writable = self.writable(&git);
        let others = self.apart();
        // A relative path of the configuration is one of the first workspace: it opens that to no other.
        let given: Vec<PathBuf> = self.write.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
        let in_others = |path: &Path| others.iter().any(|other| path.starts_with(other));
        let needed = writable.iter().filter(|path| in_others(path) && !given.contains(path));
        let needed: Vec<PathBuf> = needed.cloned().collect();
        let (hidden_dirs, mut hidden_files) = self.hidden(&others, &needed);
        let (present, absent): (Vec<_>, Vec<_>) =
            self.start_up().into_iter().partition(|path| folder::kind(path).is_some());
        let (frozen, pinned) = self.in_place(present, hidden_dirs.iter().chain(&hidden_files));
        if tier == Tier::Landlock {
            let kept: Vec<PathBuf> =
                hidden_dirs.iter().chain(&hidden_files).chain(&frozen).cloned().collect();
            writable = carve(writable, &kept);
        }
        let mut plan = Plan {
            tier,
            network: self.network,
            caps: self.caps,
            tmp: tmp.to_owned(),
            writable,
            hidden_dirs,
            hidden_files: Vec::new(),
            frozen: git.iter().flat_map(|repository| repository.frozen.clone()).collect(),
            pinned: git.iter().flat_map(|repository| repository.pinned.clone()).collect(),
            kept_run: kept_run(),
            readable: Vec::new(),
            instead: Vec::new(),
            shared: Vec::new(),
            covered: Vec::new(),
            absent,
            others,
            unguarded: Vec::new(),
        };
        if self.read_only {
            // Elsewhere they show through; where the sandbox has folders of its own they would be missing.
            plan.kept_run.extend(self.roots());
        }
        plan.frozen.extend(frozen);
        plan.pinned.extend(pinned);
        let loose = git.iter().flat_map(|repository| &repository.loose);
        plan.unguarded = loose.filter_map(|loose| unguarded(loose, &plan.writable)).collect();
        match tier {
            Tier::Namespaces => {
                plan.kept_run.extend(self.kept_home());
                if let Some((cache, own)) = self.cache().filter(|(_, own)| own.is_dir()) {
                    plan.instead = vec![own, cache];
                }
                hidden_files.extend(self.host_sockets(&plan));
                hidden_files.sort();
                hidden_files.dedup();
                let hidden = plan.hidden_dirs.iter().chain(&hidden_files);
                let metas = hidden.filter_map(|path| fs::symlink_metadata(path).ok());
                plan.covered = metas.map(|meta| (meta.dev(), meta.ino())).collect();
            }
            Tier::Landlock => {
                let never = ["/run", "/var/run", "/dev"].map(PathBuf::from);
                let hidden: Vec<PathBuf> =
                    plan.hidden_dirs.iter().chain(&hidden_files).chain(&never).cloned().collect();
                plan.readable = rules::readable_beside(Path::new("/"), &hidden);
                plan.readable.extend(carve(plan.kept_run.clone(), &hidden));
                let named: Vec<PathBuf> = self.named();
                plan.shared = carve(["/tmp", "/var/tmp"].map(PathBuf::from).into(), &named);
            }
        }
        plan.hidden_files = hidden_files;
        Ok(plan)
    }
}

/// What is really at a path. Most places that are asked about are not there, which one question tells: finding the way
/// to one takes a question for each of its parts.
fn real(path: &Path) -> Option<PathBuf> {
    fs::symlink_metadata(path).ok()?;
    fs::canonicalize(path).ok()
}

impl Profile {
    /// What of these is to be read-only, with what the links among them point to; and the folders that must stay where they
    /// are so that it, and what is hidden, stays under its name.
    fn in_place<'a>(
        &self,
        present: Vec<PathBuf>,
        hidden: impl Iterator<Item = &'a PathBuf>,
    ) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let roots = self.roots();
        let root_of =
            |path: &Path| roots.iter().find(|root| path.starts_with(root) && path != root.as_path());
        let hidden: Vec<&PathBuf> = hidden.collect();
        let mut frozen: Vec<PathBuf> = Vec::new();
        for path in present {
            let target = fs::canonicalize(&path).ok().filter(|target| *target != path);
            frozen.extend(target.filter(|target| root_of(target).is_some()));
            frozen.push(path);
        }
        frozen.retain(|path| !hidden.iter().any(|hidden| path.starts_with(hidden)));
        frozen.sort();
        frozen.dedup();
        let above = |path: &Path| -> Vec<PathBuf> {
            let Some(root) = root_of(path) else { return Vec::new() };
            path.ancestors().skip(1).take_while(|above| above != root).map(Path::to_owned).collect()
        };
        let mut pinned: Vec<PathBuf> =
            frozen.iter().chain(hidden.iter().copied()).flat_map(|path| above(path)).collect();
        pinned.sort();
        pinned.dedup();
        (frozen, pinned)
    }

    /// Sockets of the host in places that are neither a workspace nor hidden as a whole. Neither a read-only mount nor
    /// Landlock stops a connection. The kernel names them as they were bound; those that were bound by a relative path, in
    /// another network namespace, or renamed since, are looked for in HOME.
    fn host_sockets(&self, plan: &Plan) -> Vec<PathBuf> {
        let text = fs::read_to_string("/proc/net/unix").unwrap_or_default();
        let mut own = self.roots();
        own.extend(self.write.iter().filter_map(|path| fs::canonicalize(path).ok()));
        let covered = |path: &Path| {
            (["/run", "/var/run", "/tmp", "/var/tmp"].iter().any(|place| path.starts_with(place))
                && !plan.kept_run.iter().any(|place| path.starts_with(place)))
                || own.iter().chain(&plan.hidden_dirs).any(|place| path.starts_with(place))
        };
        // The path is the rest behind seven columns: a name with a space in it must not pass for another path.
        let path = |line: &str| -> Option<PathBuf> {
            let mut rest = line;
            for _ in 0..7 {
                rest = rest.trim_start().split_once(' ')?.1;
            }
            rest.starts_with('/').then(|| rest.into())
        };
        let named = text.lines().filter_map(path);
        let found = named.chain(self.sockets_in_home());
        let is_socket =
            |path: &Path| fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
        found.filter(|path| !covered(path) && is_socket(path)).collect()
    }

    fn known_sockets(&self) -> Option<Vec<PathBuf>> {
        lately(&self.sockets.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sockets among the first entries of HOME, the shallow ones first.
    fn sockets_in_home(&self) -> Vec<PathBuf> {
        let mut looked = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = lately(&looked) {
            return found;
        }
        let (mut found, mut seen) = (Vec::new(), 0);
        let mut waiting: VecDeque<(PathBuf, usize)> =
            self.home.iter().map(|home| (home.clone(), DEEPEST_SOCKET)).collect();
        while let Some((folder, depth)) = waiting.pop_front() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                seen += 1;
                match entry.file_type() {
                    Ok(kind) if kind.is_socket() => found.push(entry.path()),
                    Ok(kind) if kind.is_dir() && depth > 0 && seen < MOST_ENTRIES => {
                        waiting.push_back((entry.path(), depth - 1));
                    }
                    _ => {}
                }
            }
            if seen >= MOST_ENTRIES {
                break;
            }
        }
        *looked = Some(Sockets { at: Instant::now(), found: found.clone() });
        found
    }
}

/// What a look found that still holds.
fn lately(looked: &Option<Sockets>) -> Option<Vec<PathBuf>> {
    let looked = looked.as_ref().filter(|looked| looked.at.elapsed() < LOOK_AGAIN)?;
    Some(looked.found.clone())
}

/// Whether shells or editors run what is in this folder of caches.
fn is_run_from_cache(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with('.') || RUN_FROM_CACHE.iter().any(|run| name.starts_with(run))
}

/// How deep in HOME sockets are looked for, and among how many entries.
const DEEPEST_SOCKET: usize = 4;
const MOST_ENTRIES: usize = 10_000;

/// Without mounts a writable folder is writable as a whole: one with something in it that is not is opened entry by entry,
/// and nothing new can be made directly in it.
fn carve(writable: Vec<PathBuf>, kept: &[PathBuf]) -> Vec<PathBuf> {
    let mut carved: Vec<PathBuf> = Vec::new();
    for path in writable {
        if kept.iter().any(|kept| kept.starts_with(&path)) {
            carved.extend(rules::readable_beside(&path, kept));
        } else {
            carved.push(path);
        }
    }
    carved.sort();
    carved.dedup();
    carved
}

/// What to say of a link of git's that leads to where commands can write.
fn unguarded(loose: &git::Loose, writable: &[PathBuf]) -> Option<String> {
    let shared = ["/tmp", "/var/tmp"].map(PathBuf::from);
    let leads = match &loose.target {
        Some(target) if writable.iter().chain(&shared).any(|place| target.starts_with(place)) => {
            format!("to {}, where commands can write", target.display())
        }
        Some(_) => return None,
        None => "nowhere, or over further links".to_owned(),
    };
    Some(format!(
        "git is not guarded here: {} is a link that leads {leads}, and git on the host runs what stands there; \
         look at it, and put a real folder or file in its place",
        loose.link.display()
    ))
}

/// Hides a place, but for what is allowed inside it. A workspace opens itself and what is in it only where it lies in the
/// hidden place: one that lies above it does not.
fn hide(
    path: PathBuf,
    read: &[PathBuf],
    roots: &[PathBuf],
    folders: &mut Vec<PathBuf>,
    files: &mut Vec<PathBuf>,
) {
    if read.iter().any(|open| path.starts_with(open)) || roots.contains(&path) {
        return;
    }
    if !path.is_dir() {
        files.push(path);
    } else if read.iter().chain(roots).any(|open| open.starts_with(&path)) {
        let entries = fs::read_dir(&path).into_iter().flatten().flatten();
        // Nothing can be mounted on a link; what it leads to is hidden or open by itself.
        for entry in entries.filter(|entry| !entry.file_type().is_ok_and(|kind| kind.is_symlink())) {
            hide(entry.path(), read, roots, folders, files);
        }
    } else {
        folders.push(path);
    }
}

fn holds_a_credential(path: &Path) -> bool {
    let Ok(text) = fs::read_to_string(path) else { return path.exists() };
    let words = ["_authtoken", "_auth", "_password", "npmauthtoken", "npmauthident", "password", "token"];
    text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])).any(|line| {
        let low = line.to_lowercase();
        let named = words.iter().any(|word| low.contains(word));
        // https://user:secret@host
        let in_address = low.split("://").skip(1).any(|rest| {
            let authority = rest.split('/').next().unwrap_or_default();
            authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
        });
        named || in_address
    })
}

fn kept_run() -> Vec<PathBuf> {
    let mut kept: Vec<PathBuf> = KEPT_RUN.iter().map(PathBuf::from).collect();
    if let Ok(resolver) = fs::canonicalize("/etc/resolv.conf")
        && resolver.starts_with("/run")
    {
        kept.push(resolver);
    }
    kept.retain(|path| path.exists());
    kept.sort();
    kept.dedup();
    // What lies in a kept folder is kept with it.
    let folders = kept.clone();
    kept.retain(|path| !folders.iter().any(|folder| folder != path && path.starts_with(folder)));
    kept
}
