//! Undo of what runs: shells in the background, commands of two processes at once, calls whose process is killed.

use std::{fs, path::Path, process::Stdio, sync::Arc, thread, time::Duration};

use crate::kit::myself;
use crate::snapshots::Place;
use crate::undo::{History, PLAIN, by, note};
use workspace::{Change, Retention, SnapshotError, Snapshots, UndoOptions, Undone, Workspace};

#[test]
fn what_a_background_shell_does_later_is_its_calls_doing() {
    let history = History::new(true);
    history.place.write("f", "0");
    let shell = history.snapshots.begin(&by("s", "Bash")).unwrap();
    history.snapshots.go_on(&shell).unwrap();
    history.edit("s", "e", "1");
    history.place.write("f", "by the shell");
    history.call("s", || history.place.write("g", "1"));
    history.place.write("h", "by the shell too");
    history.snapshots.finish(&shell).unwrap();
    let undone = history.undo("s").unwrap();
    assert_eq!(undone.changes, [(Change::Changed, "f".into()), (Change::Deleted, "h".into())]);
    assert_eq!(history.undo("s").unwrap().changes, [(Change::Deleted, "g".into())]);
    assert_eq!(history.undo("s").unwrap().changes, [(Change::Deleted, "e".into())]);
}

/// Whoever is waited for is taken for the doer: a call that began before and only ends now leaves it its doings.
#[test]
fn a_call_that_ends_meanwhile_takes_nothing_from_the_one_that_runs() {
    for live in [false, true] {
        let history = History::new(live);
        for name in ["f", "g", "h", "i"] {
            history.place.write(name, "0");
        }
        let begin = |tool: &str| history.snapshots.begin(&by("s", tool)).unwrap();
        let both = || {
            let Undone { caller, changes, .. } = history.undo("s").unwrap();
            let changes = changes.into_iter().map(|(_, path)| path.display().to_string());
            (caller.tool, changes.collect::<Vec<_>>().join(" "))
        };
        // It was answered and runs on, which is told only now; then it ends.
        let shell = begin("server");
        history.place.write("f", "1");
        let command = begin("command");
        history.place.write("g", "1");
        history.snapshots.go_on(&shell).unwrap();
        history.place.write("h", "1");
        history.snapshots.finish(&shell).unwrap();
        history.place.write("i", "1");
        history.snapshots.finish(&command).unwrap();
        assert_eq!(both(), ("command".into(), "g h i".into()), "live {live}");
        assert_eq!(both(), ("server".into(), "f".into()), "live {live}");
        // It is over, though its doings are not looked at yet.
        let before = begin("before");
        history.place.write("f", "2");
        before.over();
        let command = begin("command");
        history.place.write("g", "2");
        history.snapshots.finish(&before).unwrap();
        history.place.write("h", "2");
        history.snapshots.finish(&command).unwrap();
        assert_eq!(both(), ("command".into(), "g h".into()), "live {live}");
        assert_eq!(both(), ("before".into(), "f".into()), "live {live}");
    }
}

/// A server that runs on goes on changing things after it was taken back, and meets others' work.
#[test]
fn a_background_shell_can_be_taken_back_while_it_runs() {
    let history = History::new(true);
    history.place.write("f", "0");
    history.call("s", || history.place.write("before", "1"));
    let shell = history.snapshots.begin(&by("s", "Bash")).unwrap();
    history.snapshots.go_on(&shell).unwrap();
    history.place.write("f", "by the shell");
    assert_eq!(history.undo("s").unwrap().changes, [(Change::Changed, "f".into())]);
    history.place.write("g", "by the shell too");
    assert_eq!(history.undo("s").unwrap().changes, [(Change::Deleted, "g".into())]);
    history.place.write("f", "by the shell");
    history.snapshots.flush().unwrap();
    history.edit("s", "f", "by hand");
    history.snapshots.flush().unwrap();
    history.place.write("f", "by the shell, from what was written by hand");
    history.snapshots.finish(&shell).unwrap();
    let error = history.undo("s").unwrap_err().to_string();
    assert!(error.contains("\nf: changed by Edit of session s\n"), "{error}");
    let forced = UndoOptions { force: true, ..PLAIN };
    history.snapshots.undo(&by("s", "undo"), forced).unwrap();
    assert_eq!(history.read("f"), "0");
}

#[test]
fn two_processes_share_a_history() {
    let one = History::new(true);
    one.place.write("f", "0");
    one.edit("a", "f", "1");
    one.snapshots.flush().unwrap();
    let workspace = Arc::new(Workspace::open("w", &one.place.root).unwrap());
    let two = Snapshots::open(Arc::clone(&workspace), &one.place.store, Retention::default()).unwrap();
    for n in 0..30 {
        one.edit("a", &format!("a{n}"), "a");
        note(&workspace, &two, "b", &format!("b{n}"), "b");
        one.snapshots.flush().unwrap();
        two.flush().unwrap();
    }
    one.snapshots.create("named", "by one").unwrap();
    assert_eq!(two.list().unwrap()[0].description, "by one");
    two.undo(&by("b", "undo"), PLAIN).unwrap();
    one.undo("a").unwrap();
    assert!(!one.place.root.join("a29").exists() && !one.place.root.join("b29").exists());
    assert!(one.place.root.join("a28").exists() && one.place.root.join("b28").exists());
    one.place.git(&["fsck", "--strict", "--no-dangling"]);
}

/// Nobody can tell which of two commands changed a file; a server that runs on in the background is no reason to ask.
#[test]
fn commands_of_two_processes_at_once_are_told() {
    let one = History::new(true);
    one.place.write("f", "0");
    let two = History::of(Place::at(&one.place.root, &one.place.store), true);
    let [first, second] = [&one, &two].map(|history| history.snapshots.begin(&by("stdio", "Bash")).unwrap());
    one.place.write("x", "by one");
    one.place.write("y", "by two");
    one.snapshots.finish(&first).unwrap();
    let error = one.undo("stdio").unwrap_err();
    assert!(matches!(error, SnapshotError::Conflict { shared: true, .. }), "{error}");
    assert_eq!(one.read("y"), "by two");
    // What the first has done so far stays its own, though the other looks at the disk before it has ended.
    two.snapshots.finish(&second).unwrap();
    let first = one.snapshots.begin(&by("stdio", "Bash")).unwrap();
    one.place.write("early", "by one");
    let second = two.snapshots.begin(&by("stdio", "Bash")).unwrap();
    two.snapshots.go_on(&second).unwrap();
    one.place.write("late", "by one");
    one.snapshots.finish(&first).unwrap();
    let both = [(Change::Deleted, "early".into()), (Change::Deleted, "late".into())];
    assert_eq!(one.undo("stdio").unwrap().changes, both);
    one.call("stdio", || one.place.write("z", "by one"));
    assert_eq!(one.undo("stdio").unwrap().changes, [(Change::Deleted, "z".into())]);
    two.snapshots.finish(&second).unwrap();
}

const KILLED: &str = "UNDO_CHILD";

/// Not a test of its own: the process that [`a_killed_process_leaves_a_history`] kills.
#[test]
fn undo_child() {
    let Some(folder) = std::env::var_os(KILLED) else { return };
    let folder = Path::new(&folder);
    let workspace = Arc::new(Workspace::open("w", folder.join("work")).unwrap());
    let snapshots =
        Snapshots::open(Arc::clone(&workspace), &folder.join("store"), Retention::default()).unwrap();
    match fs::read_to_string(folder.join("how")).unwrap().as_str() {
        "edits" => {
            note(&workspace, &snapshots, "s", "f", "1");
            note(&workspace, &snapshots, "s", "f", "2");
            note(&workspace, &snapshots, "s", "new", "n");
        }
        "folders" => {
            note(&workspace, &snapshots, "s", "n/m/a", "1");
            note(&workspace, &snapshots, "s", "n/b", "2");
            note(&workspace, &snapshots, "s", "empty/c", "3");
        }
        "edit" => note(&workspace, &snapshots, "s", "f", "4"),
        "behind" => {
            let recording = snapshots.begin(&by("s", "Bash")).unwrap();
            snapshots.go_on(&recording).unwrap();
            std::mem::forget(recording);
        }
        "shell" => {
            std::mem::forget(snapshots.begin(&by("s", "Bash")).unwrap());
            fs::write(folder.join("work/f"), "3").unwrap();
            fs::write(folder.join("work/other"), "o").unwrap();
        }
        _ => {}
    }
    // As a kill would: nothing is dropped, nothing is flushed.
    std::process::abort();
}

/// Another process works there, and is killed.
pub(crate) fn be_killed(place: &Place, how: &str) {
    let folder = place.root.parent().unwrap();
    fs::write(folder.join("how"), how).unwrap();
    let mut child = myself("running::undo_child", KILLED, folder);
    let status = child.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), None, "it was to be killed");
}

#[test]
fn a_killed_process_leaves_a_history() {
    let place = Place::new();
    place.write("f", "0");
    be_killed(&place, "edits");
    let history = History::of(place, false);
    assert_eq!(history.read("f"), "2");
    assert_eq!(history.undo("s").unwrap().changes, [(Change::Deleted, "new".into())]);
    history.undo("s").unwrap();
    assert_eq!(history.read("f"), "1");
    history.undo("s").unwrap();
    assert_eq!(history.read("f"), "0");
    let History { place, snapshots, .. } = history;
    drop(snapshots);
    be_killed(&place, "shell");
    let mut history = History::of(place, true);
    assert_eq!(history.read("f"), "3");
    let undone = history.undo("s").unwrap();
    assert_eq!(undone.changes, [(Change::Changed, "f".into()), (Change::Deleted, "other".into())]);
    assert_eq!(history.read("f"), "0");

    // Long after that nobody knows whose doing something is.
    for (how, before) in [("shell", "0"), ("edit", "0")] {
        drop(history.snapshots);
        be_killed(&history.place, how);
        thread::sleep(Duration::from_secs(4));
        history.place.write("f", "mine");
        history.place.write("precious", "mine");
        history = History::of(history.place, true);
        let refused = history.undo("s").unwrap_err().to_string();
        assert!(
            refused.contains("\nf: changed by the call before its server was killed, or by"),
            "{refused}"
        );
        assert_eq!((history.read("f"), history.read("precious")), ("mine".into(), "mine".into()), "{how}");
        let force = UndoOptions { force: true, ..PLAIN };
        history.snapshots.undo(&by("s", "undo"), force).unwrap();
        assert_eq!(history.read("f"), before, "{how}");
        let _ = fs::remove_file(history.place.root.join("precious"));
    }

    // What only ran on in the background does not keep what came before it from being taken back.
    history.edit("s", "f", "5");
    drop(history.snapshots);
    be_killed(&history.place, "behind");
    thread::sleep(Duration::from_secs(4));
    history.place.write("precious", "mine");
    history = History::of(history.place, true);
    assert_eq!(history.undo("s").unwrap().changes, [(Change::Changed, "f".into())]);
    assert_eq!((history.read("f"), history.read("precious")), ("0".into(), "mine".into()));
}
