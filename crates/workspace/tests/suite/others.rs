//! What others do right beside calls is theirs: no undo takes it back, and every snapshot has it.

use crate::kit::myself;
use crate::snapshots::Place;
use crate::undo::{History, PLAIN, by};
use std::{
    fs,
    io::{self, BufRead as _, BufReader, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};
use workspace::{Change, Retention, SnapshotError, Snapshots, Workspace};

/// A person saves a file right after a call wrote it, before that has become history.
#[test]
fn what_is_saved_right_after_an_edit_is_seen() {
    for live in [false, true] {
        let history = History::new(live);
        let save = |text: &str| fs::write(history.place.root.join("a"), text).unwrap();
        save("one");
        history.snapshots.create("base", "").unwrap();

        history.edit("s", "a", "two");
        save("mine");
        assert!(matches!(history.undo("s"), Err(SnapshotError::Conflict { .. })), "live {live}");
        assert_eq!(history.read("a"), "mine");

        history.edit("s", "a", "three");
        save("mine again");
        history.snapshots.create("now", "").unwrap();
        assert_eq!(history.snapshots.changed_since("now").unwrap(), Vec::<&Path>::new());

        history.edit("s", "a", "four");
        save("mine at last");
        let restored = history.snapshots.restore("base", &by("s", "snapshot_restore")).unwrap();
        assert_eq!(history.read("a"), "one");
        history.snapshots.restore(&restored.before, &by("s", "snapshot_restore")).unwrap();
        assert_eq!(history.read("a"), "mine at last", "live {live}");

        // a command that comes next has nothing to do with it
        history.edit("s", "a", "five");
        save("mine after all");
        history.call("s", || history.place.write("b", "made"));
        assert_eq!(history.undo("s").unwrap().changes, [(Change::Deleted, "b".into())]);
        assert_eq!(history.read("a"), "mine after all");
    }
}

/// A file that a call made has become a folder with somebody's work in it.
#[test]
fn a_folder_in_the_place_of_a_file_that_was_made_stays() {
    for live in [false, true] {
        let history = History::new(live);
        let root = &history.place.root;
        history.place.write("a", "one");
        history.call("s", || {
            history.place.write("a", "two");
            history.place.write("c", "made");
        });
        fs::remove_file(root.join("c")).unwrap();
        history.place.write("c/d/precious", "work");
        assert_eq!(history.undo("s").unwrap().changes, [(Change::Changed, "a".into())], "live {live}");
        assert_eq!(history.read("c/d/precious"), "work");
    }
}

/// A call's doings are looked at after it was answered: by then others may have done something.
#[test]
fn what_comes_after_the_end_of_a_call_is_not_its_doing() {
    for live in [false, true] {
        let history = History::new(live);
        history.place.write("a", "one");
        let recording = history.snapshots.begin(&by("s", "Bash")).unwrap();
        history.place.write("a", "two");
        history.place.write("made", "by the call");
        // the file system's clock moves in ticks
        thread::sleep(Duration::from_millis(30));
        recording.over();
        thread::sleep(Duration::from_millis(30));
        history.place.write("precious", "by another");
        history.snapshots.finish(&recording).unwrap();
        let undone = history.undo("s").unwrap();
        let expected = [(Change::Changed, "a".into()), (Change::Deleted, "made".into())];
        assert_eq!(undone.changes, expected, "live {live}");
        assert_eq!(history.read("precious"), "by another");
    }
}

/// That a call made a repository is all that is known of what it did there: no reason to take back the one before it.
#[test]
fn a_repository_that_a_call_made_is_named() {
    for live in [false, true] {
        let history = History::new(live);
        history.place.write("a", "one");
        history.call("s", || history.place.write("a", "two"));
        history.call("s", || {
            history.place.write("lib/.git/HEAD", "ref: refs/heads/main\n");
            history.place.write("lib/x", "x");
        });
        let undone = history.undo("s").unwrap();
        assert_eq!((undone.changes, undone.left_out), (vec![], vec!["lib".into()]), "live {live}");
        assert_eq!(history.undo("s").unwrap().changes, [(Change::Changed, "a".into())]);
    }
}

/// Taking calls back does not use up the room of those before them.
#[test]
fn as_many_calls_as_are_kept_can_be_taken_back() {
    let history = History::new(true);
    let few = Retention { count: 5, ..Retention::default() };
    let store = history.place.root.with_file_name("few");
    let workspace = std::sync::Arc::<Workspace>::clone(&history.workspace);
    let snapshots = Snapshots::open(workspace, &store, few).unwrap();
    history.place.write("a", "0");
    for n in 1..=8 {
        let call = snapshots.begin(&by("s", "Bash")).unwrap();
        history.place.write("a", n.to_string());
        snapshots.finish(&call).unwrap();
    }
    for n in (3..8).rev() {
        snapshots.undo(&by("s", "undo"), PLAIN).unwrap();
        assert_eq!(history.read("a"), n.to_string());
    }
    assert!(matches!(snapshots.undo(&by("s", "undo"), PLAIN), Err(SnapshotError::NothingToUndo { .. })));
}

/// What a call made and rules or a repository hide by now is left alone, but not without a word.
#[test]
fn what_was_made_and_is_hidden_since_is_named() {
    for live in [false, true] {
        let history = History::new(live);
        history.place.write("b", "one");
        history.call("s", || {
            ["a", "b", "c", "lib/d", "gone"].iter().for_each(|path| history.place.write(path, "made"));
        });
        history.place.write(".gitignore", "/a\n");
        history.place.write("lib/.git/HEAD", "ref: refs/heads/main\n");
        fs::remove_file(history.place.root.join("gone")).unwrap();
        let undone = history.undo("s").unwrap();
        let expected = [
            (Change::KeptIgnored, "a"),
            (Change::Changed, "b"),
            (Change::Deleted, "c"),
            (Change::KeptRepository, "lib/d"),
        ];
        assert_eq!(undone.changes, expected.map(|(change, path)| (change, path.into())), "live {live}");
        assert_eq!((history.read("a"), history.read("lib/d")), ("made".into(), "made".into()));
    }
}

/// What undo leaves in a repository that a call made is out of sight: no later call takes it away.
#[test]
fn folders_of_a_repository_that_stays_are_not_taken_for_put_back() {
    for live in [false, true] {
        let history = History::new(live);
        history.place.write("a", "one");
        history.place.write("lib/inner/x", "x");
        history.call("s", || history.place.write("a", "two"));
        history.call("s", || history.place.write("lib/.git/HEAD", "ref: refs/heads/main\n"));
        assert_eq!(history.undo("s").unwrap().left_out, [Path::new("lib")], "live {live}");
        let lib = history.place.root.join("lib");
        history.call("s", || fs::set_permissions(&lib, fs::Permissions::from_mode(0o700)).unwrap());
        assert_eq!(history.undo("s").unwrap().changes, [(Change::Changed, "a".into())], "live {live}");
    }
}

/// A folder without a file, ignored as long as the call had not yet changed the rules.
#[test]
fn an_empty_folder_that_was_ignored_before_stays() {
    for live in [false, true] {
        let history = History::new(live);
        let root = &history.place.root;
        history.place.write(".gitignore", "build/\n");
        fs::create_dir_all(root.join("build/cache")).unwrap();
        history.snapshots.create("s", "").unwrap();
        history.call("s", || {
            fs::remove_file(root.join(".gitignore")).unwrap();
            fs::create_dir_all(root.join("new/inner")).unwrap();
        });
        let back = [(Change::Created, ".gitignore".into()), (Change::RemovedFolder, "new/inner".into())];
        assert_eq!(history.undo("s").unwrap().changes, back, "live {live}");
        assert!(root.join("build/cache").exists() && !root.join("new").exists(), "live {live}");
        fs::remove_file(root.join(".gitignore")).unwrap();
        history.snapshots.restore("s", &by("s", "snapshot_restore")).unwrap();
        assert!(root.join("build/cache").exists(), "live {live}");
    }
}

const NUMBERED: &str = "SNAPSHOT_NUMBERED_CHILD";

/// Not a test of its own: the processes of [`processes_of_the_same_number_are_told_apart`].
#[test]
fn numbered_child() {
    let Some(folder) = std::env::var_os(NUMBERED).map(PathBuf::from) else { return };
    let history = History::of(Place::at(&folder.join("work"), &folder.join("store")), false);
    println!("number {}", std::process::id());
    for line in io::stdin().lines() {
        match line.unwrap().as_str() {
            "undo" => match history.undo("s") {
                Ok(undone) => println!("undid {:?}", undone.changes),
                Err(error) => println!("refused: {error}"),
            },
            path => {
                history.edit("s", path, "two");
                history.snapshots.flush().unwrap();
                println!("edited {path}");
            }
        }
    }
}

/// A process that is the first in a container of its own.
struct First {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl First {
    fn new(folder: &Path) -> Self {
        let test = myself("others::numbered_child", NUMBERED, folder);
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child"]);
        command.arg(test.get_program()).args(test.get_args()).env(NUMBERED, folder);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let mut first = Self { child, stdin, lines };
        first.hear("number 1");
        first
    }

    /// The line that begins so, of those that come.
    fn hear(&mut self, start: &str) -> String {
        loop {
            let line =
                self.lines.recv_timeout(Duration::from_secs(30)).unwrap_or_else(|_| panic!("no {start}"));
            // The test's own name stands before the first.
            if let Some(at) = line.find(start) {
                return line[at..].to_owned();
            }
        }
    }

    fn end(mut self) {
        self.stdin = None;
        assert!(self.child.wait().unwrap().success());
    }

    fn tell(&mut self, line: &str, answer: &str) -> String {
        writeln!(self.stdin.as_ref().unwrap(), "{line}").unwrap();
        self.hear(answer)
    }
}

impl Drop for First {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Every container has a process with the number 1, and after a start of the machine others have the numbers.
#[test]
fn processes_of_the_same_number_are_told_apart() {
    let place = Place::new();
    place.write("a", "one");
    place.write("b", "one");
    let folder = place.root.parent().unwrap();
    let (mut one, mut other) = (First::new(folder), First::new(folder));
    one.tell("a", "edited a");
    other.tell("b", "edited b");
    other.tell("undo", r#"undid [(Changed, "b")]"#);
    // What the other one did, who has the same session's name and lives.
    other.tell("undo", "refused: nothing to undo");
    one.end();
    other.tell("undo", r#"undid [(Changed, "a")]"#);
    assert_eq!(fs::read_to_string(place.root.join("a")).unwrap(), "one");
}
