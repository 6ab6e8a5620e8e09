//! Sources that rules ignore: what a generator wrote, or a build for others to import. Servers read them, and no
//! journal tells of them: their stamps do.

use ::verify::Detector;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};
use workspace::{Kind, Workspace};

/// Entries of one ignored folder that are looked at before every question, and of all of them. A folder that has more
/// is left alone.
const FOLDER: usize = 200;
const ALL: usize = 600;
/// Folders of one without any source, where some may come.
const EMPTY: usize = 20;
/// Names that are looked at for that, and when a server starts.
const NAMES: usize = 1000;
const SEEN: usize = 5000;
/// Folders of packages and caches, into which nobody writes sources. Those whose names begin with a dot are left out, too.
const SKIPPED: [&str; 5] = ["node_modules", "venv", "target", "__pycache__", "site-packages"];

/// Ignored sources, and the ignored folders that may hold some, each with its stamp.
#[derive(Clone)]
pub(super) struct Unwatched {
    detector: &'static dyn Detector,
    root: PathBuf,
    stamps: HashMap<PathBuf, (Kind, u64)>,
}

impl Unwatched {
    /// Those of a project among what rules ignore.
    pub(super) fn first(
        workspace: &Workspace,
        detector: &'static dyn Detector,
        root: PathBuf,
        mut ignored: Vec<PathBuf>,
    ) -> Self {
        ignored.sort();
        let mut all = Self { detector, root, stamps: HashMap::new() };
        let mut seen = 0;
        for path in ignored {
            seen += all.add(workspace, &path);
            if seen > SEEN {
                break;
            }
        }
        all
    }

    /// Whether it is one of them.
    pub(super) fn has(&self, path: &Path) -> bool {
        self.stamps.contains_key(path)
    }

    /// As they are now, with those in folders that are new; nothing when nothing has changed.
    pub(super) fn look(&self, workspace: &Workspace, new: &[PathBuf]) -> Option<Self> {
        let differs = |(path, (_, was)): &(&PathBuf, &(Kind, u64))| workspace.stamp_of(path) != Some(*was);
        let changed: Vec<PathBuf> =
            self.stamps.iter().filter(differs).map(|(path, _)| path.clone()).collect();
        if changed.is_empty() && new.is_empty() {
            return None;
        }
        let mut now = self.clone();
        for path in &changed {
            now.stamps.remove(path);
        }
        for path in changed.iter().chain(new) {
            now.add(workspace, path);
        }
        Some(now)
    }

    /// Files that another look at them sees otherwise.
    pub(super) fn differing(&self, other: &Self) -> Vec<PathBuf> {
        let file = |(path, (kind, _)): &(&PathBuf, &(Kind, u64))| {
            *kind == Kind::File && self.stamps.get(*path) != other.stamps.get(*path)
        };
        let gone = self.stamps.iter().filter(file).map(|(path, _)| path);
        let new = other.stamps.iter().filter(|it| file(it) && !self.has(it.0)).map(|(path, _)| path);
        gone.chain(new).cloned().collect()
    }

    /// Takes in what is at an ignored path, and below it. Says how many names it looked at.
    fn add(&mut self, workspace: &Workspace, path: &Path) -> usize {
        let mut found = Vec::new();
        let mut next = vec![path.to_owned()];
        let mut seen = 0;
        while let Some(path) = next.pop() {
            seen += 1;
            if !path.starts_with(&self.root) || skipped(&path) || self.has(&path) {
                continue;
            }
            // The stamp first: what comes later makes another one.
            let Some(stamp) = workspace.stamp_of(&path) else { continue };
            let Ok(place) = workspace.resolve(&path) else { continue };
            match workspace.kind(&place) {
                Some(Kind::Folder) => {
                    let names = workspace.names(&place, NAMES);
                    next.extend(names.into_iter().map(|name| path.join(name)));
                    found.push((path, (Kind::Folder, stamp)));
                }
                Some(Kind::File) if self.detector.owns(&path) => found.push((path, (Kind::File, stamp))),
                _ => {}
            }
            if seen > NAMES || found.len() > FOLDER || self.stamps.len() + found.len() > ALL {
                return seen;
            }
        }
        let any = found.iter().any(|(_, (kind, _))| *kind == Kind::File);
        if any || found.len() <= EMPTY {
            self.stamps.extend(found);
        }
        seen
    }
}

fn skipped(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with('.') || SKIPPED.contains(&name)
}
