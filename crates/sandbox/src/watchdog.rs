//! Caps on memory, processes and processor time of a command and all below it, where no control group enforces them: a
//! look every so often.

use crate::{tree, wire::Exceeded};
use std::{fs, time::Duration};

/// The time between two looks.
pub(crate) const PERIOD: Duration = Duration::from_millis(100);

/// What everything below this process may use together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watchdog {
    pub(crate) memory: Option<u64>,
    pub(crate) pids: Option<u64>,
    /// Seconds of processor time.
    pub(crate) cpu: Option<u64>,
}

impl Watchdog {
    /// The cap that is exceeded now, if any; `before` is what [`tree::spent_below`] was when the program began.
    pub(crate) fn look(&self, before: u64) -> Option<Exceeded> {
        let (processes, threads) = tree::descendants();
        if self.pids.is_some_and(|cap| u64::try_from(threads).unwrap_or(u64::MAX) > cap) {
            return Some(Exceeded::Pids);
        }
        if let Some(seconds) = self.cpu {
            // What those spent who are gone is known to whoever collected them.
            let spent = tree::spent_below() + processes.iter().map(|pid| tree::spent(*pid)).sum::<u64>();
            if spent.saturating_sub(before) > seconds.saturating_mul(rustix::param::clock_ticks_per_second())
            {
                return Some(Exceeded::Cpu);
            }
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
