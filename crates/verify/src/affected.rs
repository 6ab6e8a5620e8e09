//! What a change may affect: the smallest set of tests that is safe to take for all of them.
//!
//! In doubt more is run, and the reply says why. Languages with a tool that knows their graph ask it
//! ([`crate::Detector::affected_query`]); the others follow imports through the sources.

use crate::Facts;
use std::collections::{BTreeMap, BTreeSet};

/// What has to be tested after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Affected {
    /// All of it, and why no less.
    Everything {
        /// The reason.
        why: String,
    },
    /// These units, as [`crate::TestAsk::units`] takes them.
    Units {
        /// Packages, or files.
        units: Vec<String>,
        /// How they were found.
        why: String,
    },
    /// No test at all.
    Nothing {
        /// How that is known.
        why: String,
    },
}

impl Affected {
    pub(crate) fn everything(why: impl Into<String>) -> Self {
        Self::Everything { why: why.into() }
    }

    /// These units, or nothing when there are none.
    pub(crate) fn of(units: impl IntoIterator<Item = String>, why: impl Into<String>) -> Self {
        let (units, why): (Vec<String>, String) = (units.into_iter().collect(), why.into());
        if units.is_empty() { Self::Nothing { why } } else { Self::Units { units, why } }
    }
}

/// Files a source tree may have before following its imports costs more than running everything.
const FILES: usize = 20_000;

/// Files that no test depends on, whatever the language.
pub(crate) fn inert(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    let folder = |start: &str| file.starts_with(start) || file.contains(&format!("/{start}"));
    [".github/", ".vscode/", ".idea/", ".git/"].iter().any(|start| folder(start))
        || name.ends_with(".md")
        || name.starts_with("LICENSE")
        || [".gitignore", ".gitattributes", ".editorconfig", ".dockerignore", "CODEOWNERS"].contains(&name)
}

/// Folders of things that are made, when they stand at the top of a project.
const MADE: [&str; 5] = ["dist", "build", "out", "coverage", "target"];
/// Folders of other people's things, wherever they stand.
const FOREIGN: [&str; 5] = ["node_modules", "venv", "vendor", "site-packages", "__pycache__"];

/// Whether [`walk`] does not look at a file because of the folder it is in.
pub(crate) fn overlooked(file: &str) -> bool {
    let mut parts = file.split('/').rev().skip(1);
    let mut top = None;
    let foreign = parts.any(|part| {
        top = Some(part);
        FOREIGN.contains(&part) || part.starts_with('.')
    });
    foreign || top.is_some_and(|top| MADE.contains(&top))
}

/// Every file below the project whose name `wanted` likes, without what is made and what is other people's; nothing
/// when there are too many to look at.
pub(crate) fn walk(facts: &dyn Facts, wanted: &dyn Fn(&str) -> bool) -> Option<Vec<String>> {
    let (mut found, mut todo, mut seen) = (Vec::new(), vec![String::new()], 0);
    while let Some(folder) = todo.pop() {
        for name in facts.list(if folder.is_empty() { "." } else { &folder }) {
            seen += 1;
            if seen > FILES {
                return None;
            }
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            if wanted(&name) {
                found.push(path);
            } else if !overlooked(&format!("{path}/")) {
                // Whatever is no folder lists nothing.
                todo.push(path);
            }
        }
    }
    found.sort();
    Some(found)
}

/// Who imports whom.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    /// File to the files that import it.
    importers: BTreeMap<String, BTreeSet<String>>,
    /// Files that may use anything: what they import or start is not known before they run.
    pub(crate) wild: BTreeSet<String>,
}

impl Graph {
    pub(crate) fn add(&mut self, importer: &str, imported: String) {
        self.importers.entry(imported).or_default().insert(importer.to_owned());
    }

    /// The changed files and everything that imports them, however indirectly.
    pub(crate) fn reached<'a>(&self, changed: impl IntoIterator<Item = &'a String>) -> BTreeSet<String> {
        let mut reached: BTreeSet<String> = BTreeSet::new();
        let mut todo: Vec<String> = changed.into_iter().cloned().collect();
        todo.extend(self.wild.iter().cloned());
        while let Some(file) = todo.pop() {
            if reached.insert(file.clone()) {
                todo.extend(self.importers.get(&file).into_iter().flatten().cloned());
            }
        }
        reached
    }
}

/// A path without `.` and `..`; nothing when it leaves the project.
pub(crate) fn plain(path: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The folder of a file, empty for the project's own.
pub(crate) fn folder(file: &str) -> &str {
    file.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// A few names for a sentence.
pub(crate) fn some(names: &[String]) -> String {
    let shown = names.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > 3 { format!("{shown} and {} more", names.len() - 3) } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_or_foreign_is_not_looked_at() {
        for file in ["dist/a.js", "a/node_modules/b/c.js", ".venv/lib/x.py", "a/.cache/x.py", "target/x.rs"] {
            assert!(overlooked(file), "{file}");
        }
        for file in ["a.js", "src/dist/a.js", "src/v1.2/a.js", "src/build/a.py", ".eslintrc.js"] {
            assert!(!overlooked(file), "{file}");
        }
    }
}
