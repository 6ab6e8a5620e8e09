//! Reads what coverage tools write: LCOV, Go's profiles, coverage.py's JSON.

use crate::{Covered, TestId, relative};
use serde::Deserialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// First and last line of each stretch of these lines.
pub(crate) fn stretches(lines: impl IntoIterator<Item = u32>) -> Vec<(u32, u32)> {
    let lines: BTreeSet<u32> = lines.into_iter().collect();
    let mut found: Vec<(u32, u32)> = Vec::new();
    for line in lines {
        match found.last_mut() {
            Some((_, last)) if *last + 1 == line => *last = line,
            _ => found.push((line, line)),
        }
    }
    found
}

/// The files of an LCOV report and the lines that were reached, as `test` reached them.
#[must_use]
pub fn lcov(report: &[u8], root: &Path, test: &TestId) -> Vec<Covered> {
    let text = String::from_utf8_lossy(report);
    let mut files: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    let mut file = None;
    for line in text.lines() {
        if let Some(path) = line.strip_prefix("SF:") {
            file = Some(relative(root, root, path.trim()));
        } else if let (Some(data), Some(file)) = (line.strip_prefix("DA:"), &file) {
            let mut fields = data.split(',');
            let number = fields.next().and_then(|number| number.trim().parse().ok());
            let reached = fields.next().is_some_and(|count| !["0", ""].contains(&count.trim()));
            if let (Some(number), true) = (number, reached) {
                files.entry(file.clone()).or_default().insert(number);
            }
        } else if line == "end_of_record" {
            file = None;
        }
    }
    covered(files, test)
}

/// The files of a Go profile and the lines that were reached; `module` is taken off the files' names.
#[must_use]
pub fn go_profile(report: &[u8], module: &str, test: &TestId) -> Vec<Covered> {
    let text = String::from_utf8_lossy(report);
    let mut files: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    for line in text.lines() {
        let Some((file, first, last)) = block(line) else { continue };
        // A file of another module is none of the project's.
        let Some(inside) = file.strip_prefix(module).and_then(|rest| rest.strip_prefix('/')) else {
            continue;
        };
        // A block may be long, but not so long that counting it hurts.
        files.entry(inside.to_owned()).or_default().extend(first..=last.min(first.saturating_add(100_000)));
    }
    covered(files, test)
}

/// `example.com/m/a.go:3.14,5.2 1 1`: file, first and last line of a block that was reached.
fn block(line: &str) -> Option<(&str, u32, u32)> {
    let (place, counts) = line.split_once(' ')?;
    let (file, range) = place.rsplit_once(':')?;
    let (from, to) = range.split_once(',')?;
    let number = |point: &str| point.split('.').next()?.parse().ok();
    let count = counts.rsplit(' ').next()?;
    (count != "0").then_some((file, number(from)?, number(to)?))
}

fn covered(files: BTreeMap<String, BTreeSet<u32>>, test: &TestId) -> Vec<Covered> {
    let one = |(file, lines): (String, BTreeSet<u32>)| Covered {
        test: test.clone(),
        file,
        lines: stretches(lines),
    };
    files.into_iter().map(one).collect()
}

#[derive(Deserialize)]
struct Json {
    #[serde(default)]
    files: BTreeMap<String, JsonFile>,
}

#[derive(Deserialize)]
struct JsonFile {
    #[serde(default)]
    executed_lines: Vec<u32>,
    #[serde(default)]
    contexts: BTreeMap<String, Vec<String>>,
}

/// The lines of coverage.py's JSON, by the test that reached them where contexts were recorded; `whole` stands for
/// those without.
#[must_use]
pub fn coverage_json(report: &[u8], root: &Path, whole: &TestId) -> Vec<Covered> {
    let Ok(json) = serde_json::from_slice::<Json>(report) else { return Vec::new() };
    let mut found: BTreeMap<(TestId, String), BTreeSet<u32>> = BTreeMap::new();
    for (file, data) in json.files {
        let file = relative(root, root, &file);
        if data.contexts.is_empty() {
            found.entry((whole.clone(), file)).or_default().extend(data.executed_lines);
            continue;
        }
        for (line, contexts) in data.contexts {
            let Ok(line) = line.parse::<u32>() else { continue };
            // `tests/test_a.py::test_b|run`; what was reached while importing has no name.
            for context in contexts.iter().filter(|context| !context.is_empty()) {
                let name = context.rsplit_once('|').map_or(context.as_str(), |(name, _)| name);
                let mut parts = name.split("::").map(str::to_owned);
                let id = TestId { unit: parts.next().unwrap_or_default(), path: parts.collect() };
                found.entry((id, file.clone())).or_default().insert(line);
            }
        }
    }
    let one = |((test, file), lines)| Covered { test, file, lines: stretches(lines) };
    found.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_stretches() {
        assert_eq!(stretches([5, 1, 2, 3, 9, 5]), [(1, 3), (5, 5), (9, 9)]);
        assert!(stretches([]).is_empty());
    }
}
