//! The small process from which every local program descends.
//!
//! Forking a large process is slow (tens of milliseconds for a few hundred megabytes), and a program that is
//! a child of a thread dies with that thread. So the server never forks: it asks the spawner, a copy of
//! itself made while it was still small, over a packet socket. The spawner makes supervisors, one per
//! program running at a time; they are used again.
//!
//! A binary calls [`init`] first thing in `main`, before it has threads. When nobody did, the first use
//! starts the spawner; that is safe in a process with threads too, only slower the larger it is.

use crate::{
    isolated::{plan::Plan, zygote},
    supervisor,
    sys::{self, Forked, Reap, Signals},
    tree,
    wire::{self, Report},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fs::{Mode, OFlags},
    io::Errno,
    process::{Pid, Resource, Rlimit},
};
use std::{
    collections::BTreeSet,
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// More descriptors than this are never needed here; some systems allow a billion.
const ENOUGH_FDS: u64 = 65_536;

static SPAWNER: Mutex<Option<Arc<OwnedFd>>> = Mutex::new(None);

/// Starts the spawner. Call it first thing in `main`, while the process is small and has one thread.
///
/// Also raises this process's limit of open files to what the system allows; programs that are started keep
/// the limit as it was.
///
/// # Errors
/// No socket or no process could be made.
pub fn init() -> io::Result<()> {
    connection().map(drop)
}

/// The socket to the spawner, which is started when there is none.
fn connection() -> io::Result<Arc<OwnedFd>> {
    let mut spawner = SPAWNER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(socket) = &*spawner {
        return Ok(socket.clone());
    }
    let socket = Arc::new(start()?);
    *spawner = Some(socket.clone());
    Ok(socket)
}

fn start() -> io::Result<OwnedFd> {
    let (ours, theirs) = wire::socket_pair()?;
    match sys::fork()? {
        Forked::Child => serve(theirs),
        Forked::Parent(_) => {
            raise_file_limit();
            Ok(ours)
        }
    }
}

fn raise_file_limit() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(ENOUGH_FDS).min(ENOUGH_FDS);
    if limit.current.is_some_and(|now| now < wanted) {
        let raised = Rlimit { current: Some(wanted), maximum: limit.maximum };
        // Not being allowed to is no failure: the limit is met later, with an error that names it.
        let _ = rustix::process::setrlimit(Resource::Nofile, raised);
    }
}

/// Sends a request with the descriptors it is about. `Ok(false)` means that its queue is full: it works one
/// request off in well under a millisecond. Starts a new spawner when the old one is gone.
fn try_ask(request: u8, fds: &[BorrowedFd<'_>]) -> io::Result<bool> {
    for _ in 0..2 {
        let socket = connection()?;
        match wire::send(&*socket, &[request], fds) {
            Ok(()) => return Ok(true),
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::TOOMANYREFS) => return Ok(false),
            Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => {}
            Err(error) => return Err(error.into()),
        }
        let mut spawner = SPAWNER.lock().unwrap_or_else(PoisonError::into_inner);
        spawner.take_if(|known| Arc::ptr_eq(known, &socket));
    }
    Err(io::Error::other("the spawner process ends as soon as it is started"))
}

const MOMENT: Duration = Duration::from_millis(1);

async fn ask(request: u8, fd: BorrowedFd<'_>) -> io::Result<()> {
    while !try_ask(request, &[fd])? {
        tokio::time::sleep(MOMENT).await;
    }
    Ok(())
}

/// A socket to a new supervisor.
pub(crate) async fn new_worker() -> io::Result<OwnedFd> {
    let (ours, theirs) = wire::socket_pair()?;
    ask(wire::MAKE_WORKER, theirs.as_fd()).await?;
    Ok(ours)
}

/// A socket to a new zygote, which says on it whether it could be set up. With `join`, it lives in the namespaces of
/// that process but for the mounts.
pub(crate) fn new_zygote(plan: &Plan, join: Option<&OwnedFd>) -> io::Result<OwnedFd> {
    let (ours, theirs) = wire::socket_pair()?;
    let plan = wire::in_memory_file(&plan.encode())?;
    let fds: Vec<_> = [&theirs, &plan].into_iter().chain(join).map(|fd| fd.as_fd()).collect();
    while !try_ask(wire::MAKE_ZYGOTE, &fds)? {
        std::thread::sleep(MOMENT);
    }
    Ok(ours)
}

/// Gets a socket that closes once the orphans of dead supervisors are gone.
pub(crate) async fn settle() -> io::Result<OwnedFd> {
    let (ours, theirs) = wire::socket_pair()?;
    ask(wire::SETTLE, theirs.as_fd()).await?;
    Ok(ours)
}

/// The life of the spawner. It ends when the server's end of `socket` closes, however that came about.
fn serve(socket: OwnedFd) -> ! {
    // Away from the server's terminal, its Ctrl-C and its standard streams: a client that waits for the end
    // of the server's output must not wait for this process.
    let _ = rustix::process::setsid();
    sys::close_all_but(&[&socket]);
    let Ok(signals) = Signals::take() else { sys::exit(1) };
    if point_stdio_at_null().is_err()
        || rustix::process::set_child_subreaper(Some(rustix::process::getpid())).is_err()
    {
        sys::exit(1)
    }
    let _ = rustix::thread::set_name(c"sandbox-spawner");
    Spawner { socket, signals, workers: BTreeSet::new(), settling: Vec::new() }.run()
}

fn point_stdio_at_null() -> Result<(), Errno> {
    let null = rustix::fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)
}

struct Spawner {
    socket: OwnedFd,
    signals: Signals,
    workers: BTreeSet<i32>,
    settling: Vec<OwnedFd>,
}

impl Spawner {
    fn run(&mut self) -> ! {
        // Set while a dead supervisor's orphans, inherited by this process, are being killed.
        let mut orphans = false;
        loop {
            let pause = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
            let mut wanted =
                [PollFd::new(&self.socket, PollFlags::IN), PollFd::new(self.signals.fd(), PollFlags::IN)];
            if rustix::event::poll(&mut wanted, orphans.then_some(&pause)).is_err() {
                continue;
            }
            let [packet, signal] = wanted.map(|fd| !fd.revents().is_empty());
            if signal && self.signals.asked_to_end() {
                // The supervisors hear of it and end what is below them.
                sys::exit(0)
            }
            if signal || orphans {
                orphans = self.kill_orphans();
            }
            if packet {
                orphans |= self.take_packet();
            }
            if !orphans {
                self.settling.clear();
            }
        }
    }

    /// Children that are no supervisors were left by a dead one. Returns whether some may still live.
    fn kill_orphans(&mut self) -> bool {
        // Many passes at a stretch: who forks in a loop is only met by somebody as quick.
        for _ in 0..64 {
            while let Reap::One(child) = sys::reap() {
                self.workers.remove(&child.pid);
            }
            // A supervisor that is killed closes its socket before it hands its children over to this process.
            let handing_over =
                !self.settling.is_empty() && self.workers.iter().any(|pid| tree::is_ending(*pid));
            if tree::kill_pass(&self.workers) == 0 && !handing_over {
                return false;
            }
            rustix::thread::sched_yield();
        }
        true
    }

    /// Returns whether orphans have to be looked for.
    fn take_packet(&mut self) -> bool {
        let mut request = [0; 16];
        let (n, mut fds) = match wire::receive(&self.socket, &mut request) {
            Ok(got) => got,
            Err(Errno::AGAIN) => return false,
            Err(_) => sys::exit(0),
        };
        if request[..n].first() == Some(&wire::MAKE_ZYGOTE) {
            let mut fds = fds.into_iter();
            if let (Some(socket), Some(plan)) = (fds.next(), fds.next()) {
                self.make_zygote(socket, plan, fds.next());
            }
            return false;
        }
        match (request[..n].first(), fds.pop()) {
            (Some(&wire::MAKE_WORKER), Some(worker)) => {
                self.make_worker(worker);
                false
            }
            (Some(&wire::SETTLE), Some(waiting)) => {
                self.settling.push(waiting);
                true
            }
            _ => sys::exit(0),
        }
    }

    fn make_zygote(&mut self, socket: OwnedFd, plan: OwnedFd, join: Option<OwnedFd>) {
        let made = wire::read_file(plan).and_then(|data| {
            let plan = Plan::decode(&data).ok_or_else(|| io::Error::other("the plan cannot be read"))?;
            zygote::make(socket.try_clone()?, &plan, join)
        });
        match made {
            Ok(pid) => {
                self.workers.insert(pid.as_raw_nonzero().get());
            }
            Err(error) => {
                let _ = wire::send(&socket, &Report::Broken(error.to_string()).encode(), &[]);
            }
        }
    }

    /// A failed fork shows as a socket that closes without a word.
    fn make_worker(&mut self, worker: OwnedFd) {
        let own: Pid = rustix::process::getpid();
        match sys::fork() {
            Ok(Forked::Child) => {
                sys::close_all_but(&[&worker]);
                supervisor::serve(worker, own)
            }
            Ok(Forked::Parent(pid)) => {
                self.workers.insert(pid.as_raw_nonzero().get());
            }
            Err(_) => {}
        }
    }
}
