//! What a server and everything it started take, told by a variable they all inherit.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// The variable.
pub(super) const VARIABLE: &str = "CODEGEN_SANDBOX_SERVER";

/// What a server takes. Nothing is seen of one on another machine.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Used {
    pub(crate) processes: usize,
    pub(crate) bytes: u64,
}

/// A language server of any of this product's processes on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MachineServer {
    /// What was started.
    pub command: String,
    /// The project it serves.
    pub folder: PathBuf,
    /// It and what it started.
    pub processes: usize,
    /// Bytes of memory they take.
    pub memory: u64,
}

/// The language servers that this user's processes of this product run on this machine. Looks through `/proc`.
#[must_use]
pub fn machine_servers() -> Vec<MachineServer> {
    let mut all: BTreeMap<String, MachineServer> = BTreeMap::new();
    for (marker, process) in marked() {
        // The one with the lowest number is the one that was started.
        let server = all.entry(marker).or_insert_with(|| {
            let line = fs::read(process.join("cmdline")).unwrap_or_default();
            let words = line.split(|byte| *byte == 0).filter(|word| !word.is_empty());
            let words: Vec<_> = words.map(|word| String::from_utf8_lossy(word).into_owned()).collect();
            let folder = fs::read_link(process.join("cwd")).unwrap_or_default();
            MachineServer { command: words.join(" "), folder, processes: 0, memory: 0 }
        });
        server.processes += 1;
        server.memory += resident(&process);
    }
    all.into_values().collect()
}

/// What the processes with this marker take.
pub(crate) fn of(marker: &str) -> Used {
    let mut used = Used::default();
    for (_, process) in marked().into_iter().filter(|(found, _)| found == marker) {
        used.processes += 1;
        used.bytes += resident(&process);
    }
    used
}

/// Processes that have the variable, by number: its value and their folder.
fn marked() -> Vec<(String, PathBuf)> {
    let Ok(all) = fs::read_dir("/proc") else { return Vec::new() };
    let number = |entry: &fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    let mut all: Vec<(u32, PathBuf)> =
        all.flatten().filter_map(|entry| Some((number(&entry)?, entry.path()))).collect();
    all.sort();
    let value = |process: &Path| {
        let environment = fs::read(process.join("environ")).ok()?;
        let entries =
            environment.split(|byte| *byte == 0).filter_map(|entry| std::str::from_utf8(entry).ok());
        let mut values = entries.filter_map(|entry| entry.strip_prefix(VARIABLE)?.strip_prefix('='));
        values.next().map(str::to_owned)
    };
    all.into_iter().filter_map(|(_, process)| Some((value(&process)?, process))).collect()
}

fn resident(process: &Path) -> u64 {
    let status = fs::read_to_string(process.join("status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number =
        line.and_then(|line| line.trim().strip_suffix("kB")).and_then(|kb| kb.trim().parse::<u64>().ok());
    number.unwrap_or_default() << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_proc() {
        assert!(resident(Path::new("/proc/self")) > 1 << 20);
        assert_eq!(of("no such marker").processes, 0);
    }
}
