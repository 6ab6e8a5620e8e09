//! What a server leaves on the machine: nothing, and what a killed one left goes with the next.

use crate::support::{eventually, launch, plain, printed};
use serde_json::json;
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};
use testkit::{Launch, Workspace};

/// A workspace with a repository, and a folder for the server's temporary files.
struct Place {
    workspace: Workspace,
    tmp: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let workspace = Workspace::with(&[("a.txt", "a\n")]);
        let made = Command::new("git").arg("init").arg("-q").arg(workspace.root()).status().unwrap();
        assert!(made.success());
        Self { workspace, tmp: tempfile::tempdir().unwrap() }
    }

    fn launch(&self) -> Launch {
        plain(&self.workspace).env("TMPDIR", self.tmp.path())
    }

    /// What there is of a server with this process id.
    fn left(&self, pid: u32) -> Vec<String> {
        let mut left: Vec<String> = names(self.tmp.path());
        left.retain(|name| name.starts_with("codegen-sandbox-tmp."));
        for name in ["commondir", "config.worktree"] {
            left.extend(fs::metadata(self.workspace.path(".git").join(name)).ok().map(|_| name.to_owned()));
        }
        groups(Path::new("/sys/fs/cgroup"), &format!("codegen-sandbox-{pid}-"), &mut left);
        left
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn groups(folder: &Path, prefix: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if entry.file_name().to_string_lossy().starts_with(prefix) {
                found.push(entry.path().display().to_string());
            }
            groups(&entry.path(), prefix, found);
        }
    }
}

#[test]
fn every_orderly_end_leaves_nothing() {
    let place = Place::new();
    let mut call = place.launch().command("call");
    let call = call.args(["Bash", "--command", "echo hi > /tmp/x"]).stdout(Stdio::null()).spawn().unwrap();
    let pid = call.id();
    assert!(call.wait_with_output().unwrap().status.success());
    assert_eq!(place.left(pid), [""; 0], "call");

    let mut client = place.launch().stdio();
    client.initialize();
    client.call("Bash", json!({"command": "true"})).ok();
    let pid = client.process().pid();
    assert!(place.left(pid).contains(&"commondir".to_owned()), "in use");
    client.close();
    client.process().wait();
    assert_eq!(place.left(pid), [""; 0], "the client left");

    let served = place.launch().serve();
    let mut client = served.http();
    client.initialize();
    client.call("Bash", json!({"command": "true"})).ok();
    served.process().signal("TERM");
    served.process().wait();
    assert_eq!(place.left(served.process().pid()), [""; 0], "SIGTERM");
}

#[test]
fn the_next_start_removes_what_a_killed_server_left() {
    let place = Place::new();
    let mut killed = place.launch().stdio();
    killed.initialize();
    killed.call("Bash", json!({"command": "true"})).ok();
    let pid = killed.process().pid();
    killed.process().kill();
    killed.process().wait();
    assert!(!place.left(pid).is_empty());
    let mut next = place.launch().stdio();
    next.initialize();
    next.call("Bash", json!({"command": "true"})).ok();
    // Its own folder is there, and its own placeholders.
    eventually("the folder of the killed one is gone", || names(place.tmp.path()).len() == 1);
    let own = next.process().pid();
    next.close();
    next.process().wait();
    for pid in [pid, own] {
        assert_eq!(place.left(pid), [""; 0]);
    }
}

#[test]
fn what_a_long_call_did_before_its_server_was_killed_can_be_undone() {
    let place = Place::new();
    let mut killed = place.launch().stdio();
    killed.initialize();
    let args = json!({"command": "sleep 5; echo new > a.txt; echo done > b.txt; sleep 60"});
    killed.start_call("Bash", args);
    eventually("the command has come so far", || place.workspace.path("b.txt").exists());
    killed.process().kill();
    killed.process().wait();
    let mut next = place.launch().stdio();
    next.initialize();
    let undone = next.call("undo", json!({})).ok();
    assert!(undone.contains("a.txt") && undone.contains("b.txt"), "{undone}");
    assert_eq!(fs::read_to_string(place.workspace.path("a.txt")).unwrap(), "a\n");
    assert!(!place.workspace.path("b.txt").exists());
}

#[test]
fn a_hangup_leaves_a_sandbox_alone_that_did_not_change() {
    let place = Place::new();
    let config = place.tmp.path().join("runtime.yaml");
    let write = |more: &str| {
        let text = format!(
            "apiVersion: codegen-sandbox/v1\nkind: RuntimeConfig\nspec:\n  sandboxes:\n    locked: {{ mode: isolated, \
             network: loopback }}\n  tools: {{ default_sandbox: locked{more} }}\n"
        );
        fs::write(&config, text).unwrap();
    };
    write("");
    let mut client =
        launch(&place.workspace).env("TMPDIR", place.tmp.path()).arg("--config").arg(&config).stdio();
    client.initialize();
    let server = "import socket\ns = socket.create_server(('127.0.0.1', 8766))\nopen('/tmp/kept', 'w').write('kept')\n\
                  print('up', flush=True)\nwhile True:\n    s.accept()[0].sendall(b'hello')\n";
    fs::write(place.workspace.path("server.py"), server).unwrap();
    let started =
        client.call("Bash", json!({"command": "python3 server.py", "run_in_background": true})).ok();
    let ask = "until test -e /tmp/kept; do sleep 0.1; done; cat /tmp/kept; \
               python3 -c \"import socket; print(socket.create_connection(('127.0.0.1', 8766), 9).recv(9).decode())\"";
    let told = client.call("Bash", json!({"command": ask})).ok();
    assert!(told.contains("kepthello"), "{started}: {told}");
    write(", denylist: [dd]");
    client.process().signal("HUP");
    printed(client.process(), "the configuration was read again");
    let told = client.call("Bash", json!({"command": ask, "timeout": 20})).ok();
    assert!(told.contains("kepthello"), "{told}");
}
