//! What the processes below the server need to know about one sandbox: every path resolved, every number final.

use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::PathBuf,
};

/// How strongly a command is fenced in, chosen by trying the whole set-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// User, mount, PID, IPC and UTS namespaces, Landlock and seccomp; a network namespace when asked for.
    Namespaces,
    /// Landlock and seccomp, where namespaces are refused (Docker's default profile, hardened systems).
    Landlock,
}

impl Tier {
    /// The word used in configuration and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Landlock => "landlock",
        }
    }
}

impl std::fmt::Display for Tier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Namespaces => "namespaces + Landlock + seccomp",
            Self::Landlock => "Landlock + seccomp (no namespaces)",
        })
    }
}

/// What of the network a command sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Network {
    /// A private loopback of each call's own.
    None,
    /// A private loopback shared by the calls of one sandbox.
    Loopback,
    /// The host's network.
    #[default]
    Host,
}

impl Network {
    /// The word used in configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Loopback => "loopback",
            Self::Host => "host",
        }
    }
}

/// What one command and its descendants may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Caps {
    /// Bytes of memory, over all processes together.
    pub memory: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u64>,
    /// Seconds of CPU time, of all processes together.
    pub cpu_seconds: Option<u64>,
    /// Bytes in one file.
    pub file_size: Option<u64>,
}

/// One sandbox as its processes see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) tier: Tier,
    pub(crate) network: Network,
    pub(crate) caps: Caps,
    /// Folder on disk that becomes /tmp and /var/tmp.
    pub(crate) tmp: PathBuf,
    pub(crate) writable: Vec<PathBuf>,
    pub(crate) hidden_dirs: Vec<PathBuf>,
    /// Files and sockets.
    pub(crate) hidden_files: Vec<PathBuf>,
    /// Read-only islands in writable places.
    pub(crate) frozen: Vec<PathBuf>,
    /// Folders bound onto themselves, so that they cannot be renamed away.
    pub(crate) pinned: Vec<PathBuf>,
    /// What of /run stays.
    pub(crate) kept_run: Vec<PathBuf>,
    /// Without mounts: everything that is not hidden and has no hidden place below it.
    pub(crate) readable: Vec<PathBuf>,
    /// Nothing, or a folder and the place at which it is seen instead of what is there.
    pub(crate) instead: Vec<PathBuf>,
    /// Without mounts: what of the host's folders for temporary files is open to all commands.
    pub(crate) shared: Vec<PathBuf>,
    /// What lies at the hidden places, as device and number: a cover goes with what it lies on. Not sent on.
    pub(crate) covered: Vec<(u64, u64)>,
    /// What must not be made, since the host would run it; not sent on.
    pub(crate) absent: Vec<PathBuf>,
    /// Other workspaces, for people; not sent on.
    pub(crate) others: Vec<PathBuf>,
    /// What of git cannot be guarded, for people; not sent on.
    pub(crate) unguarded: Vec<String>,
}

impl Plan {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let number = |n: Option<u64>| OsString::from(n.map(|n| n.to_string()).unwrap_or_default()).into();
        let caps = self.caps;
        let head: Vec<PathBuf> = vec![
            self.tier.name().into(),
            self.network.name().into(),
            self.tmp.clone(),
            number(caps.memory),
            number(caps.pids),
            number(caps.cpu_seconds),
            number(caps.file_size),
        ];
        let mut out = Vec::new();
        for list in [&head].into_iter().chain(self.lists()) {
            out.extend(list.len().to_string().as_bytes());
            out.push(0);
            for item in list {
                out.extend(item.as_os_str().as_bytes());
                out.push(0);
            }
        }
        out
    }

    fn lists(&self) -> [&Vec<PathBuf>; 9] {
        [
            &self.writable,
            &self.hidden_dirs,
            &self.hidden_files,
            &self.frozen,
            &self.pinned,
            &self.kept_run,
            &self.readable,
            &self.instead,
            &self.shared,
        ]
    }

    pub(crate) fn decode(data: &[u8]) -> Option<Self> {
        let mut items = data.split(|b| *b == 0);
        let mut list = || -> Option<Vec<PathBuf>> {
            let count: usize = std::str::from_utf8(items.next()?).ok()?.parse().ok()?;
            (0..count).map(|_| items.next().map(|i| OsString::from_vec(i.to_vec()).into())).collect()
        };
        let head = list()?;
        let word = |at: usize| head.get(at).and_then(|p| p.to_str());
        let number = |at: usize| word(at).and_then(|w| w.parse().ok());
        Some(Self {
            tier: [Tier::Namespaces, Tier::Landlock].into_iter().find(|t| Some(t.name()) == word(0))?,
            network: [Network::None, Network::Loopback, Network::Host]
                .into_iter()
                .find(|n| Some(n.name()) == word(1))?,
            tmp: head.get(2)?.clone(),
            caps: Caps { memory: number(3), pids: number(4), cpu_seconds: number(5), file_size: number(6) },
            writable: list()?,
            hidden_dirs: list()?,
            hidden_files: list()?,
            frozen: list()?,
            pinned: list()?,
            kept_run: list()?,
            readable: list()?,
            instead: list()?,
            shared: list()?,
            covered: Vec::new(),
            absent: Vec::new(),
            others: Vec::new(),
            unguarded: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_survives_the_way_to_the_spawner() {
        let odd = PathBuf::from(OsString::from_vec(b"/with\nline and \xff".to_vec()));
        let plan = Plan {
            tier: Tier::Landlock,
            network: Network::Loopback,
            caps: Caps { memory: Some(1 << 40), pids: None, cpu_seconds: Some(3), file_size: None },
            tmp: "/tmp/x".into(),
            writable: vec![odd.clone(), "/b".into()],
            hidden_dirs: vec![],
            hidden_files: vec!["/c".into()],
            frozen: vec![odd],
            pinned: vec![],
            kept_run: vec!["/run/x".into()],
            readable: vec!["/usr".into()],
            instead: vec!["/d".into(), "/e".into()],
            shared: vec!["/tmp".into()],
            covered: vec![],
            absent: vec![],
            others: vec![],
            unguarded: vec![],
        };
        assert_eq!(Plan::decode(&plan.encode()), Some(plan.clone()));
        assert_eq!(Plan::decode(&plan.encode()[..20]), None);
    }
}
