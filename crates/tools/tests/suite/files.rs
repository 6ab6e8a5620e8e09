//! Read, Write, Edit, apply_patch, Glob and Grep through the pipeline.

use crate::support::{Bench, Client, SECRET, Setup};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::symlink};
use tokio_util::sync::CancellationToken;
use tools::{Content, Progress};

async fn read(client: &Client, path: &str) -> String {
    client.ok("Read", json!({"file_path": path})).await
}

fn get(bench: &Bench, path: &str) -> String {
    fs::read_to_string(bench.root().join(path)).unwrap()
}

#[tokio::test]
async fn read_gives_numbered_lines_and_windows() {
    let bench = Bench::new();
    let client = bench.client();
    bench.write("a.txt", "one\r\ntwo\nthree\n");
    assert_eq!(read(&client, "a.txt").await, "1\tone\n2\ttwo\n3\tthree\n");
    let absolute = bench.root().join("a.txt");
    let window = json!({"file_path": absolute, "offset": 2, "limit": 1});
    assert_eq!(client.ok("Read", window).await, "2\ttwo\n[lines 2-2 of 3; offset=3 reads on]\n");
    bench.write("empty", "");
    assert_eq!(read(&client, "empty").await, "[empty is empty]");
    bench.write("long", "x".repeat(5000));
    assert!(read(&client, "long").await.ends_with("x … [line cut, 3000 more bytes]\n"));
    bench.write("many", "0123456789\n".repeat(100_000));
    let many = read(&client, "many").await;
    assert!(many.ends_with("2000\t0123456789\n[lines 1-2000 of 100000; offset=2001 reads on]\n"), "{many}");
    bench.write("wide", format!("{}\n", "w".repeat(1500)).repeat(1000));
    let wide = read(&client, "wide").await;
    assert!(wide.len() < 280 << 10 && wide.contains("of 1000; offset="), "{}", wide.len());
}

#[tokio::test]
async fn read_refuses_clearly() {
    let bench = Bench::new();
    let client = bench.client();
    bench.write("dir/File.txt", "x\n");
    symlink("/etc/passwd", bench.root().join("link")).unwrap();
    for (args, why) in [
        (json!({"file_path": "dir"}), "dir is a folder, not a file"),
        (json!({"file_path": "dir/file.txt"}), "dir/file.txt does not exist; did you mean dir/File.txt?"),
        (
            json!({"file_path": "dir/File.txt", "offset": 9}),
            "offset 9 is past the end of dir/File.txt (1 line(s))",
        ),
        (json!({"file_path": "../x"}), "../x is outside the workspace"),
        (json!({"file_path": "/etc/passwd"}), "/etc/passwd is outside the workspace"),
        (json!({"file_path": "link"}), "link is a symlink to /etc/passwd; give a path that stays inside"),
        (json!({"file_path": "nothing/like/it"}), "nothing/like/it does not exist; look for it with Glob"),
        (json!({"file_path": "~/x"}), "`~` means nothing here"),
        (json!({"file_path": ""}), "it is empty; give a path relative to the workspace's root"),
        (json!({"file_path": "dir/File.txt/x"}), "dir/File.txt is a file, not a folder; give a path below"),
        (json!({"file_path": "dir/File.txt", "offset": -1}), "`offset` must be a whole number of at least 0"),
        (json!({"file_path": "dir/File.txt", "limit": 0}), "`limit` must be at least 1"),
        (json!({"file_path": 7}), "file_path"),
        (json!({}), "file_path"),
    ] {
        let said = client.err("Read", args).await;
        assert!(said.contains(why), "{said}");
    }
}

#[tokio::test]
async fn read_shows_images_and_describes_binaries() {
    let bench = Bench::new();
    let client = bench.client();
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    bench.write("p.png", &png);
    bench.write("prog", b"\x7fELF\x02\x01\x01\0\0\0");
    let reply = client.call("Read", json!({"file_path": "p.png"})).await;
    assert_eq!(reply.content[1], Content::Image { data: png, mime: "image/png" });
    assert_eq!(read(&client, "prog").await, "prog: ELF binary, 10 bytes, not shown");
}

#[tokio::test]
async fn write_creates_and_guards() {
    let bench = Bench::new();
    let client = bench.client();
    let write = |path: &str, content: &str| json!({"file_path": path, "content": content});
    let made = client.call("Write", write("new/deep.txt", "hello")).await;
    assert_eq!(made.all_text(), "wrote 5 bytes to new/deep.txt");
    assert_eq!(made.structured, Some(json!({"path": "new/deep.txt", "bytes": 5, "created": true})));
    // a Write counts as a Read
    assert_eq!(client.ok("Write", write("new/deep.txt", "again")).await, "wrote 5 bytes to new/deep.txt");
    bench.write("old.txt", "theirs\r\n");
    let refused = client.err("Write", write("old.txt", "mine")).await;
    assert_eq!(refused, "refusing to overwrite old.txt: Read it first");
    read(&client, "old.txt").await;
    bench.write("old.txt", "theirs\r\nchanged\r\n");
    let stale = client.err("Write", write("old.txt", "mine\n")).await;
    assert!(stale.starts_with("refusing to overwrite old.txt: it changed since you read it\n"), "{stale}");
    assert!(
        stale.contains("+changed") && stale.ends_with("Read it again, then repeat the change"),
        "{stale}"
    );
    read(&client, "old.txt").await;
    assert_eq!(client.ok("Write", write("old.txt", "mine\n")).await, "wrote 6 bytes to old.txt");
    assert_eq!(get(&bench, "old.txt"), "mine\r\n");
    fs::remove_file(bench.root().join("old.txt")).unwrap();
    client.ok("Write", write("old.txt", "back\n")).await;
    assert!(client.err("Write", write("../x", "")).await.contains("outside the workspace"));
    assert!(client.err("Write", write("new", "")).await.contains("is a folder"));
}

#[tokio::test]
async fn edit_replaces_guards_and_explains() {
    let bench = Bench::new();
    let client = bench.client();
    let edit = |old: &str, new: &str| json!({"file_path": "f.rs", "old_string": old, "new_string": new});
    assert!(client.err("Edit", edit("a", "b")).await.contains("f.rs does not exist"));
    bench.write("f.rs", "fn a() {\n\tone();\n\tone();\n}\n");
    assert_eq!(client.err("Edit", edit("a", "b")).await, "refusing to edit f.rs: Read it first");
    read(&client, "f.rs").await;
    assert_eq!(client.ok("Edit", edit("fn a()", "fn b()")).await, "replaced 1 occurrence(s) in f.rs");
    let twice = client.err("Edit", edit("one();", "two();")).await;
    assert_eq!(
        twice,
        "old_string matched 2 times in f.rs; add context to make it unique or set replace_all=true\nlines 2, 3"
    );
    let all = json!({"file_path": "f.rs", "old_string": "one", "new_string": "two", "replace_all": true});
    let reply = client.call("Edit", all).await;
    assert_eq!(reply.all_text(), "replaced 2 occurrence(s) in f.rs");
    assert_eq!(reply.structured, Some(json!({"path": "f.rs", "lines": [2, 3]})));
    assert_eq!(get(&bench, "f.rs"), "fn b() {\n\ttwo();\n\ttwo();\n}\n");
    let missed = client.err("Edit", edit("fn b() {\n    two();", "x")).await;
    assert!(missed.starts_with("old_string not found in f.rs\nclosest place: lines 1-2\n"), "{missed}");
    assert!(missed.contains("line 2: indentation is 1 tab in the file, not 4 spaces"), "{missed}");
    assert!(client.err("Edit", edit("", "x")).await.contains("old_string is empty"));
    bench.write("f.rs", "fn c() {}\n");
    let stale = client.err("Edit", edit("fn c", "fn d")).await;
    assert!(stale.starts_with("refusing to edit f.rs: it changed since you read it\n"), "{stale}");
    assert!(stale.contains("+fn c() {}"), "{stale}");
    // what another session has read does not count here
    let other = bench.client();
    assert_eq!(other.err("Edit", edit("fn c", "fn d")).await, "refusing to edit f.rs: Read it first");
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_sessions_edit_one_file_and_nothing_is_lost() {
    let bench = Bench::new();
    bench.write("f", "start\n");
    let mut tasks = Vec::new();
    for k in 0..10 {
        let client = bench.client();
        tasks.push(tokio::spawn(async move {
            let mut confirmed = 0;
            while confirmed < 10 {
                read(&client, "f").await;
                let line = format!("{k}.{confirmed}\nstart\n");
                let args = json!({"file_path": "f", "old_string": "start\n", "new_string": line});
                confirmed += usize::from(!client.call("Edit", args).await.is_error);
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(get(&bench, "f").lines().count(), 101);
}

#[tokio::test]
async fn apply_patch_is_all_or_nothing() {
    let bench = Bench::new();
    let client = bench.client();
    bench.write("a.txt", "1\n2\n3\n");
    bench.write("b.txt", "x\n");
    let patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n--- a/b.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n--- /dev/null\n+++ b/c/d.txt\n@@ -0,0 +1 @@\n+new\n";
    let refused = client.err("apply_patch", json!({"patch": patch})).await;
    assert_eq!(refused, "refusing to edit a.txt: Read it first");
    read(&client, "a.txt").await;
    read(&client, "b.txt").await;
    let bad = client.err("apply_patch", json!({"patch": patch.replace("-x", "-y")})).await;
    assert!(bad.starts_with("hunk 1 (@@ -1 +0,0 @@) does not apply to b.txt:"), "{bad}");
    assert!(bad.ends_with("nothing was changed"), "{bad}");
    assert_eq!(get(&bench, "a.txt"), "1\n2\n3\n");
    let done = client.call("apply_patch", json!({"patch": patch})).await;
    assert_eq!(done.all_text(), "applied to 3 file(s), +2 -2\nM a.txt\nD b.txt\nA c/d.txt");
    assert_eq!(get(&bench, "a.txt"), "1\ntwo\n3\n");
    // what the patch wrote counts as read
    let again = "--- a/c/d.txt\n+++ b/c/d.txt\n@@ -1 +1 @@\n-new\n+newer\n";
    client.ok("apply_patch", json!({"patch": again})).await;
    bench.write("a.txt", "other\n");
    let stale = client
        .err("apply_patch", json!({"patch": "--- a/a.txt\n+++ b/a.txt\n@@ -2 +2 @@\n-two\n+2\n"}))
        .await;
    assert!(stale.starts_with("refusing to edit a.txt: it changed since you read it\n"), "{stale}");
    assert!(client.err("apply_patch", json!({"patch": "nonsense"})).await.contains("no file header found"));
}

#[tokio::test]
async fn glob_lists_newest_first() {
    let bench = Bench::new();
    let client = bench.client();
    for (name, age) in [("a.rs", 30), ("src/b.rs", 20), ("src/deep/c.rs", 10), ("ignored/d.rs", 5)] {
        bench.write(name, "");
        let time = std::time::SystemTime::now() - std::time::Duration::from_secs(age);
        fs::File::options().write(true).open(bench.root().join(name)).unwrap().set_modified(time).unwrap();
    }
    bench.write(".gitignore", "ignored/\n");
    let glob = |pattern: &str| json!({"pattern": pattern});
    assert_eq!(client.ok("Glob", glob("**/*.rs")).await, "src/deep/c.rs\nsrc/b.rs\na.rs");
    assert_eq!(client.ok("Glob", glob("*.rs")).await, "a.rs");
    assert_eq!(client.ok("Glob", glob("*.go")).await, "");
    assert_eq!(client.ok("Glob", json!({"pattern": "*.rs", "fresh": true})).await, "a.rs");
    assert_eq!(client.ok("Glob", json!({"pattern": "*.rs", "path": "src"})).await, "src/b.rs");
    let absolute = format!("{}/src/*.rs", bench.root().display());
    assert_eq!(client.ok("Glob", glob(&absolute)).await, "src/b.rs");
    let limited = client.call("Glob", json!({"pattern": "**/*.rs", "limit": 1})).await;
    assert_eq!(limited.all_text(), "src/deep/c.rs\n[2 more; narrow the pattern or raise limit]");
    assert_eq!(limited.structured, Some(json!({"files": ["src/deep/c.rs"], "total": 3})));
    assert!(client.err("Glob", glob("[")).await.contains("invalid glob"));
    assert!(client.err("Glob", glob("../*")).await.contains("leads outside"));
    assert!(client.err("Glob", json!({"pattern": "*", "path": "nope"})).await.contains("does not exist"));
}

#[tokio::test]
async fn grep_in_all_modes() {
    let bench = Bench::new();
    let client = bench.client();
    bench.write("a.txt", "one\ntwo\nthree\nfour\nfive\nsix one\n");
    bench.write("sub/b.rs", "ONE\n");
    let grep = async |extra: Value| {
        let mut args = json!({"pattern": "one"});
        args.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        client.ok("Grep", args).await
    };
    assert_eq!(grep(json!({})).await, "a.txt:1:one\na.txt:6:six one\n");
    assert_eq!(
        grep(json!({"case_insensitive": true, "output_mode": "files_with_matches"})).await,
        "a.txt\nsub/b.rs\n"
    );
    assert_eq!(
        grep(json!({"case_insensitive": true, "output_mode": "count"})).await,
        "a.txt:2\nsub/b.rs:1\n"
    );
    assert_eq!(
        grep(json!({"context": 1})).await,
        "a.txt:1:one\na.txt-2-two\n--\na.txt-5-five\na.txt:6:six one\n"
    );
    assert_eq!(
        grep(json!({"head_limit": 1})).await,
        "a.txt:1:one\n[stopped at head_limit=1; there may be more]\n"
    );
    assert_eq!(grep(json!({"glob": "*.rs"})).await, "no matches");
    let root = bench.root().display().to_string();
    for (glob, found) in [("/a.txt", true), ("/*.txt", true), ("/**/a.txt", true), ("/sub/*.txt", false)] {
        let (all, a) = (format!("{root}{glob}"), "a.txt:1:one\na.txt:6:six one\n");
        let not = if found { "no matches" } else { a };
        assert_eq!(grep(json!({"glob": all})).await, if found { a } else { "no matches" }, "{glob}");
        assert_eq!(grep(json!({"glob": format!("!{all}")})).await, not, "{glob}");
    }
    assert_eq!(grep(json!({"fresh": true, "head_limit": 9})).await, "a.txt:1:one\na.txt:6:six one\n");
    assert_eq!(grep(json!({"path": "a.txt"})).await, "a.txt:1:one\na.txt:6:six one\n");
    let across = client.ok("Grep", json!({"pattern": "two.three", "multiline": true})).await;
    assert_eq!(across, "a.txt:2:two\na.txt:3:three\n");
    let bad = client.err("Grep", json!({"pattern": "a(b"})).await;
    assert!(bad.contains("    a(b\n     ^\nerror: unclosed group"), "{bad}");
    assert!(client.err("Grep", json!({"pattern": "x", "path": "nope"})).await.contains("does not exist"));
    assert!(
        client.err("Grep", json!({"pattern": "x", "output_mode": "lines"})).await.contains("output_mode")
    );
    bench.write("big.txt", format!("{}\n", "one ".repeat(100)).repeat(2000));
    let big = grep(json!({})).await;
    assert!(
        big.len() <= (256 << 10) + 200 && big.contains("[cut at 262144 bytes, at least"),
        "{}",
        big.len()
    );
}

#[tokio::test]
async fn secrets_do_not_leave_through_files() {
    let bench = Bench::new();
    let client = bench.client();
    bench.write("s.txt", format!("key = {SECRET}\n"));
    assert!(!read(&client, "s.txt").await.contains(SECRET));
    let found = client.ok("Grep", json!({"pattern": "key"})).await;
    assert!(found.contains("key") && !found.contains(SECRET), "{found}");
    bench.write("s.txt", format!("key = {SECRET}\nmore\n"));
    let stale = client.err("Write", json!({"file_path": "s.txt", "content": ""})).await;
    assert!(stale.contains("more") && !stale.contains(SECRET), "{stale}");
}

/// Lines as they stand in a private key.
fn key_body() -> Vec<String> {
    let line = |n: usize| (0..64).map(|at| char::from(b"QzR7mXk+p/Jw9aT2"[(at * 7 + n * 5) % 16])).collect();
    (0..24).map(line).chain(["Hq3w==".to_owned()]).collect()
}

#[tokio::test]
async fn no_window_into_a_private_key_shows_its_lines() {
    let bench = Bench::new();
    let client = bench.client();
    let body = key_body();
    let begin = "-----BEGIN RSA PRIVATE KEY-----";
    let key = format!("{begin}\n{}\n-----END RSA PRIVATE KEY-----\n", body.join("\n"));
    bench.write("key.pem", format!("# header\n{key}# trailer\n"));
    bench.write("large.log", format!("{}{key}{}", "a line of a log\n".repeat(60_000), "more\n".repeat(99)));
    bench.write("key.json", format!("{{\"key\": \"{}\"}}\n", key.replace('\n', "\\n")));
    let hidden = |text: &str| !body.iter().any(|line| text.contains(line.as_str()));
    for (path, first) in [("key.pem", 2), ("large.log", 60_001)] {
        for offset in first..first + 28 {
            let window = json!({"file_path": path, "offset": offset, "limit": 3});
            let text = client.ok("Read", window).await;
            assert!(hidden(&text), "{path} from {offset}: {text}");
            assert!(text.starts_with(&format!("{offset}\t")), "{text}");
        }
    }
    let rest = client.ok("Read", json!({"file_path": "key.pem", "offset": 20})).await;
    assert_eq!(rest, "20\t[REDACTED:private-key]\n29\t# trailer\n");

    for (line, context) in [(&body[7][20..40], 0), (&body[7][20..40], 2), ("Hq3w", 1)] {
        let query = json!({"pattern": line.replace('+', "[+]"), "context": context, "glob": "!*.json"});
        let text = client.ok("Grep", query).await;
        assert!(hidden(&text) && text.contains("[REDACTED:private-key]"), "{text}");
        assert!(text.contains("key.pem") && text.contains("large.log"), "{text}");
    }
    // The same in one long line, of which only a part is shown.
    let inside = json!({"pattern": body[20][..20].replace('+', "[+]"), "path": "key.json"});
    let text = client.ok("Grep", inside).await;
    assert!(hidden(&text) && text.contains("[REDACTED:private-key]"), "{text}");
    // Other base64 is nobody's secret.
    bench.write("picture.txt", format!("data:\n{}\n", body.join("\n")));
    let picture = client.ok("Read", json!({"file_path": "picture.txt", "offset": 3, "limit": 1})).await;
    assert!(picture.contains(&body[1]), "{picture}");
    let found = client.ok("Grep", json!({"pattern": "Hq3w", "path": "picture.txt"})).await;
    assert_eq!(found, "picture.txt:26:Hq3w==\n");
}

#[tokio::test]
async fn no_cut_leaves_a_part_of_a_secret() {
    let bench = Bench::new();
    let client = bench.client();
    for lead in 1970..2000 {
        bench.write("long", format!("{}{SECRET} {}", ". ".repeat(lead / 2), "x".repeat(9000)));
        let text = read(&client, "long").await;
        assert!(!text.contains(&SECRET[..8]) && text.contains("[REDACTED:secret"), "{lead}: {text}");
        // A search shows 200 bytes before what it found.
        let gap = lead - 1970 + 172;
        let (before, between) = (". ".repeat(500), ".".repeat(gap - 1));
        bench.write("wide", format!("{before}{SECRET} {between}{}", "x".repeat(9000)));
        let text = client.ok("Grep", json!({"pattern": "x{100}", "path": "wide"})).await;
        assert!(!text.contains(&SECRET[SECRET.len() - 4..]), "{gap}: {text}");
    }
}

#[tokio::test]
async fn no_path_crosses_from_one_workspace_to_another() {
    let bench = Setup { workspaces: &["one", "two"], ..Setup::default() }.bench();
    let client = bench.client();
    let roots: Vec<_> =
        ["one", "two"].iter().map(|name| bench.dir.path().canonicalize().unwrap().join(name)).collect();
    fs::write(roots[0].join("f"), "first\n").unwrap();
    fs::write(roots[1].join("f"), "second\n").unwrap();
    let named = |name: &str, path: &str| json!({"file_path": path, "workspace": name});
    assert_eq!(client.ok("Read", named("two", "f")).await, "1\tsecond\n");
    let crossing = roots[0].join("f");
    assert!(
        client.err("Read", named("two", crossing.to_str().unwrap())).await.contains("outside the workspace")
    );
    assert!(client.err("Read", named("two", "../one/f")).await.contains("outside the workspace"));
    // having read it in one workspace says nothing about the other
    let edit = json!({"file_path": "f", "old_string": "first", "new_string": "1", "workspace": "one"});
    assert_eq!(client.err("Edit", edit).await, "refusing to edit f: Read it first");
    assert!(client.err("Read", json!({"file_path": "f"})).await.contains("pass `workspace` to pick one"));
}

#[tokio::test]
async fn a_cancelled_search_ends() {
    let bench = Bench::new();
    for k in 0..300 {
        bench.write(&format!("f{k}"), "x\n");
    }
    let client = bench.client();
    let cancel = CancellationToken::new();
    cancel.cancel();
    let reply = client.call_with("Grep", json!({"pattern": "x"}), cancel, Progress::default()).await;
    assert!(reply.is_error && reply.all_text().contains("cancelled"), "{}", reply.all_text());
}

#[tokio::test]
async fn no_file_tool_writes_what_git_runs() {
    let bench = Bench::new();
    let client = bench.client();
    bench.write(".git/config", "[core]\n");
    read(&client, ".git/config").await;
    let patch = "--- /dev/null\n+++ b/.git/hooks/pre-commit\n@@ -0,0 +1 @@\n+evil\n";
    let delete = "--- a/.git/config\n+++ /dev/null\n@@ -1 +0,0 @@\n-[core]\n";
    for (tool, arguments) in [
        ("Write", json!({"file_path": ".git/hooks/pre-commit", "content": "evil"})),
        ("Write", json!({"file_path": ".git/config", "content": "evil"})),
        ("Edit", json!({"file_path": ".git/config", "old_string": "core", "new_string": "evil"})),
        ("apply_patch", json!({"patch": patch})),
        ("apply_patch", json!({"patch": delete})),
    ] {
        let refused = client.err(tool, arguments).await;
        assert!(
            refused.contains("git runs programs") && refused.contains("ask a person"),
            "{tool}: {refused}"
        );
    }
    assert_eq!(get(&bench, ".git/config"), "[core]\n");
    assert!(!bench.root().join(".git/hooks").exists());
}

#[tokio::test]
async fn grep_says_that_a_file_it_was_asked_for_is_binary() {
    let bench = Bench::new();
    let client = bench.client();
    bench.write("bin.dat", "needle\0needle\n");
    let said = client.ok("Grep", json!({"pattern": "needle", "path": "bin.dat"})).await;
    assert_eq!(
        said,
        "[not searched: bin.dat: byte 7 is NUL, so it is binary; `grep -a` in a shell searches all of it]\n"
    );
    bench.write("app.log", format!("needle\n{}\0\nneedle\n", "x\n".repeat(5000)));
    let said = client.ok("Grep", json!({"pattern": "needle", "path": "app.log"})).await;
    assert!(said.starts_with("app.log:1:needle\n[not searched: app.log: byte 10008 is NUL"), "{said}");
    assert_eq!(client.ok("Grep", json!({"pattern": "nothing such"})).await, "no matches");
}

#[tokio::test]
async fn a_patch_that_does_nothing_or_loses_lines_is_refused() {
    let bench = Bench::new();
    let client = bench.client();
    bench.write("a.txt", "one\ntwo\nthree\nfour\n");
    read(&client, "a.txt").await;
    for (hunks, why) in [
        ("", "no hunk follows"),
        ("@@ -1,2 +1,2 @@\n one\n two\n", "changes nothing"),
        ("@@ -1,4 +1,4 @@\n one\n-two\n+TWO\nthree\n-four\n+FOUR\n", "\"three\" is no line of the hunk"),
        ("@@ -1,2 +1,2 @@\n one\n-two\n+TWO\n\n-three\n+THREE\n", "\"-three\" stands behind the end"),
    ] {
        let patch = format!("--- a/a.txt\n+++ b/a.txt\n{hunks}");
        let said = client.err("apply_patch", json!({"patch": patch})).await;
        assert!(said.contains(why) && said.contains("nothing was changed"), "{said}");
    }
    assert_eq!(get(&bench, "a.txt"), "one\ntwo\nthree\nfour\n");
}

#[tokio::test]
async fn a_workspace_that_is_gone_or_replaced_is_named() {
    let bench = Bench::new();
    let client = bench.client();
    bench.write("a.txt", "one\n");
    read(&client, "a.txt").await;
    let (root, aside) = (bench.root().to_owned(), bench.root().with_extension("aside"));
    fs::rename(&root, &aside).unwrap();
    let calls = [
        ("Read", json!({"file_path": "a.txt"})),
        ("Glob", json!({"pattern": "*"})),
        ("Grep", json!({"pattern": "one"})),
        ("Write", json!({"file_path": "b.txt", "content": "b"})),
        ("Bash", json!({"command": "true"})),
    ];
    for what in ["was removed or moved", "was replaced by another"] {
        for (tool, args) in &calls {
            let said = client.err(tool, args.clone()).await;
            assert!(said.contains(what) && said.contains("start the server again"), "{tool}: {said}");
        }
        client.ok("secrets_available", json!({})).await;
        let _ = fs::create_dir(&root);
    }
    fs::remove_dir(&root).unwrap();
    fs::rename(&aside, &root).unwrap();
    assert_eq!(read(&client, "a.txt").await, "1\tone\n");
}

#[tokio::test]
async fn a_patch_deletes_no_file_by_the_name_of_a_link() {
    let bench = Bench::new();
    let client = bench.client();
    bench.write("real.txt", "one\n");
    symlink("real.txt", bench.root().join("link.txt")).unwrap();
    read(&client, "link.txt").await;
    for patch in [
        "--- a/link.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n",
        "diff --git a/link.txt b/new.txt\nrename from link.txt\nrename to new.txt\n",
    ] {
        let said = client.err("apply_patch", json!({"patch": patch})).await;
        assert!(said.starts_with("link.txt is a symlink to real.txt"), "{said}");
        assert_eq!(get(&bench, "link.txt"), "one\n");
    }
    let through = "--- a/link.txt\n+++ b/link.txt\n@@ -1 +1 @@\n-one\n+two\n";
    client.ok("apply_patch", json!({"patch": through})).await;
    assert_eq!(get(&bench, "real.txt"), "two\n");
}
