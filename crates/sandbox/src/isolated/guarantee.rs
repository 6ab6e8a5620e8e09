//! What each tier holds, as data: for `require`, for reports, for the documentation.

use super::plan::Tier;
use crate::sys;

/// What the kernel of this host offers beside the tier itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel {
    /// The version of Landlock; 6 (Linux 6.12) brought the scopes of signals and abstract sockets.
    pub landlock: u32,
}

impl Kernel {
    /// Asks the running kernel.
    #[must_use]
    pub fn running() -> Self {
        Self { landlock: sys::landlock_version() }
    }
}

/// Whether a tier holds a guarantee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// Yes.
    Yes,
    /// With this Landlock version or a later one.
    FromLandlock(u32),
    /// No, for this reason.
    No(&'static str),
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guarantee {
    /// The word used in `require`.
    pub name: &'static str,
    /// What is guaranteed.
    pub text: &'static str,
    /// In [`Tier::Namespaces`].
    pub namespaces: Holds,
    /// In [`Tier::Landlock`].
    pub landlock: Holds,
}

/// Every guarantee.
pub const GUARANTEES: &[Guarantee] = &[
    Guarantee {
        name: "write-fence",
        text: "nothing outside the workspace, temporary folders and package caches is created, changed or removed",
        namespaces: Holds::Yes,
        landlock: Holds::FromLandlock(3),
    },
    Guarantee {
        name: "metadata-fence",
        text: "modes, times and extended attributes outside stay as they are",
        namespaces: Holds::Yes,
        landlock: Holds::No("Landlock does not cover chmod, utime and setxattr"),
    },
    Guarantee {
        name: "credentials",
        text: "credential stores, browser profiles and histories cannot be read",
        namespaces: Holds::Yes,
        landlock: Holds::FromLandlock(1),
    },
    Guarantee {
        name: "git-frozen",
        text: "hooks and configuration of the repository cannot be changed, nor others be put in their place",
        namespaces: Holds::Yes,
        landlock: Holds::No(
            "Landlock has no exceptions inside a writable folder; changes are undone and reported",
        ),
    },
    Guarantee {
        name: "processes-hidden",
        text: "other processes of the machine cannot be seen",
        namespaces: Holds::Yes,
        landlock: Holds::No("there is no PID namespace: command lines of other processes can be read"),
    },
    Guarantee {
        name: "processes-safe",
        text: "other processes can be neither signalled nor traced, and their environment cannot be read",
        namespaces: Holds::Yes,
        landlock: Holds::FromLandlock(6),
    },
    Guarantee {
        name: "no-orphans",
        text: "no descendant outlives its call, not even one that works against it",
        namespaces: Holds::Yes,
        landlock: Holds::FromLandlock(6),
    },
    Guarantee {
        name: "private-network",
        text: "`network: none` and `network: loopback` are available",
        namespaces: Holds::Yes,
        landlock: Holds::No("there is no network namespace"),
    },
    Guarantee {
        name: "abstract-sockets",
        text: "abstract sockets of the host cannot be reached",
        namespaces: Holds::FromLandlock(6),
        landlock: Holds::FromLandlock(6),
    },
    Guarantee {
        name: "host-sockets",
        text: "sockets of the host that the kernel names or that lie in HOME (docker, ssh-agent, tmux) cannot be reached",
        namespaces: Holds::Yes,
        landlock: Holds::No("Landlock does not cover connections to sockets in the file system"),
    },
    Guarantee {
        name: "private-tmp",
        text: "/tmp, /dev/shm and terminals are the sandbox's own",
        namespaces: Holds::Yes,
        landlock: Holds::No("there is no mount namespace: /tmp is the machine's"),
    },
    Guarantee {
        name: "syscalls",
        text: "io_uring, bpf, keyrings, new namespaces, mounts and raw sockets are refused",
        namespaces: Holds::Yes,
        landlock: Holds::Yes,
    },
    Guarantee {
        name: "memory-cap",
        text: "a command and its descendants together use no more memory than allowed \
               (files in memory that nobody maps count in a control group only)",
        namespaces: Holds::Yes,
        landlock: Holds::Yes,
    },
    Guarantee {
        name: "pids-cap",
        text: "a command has no more processes than allowed",
        namespaces: Holds::Yes,
        landlock: Holds::Yes,
    },
];

impl Guarantee {
    /// Finds one by its word.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        GUARANTEES.iter().find(|guarantee| guarantee.name == name)
    }

    /// What whoever needs it can do where `tier` does not hold it.
    #[must_use]
    pub fn way_out(&self, tier: Tier) -> &'static str {
        match (tier, self.landlock) {
            (Tier::Landlock, Holds::No(_)) => {
                "allow unprivileged user namespaces, or leave it out of `require`"
            }
            _ => "use a later kernel, or leave it out of `require`",
        }
    }

    /// Whether `tier` holds it on `kernel`.
    ///
    /// # Errors
    /// Why it does not.
    pub fn check(&self, tier: Tier, kernel: Kernel) -> Result<(), String> {
        let holds = match tier {
            Tier::Namespaces => self.namespaces,
            Tier::Landlock => self.landlock,
        };
        match holds {
            Holds::Yes => Ok(()),
            Holds::FromLandlock(version) if kernel.landlock >= version => Ok(()),
            Holds::FromLandlock(version) => {
                Err(format!("it needs Landlock version {version}, this kernel has {}", kernel.landlock))
            }
            Holds::No(why) => Err(why.to_owned()),
        }
    }
}
