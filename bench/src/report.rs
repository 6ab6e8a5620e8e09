//! The table.

use std::fmt::Write as _;
use std::time::Duration;

/// Lines of figures, each with what it is compared with and what was asked.
#[derive(Default)]
pub(crate) struct Report(String);

impl Report {
    /// A new table.
    pub(crate) fn section(&mut self, title: &str, columns: &[&str]) {
        let _ = writeln!(
            self.0,
            "\n## {title}\n\n| {} |\n|{}",
            columns.join(" | "),
            "---|".repeat(columns.len())
        );
    }

    /// A line of the table. It is shown at once: the whole comes long after.
    pub(crate) fn row(&mut self, cells: &[String]) {
        let line = format!("| {} |", cells.join(" | "));
        eprintln!("{line}");
        let _ = writeln!(self.0, "{line}");
    }

    /// A sentence below the table.
    pub(crate) fn note(&mut self, text: &str) {
        let _ = writeln!(self.0, "\n{text}");
    }

    /// All of it.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

/// `0.123 ms`.
pub(crate) fn ms(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms < 10.0 { format!("{ms:.3} ms") } else { format!("{ms:.1} ms") }
}

/// `1.23 ×`.
pub(crate) fn times(one: Duration, other: Duration) -> String {
    format!("{:.2} ×", one.as_secs_f64() / other.as_secs_f64().max(1e-9))
}

/// Whether a goal is met.
pub(crate) fn verdict(met: bool) -> String {
    if met { "met".to_owned() } else { "**missed**".to_owned() }
}
