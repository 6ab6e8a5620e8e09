//! Caps, networks, configuration and remarks of mode `isolated`.

use crate::isolated::{Host, build};
use sandbox::{
    EnvEntry, FactoryError, Outcome, Process, Request, Response, Sandbox, StartRequest, Stdio,
    isolated::{self, Caps, GUARANTEES, Guarantee, Isolated, Kernel, Network, Tier},
};
use serde_json::{Map, Value, json};
use std::{path::Path, sync::Arc, time::Duration};
use tokio::io::AsyncReadExt as _;

const TIERS: [Tier; 2] = [Tier::Namespaces, Tier::Landlock];

async fn sh(sandbox: &dyn Sandbox, script: &str) -> Response {
    let mut request = Request::new("sh").args(["-c", script]);
    request.timeout = Duration::from_secs(50);
    sandbox.spawn(request).await
}

fn capped(tier: Tier, workspace: &Path, caps: Caps) -> Isolated {
    Isolated::builder("capped").workspace(workspace).tier(tier).caps(caps).build().unwrap()
}

/// Takes memory in a grandchild, in steps, so that it is seen growing.
const HOG: &str = "python3 -c '
import subprocess, sys
subprocess.run([sys.executable, \"-c\", \"import time\\nx=[]\\nfor i in range(60): x.append(bytearray(10<<20)); time.sleep(0.02)\\ntime.sleep(30)\"], check=True)
' & wait $!";

#[tokio::test]
async fn a_grandchild_over_the_memory_cap_is_named() {
    let place = tempfile::tempdir().unwrap();
    for tier in TIERS {
        let sandbox = capped(tier, place.path(), Caps { memory: Some(300 << 20), ..Caps::default() });
        let response = sh(&sandbox, HOG).await;
        assert_eq!(response.outcome, Outcome::OutOfMemory { limit: Some(300 << 20) }, "{tier}: {response:?}");
        assert_eq!(response.outcome.to_string(), "killed: used more than 300 MiB");
        let survived = sh(&sandbox, &format!("{HOG}; true")).await;
        // A watchdog ends the whole command, a control group the child alone.
        let said = survived.notes.iter().any(|note| note.contains("killed: used more than 300 MiB"));
        assert!(said || !survived.outcome.success(), "{tier}: {survived:?}");
        // The same supervisor, or another, serves on.
        assert!(sh(&sandbox, "true").await.outcome.success());
    }
}

/// Where a look enforces the caps, children that end without a pause must not put it off.
#[tokio::test]
async fn a_stream_of_ending_children_hides_nobody() {
    let place = tempfile::tempdir().unwrap();
    let storm = "(while :; do (: &) ; done) & python3 -c '
import subprocess, sys
hog = \"x = bytearray(40 << 20)\\nimport time\\ntime.sleep(25)\"
sys.exit(max(abs(each.wait()) for each in [subprocess.Popen([sys.executable, \"-c\", hog]) for i in range(4)]))
'";
    for tier in TIERS {
        let sandbox = capped(tier, place.path(), Caps { memory: Some(64 << 20), ..Caps::default() });
        let response = sh(&sandbox, storm).await;
        assert_eq!(response.outcome, Outcome::OutOfMemory { limit: Some(64 << 20) }, "{tier}: {response:?}");
    }
}

#[tokio::test]
async fn many_processes_that_share_memory_are_not_over_the_cap() {
    let place = tempfile::tempdir().unwrap();
    let script = "python3 -c '
import os, time
x = bytearray(100 << 20)
for i in range(8):
    if os.fork() == 0:
        time.sleep(1); os._exit(0)
for i in range(8): os.wait()
'";
    for tier in TIERS {
        let sandbox = capped(tier, place.path(), Caps { memory: Some(400 << 20), ..Caps::default() });
        let response = sh(&sandbox, script).await;
        assert_eq!(response.outcome, Outcome::Exited(0), "{tier}: {response:?}");
    }
}

#[tokio::test]
async fn a_fork_bomb_ends_at_the_cap() {
    // With a cap on memory besides, which a control group may enforce.
    const BOTH: Caps = Caps { pids: Some(400), memory: Some(4 << 30), cpu_seconds: None, file_size: None };
    let place = tempfile::tempdir().unwrap();
    let script = "python3 -c '
import os, time
n = 0
try:
    while n < 3000:
        if os.fork() == 0:
            time.sleep(30); os._exit(0)
        n += 1
except OSError as error:
    print(\"stopped at\", n, error, flush=True)
    os._exit(3)
time.sleep(30)
'";
    for tier in TIERS {
        let sandbox = capped(tier, place.path(), BOTH);
        let response = sh(&sandbox, script).await;
        let stopped = match &response.outcome {
            // The kernel said no to the fork, or the watchdog ended it.
            Outcome::Exited(3) => String::from_utf8_lossy(&response.stdout).contains("stopped at"),
            Outcome::Signaled(9) => response.notes.iter().any(|note| note.contains("`pids`")),
            _ => false,
        };
        assert!(stopped, "{tier}: {response:?}");
    }
}

/// Threads count, and numbers are not used up by those who have ended.
#[tokio::test]
async fn a_low_cap_on_processes_holds_and_lets_scripts_run() {
    let place = tempfile::tempdir().unwrap();
    let threads = "import threading, time
for i in range(60): threading.Thread(target=time.sleep, args=(40,), daemon=True).start()
time.sleep(40)";
    for tier in TIERS {
        let few = capped(tier, place.path(), Caps { pids: Some(20), ..Caps::default() });
        let forks = "for i in $(seq 60); do sleep 40 & done; wait";
        let threads = format!("python3 -c '{threads}'");
        for (kind, script) in [("processes", forks), ("threads", &threads)] {
            let response = sh(&few, script).await;
            let named = response.notes.iter().any(|note| note.contains("`pids`"));
            assert!(response.outcome == Outcome::Signaled(9) && named, "{tier}, {kind}: {response:?}");
        }
        let some = capped(tier, place.path(), Caps { pids: Some(64), ..Caps::default() });
        let one_by_one =
            "i=0; while [ $i -lt 1000 ]; do (exit 7); [ $? = 7 ] || exit 1; i=$((i+1)); done; echo $i";
        let response = sh(&some, one_by_one).await;
        assert_eq!(response.stdout, b"1000\n", "{tier}: {response:?}");
    }
}

#[tokio::test]
async fn processor_time_and_file_size_are_capped() {
    let place = tempfile::tempdir().unwrap();
    for tier in TIERS {
        let caps = Caps { cpu_seconds: Some(1), file_size: Some(1 << 20), ..Caps::default() };
        let sandbox = capped(tier, place.path(), caps);
        let spin = sh(&sandbox, "while :; do :; done").await;
        assert!(matches!(spin.outcome, Outcome::Signaled(_)), "{tier}: {spin:?}");
        // None of these spends a second, all of them together do: one after another, and at once.
        let some = "python3 -c 'import time\nwhile time.process_time() < 0.4: pass'";
        for many in [
            format!("for i in 1 2 3 4 5; do {some}; done; echo done"),
            format!("{some} & ").repeat(5) + "wait; echo done",
        ] {
            let together = sh(&sandbox, &many).await;
            let said =
                together.notes.iter().any(|note| note.contains("more processor time than `cpu` allows"));
            assert!(said && together.stdout.is_empty(), "{tier}: {together:?}");
        }
        // What those before it spent is not a command's.
        let response = sh(&sandbox, "echo fine").await;
        assert_eq!(response.stdout, b"fine\n", "{tier}: {response:?}");
        let large = sh(&sandbox, "head -c 3000000 /dev/zero > large").await;
        assert!(!large.outcome.success(), "{tier}: {large:?}");
        assert!(std::fs::metadata(place.path().join("large")).unwrap().len() <= 1 << 20);
    }
}

/// A server that says hello to whoever comes, as long as this lives.
async fn greeter(sandbox: &Isolated) -> Process {
    let script = "
import socket
s = socket.create_server(('127.0.0.1', 8765))
print('listening', flush=True)
while True:
    c, _ = s.accept(); c.sendall(b'hello'); c.close()
";
    let request = StartRequest {
        command: "python3".into(),
        args: vec!["-c".into(), script.into()],
        stdio: Stdio::Merged,
        ..StartRequest::default()
    };
    let mut server = sandbox.streaming().unwrap().start(request).await.unwrap();
    server.stdout.read_exact(&mut [0; 9]).await.unwrap();
    server
}

#[tokio::test]
async fn a_server_of_one_call_answers_the_next_on_a_shared_loopback_only() {
    let place = tempfile::tempdir().unwrap();
    let ask = r#"python3 -c "import socket; s=socket.create_connection(('127.0.0.1', 8765), 5); print(s.recv(10).decode())""#;
    for (network, reached) in [(Network::Loopback, true), (Network::None, false)] {
        let builder =
            Isolated::builder("net").workspace(place.path()).tier(Tier::Namespaces).network(network);
        let sandbox = builder.build().unwrap();
        let _server = greeter(&sandbox).await;
        let response = sh(&sandbox, ask).await;
        assert_eq!(response.outcome.success(), reached, "{}: {response:?}", network.name());
    }
}

/// What makes a new plan must not take the loopback from those who share it.
#[tokio::test]
async fn a_shared_loopback_outlives_a_change_of_the_plan() {
    let host = Host::new();
    let sandbox = host.builder().tier(Tier::Namespaces).network(Network::Loopback).build().unwrap();
    let _server = greeter(&sandbox).await;
    std::fs::write(host.home().join(".vault-token"), "very-secret\n").unwrap();
    // As long as a plan is trusted.
    tokio::time::sleep(Duration::from_millis(2100)).await;
    let ask = r#"cat ~/.vault-token; python3 -c "import socket; print(socket.create_connection(('127.0.0.1', 8765), 9).recv(10).decode())""#;
    let response = sh(&sandbox, ask).await;
    assert_eq!(response.stdout, b"hello\n", "{response:?}");
}

fn config(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

fn factory_error(workspace: &Path, value: Value) -> FactoryError {
    let factory = isolated::factory(Isolated::builder("").workspace(workspace));
    match factory.build("locked", &config(value)) {
        Err(error) => error,
        Ok(_) => panic!("built"),
    }
}

#[tokio::test]
async fn the_configuration_block() {
    let host = Host::new();
    let factory = isolated::factory(host.builder());
    std::fs::create_dir(host.home().join("extra")).unwrap();
    let sandbox = factory
        .build(
            "locked",
            &config(json!({
                "network": "host", "memory": "2GiB", "pids": 500, "cpu": "5m", "file_size": "1GB",
                "read": ["~/.aws"], "write": ["~/extra"], "env": ["GITHUB_TOKEN"],
                "require": ["write-fence", "syscalls"],
            })),
        )
        .unwrap();
    assert_eq!(sandbox.name(), "locked");
    let script = "cat ~/.aws/credentials && touch ~/extra/x && echo $GITHUB_TOKEN && ! cat ~/.ssh/id_rsa 2>/dev/null | grep secret";
    let response = sh(&*sandbox, script).await;
    let text = String::from_utf8_lossy(&response.stdout).into_owned();
    assert!(response.outcome.success() && text.ends_with("very-secret\n"), "{response:?}");
    assert!(host.home().join("extra/x").exists());
}

#[test]
fn bad_configuration_names_the_key() {
    let place = tempfile::tempdir().unwrap();
    for (value, expected) in [
        (
            json!({"netwrok": "none"}),
            "unknown key \"netwrok\"; known: cpu, env, file_size, memory, network, pids, read, require, write",
        ),
        (json!({"network": "internet"}), "network: expected none, loopback or host"),
        (json!({"memory": "lots"}), "memory: \"lots\" is no size; write for example 2GiB, 512MiB or 1000000"),
        (json!({"pids": 0}), "pids: expected a whole number above 0"),
        (json!({"cpu": "long"}), "cpu: \"long\" is no time; write for example 90s, 5m or 1h"),
        (json!({"write": ["/no/such/place"]}), "write: /no/such/place does not exist; make it first"),
        (
            json!({"write": ["/"]}),
            "write: / as a whole cannot be made writable: nothing would be fenced in; name the folders below it, or use mode direct",
        ),
        (json!({"read": "x"}), "read: expected a list of strings"),
    ] {
        assert_eq!(factory_error(place.path(), value).to_string(), expected);
    }
    let unknown = factory_error(place.path(), json!({"require": ["magic"]})).to_string();
    assert!(unknown.starts_with("require: unknown guarantee \"magic\"; known: write-fence, "), "{unknown}");
}

#[test]
fn a_required_guarantee_that_does_not_hold_is_an_error() {
    let place = tempfile::tempdir().unwrap();
    let weak = || Isolated::builder("weak").workspace(place.path()).tier(Tier::Landlock);
    for guarantee in GUARANTEES {
        let built = weak().require(guarantee).build();
        match guarantee.check(Tier::Landlock, Kernel::running()) {
            Ok(()) => assert!(built.is_ok(), "{}", guarantee.name),
            Err(why) => {
                let Err(error) = built else { panic!("{} was promised", guarantee.name) };
                assert!(
                    error.to_string().contains(guarantee.name) && error.to_string().contains(&why),
                    "{error}"
                );
            }
        }
    }
    let Err(error) = weak().network(Network::None).build() else { panic!("a network that is not there") };
    assert!(error.to_string().contains("`network: none` needs a network namespace"), "{error}");
    assert!(Guarantee::named("private-network").is_some());
}

#[tokio::test]
async fn denials_are_explained() {
    let host = Host::new();
    for tier in TIERS {
        let sandbox = host.builder().tier(tier).build().unwrap();
        let summary = sandbox.summary();
        assert!(summary.contains(&tier.to_string()), "{summary}");
        for (script, remark) in [
            ("echo x > ~/.bashrc", ".bashrc is read-only inside; add its folder to `write` to allow it"),
            ("cat ~/.ssh/id_rsa", ".ssh/id_rsa is hidden (credentials); add it to `read` to allow it"),
            ("python3 -c 'open(\"'$HOME'/x\", \"w\")'", "/x is read-only inside"),
            ("unshare -U true", "this system call is refused inside"),
        ] {
            let response = sh(&sandbox, script).await;
            assert!(!response.outcome.success(), "{tier}, {script}: {response:?}");
            assert_eq!(response.notes.first(), Some(&summary), "the tier is named");
            assert!(
                response.notes.iter().any(|note| note.contains(remark)),
                "{tier}, {script}: {response:?}"
            );
        }
        for script in [
            "cat /no/such/file",
            "exit 3",
            "cat nothing",
            "chmod 000 notes; false",
            "true",
            "cat ~/.ssh/no-such-key",
            "echo 'ProcessLookupError: [Errno 3] No such process'; exit 1",
            "echo 'No such process (os error 3)'; exit 1",
        ] {
            let response = sh(&sandbox, script).await;
            assert_eq!(
                response.notes,
                std::slice::from_ref(&summary),
                "{tier}, {script}: not the sandbox's doing"
            );
        }
        let process = {
            let request = StartRequest {
                command: "sh".into(),
                args: vec!["-c".into(), "touch ~/planted".into()],
                stdio: Stdio::Merged,
                ..StartRequest::default()
            };
            let mut process = sandbox.streaming().unwrap().start(request).await.unwrap();
            process.stdout.read_to_end(&mut Vec::new()).await.unwrap();
            process.control.wait().await;
            process
        };
        let notes = process.control.notes();
        assert!(
            notes.iter().any(|note| note.contains("planted is read-only inside")),
            "{tier}, live: {notes:?}"
        );
    }
    let sandbox = host.builder().tier(Tier::Namespaces).network(Network::None).build().unwrap();
    let response = sh(&sandbox, "git ls-remote https://example.com/x.git").await;
    assert!(
        response.notes.iter().any(|n| n.contains("there is no network (`network: none`)")),
        "{response:?}"
    );
    let response = sh(&sandbox, "git config user.name x").await;
    assert!(
        response.notes.iter().any(|n| n.contains(".git/config") && n.contains("is frozen")),
        "{response:?}"
    );
}

#[tokio::test]
async fn without_mounts_changes_to_git_are_undone_and_reported() {
    let host = Host::new();
    let sandbox = host.builder().tier(Tier::Landlock).build().unwrap();
    let config = host.workspace().join(".git/config");
    let before = std::fs::read(&config).unwrap();
    let script = "echo x > file; git add file; echo evil > .git/hooks/pre-commit; git config core.hooksPath evil; echo ../evil > .git/commondir";
    let response = sh(&sandbox, script).await;
    for name in ["hooks/pre-commit", "config", "commondir"] {
        let named = |note: &String| note.contains("undid a change") && note.contains(&format!(".git/{name}"));
        assert!(response.notes.iter().any(named), "{name}: {response:?}");
    }
    assert_eq!(std::fs::read(&config).unwrap(), before);
    assert!(!host.workspace().join(".git/hooks/pre-commit").exists());
    assert!(host.workspace().join(".git/index").exists(), "git itself worked");
    drop(sandbox);
    assert!(!host.workspace().join(".git/commondir").exists(), "the placeholder goes with the sandbox");
}

#[tokio::test]
async fn places_that_appear_later_are_hidden_too() {
    let host = Host::new();
    let sandboxes = TIERS.map(|tier| host.builder().tier(tier).build().unwrap());
    for sandbox in &sandboxes {
        assert!(sh(sandbox, "true").await.outcome.success());
    }
    std::fs::write(host.home().join(".vault-token"), "very-secret\n").unwrap();
    tokio::time::sleep(Duration::from_millis(2100)).await;
    for sandbox in &sandboxes {
        let response = sh(sandbox, "cat ~/.vault-token").await;
        assert!(!String::from_utf8_lossy(&response.stdout).contains("secret"), "{response:?}");
    }
}

#[tokio::test]
async fn a_closed_sandbox_says_so_and_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let sandbox = Arc::new(build(Tier::Namespaces, place.path()));
    assert!(sh(&*sandbox, "true").await.outcome.success());
    let closer = sandbox.closer().unwrap();
    closer.close().await.unwrap();
    closer.close().await.unwrap();
    let response = sh(&*sandbox, "true").await;
    assert_eq!(response.outcome, Outcome::Refused { why: "sandbox \"isolated\" is closed".into() });
}

#[tokio::test]
async fn forwarded_variables_are_asked_for_by_name() {
    let host = Host::new();
    let sandbox = host.builder().build().unwrap();
    assert!(sandbox.left_out_variables().contains(&"GITHUB_TOKEN".to_owned()));
    let mut request = Request::new("sh").args(["-c", "echo $GITHUB_TOKEN-$AWS_SECRET_ACCESS_KEY"]);
    request.env = vec![EnvEntry::Forward("GITHUB_TOKEN".into())];
    assert_eq!(sandbox.spawn(request).await.stdout, b"very-secret-\n");
}
