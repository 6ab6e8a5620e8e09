//! How fast ordinary source text goes through the scrubber: what the crate's own criterion bench says.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::report::{Report, verdict};
use crate::subjects::Subjects;

/// Bytes per second and core.
const ASKED: f64 = 150e6;

/// All rules over the sources of this repository, without and with configured secrets, at once and in chunks.
pub(crate) fn scrub(_: &Subjects, report: &mut Report) -> Result<()> {
    let cases = throughput(["scrub", "throughput"], "scrub/")?;
    report.section("Scrubbing of source text (criterion, one core)", &["", "throughput", "asked", ""]);
    rows(report, cases, ASKED);
    Ok(())
}

/// A line of the table for each case.
pub(crate) fn rows(report: &mut Report, cases: Vec<(String, f64)>, asked: f64) {
    for (name, speed) in cases {
        let wanted = format!("≥ {:.0} MB/s", asked / 1e6);
        report.row(&[name, format!("{:.0} MB/s", speed / 1e6), wanted, verdict(speed >= asked)]);
    }
}

/// What the criterion bench of a package says: the cases of one group, in bytes per second.
pub(crate) fn throughput([package, name]: [&str; 2], group: &str) -> Result<Vec<(String, f64)>> {
    let mut bench = Command::new(env!("CARGO"));
    bench.args(["bench", "--locked", "-p", package, "--bench", name, "--", "--noplot"]);
    let output = bench.current_dir(env!("CARGO_MANIFEST_DIR")).output().context("starting cargo bench")?;
    if !output.status.success() {
        bail!("cargo bench -p {package}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let cases = cases(&String::from_utf8_lossy(&output.stdout), group);
    if cases.is_empty() {
        bail!("criterion printed no throughput");
    }
    Ok(cases)
}

/// Names and middle estimates in bytes per second.
fn cases(text: &str, group: &str) -> Vec<(String, f64)> {
    let mut found = Vec::new();
    let mut name = "";
    for line in text.lines() {
        if let Some(case) = line.strip_prefix(group) {
            name = case.split("time:").next().unwrap_or(case).trim();
        }
        if let Some((_, estimates)) = line.split_once("thrpt:")
            && let Some(speed) = middle(estimates)
        {
            found.push((name.to_owned(), speed));
        }
    }
    found
}

/// Of `[1.0 MiB/s 2.0 MiB/s 3.0 MiB/s]`; nothing when it is a change in percent.
fn middle(estimates: &str) -> Option<f64> {
    let mut words = estimates.trim().trim_matches(['[', ']']).split(' ').skip(2);
    let number: f64 = words.next()?.parse().ok()?;
    let unit = match words.next()? {
        "KiB/s" => 1024.0,
        "MiB/s" => 1024.0 * 1024.0,
        "GiB/s" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    Some(number * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_criterion_prints() {
        let text = "scrub/rules             time:   [1.0 ms 1.1 ms 1.2 ms]\n                        thrpt:  [500.0 MiB/s \
                    512.0 MiB/s 520.0 MiB/s]\n                 change:\n                        thrpt:  [−1.0% +0.1% \
                    +1.2%] (p = 0.1)\nscrub/rules and 10 secrets\n                        time:   [1 ms 1 ms 1 ms]\n \
                    thrpt:  [1.0 GiB/s 1.5 GiB/s 2.0 GiB/s]\n";
        let found = cases(text, "scrub/");
        assert_eq!(found[0], ("rules".to_owned(), 512.0 * 1048576.0));
        assert_eq!(found[1], ("rules and 10 secrets".to_owned(), 1.5 * 1073741824.0));
        assert_eq!(found.len(), 2);
    }
}
