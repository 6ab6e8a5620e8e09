//! How a spawn ended, told apart by type rather than by text.

use std::fmt;

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The program ran and returned this code.
    Exited(i32),
    /// The program was killed by a signal that this sandbox did not send.
    Signaled(i32),
    /// The timeout expired; every descendant is gone.
    TimedOut,
    /// The caller cancelled; every descendant is gone.
    Cancelled,
    /// The command, or one of its descendants, used more memory than allowed.
    OutOfMemory {
        /// The cap that was exceeded, in bytes, when known.
        limit: Option<u64>,
    },
    /// The command could not be found where the sandbox looks for commands.
    NotFound {
        /// The command as it was asked for.
        command: String,
    },
    /// Policy forbids it; nothing was started.
    Refused {
        /// Which rule, and what to do about it.
        why: String,
    },
    /// The sandbox itself failed (engine, network, set-up); the program's own result is unknown.
    Transport {
        /// What failed.
        why: String,
    },
}

impl Outcome {
    /// Whether the program ran to its end and returned 0.
    #[must_use]
    pub fn success(&self) -> bool {
        *self == Self::Exited(0)
    }

    /// The exit code a shell would show: 124 for a timeout, 127 for a missing command, 128 + n for a signal.
    #[must_use]
    pub fn shell_code(&self) -> i32 {
        match self {
            Self::Exited(code) => *code,
            Self::Signaled(signal) => 128 + signal,
            Self::TimedOut => 124,
            Self::Cancelled => 130,
            Self::OutOfMemory { .. } => 137,
            Self::NotFound { .. } => 127,
            Self::Refused { .. } => 126,
            Self::Transport { .. } => 125,
        }
    }
}

/// A number of bytes in the largest binary unit that fits it exactly, or with one decimal.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, shift) in [("GiB", 30), ("MiB", 20), ("KiB", 10)] {
            let whole = self.0 >> shift;
            if whole > 0 {
                let tenths = ((self.0 - (whole << shift)) * 10) >> shift;
                return if tenths == 0 {
                    write!(f, "{whole} {unit}")
                } else {
                    write!(f, "{whole}.{tenths} {unit}")
                };
            }
        }
        write!(f, "{} bytes", self.0)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exit {code}"),
            Self::Signaled(signal) => write!(f, "killed by signal {signal}"),
            Self::TimedOut => write!(f, "timed out"),
            Self::Cancelled => write!(f, "cancelled"),
            Self::OutOfMemory { limit: Some(bytes) } => {
                write!(f, "killed: used more than {}", Bytes(*bytes))
            }
            Self::OutOfMemory { limit: None } => write!(f, "killed: out of memory"),
            Self::NotFound { command } => write!(f, "{command}: not found"),
            Self::Refused { why } => write!(f, "refused: {why}"),
            Self::Transport { why } => write!(f, "sandbox failed: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_told_in_readable_units() {
        let told = |limit| Outcome::OutOfMemory { limit: Some(limit) }.to_string();
        assert_eq!(told(2 << 30), "killed: used more than 2 GiB");
        assert_eq!(told(1536 << 20), "killed: used more than 1.5 GiB");
        assert_eq!(told(300 << 20), "killed: used more than 300 MiB");
        assert_eq!(told(12), "killed: used more than 12 bytes");
    }
}
