//! Repositories without a checkout: the workspace itself, and folders in it.

use std::{fs, path::PathBuf, sync::Arc};

use crate::kit::Box;
use crate::odd::git;
use crate::snapshots::{Place, who};
use workspace::{Change, Expected, LiveOptions, Retention, Snapshots, UndoOptions, UpdateError, Workspace};

fn bare(place: &Place, folder: &str) {
    assert!(git(&place.root, &["init", "-q", "--bare", folder]));
}

#[test]
fn what_is_gits_own_in_a_workspace_that_is_a_repository_stays() {
    let place = Place::new();
    place.write("config", "not git's, then");
    place.write("notes", "one");
    let snapshots = place.open();
    snapshots.create("before", "").unwrap();
    fs::remove_file(place.root.join("config")).unwrap();
    bare(&place, ".");
    let config = fs::read_to_string(place.root.join("config")).unwrap();
    snapshots.create("s", "").unwrap();
    let call = snapshots.begin(&who()).unwrap();
    let gits = ["hooks/post-update", "commondir", "config.worktree", "FETCH_HEAD", "refs/heads/x", "info/x"];
    gits.iter().for_each(|name| place.write(name, "by the call"));
    place.write("notes", "two");
    place.write("README", "new");
    snapshots.finish(&call).unwrap();
    let own = || gits.iter().all(|name| fs::read(place.root.join(name)).unwrap() == b"by the call");
    let back = [(Change::Deleted, PathBuf::from("README")), (Change::Changed, "notes".into())];
    assert_eq!(snapshots.undo(&who(), UndoOptions::default()).unwrap().changes, back);
    assert!(own());
    place.write("notes", "two");
    place.write("README", "new");
    assert_eq!(snapshots.restore("s", &who()).unwrap().changes, back);
    assert!(own());
    // What was there when it was no repository does not come to stand where git would read it.
    let kept = [(Change::KeptRepository, PathBuf::from("config"))];
    assert_eq!(snapshots.restore("before", &who()).unwrap().changes, kept);
    assert_eq!(fs::read_to_string(place.root.join("config")).unwrap(), config);
    fs::remove_file(place.root.join("config")).unwrap();
    assert_eq!(snapshots.restore("before", &who()).unwrap().changes, kept);
    assert!(!place.root.join("config").exists());
}

#[test]
fn a_repository_in_a_folder_is_left_alone_and_named() {
    for live in [false, true] {
        let place = Place::new();
        place.write("a", "one");
        place.write("there/later", "x");
        bare(&place, "remote.git");
        let workspace = Arc::new(Workspace::open("w", &place.root).unwrap());
        if live {
            workspace.go_live_now(LiveOptions::default());
        }
        let snapshots = Snapshots::open(workspace, &place.store, Retention::default()).unwrap();
        snapshots.create("s", "").unwrap();
        let call = snapshots.begin(&who()).unwrap();
        place.write("a", "two");
        place.write("remote.git/refs/heads/x", "pushed");
        bare(&place, "made");
        bare(&place, "there");
        snapshots.finish(&call).unwrap();
        let undone = snapshots.undo(&who(), UndoOptions::default()).unwrap();
        assert!(undone.changes.contains(&(Change::Changed, "a".into())), "{live} {undone:?}");
        assert!(undone.changes.iter().all(|(change, path)| *change != Change::Deleted || path == "a"));
        for name in ["made", "there"] {
            assert!(undone.left_out.contains(&name.into()), "{live} {name} {undone:?}");
        }
        snapshots.restore("s", &who()).unwrap();
        for name in ["remote.git/refs/heads/x", "made/HEAD", "there/HEAD", "there/later"] {
            assert!(place.root.join(name).exists(), "{live} {name}");
        }
    }
}

#[test]
fn what_git_runs_there_is_not_written() {
    let b = Box::new();
    assert!(git(&b.path(""), &["init", "-q", "--bare", "remote.git"]));
    let refused = |workspace: &Workspace, name: &str| {
        let path = workspace.resolve(name).unwrap();
        let refused = workspace.update::<()>(&path, Expected::Anything, |_| Ok(b"evil".into()));
        let Err(UpdateError::File(error)) = refused else { panic!("{name}: {refused:?}") };
        assert!(error.to_string().contains("is not written here: git runs programs"), "{name}: {error}");
    };
    let names = ["hooks/post-update", "config", "commondir", "config.worktree", "worktrees/w/gitdir"];
    names.iter().for_each(|name| refused(&b.ws, &format!("remote.git/{name}")));
    let inside = Workspace::open("inside", b.path("remote.git")).unwrap();
    names.iter().for_each(|name| refused(&inside, name));
    // Not even when a command moved away what git could do without for a while.
    fs::rename(b.path("remote.git/HEAD"), b.path("remote.git/aside")).unwrap();
    refused(&inside, "hooks/post-update");
    refused(&Workspace::open("hooks", b.path("remote.git/hooks")).unwrap(), "post-update");
    // Folders of these names are nothing special elsewhere.
    for name in ["hooks/post-update", "src/config", "remote.git/README"] {
        let path = b.ws.resolve(name).unwrap();
        b.ws.update::<()>(&path, Expected::Anything, |_| Ok(b"fine".into())).unwrap();
    }
}
