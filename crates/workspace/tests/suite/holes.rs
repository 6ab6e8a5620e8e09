//! What the kernel's events miss, case by case: what happens then, and what finds it.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use workspace::{
    Caller, Expected, GlobQuery, GrepQuery, LiveOptions, Mode, Options, Retention, Snapshots, UndoOptions,
    UpdateError, Workspace,
};

use crate::kit::{NEVER, hits, myself};
use crate::live::{Pair, options};

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

/// A restore writes over files: though the journal names what changed, it looks at every stamp before that, and keeps
/// what sent no event as well. So does an undo, which leaves it alone.
#[test]
fn what_sent_no_event_is_kept_before_anything_is_written_over() {
    let pair = Pair::live(options(Mode::Events));
    pair.put("mapped", "x".repeat(8192));
    pair.put("named", "one");
    let open = || {
        let live = std::sync::Arc::clone(&pair.live);
        Snapshots::open(live, &pair.dir.path().join("store"), Retention::default()).unwrap()
    };
    let snapshots = open();
    let mut python = Python::new(&pair.path(""));
    python.run("f=os.open('mapped',os.O_RDWR); m=mmap.mmap(f,8192); os.close(f)");
    snapshots.create("base", "").unwrap();
    let read = |name: &str| fs::read_to_string(pair.path(name)).unwrap();
    let who = Caller::default();

    python.run("m[100:105]=b'hello'");
    pair.put("named", "two");
    let restored = snapshots.restore("base", &who).unwrap();
    assert_eq!(restored.changes.len(), 2, "{restored:?}");
    assert!(read("named") == "one" && !read("mapped").contains("hello"));
    snapshots.restore(&restored.before, &who).unwrap();
    assert!(read("named") == "two" && read("mapped").contains("hello"));

    // it is another file now
    python.run("m.close(); f=os.open('mapped',os.O_RDWR); m=mmap.mmap(f,8192); os.close(f)");
    let path = pair.live.resolve("named").unwrap();
    let noted = snapshots.note(&who, &path, Some(b"two")).unwrap();
    pair.put("named", "three");
    snapshots.noted(&noted, Some(b"three"[..].into()));
    python.run("m[200:205]=b'world'");
    let undone = snapshots.undo(&who, UndoOptions { any_session: true, force: false }).unwrap();
    assert_eq!(undone.changes.len(), 1, "{undone:?}");
    assert!(read("named") == "two" && read("mapped").contains("world"));
    drop(snapshots);
    assert!(!Snapshots::unfinished(&pair.dir.path().join("store")));
    drop(open());
    assert!(read("named") == "two" && read("mapped").contains("world"));
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

/// By the events both have left their old names after they came to the new ones.
#[test]
fn what_changes_places_is_there_under_both_names() {
    let pair = Pair::live(options(Mode::Events));
    for name in ["a", "d/b", "x/one", "y/two"] {
        pair.put(name, format!("in {name}\n"));
    }
    assert_eq!(pair.files("in ").len(), 4);
    for (one, other) in [("a", "d/b"), ("x", "y"), ("a", "y"), ("a", "y"), ("y", "a")] {
        renameat_with(CWD, pair.path(one), CWD, pair.path(other), RenameFlags::EXCHANGE).unwrap();
        assert_eq!(pair.files("in ").len(), 4, "{one} and {other}");
    }
    assert_eq!(pair.files("in a"), ["d/b"]);
    assert_eq!(pair.files("in d/b"), ["y"]);
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

/// Other calls than write(2), each with the word that it puts into the file `f`.
#[test]
fn every_other_way_to_write_is_seen_at_once() {
    let pair = Pair::live(options(Mode::Events));
    let mut python = Python::new(&pair.path(""));
    let ways = [
        ("copied", "os.write(o,b'copied'); os.lseek(o,0,0); os.copy_file_range(o,f,6)"),
        ("sent", "os.write(o,b'sent'); os.sendfile(f,o,0,4)"),
        ("spliced", "r,w=os.pipe(); os.write(w,b'spliced'); os.splice(r,f,7,offset_dst=0)"),
        ("pwritten", "os.pwrite(f,b'pwritten',0)"),
        ("vectored", "os.writev(f,[b'vec',b'tored'])"),
    ];
    for (word, code) in ways {
        python.run("o=os.open('../other',os.O_RDWR|os.O_CREAT|os.O_TRUNC)");
        python.run("f=os.open('f',os.O_RDWR|os.O_CREAT|os.O_TRUNC)");
        assert_eq!(pair.files(word), Vec::<String>::new());
        python.run(code);
        assert_eq!(pair.files(word), ["f"], "the file is still open");
    }
    python.run("os.ftruncate(f,3)");
    assert_eq!(pair.files("vectored"), Vec::<String>::new());
    assert_eq!(pair.files("vec"), ["f"]);
    python.run("os.ftruncate(f,0); os.posix_fallocate(f,0,9000)");
    pair.agree(&pair.query("vec"), &String::new);
}

/// Asynchronous writes of the old kind send nothing before the file is closed.
#[test]
fn asynchronous_writes_are_found_by_the_sweep() {
    let pair = Pair::live(options(Mode::Events));
    pair.put("f", "before\n");
    assert_eq!(pair.files("before"), ["f"]);
    let mut python = Python::new(&pair.path(""));
    python.run("import ctypes,struct,platform; L=ctypes.CDLL(None,use_errno=True)");
    python.run("setup,submit,getevents=(0,2,4) if platform.machine()=='aarch64' else (206,209,208)");
    python.run(
        "f=os.open('f',os.O_RDWR); ctx=ctypes.c_ulong(0); assert L.syscall(setup,8,ctypes.byref(ctx))==0",
    );
    python.run("buf=ctypes.create_string_buffer(b'after!\\n'); cb=ctypes.create_string_buffer(struct.pack('QIIHhIQQqQII',0,0,0,1,0,f,ctypes.addressof(buf),7,0,0,0,0))");
    python.run("p=ctypes.c_void_p(ctypes.addressof(cb)); assert L.syscall(submit,ctx,1,ctypes.byref(p))==1");
    python.run("e=ctypes.create_string_buffer(64); assert L.syscall(getevents,ctx,1,1,e,None)==1; assert os.pread(f,6,0)==b'after!'");
    pair.live.sweep();
    assert_eq!(pair.files("after"), ["f"]);
    assert_eq!(pair.files("before"), Vec::<String>::new());
    python.run("os.close(f)");
    assert_eq!(pair.files("after"), ["f"]);
    assert_eq!(pair.live.live_status().unwrap().always_read, 0, "closed files are trusted again");
}

/// Writes through io_uring send an event. Where the kernel refuses io_uring nobody can write with it.
#[test]
fn writes_through_io_uring_are_seen() {
    let pair = Pair::live(options(Mode::Events));
    pair.put("f", "before\n");
    assert_eq!(pair.files("before"), ["f"]);
    let mut python = Python::new(&pair.path(""));
    python.run("import ctypes,struct; L=ctypes.CDLL(None,use_errno=True)");
    python.run("p=ctypes.create_string_buffer(120); u=L.syscall(425,4,p); os.write(os.open('../refused',os.O_WRONLY|os.O_CREAT),b'x') if u<0 else None");
    if pair.dir.path().join("refused").exists() {
        return;
    }
    python.run("f=os.open('f',os.O_RDWR); tail,array=struct.unpack_from('I',p,44)[0],struct.unpack_from('I',p,64)[0]");
    python.run("ring=mmap.mmap(u,array+16,offset=0); sqes=mmap.mmap(u,256,offset=0x10000000)");
    python.run("buf=ctypes.create_string_buffer(b'after!\\n'); sqes[0:64]=struct.pack('BBHiQQIIQ24x',23,0,0,f,0,ctypes.addressof(buf),7,0,1)");
    python.run("ring[array:array+4]=struct.pack('I',0); ring[tail:tail+4]=struct.pack('I',1); assert L.syscall(426,u,1,1,1,None,0)==1");
    python.run("assert os.pread(f,6,0)==b'after!'");
    assert_eq!(pair.files("after"), ["f"]);
}

/// A second name inside the workspace: the folder of the first one hears nothing of it.
#[test]
fn a_hard_link_within_the_workspace_binds_both_names() {
    let pair = Pair::live(options(Mode::Events));
    pair.put("a/f", "before\n");
    fs::create_dir(pair.path("b")).unwrap();
    assert_eq!(pair.files("before"), ["a/f"]);
    fs::hard_link(pair.path("a/f"), pair.path("b/g")).unwrap();
    assert_eq!(pair.files("before"), ["a/f", "b/g"]);
    fs::write(pair.path("b/g"), "after\n").unwrap();
    assert_eq!(pair.files("after"), ["a/f", "b/g"]);
    pair.agree_on_names("**/*", &String::new);
    // a name that is not searched itself
    pair.put("b/.gitignore", "*.log\n");
    pair.put("a/h", "before\n");
    assert_eq!(pair.files("before"), ["a/h"]);
    fs::hard_link(pair.path("a/h"), pair.path("b/h.log")).unwrap();
    assert_eq!(pair.files("before"), ["a/h"]);
    fs::write(pair.path("b/h.log"), "at last\n").unwrap();
    assert_eq!(pair.files("at last"), ["a/h"]);
    pair.agree_on_names("**/*", &String::new);
}

/// Nobody watches what lies above the root, so every query asks.
#[test]
fn ignore_files_above_the_root_are_heeded_at_once() {
    for mode in [Mode::Events, Mode::Stat] {
        let pair = Pair::live(options(mode));
        pair.put("a.log", "word\n");
        pair.put("d/b.txt", "word\n");
        let above = pair.dir.path();
        let expect = |files: &[&str], when: &str| {
            assert_eq!(pair.files("word"), files, "{when}, {mode}");
            pair.agree(&pair.query("word"), &String::new);
            pair.agree_on_names("**/*", &String::new);
        };
        expect(&["a.log", "d/b.txt"], "no repository");
        fs::write(above.join(".gitignore"), "*.log\n").unwrap();
        expect(&["a.log", "d/b.txt"], "ignore files outside a repository do not count");
        fs::create_dir_all(above.join(".git/info")).unwrap();
        expect(&["d/b.txt"], "the root lies in a repository");
        fs::write(above.join(".gitignore"), "ws/d\n").unwrap();
        expect(&["a.log"], "another rule");
        fs::write(above.join(".git/info/exclude"), "a.*\n").unwrap();
        expect(&[], "and one in the repository");
        fs::write(above.join(".ignore"), "!a.log\n").unwrap();
        expect(&["a.log"], "and an exception");
        fs::remove_file(above.join(".gitignore")).unwrap();
        expect(&["a.log", "d/b.txt"], "one less");
        fs::remove_dir_all(above.join(".git")).unwrap();
        expect(&["a.log", "d/b.txt"], "no repository any more");
    }
}

/// The guard of writes listens to the journal, and lets the content decide.
#[test]
fn the_journal_alone_refuses_no_write() {
    let pair = Pair::live(options(Mode::Events));
    pair.put("f", "one\n");
    let path = pair.live.resolve("f").unwrap();
    let write = |meanwhile: &dyn Fn()| {
        pair.live.update::<()>(&path, Expected::Anything, |_| {
            meanwhile();
            Ok(b"two\n".to_vec())
        })
    };
    // touched, and the same as before
    write(&|| pair.put("f", "one\n")).unwrap();
    assert_eq!(fs::read_to_string(pair.path("f")).unwrap(), "two\n");
    let refused = write(&|| pair.put("f", "six\n"));
    assert!(matches!(refused, Err(UpdateError::Changed { now }) if now == b"six\n"));
    assert_eq!(pair.files("six"), ["f"]);
}

/// Runs a part of this file where it may mount things and lower limits: in namespaces of its own.
fn in_namespaces(part: &str) {
    let test = myself("holes::inside_namespaces", "WORKSPACE_HOLE", Path::new(part));
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "--propagation", "private"]);
    command.arg(test.get_program()).args(test.get_args()).env("WORKSPACE_HOLE", part);
    let output = command.output().unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{part}: {text}");
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn inside_namespaces() {
    match std::env::var("WORKSPACE_HOLE").as_deref() {
        Ok("mount over") => mounted_over(),
        Ok("crossed") => crossed(),
        Ok("bind") => bound(),
        Ok("overlay") => overlaid(),
        Ok("foreign") => foreign(),
        Ok("watches") => without_watches(),
        Ok("instances") => without_instances(),
        _ => {}
    }
}

/// A pair that chooses its mode itself.
fn choosing(options: Options) -> Pair {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("ws")).unwrap();
    Pair::within(dir, options)
}

impl Pair {
    fn at(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn is(&self, mode: Mode, why: &str) {
        let status = self.live.live_status().unwrap();
        assert!(status.mode == mode && status.why.contains(why), "{status}");
    }

    /// Both views name these mounts, where a search could have led there.
    fn says_left_out(&self, mounts: &[&str]) {
        let mounts: Vec<&Path> = mounts.iter().map(Path::new).collect();
        let glob = |ws: &Workspace, pattern: &str| {
            let path = ws.resolve(".").unwrap();
            let query = GlobQuery { pattern: pattern.into(), path, limit: 50, fresh: false };
            ws.glob(&query, &NEVER).unwrap().mounts
        };
        for ws in [&*self.live, &self.plain] {
            let found = ws.grep(&self.query("word"), &NEVER, &mut |_| ControlFlow::Continue(())).unwrap();
            assert_eq!(found.mounts, mounts);
            assert_eq!(glob(ws, "**/*.rs"), mounts);
            assert_eq!(glob(ws, "sub/*.rs"), mounts);
            assert_eq!(glob(ws, "*.rs"), Vec::<PathBuf>::new());
            assert_eq!(glob(ws, "other/**/*.rs"), Vec::<PathBuf>::new());
        }
    }

    /// Both views, whatever is asked.
    fn agrees(&self, when: &str) {
        let context = || when.to_owned();
        for pattern in ["word", "x", "(?i)WORD|other"] {
            self.agree(&self.query(pattern), &context);
        }
        self.agree_on_names("**/*", &context);
    }
}

#[test]
fn a_mount_over_a_watched_folder_is_noticed() {
    in_namespaces("mount over");
}

fn mounted_over() {
    let pair = choosing(Options::default());
    pair.put("sub/f", "word\n");
    pair.live.go_live_now(LiveOptions::default());
    assert_eq!(pair.files("word"), ["sub/f"]);
    run("mount", &["-t", "tmpfs", "none", &pair.at("sub")]);
    pair.put("sub/g", "word\n");
    assert_eq!(pair.files("word"), Vec::<String>::new(), "what is mounted there is not the checkout");
    pair.agrees("mounted");
    pair.says_left_out(&["sub"]);
    pair.put(".gitignore", "/sub\n");
    pair.says_left_out(&[]);
    pair.put(".gitignore", "");
    run("umount", &[&pair.at("sub")]);
    pair.says_left_out(&[]);
    assert_eq!(pair.files("word"), ["sub/f"]);
    pair.put("sub/f", "other\n");
    pair.agrees("unmounted");
    pair.put("lone", "word\n");
    assert_eq!(pair.files("word"), ["lone"]);
    run("mount", &["--bind", &pair.at(".gitignore"), &pair.at("lone")]);
    assert_eq!(pair.files("word"), Vec::<String>::new());
    pair.agrees("a file is mounted over");
    pair.is(Mode::Events, "local");
}

#[test]
fn a_mount_that_belongs_to_the_workspace_comes_and_goes() {
    in_namespaces("crossed");
}

fn crossed() {
    let pair = choosing(Options::default().crossing_mounts());
    pair.put("sub/f", "word\n");
    pair.live.go_live_now(LiveOptions::default());
    run("mount", &["-t", "tmpfs", "none", &pair.at("sub")]);
    pair.put("sub/g", "word\n");
    assert_eq!(pair.files("word"), ["sub/g"]);
    pair.put("sub/g", "word other\n");
    assert_eq!(pair.files("other"), ["sub/g"]);
    run("umount", &[&pair.at("sub")]);
    assert_eq!(pair.files("word"), ["sub/f"]);
    pair.is(Mode::Events, "local");
    run("mount", &["-t", "ramfs", "none", &pair.at("sub")]);
    pair.put("sub/g", "word\n");
    assert_eq!(pair.files("word"), ["sub/g"]);
    pair.is(Mode::Stat, "mounted below the root");
}

#[test]
fn writes_through_a_bind_mount_are_seen() {
    in_namespaces("bind");
}

fn bound() {
    let pair = choosing(Options::default());
    pair.put("d/f", "word\n");
    pair.live.go_live_now(LiveOptions::default());
    let other = pair.dir.path().join("other");
    fs::create_dir(&other).unwrap();
    let rescans = pair.live.live_status().unwrap().rescans;
    run("mount", &["--bind", &pair.at(""), other.to_str().unwrap()]);
    fs::write(other.join("d/f"), "other\n").unwrap();
    assert_eq!(pair.files("other"), ["d/f"]);
    fs::write(other.join("new"), "word\n").unwrap();
    assert_eq!(pair.files("word"), ["new"]);
    fs::remove_file(other.join("d/f")).unwrap();
    pair.agrees("removed");
    pair.is(Mode::Events, "local");
    run("umount", &[other.to_str().unwrap()]);
    pair.agrees("unmounted");
    assert_eq!(
        pair.live.live_status().unwrap().rescans,
        rescans,
        "what is mounted elsewhere changes nothing here"
    );
}

#[test]
fn changes_below_an_overlay_are_found_by_the_sweep() {
    in_namespaces("overlay");
}

fn overlaid() {
    let dir = tempfile::tempdir().unwrap();
    // on a file system that no other overlay lies over
    run("mount", &["-t", "tmpfs", "none", dir.path().to_str().unwrap()]);
    for name in ["lower/d", "upper", "work", "ws"] {
        fs::create_dir_all(dir.path().join(name)).unwrap();
    }
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("lower/d/f"), "word\n").unwrap();
    fs::write(at("lower/d/g"), "word\n").unwrap();
    let layers =
        format!("lowerdir={},upperdir={},workdir={},userxattr", at("lower"), at("upper"), at("work"));
    run("mount", &["-t", "overlay", "none", "-o", &layers, &at("ws")]);
    let pair = Pair::within(dir, Options::default());
    pair.live.go_live_now(LiveOptions::default());
    pair.is(Mode::Events, "local");
    pair.put("d/f", "other\n");
    assert_eq!(pair.files("other"), ["d/f"], "through the overlay: seen at once");
    fs::write(pair.dir.path().join("lower/d/g"), "other\n").unwrap();
    fs::write(pair.dir.path().join("lower/d/h"), "other\n").unwrap();
    fs::write(pair.dir.path().join("upper/d/f"), "word other\n").unwrap();
    pair.live.sweep();
    pair.agrees("behind its back");
    assert_eq!(pair.files("word other"), ["d/f"]);
    assert!(pair.files("other").contains(&"d/g".to_owned()));
    run("umount", &["--lazy", &pair.at("")]);
    run("umount", &["--lazy", pair.dir.path().to_str().unwrap()]);
}

#[test]
fn a_file_system_that_may_change_elsewhere_is_compared() {
    in_namespaces("foreign");
}

fn foreign() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("ws")).unwrap();
    // not one of those that are known to send an event for every change, as those of a network do not
    run("mount", &["-t", "ramfs", "none", dir.path().join("ws").to_str().unwrap()]);
    let pair = Pair::within(dir, Options::default());
    pair.put("d/f", "word\n");
    pair.live.go_live_now(LiveOptions::default());
    pair.is(Mode::Stat, "0x858458f6");
    assert_eq!(pair.files("word"), ["d/f"]);
    pair.put("d/g", "word\n");
    pair.put("d/f", "other\n");
    assert_eq!(pair.files("word"), ["d/g"]);
    pair.agrees("changed");
    run("umount", &["--lazy", &pair.at("")]);
}

#[test]
fn when_the_watches_of_the_user_are_used_up_stat_data_decide() {
    in_namespaces("watches");
}

fn without_watches() {
    fs::write("/proc/sys/user/max_inotify_watches", "20").unwrap();
    let pair = choosing(Options::default());
    let later = choosing(Options::default());
    later.live.go_live_now(LiveOptions::default());
    later.is(Mode::Events, "local");
    for k in 0..60 {
        pair.put(&format!("d{k}/f"), "word\n");
    }
    pair.live.go_live_now(LiveOptions::default());
    pair.is(Mode::Stat, "max_user_watches");
    pair.put("d59/f", "other\n");
    pair.put("new/g", "other\n");
    assert_eq!(pair.files("other"), ["d59/f", "new/g"]);
    pair.agrees("used up at the start");
    for k in 0..60 {
        later.put(&format!("d{k}/f"), "word\n");
    }
    assert_eq!(later.files("word").len(), 60);
    later.is(Mode::Stat, "max_user_watches");
    later.put("d7/f", "other\n");
    later.agrees("used up later");
}

#[test]
fn when_no_instance_is_free_stat_data_decide() {
    in_namespaces("instances");
}

fn without_instances() {
    fs::write("/proc/sys/user/max_inotify_instances", "0").unwrap();
    let pair = choosing(Options::default());
    pair.put("f", "word\n");
    pair.live.go_live_now(LiveOptions::default());
    pair.is(Mode::Stat, "max_user_instances");
    pair.put("f", "other\n");
    pair.agrees("changed");
}
