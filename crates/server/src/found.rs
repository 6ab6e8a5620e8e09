//! What a start found in its workspaces, for people and for the model's instructions.

use config::Settings;
use std::path::{Path, PathBuf};
use verify::Facts;

/// Ids of the languages whose markers are at a workspace's root, over all workspaces, sorted.
pub(crate) fn languages(settings: &Settings) -> Vec<&'static str> {
    let mut found: Vec<&'static str> =
        settings.workspaces.iter().flat_map(|workspace| languages_in(&workspace.root)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Ids of the languages whose markers are at `root`.
pub(crate) fn languages_in(root: &Path) -> Vec<&'static str> {
    verify::detect_all(&Markers { root }).iter().map(|detector| detector.language()).collect()
}

/// Only whether a marker is there: nothing is opened.
struct Markers<'a> {
    root: &'a Path,
}

impl Facts for Markers<'_> {
    fn root(&self) -> &Path {
        self.root
    }

    fn scratch(&self) -> &Path {
        Path::new("")
    }

    fn exists(&self, relative: &str) -> bool {
        self.root.join(relative).symlink_metadata().is_ok()
    }

    fn read(&self, _relative: &str) -> Option<String> {
        None
    }

    fn list(&self, _relative: &str) -> Vec<String> {
        Vec::new()
    }

    fn which(&self, _binary: &str) -> Option<PathBuf> {
        None
    }

    fn env(&self, _name: &str) -> Option<String> {
        None
    }
}
