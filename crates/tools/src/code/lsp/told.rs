//! What a server knows of the workspace, and what there is to tell it.

use super::{installed::Installed, unwatched::Unwatched};
use crate::ToolError;
use ::lsp::{ChangeKind, OnDisk};
use ::verify::Detector;
use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use workspace::{ContainedPath, Kind as Entry, Listing, Version, Workspace};

/// How long the index of the workspace is waited for.
const INDEX: Duration = Duration::from_secs(5);
/// Changes at once after which a server is started anew rather than told.
const MANY: usize = 1000;
/// Names in new folders that are looked at.
const NAMES: usize = 5000;
/// Sources larger than this are not shown to a server.
const LARGEST: u64 = 8 << 20;

/// What a server knows of the workspace.
pub(super) struct Told {
    detector: &'static dyn Detector,
    /// The project's folder.
    root: PathBuf,
    /// Up to where of the journal; unknown where the workspace keeps none.
    cursor: Option<u64>,
    /// Its sources and what governs them, each with its stamp when all were last looked at: a new one can be told
    /// from a changed one, and what changed while nobody kept a journal can be found.
    files: HashMap<PathBuf, u64>,
    /// The manifests it began with.
    manifests: HashMap<PathBuf, Version>,
    /// The packages it began with.
    installed: Installed,
    /// Sources that no journal tells of.
    unwatched: Unwatched,
}

/// What is asked of a look.
pub(super) struct Asked<'a> {
    pub(super) open: &'a HashSet<PathBuf>,
    pub(super) shown: &'a [ContainedPath],
}

/// What there is to tell.
pub(super) struct Seen {
    /// Nothing for a file that is gone; its text where somebody needs it.
    pub(super) changed: HashMap<PathBuf, Option<Option<String>>>,
    pub(super) shown: Vec<String>,
    pub(super) stand: Stand,
}

/// Where a look leaves off.
pub(super) struct Stand {
    cursor: Option<u64>,
    /// All files, when all were looked at.
    files: Option<HashMap<PathBuf, u64>>,
    /// Those that are not watched, when they are others now.
    unwatched: Option<Unwatched>,
}

impl Told {
    /// Where the journal stands, and which files there are.
    pub(super) fn first(workspace: &Workspace, detector: &'static dyn Detector, root: PathBuf) -> Self {
        let patience = Instant::now() + INDEX;
        let cursor = loop {
            match (workspace.changes_since(0), workspace.live_status()) {
                (Some(changes), _) => break Some(changes.cursor),
                (None, None) if Instant::now() < patience => std::thread::sleep(Duration::from_millis(2)),
                _ => break None,
            }
        };
        let manifests = detector.dependencies().iter().filter_map(|name| {
            let file = root.join(name);
            Some((file.clone(), version(workspace, &file)?))
        });
        let manifests = manifests.collect();
        let installed = Installed::first(workspace, &root, detector.packages());
        let unwatched = Unwatched::first(workspace, detector, root.clone(), Vec::new());
        let mut told =
            Self { detector, root, cursor, files: HashMap::new(), manifests, installed, unwatched };
        (told.files, told.unwatched) = told.all(workspace);
        told
    }

    /// The files of the language and those that govern it, as they are; and those that are not watched.
    fn all(&self, workspace: &Workspace) -> (HashMap<PathBuf, u64>, Unwatched) {
        let wanted = |path: &Path| self.detector.owns(path) || self.governs(path);
        let Listing { files, ignored } = workspace.listing(&wanted);
        let ignored = ignored.into_iter().map(|(path, _)| path).collect();
        let unwatched = Unwatched::first(workspace, self.detector, self.root.clone(), ignored);
        (files.into_iter().collect(), unwatched)
    }

    /// Whether a file says how others are to be understood.
    fn governs(&self, path: &Path) -> bool {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
        let named = |names: &[&str]| names.contains(&name);
        named(self.detector.markers())
            || named(self.detector.dependencies())
            || self.detector.gatherers().iter().any(|(gatherer, _)| *gatherer == name)
            || named(&["go.sum", "Cargo.lock"])
            || (name.ends_with(".json") && (name.starts_with("tsconfig") || name.starts_with("jsconfig")))
    }

    /// Whether a change of this path may mean something to the server.
    fn concerns(&self, path: &Path) -> bool {
        // Builds write more there than a server can be told, and it wrote part of that itself.
        let built = self.detector.language() == "rust" && path.starts_with(self.root.join("target"));
        // What governs a project may lie above or beside it: what `extends` names, the manifests of what it depends on.
        let below = path.starts_with(&self.root) || self.detector.owns(path) || self.governs(path);
        below && !built && !path.starts_with(".git")
    }

    /// Looks at what changed; `None` when only a new server can know it all.
    pub(super) fn look(
        &mut self,
        workspace: &Workspace,
        asked: &Asked<'_>,
    ) -> Result<Option<Seen>, ToolError> {
        let changes = self.cursor.and_then(|cursor| workspace.changes_since(cursor));
        // Read after that: what changes in between is told the next time, and never taken back by an older text.
        let shown = asked.shown.iter().map(|path| source(workspace, path)).collect::<Result<Vec<_>, _>>()?;
        let cursor = changes.as_ref().map(|changes| changes.cursor);
        let (paths, files, unwatched) = match changes.and_then(|changes| changes.paths) {
            Some(paths) => {
                let unwatched = match paths
                    .iter()
                    .any(|path| path.ends_with(".gitignore") || path.ends_with(".ignore"))
                {
                    true => Some(self.all(workspace).1),
                    false => self.unwatched.look(workspace, &self.new_and_ignored(workspace, &paths)),
                };
                (paths, None, unwatched)
            }
            // Nobody knows what changed: compare.
            None => {
                let (now, unwatched) = self.all(workspace);
                (self.differing(&now), Some(now), Some(unwatched))
            }
        };
        let others = unwatched.iter().flat_map(|now| self.unwatched.differing(now));
        let other = |path: &PathBuf| !self.owns(path) && is_ignored_file(workspace, path);
        let concerned = paths.into_iter().filter(|path| self.concerns(path) && !other(path));
        let paths: Vec<PathBuf> = concerned.chain(others).collect();
        // The journal tells of a file rather once too often.
        let depends = |path: &PathBuf| {
            let named = self.detector.dependencies().iter().any(|name| *path == self.root.join(name));
            named && version(workspace, path) != self.manifests.get(path).copied()
        };
        let anew = paths.len() > MANY || paths.iter().any(depends);
        if anew || self.installed.changed(workspace) {
            return Ok(None);
        }
        let mut changed = HashMap::new();
        for relative in paths {
            let place = workspace.resolve(&relative).ok();
            let kind = place.as_ref().and_then(|place| workspace.kind(place));
            // What happened in a folder is told file by file.
            if kind == Some(Entry::Folder) {
                continue;
            }
            let place = place.filter(|_| kind.is_some());
            let needed = asked.open.contains(&relative);
            let now = place.map(|place| if needed { source(workspace, &place).ok() } else { None });
            changed.insert(relative, now);
        }
        Ok(Some(Seen { changed, shown, stand: Stand { cursor, files, unwatched } }))
    }

    /// Whether it is a source or governs some.
    fn owns(&self, path: &Path) -> bool {
        self.detector.owns(path) || self.governs(path)
    }

    /// What is there now and a rule ignores: folders and sources, of which the journal tells when they come, and no
    /// more; of sources in a folder that is new itself, not even that.
    fn new_and_ignored(&self, workspace: &Workspace, changed: &[PathBuf]) -> Vec<PathBuf> {
        let kind = |path: &Path| workspace.resolve(path).ok().and_then(|place| workspace.kind(&place));
        let mut found = Vec::new();
        let mut next: Vec<PathBuf> = changed.to_vec();
        let mut names = 0;
        while let Some(path) = next.pop() {
            if self.detector.owns(&path) {
                found.extend(is_ignored_file(workspace, &path).then_some(path));
            } else if kind(&path) == Some(Entry::Folder) {
                if workspace.leaves_out(&path.join("file")) {
                    found.push(path);
                } else if let Ok(place) = workspace.resolve(&path)
                    && names < NAMES
                {
                    let inside = workspace.names(&place, NAMES - names);
                    names += inside.len();
                    next.extend(inside.iter().map(|name| path.join(name)));
                }
            }
        }
        found
    }

    /// Files that are not what they were, or may not be.
    fn differing(&self, now: &HashMap<PathBuf, u64>) -> Vec<PathBuf> {
        let gone = self.files.keys().filter(|path| !now.contains_key(*path) && !self.unwatched.has(path));
        // 0 is a file that changed so lately that a further change would not show.
        let other = now.iter().filter(|(path, stamp)| **stamp == 0 || self.files.get(*path) != Some(*stamp));
        gone.chain(other.map(|(path, _)| path)).cloned().collect()
    }

    /// Sources among what changed that are new, in folders that had none.
    pub(super) fn in_new_folders(&self, workspace: &Workspace, seen: &Seen) -> Vec<PathBuf> {
        let is_new = |path: &&PathBuf| !self.files.contains_key(*path) && self.detector.owns(path);
        let there = seen.changed.iter().filter(|(_, now)| now.is_some()).map(|(path, _)| path);
        let mut new: Vec<&PathBuf> = there.filter(is_new).collect();
        if !new.is_empty() {
            let sources = self.files.keys().filter(|path| self.detector.owns(path));
            let known: HashSet<&Path> = sources.filter_map(|path| path.parent()).collect();
            new.retain(|path| path.parent().is_none_or(|folder| !known.contains(folder)));
        }
        new.into_iter().filter(|path| !workspace.leaves_out(path)).cloned().collect()
    }

    /// What became of a file that changed.
    pub(super) fn becomes(&mut self, relative: &Path, is_there: bool) -> ChangeKind {
        let known = self.files.contains_key(relative) || self.unwatched.has(relative);
        match (is_there, known) {
            (false, _) => {
                self.files.remove(relative);
                ChangeKind::Deleted
            }
            (true, true) => ChangeKind::Changed,
            (true, false) => {
                if self.detector.owns(relative) || self.governs(relative) {
                    self.files.insert(relative.to_owned(), 0);
                }
                ChangeKind::Created
            }
        }
    }

    /// The server knows what a look saw.
    pub(super) fn follow(&mut self, stand: Stand) {
        self.cursor = stand.cursor;
        if let Some(files) = stand.files {
            self.files = files;
        }
        if let Some(unwatched) = stand.unwatched {
            self.unwatched = unwatched;
        }
    }
}

/// Whether a file is there now that a rule ignores.
fn is_ignored_file(workspace: &Workspace, path: &Path) -> bool {
    workspace.resolve(path).is_ok_and(|place| workspace.kind(&place) == Some(Entry::File))
        && workspace.leaves_out(path)
}

fn version(workspace: &Workspace, file: &Path) -> Option<Version> {
    let path = workspace.resolve(file).ok()?;
    Some(Version::of(&workspace.read_bytes(&path, LARGEST).ok()?))
}

/// What there is of a file now.
pub(super) fn on_disk(workspace: &Workspace, relative: &Path) -> OnDisk {
    let Ok(path) = workspace.resolve(relative) else { return OnDisk::Other };
    match (source(workspace, &path), workspace.kind(&path)) {
        (Ok(text), _) => OnDisk::Text(text),
        (Err(_), None) => OnDisk::Gone,
        (Err(_), Some(_)) => OnDisk::Other,
    }
}

/// A source's text as servers see it: without a byte order mark.
pub(super) fn source(workspace: &Workspace, path: &ContainedPath) -> Result<String, ToolError> {
    Ok(text(workspace.read_bytes(path, LARGEST)?))
}

/// The same of what a path leads to, when that has at most `limit` bytes.
pub(super) fn source_of(workspace: &Workspace, relative: &Path, limit: u64) -> Option<String> {
    workspace.bytes_of(relative, limit.min(LARGEST)).map(text)
}

fn text(bytes: Vec<u8>) -> String {
    let text = String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::verify::Languages;
    use std::{fs, sync::Arc};
    use workspace::LiveOptions;

    fn changed(told: &mut Told, workspace: &Workspace) -> (Vec<(PathBuf, bool)>, Stand) {
        let asked = Asked { open: &HashSet::new(), shown: &[] };
        let seen = told.look(workspace, &asked).unwrap().expect("no new server is needed");
        let mut all: Vec<_> = seen.changed.into_iter().map(|(path, now)| (path, now.is_some())).collect();
        all.sort();
        (all, seen.stand)
    }

    #[test]
    fn what_a_lost_journal_leaves_unknown_is_found_by_comparing() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        for name in ["Cargo.toml", "same.rs", "changed.rs", "gone.rs", "notes.txt"] {
            write(name, "");
        }
        let workspace = Arc::new(Workspace::open("w", dir.path()).unwrap());
        workspace.go_live_now(LiveOptions::default());
        let rust = Languages::shipped().all().iter().copied().find(|one| one.language() == "rust").unwrap();
        let mut told = Told::first(&workspace, rust, PathBuf::new());
        assert!(changed(&mut told, &workspace).0.is_empty());
        write("changed.rs", "fn new() {}");
        write("new.rs", "");
        fs::remove_file(dir.path().join("gone.rs")).unwrap();
        fs::create_dir(dir.path().join("target")).unwrap();
        (0..MANY + 10).for_each(|n| write(&format!("target/{n}.rs"), ""));
        // by the journal, and without it: files too young to be sure of may be told once too often
        let expected = |path: &str| match path {
            "gone.rs" => Some(false),
            "changed.rs" | "new.rs" => Some(true),
            _ => None,
        };
        for (cursor, exact) in [(told.cursor, true), (Some(u64::MAX), false), (None, false)] {
            told.cursor = cursor;
            let (all, stand) = changed(&mut told, &workspace);
            let told_of =
                |name: &str| all.iter().find(|(path, _)| path == Path::new(name)).map(|(_, is)| *is);
            for name in ["changed.rs", "new.rs", "gone.rs"] {
                assert_eq!(told_of(name), expected(name), "{name} {cursor:?}");
            }
            assert!(all.iter().all(|(path, _)| !path.starts_with("target")), "{all:?}");
            assert!(!exact || (all.len() == 3), "{all:?}");
            if cursor == Some(u64::MAX) {
                assert_eq!(told.becomes(Path::new("gone.rs"), false), ChangeKind::Deleted);
                assert_eq!(told.becomes(Path::new("new.rs"), true), ChangeKind::Created);
                assert_eq!(told.becomes(Path::new("changed.rs"), true), ChangeKind::Changed);
                // from here on the journal is followed again
                told.follow(stand);
                assert!(changed(&mut told, &workspace).0.is_empty());
                told.files.insert("gone.rs".into(), 1);
                told.files.remove(Path::new("new.rs"));
                told.files.insert("changed.rs".into(), 1);
            }
        }
    }

    /// What a generator writes is mostly ignored, and sources import it all the same.
    #[test]
    fn sources_that_rules_ignore_are_compared() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let file = dir.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        write(".gitignore", "gen/\nnode_modules/\nmade.go\n");
        for name in
            ["go.mod", "main.go", "made.go", "gen/a/a.go", "gen/b.go", "gen/b.txt", "node_modules/n.go"]
        {
            write(name, "package x\n");
        }
        let workspace = Arc::new(Workspace::open("w", dir.path()).unwrap());
        workspace.go_live_now(LiveOptions::default());
        let go = Languages::shipped().all().iter().copied().find(|one| one.language() == "go").unwrap();
        let mut told = Told::first(&workspace, go, PathBuf::new());
        let changed = |told: &mut Told| {
            let (all, stand) = changed(told, &workspace);
            for (path, is_there) in &all {
                told.becomes(path, *is_there);
            }
            told.follow(stand);
            all.iter().map(|(path, is)| (path.to_str().unwrap().to_owned(), *is)).collect::<Vec<_>>()
        };
        assert_eq!(changed(&mut told), []);
        let there = |name: &str| (name.to_owned(), true);
        write("gen/a/a.go", "package a // longer\n");
        write("gen/b.txt", "longer\n");
        write("made.go", "package x // longer\n");
        write("node_modules/n.go", "package n // longer\n");
        assert_eq!(changed(&mut told), [there("gen/a/a.go"), there("made.go")]);
        write("gen/c/d/new.go", "package d\n");
        fs::remove_file(dir.path().join("gen/b.go")).unwrap();
        assert_eq!(changed(&mut told), [("gen/b.go".to_owned(), false), there("gen/c/d/new.go")]);
        // a folder that was not there
        fs::remove_dir_all(dir.path().join("gen")).unwrap();
        let all = changed(&mut told);
        assert!(
            ["gen/a/a.go", "gen/c/d/new.go"].iter().all(|gone| all.contains(&((*gone).to_owned(), false)))
        );
        write("gen/again.go", "package x\n");
        assert_eq!(changed(&mut told), [there("gen/again.go")]);
        write("gen/again.go", "package x // longer\n");
        assert_eq!(changed(&mut told), [there("gen/again.go")]);
        // another rule
        write("out/z.go", "package z\n");
        assert_eq!(changed(&mut told), [there("out/z.go")]);
        write(".gitignore", "gen/\nout/\n");
        changed(&mut told);
        write("out/z.go", "package z // longer\n");
        assert_eq!(changed(&mut told), [there("out/z.go")]);
        assert_eq!(changed(&mut told), []);
    }
}
