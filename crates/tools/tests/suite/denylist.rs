//! The denylist stands before every way to start a command.

use crate::support::{Bench, Setup};
use serde_json::json;

#[tokio::test]
async fn a_refused_command_does_not_start() {
    let bench = Bench::new();
    let client = bench.client();
    for background in [false, true] {
        let command = json!({"command": "touch made && sudo ls", "run_in_background": background});
        let text = client.err("Bash", command).await;
        assert!(text.contains("`sudo`"), "{text}");
    }
    assert!(client.err("watch_process", json!({"command": "sudo ls"})).await.contains("`sudo`"));
    assert!(!bench.root().join("made").exists());
    assert_eq!(client.ok("Bash", json!({"command": "echo \"don't sudo\""})).await, "don't sudo\n");
}

#[tokio::test]
async fn operators_replace_the_list() {
    let mut setup = Setup::default();
    setup.settings.denylist = Some(vec!["touch".to_owned()]);
    let bench = setup.bench();
    let client = bench.client();
    assert!(client.err("Bash", json!({"command": "touch made"})).await.contains("`touch`"));
    assert!(client.ok("Bash", json!({"command": "mount --version"})).await.contains("mount"));
}
