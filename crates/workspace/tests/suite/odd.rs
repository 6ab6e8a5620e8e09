//! Snapshots and undo where others lose data: odd repositories, large files, a full disk.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, SystemTime},
};

use rustix::fs::{AtFlags, FlockOperation, Mode as Bits, OFlags};

use crate::kit::myself;
use crate::snapshots::{Place, who};
use workspace::{Caller, Change, LiveOptions, Retention, SnapshotError, Snapshots, UndoOptions, Workspace};

pub(crate) fn git(folder: &Path, args: &[&str]) -> bool {
    let done = Command::new("git")
        .current_dir(folder)
        .args(["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always"])
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_EDITOR", "true")
        .output()
        .unwrap();
    done.status.success()
}

/// Every file below a `.git`, with its content.
fn fingerprint(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let list = Command::new("find").arg(folder).args(["-type", "f"]).output().unwrap();
    let read = |path: &str| (path.to_owned(), fs::read(path).unwrap_or_default());
    let mut files: Vec<_> = String::from_utf8_lossy(&list.stdout).lines().map(read).collect();
    files.sort();
    files
}

/// A snapshot, a change, a restore, a call, an undo: the tree comes back, and `untouched` stays as it is.
fn there_and_back(place: &Place, untouched: &[PathBuf]) {
    let snapshots = place.open();
    let before = place.state();
    let prints = || untouched.iter().map(|path| fingerprint(path)).collect::<Vec<_>>();
    let repository = prints();
    snapshots.create("s", "").unwrap();
    place.write("tracked", "changed");
    place.write("new/file", "new");
    fs::remove_file(place.root.join("gone")).unwrap();
    snapshots.restore("s", &who()).unwrap();
    assert_eq!(place.state(), before);
    let call = snapshots.begin(&who()).unwrap();
    place.write("tracked", "by a call");
    fs::create_dir_all(place.root.join("empty")).unwrap();
    snapshots.finish(&call).unwrap();
    snapshots.undo(&who(), UndoOptions::default()).unwrap();
    assert_eq!(place.state(), before);
    assert!(prints() == repository, "the repository was touched");
}

fn filled() -> Place {
    let place = Place::new();
    place.write("tracked", "one\n");
    place.write("gone", "two\n");
    place.write(".gitignore", "*.log\n");
    place.write("a.log", "ignored\n");
    place
}

fn repository() -> Place {
    let place = filled();
    assert!(git(&place.root, &["init", "-q", "-b", "main"]));
    assert!(git(&place.root, &["add", "-A"]) && git(&place.root, &["commit", "-qm", "one"]));
    place
}

#[test]
fn in_a_worktree() {
    let main = repository();
    let place = Place::new();
    fs::remove_dir(&place.root).unwrap();
    assert!(git(&main.root, &["worktree", "add", "-q", place.root.to_str().unwrap(), "-b", "other"]));
    assert!(place.root.join(".git").is_file());
    there_and_back(&place, &[main.root.join(".git"), place.root.join(".git")]);
}

#[test]
fn with_a_submodule_and_lfs_pointers() {
    let other = repository();
    let place = repository();
    assert!(git(&place.root, &["submodule", "--quiet", "add", other.root.to_str().unwrap(), "sub"]));
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n";
    place.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n");
    place.write("large.bin", pointer);
    place.write("sub/untracked", "inside the submodule");
    there_and_back(&place, &[place.root.join(".git"), place.root.join("sub")]);
    // The submodule is not part of it: what happens there stays.
    let snapshots = place.open();
    let call = snapshots.begin(&who()).unwrap();
    place.write("sub/tracked", "changed inside");
    place.write("large.bin", "real bytes");
    snapshots.finish(&call).unwrap();
    let undone = snapshots.undo(&who(), UndoOptions::default()).unwrap();
    assert_eq!(undone.changes, [(Change::Changed, "large.bin".into())]);
    assert_eq!(fs::read_to_string(place.root.join("large.bin")).unwrap(), pointer);
    assert_eq!(fs::read_to_string(place.root.join("sub/tracked")).unwrap(), "changed inside");
}

#[test]
fn in_the_middle_of_a_merge_and_of_a_rebase() {
    for (words, state) in [(["merge", "side"], "MERGE_HEAD"), (["rebase", "side"], "rebase-merge")] {
        let place = repository();
        assert!(git(&place.root, &["checkout", "-qb", "side"]));
        place.write("tracked", "side\n");
        assert!(
            git(&place.root, &["commit", "-qam", "side"]) && git(&place.root, &["checkout", "-q", "main"])
        );
        place.write("tracked", "main\n");
        assert!(git(&place.root, &["commit", "-qam", "main"]));
        assert!(!git(&place.root, &words), "it was to stop at a conflict");
        assert!(place.root.join(".git").join(state).exists());
        there_and_back(&place, &[place.root.join(".git")]);
        assert!(fs::read_to_string(place.root.join("tracked")).unwrap().contains("<<<<<<<"));
    }
}

#[test]
fn in_no_repository_a_broken_one_and_a_bare_one() {
    there_and_back(&filled(), &[]);
    let broken = filled();
    fs::write(broken.root.join(".git"), "gitdir: /nowhere/at/all\n").unwrap();
    there_and_back(&broken, &[]);
    let empty = filled();
    fs::create_dir(empty.root.join(".git")).unwrap();
    there_and_back(&empty, &[empty.root.join(".git")]);
    let bare = filled();
    assert!(git(&bare.root, &["init", "-q", "--bare"]));
    there_and_back(&bare, &[bare.root.join("objects"), bare.root.join("hooks")]);
}

#[test]
fn in_a_subfolder_of_a_repository() {
    let outer = repository();
    fs::write(outer.root.join(".gitignore"), "*.log\nsub/build/\n").unwrap();
    let inner = outer.root.join("sub");
    fs::create_dir_all(inner.join("build")).unwrap();
    fs::write(inner.join("build/out"), "ignored from above").unwrap();
    fs::write(inner.join("f"), "0").unwrap();
    let workspace = Arc::new(Workspace::open("w", &inner).unwrap());
    let snapshots = Snapshots::open(workspace, &outer.store, Retention::default()).unwrap();
    snapshots.create("s", "").unwrap();
    fs::write(inner.join("f"), "1").unwrap();
    fs::write(inner.join("build/out"), "built again").unwrap();
    let restored = snapshots.restore("s", &who()).unwrap();
    assert_eq!(restored.changes, [(Change::Changed, "f".into())]);
    assert_eq!(fs::read_to_string(inner.join("build/out")).unwrap(), "built again");
}

#[test]
fn beside_a_file_of_a_gigabyte() {
    let place = filled();
    let huge = fs::File::create(place.root.join("huge")).unwrap();
    huge.set_len(1 << 30).unwrap();
    let snapshots = place.open();
    let call = snapshots.begin(&who()).unwrap();
    place.write("tracked", "1");
    huge.set_len((1 << 30) + 1).unwrap();
    snapshots.finish(&call).unwrap();
    let undone = snapshots.undo(&who(), UndoOptions::default()).unwrap();
    assert_eq!(undone.changes, [(Change::Changed, "tracked".into())], "large files are not part of it");
    assert_eq!(undone.left_out, [Path::new("huge")], "and that is said");
    // One that only one side knows is neither deleted nor written over, whichever way it went.
    for size in [(1 << 30) + 2, 5, 1 << 30] {
        let call = snapshots.begin(&who()).unwrap();
        huge.set_len(size).unwrap();
        snapshots.finish(&call).unwrap();
        let undone = snapshots.undo(&who(), UndoOptions::default()).unwrap();
        assert_eq!((undone.changes, undone.left_out), (vec![], vec!["huge".into()]), "{size}");
        assert_eq!(huge.metadata().unwrap().len(), size);
    }
    let none = snapshots.undo(&who(), UndoOptions::default());
    assert!(matches!(none, Err(SnapshotError::NothingToUndo { .. })), "{none:?}");
    // A name of one's own takes what an automatic one leaves out.
    huge.set_len(65 << 20).unwrap();
    snapshots.create("s", "").unwrap();
    fs::remove_file(place.root.join("huge")).unwrap();
    let restored = snapshots.restore("s", &who()).unwrap();
    assert_eq!(restored.changes, [(Change::Created, "huge".into())]);
    // Once it is ignored, no snapshot takes it.
    fs::File::create(place.root.join("huge")).unwrap().set_len(70 << 20).unwrap();
    snapshots.create("t", "").unwrap();
    place.write(".gitignore", "huge\n*.log\n");
    let ignoring = snapshots.create("u", "").unwrap();
    assert!(!place.git(&["ls-tree", "--name-only", &ignoring]).contains("huge"));
}

/// Snapshots go when their workspace is long gone, and never before.
#[test]
fn stores_of_workspaces_that_are_gone_are_removed() {
    let all = tempfile::tempdir().unwrap();
    let month = Duration::from_secs(30 * 24 * 3600);
    let store = |name: &str| all.path().join(name);
    let aged = |name: &str| {
        let lock = fs::File::options().write(true).open(store(name).join("lock")).unwrap();
        lock.set_modified(SystemTime::now() - 2 * month).unwrap();
        lock
    };
    let places: Vec<_> = ["living", "young", "used", "unsigned", "gone"]
        .into_iter()
        .map(|name| {
            let place = filled();
            let workspace = Arc::new(Workspace::open("w", &place.root).unwrap());
            let snapshots = Snapshots::open(workspace, &store(name), Retention::default()).unwrap();
            snapshots.create("s", "").unwrap();
            (name, place)
        })
        .collect();
    let mut locks: Vec<_> =
        places.iter().filter(|(name, _)| *name != "young").map(|(name, _)| aged(name)).collect();
    let used = locks.remove(1);
    // Another test may just start a process, which has the lock too until it runs its program.
    for lock in locks {
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).unwrap();
        rustix::fs::flock(&lock, FlockOperation::Unlock).unwrap();
    }
    rustix::fs::flock(&used, FlockOperation::LockShared).unwrap();
    fs::remove_file(store("unsigned").join("workspace")).unwrap();
    fs::write(store("a file"), "").unwrap();
    for (_, place) in places.iter().filter(|(name, _)| *name != "living") {
        fs::remove_dir_all(&place.root).unwrap();
    }
    assert_eq!(Snapshots::remove_abandoned(all.path(), month).unwrap(), 1);
    assert!(!store("gone").exists());
    assert!(["living", "young", "used", "unsigned", "a file"].iter().all(|name| store(name).exists()));
    assert_eq!(Snapshots::remove_abandoned(&store("none"), month).unwrap(), 0);
}

const FULL: &str = "FULL_DISK_CHILD";

/// Not a test of its own: it runs on a small disk that [`on_a_full_disk`] makes.
#[test]
fn full_disk_child() {
    let Some(folder) = std::env::var_os(FULL) else { return };
    let folder = Path::new(&folder);
    let (root, store) = (folder.join("work"), folder.join("store"));
    fs::create_dir(&root).unwrap();
    let noise = |seed: u8| {
        (0..1_200_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8 ^ seed).collect::<Vec<u8>>()
    };
    fs::write(root.join(".gitignore"), "*.log\n").unwrap();
    fs::write(root.join("a"), "small").unwrap();
    fs::write(root.join("big"), noise(1)).unwrap();
    let workspace = Arc::new(Workspace::open("w", &root).unwrap());
    let snapshots = Snapshots::open(workspace, &store, Retention::default()).unwrap();
    snapshots.create("s", "").unwrap();
    fs::write(root.join("a"), "other").unwrap();
    fs::write(root.join("big"), "short").unwrap();
    let caller = Caller::default();
    // What is there now is in the history before the disk is full.
    snapshots.diff("s", None, 1).unwrap();
    let _ = fs::write(root.join("fill.log"), vec![1u8; 16 << 20]);
    let error = snapshots.restore("s", &caller).unwrap_err().to_string();
    assert!(error.contains("No space left"), "{error}");
    assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "other", "all or nothing");
    assert_eq!(fs::read_to_string(root.join("big")).unwrap(), "short");
    assert!(snapshots.create("t", "").is_err(), "no room for a name either");
    fs::remove_file(root.join("fill.log")).unwrap();
    snapshots.restore("s", &caller).unwrap();
    assert!(fs::read(root.join("big")).unwrap() == noise(1));
    println!("the disk was full and nothing was lost");
}

#[test]
fn on_a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let child = myself("odd::full_disk_child", FULL, folder.path());
    let mut words: Vec<_> = vec![child.get_program().to_owned()];
    words.extend(child.get_args().map(ToOwned::to_owned));
    // A disk of its own in a mount namespace of its own: gone with the process.
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", "mount -t tmpfs -o size=6m none \"$FULL_DISK_CHILD\" && exec \"$@\"", "sh"])
        .args(words)
        .env(FULL, folder.path())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && told.contains("nothing was lost"),
        "{told}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_path_that_is_longer_than_the_system_takes_at_a_time_is_kept_as_any_other() {
    let place = Place::new();
    place.write("a", "one");
    // Folders above, at and below the longest path that can be asked for at once.
    let (name, mut folders) = ("n".repeat(250), Vec::new());
    let mut at = File::open(&place.root).unwrap();
    for _ in 0..18 {
        rustix::fs::mkdirat(&at, &name, Bits::from_raw_mode(0o755)).unwrap();
        at = rustix::fs::openat(&at, &name, OFlags::RDONLY, Bits::empty()).unwrap().into();
        folders.push(at.try_clone().unwrap());
    }
    let write = |text: &str| {
        for folder in &folders {
            let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::TRUNC;
            let file = rustix::fs::openat(folder, "file", flags, Bits::from_raw_mode(0o644)).unwrap();
            File::from(file).write_all(text.as_bytes()).unwrap();
        }
    };
    let holds = |text: &str| {
        folders.iter().all(|folder| {
            let file = rustix::fs::openat(folder, "file", OFlags::RDONLY, Bits::empty());
            file.is_ok_and(|file| std::io::read_to_string(File::from(file)).unwrap() == text)
        })
    };
    write("one");
    let workspace = Arc::new(Workspace::open("w", &place.root).unwrap());
    workspace.go_live_now(LiveOptions::default());
    let snapshots = Snapshots::open(workspace, &place.store, Retention::default()).unwrap();
    snapshots.create("s", "").unwrap();
    let call = snapshots.begin(&who()).unwrap();
    write("two");
    snapshots.finish(&call).unwrap();
    assert_eq!(snapshots.undo(&who(), UndoOptions::default()).unwrap().changes.len(), folders.len());
    assert!(holds("one"));
    for folder in &folders {
        rustix::fs::unlinkat(folder, "file", AtFlags::empty()).unwrap();
    }
    assert_eq!(snapshots.changed_since("s").unwrap().len(), folders.len());
    assert_eq!(snapshots.restore("s", &who()).unwrap().changes.len(), folders.len());
    assert!(holds("one"));
}
