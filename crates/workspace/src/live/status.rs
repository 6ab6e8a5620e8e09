//! How the live workspace stands, for people and for metrics.

use std::fmt;

use super::state::State;

/// How answers are kept right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// By events of the kernel, with a sweep for what sends none.
    Events,
    /// By comparing stat data at every query.
    Stat,
    /// By walking the tree at every query.
    Scan,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Events => "events",
            Self::Stat => "stat",
            Self::Scan => "scan",
        })
    }
}

/// How it stands, for `doctor` and metrics. Its text form is a summary for people.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LiveStatus {
    /// The mode in force.
    pub mode: Mode,
    /// Why it is that one.
    pub why: String,
    /// Files known.
    pub files: usize,
    /// Folders known.
    pub folders: usize,
    /// Files that every search reads because the index cannot answer for them.
    pub always_read: usize,
    /// Bytes in all files.
    pub text_bytes: u64,
    /// Bytes the index takes.
    pub index_bytes: usize,
    /// Bytes that index, names and stamps take together.
    pub memory_bytes: usize,
    /// Bytes they may take.
    pub budget: usize,
    /// Files above this size are left out of the index to stay within the budget.
    pub left_out_above: Option<u64>,
    /// How many those are.
    pub left_out_files: usize,
    /// And their bytes.
    pub left_out_bytes: u64,
    /// Times the kernel's queue ran over.
    pub overflows: u64,
    /// Folders looked through again.
    pub rescans: u64,
    /// Complete sweeps.
    pub sweeps: u64,
    /// Changes that only a sweep found.
    pub swept_changes: u64,
}

impl LiveStatus {
    pub(super) fn of(state: &State) -> Self {
        let (left_out_above, left_out) = state.files.left_out().unzip();
        let left_out = left_out.unwrap_or_default();
        Self {
            mode: state.mode,
            why: state.why.clone(),
            files: state.files.len(),
            folders: state.folders.len(),
            always_read: state.files.always_read(),
            text_bytes: state.files.text_bytes(),
            index_bytes: state.files.index_size(),
            memory_bytes: state.files.size(),
            budget: state.options.budget,
            left_out_above,
            left_out_files: left_out.files,
            left_out_bytes: left_out.bytes,
            overflows: state.counters.overflows,
            rescans: state.counters.rescans,
            sweeps: state.counters.sweeps,
            swept_changes: state.counters.swept_changes,
        }
    }
}

impl fmt::Display for LiveStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mode {} ({})", self.mode, self.why)?;
        if self.mode == Mode::Scan {
            return Ok(());
        }
        write!(
            f,
            "\n{} files in {} folders, {} of text; {} in memory, {} of it the index (budget {})",
            self.files,
            self.folders,
            Size(self.text_bytes),
            Size(self.memory_bytes as u64),
            Size(self.index_bytes as u64),
            Size(self.budget as u64)
        )?;
        if self.always_read > 0 {
            write!(f, "\n{} files are read by every search that reaches them", self.always_read)?;
        }
        if let Some(limit) = self.left_out_above {
            write!(
                f,
                "\nleft out of the index to stay within the budget: {} files above {} ({}); raise --index-budget",
                self.left_out_files,
                Size(limit),
                Size(self.left_out_bytes)
            )?;
        }
        write!(
            f,
            "\n{} rescans, {} overflows, {} sweeps, {} changes that only a sweep found",
            self.rescans, self.overflows, self.sweeps, self.swept_changes
        )
    }
}

/// A number of bytes as people read it.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = [("B", 1.0), ("KiB", 1024.0), ("MiB", 1_048_576.0), ("GiB", 1_073_741_824.0)];
        let bytes = self.0 as f64;
        let (unit, step) = steps.into_iter().rev().find(|(_, step)| bytes >= *step).unwrap_or(steps[0]);
        if unit == "B" { write!(f, "{} B", self.0) } else { write!(f, "{:.1} {unit}", bytes / step) }
    }
}
