//! Which process is which: numbers are given anew, and every container counts its own.

use std::{fmt, sync::LazyLock, time::UNIX_EPOCH};

/// A process that keeps a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    number: u32,
    /// When it began to keep histories. Older versions had the number alone.
    since: Option<u64>,
}

impl Process {
    /// One that is gone.
    pub(super) const GONE: Self = Self { number: 0, since: None };

    pub(super) fn own() -> Self {
        static OWN: LazyLock<Process> = LazyLock::new(|| {
            let since = UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos());
            Process { number: std::process::id(), since: Some(u64::try_from(since).unwrap_or(0)) }
        });
        *OWN
    }

    /// As it is written; what is no process is one that is gone.
    pub(super) fn parse(text: &str) -> Self {
        let (number, since) =
            text.split_once('-').map_or((text, None), |(number, since)| (number, Some(since)));
        let since = since.and_then(|since| u64::from_str_radix(since, 16).ok());
        number.parse().map_or(Self::GONE, |number| Self { number, since })
    }

    /// Whether it may be this one, as far as both are known.
    pub(super) fn may_be(self, other: Self) -> bool {
        self.number == other.number
            && (self.since == other.since || self.since.is_none() || other.since.is_none())
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.since {
            Some(since) => write!(f, "{}-{since:x}", self.number),
            None => write!(f, "{}", self.number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_others_of_its_number() {
        let own = Process::own();
        assert_eq!(Process::parse(&own.to_string()), own);
        let [old, new, other] = ["7", "7-1f", "7-20"].map(Process::parse);
        assert!(old.may_be(new) && new.may_be(old) && new.may_be(new));
        assert!(!new.may_be(other) && !new.may_be(own));
        assert_eq!(["", "x", "-1"].map(Process::parse), [Process::GONE; 3]);
    }
}
