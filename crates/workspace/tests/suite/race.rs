//! Somebody who owns the workspace swaps folders and files for symlinks while we work.

use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use workspace::{
    Content, Durability, Expected, GlobQuery, GrepQuery, Ledger, LiveOptions, Options, WindowSpec, Workspace,
    parse_patch, replace,
};

use crate::kit::{Box, NEVER, hits, shown};

const ATTEMPTS: usize = 100_000;
/// Of a round, by `Read` and by its way for small files; one each of the other five comes to them.
const READS: usize = 30;
const SMALL_READS: usize = 15;
/// One round of so many asks the live workspace.
const LIVE: usize = 200;
const IN_A_ROUND: usize = READS + SMALL_READS + 5;

fn swap(b: &Box, one: &str, other: &str) {
    let _ = renameat_with(CWD, b.path(one), CWD, b.path(other), RenameFlags::EXCHANGE);
}

/// What lies outside: names and contents.
fn outside(b: &Box) -> Vec<(String, String)> {
    let mut all: Vec<_> = std::fs::read_dir(b.dir.path().join("outside"))
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            (path.display().to_string(), std::fs::read_to_string(&path).unwrap())
        })
        .collect();
    all.sort();
    all
}

#[test]
fn a_hundred_thousand_attempts_and_no_escape() {
    let b = Box::with(Options::default().with_durability(Durability::Rename));
    for name in ["file.txt", "edit.txt", "patch.txt"] {
        b.put(&format!("top/d/{name}"), "inside\n");
        std::fs::write(b.outside(name), "SECRET\n").unwrap();
    }
    std::fs::write(b.outside("only-outside.txt"), "SECRET\n").unwrap();
    symlink(b.dir.path().join("outside"), b.path("top/link")).unwrap();
    b.put("top/e/file.txt", "inside\n");
    symlink(b.outside("file.txt"), b.path("top/flink")).unwrap();
    let before = outside(&b);
    // The same folder with an index of its files and their words, kept by events.
    let live = Arc::new(Workspace::open("live", b.ws.root()).unwrap());
    live.go_live_now(LiveOptions::default());
    let (done, swaps, stop) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                swap(&b, "top/d", "top/link");
                swap(&b, "top/e/file.txt", "top/flink");
                swaps.fetch_add(1, Ordering::Relaxed);
            }
        });
        let worker = || {
            let (mut ok, mut refused) = (0usize, 0usize);
            let mut count = |went: bool| if went { ok += 1 } else { refused += 1 };
            let mut round = 0;
            while done.fetch_add(IN_A_ROUND, Ordering::Relaxed) < ATTEMPTS {
                round += 1;
                for turn in 0..READS {
                    match b.read(if turn % 2 == 0 { "top/d/file.txt" } else { "top/e/file.txt" }) {
                        Ok(text) => {
                            assert!(!text.contains("SECRET"), "Read escaped");
                            count(true);
                        }
                        Err(why) => {
                            assert!(!why.contains("SECRET"));
                            count(false);
                        }
                    }
                }
                for turn in 0..SMALL_READS {
                    let path = if turn % 2 == 0 { "top/d/file.txt" } else { "top/e/file.txt" };
                    let read = b.ws.read_small(path, &WindowSpec::default(), 1 << 16);
                    if let Some((_, Ok(read))) = &read
                        && let Content::Text(window) = &read.content
                    {
                        assert!(!window.numbered.contains("SECRET"), "Read escaped");
                    }
                    count(read.is_some());
                }
                // the live one hears of every swap there was, which takes it long
                let ws: &Workspace = if round % LIVE == 0 { &live } else { &b.ws };
                let query = GrepQuery::new("inside|SECRET", ws.resolve(".").unwrap());
                let found: Vec<String> = hits(ws, &query).iter().flat_map(shown).collect();
                assert!(!found.iter().any(|line| line.contains("SECRET")), "Grep escaped: {found:?}");
                count(!found.is_empty());
                let path = ws.resolve(".").unwrap();
                let query = GlobQuery { pattern: "**/*.txt".into(), path, limit: 1000, fresh: false };
                let found = ws.glob(&query, &NEVER).unwrap().files;
                assert!(
                    !found.iter().any(|name| name.ends_with("only-outside.txt")),
                    "Glob escaped: {found:?}"
                );
                count(!found.is_empty());
                count(write(&b, round));
                count(edit(&b));
                count(patch(&b));
            }
            (ok, refused)
        };
        let other = scope.spawn(worker);
        let mine = std::panic::catch_unwind(std::panic::AssertUnwindSafe(worker));
        let theirs = other.join();
        stop.store(true, Ordering::Relaxed);
        let ((ok, refused), (ok2, refused2)) = (mine.unwrap(), theirs.unwrap());
        assert!(ok + ok2 + refused + refused2 >= ATTEMPTS, "{ok} {refused} {ok2} {refused2}");
        assert!(ok + ok2 > 1000 && refused + refused2 > 1000, "the race must be real: {ok} {refused}");
    });
    assert!(done.load(Ordering::Relaxed) >= ATTEMPTS);
    assert!(swaps.load(Ordering::Relaxed) > 1000);
    assert_eq!(outside(&b), before, "something outside was changed");
}

fn write(b: &Box, round: usize) -> bool {
    let Ok(path) = b.ws.resolve(format!("top/d/made{}.txt", round % 3)) else { return false };
    b.ws.update::<()>(&path, Expected::Anything, |_| Ok(b"inside\n".into())).is_ok()
}

fn edit(b: &Box) -> bool {
    let Ok(path) = b.ws.resolve("top/d/edit.txt") else { return false };
    b.ws.update(&path, Expected::Anything, |old| {
        let old = old.unwrap_or_default();
        assert!(!old.starts_with(b"SECRET"), "Edit escaped");
        replace(old, "inside", "inside.", false)
            .or_else(|_| replace(old, "inside.", "inside", true))
            .map(|e| e.bytes)
    })
    .is_ok()
}

fn patch(b: &Box) -> bool {
    let Ok(path) = b.ws.resolve("top/d/patch.txt") else { return false };
    let Ok(read) = b.ws.read(&path, &WindowSpec::default()) else { return false };
    let mut ledger = Ledger::default();
    ledger.record(&path, read.version, read.bytes);
    let plan = parse_patch(
        "--- a/top/d/patch.txt\n+++ b/top/d/patch.txt\n@@ -1 +1,2 @@\n inside\n+more\n--- /dev/null\n+++ b/top/d/sub/new.txt\n@@ -0,0 +1 @@\n+x\n",
    )
    .unwrap();
    let done = b.ws.apply_patch(&plan, &|path| ledger.version(path)).is_ok();
    if let Ok(made) = b.ws.resolve("top/d/patch.txt") {
        let _ = b.ws.update::<()>(&made, Expected::Anything, |_| Ok(b"inside\n".into()));
        let _ = std::fs::remove_file(b.path("top/d/sub/new.txt"));
    }
    done
}
