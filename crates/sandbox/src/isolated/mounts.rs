//! The file system of the namespace tier.
//!
//! Order matters: copies of the writable places are taken while they still are writable, everything turns
//! read-only in one call, then the copies go back onto their places.

use super::plan::Plan;
use crate::sys;
use rustix::{
    fs::{CWD, FileType, Mode},
    mount::{MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags},
};
use std::{
    ffi::CString,
    fs, io,
    os::fd::{AsFd as _, OwnedFd},
    path::{Path, PathBuf},
};

/// The devices that programs need. No other can be opened: a disk would show every hidden file.
pub(crate) const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// Adds what was being done to an error.
pub(crate) trait Doing<T> {
    fn doing(self, what: &str) -> io::Result<T>;
}

impl<T, E: Into<io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, what: &str) -> io::Result<T> {
        self.map_err(|error| {
            let error = error.into();
            io::Error::new(error.kind(), format!("{what}: {error}"))
        })
    }
}

/// A detached copy of what is mounted at `path`.
fn copy(path: &Path) -> io::Result<OwnedFd> {
    copy_with(path, OpenTreeFlags::empty())
}

fn copy_with(path: &Path, flags: OpenTreeFlags) -> io::Result<OwnedFd> {
    let flags = flags
        | OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    rustix::mount::open_tree(CWD, path, flags).doing(&format!("copy of {}", path.display()))
}

fn plain_copy(path: &Path) -> io::Result<OwnedFd> {
    let mount = copy(path)?;
    sys::make_plain(&mount).doing(&format!("copy of {}", path.display()))?;
    Ok(mount)
}

fn kept_copy(path: &Path) -> io::Result<OwnedFd> {
    let mount = plain_copy(path)?;
    sys::make_read_only(&mount).doing(&format!("copy of {}", path.display()))?;
    Ok(mount)
}

fn is_folder(mount: &OwnedFd) -> bool {
    rustix::fs::fstat(mount).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

fn place(mount: &OwnedFd, at: &Path) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(mount.as_fd(), c"", CWD, at, flags).doing(&format!("mount on {}", at.display()))
}

/// The folder `path` bound onto itself.
fn pin(path: &Path) -> io::Result<OwnedFd> {
    let mount = copy(path)?;
    place(&mount, path)?;
    Ok(mount)
}

/// Makes a path read-only and keeps it in its place; of a link, the link itself.
fn freeze(path: &Path) -> io::Result<()> {
    let mount = copy_with(path, OpenTreeFlags::AT_SYMLINK_NOFOLLOW)?;
    sys::make_read_only(&mount).doing(&format!("freeze {}", path.display()))?;
    place(&mount, path)
}

/// What is done once per sandbox, by the process from which its workers descend.
pub(crate) fn prepare(plan: &Plan) -> io::Result<()> {
    rustix::mount::mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)
        .doing("make mounts private")?;
    let writable: Vec<(OwnedFd, &PathBuf)> =
        plan.writable.iter().map(|path| Ok((plain_copy(path)?, path))).collect::<io::Result<_>>()?;
    let tmp = plain_copy(&plan.tmp)?;
    let instead = match plan.instead.as_slice() {
        [from, at] => Some((plain_copy(from)?, at)),
        _ => None,
    };
    let devices: Vec<(OwnedFd, &Path)> =
        DEVICES.iter().map(Path::new).filter_map(|path| Some((copy(path).ok()?, path))).collect();
    let kept: Vec<(OwnedFd, &PathBuf)> =
        plan.kept_run.iter().filter_map(|path| Some((kept_copy(path).ok()?, path))).collect();
    sys::make_everything_read_only().doing("make / read-only")?;
    for (mount, path) in devices {
        place(&mount, path)?;
    }

    place(&tmp, Path::new("/tmp"))?;
    if Path::new("/var/tmp").is_dir() {
        place(&copy(Path::new("/tmp"))?, Path::new("/var/tmp"))?;
    }
    if Path::new("/dev/shm").is_dir() {
        tmpfs("/dev/shm", &shared_memory(plan)?)?;
    }
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    rustix::mount::mount("devpts", "/dev/pts", "devpts", flags, c"newinstance,ptmxmode=0666,mode=620")
        .doing("/dev/pts")?;
    let maker = Path::new("/dev/ptmx");
    if !maker.is_symlink() {
        // The host's would look for its terminals beside itself and find none.
        place(&copy(Path::new("/dev/pts/ptmx"))?, maker)?;
    }
    tmpfs("/run", c"mode=755,size=16m")?;
    for (mount, path) in kept {
        // Below /tmp it is missing as well, and may lie in a place that was just kept.
        if !path.exists() {
            make_mount_point(path, is_folder(&mount))?;
        }
        place(&mount, path)?;
    }
    // Before the writable places, some of which lie in it.
    for (mount, path) in instead.into_iter().chain(writable) {
        // Inside the new /tmp and /run the place is missing.
        if !path.exists() {
            make_mount_point(path, is_folder(&mount))?;
        }
        place(&mount, path)?;
    }
    hide(plan)
}

/// What is in it counts for nobody where no control group counts: so never more than a command may have.
fn shared_memory(plan: &Plan) -> io::Result<CString> {
    let size = plan.caps.memory.map_or(LARGEST_SHM, |cap| cap.min(LARGEST_SHM));
    Ok(CString::new(format!("mode=1777,size={size}"))?)
}

const LARGEST_SHM: u64 = 1 << 30;

fn tmpfs(at: &str, options: &std::ffi::CStr) -> io::Result<()> {
    rustix::mount::mount("tmpfs", at, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options).doing(at)
}

fn make_mount_point(path: &Path, folder: bool) -> io::Result<()> {
    let made = if folder {
        fs::create_dir_all(path)
    } else {
        path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, ""))
    };
    made.doing(&format!("mount point {}", path.display()))
}

/// An empty folder nobody may enter over every hidden folder, an empty file over every hidden file. Files are
/// readable, because npm, pip and git stop at a configuration they may not read.
fn hide(plan: &Plan) -> io::Result<()> {
    let (folder, file) = (Path::new("/run/.hidden-folder"), Path::new("/run/.hidden-file"));
    fs::create_dir(folder).doing("/run")?;
    fs::write(file, "").doing("/run")?;
    rustix::fs::chmod(folder, Mode::empty()).doing("/run")?;
    rustix::fs::chmod(file, Mode::RUSR | Mode::RGRP | Mode::ROTH).doing("/run")?;
    for (list, cover) in [(&plan.hidden_dirs, folder), (&plan.hidden_files, file)] {
        for path in list {
            let mount = copy(cover)?;
            sys::make_read_only(&mount).doing("cover")?;
            match place(&mount, path) {
                // Gone since the plan was made: nothing to hide.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                placed => placed?,
            }
        }
    }
    Ok(())
}

/// What the kernel guards by file mode alone and mapped root could therefore write: core_pattern and the like.
const PROC_MASKS: [&str; 9] =
    ["sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi", "mtrr", "timer_list"];

/// Whether the largest process id is a property of the PID namespace (since Linux 6.14). Before, root would
/// change the whole machine's.
pub(super) fn own_largest_pid() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse::<u32>().ok());
    numbers.next().zip(numbers.next()).is_some_and(|version| version >= (6, 14))
}

/// Numbers that the kernel keeps for itself once it begins to give numbers out again: only larger ones are used twice.
const RESERVED_PIDS: u64 = 300;

/// What is done for every worker, in its own PID and mount namespace. Returns the first thing of git's that could not be
/// frozen, and why; empty as a rule.
pub(crate) fn finish(plan: &Plan) -> io::Result<String> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount("proc", "/proc", "proc", flags, c"").doing("mount /proc")?;
    if let Some(pids) = plan.caps.pids.filter(|_| own_largest_pid()) {
        // Below this nobody comes in a fork storm; the watchdog sees to the cap itself. The first process has a number,
        // too, and the largest is not given out.
        let _ = fs::write("/proc/sys/kernel/pid_max", (pids.saturating_add(RESERVED_PIDS + 2)).to_string());
    }
    for name in PROC_MASKS {
        let path = Path::new("/proc").join(name);
        if path.exists() {
            freeze(&path)?;
        }
    }
    // What is in the workspace must not decide whether commands run, or under which isolation.
    let pinned = plan.pinned.iter().map(|path| pin(path).map(drop));
    let tried = pinned.chain(plan.frozen.iter().map(|path| freeze(path)));
    let failed: Vec<io::Error> = tried.filter_map(Result::err).collect();
    Ok(failed.first().map_or_else(String::new, ToString::to_string))
}
