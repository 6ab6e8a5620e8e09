//! Walking, globbing and searching.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use workspace::{FileError, GlobQuery, GrepError, GrepQuery, OutputMode};

use crate::kit::{Box, NEVER, hits};

fn tree() -> Box {
    let b = Box::new();
    b.put(".gitignore", "*.log\n/build/\n!keep.log\n");
    b.put("a.rs", "fn one() {}\nlet x = 1;\n");
    b.put("a.log", "fn one\n");
    b.put("keep.log", "fn kept\n");
    b.put("build/out.rs", "fn built() {}\n");
    b.put("src/b.rs", "fn two() {}\n");
    b.put("src/deep/c.ts", "function three() {}\n");
    b.put("src/build/d.rs", "fn four() {}\n");
    b.put("src/.ignore", "secret*\n");
    b.put("src/secret.rs", "fn hidden() {}\n");
    b.put(".github/ci.yml", "run: fn\n");
    b.put(".git/config", "fn git\n");
    b.put("bin.dat", b"fn \0 binary\n");
    b
}

#[test]
fn ignore_files_hold_without_a_repository() {
    let b = tree();
    std::fs::remove_dir_all(b.path(".git")).unwrap();
    assert_eq!(
        b.grep_for("fn"),
        [
            ".github/ci.yml:1:run: fn",
            "a.rs:1:fn one() {}",
            "keep.log:1:fn kept",
            "src/b.rs:1:fn two() {}",
            "src/build/d.rs:1:fn four() {}"
        ]
    );
    assert_eq!(b.grep_for("hidden|built|git$|binary"), Vec::<String>::new());
}

/// A pattern that costs much for every byte, on one long line, in a small and in a large file.
#[test]
fn a_cancel_is_heard_within_a_line() {
    let b = Box::new();
    b.put("small.txt", format!("{}needle{}\n", "x".repeat(450_000), "y".repeat(450_000)));
    b.put("large.txt", format!("short\n{}needle{}\n", "x".repeat(3_000_000), "y".repeat(3_000_000)));
    for (file, multiline) in
        [("small.txt", false), ("small.txt", true), ("large.txt", false), ("large.txt", true)]
    {
        let mut query = GrepQuery::new("x{1000}{100}z", b.ws.resolve(file).unwrap());
        query.multiline = multiline;
        let (ws, cancel) = (&b.ws, AtomicBool::new(false));
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let outcome = ws.grep(&query, &cancel, &mut |_| ControlFlow::Continue(()));
                tell.send(matches!(outcome, Err(GrepError::File(FileError::Cancelled)))).unwrap();
            });
            // whether it has begun by then makes no difference to what must come of it
            let early = told.recv_timeout(std::time::Duration::from_millis(300));
            assert!(early.is_err(), "{file}: it would take minutes, and ended as {early:?}");
            cancel.store(true, Ordering::Relaxed);
            let cancelled = told.recv_timeout(std::time::Duration::from_secs(50));
            assert_eq!(cancelled, Ok(true), "{file}, multiline {multiline}");
        });
    }
    let mut query = GrepQuery::new("xxneedle(y{2000}){3}", b.ws.resolve("large.txt").unwrap());
    for multiline in [false, true] {
        query.multiline = multiline;
        assert_eq!(hits(&b.ws, &query).len(), 1, "what costs much is found all the same");
    }
    for (pattern, why) in [("x".repeat(9000), "the most"), ("x{1000}{1000}{5}".to_owned(), "size limit")] {
        let query = GrepQuery::new(pattern, b.ws.resolve(".").unwrap());
        let refused = b.ws.grep(&query, &NEVER, &mut |_| ControlFlow::Continue(())).unwrap_err().to_string();
        assert!(refused.contains(why) && refused.contains("look for a part of it"), "{refused}");
    }
}

#[test]
fn git_exclude_counts_and_git_itself_is_not_searched() {
    let b = tree();
    b.put(".git/info/exclude", "a.rs\n");
    assert!(!b.glob("**/*").iter().any(|f| f == "a.rs" || f.starts_with(".git/")));
    // the rules of a repository end where another begins
    b.put("nested/.git/HEAD", "");
    b.put("nested/x.log", "");
    assert!(b.glob("**/*").contains(&"nested/x.log".to_owned()));
}

#[test]
fn the_repository_around_the_workspace_counts() {
    let b = Box::new();
    std::fs::create_dir_all(b.dir.path().join(".git")).unwrap();
    std::fs::write(b.dir.path().join(".gitignore"), "node_modules\n/ws/top.txt\n").unwrap();
    b.put("node_modules/x.js", "");
    b.put("top.txt", "");
    b.put("in.txt", "");
    assert_eq!(b.glob("**/*"), ["in.txt"]);
}

#[test]
fn glob_semantics() {
    let b = tree();
    assert_eq!(b.glob("*.rs"), ["a.rs"]);
    assert_eq!(b.glob("**/*.rs"), ["a.rs", "src/b.rs", "src/build/d.rs"]);
    assert_eq!(b.glob("src/*.rs"), ["src/b.rs"]);
    assert_eq!(b.glob("src/**/*.{ts,rs}"), ["src/b.rs", "src/build/d.rs", "src/deep/c.ts"]);
    assert_eq!(b.glob("{src/deep,.github}/*"), [".github/ci.yml", "src/deep/c.ts"]);
    assert_eq!(b.glob("s?c/[a-b].rs"), ["src/b.rs"]);
    assert_eq!(b.glob("build/*"), Vec::<String>::new());
    assert_eq!(b.glob("nothing*"), Vec::<String>::new());
    let bad = GlobQuery { pattern: "a[".into(), path: b.ws.resolve(".").unwrap(), limit: 1, fresh: false };
    assert!(b.ws.glob(&bad, &NEVER).unwrap_err().to_string().contains("invalid glob \"a[\""));
}

#[test]
fn glob_is_newest_first_and_ties_go_by_path() {
    let b = Box::new();
    for (name, age) in [("old", 300), ("b", 100), ("a", 100), ("new", 5)] {
        b.put(name, "");
        let time = std::time::SystemTime::now() - std::time::Duration::from_secs(age);
        let time = std::time::UNIX_EPOCH
            + std::time::Duration::from_secs(time.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs());
        std::fs::File::options().write(true).open(b.path(name)).unwrap().set_modified(time).unwrap();
    }
    let query =
        |limit| GlobQuery { pattern: "*".into(), path: b.ws.resolve(".").unwrap(), limit, fresh: false };
    let names = |limit| {
        let reply = b.ws.glob(&query(limit), &NEVER).unwrap();
        (reply.files.iter().map(|f| f.display().to_string()).collect::<Vec<_>>(), reply.total)
    };
    assert_eq!(names(10), (vec!["new".into(), "a".into(), "b".into(), "old".into()], 4));
    assert_eq!(names(2), (vec!["new".into(), "a".into()], 4));
}

#[test]
fn grep_modes_limits_and_context() {
    let b = Box::new();
    b.put("x.txt", "1 hit\n2\n3\n4 hit\n5\n6\n7\n8\n9 hit\n");
    b.put("y.txt", "hit\r\nHIT\r\n");
    let root = b.ws.resolve(".").unwrap();
    let query = |pattern: &str| GrepQuery::new(pattern, root.clone());
    let files = GrepQuery { mode: OutputMode::FilesWithMatches, ..query("hit") };
    assert_eq!(
        hits(&b.ws, &files).iter().map(|h| h.path.display().to_string()).collect::<Vec<_>>(),
        ["x.txt", "y.txt"]
    );
    let count = GrepQuery { mode: OutputMode::Count, case_insensitive: true, head_limit: 2, ..query("hit") };
    assert_eq!(b.grep(&count), ["x.txt:3", "y.txt:2"]);
    let two = GrepQuery { head_limit: 2, ..query("hit") };
    assert_eq!(b.grep(&two), ["x.txt:1:1 hit", "x.txt:4:4 hit"]);
    assert_eq!(b.grep(&query("hit$")), ["x.txt:1:1 hit", "x.txt:4:4 hit", "x.txt:9:9 hit", "y.txt:1:hit"]);
    let context = GrepQuery { context: 1, ..query("hit") };
    let found = hits(&b.ws, &context);
    let lines: Vec<(u64, bool, bool)> = found[0].lines.iter().map(|l| (l.number, l.context, l.gap)).collect();
    assert_eq!(
        lines,
        [
            (1, false, false),
            (2, true, false),
            (3, true, false),
            (4, false, false),
            (5, true, false),
            (8, true, true),
            (9, false, false)
        ]
    );
    let across = GrepQuery { multiline: true, ..query("2.*4") };
    assert_eq!(b.grep(&across), ["x.txt:2:2", "x.txt:3:3", "x.txt:4:4 hit"]);
    let only = GrepQuery { glob: Some("y*".into()), ..query("hit") };
    assert_eq!(b.grep(&only), ["y.txt:1:hit"]);
    let not = GrepQuery { glob: Some("!y*".into()), head_limit: 1, ..query("hit") };
    assert_eq!(b.grep(&not), ["x.txt:1:1 hit"]);
    // From the root or from the folder searched, also when it leaves files out.
    b.put("in/side/z.txt", "hit\n");
    for (glob, found) in
        [("in/side/*", true), ("side/*", true), ("!in/side/*", false), ("!side/*", false), ("!other/*", true)]
    {
        let inside =
            GrepQuery { glob: Some(glob.into()), ..GrepQuery::new("hit", b.ws.resolve("in").unwrap()) };
        assert_eq!(!b.grep(&inside).is_empty(), found, "{glob}");
    }
    let file = GrepQuery::new("HIT", b.ws.resolve("y.txt").unwrap());
    assert_eq!(b.grep(&file), ["y.txt:2:HIT"]);
}

#[test]
fn encodings_and_long_lines() {
    let b = Box::new();
    let utf16: Vec<u8> = "\u{FEFF}grüße\nfind me\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    b.put("utf16.txt", utf16);
    b.put("bom.txt", "\u{FEFF}find me\n");
    b.put("long.txt", format!("{}find me{}\n", "é".repeat(50_000), "z".repeat(50_000)));
    b.put("late-nul.txt", format!("{}find me\n\0find me\n", "filler\n".repeat(3000)));
    let found = b.grep_for("find me");
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found.contains(&"utf16.txt:2:find me".to_owned()));
    assert!(found.contains(&"late-nul.txt:3001:find me".to_owned()));
    let long = found.iter().find(|line| line.starts_with("long.txt")).unwrap();
    assert!(long.len() < 1200 && long.contains("find me") && long.contains(" bytes]"), "{long}");
}

#[test]
fn a_bad_pattern_says_where() {
    let b = Box::new();
    let root = b.ws.resolve(".").unwrap();
    let fail = |pattern: &str| {
        let query = GrepQuery::new(pattern, root.clone());
        match b.ws.grep(&query, &NEVER, &mut |_| ControlFlow::Continue(())) {
            Err(GrepError::Pattern(why)) => why,
            other => panic!("{other:?}"),
        }
    };
    let why = fail("foo(bar");
    assert!(why.contains("foo(bar\n") && why.contains("   ^\n") && why.contains("unclosed group"), "{why}");
    assert!(fail("a\\nb").contains("multiline=true"));
}

/// Many files: threads work, the order stays, limits are exact.
#[test]
fn order_is_the_same_with_many_files() {
    let b = Box::new();
    for k in 0..1500 {
        b.put(&format!("d{}/e{}/f{k}.txt", k % 7, k % 31), format!("line one\nneedle {k}\n"));
    }
    let all = b.grep_for("needle");
    let mut sorted: Vec<String> = all.iter().map(|line| line.split(':').next().unwrap().to_owned()).collect();
    assert_eq!(all.len(), 1500);
    assert!(sorted.is_sorted());
    sorted.dedup();
    assert_eq!(sorted.len(), 1500);
    for limit in [1, 159, 160, 161, 700] {
        let query = GrepQuery { head_limit: limit, ..GrepQuery::new("needle", b.ws.resolve(".").unwrap()) };
        assert_eq!(b.grep(&query), all[..limit], "{limit}");
    }
    // the reader may stop too
    let mut seen = 0;
    let query = GrepQuery::new("needle", b.ws.resolve(".").unwrap());
    let stop_at = 400;
    b.ws.grep(&query, &NEVER, &mut |_| {
        seen += 1;
        if seen == stop_at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap();
    assert_eq!(seen, stop_at);
}

#[test]
fn cancelling_ends_it() {
    let b = Box::new();
    for k in 0..600 {
        b.put(&format!("f{k}"), "needle\n");
    }
    let cancel = AtomicBool::new(false);
    let query = GrepQuery::new("needle", b.ws.resolve(".").unwrap());
    let mut seen = 0;
    let ended = b.ws.grep(&query, &cancel, &mut |_| {
        seen += 1;
        cancel.store(true, Ordering::Relaxed);
        ControlFlow::Continue(())
    });
    assert!(matches!(ended, Err(GrepError::File(FileError::Cancelled))), "{ended:?}");
    assert!(seen < 600, "{seen}");
    let glob = GlobQuery { pattern: "**".into(), path: b.ws.resolve(".").unwrap(), limit: 1, fresh: false };
    assert!(b.ws.glob(&glob, &cancel).is_err());
}
