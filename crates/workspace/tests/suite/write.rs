//! Writing: atomic, guarded, and careful with what was there.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::sync::Arc;

use workspace::{Durability, Expected, Ledger, Options, UpdateError, Version, WindowSpec, replace};

use crate::kit::Box;

#[test]
fn mode_is_kept_and_parents_are_made() {
    let b = Box::new();
    b.put("run.sh", "old");
    std::fs::set_permissions(b.path("run.sh"), std::fs::Permissions::from_mode(0o750)).unwrap();
    let path = b.ws.resolve("run.sh").unwrap();
    let written = b.ws.update::<()>(&path, Expected::Anything, |_| Ok(b"new".into())).unwrap();
    assert_eq!((b.get("run.sh"), written.old.as_deref()), ("new".into(), Some(&b"old"[..])));
    assert_eq!(std::fs::metadata(b.path("run.sh")).unwrap().mode() & 0o7777, 0o750);
    let deep = b.ws.resolve("a/b/c/d.txt").unwrap();
    b.ws.update::<()>(&deep, Expected::Missing, |_| Ok(b"deep".into())).unwrap();
    assert_eq!(b.get("a/b/c/d.txt"), "deep");
    assert_eq!(b.glob("**/*").len(), 2, "no temporary file stays");
}

#[test]
fn owner_is_kept_where_permitted() {
    let b = Box::new();
    b.put("f", "old");
    if std::os::unix::fs::chown(b.path("f"), Some(1234), Some(2345)).is_err() {
        return; // only root can give files away, and then only root can keep the owner
    }
    let path = b.ws.resolve("f").unwrap();
    b.ws.update::<()>(&path, Expected::Anything, |_| Ok(b"new".into())).unwrap();
    let meta = std::fs::metadata(b.path("f")).unwrap();
    assert_eq!((meta.uid(), meta.gid()), (1234, 2345));
}

#[test]
fn a_read_only_file_stays() {
    let b = Box::new();
    b.put("gen.go", "old");
    std::fs::set_permissions(b.path("gen.go"), std::fs::Permissions::from_mode(0o444)).unwrap();
    let path = b.ws.resolve("gen.go").unwrap();
    let error = b.ws.update::<()>(&path, Expected::Anything, |_| Ok(b"new".into())).unwrap_err();
    assert!(
        matches!(&error, UpdateError::File(e) if e.to_string().contains("read-only (mode 0444)")),
        "{error:?}"
    );
    assert_eq!(b.get("gen.go"), "old");
}

#[test]
fn expectations_are_checked() {
    let b = Box::new();
    let path = b.ws.resolve("f").unwrap();
    let write = |expected, text: &str| b.ws.update::<()>(&path, expected, |_| Ok(text.into()));
    let v1 = write(Expected::Missing, "one").unwrap().version;
    assert!(matches!(write(Expected::Missing, "two"), Err(UpdateError::Exists)));
    b.put("f", "from outside");
    assert!(
        matches!(write(Expected::Exactly(v1), "two"), Err(UpdateError::Changed { now }) if now == b"from outside")
    );
    std::fs::remove_file(b.path("f")).unwrap();
    assert!(matches!(write(Expected::Exactly(v1), "two"), Err(UpdateError::Missing)));
    write(Expected::Missing, "one").unwrap();
    // the same bytes are the same version, whoever wrote them
    b.put("f", "one");
    write(Expected::Exactly(v1), "two").unwrap();
    assert_eq!(b.get("f"), "two");
}

#[test]
fn a_stale_file_shows_what_changed() {
    let b = Box::new();
    b.put("f", "a\nb\nc\n");
    let path = b.ws.resolve("f").unwrap();
    let read = b.ws.read(&path, &WindowSpec::default()).unwrap();
    let mut ledger = Ledger::default();
    ledger.record(&path, read.version, read.bytes);
    assert_eq!(ledger.version(&path), Some(Version::of(b"a\nb\nc\n")));
    assert_eq!(ledger.stale(&path, b"a\nb\nc\n"), None);
    let changes = ledger.stale(&path, b"a\nB\nc\n").unwrap().changes;
    assert!(changes.contains("\n-b\n+B\n"), "{changes}");
    for k in 0..200 {
        let other = b.ws.resolve(format!("other{k}")).unwrap();
        ledger.record(&other, Version::of(b""), Some(Arc::from(vec![0; 100_000])));
    }
    let changes = ledger.stale(&path, b"x").unwrap().changes;
    assert!(changes.contains("it had 6 bytes"), "old contents are let go: {changes}");
}

/// Ten sessions, one file: every confirmed edit is there in the end.
#[test]
fn concurrent_edits_are_never_lost() {
    let b = Box::with(Options::default().with_durability(Durability::Rename));
    b.put("f", "start\n");
    // a second Workspace has its own locks, as another process would
    let other = workspace::Workspace::open("again", b.path("")).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..10 {
            let ws = if thread % 2 == 0 { &b.ws } else { &other };
            scope.spawn(move || {
                let path = ws.resolve("f").unwrap();
                for k in 0..20 {
                    let line = format!("{thread}.{k}\n");
                    ws.update::<()>(&path, Expected::Anything, |old| {
                        Ok([old.unwrap_or_default(), line.as_bytes()].concat())
                    })
                    .unwrap();
                }
            });
        }
    });
    let mut lines: Vec<String> = b.get("f").lines().skip(1).map(str::to_owned).collect();
    lines.sort();
    lines.dedup();
    assert_eq!(lines.len(), 200);
}

#[test]
fn an_edit_through_update_keeps_line_ends() {
    let b = Box::new();
    b.put("f", "\u{FEFF}one\r\ntwo\r\n");
    let path = b.ws.resolve("f").unwrap();
    b.ws.update(&path, Expected::Anything, |old| {
        replace(old.unwrap_or_default(), "one\ntwo", "1\n2", false).map(|edited| edited.bytes)
    })
    .unwrap();
    assert_eq!(b.get("f"), "\u{FEFF}1\r\n2\r\n");
}

#[test]
fn what_git_runs_is_read_but_not_written() {
    let b = Box::new();
    b.put(".git/config", "[core]\n");
    b.put(".git/info/exclude", "x\n");
    b.put("githooks/pre-push", "#!/bin/sh\n");
    std::os::unix::fs::symlink("../githooks", b.path(".git/hooks")).unwrap();
    std::os::unix::fs::symlink(".git/config", b.path("innocent")).unwrap();
    for name in [
        ".git/config",
        "innocent",
        ".git/hooks/pre-commit",
        "githooks/pre-push",
        "sub/.git",
        "sub/.git/hooks/pre-commit",
        ".git/commondir",
    ] {
        let path = b.ws.resolve(name).unwrap();
        let refused = b.ws.update::<()>(&path, Expected::Anything, |_| Ok(b"evil".into()));
        let Err(UpdateError::File(error)) = refused else { panic!("{name}: {refused:?}") };
        assert!(error.to_string().contains("is not written here: git runs programs"), "{name}: {error}");
    }
    assert_eq!((b.get(".git/config"), b.get("githooks/pre-push")), ("[core]\n".into(), "#!/bin/sh\n".into()));
    assert!(!b.path("sub").exists() && !b.path(".git/commondir").exists());
    assert!(b.read(".git/config").is_ok(), "reading is no harm");
    let other = b.ws.resolve(".git/info/exclude").unwrap();
    b.ws.update::<()>(&other, Expected::Anything, |_| Ok(b"y\n".into())).unwrap();
}
