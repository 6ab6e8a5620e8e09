//! Killing every descendant of this process without a namespace or a cgroup.
//!
//! A subreaper inherits each orphan below it, so its descendants are exactly the tree under it, whatever
//! session, process group or parent they chose. A pass kills all that can be seen; a process that forked in
//! between is seen by the next pass; `wait` saying that there is no child at all proves the end.

use crate::sys::{self, Reap, Reaped};
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    process::{Pid, Signal},
};
use std::{collections::BTreeSet, fs, path::Path};

/// How the processes below are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// By walking the tree: this process may signal others, too.
    Tree,
    /// All at once: this process can signal nobody else.
    Everybody,
}

/// Kills everything below this process and reaps until nothing is left. `ended` sees every reaped child.
pub(crate) fn kill_all(signals: &sys::Signals, reach: Reach, mut ended: impl FnMut(&Reaped)) {
    let nobody = BTreeSet::new();
    let mut calm_passes = 0_u32;
    loop {
        loop {
            match sys::reap() {
                Reap::One(child) => {
                    calm_passes = 0;
                    ended(&child);
                }
                Reap::Nobody => return,
                Reap::Alive => break,
            }
        }
        match reach {
            Reach::Tree => {
                kill_pass(&nobody);
            }
            Reach::Everybody => sys::kill_everybody_in_reach(),
        }
        // A victim needs a moment to die. Somebody who forks in a loop must be met at once, a process stuck
        // in the kernel must not make this one spin.
        calm_passes += 1;
        if calm_passes > 3 {
            wait_for_child(signals, calm_passes.min(20));
        } else {
            rustix::thread::sched_yield();
        }
    }
}

/// Sleeps until a child ends, at most `halves` half milliseconds.
fn wait_for_child(signals: &sys::Signals, halves: u32) {
    let pause = Timespec { tv_sec: 0, tv_nsec: i64::from(halves) * 500_000 };
    let _ = rustix::event::poll(&mut [PollFd::new(signals.fd(), PollFlags::IN)], Some(&pause));
    // Whatever it was, the caller is already ending everything.
    let _ = signals.asked_to_end();
}

/// Sends SIGKILL to every process below this one but the children in `spare`, parents first, each list as fresh
/// as can be. Returns how many there were.
pub(crate) fn kill_pass(spare: &BTreeSet<i32>) -> usize {
    let own = rustix::process::getpid();
    let mut killed = 0;
    let mut todo = vec![own.as_raw_nonzero().get()];
    while let Some(parent) = todo.pop() {
        for pid in children(parent) {
            if spare.contains(&pid) {
                continue;
            }
            if let Some(target) = Pid::from_raw(pid) {
                let _ = rustix::process::kill_process(target, Signal::KILL);
                killed += 1;
                todo.push(pid);
            }
        }
    }
    killed
}

/// Every process below this one, and how many threads they have together.
pub(crate) fn descendants() -> (Vec<i32>, usize) {
    let mut found = children(rustix::process::getpid().as_raw_nonzero().get());
    let (mut at, mut all) = (0, 0);
    while let Some(pid) = found.get(at) {
        let (below, threads) = family(*pid);
        found.extend(below);
        // One that has just ended counts, too: its number is in use until it is collected.
        all += threads.max(1);
        at += 1;
    }
    (found, all)
}

/// The children of every thread of a process.
pub(crate) fn children(pid: i32) -> Vec<i32> {
    family(pid).0
}

/// The children of every thread of a process, and how many threads it has.
fn family(pid: i32) -> (Vec<i32>, usize) {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return (Vec::new(), 0) };
    let (mut found, mut count) = (Vec::new(), 0);
    let mut listed = false;
    for thread in threads.flatten() {
        count += 1;
        if let Ok(text) = fs::read_to_string(thread.path().join("children")) {
            listed = true;
            found.extend(text.split_ascii_whitespace().filter_map(|word| word.parse::<i32>().ok()));
        }
    }
    (if listed { found } else { children_by_parent(pid) }, count)
}

/// For kernels built without the `children` files.
fn children_by_parent(pid: i32) -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|candidate| parent_of(*candidate) == Some(pid))
        .collect()
}

/// Whether a process is on its way out: the kernel takes down what it held, but nobody was told of its end yet.
pub(crate) fn is_ending(pid: i32) -> bool {
    /// The kernel's mark in the process's flags.
    const EXITING: u64 = 4;
    stat::<u64>(pid, 6).is_some_and(|flags| flags & EXITING != 0)
}

/// Processor time of a process and of those that it has collected, in the kernel's ticks.
pub(crate) fn spent(pid: i32) -> u64 {
    times(pid).iter().sum()
}

/// The same of all that this process has collected.
pub(crate) fn spent_below() -> u64 {
    let [_, _, user, system] = times(rustix::process::getpid().as_raw_nonzero().get());
    user + system
}

/// Time in user mode and in the kernel: its own, and that of those it has collected.
fn times(pid: i32) -> [u64; 4] {
    let text = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).unwrap_or_default();
    let mut fields = text.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace().skip(11);
    std::array::from_fn(|_| fields.next().and_then(|field| field.parse().ok()).unwrap_or(0))
}

fn parent_of(pid: i32) -> Option<i32> {
    stat(pid, 1)
}

/// A field of a process's `stat`, counted from the state.
fn stat<T: std::str::FromStr>(pid: i32, field: usize) -> Option<T> {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
    // The name may hold spaces and brackets; what follows its last bracket does not.
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(field)?.parse().ok()
}
