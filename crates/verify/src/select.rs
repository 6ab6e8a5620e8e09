//! Which detector a call means.

use crate::{Detector, Facts, languages};

/// Markers of project types no shipped detector knows; they make the refusal concrete.
const FOREIGN: &[&str] = &[
    "Gemfile",
    "mix.exs",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "CMakeLists.txt",
    "composer.json",
    "Package.swift",
    "deno.json",
    "dune-project",
    "stack.yaml",
    "build.sbt",
    "rebar.config",
    "build.zig",
    "cpanfile",
    "Makefile",
];

/// A list of detectors in detection order: the shipped ones, or a caller's own.
#[derive(Clone)]
pub struct Languages {
    known: Vec<&'static dyn Detector>,
}

impl Languages {
    /// The languages this build ships: Go, Rust, Node, Python.
    #[must_use]
    pub fn shipped() -> Self {
        Self { known: languages::all().to_vec() }
    }

    /// No languages at all, to begin a list of one's own.
    #[must_use]
    pub fn none() -> Self {
        Self { known: Vec::new() }
    }

    /// The same list with one more at its end. A detector of the same language replaces the earlier one.
    #[must_use]
    pub fn with(mut self, detector: &'static dyn Detector) -> Self {
        match self.known.iter_mut().find(|known| known.language() == detector.language()) {
            Some(known) => *known = detector,
            None => self.known.push(detector),
        }
        self
    }

    /// Every detector in the list, in detection order.
    #[must_use]
    pub fn all(&self) -> &[&'static dyn Detector] {
        &self.known
    }

    /// The detector of this id.
    #[must_use]
    pub fn get(&self, language: &str) -> Option<&'static dyn Detector> {
        self.known.iter().copied().find(|detector| detector.language() == language)
    }

    /// The first detector whose marker is at the project root.
    #[must_use]
    pub fn detect(&self, facts: &dyn Facts) -> Option<&'static dyn Detector> {
        self.known.iter().copied().find(|detector| marked(*detector, facts))
    }

    /// Every detector whose marker is at the project root, in detection order.
    #[must_use]
    pub fn detect_all(&self, facts: &dyn Facts) -> Vec<&'static dyn Detector> {
        self.known.iter().copied().filter(|detector| marked(*detector, facts)).collect()
    }

    /// Chooses by the `language` argument of a call: absent, one id, or `all`.
    ///
    /// # Errors
    /// None or several match where one is wanted.
    pub fn select(
        &self,
        facts: &dyn Facts,
        language: Option<&str>,
    ) -> Result<Vec<&'static dyn Detector>, SelectError> {
        let found = self.detect_all(facts);
        if found.is_empty() {
            return Err(self.nothing(facts));
        }
        let ids = || sorted(found.iter().map(|detector| detector.language()).collect());
        let wanted = language.map(|name| name.trim().to_lowercase()).filter(|name| !name.is_empty());
        match wanted.as_deref() {
            None if found.len() == 1 => Ok(found),
            None => Err(SelectError::Polyglot { found: ids() }),
            Some("all") => Ok(found),
            Some(name) => found
                .iter()
                .find(|detector| detector.language() == name)
                .map(|detector| vec![*detector])
                .ok_or_else(|| SelectError::Absent { wanted: name.to_owned(), found: ids() }),
        }
    }

    fn nothing(&self, facts: &dyn Facts) -> SelectError {
        let mut found: Vec<String> =
            FOREIGN.iter().filter(|marker| facts.exists(marker)).map(|marker| (*marker).to_owned()).collect();
        let nested = facts.list(".").into_iter().filter(|name| !name.starts_with('.')).take(200);
        for folder in nested {
            let markers = self.known.iter().flat_map(|detector| detector.markers());
            found.extend(
                markers.map(|marker| format!("{folder}/{marker}")).filter(|path| facts.exists(path)).take(1),
            );
        }
        SelectError::Nothing {
            looked_for: self.known.iter().flat_map(|d| d.markers().iter().copied()).collect(),
            found,
            languages: sorted(self.known.iter().map(|d| d.language()).collect()),
        }
    }
}

fn marked(detector: &dyn Detector, facts: &dyn Facts) -> bool {
    detector.markers().iter().any(|marker| facts.exists(marker))
}

fn sorted(mut ids: Vec<&'static str>) -> Vec<&'static str> {
    ids.sort_unstable();
    ids
}

/// The first shipped detector whose marker is at the project root.
#[must_use]
pub fn detect(facts: &dyn Facts) -> Option<&'static dyn Detector> {
    Languages::shipped().detect(facts)
}

/// Every shipped detector whose marker is at the project root, in detection order.
#[must_use]
pub fn detect_all(facts: &dyn Facts) -> Vec<&'static dyn Detector> {
    Languages::shipped().detect_all(facts)
}

/// [`Languages::select`] over the shipped languages.
///
/// # Errors
/// None or several match where one is wanted.
pub fn select(facts: &dyn Facts, language: Option<&str>) -> Result<Vec<&'static dyn Detector>, SelectError> {
    Languages::shipped().select(facts, language)
}

/// Why no detector could be chosen; the texts are contract.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// Several match and none was named.
    #[error("polyglot workspace: {} project types detected ({}) — pass `language` to pick one", found.len(), found.join(", "))]
    Polyglot {
        /// Sorted ids.
        found: Vec<&'static str>,
    },
    /// The named one does not match.
    #[error("language \"{wanted}\" not detected in workspace; detected: {}", found.join(", "))]
    Absent {
        /// What was asked for.
        wanted: String,
        /// Sorted ids.
        found: Vec<&'static str>,
    },
    /// Nothing matches.
    #[error(
        "no project detected: looked for {}; found markers: {} — this build ships {} detectors{}",
        looked_for.join(", "),
        if found.is_empty() { "none".to_owned() } else { found.join(", ") },
        languages.join(", "),
        if found.iter().any(|path| path.contains('/')) { "; pass `path` to reach a nested project" } else { "" }
    )]
    Nothing {
        /// Every marker looked for.
        looked_for: Vec<&'static str>,
        /// Markers there are: of other languages, or of ours in a sub-folder.
        found: Vec<String>,
        /// Sorted ids of every language in the list.
        languages: Vec<&'static str>,
    },
}
