//! Which detector a call means.

use crate::{Detector, Facts, languages};

/// The first detector whose marker is at the project root.
#[must_use]
pub fn detect(facts: &dyn Facts) -> Option<&'static dyn Detector> {
    detect_all(facts).into_iter().next()
}

/// Every detector whose marker is at the project root, in detection order.
#[must_use]
pub fn detect_all(facts: &dyn Facts) -> Vec<&'static dyn Detector> {
    matching(facts, languages::all())
}

/// Every detector of `known` whose marker is at the project root, in the order of `known`.
fn matching(facts: &dyn Facts, known: &[&'static dyn Detector]) -> Vec<&'static dyn Detector> {
    known
        .iter()
        .copied()
        .filter(|detector| detector.markers().iter().any(|marker| facts.exists(marker)))
        .collect()
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
    #[error("no project detected: looked for {}; found none of them — this build ships {}", markers.join(", "), languages.join(", "))]
    Nothing {
        /// Every marker looked for.
        markers: Vec<&'static str>,
        /// Every shipped language.
        languages: Vec<&'static str>,
    },
}

/// Chooses by the `language` argument of a call: absent, one id, or `all`.
///
/// # Errors
/// None or several match where one is wanted.
pub fn select(facts: &dyn Facts, language: Option<&str>) -> Result<Vec<&'static dyn Detector>, SelectError> {
    let found = detect_all(facts);
    let ids = || {
        let mut ids: Vec<&'static str> = found.iter().map(|detector| detector.language()).collect();
        ids.sort_unstable();
        ids
    };
    let wanted = language.map(|name| name.trim().to_lowercase()).filter(|name| !name.is_empty());
    if found.is_empty() {
        return Err(SelectError::Nothing {
            markers: languages::all().iter().flat_map(|d| d.markers().iter().copied()).collect(),
            languages: languages::all().iter().map(|d| d.language()).collect(),
        });
    }
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
