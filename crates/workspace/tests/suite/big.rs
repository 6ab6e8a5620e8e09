//! Large files and trees, and how little memory they take.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use workspace::{
    Change, Content, GlobQuery, GrepQuery, OutputMode, Retention, Snapshots, WindowSpec, Workspace,
};

use crate::kit::{Box, NEVER, myself};
use crate::snapshots::{Place, who};

const ROOT: &str = "WORKSPACE_TEST_BIG_ROOT";
const SNAPSHOT: &str = "WORKSPACE_TEST_BIG_SNAPSHOT";

fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn grew_less(before: u64, most: u64) {
    let grown = peak_kb() - before;
    assert!(grown < most, "memory grew by {grown} kB");
}

/// Runs one test of this file in a process of its own; it must be there, and pass.
fn passes(test: &str, variable: &str, value: &Path) {
    let out = myself(test, variable, value).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success() && stdout.contains("1 passed"), "{stdout}\n{stderr}");
}

/// Runs alone in its process, so that the peak is its own: does nothing unless asked.
#[test]
fn child_that_reads_much() {
    let Some(root) = std::env::var_os(ROOT) else { return };
    let ws = Workspace::open("w", Path::new(&root)).unwrap();
    let before = peak_kb();
    let sparse = ws.resolve("sparse.txt").unwrap();
    let spec = |offset| WindowSpec { offset, limit: 5, ..WindowSpec::default() };
    match ws.read(&sparse, &spec(1)).unwrap().content {
        Content::Text(window) => assert!(window.has_more() && window.lines == 5),
        other => panic!("{other:?}"),
    }
    let error = ws.read(&sparse, &spec(1 << 40)).unwrap_err().to_string();
    assert!(error.contains("past the end"), "{error}");
    let mut query = GrepQuery::new("needle", ws.resolve(".").unwrap());
    let mut found = Vec::new();
    let summary = ws.grep(&query, &NEVER, &mut |hits| {
        found.push((hits.path.display().to_string(), hits.count));
        ControlFlow::Continue(())
    });
    let summary = summary.unwrap();
    found.sort();
    assert_eq!(found, [("sparse.txt".to_owned(), 1), ("text.txt".to_owned(), 24)]);
    assert_eq!(summary.unsearched.len(), 1, "{:?}", summary.unsearched);
    assert!(summary.unsearched[0].0 == "line.txt");
    assert!(
        summary.unsearched[0].1.contains("a line of more than 64 MiB; search it in a shell"),
        "{summary:?}"
    );
    let whole = GrepQuery { multiline: true, ..GrepQuery::new("needle", ws.resolve("line.txt").unwrap()) };
    let summary = ws.grep(&whole, &NEVER, &mut |_| ControlFlow::Continue(())).unwrap();
    let why = &summary.unsearched[0].1;
    assert!(why.contains("more than 64 MiB; search it without multiline"), "{why}");
    query.mode = OutputMode::Count;
    ws.grep(&query, &NEVER, &mut |_| ControlFlow::Continue(())).unwrap();
    // one line may fill the search window of 64 MiB, doubled while it grows; nothing comes near the gigabyte
    grew_less(before, 150_000);
}

#[test]
fn a_gigabyte_passes_through_a_small_window() {
    let b = Box::new();
    // text first, then a hole: 1 GiB to walk through, a few blocks on disk
    let mut sparse = std::fs::File::create(b.path("sparse.txt")).unwrap();
    sparse.write_all("filler line\n".repeat(2000).as_bytes()).unwrap();
    sparse.write_all(b"needle\n").unwrap();
    sparse.set_len(1 << 30).unwrap();
    let mut text = std::fs::File::create(b.path("text.txt")).unwrap();
    let block = format!("{}needle\n", "some ordinary text in a line\n".repeat(36_000));
    for _ in 0..24 {
        text.write_all(block.as_bytes()).unwrap();
    }
    let mut line = std::fs::File::create(b.path("line.txt")).unwrap();
    for _ in 0..80 {
        line.write_all(&vec![b'x'; 1 << 20]).unwrap();
    }
    passes("big::child_that_reads_much", ROOT, &b.path(""));
}

/// As [`child_that_reads_much`].
#[test]
fn child_that_keeps_much() {
    let Some(store) = std::env::var_os(SNAPSHOT) else { return };
    let store = Path::new(&store);
    let root = store.with_file_name("work");
    let workspace = Arc::new(Workspace::open("w", &root).unwrap());
    let snapshots = Snapshots::open(workspace, store, Retention::default()).unwrap();
    let before = peak_kb();
    snapshots.create("s", "").unwrap();
    let file = std::fs::File::options().write(true).open(root.join("sparse")).unwrap();
    file.write_all_at(b"other", 1 << 29).unwrap();
    let text = snapshots.diff("s", None, 10).unwrap();
    assert!(text.starts_with("sparse: too large to compare, 1073741824 bytes, then "), "{text}");
    let restored = snapshots.restore("s", &who()).unwrap();
    assert_eq!(restored.changes, [(Change::Changed, "sparse".into())]);
    // a pack is collected in memory up to 32 MiB
    grew_less(before, 100_000);
}

#[test]
fn a_gigabyte_goes_into_a_snapshot_and_back() {
    let place = Place::new();
    let path = place.root.join("sparse");
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all("needle ".repeat(20_000).as_bytes()).unwrap();
    file.set_len(1 << 30).unwrap();
    passes("big::child_that_keeps_much", SNAPSHOT, &place.store);
    let file = std::fs::File::open(&path).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 1 << 30);
    let at = |from: u64| {
        let mut bytes = [0; 7];
        file.read_exact_at(&mut bytes, from).unwrap();
        bytes
    };
    assert_eq!((&at(0), &at(139_993), at(1 << 29)), (b"needle ", b"needle ", [0; 7]));
}

#[test]
fn fifty_thousand_files() {
    let b = Box::new();
    for folder in 0..500 {
        let dir = b.path(&format!("area{}/pkg{folder}", folder % 10));
        std::fs::create_dir_all(&dir).unwrap();
        for file in 0..100 {
            std::fs::write(dir.join(format!("f{file}.rs")), format!("fn f{folder}_{file}() {{}}\n")).unwrap();
        }
    }
    let root = b.ws.resolve(".").unwrap();
    let query = GlobQuery { pattern: "**/*.rs".into(), path: root.clone(), limit: 100, fresh: false };
    let reply = b.ws.glob(&query, &NEVER).unwrap();
    assert_eq!((reply.files.len(), reply.total), (100, 50_000));
    assert_eq!(b.grep_for("fn f77_13\\("), ["area7/pkg77/f13.rs:1:fn f77_13() {}"]);
    let count = GrepQuery { mode: OutputMode::FilesWithMatches, ..GrepQuery::new("fn", root) };
    assert_eq!(crate::kit::hits(&b.ws, &count).len(), 50_000);
}
