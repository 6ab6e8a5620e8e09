//! The live workspace against a fresh walk.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use workspace::{
    Durability, Expected, GlobQuery, GrepQuery, LiveOptions, Mode, Options, OutputMode, Workspace,
};

use crate::kit::{NEVER, hits, shown};

struct Pair {
    dir: tempfile::TempDir,
    live: Arc<Workspace>,
    plain: Workspace,
}

fn options(mode: Mode) -> LiveOptions {
    LiveOptions { mode: Some(mode), sweep: Duration::from_secs(3600), ..LiveOptions::default() }
}

impl Pair {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("ws")).unwrap();
        let open = || {
            let options = Options::default().with_durability(Durability::Rename);
            Workspace::open_with("w", dir.path().join("ws"), options).unwrap()
        };
        let (live, plain) = (Arc::new(open()), open());
        Self { dir, live, plain }
    }

    fn live(options: LiveOptions) -> Self {
        let pair = Self::new();
        pair.live.go_live_now(options);
        pair
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("ws").join(name)
    }

    fn put(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn query(&self, pattern: &str) -> GrepQuery {
        GrepQuery::new(pattern, self.plain.resolve(".").unwrap())
    }

    fn grep(ws: &Workspace, query: &GrepQuery) -> Vec<String> {
        hits(ws, query).iter().flat_map(shown).collect()
    }

    fn files(&self, pattern: &str) -> Vec<String> {
        let query = GrepQuery { mode: OutputMode::FilesWithMatches, ..self.query(pattern) };
        hits(&self.live, &query).iter().map(|hits| hits.path.display().to_string()).collect()
    }

    /// Both must say the same.
    fn agree(&self, query: &GrepQuery, context: &dyn Fn() -> String) {
        let (got, want) = (Self::grep(&self.live, query), Self::grep(&self.plain, query));
        assert_eq!(got, want, "Grep {:?} {}", query.pattern, context());
    }

    fn agree_on_names(&self, pattern: &str, context: &dyn Fn() -> String) {
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

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }

    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }

    fn folder(&mut self, root: &Path) -> PathBuf {
        (0..self.below(4)).fold(root.to_owned(), |path, _| path.join(format!("d{}", self.below(4))))
    }
}

const WORDS: [&str; 9] =
    ["alpha", "beta", "gamma", "delta", "omega", "Kappa", "sigma", "theta", "\u{212A}appa"];

/// One change of any kind; most that make no sense simply fail.
fn change(random: &mut Random, pair: &Pair, round: usize) -> String {
    let root = pair.path("");
    let (from, to) = (random.folder(&root), random.folder(&root));
    let name = |random: &mut Random| format!("f{}.{}", random.below(5), random.pick(&["go", "log"]));
    let (file, other) = (from.join(name(random)), to.join(name(random)));
    let text = format!("{} {} {round}\n", random.pick(&WORDS), random.pick(&WORDS));
    let kind = random.below(22);
    let _ = match kind {
        0..=3 => fs::create_dir_all(&from).and_then(|()| fs::write(&file, &text)),
        4 => fs::OpenOptions::new().append(true).open(&file).and_then(|mut f| f.write_all(text.as_bytes())),
        5 => fs::remove_file(&file),
        6 => fs::rename(&file, &other),
        7 if from != root => fs::rename(&from, &to),
        8 if from != root && random.below(3) == 0 => fs::remove_dir_all(&from),
        9 if random.below(3) == 0 => fs::write(
            from.join(".gitignore"),
            random.pick(&["*.log\n", "d1/\n", "f2.go\n", "", "!*.log\n", "/d2\n.gitignore\n"]),
        ),
        10 if random.below(3) == 0 => fs::remove_file(from.join(".gitignore")),
        11 => {
            let outside = pair.dir.path().join("out");
            let _ = fs::create_dir_all(outside.join("e/d2"));
            let _ = fs::write(outside.join("e/d2/f1.go"), &text);
            let moved = fs::rename(outside.join("e"), to.join(format!("d{}", random.below(4))));
            let _ = fs::remove_dir_all(outside);
            moved
        }
        12 => fs::write(from.join(".t"), &text).and_then(|()| fs::rename(from.join(".t"), &file)),
        13 if from != root => fs::rename(&from, pair.dir.path().join(format!("gone{round}"))),
        14 if random.below(4) == 0 => {
            fs::write(from.join(".ignore"), random.pick(&["*.go\n", "d3\n", "!f1.*\n"]))
        }
        15 if random.below(4) == 0 => fs::remove_file(from.join(".ignore")),
        16 if random.below(4) == 0 => fs::create_dir_all(from.join(".git/info"))
            .and_then(|()| fs::write(from.join(".git/info/exclude"), random.pick(&["f3*\n", "d0\n", ""]))),
        17 if random.below(4) == 0 => fs::remove_dir_all(from.join(".git")),
        18 => std::os::unix::fs::symlink(&other, &file),
        19 => {
            let _ = fs::remove_file(&file);
            fs::create_dir(&file).and_then(|()| fs::write(file.join("inner.go"), &text))
        }
        20 => fs::write(&file, format!("\0\0{text}")),
        21 => {
            let relative = file.strip_prefix(&root).unwrap();
            if let Ok(path) = pair.live.resolve(relative) {
                let _ = pair.live.update::<()>(&path, Expected::Anything, |_| Ok(text.clone().into_bytes()));
            }
            Ok(())
        }
        _ => Ok(()),
    };
    format!("{kind}: {} {}", file.display(), other.display())
}

fn oracle(mode: Mode, rounds: usize, seed: u64) {
    let pair = Pair::live(options(mode));
    let mut random = Random(0x9E37_79B9_7F4A_7C15 ^ seed);
    let mut log = Vec::new();
    for round in 0..rounds {
        for _ in 0..=random.below(4) {
            log.push(format!("{round} {}", change(&mut random, &pair, round)));
        }
        let pattern = match random.below(4) {
            0 => random.pick(&WORDS).to_owned(),
            1 => format!("{}|{}", random.pick(&WORDS), random.pick(&WORDS)),
            2 => format!("{} [a-zA-Z]+ {round}", random.pick(&WORDS)),
            _ => format!("(?i){}", random.pick(&WORDS)),
        };
        let context = || format!("round {round}, {:#?}", &log[log.len().saturating_sub(12)..]);
        pair.agree(&pair.query(&pattern), &context);
        if round % 3 == 0 {
            pair.agree_on_names("**/*", &context);
        }
    }
    let status = pair.live.live_status().unwrap();
    assert_eq!(status.mode, mode);
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
fn without_watches_it_compares_stat_data() {
    let pair = Pair::new();
    for k in 0..6 {
        pair.put(&format!("d{k}/f"), "before\n");
    }
    pair.live.go_live_now(LiveOptions { max_watches: 3, ..options(Mode::Events) });
    let status = pair.live.live_status().unwrap();
    assert_eq!(status.mode, Mode::Stat);
    assert!(status.why.contains("max_user_watches"), "{}", status.why);
    pair.put("d5/f", "after\n");
    pair.put("new/g", "after\n");
    assert_eq!(pair.files("after"), ["d5/f", "new/g"]);
    // also when they run out later
    let pair = Pair::live(LiveOptions { max_watches: 3, ..options(Mode::Events) });
    assert_eq!(pair.live.live_status().unwrap().mode, Mode::Events);
    for k in 0..6 {
        pair.put(&format!("d{k}/f"), "word\n");
    }
    assert_eq!(pair.files("word").len(), 6);
    assert_eq!(pair.live.live_status().unwrap().mode, Mode::Stat);
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

/// A Python that does as it is told, line by line, for what Rust needs unsafe code for.
struct Python {
    child: Child,
    input: ChildStdin,
    output: BufReader<std::process::ChildStdout>,
}

impl Python {
    fn new(root: &Path) -> Self {
        let program = "import sys,os,mmap\nos.chdir(sys.argv[1])\nv={}\nfor l in sys.stdin:\n  exec(l,globals(),v)\n  print('ok',flush=True)\n";
        let mut child = Command::new("python3")
            .args(["-c", program])
            .arg(root)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output }
    }

    fn run(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        assert_eq!(answer, "ok\n", "{line}");
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Stores through a mapping send no event: the sweep finds the first by its time stamp, and from then on the file is
/// read every time until it is closed.
#[test]
fn stores_through_a_mapping_are_found_by_the_sweep() {
    let pair = Pair::live(options(Mode::Events));
    pair.put("mapped", "x".repeat(8192));
    assert_eq!(pair.files("hello"), Vec::<String>::new());
    let mut python = Python::new(&pair.path(""));
    python.run("f=os.open('mapped',os.O_RDWR); m=mmap.mmap(f,8192); os.close(f)");
    assert_eq!(pair.files("hello"), Vec::<String>::new());
    python.run("m[100:105]=b'hello'");
    pair.live.sweep();
    assert_eq!(pair.files("hello"), ["mapped"]);
    assert_eq!(pair.live.live_status().unwrap().swept_changes, 1);
    // a second store to the same page moves no time stamp, and is seen all the same
    python.run("m[200:205]=b'world'");
    assert_eq!(pair.files("world"), ["mapped"]);
    python.run("m.close()");
    assert_eq!(pair.files("hello.*world"), ["mapped"]);
    assert_eq!(pair.live.live_status().unwrap().always_read, 0, "closed files are trusted again");
}

#[test]
fn a_fresh_query_sees_stores_through_a_mapping_at_once() {
    let pair = Pair::live(options(Mode::Events));
    pair.put("mapped", "x".repeat(8192));
    assert_eq!(pair.files("hello"), Vec::<String>::new());
    let mut python = Python::new(&pair.path(""));
    python.run("f=os.open('mapped',os.O_RDWR); m=mmap.mmap(f,8192); m[100:105]=b'hello'");
    let fresh = GrepQuery { fresh: true, ..pair.query("hello") };
    assert_eq!(hits(&pair.live, &fresh).len(), 1);
}

#[test]
fn a_hard_link_elsewhere_is_no_hiding_place() {
    let pair = Pair::live(options(Mode::Events));
    pair.put("f", "before\n");
    fs::hard_link(pair.path("f"), pair.dir.path().join("elsewhere")).unwrap();
    pair.live.sweep();
    fs::write(pair.dir.path().join("elsewhere"), "after\n").unwrap();
    assert_eq!(pair.files("after"), ["f"]);
    // a link that was there from the beginning needs no sweep
    fs::write(pair.dir.path().join("old"), "before\n").unwrap();
    fs::hard_link(pair.dir.path().join("old"), pair.path("g")).unwrap();
    assert_eq!(pair.files("before"), ["g"]);
    fs::write(pair.dir.path().join("old"), "after\n").unwrap();
    assert_eq!(pair.files("after"), ["f", "g"]);
}

#[test]
fn a_time_stamp_put_back_hides_nothing() {
    for mode in [Mode::Events, Mode::Stat] {
        let pair = Pair::live(options(mode));
        pair.put("f", "aaaa\n");
        assert_eq!(pair.files("aaaa"), ["f"]);
        let time = fs::metadata(pair.path("f")).unwrap().modified().unwrap();
        pair.put("f", "bbbb\n");
        fs::File::options().write(true).open(pair.path("f")).unwrap().set_modified(time).unwrap();
        assert_eq!(pair.files("bbbb"), ["f"]);
    }
}

#[test]
fn a_moved_root_is_followed() {
    let pair = Pair::live(options(Mode::Events));
    pair.put("d/f", "one\n");
    assert_eq!(pair.files("one"), ["d/f"]);
    fs::rename(pair.path(""), pair.dir.path().join("moved")).unwrap();
    fs::create_dir(pair.path("")).unwrap();
    pair.put("new", "one\n");
    fs::write(pair.dir.path().join("moved/d/f"), "two\n").unwrap();
    // the workspace is the folder that was opened, wherever it is called now
    assert_eq!(pair.files("two"), ["d/f"]);
    assert_eq!(pair.files("one"), Vec::<String>::new());
}

#[test]
fn writes_of_another_process_are_there_when_it_says_so() {
    let pair = Pair::live(options(Mode::Events));
    let mut python = Python::new(&pair.path(""));
    for k in 0..500 {
        // half of the time the file is still open
        python.run(&format!(
            "f=os.open('f{}',os.O_WRONLY|os.O_CREAT|os.O_TRUNC); os.write(f,b'word{k}.')",
            k % 7
        ));
        if k % 2 == 0 {
            python.run("os.close(f)");
        }
        assert_eq!(pair.files(&format!("word{k}\\.")), [format!("f{}", k % 7)]);
    }
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
