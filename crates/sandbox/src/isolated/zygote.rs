//! The process from which the workers of one sandbox descend. It has done, once, what all of them need: in the
//! namespace tier it lives in the sandbox's namespaces with all mounts made, in the other it holds the rules.

use super::{
    confine, filter,
    mounts::{self, Doing as _},
    plan::{Caps, Network, Plan, Tier},
    rules,
};
use crate::{
    supervisor::Supervisor,
    sys::{self, Forked, Reap, Signals},
    tree::{self, Reach},
    watchdog::Watchdog,
    wire::{self, Report},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fd::AsFd as _,
    io::Errno,
    pipe::PipeFlags,
    process::{DumpableBehavior, Pid, PidfdFlags, Signal},
};
use seccompiler::BpfProgram;
use std::{
    fs, io,
    os::fd::{BorrowedFd, OwnedFd},
};

/// Made by the spawner, as its child. Returns the child's id; the child never returns. With `join`, it lives in the user,
/// network, IPC and UTS namespaces of that process.
pub(crate) fn make(socket: OwnedFd, plan: &Plan, join: Option<OwnedFd>) -> io::Result<Pid> {
    let own = rustix::process::getpid();
    match (plan.tier, join) {
        (Tier::Landlock, _) => match sys::fork()? {
            Forked::Child => {
                sys::close_all_but(&[&socket]);
                live(socket, plan, own, || Ok(()))
            }
            Forked::Parent(pid) => Ok(pid),
        },
        (Tier::Namespaces, Some(process)) => match sys::fork()? {
            Forked::Child => {
                sys::close_all_but(&[&socket, &process]);
                let joined = sys::join_namespaces(&process, shared_namespaces(plan))
                    .and_then(|()| sys::new_namespaces(libc::CLONE_NEWNS))
                    .doing("namespaces of the session before");
                sys::close_inherited(&process);
                // Before the signal of the parent's death is armed, which a change of credentials would disarm.
                live(socket, plan, own, || joined.and_then(|()| mounts::prepare(plan)))
            }
            Forked::Parent(pid) => Ok(pid),
        },
        (Tier::Namespaces, None) => make_with_namespaces(socket, plan, own),
    }
}

/// The namespaces that all processes of a sandbox share but for the mounts.
fn shared_namespaces(plan: &Plan) -> libc::c_int {
    let network = if plan.network == Network::Loopback { libc::CLONE_NEWNET } else { 0 };
    libc::CLONE_NEWUSER | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS | network
}

fn make_with_namespaces(socket: OwnedFd, plan: &Plan, own: Pid) -> io::Result<Pid> {
    let (go, ready) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    match sys::fork_into(shared_namespaces(plan) | libc::CLONE_NEWNS).doing("new namespaces")? {
        Forked::Child => {
            sys::close_all_but(&[&socket, &go]);
            live(socket, plan, own, || {
                // Nothing to read: the parent died or could not write the maps.
                if rustix::io::read(&go, &mut [0; 1])? != 1 {
                    return Err(io::Error::other("the user namespace could not be mapped"));
                }
                if !uid.is_root() {
                    map_only_myself(uid.as_raw(), gid.as_raw())?;
                }
                mounts::prepare(plan)?;
                if plan.network == Network::Loopback { sys::loopback_up().doing("loopback") } else { Ok(()) }
            })
        }
        Forked::Parent(pid) => {
            let mapped = if uid.is_root() { map_everybody(pid) } else { Ok(()) };
            if mapped.is_ok() {
                rustix::io::write(&ready, b"g")?;
            }
            // A child without maps says so itself, on its socket.
            Ok(pid)
        }
    }
}

/// As root, the whole range one to one; only a process outside may write that.
fn map_everybody(child: Pid) -> io::Result<()> {
    for name in ["uid_map", "gid_map"] {
        let own = fs::read_to_string(format!("/proc/self/{name}"))?;
        let map: String = own
            .lines()
            .filter_map(|line| {
                let mut words = line.split_ascii_whitespace();
                let (first, _, count) = (words.next()?, words.next()?, words.next()?);
                Some(format!("{first} {first} {count}\n"))
            })
            .collect();
        fs::write(format!("/proc/{}/{name}", child.as_raw_nonzero()), map)?;
    }
    Ok(())
}

/// As an ordinary user: the same numbers inside, so that git sees no foreign owner.
fn map_only_myself(uid: u32, gid: u32) -> io::Result<()> {
    fs::write("/proc/self/setgroups", "deny").doing("setgroups")?;
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1")).doing("uid_map")?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1")).doing("gid_map")
}

fn live(socket: OwnedFd, plan: &Plan, parent: Pid, set_up: impl FnOnce() -> io::Result<()>) -> ! {
    let prepared = || -> io::Result<Zygote<'_>> {
        let signals = Signals::take()?;
        rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
        if rustix::process::getppid() != Some(parent) {
            return Err(io::Error::other("the spawner is gone"));
        }
        set_up()?;
        let ruleset = match plan.tier {
            Tier::Landlock => Option::<OwnedFd>::from(rules::alone(plan)?),
            Tier::Namespaces => None,
        };
        Ok(Zygote {
            life: rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?,
            socket: socket.try_clone()?,
            signals,
            plan,
            filter: filter::build()?,
            ruleset,
        })
    };
    match prepared() {
        Ok(zygote) => {
            drop(socket);
            let _ = rustix::thread::set_name(c"sandbox-zygote");
            // Whoever takes its place one day joins its namespaces.
            let own = (plan.tier == Tier::Namespaces)
                .then(|| rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty()).ok())
                .flatten();
            let fds: Vec<_> = own.iter().map(|fd| fd.as_fd()).collect();
            let _ = wire::send(&zygote.socket, &Report::Ready(String::new()).encode(), &fds);
            drop(fds);
            drop(own);
            zygote.run()
        }
        Err(error) => broken(&socket, &error),
    }
}

fn broken(socket: &OwnedFd, error: &io::Error) -> ! {
    let _ = wire::send(socket, &Report::Broken(error.to_string()).encode(), &[]);
    sys::exit(1)
}

struct Zygote<'a> {
    socket: OwnedFd,
    signals: Signals,
    plan: &'a Plan,
    filter: BpfProgram,
    ruleset: Option<OwnedFd>,
    /// A pipe whose write end only this process keeps: a worker in a PID namespace of its own cannot ask for
    /// its parent, but it sees whether this end is still open.
    life: (OwnedFd, OwnedFd),
}

impl Zygote<'_> {
    fn run(self) -> ! {
        loop {
            let mut wanted =
                [PollFd::new(&self.socket, PollFlags::IN), PollFd::new(self.signals.fd(), PollFlags::IN)];
            if rustix::event::poll(&mut wanted, None).is_err() {
                continue;
            }
            let [packet, signal] = wanted.map(|fd| !fd.revents().is_empty());
            if signal && self.signals.asked_to_end() {
                // The workers hear of it and end what is below them.
                sys::exit(0)
            }
            while let Reap::One(_) = sys::reap() {}
            if packet {
                self.take_packet();
            }
        }
    }

    fn take_packet(&self) {
        let mut request = [0; 16];
        match wire::receive(&self.socket, &mut request) {
            Err(Errno::AGAIN) => {}
            Ok((1.., fds)) if request[0] == wire::MAKE_WORKER && !fds.is_empty() => {
                let mut fds = fds.into_iter();
                if let Some(socket) = fds.next() {
                    self.make_worker(socket, fds.next());
                }
            }
            _ => sys::exit(0),
        }
    }

    /// A failed fork shows as a socket that closes without a word.
    fn make_worker(&self, socket: OwnedFd, group: Option<OwnedFd>) {
        let own = rustix::process::getpid();
        let forked = match self.plan.tier {
            Tier::Landlock => sys::fork(),
            Tier::Namespaces => {
                let net = if self.plan.network == Network::None { libc::CLONE_NEWNET } else { 0 };
                sys::fork_into(libc::CLONE_NEWPID | libc::CLONE_NEWNS | net)
            }
        };
        if let Ok(Forked::Child) = forked {
            let group = group.as_ref().map(|fd| fd.as_fd());
            let worker = match self.plan.tier {
                Tier::Landlock => self.guard(&socket, group, own),
                Tier::Namespaces => self.first_process(&socket, group),
            };
            match worker {
                Ok(mut supervisor) => supervisor.run(),
                Err(error) => broken(&socket, &error),
            }
        }
    }

    /// For the caps that the kernel does not enforce: it does for memory in a control group. Of processes it only keeps
    /// the worst, since the numbers that it gives out are more than may be in use.
    fn watchdog(&self, group: Option<BorrowedFd<'_>>) -> Option<Watchdog> {
        let memory = self.plan.caps.memory.filter(|_| group.is_none());
        let Caps { pids, cpu_seconds: cpu, .. } = self.plan.caps;
        (memory.is_some() || pids.is_some() || cpu.is_some()).then_some(Watchdog { memory, pids, cpu })
    }

    fn join(group: Option<BorrowedFd<'_>>) -> io::Result<()> {
        group
            .map_or(Ok(()), |members| rustix::io::write(members, b"0").map(drop))
            .doing("join the control group")
    }

    /// Process 1 of a PID namespace: when it ends, the kernel ends all others.
    fn first_process(&self, socket: &OwnedFd, group: Option<BorrowedFd<'_>>) -> io::Result<Supervisor> {
        let die_with_the_zygote = || -> io::Result<()> {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            let mut life = [PollFd::new(&self.life.0, PollFlags::empty())];
            rustix::event::poll(&mut life, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
            if life[0].revents().contains(PollFlags::HUP) {
                Err(io::Error::other("the zygote is gone"))
            } else {
                Ok(())
            }
        };
        sys::close_inherited(&self.life.1);
        die_with_the_zygote()?;
        Self::join(group)?;
        let unfrozen = mounts::finish(self.plan)?;
        if self.plan.network == Network::None {
            sys::loopback_up().doing("loopback")?;
        }
        confine::limits(&self.plan.caps, group.is_some())?;
        let rules = rules::beside_mounts(self.plan)?;
        confine::drop_capabilities()?;
        rustix::thread::set_no_new_privs(true)?;
        rules.restrict_self().map_err(io::Error::other).doing("Landlock")?;
        // Again, after the last change of credentials: some of them disarm it.
        die_with_the_zygote()?;
        seccompiler::apply_filter(&self.filter).map_err(io::Error::other).doing("seccomp")?;
        rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;

        let socket = self.keep_only(socket, None)?;
        let own = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?;
        wire::send(&socket, &Report::Ready(unfrozen).encode(), &[own.as_fd()])?;
        let mut supervisor = Supervisor::new(socket, Signals::take()?, Reach::Everybody);
        supervisor.watchdog = self.watchdog(group);
        Ok(supervisor)
    }

    /// A copy of the socket, everything else closed but `also`.
    fn keep_only(&self, socket: &OwnedFd, also: Option<&OwnedFd>) -> io::Result<OwnedFd> {
        let socket = rustix::io::fcntl_dupfd_cloexec(socket, 3)?;
        let keep: Vec<&OwnedFd> = [&socket].into_iter().chain(also).collect();
        sys::close_all_but(&keep);
        Ok(socket)
    }

    /// Without namespaces two processes see to it that nobody is left: this one, which never starts anything,
    /// and the supervisor below it. Each ends everybody when the other dies.
    fn guard(&self, socket: &OwnedFd, group: Option<BorrowedFd<'_>>, parent: Pid) -> io::Result<Supervisor> {
        die_with(parent)?;
        Self::join(group)?;
        rustix::thread::set_no_new_privs(true)?;
        let reach = if rules::enter_signal_domain().is_ok() { Reach::Everybody } else { Reach::Tree };
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let own = rustix::process::getpid();
        match sys::fork()? {
            Forked::Child => self.supervisor(socket, group, own, reach),
            Forked::Parent(supervisor) => {
                let _ = rustix::thread::set_name(c"sandbox-guard");
                // It keeps the socket, too: the server hears of the end when this process is through.
                let _socket = self.keep_only(socket, None)?;
                stand_guard(&Signals::take()?, supervisor, reach)
            }
        }
    }

    fn supervisor(
        &self,
        socket: &OwnedFd,
        group: Option<BorrowedFd<'_>>,
        guard: Pid,
        reach: Reach,
    ) -> io::Result<Supervisor> {
        die_with(guard)?;
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        if reach == Reach::Everybody {
            // A domain inside the guard's, so that ending everybody in it spares the guard.
            rules::enter_signal_domain()?;
        }
        confine::limits(&self.plan.caps, group.is_some())?;
        confine::drop_capabilities()?;
        die_with(guard)?;
        seccompiler::apply_filter(&self.filter).map_err(io::Error::other).doing("seccomp")?;
        rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        let ruleset = self.ruleset.as_ref().map(|fd| rustix::io::fcntl_dupfd_cloexec(fd, 3)).transpose()?;
        let socket = self.keep_only(socket, ruleset.as_ref())?;
        wire::send(&socket, &Report::Ready(String::new()).encode(), &[])?;
        let mut supervisor = Supervisor::new(socket, Signals::take()?, reach);
        supervisor.ruleset = ruleset;
        supervisor.watchdog = self.watchdog(group);
        Ok(supervisor)
    }
}

fn die_with(parent: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
    // The parent may have died before the signal was armed.
    if rustix::process::getppid() == Some(parent) {
        Ok(())
    } else {
        Err(io::Error::other("the parent is gone"))
    }
}

fn stand_guard(signals: &Signals, supervisor: Pid, reach: Reach) -> ! {
    loop {
        let waited = rustix::event::poll(&mut [PollFd::new(signals.fd(), PollFlags::IN)], None);
        let mut over = waited.is_ok() && signals.asked_to_end();
        while let Reap::One(child) = sys::reap() {
            over |= child.pid == supervisor.as_raw_nonzero().get();
        }
        if over {
            tree::kill_all(signals, reach, |_| {});
            sys::exit(0)
        }
    }
}
