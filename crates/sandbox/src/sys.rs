//! The only `unsafe` code: forking, starting a program without copying memory, and signals as a descriptor.
//!
//! Everything here runs in the small single-threaded processes below the server, except [`fork`] itself.
#![expect(
    unsafe_code,
    reason = "fork, clone, execve and signalfd have no safe wrapper; this module is the one place for them"
)]

use rustix::process::Pid;
use std::{
    ffi::{CStr, c_char, c_int, c_long, c_void},
    io,
    ops::Range,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    ptr,
};
use tokio::io::{Interest, unix::AsyncFd};

/// Which of the two processes a fork returned in.
pub(crate) enum Forked {
    /// The new process.
    Child,
    /// The one that called, with the new one's id.
    Parent(Pid),
}

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Copies this process.
///
/// libc's own `fork` is used, not the bare system call: it leaves the allocator usable in the child even
/// when other threads were inside it. The child must still run nothing but this crate's code and must end
/// in [`exit`], so that no destructor or buffer of the copied program runs twice.
pub(crate) fn fork() -> io::Result<Forked> {
    // SAFETY: the callers' children run only this crate's single-threaded loops, which take no lock that
    // another thread of the parent could have held, and never return into the caller's code.
    let pid = check(unsafe { libc::fork() })?;
    Ok(Pid::from_raw(pid).map_or(Forked::Child, Forked::Parent))
}

/// Gives the runtime a descriptor to watch for one kind of readiness: one that can always be written to would wake
/// it for nothing.
pub(crate) fn watched(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` always names the same open descriptor until it is dropped, and the `AsyncFd`
    // owns it and deregisters it first.
    unsafe { AsyncFd::register_with_interest(fd, interest) }.map_err(io::Error::from)
}

/// Gives the system back what the allocator keeps although it is free.
#[cfg(target_env = "gnu")]
pub(crate) fn release_memory() {
    // SAFETY: it takes the allocator's own locks and touches nothing that is in use.
    unsafe { libc::malloc_trim(0) };
}

/// Has the allocator keep no more than a megabyte at the end of each of its heaps: [`release_memory`] does not reach that in
/// heaps of threads, and by itself the allocator keeps the more there the larger what was freed.
#[cfg(target_env = "gnu")]
pub(crate) fn keep_less_memory() {
    const MAPPED: i32 = 4 << 20;
    const KEPT: i32 = 1 << 20;
    // SAFETY: it takes the allocator's own locks and changes numbers that are looked at when something is freed. Where it
    // refuses, everything stays as it was.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT);
    }
}

/// Other allocators keep little.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn release_memory() {}

/// Other allocators keep little.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn keep_less_memory() {}

/// Where the code of this program is mapped.
fn own_code() -> Option<Range<usize>> {
    let here = own_code as fn() -> Option<Range<usize>> as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let range = usize::from_str_radix(from, 16).ok()?..usize::from_str_radix(to, 16).ok()?;
        (rest.starts_with("r-xp") && range.contains(&here)).then_some(range)
    })
}

/// Takes this program's code out of the process's memory. What is needed again comes back by itself, from the file or,
/// as a rule, from the system's cache of it.
pub(crate) fn release_code() {
    if let Some(code) = own_code() {
        // SAFETY: code is never written to, so every page of it comes back as it was, also the one being executed.
        unsafe {
            libc::madvise(ptr::with_exposed_provenance_mut(code.start), code.len(), libc::MADV_DONTNEED)
        };
    }
}

/// Ends this process at once, without destructors or buffers of the program it was copied from.
pub(crate) fn exit(code: i32) -> ! {
    // SAFETY: `_exit` has no preconditions.
    unsafe { libc::_exit(code) }
}

/// Closes every descriptor above stderr but `keep`, so that a copied process holds nothing of its origin's.
pub(crate) fn close_all_but(keep: &[&OwnedFd]) {
    let mut keep: Vec<u32> = keep.iter().map(|fd| fd.as_raw_fd().unsigned_abs()).collect();
    keep.sort_unstable();
    let mut first = 3;
    for kept in keep.into_iter().chain([u32::MAX]) {
        if first < kept {
            // SAFETY: descriptors of a freshly forked process; nothing in it uses them again.
            unsafe { libc::syscall(libc::SYS_close_range, first, kept - 1, 0) };
        }
        first = kept.saturating_add(1);
    }
}

/// Closes a descriptor that a copied process inherited but whose owner it will never drop.
pub(crate) fn close_inherited(fd: &OwnedFd) {
    // SAFETY: the owner lives in a frame that this process never returns to, so it is closed once.
    unsafe { libc::close(fd.as_raw_fd()) };
}

/// Copies this single-threaded process into new namespaces.
pub(crate) fn fork_into(namespaces: c_int) -> io::Result<Forked> {
    let flags = c_long::from(namespaces | libc::SIGCHLD);
    // SAFETY: like `fork`, for callers with one thread; no memory is shared, and no pointer is passed.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0_usize, 0_usize, 0_usize, 0_usize) };
    let pid = check(i32::try_from(pid).unwrap_or(-1))?;
    Ok(Pid::from_raw(pid).map_or(Forked::Child, Forked::Parent))
}

/// Moves this single-threaded process into namespaces of another.
pub(crate) fn join_namespaces(process: &OwnedFd, namespaces: c_int) -> io::Result<()> {
    // SAFETY: no memory is involved.
    check(unsafe { libc::setns(process.as_raw_fd(), namespaces) }).map(drop)
}

/// Moves this single-threaded process into new namespaces.
pub(crate) fn new_namespaces(namespaces: c_int) -> io::Result<()> {
    // SAFETY: no memory is involved, and no other thread shares what is unshared.
    check(unsafe { libc::unshare(namespaces) }).map(drop)
}

/// Kills every process that this one may signal, but itself. Only for processes that can signal nobody else
/// than their own descendants: the first of a PID namespace, or one in a signal domain.
pub(crate) fn kill_everybody_in_reach() {
    // SAFETY: no memory is involved.
    unsafe { libc::kill(-1, libc::SIGKILL) };
}

/// `MOUNT_ATTR_RDONLY`, `MOUNT_ATTR_NOSUID` and `MOUNT_ATTR_NODEV`.
const READ_ONLY: u64 = 1;
const NO_SET_USER_ID: u64 = 2;
const NO_DEVICES: u64 = 4;

/// `struct mount_attr`.
#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

fn restrict_mount(fd: RawFd, path: &CStr, set: u64) -> io::Result<()> {
    let attr = MountAttr { set, clear: 0, propagation: 0, user_namespace: 0 };
    let flags = libc::AT_EMPTY_PATH | libc::AT_RECURSIVE;
    // SAFETY: the path and the structure outlive the call, and the size is the structure's own.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            fd,
            path.as_ptr(),
            flags,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    };
    check(i32::try_from(result).unwrap_or(-1)).map(drop)
}

/// Makes a detached mount, and all below it, read-only.
pub(crate) fn make_read_only(mount: &OwnedFd) -> io::Result<()> {
    restrict_mount(mount.as_raw_fd(), c"", READ_ONLY)
}

/// Makes devices and set-user-id programs in a detached mount ordinary files.
pub(crate) fn make_plain(mount: &OwnedFd) -> io::Result<()> {
    restrict_mount(mount.as_raw_fd(), c"", NO_SET_USER_ID | NO_DEVICES)
}

/// Makes every mount of this namespace read-only, without devices and set-user-id programs.
pub(crate) fn make_everything_read_only() -> io::Result<()> {
    restrict_mount(libc::AT_FDCWD, c"/", READ_ONLY | NO_SET_USER_ID | NO_DEVICES)
}

/// Switches the loopback interface of this network namespace on.
pub(crate) fn loopback_up() -> io::Result<()> {
    // SAFETY: a zeroed ifreq is valid, its name is filled in with a terminator, and the socket is owned.
    unsafe {
        let socket = check(libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0))?;
        let socket = OwnedFd::from_raw_fd(socket);
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(c"lo".to_bytes()) {
            *to = from.cast_signed();
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        check(libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request)).map(drop)
    }
}

/// The Landlock version of this kernel; zero when there is none.
pub(crate) fn landlock_version() -> u32 {
    // SAFETY: the documented way to ask for the version; no pointer is read.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0_usize, 0_usize, 1_u32) };
    u32::try_from(version).unwrap_or(0)
}

/// Signals that arrive on a descriptor instead of interrupting.
pub(crate) struct Signals(OwnedFd);

impl Signals {
    /// Gives every signal its default meaning, then blocks SIGCHLD, SIGTERM, SIGINT and SIGHUP and collects
    /// them here.
    pub(crate) fn take() -> io::Result<Self> {
        // SAFETY: plain C structures that are valid when zeroed; the calls only read and write them.
        unsafe {
            for signal in 1..=libc::SIGRTMAX() {
                libc::signal(signal, libc::SIG_DFL);
            }
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
                libc::sigaddset(&raw mut set, signal);
            }
            check(libc::sigprocmask(libc::SIG_SETMASK, &raw const set, ptr::null_mut()))?;
            // A reader of the terminal must not stop this process either.
            libc::signal(libc::SIGPIPE, libc::SIG_IGN);
            let fd = check(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK))?;
            Ok(Self(OwnedFd::from_raw_fd(fd)))
        }
    }

    /// Whether anything but SIGCHLD arrived since the last look: a request to end.
    pub(crate) fn asked_to_end(&self) -> bool {
        let mut end = false;
        let mut buffer = [0u8; size_of::<libc::signalfd_siginfo>() * 8];
        while let Ok(n @ 1..) = rustix::io::read(&self.0, &mut buffer) {
            for info in buffer[..n].chunks_exact(size_of::<libc::signalfd_siginfo>()) {
                // The first field, `ssi_signo`, is a native 32-bit integer.
                end |=
                    info.first_chunk().is_none_or(|b| u32::from_ne_bytes(*b) != libc::SIGCHLD.unsigned_abs());
            }
            // As much as there was; what comes later makes the descriptor readable again.
            if n < buffer.len() {
                break;
            }
        }
        end
    }

    /// What to poll.
    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.0
    }
}

/// A child that ended: who and how.
pub(crate) struct Reaped {
    pub(crate) pid: i32,
    pub(crate) status: i32,
}

/// What a look for ended children found.
pub(crate) enum Reap {
    /// One ended.
    One(Reaped),
    /// There are children, all alive.
    Alive,
    /// There is no child at all; with this process a subreaper, that means no descendant.
    Nobody,
}

/// Collects one ended child without waiting.
pub(crate) fn reap() -> Reap {
    let mut status = 0;
    // SAFETY: the out-parameter is valid for writes.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG | libc::__WALL) };
    match pid {
        0 => Reap::Alive,
        1.. => Reap::One(Reaped { pid, status }),
        _ if io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) => Reap::Alive,
        _ => Reap::Nobody,
    }
}

/// How a wait status reads: the exit code, or the signal that killed.
pub(crate) fn read_status(status: i32) -> Result<i32, i32> {
    if libc::WIFEXITED(status) { Ok(libc::WEXITSTATUS(status)) } else { Err(libc::WTERMSIG(status)) }
}

/// The step at which a start failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Stage {
    /// No process could be made.
    Clone = 1,
    /// The working directory could not be entered.
    Chdir = 2,
    /// The program could not be executed.
    Exec = 3,
    /// The terminal could not be taken.
    Terminal = 4,
    /// The file rules could not be applied.
    Rules = 5,
}

/// A program to execute.
pub(crate) struct Program<'a> {
    /// Full paths to try, in order.
    pub(crate) candidates: &'a [&'a CStr],
    pub(crate) argv: &'a [&'a CStr],
    pub(crate) envp: &'a [&'a CStr],
    pub(crate) cwd: Option<&'a CStr>,
    pub(crate) stdio: [BorrowedFd<'a>; 3],
    /// Make stdin the controlling terminal.
    pub(crate) terminal: bool,
    /// A Landlock ruleset to enter. The supervisor has given up new privileges already.
    pub(crate) ruleset: Option<BorrowedFd<'a>>,
}

/// What the child of [`Starter::start`] works on. It shares memory with the parent, which sleeps meanwhile.
struct Plan {
    candidates: Vec<*const c_char>,
    /// Begins with a spare slot, so that `/bin/sh` can be put before a script without `#!`.
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    cwd: *const c_char,
    stdio: [RawFd; 3],
    terminal: bool,
    ruleset: RawFd,
    failed: Option<(Stage, i32)>,
}

/// Starts programs without copying this process: the child borrows its memory until it executes.
pub(crate) struct Starter {
    stack: Vec<u8>,
}

impl Starter {
    pub(crate) fn new() -> Self {
        Self { stack: vec![0; 64 * 1024] }
    }

    /// Starts `program` in a process group of its own; its descriptors beyond 0, 1 and 2 must all be close-on-exec.
    pub(crate) fn start(&mut self, program: &Program<'_>) -> Result<i32, (Stage, i32)> {
        let pointers = |list: &[&CStr]| -> Vec<*const c_char> {
            list.iter().map(|s| s.as_ptr()).chain([ptr::null()]).collect()
        };
        let mut argv = vec![ptr::null()];
        argv.extend(pointers(program.argv));
        let mut plan = Plan {
            candidates: program.candidates.iter().map(|s| s.as_ptr()).collect(),
            argv,
            envp: pointers(program.envp),
            cwd: program.cwd.map_or(ptr::null(), CStr::as_ptr),
            stdio: program.stdio.map(|fd| fd.as_raw_fd()),
            terminal: program.terminal,
            ruleset: program.ruleset.map_or(-1, |fd| fd.as_raw_fd()),
            failed: None,
        };
        let top = self.stack.len() & !15;
        // SAFETY: the child runs `child` on a stack of its own while this thread, the only one, sleeps
        // (CLONE_VFORK) until the child has executed or ended; `plan` outlives that. `child` neither
        // allocates nor unwinds.
        let pid = unsafe {
            libc::clone(
                child,
                self.stack.as_mut_ptr().add(top).cast(),
                libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
                (&raw mut plan).cast(),
            )
        };
        if pid < 0 {
            return Err((Stage::Clone, errno()));
        }
        plan.failed.map_or(Ok(pid), Err)
    }
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

extern "C" fn child(plan: *mut c_void) -> c_int {
    // SAFETY: `plan` is the `Plan` of `Starter::start`, whose thread sleeps: this is the only access.
    let plan = unsafe { &mut *plan.cast::<Plan>() };
    // SAFETY: called once, in the child, with pointers that stay valid until exec.
    plan.failed = Some(unsafe { execute(plan) });
    exit(127)
}

/// Returns only when something failed.
///
/// # Safety
/// Must run in the child of [`Starter::start`]; every pointer in `plan` is null or a C string, every list
/// ends in null.
unsafe fn execute(plan: &mut Plan) -> (Stage, i32) {
    // SAFETY: system calls on the child's own state, and C strings as promised above.
    unsafe {
        // The spawner has left the server's terminal for all of them, so a group suffices: every session is a
        // group of its own for the scheduler, and starting one on a busy machine costs milliseconds.
        if plan.terminal {
            libc::setsid();
        } else {
            libc::setpgid(0, 0);
        }
        for (at, fd) in (0..).zip(plan.stdio) {
            // The supervisor's own 0, 1 and 2 are /dev/null, so no source is overwritten before its turn.
            if fd == at {
                libc::fcntl(fd, libc::F_SETFD, 0);
            } else {
                libc::dup2(fd, at);
            }
        }
        if plan.terminal && libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
            return (Stage::Terminal, errno());
        }
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
        if !plan.cwd.is_null() && libc::chdir(plan.cwd) < 0 {
            return (Stage::Chdir, errno());
        }
        if plan.ruleset >= 0 && libc::syscall(libc::SYS_landlock_restrict_self, plan.ruleset, 0) < 0 {
            return (Stage::Rules, errno());
        }
        let mut worst = libc::ENOENT;
        for &path in &plan.candidates {
            libc::execve(path, plan.argv.as_ptr().add(1), plan.envp.as_ptr());
            match errno() {
                libc::ENOENT | libc::ENOTDIR => {}
                libc::EACCES => worst = libc::EACCES,
                libc::ENOEXEC => {
                    // A script without `#!`: what a shell would do.
                    let shell = c"/bin/sh".as_ptr();
                    plan.argv[0] = shell;
                    plan.argv[1] = path;
                    libc::execve(shell, plan.argv.as_ptr(), plan.envp.as_ptr());
                    return (Stage::Exec, errno());
                }
                other => return (Stage::Exec, other),
            }
        }
        (Stage::Exec, worst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_was_released_comes_back() {
        let code = own_code().unwrap();
        assert!(code.contains(&(release_code as fn() as usize)), "{code:?}");
        release_code();
        assert_eq!(own_code(), Some(code));
    }
}
