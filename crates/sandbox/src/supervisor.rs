//! The process between the spawner and a program: starts it, sees to its end and to everybody below it.
//!
//! One supervisor serves one program at a time and is used again afterwards. It is a subreaper, so nobody
//! below can escape it; it ends everything when it is told to, when its socket closes (the server is gone)
//! and when the spawner dies.

use crate::{
    sys::{self, Program, Reap, Signals, Stage, Starter},
    tree::{self, Reach},
    watchdog::{self, Watchdog},
    wire::{self, Exceeded, Report, RunView},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    io::Errno,
    process::{Pid, Signal},
};
use std::{
    ffi::CStr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Instant,
};

/// Where commands without a slash are looked for when the request's environment has no `PATH`.
const DEFAULT_PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

/// Serves programs until the server closes `socket` or `parent` dies. Runs in a process of its own.
pub(crate) fn serve(socket: OwnedFd, parent: Pid) -> ! {
    let Ok(signals) = Signals::take() else { sys::exit(1) };
    let armed = rustix::process::set_child_subreaper(Some(rustix::process::getpid())).is_ok()
        && rustix::process::set_parent_process_death_signal(Some(Signal::TERM)).is_ok();
    // The parent may have died before the signal was armed.
    if !armed || rustix::process::getppid() != Some(parent) {
        sys::exit(1)
    }
    Supervisor::new(socket, signals, Reach::Tree).run()
}

pub(crate) struct Supervisor {
    socket: OwnedFd,
    signals: Signals,
    reach: Reach,
    starter: Starter,
    buffer: Vec<u8>,
    /// The program, while there is one.
    running: Option<i32>,
    /// Entered by every program.
    pub(crate) ruleset: Option<OwnedFd>,
    pub(crate) watchdog: Option<Watchdog>,
    /// Processor time of all programs before this one.
    spent: u64,
}

impl Supervisor {
    pub(crate) fn new(socket: OwnedFd, signals: Signals, reach: Reach) -> Self {
        let _ = rustix::thread::set_name(c"sandbox-super");
        Self {
            socket,
            signals,
            reach,
            starter: Starter::new(),
            buffer: vec![0; 128 * 1024],
            running: None,
            ruleset: None,
            watchdog: None,
            spent: 0,
        }
    }

    pub(crate) fn run(&mut self) -> ! {
        let mut looked = Instant::now();
        loop {
            let watching = self.watchdog.as_ref().filter(|_| self.running.is_some());
            // By the clock and not when nothing else happens: children that end without a pause are no excuse.
            if watching.is_some() && looked.elapsed() >= watchdog::PERIOD {
                let exceeded = watching.and_then(|watchdog| watchdog.look(self.spent));
                looked = Instant::now();
                if exceeded.is_some() {
                    self.end_all(exceeded);
                    continue;
                }
            }
            let left = watchdog::PERIOD.saturating_sub(looked.elapsed());
            let left = watching.and_then(|_| Timespec::try_from(left).ok());
            let mut wanted =
                [PollFd::new(&self.socket, PollFlags::IN), PollFd::new(self.signals.fd(), PollFlags::IN)];
            let polled = rustix::event::poll(&mut wanted, left.as_ref());
            if watching.is_none() {
                looked = Instant::now();
            }
            if !matches!(polled, Ok(1..)) {
                continue;
            }
            let [packet, signal] = wanted.map(|fd| !fd.revents().is_empty());
            if signal {
                if self.signals.asked_to_end() {
                    self.leave()
                }
                self.look_for_the_end();
            }
            if packet {
                self.take_packet();
            }
        }
    }

    fn take_packet(&mut self) {
        let (n, mut fds) = match wire::receive(&self.socket, &mut self.buffer) {
            Ok(got) => got,
            Err(Errno::AGAIN) => return,
            Err(_) => (0, Vec::new()),
        };
        match self.buffer[..n].first() {
            // A kill that crossed the end of its program on the way finds nobody and means nothing.
            Some(&wire::KILL) => {
                if self.running.is_some() {
                    self.end_all(None);
                }
            }
            Some(&wire::RUN) if self.running.is_none() => {
                let buffer = std::mem::take(&mut self.buffer);
                self.start(&buffer[..n], &fds);
                self.buffer = buffer;
            }
            Some(&wire::RUN_LARGE) if self.running.is_none() => match fds.pop().map(wire::read_file) {
                Some(Ok(packet)) => self.start(&packet, &fds),
                _ => self.fail(Stage::Clone, libc::EIO),
            },
            _ => self.leave(),
        }
    }

    fn start(&mut self, packet: &[u8], fds: &[OwnedFd]) {
        let Some(run) = RunView::decode(packet) else { return self.fail(Stage::Clone, libc::EINVAL) };
        let null = rustix::stdio::stdin();
        let stdio: [BorrowedFd<'_>; 3] = match (run.stdin, fds) {
            (true, [stdin, stdout, stderr]) => [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()],
            (false, [stdout, stderr]) => [null, stdout.as_fd(), stderr.as_fd()],
            _ => return self.fail(Stage::Clone, libc::EBADF),
        };
        if self.watchdog.is_some_and(|watchdog| watchdog.cpu.is_some()) {
            self.spent = tree::spent_below();
        }
        let paths = places(&run);
        let program = Program {
            candidates: &wire::take_strings(&mut paths.as_slice(), usize::MAX),
            argv: &run.argv,
            envp: &run.envp,
            cwd: run.cwd,
            stdio,
            terminal: run.terminal,
            ruleset: self.ruleset.as_ref().map(OwnedFd::as_fd),
        };
        match self.starter.start(&program) {
            Ok(pid) => {
                self.running = Some(pid);
                if run.announce {
                    self.say(&Report::Started);
                }
            }
            Err((stage, errno)) => {
                // The failed child still has to be collected.
                tree::kill_all(&self.signals, self.reach, |_| {});
                self.fail(stage, errno);
            }
        }
    }

    /// After SIGCHLD: collects the dead; when the program is among them, ends the rest and reports.
    fn look_for_the_end(&mut self) {
        while let Reap::One(child) = sys::reap() {
            if self.running == Some(child.pid) {
                tree::kill_all(&self.signals, self.reach, |_| {});
                // Nobody is left to be collected.
                return self.finish(child.status, None);
            }
        }
    }

    /// Ends the program and everybody below, and reports.
    fn end_all(&mut self, exceeded: Option<Exceeded>) {
        let mut status = libc::SIGKILL;
        let main = self.running;
        tree::kill_all(&self.signals, self.reach, |child| {
            if Some(child.pid) == main {
                status = child.status;
            }
        });
        if main.is_some() {
            self.finish(status, exceeded);
        }
    }

    /// Ends everybody below, then this process, without a report: the program did not end by itself, and the
    /// closed socket says so.
    fn leave(&self) -> ! {
        tree::kill_all(&self.signals, self.reach, |_| {});
        sys::exit(0)
    }

    fn finish(&mut self, status: i32, exceeded: Option<Exceeded>) {
        self.running = None;
        self.say(&Report::Ended { status, exceeded });
    }

    fn fail(&self, stage: Stage, errno: i32) {
        self.say(&Report::Failed { stage: stage as u8, errno });
    }

    /// A report that cannot be delivered has no reader left; the closed socket ends this process.
    fn say(&self, report: &Report) {
        let _ = wire::send(&self.socket, &report.encode(), &[]);
    }
}

/// The paths at which the command may be found, each ended by a NUL.
fn places(run: &RunView<'_>) -> Vec<u8> {
    let Some(command) = run.argv.first().filter(|command| !command.is_empty()) else { return Vec::new() };
    let command = command.to_bytes_with_nul();
    if command.contains(&b'/') {
        return command.to_vec();
    }
    let path = run.envp.iter().find_map(|e| CStr::to_bytes(e).strip_prefix(b"PATH=")).unwrap_or(DEFAULT_PATH);
    let mut places = Vec::with_capacity(2 * path.len() + 256);
    for folder in path.split(|b| *b == b':') {
        places.extend_from_slice(if folder.is_empty() { b"." } else { folder });
        places.push(b'/');
        places.extend_from_slice(command);
    }
    places
}
