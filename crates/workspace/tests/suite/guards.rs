//! What snapshots must never touch, and what of theirs nobody else may see.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use crate::snapshots::{Place, who};
use workspace::{Change, LiveOptions, Retention, SnapshotError, Snapshots, UndoOptions, Workspace};

const PLAIN: UndoOptions = UndoOptions { any_session: false, force: false };

fn git(folder: &Path, args: &[&str]) {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=n", "-c", "user.email=e", "-c", "protocol.file.allow=always"]);
    let output = command.arg("-C").arg(folder).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn mode(path: impl AsRef<Path>) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// A call that may do anything, as a shell's, taken back at once.
fn undone(snapshots: &Snapshots, work: impl FnOnce()) -> Vec<(Change, PathBuf)> {
    let recording = snapshots.begin(&who()).unwrap();
    work();
    snapshots.finish(&recording).unwrap();
    snapshots.undo(&who(), PLAIN).unwrap().changes
}

#[test]
fn no_name_leads_out_of_the_store() {
    let place = Place::new();
    place.write("precious", "kept");
    let snapshots = place.open();
    snapshots.create("s", "").unwrap();
    let outside = place.root.join("precious");
    let long = "a".repeat(201);
    for name in [outside.to_str().unwrap(), "", ".", "..", "../../packed-refs", "a/b", "-x", "s\0", &long] {
        assert!(matches!(snapshots.create(name, ""), Err(SnapshotError::Name(_))), "{name}");
        for done in [
            snapshots.delete(name),
            snapshots.restore(name, &who()).map(|_| ()),
            snapshots.diff(name, None, 10).map(|_| ()),
        ] {
            assert!(matches!(done, Err(SnapshotError::Unknown { .. })), "{name}: {done:?}");
        }
    }
    // Each of its dots takes three bytes on disk: that must not be too long for a file's name either.
    let dotted = format!("a{}", "..b".repeat(60));
    assert!(matches!(snapshots.create(&dotted, ""), Err(SnapshotError::Name(_))));
    assert!(outside.exists() && snapshots.list().unwrap().len() == 1);
    snapshots.delete("s").unwrap();
}

/// As with a home folder for a workspace.
#[test]
fn a_store_inside_the_workspace_is_not_part_of_it() {
    for live in [false, true] {
        let place = Place::new();
        place.write("f", "one");
        place.write(".ignore", "!.local\n!codegen-sandbox\n");
        let state = place.root.join(".local/state/codegen-sandbox");
        let workspace = Arc::new(Workspace::open("w", &place.root).unwrap().without(&state));
        if live {
            workspace.go_live_now(LiveOptions::default());
        }
        let snapshots = Snapshots::open(workspace, &state.join("snapshots/w"), Retention::default()).unwrap();
        snapshots.create("a", "").unwrap();
        snapshots.create("b", "").unwrap();
        place.write("f", "two");
        place.write(".local/state/other", "another program's");
        let restored = snapshots.restore("a", &who()).unwrap();
        let expected =
            [(Change::Deleted, ".local/state/other".into()), (Change::Changed, PathBuf::from("f"))];
        assert_eq!(restored.changes, expected);
        assert_eq!(snapshots.list().unwrap().len(), 2);
        snapshots.undo(&who(), PLAIN).unwrap();
        assert_eq!(fs::read_to_string(place.root.join("f")).unwrap(), "two");
        snapshots.restore("b", &who()).unwrap();
    }
}

/// Git finds the excludes of a worktree and of a submodule elsewhere; so do we.
#[test]
fn excludes_of_worktrees_and_submodules_hold() {
    let temp = tempfile::tempdir().unwrap();
    let at = |name: &str| temp.path().join(name);
    for name in ["main", "part"] {
        fs::create_dir(at(name)).unwrap();
        git(&at(name), &["init", "-q"]);
        git(&at(name), &["commit", "-q", "--allow-empty", "-m", "first"]);
    }
    git(&at("main"), &["worktree", "add", "-q", "../tree"]);
    git(&at("main"), &["submodule", "add", "-q", "../part", "sub"]);
    for excludes in [".git/info", ".git/modules/sub/info"] {
        fs::create_dir_all(at("main").join(excludes)).unwrap();
        fs::write(at("main").join(excludes).join("exclude"), "*.local\n").unwrap();
    }
    fs::create_dir(at("tree/inner")).unwrap();
    for (n, root) in [at("tree"), at("main/sub"), at("tree/inner")].into_iter().enumerate() {
        for live in [false, true] {
            fs::write(root.join("x.local"), "mine").unwrap();
            fs::write(root.join("f"), "one").unwrap();
            let workspace = Arc::new(Workspace::open("w", &root).unwrap());
            if live {
                workspace.go_live_now(LiveOptions::default());
            }
            let store = at(&format!("store-{n}-{live}"));
            let snapshots = Snapshots::open(workspace, &store, Retention::default()).unwrap();
            snapshots.create("a", "").unwrap();
            fs::write(root.join("x.local"), "changed").unwrap();
            fs::write(root.join("y.local"), "new").unwrap();
            fs::write(root.join("f"), "two").unwrap();
            let changes = snapshots.restore("a", &who()).unwrap().changes;
            assert_eq!(changes, [(Change::Changed, "f".into())], "{root:?} {live}");
            // Rules that change there are seen here.
            let exclude =
                at("main").join(if n == 1 { ".git/modules/sub/info" } else { ".git/info" }).join("exclude");
            fs::write(&exclude, "nothing\n").unwrap();
            let changes = snapshots.restore("a", &who()).unwrap().changes;
            fs::write(&exclude, "*.local\n").unwrap();
            let gone = |name: &str| (Change::Deleted, PathBuf::from(name));
            assert_eq!(changes, [gone("x.local"), gone("y.local")], "{root:?} {live}");
        }
    }
}

#[test]
fn what_git_might_take_for_its_own_does_not_stop_an_undo() {
    let place = Place::new();
    place.write(".GIT/config", "not git's");
    place.write("f", "one");
    let snapshots = place.open();
    let changes = undone(&snapshots, || {
        fs::remove_dir_all(place.root.join(".GIT")).unwrap();
        fs::remove_file(place.root.join("f")).unwrap();
    });
    assert_eq!(changes, [(Change::Created, "f".into())]);
}

#[test]
fn a_repository_that_came_is_left_alone() {
    let place = Place::new();
    place.write("lib/a", "one");
    place.write("lib/deep/b", "one");
    place.write("lib/.gitignore", "x\n");
    place.write("f", "one");
    let snapshots = place.open();
    snapshots.create("a", "").unwrap();
    fs::remove_dir_all(place.root.join("lib")).unwrap();
    place.write("lib/c", "theirs");
    git(&place.root.join("lib"), &["init", "-q"]);
    place.write("f", "two");
    let changes = snapshots.restore("a", &who()).unwrap().changes;
    let kept = |name: &str| (Change::KeptRepository, PathBuf::from(name));
    let expected = [(Change::Changed, "f".into()), kept("lib/.gitignore"), kept("lib/a"), kept("lib/deep/b")];
    assert_eq!(changes, expected);
    assert_eq!(place.state().keys().collect::<Vec<_>>(), ["f", "lib/", "lib/c"]);
}

/// Its files were there all the time: that a call made them visible does not make them the call's.
#[test]
fn a_repository_that_is_none_any_more_keeps_its_files() {
    for live in [false, true] {
        let place = Place::new();
        place.write("f", "one");
        place.write("lib/.git/HEAD", "ref: refs/heads/main\n");
        place.write("lib/deep/a", "theirs");
        fs::create_dir(place.root.join("lib/empty")).unwrap();
        let workspace = Arc::new(Workspace::open("w", &place.root).unwrap());
        if live {
            workspace.go_live_now(LiveOptions::default());
        }
        let snapshots = Snapshots::open(workspace, &place.store, Retention::default()).unwrap();
        let call = snapshots.begin(&who()).unwrap();
        fs::remove_dir_all(place.root.join("lib/.git")).unwrap();
        place.write("f", "two");
        snapshots.finish(&call).unwrap();
        let undone = snapshots.undo(&who(), PLAIN).unwrap();
        assert_eq!(undone.changes, [(Change::Changed, "f".into())], "live {live}");
        assert_eq!(undone.left_out, [PathBuf::from("lib")]);
        assert_eq!(fs::read_to_string(place.root.join("lib/deep/a")).unwrap(), "theirs");
        assert!(place.root.join("lib/empty").is_dir());
        // From now on they are like any others.
        assert_eq!(
            self::undone(&snapshots, || place.write("lib/deep/a", "ours")),
            [(Change::Changed, "lib/deep/a".into())]
        );
    }
}

#[test]
fn pipes_in_the_way_are_left_and_told() {
    let place = Place::new();
    for name in ["f", "folder/a", "folder/deep/b", "g"] {
        place.write(name, "one");
    }
    let snapshots = place.open();
    let changes = undone(&snapshots, || {
        fs::remove_file(place.root.join("f")).unwrap();
        fs::remove_dir_all(place.root.join("folder")).unwrap();
        fs::remove_file(place.root.join("g")).unwrap();
        for name in ["f", "folder"] {
            assert!(Command::new("mkfifo").arg(place.root.join(name)).status().unwrap().success());
        }
    });
    let kept = |name: &str| (Change::KeptSpecial, PathBuf::from(name));
    assert_eq!(changes, [kept("f"), kept("folder/a"), kept("folder/deep/b"), (Change::Created, "g".into())]);
}

#[test]
fn what_few_may_read_stays_so() {
    let place = Place::new();
    for (name, bits) in [("key", 0o600), ("tool", 0o700), ("shared", 0o640), ("open", 0o644)] {
        place.write(name, name);
        fs::set_permissions(place.root.join(name), fs::Permissions::from_mode(bits)).unwrap();
    }
    let snapshots = place.open();
    assert_eq!(mode(&place.store), 0o700);
    let usual = {
        place.write("new", "");
        mode(place.root.join("new"))
    };
    let remove = || {
        for name in ["key", "tool", "shared", "open"] {
            fs::remove_file(place.root.join(name)).unwrap();
        }
    };
    undone(&snapshots, remove);
    let now = || ["key", "tool", "shared", "open"].map(|name| mode(place.root.join(name)));
    let expected = [0o600, 0o700, usual & 0o640, usual & 0o644];
    assert_eq!(now(), expected);
    // Also in another process, and after the store was tidied.
    drop(snapshots);
    let snapshots = place.open();
    for n in 0..60 {
        place.write("new", n.to_string());
        snapshots.create(&format!("s{n}"), "").unwrap();
    }
    undone(&snapshots, remove);
    assert_eq!(now(), expected);
}

/// The same text may be everybody's to read elsewhere.
#[test]
fn permissions_belong_to_a_path() {
    let all = [("a", "text", 0o600), ("b", "text", 0o644), ("tool", "#!", 0o700), ("open", "#!", 0o755)];
    let all =
        [&all[..], &[("empty", "", 0o600), ("none", "", 0o644), ("odd\n\u{1}é", "text", 0o640)]].concat();
    let place = Place::new();
    place.write("new", "");
    let usual = mode(place.root.join("new"));
    for (name, text, bits) in &all {
        place.write(name, text);
        fs::set_permissions(place.root.join(name), fs::Permissions::from_mode(*bits)).unwrap();
    }
    let expected: Vec<u32> = all.iter().map(|(.., bits)| bits & (usual | (usual & 0o444) >> 2)).collect();
    let now = || all.iter().map(|(name, ..)| mode(place.root.join(name))).collect::<Vec<_>>();
    let remove = || all.iter().for_each(|(name, ..)| fs::remove_file(place.root.join(name)).unwrap());
    let snapshots = place.open();
    undone(&snapshots, remove);
    assert_eq!(now(), expected);
    drop(snapshots);
    // Also in another process, after the store was tidied.
    let snapshots = place.open();
    for n in 0..60 {
        place.write("new", n.to_string());
        snapshots.create(&format!("s{n}"), "").unwrap();
    }
    remove();
    drop(snapshots);
    let snapshots = place.open();
    snapshots.restore("s59", &who()).unwrap();
    assert_eq!(now(), expected);
    // What was opened since, for everybody to see, comes back so.
    fs::set_permissions(place.root.join("a"), fs::Permissions::from_mode(0o644)).unwrap();
    undone(&snapshots, remove);
    assert_eq!(now()[..2], [usual & 0o644; 2]);
}

#[test]
fn folders_that_few_may_look_into_stay_so() {
    let place = Place::new();
    place.write("priv/s", "secret");
    place.write("priv/deep/t", "secret");
    place.write("open/o", "open");
    let usual = mode(place.root.join("open"));
    for (name, bits) in [("priv", 0o700), ("priv/deep", 0o750)] {
        fs::set_permissions(place.root.join(name), fs::Permissions::from_mode(bits)).unwrap();
    }
    let now = || ["priv", "priv/deep", "open"].map(|name| mode(place.root.join(name)));
    let expected = [0o700, usual & 0o750, usual];
    let remove =
        || ["priv", "open"].iter().for_each(|name| fs::remove_dir_all(place.root.join(name)).unwrap());
    let snapshots = place.open();
    undone(&snapshots, remove);
    assert_eq!(now(), expected);
    for n in 0..60 {
        place.write("new", n.to_string());
        snapshots.create(&format!("s{n}"), "").unwrap();
    }
    remove();
    drop(snapshots);
    let snapshots = place.open();
    snapshots.restore("s0", &who()).unwrap();
    assert_eq!(now(), expected);
    // One that is closed by a call of its own, too.
    undone(&snapshots, || place.write("new", "other"));
    fs::set_permissions(place.root.join("open"), fs::Permissions::from_mode(0o711)).unwrap();
    undone(&snapshots, remove);
    assert_eq!(now(), [0o700, usual & 0o750, usual & 0o711]);
}

/// Something wider came to stand where a secret was.
#[test]
fn what_few_may_read_does_not_come_back_into_a_file_of_everybody() {
    for count in [1, 150] {
        let place = Place::new();
        let names: Vec<String> = (0..count).map(|n| format!("key{n}")).collect();
        for name in &names {
            place.write(name, "secret");
            fs::set_permissions(place.root.join(name), fs::Permissions::from_mode(0o600)).unwrap();
        }
        let snapshots = place.open();
        undone(&snapshots, || {
            for name in &names {
                place.write("other", "other");
                fs::rename(place.root.join("other"), place.root.join(name)).unwrap();
            }
        });
        for name in &names {
            assert_eq!(fs::read_to_string(place.root.join(name)).unwrap(), "secret");
            assert_eq!(mode(place.root.join(name)), 0o600, "{name} of {count}");
        }
    }
}

/// Of two edits right after each other nobody looks at what the first one left.
#[test]
fn what_an_edit_left_for_a_moment_is_as_narrow_as_the_file() {
    let place = Place::new();
    place.write("key", "one");
    fs::set_permissions(place.root.join("key"), fs::Permissions::from_mode(0o600)).unwrap();
    let workspace = Arc::new(Workspace::open("main", &place.root).unwrap());
    let snapshots = Snapshots::open(Arc::clone(&workspace), &place.store, Retention::default()).unwrap();
    let key = workspace.resolve("key").unwrap();
    snapshots.create("s", "").unwrap();
    for (before, after) in [("one", "two"), ("two", "three")] {
        let noted = snapshots.note(&who(), &key, Some(before.as_bytes())).unwrap();
        place.write("key", after);
        snapshots.noted(&noted, Some(after.as_bytes().into()));
    }
    snapshots.flush().unwrap();
    fs::remove_file(place.root.join("key")).unwrap();
    snapshots.restore("auto-2", &who()).unwrap();
    assert_eq!(fs::read_to_string(place.root.join("key")).unwrap(), "two");
    assert_eq!(mode(place.root.join("key")), 0o600);
}

/// An older version noted contents alone: what is not seen where it stands is as narrow as that says.
#[test]
fn what_an_older_version_noted_still_counts() {
    for seen in [true, false] {
        let place = Place::new();
        for (name, bits) in [("a", 0o600), ("b", 0o644)] {
            place.write(name, "text");
            fs::set_permissions(place.root.join(name), fs::Permissions::from_mode(bits)).unwrap();
        }
        place.open().create("s", "").unwrap();
        let usual = mode(place.root.join("b"));
        fs::remove_file(place.store.join("narrow-paths")).unwrap();
        // What `git hash-object` says of `text`.
        fs::write(place.store.join("narrow"), "f3a34851d44d6b97c90fbb99dd3d18c261b9a237 600\n").unwrap();
        let snapshots = place.open();
        if seen {
            snapshots.create("t", "").unwrap();
        }
        ["a", "b"].iter().for_each(|name| fs::remove_file(place.root.join(name)).unwrap());
        snapshots.restore("s", &who()).unwrap();
        let now = ["a", "b"].map(|name| mode(place.root.join(name)));
        assert_eq!(now, if seen { [0o600, usual] } else { [0o600; 2] });
    }
}

fn size(folder: &Path) -> u64 {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

#[test]
fn a_deleted_snapshot_gives_its_room_back() {
    let place = Place::new();
    place.write("f", "one");
    let snapshots = place.open();
    snapshots.create("small", "").unwrap();
    let mut byte = 1u32;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        byte = byte.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (byte >> 24) as u8
    })
    .take(70 << 20)
    .collect();
    place.write("large", &noise);
    snapshots.create("large", "").unwrap();
    fs::remove_file(place.root.join("large")).unwrap();
    snapshots.create("after", "").unwrap();
    let packs = place.store.join("objects/pack");
    assert!(size(&packs) > 70 << 20);
    snapshots.delete("large").unwrap();
    assert!(size(&packs) < 1 << 20, "{}", size(&packs));
    place.write("f", "two");
    snapshots.restore("after", &who()).unwrap();
    snapshots.restore("small", &who()).unwrap();
    drop(snapshots);
    place.git(&["fsck", "--full"]);
}

#[test]
fn one_damaged_pack_does_not_take_the_others_with_it() {
    for cut in ["pack", "idx"] {
        let place = Place::new();
        place.write("f", "one");
        let snapshots = place.open();
        snapshots.create("a", "first").unwrap();
        drop(snapshots);
        let packs = place.store.join("objects/pack");
        let first = fs::read_dir(&packs).unwrap().map(|entry| entry.unwrap().path());
        let first: Vec<PathBuf> = first.filter(|path| path.extension().is_some_and(|e| e == cut)).collect();
        place.write("f", "two");
        let snapshots = place.open();
        snapshots.create("b", "second").unwrap();
        drop(snapshots);
        for file in &first {
            fs::File::options().write(true).open(file).unwrap().set_len(40).unwrap();
        }
        let snapshots = place.open();
        let listed = snapshots.list().unwrap();
        assert_eq!(listed.len(), 2);
        assert!(listed.iter().any(|one| one.name == "a" && one.description.contains("cannot be read")));
        assert!(snapshots.restore("a", &who()).is_err());
        place.write("f", "three");
        snapshots.create("c", "").unwrap();
        place.write("f", "four");
        snapshots.restore("c", &who()).unwrap();
        assert_eq!(fs::read_to_string(place.root.join("f")).unwrap(), "three");
        snapshots.restore("b", &who()).unwrap();
        assert_eq!(fs::read_to_string(place.root.join("f")).unwrap(), "two");
        snapshots.undo(&who(), PLAIN).unwrap();
        assert_eq!(fs::read_to_string(place.root.join("f")).unwrap(), "three");
        // What is damaged can be forgotten, and many calls later it is no obstacle either.
        snapshots.create("d", "").unwrap();
        snapshots.delete("d").unwrap();
        for n in 0..60 {
            let call = snapshots.begin(&who()).unwrap();
            place.write("g", n.to_string());
            snapshots.finish(&call).unwrap();
        }
        snapshots.delete("a").unwrap();
        assert_eq!(snapshots.list().unwrap().len(), 2);
    }
}

/// A byte of a pack is no longer what it was. Files that are still there are stored again, so that what is told to be a
/// snapshot is one.
#[test]
fn what_is_damaged_is_stored_anew() {
    let text = |n: u32| (0..400 * (n + 1)).map(|word| format!("{n} {} ", word * word)).collect::<String>();
    let check = |place: &Place| {
        (0..6).for_each(|n| {
            assert_eq!(fs::read_to_string(place.root.join(format!("folder/f{n}"))).unwrap(), text(n))
        });
    };
    let parts = 9;
    for part in 0..parts {
        let place = Place::new();
        (0..6).for_each(|n| place.write(&format!("folder/f{n}"), text(n)));
        place.open().create("a", "").unwrap();
        let packs =
            fs::read_dir(place.store.join("objects/pack")).unwrap().map(|entry| entry.unwrap().path());
        for pack in packs.filter(|path| path.extension().is_some_and(|e| e == "pack")) {
            let mut bytes = fs::read(&pack).unwrap();
            // Neither the beginning nor the end: then it would be set aside.
            let at = 12 + (bytes.len() - 33) * part / (parts - 1);
            bytes[at] ^= 0x10;
            fs::set_permissions(&pack, fs::Permissions::from_mode(0o600)).unwrap();
            fs::write(&pack, bytes).unwrap();
        }
        let snapshots = place.open();
        snapshots.create("c", "").unwrap();
        let gone = || fs::remove_dir_all(place.root.join("folder")).unwrap();
        gone();
        snapshots.restore("c", &who()).unwrap();
        check(&place);
        drop(snapshots);
        let snapshots = place.open();
        gone();
        snapshots.restore("c", &who()).unwrap();
        check(&place);
    }
}

/// A server that runs as root, as in many containers, must not take files from those who own them.
#[test]
fn owners_stay() {
    let place = Place::new();
    place.write("f", "1");
    let file = place.root.join("f");
    if std::os::unix::fs::chown(&file, Some(12_345), Some(12_346)).is_err() {
        // Who is not root has no files of others, and takes none.
        return;
    }
    let snapshots = place.open();
    snapshots.create("s", "").unwrap();
    place.write("f", "2");
    snapshots.restore("s", &who()).unwrap();
    let now = fs::metadata(&file).unwrap();
    assert_eq!((fs::read_to_string(&file).unwrap().as_str(), now.uid(), now.gid()), ("1", 12_345, 12_346));
}
