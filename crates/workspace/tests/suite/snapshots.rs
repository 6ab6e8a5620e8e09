//! Snapshots, read back by real git.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};
use workspace::{Caller, Change, Retention, SnapshotError, Snapshots, UndoOptions, Workspace};

/// Whoever calls in these tests.
pub(crate) fn who() -> Caller {
    Caller { session: "s".into(), tool: "test".into(), summary: String::new() }
}

pub(crate) struct Place {
    _temp: Vec<tempfile::TempDir>,
    pub(crate) root: PathBuf,
    pub(crate) store: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let (root, store) = (temp.path().join("work"), temp.path().join("store"));
        fs::create_dir(&root).unwrap();
        Self { _temp: vec![temp], root, store }
    }

    /// Folders that are somebody else's to remove.
    pub(crate) fn at(root: &Path, store: &Path) -> Self {
        Self { _temp: Vec::new(), root: root.to_owned(), store: store.to_owned() }
    }

    /// With the store on another file system, in memory: for hundreds of steps that are not about waiting for a disk.
    pub(crate) fn with_store_in_memory() -> Self {
        let mut place = Self::new();
        if let Ok(memory) = tempfile::tempdir_in("/dev/shm") {
            place.store = memory.path().join("store");
            place._temp.push(memory);
        }
        place
    }

    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn open(&self) -> Snapshots {
        let workspace = Arc::new(Workspace::open("w", &self.root).unwrap());
        Snapshots::open(workspace, &self.store, Retention::default()).unwrap()
    }

    pub(crate) fn git(&self, args: &[&str]) -> String {
        let output = Command::new("git").arg("--git-dir").arg(&self.store).args(args).output().unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Everything on disk but `.git`: path to content, mode or link target.
    pub(crate) fn state(&self) -> BTreeMap<String, String> {
        let mut out = BTreeMap::new();
        collect(&self.root, &self.root, &mut out);
        out
    }
}

fn collect(root: &Path, folder: &Path, out: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().is_some_and(|name| name == ".git") {
            continue;
        }
        let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        let meta = fs::symlink_metadata(&path).unwrap();
        if meta.is_dir() {
            out.insert(format!("{name}/"), String::new());
            collect(root, &path, out);
        } else if meta.is_symlink() {
            out.insert(name, format!("-> {}", fs::read_link(&path).unwrap().display()));
        } else {
            let content = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
            out.insert(name, format!("{:o} {content}", meta.permissions().mode() & 0o111));
        }
    }
}

fn full(place: &Place) {
    place.write("plain.txt", "one\n");
    place.write("src/deep/er/mod.rs", "fn main() {}\n");
    place.write("odd \n name\t\"'\\", "odd\n");
    place.write("binary", [0, 159, 146, 150]);
    place.write("run.sh", "#!/bin/sh\n");
    fs::set_permissions(place.root.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("plain.txt", place.root.join("link")).unwrap();
    symlink("/nowhere/at/all", place.root.join("dangling")).unwrap();
    fs::create_dir_all(place.root.join("empty/inner")).unwrap();
    place.write(".gitignore", "ignored/\n*.log\n");
    place.write("ignored/keep", "ignored\n");
    place.write("a.log", "log\n");
}

#[test]
fn plain_git_reads_what_was_stored() {
    let place = Place::new();
    full(&place);
    let snapshots = place.open();
    let id = snapshots.create("first", "a description").unwrap();
    place.write("plain.txt", "two\n");
    snapshots.create("v1..2.lock", "").unwrap();
    place.git(&["fsck", "--strict", "--no-dangling"]);
    for index in fs::read_dir(place.store.join("objects/pack")).unwrap() {
        let index = index.unwrap().path();
        if index.extension().is_some_and(|extension| extension == "idx") {
            place.git(&["verify-pack", index.to_str().unwrap()]);
        }
    }
    assert_eq!(place.git(&["rev-parse", "refs/snapshots/first"]).trim(), id);
    assert_eq!(place.git(&["show", &format!("{id}:plain.txt")]), "one\n");
    assert_eq!(place.git(&["log", "-1", "--format=%s", &id]).trim(), "a description");
    let listed = place.git(&["ls-tree", "-r", "-z", &id]);
    let names: Vec<&str> =
        listed.split_terminator('\0').map(|line| line.split_once('\t').unwrap().1).collect();
    let expected = [
        ".gitignore",
        "binary",
        "dangling",
        "link",
        "odd \n name\t\"'\\",
        "plain.txt",
        "run.sh",
        "src/deep/er/mod.rs",
    ];
    assert_eq!(names, expected);
    assert!(listed.contains("100755 blob") && listed.contains("120000 blob"));
    let named: Vec<String> = snapshots.list().unwrap().into_iter().map(|s| s.name).collect();
    assert_eq!(named.len(), 2);
    assert!(named.contains(&"v1..2.lock".to_owned()));
}

/// What git would not check out everywhere is a file like any other here, and the store that holds it is sound.
#[test]
fn names_that_git_objects_to_are_kept_too() {
    let place = Place::new();
    // As stores were made at first.
    fs::create_dir(&place.store).unwrap();
    fs::write(place.store.join("config"), "[core]\n\trepositoryformatversion = 0\n\tbare = true\n").unwrap();
    for name in
        ["git~1", "GIT~1/x", ".git /x", ".git.", ".git::$INDEX_ALLOCATION", ".g\u{200c}it/x", "aux:x\\.."]
    {
        place.write(name, "x");
    }
    place.write(".gitmodules", "[submodule \"../x\"]\n\tpath = -x\n\turl = -u\n\tupdate = !rm\n");
    place.write("gitmod~1", "[broken");
    symlink("elsewhere", place.root.join(".gitmodules ")).unwrap();
    place.write("deeper/.GITMODULES/x", "a folder");
    let state = place.state();
    let snapshots = place.open();
    snapshots.create("s", "").unwrap();
    for entry in fs::read_dir(&place.root).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() { fs::remove_dir_all(entry).unwrap() } else { fs::remove_file(entry).unwrap() }
    }
    snapshots.restore("s", &who()).unwrap();
    assert_eq!(place.state(), state);
    assert_eq!(place.git(&["show", "refs/snapshots/s:git~1"]), "x");
    place.git(&["fsck", "--no-dangling"]);
    place.git(&["fsck", "--strict", "--no-dangling"]);
    // What somebody else wrote there is theirs.
    place.git(&["config", "user.name", "me"]);
    drop(snapshots);
    drop(place.open());
    assert_eq!(place.git(&["config", "user.name"]), "me\n");
}

#[test]
fn a_restore_brings_back_everything_and_spares_what_is_ignored() {
    let place = Place::new();
    full(&place);
    let before = place.state();
    let snapshots = place.open();
    snapshots.create("good", "").unwrap();

    place.write("plain.txt", "changed\n");
    fs::remove_dir_all(place.root.join("src")).unwrap();
    place.write("src", "now a file\n");
    fs::remove_file(place.root.join("run.sh")).unwrap();
    place.write("run.sh/now-a-folder", "x");
    fs::set_permissions(place.root.join("binary"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_file(place.root.join("link")).unwrap();
    symlink("elsewhere", place.root.join("link")).unwrap();
    fs::remove_dir(place.root.join("empty/inner")).unwrap();
    place.write("new/file", "new\n");
    place.write("ignored/later", "ignored too\n");
    place.write("new/b.log", "a log in a new folder\n");

    let restored = snapshots.restore("good", &who()).unwrap();
    let mut expected = before.clone();
    expected.insert("ignored/later".into(), "0 ignored too\n".into());
    expected.insert("new/".into(), String::new());
    expected.insert("new/b.log".into(), "0 a log in a new folder\n".into());
    assert_eq!(place.state(), expected);
    assert!(restored.changes.contains(&(Change::Deleted, "new/file".into())));
    assert!(restored.changes.contains(&(Change::Created, "src/deep/er/mod.rs".into())));
    assert!(restored.changes.contains(&(Change::Changed, "plain.txt".into())));
    // A restore can itself be undone.
    snapshots.undo(&who(), UndoOptions::default()).unwrap();
    assert_eq!(fs::read_to_string(place.root.join("plain.txt")).unwrap(), "changed\n");
    assert_eq!(fs::read_to_string(place.root.join("src")).unwrap(), "now a file\n");
    place.git(&["fsck", "--strict", "--no-dangling"]);
}

#[test]
fn a_file_that_became_ignored_is_not_written_over() {
    let place = Place::new();
    place.write("settings", "old\n");
    let snapshots = place.open();
    snapshots.create("s", "").unwrap();
    place.write(".gitignore", "settings\n");
    place.write("settings", "precious\n");
    let restored = snapshots.restore("s", &who()).unwrap();
    assert!(restored.changes.contains(&(Change::KeptIgnored, "settings".into())));
    assert_eq!(fs::read_to_string(place.root.join("settings")).unwrap(), "precious\n");
}

#[test]
fn the_users_repository_is_left_as_it_was() {
    let place = Place::new();
    let git = |args: &[&str]| {
        let done = Command::new("git")
            .current_dir(&place.root)
            .args(["-c", "user.name=t", "-c", "user.email=t@example.org"])
            .args(args)
            .output()
            .unwrap();
        assert!(done.status.success(), "{args:?} {}", String::from_utf8_lossy(&done.stderr));
    };
    git(&["init", "-q"]);
    place.write("f", "1");
    git(&["add", "f"]);
    git(&["commit", "-qm", "one"]);
    place.write("nested/g", "nested");
    let nested = place.root.join("nested");
    assert!(Command::new("git").current_dir(&nested).args(["init", "-q"]).status().unwrap().success());
    let fingerprint = || {
        let mut files = Vec::new();
        let list =
            Command::new("find").current_dir(&place.root).args([".git", "-type", "f"]).output().unwrap();
        for path in String::from_utf8_lossy(&list.stdout).lines() {
            files.push((path.to_owned(), fs::read(place.root.join(path)).unwrap()));
        }
        files.sort();
        files
    };
    let before = fingerprint();
    let snapshots = place.open();
    snapshots.create("s", "").unwrap();
    place.write("f", "2");
    place.write("nested/g", "changed inside a repository of its own");
    snapshots.restore("s", &who()).unwrap();
    assert!(fingerprint() == before);
    assert_eq!(fs::read_to_string(place.root.join("f")).unwrap(), "1");
    assert_eq!(
        fs::read_to_string(place.root.join("nested/g")).unwrap(),
        "changed inside a repository of its own"
    );
}

#[test]
fn differences_are_shown() {
    let place = Place::new();
    place.write("a", "one\ntwo\n");
    place.write("b/c", "same\n");
    let snapshots = place.open();
    snapshots.create("s", "").unwrap();
    assert_eq!(snapshots.diff("s", None, 500).unwrap(), "");
    place.write("a", "one\n2\n");
    place.write("b/new", "n\n");
    let diff = snapshots.diff("s", None, 500).unwrap();
    assert!(diff.contains("-two\n+2\n"), "{diff}");
    assert!(diff.contains("b/new: new"), "{diff}");
    assert!(!snapshots.diff("s", Some(Path::new("b")), 500).unwrap().contains("two"));
    assert!(matches!(snapshots.diff("t", None, 500), Err(SnapshotError::Unknown { .. })));
    assert!(matches!(snapshots.create("s", ""), Err(SnapshotError::Exists(_))));
    for bad in ["", ".x", "-x", "a/b", "a b", "é"] {
        assert!(matches!(snapshots.create(bad, ""), Err(SnapshotError::Name(_))), "{bad}");
    }
    snapshots.delete("s").unwrap();
    assert!(matches!(snapshots.delete("s"), Err(SnapshotError::Unknown { .. })));
}

#[test]
fn many_packs_are_merged_and_old_automatic_ones_forgotten() {
    let place = Place::new();
    let workspace = Arc::new(Workspace::open("w", &place.root).unwrap());
    let retention = Retention { count: 5, ..Retention::default() };
    let snapshots = Snapshots::open(workspace, &place.store, retention).unwrap();
    for n in 0..120 {
        place.write("f", format!("{n}"));
        place.write(&format!("d{}/g", n % 7), format!("{n}"));
        // Whoever begins finds what happened since and makes a step of it; whoever ends tidies up.
        let call = snapshots.begin(&who()).unwrap();
        snapshots.finish(&call).unwrap();
    }
    place.git(&["fsck", "--strict", "--no-dangling"]);
    let packs = fs::read_dir(place.store.join("objects/pack")).unwrap().count() / 2;
    assert!(packs <= 51, "{packs}");
    // Three times what is asked for calls, and one more: the difference to it is the oldest step.
    assert_eq!(place.git(&["for-each-ref", "refs/automatic"]).lines().count(), 16);
    snapshots.restore("auto-119", &who()).unwrap();
    assert_eq!(fs::read_to_string(place.root.join("f")).unwrap(), "118");
}

/// What was there before a call is part of it, however long ago it came to be.
#[test]
fn a_call_after_a_long_time_can_be_taken_back() {
    let place = Place::new();
    place.write("f", "old");
    let open = || {
        let workspace = Arc::new(Workspace::open("w", &place.root).unwrap());
        let retention = Retention { age: Duration::from_secs(3), ..Retention::default() };
        Snapshots::open(workspace, &place.store, retention).unwrap()
    };
    let change = |snapshots: &Snapshots, text: &str| {
        let call = snapshots.begin(&who()).unwrap();
        place.write("f", text);
        snapshots.finish(&call).unwrap();
    };
    let snapshots = open();
    snapshots.create("s", "").unwrap();
    change(&snapshots, "forgotten");
    change(&snapshots, "work of long ago");
    drop(snapshots);
    thread::sleep(Duration::from_secs(5));

    let snapshots = open();
    change(&snapshots, "new");
    assert_eq!(
        snapshots.undo(&who(), UndoOptions::default()).unwrap().changes,
        [(Change::Changed, "f".into())]
    );
    assert_eq!(fs::read_to_string(place.root.join("f")).unwrap(), "work of long ago");
    // What is too old is forgotten all the same.
    let error = snapshots.undo(&who(), UndoOptions::default()).unwrap_err();
    assert!(matches!(error, SnapshotError::NothingToUndo { .. }), "{error}");
    thread::sleep(Duration::from_secs(5));

    // The automatic snapshot that a restore takes first is there when it is over.
    let before = snapshots.restore("s", &who()).unwrap().before;
    assert_eq!(fs::read_to_string(place.root.join("f")).unwrap(), "old");
    snapshots.restore(&before, &who()).unwrap();
    assert_eq!(fs::read_to_string(place.root.join("f")).unwrap(), "work of long ago");
}

const KILLED: &str = "SNAPSHOT_RESTORE_CHILD";

/// Not a test of its own: the process that [`a_killed_restore_loses_nothing`] kills.
#[test]
fn restore_child() {
    let Some(folder) = std::env::var_os(KILLED) else { return };
    let folder = PathBuf::from(folder);
    let workspace = Arc::new(Workspace::open("w", folder.join("work")).unwrap());
    let snapshots = Snapshots::open(workspace, &folder.join("store"), Retention::default()).unwrap();
    loop {
        snapshots.restore("a", &who()).unwrap();
        snapshots.restore("b", &who()).unwrap();
    }
}

#[test]
fn a_killed_restore_loses_nothing() {
    // More than are written one by one: those written in place are the dangerous ones.
    killed(140, 100);
}

#[test]
fn a_killed_restore_of_a_few_files_loses_nothing() {
    killed(20, 40);
}

/// A process that puts one of two states in the place of the other, over and over, is killed again and again.
fn killed(files: usize, rounds: u64) {
    let place = Place::new();
    let fill = |tag: &str, other: &str| {
        for n in 0..files {
            place.write(&format!("d{}/f{n}", n % 6), format!("{tag} {n}\n").repeat(50));
        }
        place.write(&format!("only-{tag}"), tag);
        // A file where the other has a folder, a symlink where it has a file, and what can be run in one only.
        place.write(&format!("in-turn-{tag}"), tag);
        place.write(&format!("in-turn-{other}/{tag}"), tag);
        symlink(tag, place.root.join(format!("link-{tag}"))).unwrap();
        place.write(&format!("link-{other}"), tag);
        let bits = if tag == "a" { 0o755 } else { 0o644 };
        fs::set_permissions(place.root.join("d0/f0"), fs::Permissions::from_mode(bits)).unwrap();
        place.state()
    };
    let snapshots = place.open();
    let a = fill("a", "b");
    snapshots.create("a", "").unwrap();
    for name in ["only-a", "in-turn-a", "link-a", "link-b"] {
        fs::remove_file(place.root.join(name)).unwrap();
    }
    fs::remove_dir_all(place.root.join("in-turn-b")).unwrap();
    let b = fill("b", "a");
    snapshots.create("b", "").unwrap();
    drop(snapshots);
    for round in 0..rounds {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "snapshots::restore_child", "--nocapture"])
            .env(KILLED, place.root.parent().unwrap())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_micros(8_000 + round * 433 % 60_000));
        child.kill().unwrap();
        child.wait().unwrap();
        // The next start finishes what was begun: one of the two states, whole.
        let snapshots = place.open();
        let now = place.state();
        assert!(now == a || now == b, "round {round}");
        snapshots.restore("a", &who()).unwrap();
        assert!(place.state() == a, "round {round}");
        snapshots.restore("b", &who()).unwrap();
        assert!(place.state() == b, "round {round}");
    }
    place.git(&["fsck", "--strict", "--no-dangling"]);
}

/// Three or more within one second, whose names would be listed otherwise.
#[test]
fn snapshots_are_listed_newest_first() {
    let place = Place::new();
    place.write("f", "one");
    let snapshots = place.open();
    let names = ["z", "a", "m", "b", "y", "c"];
    names.iter().for_each(|name| drop(snapshots.create(name, "").unwrap()));
    let listed: Vec<String> = snapshots.list().unwrap().into_iter().map(|snapshot| snapshot.name).collect();
    assert!(listed.iter().rev().eq(&names), "{listed:?}");
}
