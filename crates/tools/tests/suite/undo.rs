//! Undo through the pipeline: every way to change a file goes back.

use crate::support::{Bench, Client, Setup, until};
use serde_json::json;
use std::{fs, path::Path};
use tools::Access;

fn read(bench: &Bench, path: &str) -> String {
    fs::read_to_string(bench.root().join(path)).unwrap_or_else(|_| "gone".to_owned())
}

#[tokio::test]
async fn files_patches_and_commands_go_back_call_by_call() {
    let bench = Bench::new();
    let client = bench.client();
    bench.write("a.txt", "one\n");
    bench.write(".gitignore", "*.log\n");
    client.ok("Read", json!({"file_path": "a.txt"})).await;
    client.ok("Edit", json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"})).await;
    client.ok("Bash", json!({"command": "true"})).await;
    client.ok("Write", json!({"file_path": "new/b.txt", "content": "b"})).await;
    let patch = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-two\n+three\n";
    client.ok("apply_patch", json!({"patch": patch})).await;
    client.ok("Bash", json!({"command": "rm -r new; mv a.txt c.txt; echo x > x.log; chmod +x c.txt"})).await;

    let text = client.ok("undo", json!({})).await;
    let (first, rest) = text.split_once('\n').unwrap();
    assert_eq!(
        first,
        "undid Bash: rm -r new; mv a.txt c.txt; echo x > x.log; chmod +x c.txt (3 file(s) changed):"
    );
    assert!(rest.starts_with("created a.txt\ndeleted c.txt\ncreated new/b.txt\n"), "{rest}");
    let before = rest.rsplit_once(' ').unwrap().1;
    assert!(rest.contains("to take this undo back: snapshot_restore auto-"), "{rest}");
    assert_eq!((read(&bench, "a.txt"), read(&bench, "new/b.txt")), ("three\n".into(), "b".into()));
    assert_eq!(read(&bench, "x.log"), "x\n", "ignored files stay");

    assert!(
        client
            .ok("undo", json!({}))
            .await
            .starts_with("undid apply_patch (1 file(s) changed):\nchanged a.txt")
    );
    // What was put back counts as read: the agent may go on from there.
    client.ok("Edit", json!({"file_path": "a.txt", "old_string": "two", "new_string": "2"})).await;
    assert!(client.ok("undo", json!({})).await.starts_with("undid Edit: a.txt (1"));
    assert!(client.ok("undo", json!({})).await.starts_with("undid Write: new/b.txt (1"));
    assert!(!bench.root().join("new").exists());
    assert!(client.ok("undo", json!({})).await.starts_with("undid Edit: a.txt (1"));
    assert_eq!(read(&bench, "a.txt"), "one\n");
    assert!(client.err("undo", json!({})).await.starts_with("nothing to undo"));
    client.ok("snapshot_restore", json!({"name": before})).await;
    assert_eq!((read(&bench, "c.txt"), read(&bench, "a.txt")), ("three\n".into(), "gone".into()));
}

#[tokio::test]
async fn background_shells_and_other_sessions_are_told_apart() {
    let bench = Bench::new();
    let (one, two) = (bench.client(), Client { session: bench.host.session("other", Access::Full) });
    bench.write("f", "0");
    let command = "until [ -e go ]; do sleep 0.02; done; echo shell > f; echo done > finished";
    let started = one.ok("Bash", json!({"command": command, "run_in_background": true})).await;
    let shell = started.lines().next().unwrap().trim_start_matches("shell_id: ").to_owned();
    two.ok("Write", json!({"file_path": "theirs", "content": "t"})).await;
    fs::write(bench.root().join("go"), "").unwrap();
    until(async || {
        let output = one.ok("BashOutput", json!({"shell_id": shell})).await;
        output.contains("completed").then_some(())
    })
    .await;
    let text = until(async || {
        // The end of a shell is recorded a moment after it is seen.
        let reply = one.call("undo", json!({})).await;
        (!reply.is_error).then(|| reply.all_text())
    })
    .await;
    assert!(text.contains("changed f") && text.contains("deleted finished"), "{text}");
    assert_eq!((read(&bench, "f"), read(&bench, "theirs")), ("0".into(), "t".into()));
    assert!(one.err("undo", json!({})).await.contains("by Write of session other"));
    assert!(one.ok("undo", json!({"any_session": true})).await.starts_with("undid Write: theirs"));
}

#[tokio::test]
async fn secrets_in_commands_are_not_in_the_history() {
    let bench = Bench::new();
    let client = bench.client();
    let command = format!("echo {} > f", crate::support::SECRET);
    client.ok("Bash", json!({"command": command})).await;
    let text = client.ok("undo", json!({})).await;
    assert!(text.starts_with("undid Bash: echo [REDACTED"), "{text}");
    let found = std::process::Command::new("grep")
        .args(["-r", crate::support::SECRET, "."])
        .current_dir(bench.dir.path().join(".state"))
        .output()
        .unwrap();
    assert!(found.stdout.is_empty(), "{}", String::from_utf8_lossy(&found.stdout));
}

#[tokio::test]
async fn an_operator_can_switch_it_off() {
    let mut setup = Setup::default();
    setup.settings.undo.enabled = false;
    setup.settings.hide_secrets = true;
    let bench = setup.bench();
    let client = bench.client();
    client.ok("Bash", json!({"command": "echo 1 > f"})).await;
    client.ok("Write", json!({"file_path": "g", "content": "1"})).await;
    assert!(client.err("undo", json!({})).await.starts_with("unknown tool"));
    assert!(!bench.dir.path().join(".state").exists(), "nothing is kept");
    // The same for the value of a secret: commands can still have it.
    assert!(client.err("secret", json!({"name": "TOKEN"})).await.starts_with("unknown tool"));
    assert_eq!(client.ok("secrets_available", json!({})).await, "TOKEN");
    let used = client.ok("Bash", json!({"command": "echo ${#TOKEN}", "secrets": ["TOKEN"]})).await;
    assert_eq!(used.trim(), crate::support::SECRET.len().to_string());
}

#[tokio::test]
async fn a_store_that_cannot_be_written_stops_nobody() {
    let bench = Bench::new();
    let client = bench.client();
    let state = bench.dir.path().join(".state");
    fs::write(&state, "a file where a folder should be").unwrap();
    client.ok("Bash", json!({"command": "echo 1 > f"})).await;
    client.ok("Write", json!({"file_path": "g", "content": "1"})).await;
    assert_eq!((read(&bench, "f"), read(&bench, "g")), ("1\n".into(), "1".into()));
    let why = client.err("undo", json!({})).await;
    assert!(why.contains("check the disk's free space and permissions"), "{why}");
    assert!(Path::new(&state).is_file());
}

/// Of an ignored file nothing is kept but that a call changed it: no reason to take back the call before it.
#[tokio::test]
async fn a_patch_of_an_ignored_file_is_not_passed_over() {
    let bench = Bench::new();
    let client = bench.client();
    bench.write(".gitignore", "*.log\n");
    bench.write("a.txt", "one\n");
    let patch = |name: &str, old: &str, new: &str| json!({"patch": format!("--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-{old}\n+{new}\n")});
    let new = json!({"patch": "--- /dev/null\n+++ b/x.log\n@@ -0,0 +1 @@\n+one\n"});
    client.ok("Read", json!({"file_path": "a.txt"})).await;
    client.ok("apply_patch", patch("a.txt", "one", "two")).await;
    client.ok("apply_patch", new).await;
    client.ok("apply_patch", patch("x.log", "one", "two")).await;
    let both = [patch("a.txt", "two", "three"), patch("x.log", "two", "three")];
    let both: String = both.iter().filter_map(|patch| patch["patch"].as_str()).collect();
    client.ok("apply_patch", json!({"patch": both})).await;

    for (changed, text) in [(1, "two\n"), (0, "two\n"), (0, "two\n"), (1, "one\n")] {
        let reply = client.ok("undo", json!({})).await;
        assert!(reply.starts_with(&format!("undid apply_patch ({changed} file(s) changed):")), "{reply}");
        assert_eq!(reply.contains("is not kept for undo: x.log"), text == "two\n", "{reply}");
        assert_eq!((read(&bench, "a.txt").as_str(), read(&bench, "x.log").as_str()), (text, "three\n"));
    }
    assert!(client.err("undo", json!({})).await.starts_with("nothing to undo"));
}
