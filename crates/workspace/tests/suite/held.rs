//! Files whose descriptors are held since an earlier look: no change to them may stay unseen.

use crate::snapshots::{Place, who};
use rustix::fs::{CWD, RenameFlags};
use std::{
    fs::{self, File},
    os::unix::fs::{FileExt as _, PermissionsExt as _, symlink},
    path::Path,
    thread,
    time::Duration,
};

/// Times move on, so that what is looked at next is believed.
fn settle() {
    thread::sleep(Duration::from_millis(40));
}

fn exchange(root: &Path, one: &str, other: &str) {
    rustix::fs::renameat_with(CWD, root.join(one), CWD, root.join(other), RenameFlags::EXCHANGE).unwrap();
}

/// A change that leaves the time of the last one and the size as they were.
fn quietly(path: &Path, text: &[u8]) {
    let before = fs::metadata(path).unwrap().modified().unwrap();
    let file = File::options().write(true).open(path).unwrap();
    file.write_all_at(text, 0).unwrap();
    file.set_modified(before).unwrap();
}

#[test]
fn every_change_to_a_file_that_is_held_is_seen() {
    type Doing = fn(&Path);
    let doings: &[(&str, Doing)] = &[
        ("written", |root| fs::write(root.join("a/one"), "other").unwrap()),
        ("written, the times as before", |root| quietly(&root.join("a/one"), b"A/ONE")),
        ("replaced by another file", |root| fs::rename(root.join("b/two"), root.join("a/one")).unwrap()),
        ("two files in each other's place", |root| exchange(root, "a/one", "b/two")),
        ("two folders in each other's place", |root| exchange(root, "a", "b")),
        ("a folder and a file in each other's place", |root| exchange(root, "a/in", "a/two")),
        ("deleted", |root| fs::remove_file(root.join("a/one")).unwrap()),
        ("deleted and made again", |root| {
            fs::remove_file(root.join("a/one")).unwrap();
            fs::write(root.join("a/one"), "A/ONE").unwrap();
        }),
        ("a link in its place", |root| {
            fs::remove_file(root.join("a/one")).unwrap();
            symlink("two", root.join("a/one")).unwrap();
        }),
        ("made executable", |root| {
            fs::set_permissions(root.join("a/one"), fs::Permissions::from_mode(0o755)).unwrap();
        }),
        ("changed through another name outside", |root| {
            let twin = root.parent().unwrap().join("twin");
            fs::hard_link(root.join("a/one"), &twin).unwrap();
            quietly(&twin, b"A/ONE");
            fs::remove_file(twin).unwrap();
        }),
        ("its folder made anew", |root| {
            fs::remove_dir_all(root.join("a")).unwrap();
            fs::create_dir(root.join("a")).unwrap();
            fs::write(root.join("a/one"), "A/ONE").unwrap();
        }),
        ("its folder moved away and another moved in", |root| {
            fs::rename(root.join("a"), root.join("c")).unwrap();
            fs::rename(root.join("b"), root.join("a")).unwrap();
        }),
    ];
    let place = Place::new();
    for path in ["a/one", "a/two", "a/in/one", "b/one", "b/two", "b/in/one"] {
        place.write(path, path);
    }
    place.write("b/only", "here");
    settle();
    let (snapshots, base) = (place.open(), place.state());
    snapshots.create("base", "").unwrap();
    for (what, doing) in doings {
        // The first finds what the last restore made, the second holds it.
        for _ in 0..2 {
            settle();
            assert!(snapshots.restore("base", &who()).unwrap().changes.is_empty(), "before: {what}");
        }
        doing(&place.root);
        assert_ne!(place.state(), base, "{what} changes nothing");
        assert!(!snapshots.restore("base", &who()).unwrap().changes.is_empty(), "{what}");
        assert_eq!(place.state(), base, "{what}");
    }
}

/// A deleted file is not kept from being gone for longer than until the next call.
#[test]
fn files_that_come_and_go_are_no_longer_held() {
    let place = Place::new();
    let held = || {
        let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
        let ours = |path: &Path| path.starts_with(&place.root) && !path.is_dir();
        open.filter(|entry| fs::read_link(entry.path()).is_ok_and(|path| ours(&path))).count()
    };
    (0..50).for_each(|number| place.write(&format!("folder/f{number}"), "one"));
    settle();
    let snapshots = place.open();
    snapshots.create("base", "").unwrap();
    snapshots.restore("base", &who()).unwrap();
    assert_eq!(held(), 50);
    (1..50).for_each(|number| fs::remove_file(place.root.join(format!("folder/f{number}"))).unwrap());
    snapshots.create("fewer", "").unwrap();
    assert_eq!(held(), 0);
    settle();
    snapshots.restore("fewer", &who()).unwrap();
    settle();
    snapshots.restore("fewer", &who()).unwrap();
    assert_eq!(held(), 1);
    drop(snapshots);
    assert_eq!(held(), 0);
}
