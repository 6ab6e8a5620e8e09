//! Control groups, where this process may make them: exact caps on memory and processes for a whole tree.

use std::{
    fs::{self, File},
    io,
    os::{fd::OwnedFd, unix::fs::FileExt as _},
    path::{Path, PathBuf},
    sync::{
        Once,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// How groups are named; the number of the server's process follows.
const PREFIX: &str = "codegen-sandbox-";

/// Which interface the kernel offers for a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A place in which this process can make groups with a cap on memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    parent: PathBuf,
    version: Version,
}

impl Hierarchy {
    /// Finds it, by the paths of this process's own groups; the caller tries it out before relying on it.
    pub(crate) fn find() -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let first = own.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            controllers.split(',').any(|c| c == "memory").then_some(path)
        });
        if let Some(path) = first {
            let parent = mount_of(&mounts, "cgroup", Some("memory"))?.join(path.trim_start_matches('/'));
            return writable(&parent).then_some(Self { parent, version: Version::One });
        }
        let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
        // A group with members cannot have groups with controllers below it: its siblings can.
        let parent = mount_of(&mounts, "cgroup2", None)?.join(path).parent()?.to_owned();
        let enabled = fs::read_to_string(parent.join("cgroup.subtree_control")).ok()?;
        let usable = enabled.split_ascii_whitespace().any(|c| c == "memory") && writable(&parent);
        usable.then_some(Self { parent, version: Version::Two })
    }

    /// Removes the groups of servers that were killed: here at once, and elsewhere by a thread, once, when the first
    /// calls are through.
    pub(crate) fn sweep(&self) {
        static ELSEWHERE: Once = Once::new();
        sweep_in(&self.parent, Duration::ZERO);
        if let Some(top) = self.top() {
            ELSEWHERE.call_once(|| {
                let sweep = std::thread::Builder::new().name("sweep-groups".to_owned());
                // Without a thread they stay until the next time.
                let _ = sweep.spawn(move || {
                    std::thread::sleep(PATIENCE);
                    sweep_below(&top);
                });
            });
        }
    }

    /// Where the hierarchy is mounted.
    fn top(&self) -> Option<PathBuf> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        match self.version {
            Version::One => mount_of(&mounts, "cgroup", Some("memory")),
            Version::Two => mount_of(&mounts, "cgroup2", None),
        }
    }

    /// Makes a group.
    pub(crate) fn make(&self, memory: u64) -> io::Result<Group> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let path = loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = self.parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => break path,
                // Left by a killed server that had this process's number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        };
        let kills = File::open(path.join(match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        }));
        let group = Group { path, kills: kills.ok() };
        let cap = memory.to_string();
        match self.version {
            Version::One => {
                fs::write(group.path.join("memory.limit_in_bytes"), &cap)?;
                // Absent where the kernel does not account for swap.
                let _ = fs::write(group.path.join("memory.memsw.limit_in_bytes"), &cap);
            }
            Version::Two => {
                fs::write(group.path.join("memory.max"), &cap)?;
                let _ = fs::write(group.path.join("memory.swap.max"), "0");
            }
        }
        Ok(group)
    }
}

/// Another server may be about to use a group that is new and still empty, under a number that is nobody's here.
const SETTLED: Duration = Duration::from_secs(60);
/// A machine may have thousands of groups: nobody's first call shares a core with the look at them.
const PATIENCE: Duration = Duration::from_secs(10);
/// Groups of the machine that are looked at.
const MOST_GROUPS: usize = 4096;

fn sweep_below(top: &Path) {
    let (mut waiting, mut seen) = (vec![top.to_owned()], 0);
    while let Some(folder) = waiting.pop() {
        sweep_in(&folder, SETTLED);
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) && seen < MOST_GROUPS {
                seen += 1;
                waiting.push(entry.path());
            }
        }
    }
}

/// Removes the groups in a folder that are at least so old and whose server is gone. One that is in use cannot be removed.
fn sweep_in(folder: &Path, age: Duration) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner =
            name.to_str().and_then(|n| n.strip_prefix(PREFIX)?.split_once('-')?.0.parse::<u32>().ok());
        let old = || {
            let made = entry.metadata().and_then(|meta| meta.modified()).ok();
            age.is_zero() || made.and_then(|made| made.elapsed().ok()).is_some_and(|since| since >= age)
        };
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) && old() {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

fn mount_of(mounts: &str, kind: &str, controller: Option<&str>) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (place, file_system) = line.split_once(" - ")?;
        let mut words = file_system.split(' ');
        let right_kind = words.next()? == kind;
        let options = words.nth(1)?;
        let right = right_kind && controller.is_none_or(|c| options.split(',').any(|o| o == c));
        right.then(|| place.split(' ').nth(4).map(PathBuf::from))?
    })
}

fn writable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

/// One control group, removed when it is dropped and empty.
#[derive(Debug)]
pub(crate) struct Group {
    path: PathBuf,
    /// Where the kernel counts what it killed: asked twice in every call, so it stays open.
    kills: Option<File>,
}

impl Group {
    /// Whoever has one thread and writes `0` to this joins.
    pub(crate) fn members(&self) -> io::Result<OwnedFd> {
        let open = |name: &str| fs::OpenOptions::new().write(true).open(self.path.join(name));
        // Only the older hierarchies have it. A thread that joins by itself waits for nobody; for whole processes the
        // kernel waits until every processor has passed by, which takes some 20 ms.
        Ok(open("tasks").or_else(|_| open("cgroup.procs"))?.into())
    }

    /// How many processes the kernel has killed in it for memory.
    pub(crate) fn memory_kills(&self) -> u64 {
        let mut text = [0; 1024];
        let read = self.kills.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
        let text = String::from_utf8_lossy(&text[..read]);
        text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok()).unwrap_or(0)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The supervisor leaves it as soon as it sees its socket closed, a moment after this. Whoever still
        // finds it occupied leaves an empty group behind, which the next sweep removes.
        let path = std::mem::take(&mut self.path);
        if fs::remove_dir(&path).is_err() {
            sweep_later(path);
        }
    }
}

/// Groups that were not empty yet when they were to be removed.
static LEFT: std::sync::Mutex<Vec<PathBuf>> = std::sync::Mutex::new(Vec::new());

fn sweep_later(path: PathBuf) {
    let mut left = LEFT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    left.push(path);
    left.retain(|path| fs::remove_dir(path).is_err() && path.exists());
}

/// Removes what earlier drops had to leave; says whether nothing is left.
pub(crate) fn sweep() -> bool {
    let mut left = LEFT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    left.retain(|path| fs::remove_dir(path).is_err() && path.exists());
    left.is_empty()
}
