//! Caps on memory and processes where no control group enforces them: a look every so often.

use crate::{tree, wire::Exceeded};
use std::{fs, time::Duration};

/// The time between two looks.
pub(crate) const PERIOD: Duration = Duration::from_millis(100);

/// What everything below this process may use together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watchdog {
    pub(crate) memory: Option<u64>,
    pub(crate) pids: Option<u64>,
}

impl Watchdog {
    /// The cap that is exceeded now, if any.
    pub(crate) fn look(&self) -> Option<Exceeded> {
        let (processes, threads) = tree::descendants();
        if self.pids.is_some_and(|cap| u64::try_from(threads).unwrap_or(u64::MAX) > cap) {
            return Some(Exceeded::Pids);
        }
        let cap = self.memory?;
        let resident: u64 = processes.iter().map(|pid| resident(*pid)).sum();
        // Pages that forks share count once for each of them there, so the costly exact sum decides.
        let exceeded = resident > cap && processes.iter().map(|pid| proportional(*pid)).sum::<u64>() > cap;
        exceeded.then_some(Exceeded::Memory)
    }
}

fn resident(pid: i32) -> u64 {
    let pages = || -> Option<u64> {
        fs::read_to_string(format!("/proc/{pid}/statm")).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
    };
    pages().unwrap_or(0) * u64::try_from(rustix::param::page_size()).unwrap_or(4096)
}

/// The resident memory, shared pages divided among their sharers; the plain one where that cannot be read.
fn proportional(pid: i32) -> u64 {
    let kib = || -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        text.lines().find_map(|l| l.strip_prefix("Pss:"))?.trim().strip_suffix(" kB")?.trim().parse().ok()
    };
    kib().map_or_else(|| resident(pid), |kib| kib * 1024)
}
