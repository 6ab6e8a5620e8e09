//! The live workspace against a fresh walk.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use workspace::{Durability, GlobQuery, GrepQuery, LiveOptions, Mode, Options, OutputMode, Workspace};

use crate::kit::{NEVER, hits, shown};
use crate::oracle::{self, Random};

pub(crate) struct Pair {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) live: Arc<Workspace>,
    pub(crate) plain: Workspace,
}

pub(crate) fn options(mode: Mode) -> LiveOptions {
    LiveOptions { mode: Some(mode), sweep: Duration::from_secs(3600), ..LiveOptions::default() }
}

impl Pair {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("ws")).unwrap();
        Self::within(dir, Options::default())
    }

    /// The folder `ws` in `dir` as workspace.
    pub(crate) fn within(dir: tempfile::TempDir, options: Options) -> Self {
        let open = || {
            let options = options.with_durability(Durability::Rename);
            Workspace::open_with("w", dir.path().join("ws"), options).unwrap()
        };
        let (live, plain) = (Arc::new(open()), open());
        Self { dir, live, plain }
    }

    pub(crate) fn live(options: LiveOptions) -> Self {
        let pair = Self::new();
        pair.live.go_live_now(options);
        pair
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("ws").join(name)
    }

    pub(crate) fn put(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn query(&self, pattern: &str) -> GrepQuery {
        GrepQuery::new(pattern, self.plain.resolve(".").unwrap())
    }

    fn grep(ws: &Workspace, query: &GrepQuery) -> Vec<String> {
        hits(ws, query).iter().flat_map(shown).collect()
    }

    pub(crate) fn files(&self, pattern: &str) -> Vec<String> {
        let query = GrepQuery { mode: OutputMode::FilesWithMatches, ..self.query(pattern) };
        hits(&self.live, &query).iter().map(|hits| hits.path.display().to_string()).collect()
    }

    /// Both must say the same.
    pub(crate) fn agree(&self, query: &GrepQuery, context: &dyn Fn() -> String) {
        let (got, want) = (Self::grep(&self.live, query), Self::grep(&self.plain, query));
        assert_eq!(got, want, "Grep {:?} {}", query.pattern, context());
    }

    pub(crate) fn agree_on_names(&self, pattern: &str, context: &dyn Fn() -> String) {
        let query = GlobQuery {
            pattern: pattern.into(),
            path: self.plain.resolve(".").unwrap(),
            limit: 50,
            fresh: false,
        };
        let list = |ws: &Workspace| {
            let reply = ws.glob(&query, &NEVER).unwrap();
            (reply.files, reply.total)
        };
        assert_eq!(list(&self.live), list(&self.plain), "Glob {pattern} {}", context());
    }
}

fn oracle(mode: Mode, rounds: usize, seed: u64) {
    let outcome = oracle::run(mode, rounds, seed).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert_eq!(outcome.status.mode, mode);
    assert!(outcome.answers > rounds);
}

fn rounds(default: usize) -> usize {
    std::env::var("WORKSPACE_ORACLE_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

#[test]
fn random_changes_by_events() {
    oracle(Mode::Events, rounds(2000), 1);
}

#[test]
fn random_changes_by_stat() {
    oracle(Mode::Stat, rounds(1000), 2);
}

#[test]
fn random_changes_by_scan() {
    oracle(Mode::Scan, rounds(100), 3);
}

#[test]
fn every_kind_of_query_is_the_same() {
    let pair = Pair::live(options(Mode::Events));
    pair.put("a/one.rs", "fn one() {\n    two();\n}\n");
    pair.put("a/two.rs", "fn two() {}\r\n\r\nfn three() {}\r\n");
    pair.put(
        "b/big.txt",
        format!(
            "{}needle\n",
            "some filler text to be passed over quickly and without much ado\n".repeat(17_000)
        ),
    );
    pair.put("b/binary", b"needle \0 two");
    pair.put("b/late", format!("two\n{}\0two\n", "x\n".repeat(9000)));
    pair.put("b/bom.txt", "\u{FEFF}two needle\n");
    let utf16: Vec<u8> = "\u{FEFF}two needle\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    pair.put("b/utf16.txt", utf16);
    pair.put("b/latin1.txt", b"gr\xFCn two\n");
    pair.put("b/kelvin.txt", "\u{212A}elvin \u{17F}ecret\n");
    for pattern in [
        "two",
        "needle",
        "TWO|one",
        "fn [a-z]+\\(\\) \\{$",
        "gr.n",
        "(?i)kelvin",
        "(?i)SECRET",
        "^fn",
        "\\{\\}",
        "",
        "x$",
    ] {
        for case_insensitive in [false, true] {
            for (mode, context, multiline, head_limit) in [
                (OutputMode::Content, 0, false, 0),
                (OutputMode::Content, 1, false, 3),
                (OutputMode::Content, 0, true, 0),
                (OutputMode::Count, 0, false, 0),
                (OutputMode::FilesWithMatches, 0, false, 2),
            ] {
                for place in [".", "a", "b/big.txt"] {
                    let query = GrepQuery {
                        case_insensitive,
                        mode,
                        context,
                        multiline,
                        head_limit,
                        ..GrepQuery::new(pattern, pair.plain.resolve(place).unwrap())
                    };
                    pair.agree(&query, &|| format!("{query:?}"));
                }
            }
        }
    }
    let across = GrepQuery { multiline: true, ..pair.query("one.*two") };
    pair.agree(&across, &String::new);
    let some = GrepQuery { glob: Some("*.rs".into()), ..pair.query("two") };
    pair.agree(&some, &String::new);
}

#[test]
fn an_overflow_makes_everything_unknown() {
    let pair = Pair::live(options(Mode::Events));
    pair.put("a/f", "before\n");
    assert_eq!(pair.files("before"), ["a/f"]);
    let (one, two) = (pair.path("a/x"), pair.path("a/y"));
    for k in 0..12_000 {
        fs::write(if k % 2 == 0 { &one } else { &two }, "noise\n").unwrap();
    }
    // these find no room in the queue
    pair.put("a/f", "after\n");
    pair.put("late/new", "after\n");
    assert_eq!(pair.files("after"), ["a/f", "late/new"]);
    assert_eq!(pair.files("before"), Vec::<String>::new());
    assert!(pair.live.live_status().unwrap().overflows > 0);
    // and events work again
    pair.put("late/new", "again\n");
    assert_eq!(pair.files("again"), ["late/new"]);
}

#[test]
fn past_the_budget_the_largest_files_leave_the_index() {
    let pair = Pair::new();
    let mut random = Random(7);
    for k in 0..40 {
        let words: Vec<String> =
            (0..40 << (k % 8)).map(|_| format!("w{:x}", random.below(1 << 30))).collect();
        pair.put(&format!("f{k}"), format!("{}\nneedle{k}\n", words.join(" ")));
    }
    pair.live.go_live_now(LiveOptions { budget: 300_000, ..options(Mode::Events) });
    let status = pair.live.live_status().unwrap();
    assert!(status.left_out_above.is_some() && status.always_read > 0, "{status:?}");
    assert!(status.index_bytes < 400_000, "{status:?}");
    for k in 0..40 {
        pair.agree(&pair.query(&format!("needle{k}$")), &String::new);
    }
}

/// Servers of languages read generated files like any other.
#[test]
fn the_journal_tells_that_an_ignored_file_comes_and_goes() {
    let pair = Pair::live(options(Mode::Events));
    pair.put(".gitignore", "*.log\nout/\n");
    pair.put("out/kept", "1");
    let first = pair.live.changes_since(0).unwrap();
    pair.put("a.log", "1");
    pair.put("out/b", "1");
    let next = pair.live.changes_since(first.cursor).unwrap();
    assert_eq!(next.paths.unwrap(), [PathBuf::from("a.log")]);
    pair.put("a.log", "22");
    let after = pair.live.changes_since(next.cursor).unwrap();
    assert_eq!(after.paths.unwrap(), Vec::<PathBuf>::new(), "it may be written all the time");
    fs::remove_file(pair.path("a.log")).unwrap();
    let last = pair.live.changes_since(after.cursor).unwrap();
    assert_eq!(last.paths.unwrap(), [PathBuf::from("a.log")]);
}

#[test]
fn the_journal_tells_what_changed() {
    let pair = Pair::live(options(Mode::Events));
    pair.put("a", "1");
    let first = pair.live.changes_since(0).unwrap();
    pair.put("b/c", "2");
    fs::remove_file(pair.path("a")).unwrap();
    let next = pair.live.changes_since(first.cursor).unwrap();
    assert_eq!(next.paths.unwrap(), ["a", "b", "b/c"].map(PathBuf::from));
    assert_eq!(pair.live.changes_since(next.cursor).unwrap().paths.unwrap(), Vec::<PathBuf>::new());
    for k in 0..17_000 {
        fs::write(pair.path(&format!("many{}", k % 100)), "").unwrap();
        if k % 100 == 99 {
            pair.live.changes_since(0).unwrap();
        }
    }
    assert_eq!(pair.live.changes_since(next.cursor).unwrap().paths, None, "too long ago to know");
}

#[test]
fn the_background_builds_and_ends_with_the_workspace() {
    let pair = Pair::new();
    for k in 0..300 {
        pair.put(&format!("d{}/f{k}", k % 9), format!("word {k}\n"));
    }
    pair.live.go_live(LiveOptions { sweep: Duration::from_millis(5), ..LiveOptions::default() });
    // right before the index is there and after
    loop {
        assert_eq!(pair.files("word 299$"), ["d2/f299"]);
        if pair.live.live_status().is_some_and(|status| status.sweeps > 2) {
            break;
        }
    }
    assert_eq!(pair.live.live_status().unwrap().mode, Mode::Events);
    let weak = Arc::downgrade(&pair.live);
    drop(pair);
    while weak.upgrade().is_some() {
        std::thread::yield_now();
    }
}
