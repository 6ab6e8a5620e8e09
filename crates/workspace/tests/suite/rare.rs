//! What happens seldom, and what others lose files by.

use std::{
    fs::{self, File},
    io::Write as _,
    os::unix::fs::{FileExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::kit::myself;
use crate::snapshots::{Place, who};
use workspace::{Change, LiveOptions, Retention, SnapshotError, Snapshots, UndoOptions, Workspace};

const LARGE: u64 = 65 << 20;

/// Automatic snapshots leave large files out; a restore by name does not.
#[test]
fn large_files_that_a_restore_replaces_can_be_had_again() {
    let place = Place::new();
    let large = |name: &str, text: &str| {
        let file = File::create(place.root.join(name)).unwrap();
        file.set_len(LARGE).unwrap();
        file.write_all_at(text.as_bytes(), 0).unwrap();
    };
    let is = |name: &str, text: &str| {
        let mut bytes = vec![0; text.len()];
        File::open(place.root.join(name)).unwrap().read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(String::from_utf8_lossy(&bytes), text, "{name}");
    };
    large("data", "one");
    place.write("small", "one");
    let snapshots = place.open();
    snapshots.create("s", "").unwrap();
    large("data", "two");
    large("made", "since");
    place.write("small", "two");
    let restored = snapshots.restore("s", &who()).unwrap();
    let changes = [("data", Change::Changed), ("made", Change::Deleted), ("small", Change::Changed)];
    assert_eq!(restored.changes, changes.map(|(path, change)| (change, path.into())));
    assert_eq!(restored.large, [Path::new("data"), Path::new("made")]);
    is("data", "one");
    // Merging packs keeps it, and so does another process.
    drop(snapshots);
    let snapshots = place.open();
    snapshots.create("t", "").unwrap();
    snapshots.delete("t").unwrap();
    place.git(&["fsck", "--strict", "--no-dangling"]);
    snapshots.restore(&restored.before, &who()).unwrap();
    is("data", "two");
    is("made", "since");
    assert_eq!(fs::read_to_string(place.root.join("small")).unwrap(), "two");
    // Undo says that it leaves them, and does not say so of a call that had nothing to do with them.
    let undone = snapshots.undo(&who(), UndoOptions::default()).unwrap();
    assert_eq!(undone.changes, [(Change::Changed, "small".into())]);
    assert_eq!(undone.left_out, [Path::new("data"), Path::new("made")]);
    let call = snapshots.begin(&who()).unwrap();
    place.write("small", "three");
    snapshots.finish(&call).unwrap();
    let undone = snapshots.undo(&who(), UndoOptions::default()).unwrap();
    assert_eq!((undone.changes.len(), undone.left_out.len()), (1, 0), "{undone:?}");
    // Nor is a restore said to have changed what a call before it did.
    let call = snapshots.begin(&who()).unwrap();
    large("data", "three");
    snapshots.finish(&call).unwrap();
    let now = snapshots.undo(&who(), UndoOptions::default()).unwrap().before;
    let restored = snapshots.restore(&now, &who()).unwrap();
    assert_eq!((restored.changes.len(), restored.large.len()), (0, 0), "{restored:?}");
}

/// A server's log, say.
#[test]
fn a_file_that_grows_all_the_time_stops_nothing() {
    let place = Place::new();
    place.write("log", vec![b'x'; 12 << 20]);
    place.write("a", "one");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut log = File::options().append(true).open(place.root.join("log")).unwrap();
            while !done.load(Ordering::Relaxed) {
                log.write_all(b"one more line\n").unwrap();
            }
        });
        let work = || -> Result<(), SnapshotError> {
            let snapshots = place.open();
            snapshots.create("s", "")?;
            let call = snapshots.begin(&who())?;
            place.write("a", "two");
            snapshots.finish(&call)
        };
        let worked = work();
        done.store(true, Ordering::Relaxed);
        worked.unwrap();
    });
    assert_eq!(place.git(&["show", "refs/snapshots/s:a"]), "one");
    assert!(place.git(&["show", "refs/snapshots/s:log"]).len() >= 12 << 20);
}

/// What somebody put where a file was, or where its folder was, is work like any other.
#[test]
fn a_folder_in_the_place_of_a_file_is_a_conflict() {
    let place = Place::new();
    place.write("file", "1");
    place.write("folder/inner", "2");
    fs::create_dir_all(place.root.join("empty/inner")).unwrap();
    let snapshots = place.open();
    let call = snapshots.begin(&who()).unwrap();
    fs::remove_file(place.root.join("file")).unwrap();
    fs::remove_dir_all(place.root.join("folder")).unwrap();
    fs::remove_dir_all(place.root.join("empty")).unwrap();
    snapshots.finish(&call).unwrap();
    place.write("file/of/somebody", "3");
    place.write("folder", "4");
    place.write("empty", "5");
    let error = snapshots.undo(&who(), UndoOptions::default()).unwrap_err();
    let SnapshotError::Conflict { files, .. } = error else { panic!("{error}") };
    let paths: Vec<_> = files.iter().map(|(path, _)| path.to_str().unwrap()).collect();
    assert_eq!(paths, ["file/of/somebody", "folder"], "{files:?}");
    fs::remove_dir_all(place.root.join("file")).unwrap();
    fs::remove_file(place.root.join("folder")).unwrap();
    snapshots.undo(&who(), UndoOptions::default()).unwrap();
    assert_eq!(fs::read_to_string(place.root.join("folder/inner")).unwrap(), "2");
    assert_eq!(
        fs::read_to_string(place.root.join("empty")).unwrap(),
        "5",
        "an empty folder takes no file's place"
    );
    // What the call itself left there is not in its own way.
    let call = snapshots.begin(&who()).unwrap();
    fs::remove_file(place.root.join("file")).unwrap();
    place.write("file/of/mine", "6");
    snapshots.finish(&call).unwrap();
    snapshots.undo(&who(), UndoOptions::default()).unwrap();
    assert_eq!(fs::read_to_string(place.root.join("file")).unwrap(), "1");
}

const FROZEN: &str = "FROZEN_FOLDER_CHILD";

/// Not a test of its own: it runs without root's right to write everywhere.
#[test]
fn frozen_folder_child() {
    let Some(root) = std::env::var_os(FROZEN) else { return };
    let root = Path::new(&root).to_owned();
    let place = Place::at(&root, &root.with_file_name("store"));
    let names = ["a", "b", "frozen/f", "g", "h", "i", "j", "k"];
    let put = |text: &str| names.iter().for_each(|name| place.write(name, text));
    let frozen = |mode| fs::set_permissions(root.join("frozen"), fs::Permissions::from_mode(mode)).unwrap();
    put("one");
    let snapshots = place.open();
    snapshots.create("s", "").unwrap();
    put("two");
    frozen(0o555);
    let before = place.state();
    let error = snapshots.restore("s", &who()).unwrap_err();
    assert!(error.to_string().contains("Permission denied"), "{error}");
    assert!(!matches!(error, SnapshotError::Halfway { .. }), "{error}");
    assert!(place.state() == before, "all or nothing");
    // It was given up: nobody takes it up again over what came since.
    place.write("a", "three");
    drop(snapshots);
    let snapshots = place.open();
    assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "three");
    // Nor is it half done where nobody can look. What is around it has settled by then.
    std::thread::sleep(std::time::Duration::from_millis(50));
    frozen(0o000);
    let error = snapshots.restore("s", &who()).unwrap_err();
    assert!(!matches!(error, SnapshotError::Halfway { .. }), "{error}");
    assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "three");
    frozen(0o755);
    // What cannot be read is left.
    let readable = |mode| fs::set_permissions(root.join("b"), fs::Permissions::from_mode(mode)).unwrap();
    readable(0o000);
    let restored = snapshots.restore("s", &who()).unwrap();
    assert_eq!(restored.changes.len(), names.len());
    assert_eq!(restored.changes[1], (Change::KeptUnknown, "b".into()));
    readable(0o644);
    assert_eq!(fs::read_to_string(root.join("b")).unwrap(), "two");
    assert_eq!(snapshots.restore("s", &who()).unwrap().changes, [(Change::Changed, "b".into())]);
    drop(snapshots);
    let workspace = Arc::new(Workspace::open("w", &root).unwrap());
    workspace.go_live_now(LiveOptions::default());
    let snapshots = Snapshots::open(workspace, &place.store, Retention::default()).unwrap();
    // Nor is it the doing of the call that made it readable, or of the one that made it unreadable.
    let doing = |work: &dyn Fn()| {
        let call = snapshots.begin(&who()).unwrap();
        work();
        place.write("a", "changed");
        snapshots.finish(&call).unwrap();
        let undone = snapshots.undo(&who(), UndoOptions::default()).unwrap();
        assert_eq!(undone.changes, [(Change::Changed, "a".into())], "{undone:?}");
        undone.left_out
    };
    for mode in [0o000, 0o755] {
        assert_eq!(doing(&|| frozen(mode)), [PathBuf::from("frozen")], "{mode:o}");
    }
    readable(0o000);
    snapshots.create("without", "").unwrap();
    assert_eq!(snapshots.unreadable(), [PathBuf::from("b")]);
    assert_eq!(doing(&|| readable(0o644)), [PathBuf::from("b")]);
    assert!(snapshots.unreadable().is_empty());
    assert_eq!(fs::read_to_string(root.join("frozen/f")).unwrap(), "one");
    println!("nothing was lost");
}

#[test]
fn a_restore_that_cannot_be_done_is_taken_back_for_good() {
    let place = Place::new();
    let child = myself("rare::frozen_folder_child", FROZEN, &place.root);
    // The owner of the files, but nobody's superior.
    let output = Command::new("unshare")
        .arg("-U")
        .arg(child.get_program())
        .args(child.get_args())
        .env(FROZEN, &place.root)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("nothing was lost"), "{told}\n{complaint}");
    fs::set_permissions(place.root.join("frozen"), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn folders_that_come_and_go_are_told_where_no_file_tells_of_them() {
    let place = Place::new();
    place.write("a", "one");
    place.write("with/file", "one");
    fs::create_dir_all(place.root.join("old/inner")).unwrap();
    let snapshots = place.open();
    snapshots.create("s", "").unwrap();
    let call = snapshots.begin(&who()).unwrap();
    fs::remove_dir_all(place.root.join("old")).unwrap();
    fs::remove_dir_all(place.root.join("with")).unwrap();
    fs::create_dir_all(place.root.join("new/inner")).unwrap();
    place.write("more/file", "new");
    snapshots.finish(&call).unwrap();
    let diff = snapshots.diff("s", None, 9).unwrap();
    let lines: Vec<&str> = diff.lines().filter(|line| line.contains(": ")).collect();
    let told = ["more/file: new", "new/inner: new folder", "old/inner: deleted folder", "with/file: deleted"];
    assert_eq!(lines, told, "{diff}");
    assert_eq!(snapshots.diff("s", Some(Path::new("new")), 9).unwrap(), "new/inner: new folder\n");
    let back = [
        (Change::Deleted, "more/file"),
        (Change::RemovedFolder, "new/inner"),
        (Change::MadeFolder, "old/inner"),
        (Change::Created, "with/file"),
    ];
    let back = back.map(|(change, path)| (change, PathBuf::from(path)));
    let undone = snapshots.undo(&who(), UndoOptions::default()).unwrap();
    assert_eq!(undone.changes, back);
    let forth = snapshots.restore(&undone.before, &who()).unwrap().changes;
    let folders: Vec<_> = forth.iter().filter(|(change, _)| !change.is_of_file()).collect();
    let told = [(Change::MadeFolder, "new/inner".into()), (Change::RemovedFolder, "old/inner".into())];
    assert_eq!(folders, told.iter().collect::<Vec<_>>());
    assert_eq!(snapshots.restore("s", &who()).unwrap().changes, back);
}
