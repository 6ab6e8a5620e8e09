//! What only shows between two steps of a restore, or when it cannot go on.

use super::*;
use std::fs;

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (from, to) = entry.map(|entry| (entry.path(), to.join(entry.file_name()))).unwrap();
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(from, to).unwrap();
        }
    }
}

/// Somebody saves files between the look at them and the moment in which they would be replaced.
#[test]
fn what_is_changed_meanwhile_is_left_alone() {
    for many in [false, true] {
        let temp = tempfile::tempdir().unwrap();
        let work = temp.path().join("work");
        fs::create_dir(&work).unwrap();
        let put = |name: &str, text: &str| fs::write(work.join(name), text).unwrap();
        let read = |name: &str| fs::read_to_string(work.join(name)).unwrap_or_default();
        let others: Vec<String> =
            (0..if many { 150 } else { 3 }).map(|number| format!("f{number}")).collect();
        others.iter().for_each(|name| put(name, "one"));
        fs::hard_link(work.join("f0"), work.join("twin")).unwrap();
        let workspace = Arc::new(Workspace::open("w", &work).unwrap());
        let snapshots = Snapshots::open(workspace, &temp.path().join("store"), Retention::default()).unwrap();
        snapshots.create("a", "").unwrap();
        others.iter().for_each(|name| put(name, "two"));
        put("new", "new");
        put("newer", "new");
        std::thread::sleep(Duration::from_millis(50));
        let mut state = snapshots.lock();
        let alone = snapshots.store.exclusive().unwrap();
        let (commit, whole) = snapshots.find(&state, "a").unwrap();
        let planned = snapshots.advance_with(&mut state, Trust::Stamps, &alone, |state, batch| {
            let note = Note::new(Snapshots::own_call(), &Caller::default());
            snapshots.plan(state, batch, Intent { tree: commit.tree, whole }, note)
        });
        put("f1", "saved");
        put("newer", "saved");
        let changes = snapshots.put_in_place(&mut state, planned.unwrap().unwrap()).unwrap();
        let kept: Vec<_> = changes.iter().filter(|(change, _)| change.is_kept()).collect();
        let newer = |name: &str| (Change::KeptNewer, PathBuf::from(name));
        assert_eq!(kept, [&newer("f1"), &newer("newer")]);
        assert_eq!((read("f1"), read("newer"), read("new")), ("saved".into(), "saved".into(), "".into()));
        assert_eq!((read("f0"), read("f2"), read("twin")), ("one".into(), "one".into(), "one".into()));
        drop((alone, state));
        // The history has seen it since.
        snapshots.create("b", "").unwrap();
        put("f1", "again");
        snapshots.restore("b", &Caller::default()).unwrap();
        assert_eq!(read("f1"), "saved");
    }
}

#[test]
fn a_restore_that_nobody_can_finish_is_given_up() {
    let temp = tempfile::tempdir().unwrap();
    let (work, folder) = (temp.path().join("work"), temp.path().join("store"));
    fs::create_dir(&work).unwrap();
    fs::write(work.join("f"), "one").unwrap();
    let open = || {
        let workspace = Arc::new(Workspace::open("w", work.clone()).unwrap());
        Snapshots::open(workspace, &folder, Retention::default()).unwrap()
    };
    let snapshots = open();
    snapshots.create("a", "").unwrap();
    drop(snapshots);
    let nowhere = Intent { tree: Kind::Tree.id(b"of no store"), whole: true }.draft(&folder);
    fs::write(&nowhere.path, &nowhere.content).unwrap();
    assert!(Snapshots::unfinished(&folder));
    let snapshots = open();
    assert!(matches!(snapshots.finished(), Some(Finished::Lost(_))), "{:?}", snapshots.finished());
    assert_eq!(fs::read_to_string(work.join("f")).unwrap(), "one");
    fs::write(work.join("f"), "two").unwrap();
    snapshots.restore("a", &Caller::default()).unwrap();
    assert_eq!(fs::read_to_string(work.join("f")).unwrap(), "one");
    drop(snapshots);
    fs::write(&nowhere.path, b"\xff\0 no tree").unwrap();
    let snapshots = open();
    assert_eq!(snapshots.finished(), None);
    fs::write(work.join("f"), "two").unwrap();
    snapshots.restore("a", &Caller::default()).unwrap();
    assert_eq!(fs::read_to_string(work.join("f")).unwrap(), "one");
}

/// The power fails right after the answer, and of all that was written but the one record nothing was on disk, or
/// only some of it.
#[test]
fn what_was_answered_lasts_though_the_power_fails() {
    let temp = tempfile::tempdir().unwrap();
    let at = |name: &str| temp.path().join(name);
    let open = |folder: &Path| {
        let workspace = Arc::new(Workspace::open("w", folder.join("work")).unwrap());
        Snapshots::open(workspace, &folder.join("store"), Retention::default()).unwrap()
    };
    let put = |name: &str, text: &str| fs::write(at("now/work").join(name), text).unwrap();
    fs::create_dir_all(at("now/work")).unwrap();
    put("f", "one");
    put("gone", "gone");
    let snapshots = open(&at("now"));
    snapshots.create("a", "").unwrap();
    put("f", "two");
    put("new", "new");
    fs::remove_file(at("now/work/gone")).unwrap();
    for (n, restored) in [false, true, true].into_iter().enumerate() {
        let image = at(&format!("image{n}"));
        // Nobody has the store before everything in it is on disk, and then nothing in it moves.
        let alone = snapshots.store.exclusive().unwrap();
        copy(&at("now"), &image);
        drop(alone);
        if restored {
            snapshots.restore("a", &Caller::default()).unwrap();
        } else {
            snapshots.create("b", "").unwrap();
        }
        let alone = snapshots.store.exclusive().unwrap();
        if n == 2 {
            fs::copy(at("now/work/f"), image.join("work/f")).unwrap();
            fs::write(image.join("work/gone"), "").unwrap();
            let packs = |folder: &Path| fs::read_dir(folder.join("store/objects/pack")).unwrap();
            for pack in packs(&at("now")).map(|pack| pack.unwrap().file_name()) {
                let other = image.join("store/objects/pack").join(pack);
                if !other.exists() {
                    fs::write(other, "").unwrap();
                }
            }
        }
        fs::copy(at("now/store/ahead"), image.join("store/ahead")).unwrap();
        drop(alone);
        ahead::tests::lose_power(&image.join("store"));
        assert!(Snapshots::unfinished(&image.join("store")));
        let after = open(&image);
        let read = |name: &str| fs::read_to_string(image.join("work").join(name)).ok();
        if restored {
            assert_eq!(
                (read("f"), read("new"), read("gone")),
                (Some("one".into()), None, Some("gone".into()))
            );
            // What was there before can be had again.
            let before = after.lock().steps.iter().map(Step::name).collect::<Vec<_>>();
            let found = before.iter().any(|name| {
                after.restore(name, &Caller::default()).unwrap();
                read("f") == Some("two".into()) && read("new") == Some("new".into())
            });
            assert!(found, "{n} {before:?}");
            snapshots.undo(&Caller::default(), UndoOptions { any_session: true, force: true }).unwrap();
        } else {
            after.restore("b", &Caller::default()).unwrap();
            assert_eq!(
                (read("f"), read("new"), read("gone")),
                (Some("two".into()), Some("new".into()), None)
            );
        }
    }
}
