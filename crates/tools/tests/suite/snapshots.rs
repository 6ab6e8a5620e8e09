//! Snapshots through the pipeline.

use crate::support::Setup;
use serde_json::json;
use std::fs;

#[tokio::test]
async fn a_snapshot_is_made_listed_compared_restored_and_forgotten() {
    let state = tempfile::tempdir().unwrap();
    let mut setup = Setup::default();
    setup.settings.state_dir = state.path().to_owned();
    let bench = setup.bench();
    let client = bench.client();
    let file = bench.root().join("a.txt");
    fs::write(&file, "one\n").unwrap();
    assert_eq!(client.ok("snapshot_list", json!({})).await, "no snapshots");
    let description = "it\u{0} \u{1b}works\tas\nasked";
    let created = client.ok("snapshot_create", json!({"name": "good", "description": description})).await;
    assert!(created.starts_with("snapshot good created: "), "{created}");
    let listed = client.ok("snapshot_list", json!({})).await;
    assert!(listed.starts_with("good\t") && listed.ends_with("\tit works as asked"), "{listed}");
    assert_eq!(client.ok("snapshot_diff", json!({"name": "good"})).await, "no differences");

    fs::write(&file, "two\n").unwrap();
    fs::write(bench.root().join("new.txt"), "new\n").unwrap();
    let diff = client.ok("snapshot_diff", json!({"name": "good", "path": "a.txt"})).await;
    assert!(diff.contains("-one\n+two\n") && !diff.contains("new.txt"), "{diff}");
    assert_eq!(
        client.ok("snapshot_restore", json!({"name": "good"})).await,
        "restored snapshot good (2 file(s) changed):\nchanged a.txt\ndeleted new.txt"
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "one\n");
    assert_eq!(
        client.err("snapshot_restore", json!({"name": "bad"})).await,
        "no snapshot named \"bad\"; there are: good; of before and after calls: auto-1 to auto-3"
    );
    client.ok("snapshot_delete", json!({"name": "good"})).await;
    assert_eq!(client.ok("snapshot_list", json!({})).await, "no snapshots");
    let inside: Vec<_> =
        fs::read_dir(bench.root()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(inside, ["a.txt"], "nothing of ours stays in the workspace");
    // Nor does it leave anything for the next one to tidy up.
    client.ok("snapshot_create", json!({"name": "last"})).await;
    fs::write(&file, "three\n").unwrap();
    client.ok("snapshot_restore", json!({"name": "last"})).await;
    bench.host.shut_down().await;
    let stores = fs::read_dir(state.path().join("snapshots")).unwrap();
    let stores: Vec<_> = stores.map(|store| store.unwrap().path()).collect();
    assert_eq!(stores.len(), 1);
    for entry in fs::read_dir(&stores[0]).unwrap() {
        let name = entry.unwrap().file_name();
        assert!(!name.to_string_lossy().starts_with("tmp_"), "{name:?}");
    }
}

#[tokio::test]
async fn a_comparison_of_what_is_nowhere_is_not_said_to_find_no_differences() {
    let state = tempfile::tempdir().unwrap();
    let mut setup = Setup::default();
    setup.settings.state_dir = state.path().to_owned();
    let bench = setup.bench();
    let client = bench.client();
    fs::create_dir_all(bench.root().join("empty/inner")).unwrap();
    for (name, text) in [(".gitignore", "*.log\n"), ("a.txt", "one\n"), ("gone.txt", "x\n"), ("x.log", "x\n")]
    {
        fs::write(bench.root().join(name), text).unwrap();
    }
    client.ok("snapshot_create", json!({"name": "s"})).await;
    fs::remove_file(bench.root().join("gone.txt")).unwrap();
    for (path, why) in [
        ("a.tx", "a.tx is neither in snapshot s nor in the workspace"),
        ("src/main.rs", "src/main.rs is neither in snapshot s nor in the workspace"),
        ("x.log", "x.log is in no snapshot, so that it cannot be compared: it is ignored"),
    ] {
        let said = client.err("snapshot_diff", json!({"name": "s", "path": path})).await;
        assert!(said.starts_with(why), "{path}: {said}");
    }
    for path in ["a.txt", "empty", "empty/inner", "."] {
        let said = client.ok("snapshot_diff", json!({"name": "s", "path": path})).await;
        assert_eq!(said == "no differences", path != ".", "{path}: {said}");
    }
    let said = client.ok("snapshot_diff", json!({"name": "s", "path": "gone.txt"})).await;
    assert!(said.starts_with("gone.txt: deleted"), "{said}");
}

#[tokio::test]
async fn a_restore_of_very_many_files_is_answered_with_as_many_as_there_is_room_for() {
    let state = tempfile::tempdir().unwrap();
    let mut setup = Setup::default();
    setup.settings.state_dir = state.path().to_owned();
    let bench = setup.bench();
    let client = bench.client();
    client.ok("snapshot_create", json!({"name": "s"})).await;
    for n in 0..3000 {
        fs::write(bench.root().join(format!("{n}{}", "-".repeat(150))), "").unwrap();
    }
    let reply = client.call("snapshot_restore", json!({"name": "s"})).await;
    let text = reply.all_text();
    assert!(text.starts_with("restored snapshot s (3000 file(s) changed):"), "{text}");
    assert!(text.contains("\n[2800 more]\n") && text.contains("item(s) left out"), "{text}");
    let files = reply.structured.unwrap()["files"].as_array().unwrap().len();
    assert!((1000..3000).contains(&files), "{files}");
}
