//! What is installed where nobody watches: a server that began without it does not find it by itself.

use std::{
    collections::{HashMap, hash_map::DefaultHasher},
    hash::{Hash as _, Hasher as _},
    path::{Path, PathBuf},
};
use workspace::Workspace;

/// Files that package managers write when they have installed something.
const WRITTEN: [&str; 4] = [".package-lock.json", ".modules.yaml", ".yarn-integrity", ".yarn-state.yml"];
/// Names in one folder.
const NAMES: usize = 20_000;

/// The folders of a project that packages are installed in, and what was in them.
pub(super) struct Installed {
    folders: Vec<PathBuf>,
    /// What was in a folder when it had this stamp.
    listed: HashMap<PathBuf, (u64, u64)>,
    was: u64,
}

impl Installed {
    /// Those of the project in `root` and of the folders above it.
    pub(super) fn first(workspace: &Workspace, root: &Path, names: &[&str]) -> Self {
        let folders = root.ancestors().flat_map(|above| names.iter().map(|name| above.join(name)));
        let mut all = Self { folders: folders.collect(), listed: HashMap::new(), was: 0 };
        all.was = all.now(workspace);
        all
    }

    /// Whether there is something else in them now.
    pub(super) fn changed(&mut self, workspace: &Workspace) -> bool {
        self.now(workspace) != self.was
    }

    fn now(&mut self, workspace: &Workspace) -> u64 {
        let mut hasher = DefaultHasher::new();
        for folder in self.folders.clone() {
            let there = self.names(workspace, &folder);
            there.hash(&mut hasher);
            if there.is_none() {
                continue;
            }
            for name in WRITTEN {
                workspace.stamp_of(&folder.join(name)).hash(&mut hasher);
            }
            // an environment of Python
            let library = folder.join("lib");
            if workspace.stamp_of(&library).is_some()
                && let Ok(path) = workspace.resolve(&library)
            {
                for version in workspace.names(&path, NAMES) {
                    self.names(workspace, &library.join(version).join("site-packages")).hash(&mut hasher);
                }
            }
        }
        hasher.finish()
    }

    /// A number for the names in a folder; nothing when it is not there. Caches begin with a dot.
    fn names(&mut self, workspace: &Workspace, folder: &Path) -> Option<u64> {
        let stamp = workspace.stamp_of(folder)?;
        if let Some((_, names)) = self.listed.get(folder).filter(|(known, _)| *known == stamp) {
            return Some(*names);
        }
        let path = workspace.resolve(folder).ok()?;
        let mut hasher = DefaultHasher::new();
        let own = |name: &String| !name.starts_with('.') && name != "__pycache__";
        workspace.names(&path, NAMES).iter().filter(|name| own(name)).for_each(|name| name.hash(&mut hasher));
        self.listed.insert(folder.to_owned(), (stamp, hasher.finish()));
        Some(hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_installed_shows_and_caches_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str| {
            let file = dir.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, name).unwrap();
        };
        write("app/a.ts");
        let workspace = Workspace::open("w", dir.path()).unwrap();
        let installed = || Installed::first(&workspace, Path::new("app"), &["node_modules", ".venv"]);
        for (name, shows) in [
            ("app/b.ts", false),
            ("node_modules/dep/package.json", true),
            ("node_modules/dep/index.js", false),
            ("node_modules/.cache/x", false),
            ("app/node_modules/.package-lock.json", true),
            ("app/.venv/lib/python3.11/site-packages/six.py", true),
            ("app/.venv/lib/python3.11/site-packages/__pycache__/six.pyc", false),
            ("app/.venv/lib/python3.11/site-packages/rich/__init__.py", true),
        ] {
            let mut before = installed();
            assert!(!before.changed(&workspace), "{name}");
            write(name);
            assert_eq!(before.changed(&workspace), shows, "{name}");
        }
    }
}
