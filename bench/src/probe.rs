//! Clocks and counters of processes.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Processor time that all living threads of a process have used.
pub(crate) fn cpu(pid: u32) -> Result<Duration> {
    let mut nanoseconds = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
        let line = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        nanoseconds += line.split(' ').next().and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(Duration::from_nanos(nanoseconds))
}

/// Resident memory in bytes.
pub(crate) fn resident(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS")?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kilobytes * 1024)
}

/// Resident memory of a process and all its children. They are copies of the process: what a child shares with
/// it counts once.
pub(crate) fn resident_tree(pid: u32) -> Result<u64> {
    Ok(resident(pid)? + private_below(pid)?)
}

/// Resident memory of a process and of those it started itself, without what these started in turn.
pub(crate) fn resident_own(pid: u32) -> Result<u64> {
    Ok(resident(pid)? + children(pid)?.into_iter().map(|child| private(child).unwrap_or(0)).sum::<u64>())
}

fn children(pid: u32) -> Result<Vec<u32>> {
    let mut all = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        all.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
    }
    Ok(all)
}

fn private_below(pid: u32) -> Result<u64> {
    // One that has just ended has no memory.
    let below = |child: u32| private(child).unwrap_or(0) + private_below(child).unwrap_or(0);
    Ok(children(pid)?.into_iter().map(below).sum())
}

/// Resident memory that is a process's alone.
fn private(pid: u32) -> Result<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let kilobytes = rollup.lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.starts_with("Private_").then(|| value.trim().trim_end_matches(" kB").parse::<u64>().ok())?
    });
    Ok(kilobytes.sum::<u64>() * 1024)
}

/// How long calls took.
#[derive(Default)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    /// None yet.
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Runs `work` once and notes how long it took.
    pub(crate) fn time<T>(&mut self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let start = Instant::now();
        let result = work()?;
        self.0.push(start.elapsed());
        Ok(result)
    }

    /// The middle one.
    pub(crate) fn median(&mut self) -> Duration {
        self.0.sort_unstable();
        self.0.get(self.0.len() / 2).copied().unwrap_or_default()
    }

    /// Of all calls so far.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }
}
