//! What a server and everything it started take, told by a variable they all inherit.

use std::fs;

/// The variable.
pub(super) const VARIABLE: &str = "CODEGEN_SANDBOX_SERVER";

/// What a server takes. Nothing is seen of one on another machine.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Used {
    pub(crate) processes: usize,
    pub(crate) bytes: u64,
}

/// What the processes with this marker take.
pub(crate) fn of(marker: &str) -> Used {
    let wanted = format!("{VARIABLE}={marker}");
    let mut used = Used::default();
    let Ok(processes) = fs::read_dir("/proc") else { return used };
    for process in processes.flatten() {
        let number =
            process.file_name().to_str().is_some_and(|name| name.bytes().all(|b| b.is_ascii_digit()));
        if !number {
            continue;
        }
        let environment = fs::read(process.path().join("environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes()) {
            used.processes += 1;
            used.bytes += resident(&fs::read_to_string(process.path().join("status")).unwrap_or_default());
        }
    }
    used
}

fn resident(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number =
        line.and_then(|line| line.trim().strip_suffix("kB")).and_then(|kb| kb.trim().parse::<u64>().ok());
    number.unwrap_or_default() << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_from_a_status() {
        assert_eq!(resident("Name:\tx\nVmRSS:\t    2048 kB\nThreads: 1\n"), 2 << 20);
        assert_eq!(resident("Name:\tkthread\n"), 0);
        assert_eq!(of("no such marker").processes, 0);
    }
}
