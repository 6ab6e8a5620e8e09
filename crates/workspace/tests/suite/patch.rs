//! Patches over several files: all or nothing.

use std::cell::RefCell;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use workspace::{ContainedPath, Ledger, PatchReport, WindowSpec, parse_patch};

use crate::kit::Box;

fn read_all(b: &Box, names: &[&str]) -> RefCell<Ledger> {
    let mut ledger = Ledger::default();
    for name in names {
        let path = b.ws.resolve(name).unwrap();
        let read = b.ws.read(&path, &WindowSpec::default()).unwrap();
        ledger.record(&path, read.version, read.bytes);
    }
    RefCell::new(ledger)
}

fn apply(b: &Box, ledger: &RefCell<Ledger>, patch: &str) -> Result<PatchReport, String> {
    let seen = |path: &ContainedPath| ledger.borrow().version(path);
    let plan = parse_patch(patch).map_err(|e| e.to_string())?;
    b.ws.apply_patch(&plan, &seen).map_err(|e| e.to_string())
}

const FOUR: &str = "\
diff --git a/one.txt b/one.txt
--- a/one.txt
+++ b/one.txt
@@ -1,3 +1,3 @@
 a
-b
+B
 c
diff --git a/bin/new.sh b/bin/new.sh
new file mode 100755
--- /dev/null
+++ b/bin/new.sh
@@ -0,0 +1,2 @@
+#!/bin/sh
+true
diff --git a/gone.txt b/gone.txt
deleted file mode 100644
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-x
diff --git a/from.txt b/sub/to.txt
similarity index 50%
rename from from.txt
rename to sub/to.txt
--- a/from.txt
+++ b/sub/to.txt
@@ -1 +1 @@
-move me
+moved
";

fn four_files() -> Box {
    let b = Box::new();
    b.put("one.txt", "a\nb\nc\n");
    b.put("gone.txt", "x\n");
    b.put("from.txt", "move me\n");
    std::fs::set_permissions(b.path("from.txt"), std::fs::Permissions::from_mode(0o640)).unwrap();
    b
}

#[test]
fn change_create_delete_and_rename_at_once() {
    let b = four_files();
    let report = apply(&b, &read_all(&b, &["one.txt", "gone.txt", "from.txt"]), FOUR).unwrap();
    assert_eq!((report.added, report.removed, report.files.len()), (4, 3, 5));
    assert_eq!(b.glob("**/*"), ["bin/new.sh", "one.txt", "sub/to.txt"]);
    assert_eq!((b.get("one.txt"), b.get("sub/to.txt")), ("a\nB\nc\n".into(), "moved\n".into()));
    assert_eq!(std::fs::metadata(b.path("bin/new.sh")).unwrap().mode() & 0o111, 0o111);
    assert_eq!(std::fs::metadata(b.path("sub/to.txt")).unwrap().mode() & 0o777, 0o640);
}

#[test]
fn one_bad_hunk_changes_nothing() {
    let b = four_files();
    let ledger = read_all(&b, &["one.txt", "gone.txt", "from.txt"]);
    let bad = FOUR.replace("-move me", "-move you");
    let error = apply(&b, &ledger, &bad).unwrap_err();
    assert!(
        error.starts_with("hunk 1 (@@ -1 +1 @@) does not apply to from.txt: closest place: line 1"),
        "{error}"
    );
    assert_eq!(b.glob("**/*"), ["from.txt", "gone.txt", "one.txt"]);
    assert_eq!(b.get("one.txt"), "a\nb\nc\n");
    assert!(!b.path("bin").exists() && !b.path("sub").exists());
}

#[test]
fn a_failure_on_disk_is_taken_back() {
    let b = four_files();
    let ledger = read_all(&b, &["one.txt", "gone.txt", "from.txt"]);
    // the last file cannot be made: its folder is a file
    b.put("zzz", "in the way");
    let patch = format!("{FOUR}--- /dev/null\n+++ b/zzz/file\n@@ -0,0 +1 @@\n+x\n");
    assert!(apply(&b, &ledger, &patch).is_err());
    assert_eq!(b.glob("**/*"), ["from.txt", "gone.txt", "one.txt", "zzz"]);
    assert_eq!(b.get("one.txt"), "a\nb\nc\n");
    assert!(!b.path("bin").exists() && !b.path("sub").exists());
}

#[test]
fn the_gates_hold() {
    let b = four_files();
    let patch = "--- a/one.txt\n+++ b/one.txt\n@@ -2 +2 @@\n-b\n+B\n";
    let nothing = RefCell::new(Ledger::default());
    assert_eq!(apply(&b, &nothing, patch).unwrap_err(), "refusing to edit one.txt: Read it first");
    let ledger = read_all(&b, &["one.txt"]);
    b.put("one.txt", "a\nb\nchanged\n");
    assert_eq!(apply(&b, &ledger, patch).unwrap_err(), "one.txt changed since it was read");
    let create = "--- /dev/null\n+++ b/one.txt\n@@ -0,0 +1 @@\n+x\n";
    assert!(apply(&b, &ledger, create).unwrap_err().contains("exists already"));
    let missing = "--- a/nope.txt\n+++ b/nope.txt\n@@ -1 +1 @@\n-x\n+y\n";
    assert!(apply(&b, &ledger, missing).unwrap_err().contains("nope.txt does not exist"));
    let escape = "--- a/../outside/secret.txt\n+++ b/../outside/secret.txt\n@@ -1 +1 @@\n-SECRET\n+x\n";
    assert!(apply(&b, &ledger, escape).unwrap_err().contains("outside the workspace"));
    let half = "--- a/one.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n";
    assert!(apply(&b, &read_all(&b, &["one.txt"]), half).unwrap_err().contains("does not remove all"));
}

#[test]
fn two_parts_for_one_file_follow_each_other() {
    let b = four_files();
    let patch = "--- a/one.txt\n+++ b/one.txt\n@@ -2 +2 @@\n-b\n+B\n--- a/one.txt\n+++ b/one.txt\n@@ -2 +2 @@\n-B\n+BB\n";
    apply(&b, &read_all(&b, &["one.txt"]), patch).unwrap();
    assert_eq!(b.get("one.txt"), "a\nBB\nc\n");
}
