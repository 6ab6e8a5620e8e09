//! secret, secrets_available, and secrets as variables of a command.

use crate::support::{Bench, SECRET, Setup, until};
use serde_json::json;
use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};
use tools::Access;

fn put(dir: &Path, name: &str, value: &str, mode: u32) {
    // As those who rotate secrets do it: written aside and moved into place.
    let aside = dir.join(format!(".{name}"));
    fs::write(&aside, value).unwrap();
    fs::set_permissions(&aside, fs::Permissions::from_mode(mode)).unwrap();
    fs::rename(aside, dir.join(name)).unwrap();
}

/// One secret from the environment (`TOKEN`), the others from files.
fn bench(files: &[(&str, &str, u32)]) -> (Bench, tempfile::TempDir) {
    let dir = tempfile::TempDir::new().unwrap();
    for (name, value, mode) in files {
        put(dir.path(), name, value, *mode);
    }
    let mut setup = Setup::default();
    setup.settings.secrets_dir = Some(dir.path().to_owned());
    (setup.bench(), dir)
}

#[tokio::test]
async fn names_are_sorted_and_values_given_by_name() {
    let (bench, _dir) = bench(&[
        ("deploy-key", "a very secret deploy key", 0o600),
        ("TOKEN", "the file loses", 0o600),
        ("ignored.txt", "not a name", 0o600),
    ]);
    let client = bench.client_with(Access::ReadOnly);
    let reply = client.call("secrets_available", json!({})).await;
    assert_eq!(reply.all_text(), "TOKEN\ndeploy-key");
    assert_eq!(reply.structured, Some(json!({"names": ["TOKEN", "deploy-key"]})));
    assert_eq!(client.ok("secret", json!({"name": "deploy-key"})).await, "a very secret deploy key");
    assert_eq!(client.ok("secret", json!({"name": "TOKEN"})).await, SECRET, "the variable wins");
    assert_eq!(
        client.err("secret", json!({"name": "NOPE"})).await,
        "unknown secret \"NOPE\"; available: TOKEN, deploy-key"
    );
    assert_eq!(
        client.err("secret", json!({"name": "../etc/passwd"})).await,
        "secret names are made of letters, digits, `_` and `-`, got \"../etc/passwd\""
    );
}

#[tokio::test]
async fn without_secrets_it_says_so() {
    let mut setup = Setup::default();
    setup.settings.secrets.clear();
    let bench = setup.bench();
    let client = bench.client();
    assert_eq!(client.ok("secrets_available", json!({})).await, "no secrets");
    assert_eq!(client.err("secret", json!({"name": "X"})).await, "unknown secret \"X\"; available: none");
}

#[tokio::test]
async fn a_file_that_everybody_can_read_is_refused_but_still_kept_inside() {
    let (bench, _dir) = bench(&[("OPEN", "lying around in the open", 0o644), ("EMPTY", "\n", 0o600)]);
    let client = bench.client();
    assert_eq!(client.ok("secrets_available", json!({})).await, "TOKEN");
    let why = "secret \"OPEN\" cannot be used: its file is open to every user of the machine (mode 644); chmod 600 it";
    assert_eq!(client.err("secret", json!({"name": "OPEN"})).await, why);
    assert_eq!(client.err("Bash", json!({"command": "true", "secrets": ["OPEN"]})).await, why);
    assert_eq!(
        client.err("secret", json!({"name": "EMPTY"})).await,
        "secret \"EMPTY\" cannot be used: its file is empty"
    );
    let echoed = client.ok("Bash", json!({"command": "echo lying around in the open"})).await;
    assert_eq!(echoed, "[REDACTED:secret:OPEN]\n");
}

#[tokio::test]
async fn a_command_gets_a_secret_that_the_model_does_not_see() {
    let (bench, _dir) = bench(&[("deploy-key", "a very secret deploy key", 0o600)]);
    let client = bench.client();
    let command = "echo ${#deploy_key} ${#TOKEN}; echo \"$deploy_key\"; printf %s \"$TOKEN\" | base64";
    let text = client.ok("Bash", json!({"command": command, "secrets": ["deploy-key", "TOKEN"]})).await;
    assert!(text.starts_with("24 28\n[REDACTED:secret:deploy-key]\n[REDACTED:secret:TOKEN]"), "{text}");
    assert!(!text.contains("Y29ycm"), "not in base64 either: {text}");
    // For that command only.
    assert_eq!(client.ok("Bash", json!({"command": "echo ${TOKEN-unset}"})).await, "unset\n");
    let args = json!({"command": "echo \"$TOKEN\"", "secrets": ["TOKEN"], "run_in_background": true});
    client.ok("Bash", args).await;
    let output = until(async || {
        let text = client.ok("BashOutput", json!({"shell_id": "sh1"})).await;
        text.contains("completed").then_some(text)
    })
    .await;
    assert!(output.contains("\n[REDACTED:secret:TOKEN]\n"), "{output}");
    assert_eq!(
        client.err("Bash", json!({"command": "touch ran", "secrets": ["NOPE"]})).await,
        "unknown secret \"NOPE\"; available: TOKEN, deploy-key"
    );
    assert!(!bench.root().join("ran").exists());
}

#[tokio::test]
async fn a_rotated_secret_is_new_at_once_and_the_old_one_stays_inside() {
    let (bench, dir) = bench(&[("KEY", "the first value of it", 0o600)]);
    let client = bench.client();
    assert_eq!(client.ok("secret", json!({"name": "KEY"})).await, "the first value of it");
    put(dir.path(), "KEY", "the second value of it", 0o600);
    put(dir.path(), "NEW", "something new altogether", 0o600);
    assert_eq!(client.ok("secret", json!({"name": "KEY"})).await, "the second value of it");
    assert_eq!(client.ok("secrets_available", json!({})).await, "KEY\nNEW\nTOKEN");
    let command = "echo the first value of it; echo the second value of it; echo something new altogether";
    assert_eq!(
        client.ok("Bash", json!({"command": command})).await,
        "[REDACTED:secret:KEY]\n[REDACTED:secret:KEY]\n[REDACTED:secret:NEW]\n"
    );
    fs::remove_file(dir.path().join("KEY")).unwrap();
    assert!(client.err("secret", json!({"name": "KEY"})).await.starts_with("unknown secret"));
    assert_eq!(
        client.ok("Bash", json!({"command": "echo the second value of it"})).await,
        "[REDACTED:secret:KEY]\n"
    );
}

#[tokio::test]
async fn a_rotation_that_nobody_asked_for_is_noticed_too() {
    let (bench, dir) = bench(&[("KEY", "the first value of it", 0o600)]);
    let client = bench.client();
    put(dir.path(), "KEY", "the second value of it", 0o600);
    let text = client.ok("Bash", json!({"command": "echo the second value of it"})).await;
    assert_eq!(text, "[REDACTED:secret:KEY]\n");
}

#[tokio::test]
async fn an_operator_can_leave_injection_only() {
    let mut setup = Setup::default();
    setup.settings.tools.0 = vec!["-secret".to_owned()];
    let bench = setup.bench();
    let client = bench.client();
    assert!(client.err("secret", json!({"name": "TOKEN"})).await.starts_with("unknown tool \"secret\""));
    assert_eq!(client.ok("secrets_available", json!({})).await, "TOKEN");
    let args = json!({"command": "echo ${#TOKEN}", "secrets": ["TOKEN"]});
    assert_eq!(client.ok("Bash", args).await, "28\n");
}

#[tokio::test]
async fn a_secret_takes_no_variable_that_is_anothers() {
    let (bench, _dir) = bench(&[
        ("A-B", "the value of A-B in full", 0o600),
        ("A_B", "the value of A_B in full", 0o600),
        ("LD_PRELOAD", "the value of a bad name", 0o600),
        ("PATH", "the value of another one", 0o600),
        ("BYTES", "a value with a \0 in it", 0o600),
    ]);
    let client = bench.client();
    for tool in ["Bash", "watch_process"] {
        let told = client.err(tool, json!({"command": "touch ran", "secrets": ["A-B", "A_B"]})).await;
        assert!(told.contains("\"A-B\" and \"A_B\" would both be $A_B"), "{told}");
        for name in ["PATH", "LD_PRELOAD"] {
            let told = client.err(tool, json!({"command": "touch ran", "secrets": [name]})).await;
            assert!(told.contains(&format!("cannot be the variable ${name}")), "{told}");
        }
        let told = client.err(tool, json!({"command": "touch ran", "secrets": ["BYTES"]})).await;
        assert!(told.contains("\"BYTES\" holds a NUL byte") && told.contains("base64"), "{told}");
    }
    assert!(!bench.root().join("ran").exists());
    let twice = json!({"command": "echo ${#A_B}", "secrets": ["A-B", "A-B"]});
    assert_eq!(client.ok("Bash", twice).await, "24\n");
}

/// What was shown in the place of a secret must not take that place.
#[tokio::test(flavor = "multi_thread")]
async fn a_marker_never_overwrites_the_secret_it_stands_for() {
    let bench = Bench::new();
    let client = bench.client();
    let key = "DB_PASSWORD=kX9vQ2mLp7RtZ4wN\n";
    let file = format!("{key}PORT=1\n");
    bench.write(".env", &file);
    bench.write("app.py", format!("def f():\n    return 1\n\n\nTOKEN = \"{SECRET}\"\n"));
    let shown = client.ok("Read", json!({"file_path": ".env"})).await;
    assert!(shown.contains("DB_PASSWORD=[REDACTED:assignment]"), "{shown}");
    client.ok("Read", json!({"file_path": "app.py"})).await;

    let marked = "DB_PASSWORD=[REDACTED:assignment]";
    let told = "is shown in the place of a secret";
    let whole = json!({"file_path": ".env", "content": format!("{marked}\nPORT=2\n")});
    let added =
        json!({"file_path": ".env", "old_string": "PORT=1", "new_string": format!("PORT=2\n{marked}")});
    let looked_for =
        json!({"file_path": ".env", "old_string": format!("{marked}\nPORT=1"), "new_string": "PORT=2"});
    let patch = |hunk: &str| json!({"patch": format!("--- a/.env\n+++ b/.env\n{hunk}")});
    let putting = patch(&format!("@@ -2 +2,2 @@\n-PORT=1\n+{marked}\n+PORT=2\n"));
    let around = patch(&format!("@@ -1,2 +1,2 @@\n {marked}\n-PORT=1\n+PORT=2\n"));
    let body = json!({"file_path": "app.py", "function_name": "f", "new_body": "    return \"[REDACTED:secret:TOKEN]\""});
    for (tool, args) in [
        ("Write", whole),
        ("Edit", added),
        ("Edit", looked_for),
        ("apply_patch", putting),
        ("apply_patch", around),
        ("edit_function_body", body),
    ] {
        let said = client.err(tool, args).await;
        assert!(said.contains(told) && said.contains("only the other"), "{tool}: {said}");
    }
    assert_eq!(std::fs::read_to_string(bench.root().join(".env")).unwrap(), file);
    client.ok("Edit", json!({"file_path": ".env", "old_string": "PORT=1", "new_string": "PORT=2"})).await;
    // Where no secret is hidden, the text is a text like any other.
    let text = "# a marker looks like [REDACTED:assignment]\n";
    client.ok("Write", json!({"file_path": "notes.md", "content": text})).await;
    client
        .ok(
            "Edit",
            json!({"file_path": "notes.md", "old_string": "# a", "new_string": "# [REDACTED:assignment]"}),
        )
        .await;
    assert_eq!(std::fs::read_to_string(bench.root().join(".env")).unwrap(), format!("{key}PORT=2\n"));
}
