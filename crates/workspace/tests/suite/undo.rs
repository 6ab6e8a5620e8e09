//! Undo: what a call changed goes back, and nothing else does.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write as _,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use crate::oracle::Random;
use crate::running::be_killed;
use crate::snapshots::Place;
use workspace::{
    Caller, Change, Expected, LiveOptions, Retention, SnapshotError, Snapshots, UndoOptions, Undone,
    Workspace,
};

pub(crate) const PLAIN: UndoOptions = UndoOptions { any_session: false, force: false };

pub(crate) fn by(session: &str, tool: &str) -> Caller {
    Caller { session: session.into(), tool: tool.into(), summary: format!("{tool} of {session}") }
}

/// A place with its history.
pub(crate) struct History {
    pub(crate) place: Place,
    pub(crate) workspace: Arc<Workspace>,
    pub(crate) snapshots: Snapshots,
}

impl History {
    pub(crate) fn new(live: bool) -> Self {
        Self::of(Place::new(), live)
    }

    pub(crate) fn of(place: Place, live: bool) -> Self {
        let workspace = Arc::new(Workspace::open("w", &place.root).unwrap());
        if live {
            workspace.go_live_now(LiveOptions::default());
        }
        let snapshots = Snapshots::open(
            Arc::clone(&workspace),
            &place.store,
            Retention { count: 500, ..Retention::default() },
        )
        .unwrap();
        Self { place, workspace, snapshots }
    }

    /// A call that may do anything, as a shell's.
    pub(crate) fn call(&self, session: &str, work: impl FnOnce()) {
        let recording = self.snapshots.begin(&by(session, "Bash")).unwrap();
        work();
        self.snapshots.finish(&recording).unwrap();
    }

    /// A call that changes one file it knows.
    pub(crate) fn edit(&self, session: &str, path: &str, content: &str) {
        note(&self.workspace, &self.snapshots, session, path, content);
    }

    pub(crate) fn undo(&self, session: &str) -> Result<Undone, SnapshotError> {
        self.snapshots.undo(&by(session, "undo"), PLAIN)
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.place.root.join(path)).unwrap_or_else(|error| error.kind().to_string())
    }
}

pub(crate) fn note(workspace: &Workspace, snapshots: &Snapshots, session: &str, path: &str, content: &str) {
    let path = workspace.resolve(path).unwrap();
    let mut noted = None;
    let written = workspace.update::<()>(&path, Expected::Anything, |old| {
        noted = Some(snapshots.note(&by(session, "Edit"), &path, old).unwrap());
        Ok(content.as_bytes().to_vec())
    });
    if let Some(noted) = noted {
        snapshots.noted(&noted, Some(written.unwrap().new));
    }
}

#[test]
fn calls_go_back_one_by_one() {
    for live in [false, true] {
        let history = History::new(live);
        let root = history.place.root.clone();
        history.place.write("a", "0");
        history.place.write("run", "#!/bin/sh\n");
        symlink("a", root.join("link")).unwrap();
        let mut states = Vec::new();
        let mut step = |work: &dyn Fn()| {
            states.push(history.place.state());
            work();
        };
        step(&|| history.edit("s", "a", "1"));
        step(&|| history.edit("s", "a", "2"));
        step(&|| {
            history.call("s", || {
                fs::set_permissions(root.join("run"), fs::Permissions::from_mode(0o755)).unwrap();
            });
        });
        step(&|| history.call("s", || fs::create_dir_all(root.join("empty/inner")).unwrap()));
        step(&|| {
            history.call("s", || {
                fs::remove_file(root.join("link")).unwrap();
                symlink("run", root.join("link")).unwrap();
            });
        });
        step(&|| history.edit("s", "deep/er/new", "new"));
        step(&|| {
            history.call("s", || {
                fs::rename(root.join("deep"), root.join("moved")).unwrap();
                fs::remove_file(root.join("a")).unwrap();
                history.place.write("a/is/a/folder", "x");
            });
        });
        history.call("s", || {});
        for (n, state) in states.iter().enumerate().rev() {
            let undone = history.undo("s").unwrap();
            assert_eq!(&history.place.state(), state, "live {live}, step {n}: {undone:?}");
        }
        assert!(matches!(history.undo("s"), Err(SnapshotError::NothingToUndo { .. })));
        history.place.git(&["fsck", "--strict", "--no-dangling"]);
    }
}

/// Also by the first calls of a process, and by one that was killed: nobody looked at the disk before them.
#[test]
fn folders_made_for_the_first_file_go_with_it() {
    for live in [false, true] {
        let mut history = History::new(live);
        history.place.write("f", "0");
        fs::create_dir(history.place.root.join("empty")).unwrap();
        let before = history.place.state();
        for killed in [false, true] {
            if killed {
                drop(history.snapshots);
                be_killed(&history.place, "folders");
                history = History::of(history.place, live);
            } else {
                history.edit("s", "n/m/a", "1");
                history.edit("s", "n/b", "2");
                history.edit("s", "empty/c", "3");
            }
            assert_eq!(history.read("n/m/a"), "1");
            for _ in 0..3 {
                history.undo("s").unwrap();
            }
            assert_eq!(history.place.state(), before, "live {live}, killed {killed}");
        }
    }
}

/// Also when another call looks at the disk while the file is being written.
#[test]
fn a_folder_made_for_a_file_goes_with_it() {
    for live in [false, true] {
        let history = History::new(live);
        history.place.write("a", "0");
        history.call("s", || {});
        let path = history.workspace.resolve("new/er/b").unwrap();
        let noted = history.snapshots.note(&by("s", "Write"), &path, None).unwrap();
        history.place.write("new/er/b", "b");
        history.call("s", || {});
        history.snapshots.noted(&noted, Some(b"b"[..].into()));
        assert_eq!(history.undo("s").unwrap().caller.tool, "Write", "live {live}");
        assert!(!history.place.root.join("new").exists(), "live {live}");
    }
}

/// However the journal comes to name an ignored file: beside rules that are known, beside a new repository, or among
/// more names than are looked at one by one.
#[test]
fn what_is_ignored_stays_out_whatever_the_journal_names_with_it() {
    let history = History::new(true);
    let (place, snapshots) = (&history.place, &history.snapshots);
    place.write("first", "");
    assert!(history.workspace.changes_since(0).unwrap().cursor > 0);
    place.write(".gitignore", "node_modules\n*.log\n");
    symlink("/nowhere/at/all", place.root.join("node_modules")).unwrap();
    place.write("a.log", "log");
    // Stamps are trusted only when they are older than a tick of the clock.
    let settle = || std::thread::sleep(Duration::from_millis(50));
    settle();
    snapshots.create("s", "").unwrap();
    history.call("s", || {});
    let changed = || snapshots.changed_since("s").unwrap();
    assert!(changed().is_empty(), "{:?}", changed());
    history.call("s", || {
        fs::create_dir(place.root.join(".git")).unwrap();
        place.write("b.log", "log");
    });
    settle();
    assert!(changed().is_empty(), "{:?}", changed());
    history.call("s", || {
        (0..2100).for_each(|n| place.write(&format!("many/{n}"), ""));
        place.write("c.log", "log");
    });
    assert_eq!(changed().len(), 2100);
    assert_eq!(history.undo("s").unwrap().changes.len(), 2100);
    assert!(changed().is_empty(), "{:?}", changed());
    for log in ["a.log", "b.log", "c.log"] {
        assert_eq!(history.read(log), "log");
    }
}

#[test]
fn an_undo_can_be_taken_back_and_says_what_it_did() {
    let history = History::new(true);
    history.place.write("a", "0");
    history.edit("s", "a", "1");
    let undone = history.undo("s").unwrap();
    assert_eq!(undone.caller, by("s", "Edit"));
    assert_eq!(undone.changes, [(Change::Changed, "a".into())]);
    assert_eq!(history.read("a"), "0");
    history.snapshots.restore(&undone.before, &by("s", "snapshot_restore")).unwrap();
    assert_eq!(history.read("a"), "1");
    // The restore was a call like any other.
    assert_eq!(history.undo("s").unwrap().caller.tool, "snapshot_restore");
    assert_eq!(history.read("a"), "0");
}

#[test]
fn only_what_the_call_changed_goes_back() {
    let history = History::new(true);
    let place = &history.place;
    place.write(".gitignore", "*.log\n");
    place.write("mine", "0");
    place.write("theirs", "0");
    place.write("a.log", "0");
    history.call("s", || {
        place.write("mine", "1");
        place.write("a.log", "1");
    });
    // Somebody's editor, and another session.
    place.write("theirs", "by hand");
    history.edit("t", "other", "t");
    assert_eq!(history.undo("s").unwrap().changes, [(Change::Changed, "mine".into())]);
    assert_eq!(
        (history.read("mine"), history.read("theirs"), history.read("a.log"), history.read("other")),
        ("0".into(), "by hand".into(), "1".into(), "t".into())
    );
    let nothing = history.undo("s").unwrap_err().to_string();
    assert!(nothing.contains("a file was changed by Edit of session t"), "{nothing}");
    let any = UndoOptions { any_session: true, force: false };
    history.snapshots.undo(&by("s", "undo"), any).unwrap();
    assert_eq!(history.read("other"), "entity not found");
}

#[test]
fn work_of_others_is_not_lost_without_a_word() {
    let history = History::new(true);
    history.place.write("f", "0");
    history.place.write("g", "0");
    history.call("s", || {
        history.place.write("f", "1");
        history.place.write("g", "1");
    });
    history.edit("t", "f", "2");
    let refused = history.undo("s").unwrap_err();
    assert!(matches!(&refused, SnapshotError::Conflict { files, .. } if files.len() == 1), "{refused}");
    let text = refused.to_string();
    assert!(text.contains("f: changed by Edit of session t") && text.contains("`force`"), "{text}");
    assert_eq!((history.read("f"), history.read("g")), ("2".into(), "1".into()), "nothing was done");
    history.snapshots.undo(&by("s", "undo"), UndoOptions { force: true, any_session: false }).unwrap();
    assert_eq!((history.read("f"), history.read("g")), ("0".into(), "0".into()));

    // Two calls at the same time: nobody knows who did it.
    let (one, two) = (
        history.snapshots.begin(&by("s", "Bash")).unwrap(),
        history.snapshots.begin(&by("t", "Bash")).unwrap(),
    );
    history.place.write("f", "who?");
    history.snapshots.finish(&one).unwrap();
    history.snapshots.finish(&two).unwrap();
    let text = history.undo("s").unwrap_err().to_string();
    assert!(text.contains("ran at the same time"), "{text}");
}

/// A server's log: lines that came while the call ran are in its difference, and whose they are nobody can tell.
#[test]
fn what_others_add_to_stays_and_stops_nothing() {
    let history = History::new(true);
    let place = &history.place;
    let append = |text: &str| {
        let mut log = File::options().append(true).open(place.root.join("log")).unwrap();
        log.write_all(text.as_bytes()).unwrap();
    };
    place.write("log", "one\n");
    place.write("f", "0");
    let kept = (Change::KeptGrowing, "log".into());
    history.call("s", || {
        append("two\n");
        place.write("f", "1");
    });
    append("three\n");
    assert_eq!(history.undo("s").unwrap().changes, [(Change::Changed, "f".into()), kept.clone()]);
    assert_eq!((history.read("f"), history.read("log")), ("0".into(), "one\ntwo\nthree\n".into()));

    // Nothing but the log: it is told, and does not bar the way to the call before.
    history.call("s", || place.write("f", "2"));
    history.call("s", || append("four\n"));
    append("five\n");
    assert_eq!(history.undo("s").unwrap().changes, std::slice::from_ref(&kept));
    assert_eq!(history.undo("s").unwrap().changes, [(Change::Changed, "f".into())]);
    assert_eq!(history.read("log"), "one\ntwo\nthree\nfour\nfive\n");

    // Nobody has added to it since, but somebody is about to. A call that did nothing itself is passed over, even a
    // server of ours that runs on.
    let mut server = Command::new("sh")
        .args(["-c", "exec >> log; while read -r line; do echo $line; done"])
        .current_dir(&place.root)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = server.stdin.take().unwrap();
    history.call("s", || {
        lines.write_all(b"six\n").unwrap();
        while !history.read("log").ends_with("six\n") {}
    });
    assert!(matches!(history.undo("s"), Err(SnapshotError::NothingToUndo { .. })));
    history.call("s", || {
        lines.write_all(b"six\n").unwrap();
        while !history.read("log").ends_with("six\nsix\n") {}
        place.write("f", "3");
    });
    let shell = history.snapshots.begin(&by("s", "Bash")).unwrap();
    history.snapshots.go_on(&shell).unwrap();
    let mut own = File::create(place.root.join("own")).unwrap();
    let mut tail =
        Command::new("cat").stdin(Stdio::piped()).stdout(own.try_clone().unwrap()).spawn().unwrap();
    own.write_all(b"up\n").unwrap();
    assert_eq!(history.undo("s").unwrap().changes, [(Change::Changed, "f".into()), kept]);
    assert_eq!(history.read("own"), "up\n");
    drop((own, tail.stdin.take()));
    assert!(tail.wait().unwrap().success());
    history.snapshots.finish(&shell).unwrap();
    assert_eq!(history.undo("s").unwrap().changes, [(Change::Deleted, "own".into())]);
    lines.write_all(b"seven\n").unwrap();
    drop(lines);
    assert!(server.wait().unwrap().success());
    assert!(history.read("log").ends_with("six\nseven\n"));

    // Alone with it, the call's lines go; where more than lines were added, or `force` is given, nothing is new.
    history.call("s", || append("eight\n"));
    assert_eq!(history.undo("s").unwrap().changes, [(Change::Changed, "log".into())]);
    history.call("s", || place.write("log", "rotated\n"));
    append("nine\n");
    assert!(matches!(history.undo("s"), Err(SnapshotError::Conflict { .. })));
    history.snapshots.undo(&by("s", "undo"), UndoOptions { force: true, ..PLAIN }).unwrap();
    assert!(history.read("log").ends_with("six\nseven\n"));
}

#[test]
fn a_file_that_was_ignored_before_stays() {
    let history = History::new(true);
    history.place.write(".gitignore", "*.log\n");
    history.place.write("precious.log", "mine");
    for settle in [Duration::ZERO, Duration::from_millis(50)] {
        history.call("s", || fs::write(history.place.root.join(".gitignore"), "").unwrap());
        // Of what has settled it is known whether somebody else touches it meanwhile.
        std::thread::sleep(settle);
        let undone = history.undo("s").unwrap();
        assert_eq!(
            (history.read(".gitignore"), history.read("precious.log")),
            ("*.log\n".into(), "mine".into())
        );
        assert_eq!(
            undone.changes,
            [(Change::Changed, ".gitignore".into()), (Change::KeptIgnored, "precious.log".into())]
        );
    }
    // Content of ignored files is kept nowhere.
    history.edit("s", "secret.log", "hidden");
    let undone = history.undo("s").unwrap();
    assert_eq!((undone.changes, undone.left_out), (vec![], vec!["secret.log".into()]));
    assert!(matches!(history.undo("s"), Err(SnapshotError::NothingToUndo { .. })));
}

/// One change of any kind; those that make no sense fail, which is fine.
fn change(random: &mut Random, root: &Path, round: usize) {
    let mut path = || {
        let depth = random.below(3);
        let folder = (0..depth).fold(root.to_owned(), |path, _| path.join(format!("d{}", random.below(3))));
        folder.join(format!("f{}", random.below(4)))
    };
    let (one, two) = (path(), path());
    let _ = match random.below(9) {
        0..=2 => fs::create_dir_all(one.parent().unwrap()).and_then(|()| fs::write(&one, format!("{round}"))),
        3 => fs::remove_file(&one),
        4 => fs::rename(one.parent().unwrap(), two.parent().unwrap()),
        5 => fs::rename(&one, &two),
        6 => symlink(format!("to{round}"), &one),
        7 => fs::create_dir_all(&one),
        _ => fs::remove_dir_all(one.parent().unwrap().join(format!("d{}", round % 3))),
    };
}

#[test]
fn whatever_was_done_goes_back_by_events_alone() {
    for seed in 1..=6 {
        let history = History::of(Place::with_store_in_memory(), true);
        let mut random = Random(seed * 7919);
        let mut states: Vec<BTreeMap<String, String>> = Vec::new();
        for round in 0..60 {
            let before = history.place.state();
            if round % 4 == 3 {
                let _ = history.workspace.resolve(format!("e{}", random.below(3))).map(|path| {
                    history.edit("s", &path.to_string(), &format!("{round}"));
                });
            } else {
                let many = 1 + random.below(4);
                history.call("s", || (0..many).for_each(|_| change(&mut random, &history.place.root, round)));
            }
            if history.place.state() != before {
                states.push(before);
            }
        }
        for (n, state) in states.iter().enumerate().rev() {
            let log =
                || history.place.git(&["for-each-ref", "--format=%(refname) %(subject)", "refs/automatic"]);
            history.undo("s").unwrap_or_else(|error| {
                panic!("seed {seed}, step {n}: {error}\n{state:?}\n{:?}\n{}", history.place.state(), log())
            });
            assert_eq!(&history.place.state(), state, "seed {seed}, step {n}\n{}", log());
        }
    }
}

/// Else an earlier call, which nobody meant, would go instead of it.
#[test]
fn a_call_that_changed_what_is_not_kept_is_still_the_last_one() {
    for live in [false, true] {
        let history = History::new(live);
        let Place { root, .. } = &history.place;
        for (name, content) in [("a", "0"), (".gitignore", "*.log\n"), ("x.log", "0"), ("lib/v", "0")] {
            history.place.write(name, content);
        }
        history.place.write("lib/.git/HEAD", "ref: refs/heads/main\n");
        history.edit("s", "a", "1");
        for name in ["x.log", "lib/v"] {
            history.edit("s", name, "1");
            let undone = history.undo("s").unwrap();
            assert_eq!((undone.changes, undone.left_out), (vec![], vec![name.into()]), "live {live}");
            assert_eq!((history.read("a").as_str(), history.read(name).as_str()), ("1", "1"));
        }
        // Content of what is ignored is kept nowhere.
        history.edit("s", "x.log", "secret of the log");
        let mut kept = Command::new("grep");
        kept.args(["-rac", "secret of the log"]).arg(&history.place.store);
        let kept = String::from_utf8(kept.stdout(Stdio::piped()).output().unwrap().stdout).unwrap();
        assert!(kept.lines().all(|line| line.ends_with(":0")), "{kept}");
        history.undo("s").unwrap();
        if live {
            history.call("s", || {
                history.place.write("lib/v", "2");
                history.place.write("lib/new", "2");
                history.place.write("lib/.git/index", "2");
            });
            let undone = history.undo("s").unwrap();
            assert_eq!((undone.changes, undone.left_out), (vec![], vec!["lib".into()]));
        }
        history.call("s", || fs::write(root.join("lib/.git/index"), "3").unwrap());
        assert_eq!(history.undo("s").unwrap().changes, [(Change::Changed, "a".into())], "live {live}");
        assert!(matches!(history.undo("s"), Err(SnapshotError::NothingToUndo { .. })));
    }
}

/// What goes on in the background where nothing is kept leaves the history of other calls alone.
#[test]
fn what_is_told_once_takes_no_more_room() {
    let place = Place::new();
    place.write("a", "0");
    place.write("lib/.git/HEAD", "ref: refs/heads/main\n");
    place.write("lib/v", "0");
    let workspace = Arc::new(Workspace::open("w", &place.root).unwrap());
    workspace.go_live_now(LiveOptions::default());
    let few = Retention { count: 5, ..Retention::default() };
    let snapshots = Snapshots::open(Arc::clone(&workspace), &place.store, few).unwrap();
    note(&workspace, &snapshots, "s", "a", "1");
    let server = snapshots.begin(&by("s", "Bash")).unwrap();
    snapshots.go_on(&server).unwrap();
    for n in 0..20 {
        place.write("lib/v", n.to_string());
        snapshots.create(&format!("n{n}"), "").unwrap();
    }
    snapshots.finish(&server).unwrap();
    for n in 20..40 {
        place.write("lib/v", n.to_string());
        snapshots.create(&format!("n{n}"), "").unwrap();
    }
    assert_eq!(snapshots.undo(&by("s", "undo"), PLAIN).unwrap().left_out, [Path::new("lib")]);
    let undone = snapshots.undo(&by("s", "undo"), PLAIN).unwrap();
    assert_eq!(undone.changes, [(Change::Changed, "a".into())]);
}
