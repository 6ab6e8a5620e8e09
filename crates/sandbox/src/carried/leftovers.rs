//! Containers of servers that are gone.
//!
//! A container ends with its call, and with the server, too: its guard's stdin closes. What still is there (one that
//! was made but not started when its client was killed; podman's memory of one that has ended) is removed by the next
//! server that starts here. A label tells whose it is.

use crate::{Request, Sandbox as _, direct::Direct};
use std::{fs, time::Duration};

/// The label with the server's name.
pub(super) const SERVER: &str = "codegen-sandbox.server";

/// Client, label: every container with the label, and the label's value.
const LIST: &str = r#"ids=$("$1" ps -aq --filter "label=$2")
[ -z "$ids" ] || "$1" inspect --format "{{.Id}} {{index .Config.Labels \"$2\"}}" $ids"#;

const TIMEOUT: Duration = Duration::from_secs(60);

/// A process of this machine since it was started. Another PID namespace counts its processes differently, so it is
/// part of the name, and nobody judges over processes that it cannot see.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Server {
    world: String,
    process: u32,
    started: u64,
}

impl Server {
    fn this() -> Option<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
        let number: String = namespace.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
        let process = std::process::id();
        Some(Self { world: format!("{}.{number}", boot.trim()), process, started: started(process)? })
    }

    fn parse(name: &str) -> Option<Self> {
        let (rest, started) = name.rsplit_once('.')?;
        let (world, process) = rest.rsplit_once('.')?;
        Some(Self { world: world.to_owned(), process: process.parse().ok()?, started: started.parse().ok()? })
    }

    fn name(&self) -> String {
        format!("{}.{}.{}", self.world, self.process, self.started)
    }

    /// Whether it is certainly gone, seen from `here`.
    fn is_gone(&self, here: &Self) -> bool {
        self.world == here.world && started(self.process) != Some(self.started)
    }
}

/// When a process began, in the kernel's ticks.
fn started(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name may hold spaces and brackets; what follows its last bracket does not.
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// What a container of this server is labelled with.
pub(super) fn label() -> Option<String> {
    Some(format!("{SERVER}={}", Server::this()?.name()))
}

/// Removes, in the background, what servers left that are gone.
pub(super) fn remove(client: String) {
    let (Ok(runtime), Some(here)) = (tokio::runtime::Handle::try_current(), Server::this()) else { return };
    runtime.spawn(async move {
        let direct = Direct::new("leftovers");
        let list = Request::new("sh").args(["-c", LIST, "sh", &client, SERVER]);
        let listed = direct.spawn(Request { timeout: TIMEOUT, ..list }).await;
        // An engine that cannot be reached says so to the first call.
        let text = String::from_utf8_lossy(&listed.stdout);
        let gone = text.lines().filter_map(|line| {
            let (id, name) = line.split_once(' ')?;
            Server::parse(name).is_some_and(|server| server.is_gone(&here)).then(|| id.to_owned())
        });
        let words: Vec<String> = ["rm".to_owned(), "-f".to_owned()].into_iter().chain(gone).collect();
        if words.len() > 2 {
            direct.spawn(Request { timeout: TIMEOUT, ..Request::new(client).args(words) }).await;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_servers_of_this_machine_that_are_gone_are_gone() {
        let here = Server::this().unwrap();
        assert_eq!(Server::parse(&here.name()), Some(here.clone()));
        assert!(!here.is_gone(&here));
        let before = Server { started: here.started - 1, ..here.clone() };
        assert!(before.is_gone(&here), "another process had this one's number");
        let elsewhere = Server { world: "another.1".to_owned(), ..before };
        assert!(!elsewhere.is_gone(&here));
        assert_eq!(Server::parse("nonsense"), None);
    }
}
