//! Nothing that a session started outlives it, whatever it tries.

use crate::support::{Bench, Client, Running, Setup, after, until};
use serde_json::json;
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

/// A daemon as the books have it.
const DAEMON: &str = "
import os, signal, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.chdir('/')
for fd in range(3): os.close(fd)
for s in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT): signal.signal(s, signal.SIG_IGN)
time.sleep(1000)
";

/// Every way to get away that we know, then `rest`. The number is in every process's command line.
fn escapees(bench: &Bench, number: u64, rest: &str) -> String {
    bench.write("daemon.py", DAEMON);
    format!(
        r#"
        setsid sleep {number} &
        (setsid bash -c 'sleep {number} & sleep {number} &' &)
        nohup sleep {number} >/dev/null 2>&1 &
        sleep {number} & disown
        bash -c 'trap "" TERM INT HUP; while :; do sleep 0.01; done' {number} &
        setsid bash -c 'next() {{ sleep 0.01; next & exit; }}; next' {number} &
        python3 daemon.py {number} &
        touch started
        {rest}
        "#
    )
}

fn number() -> u64 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let unique = u64::from(std::process::id()) * 1000 + u64::from(NEXT.fetch_add(1, Ordering::Relaxed));
    7_000_000_000 + unique
}

/// Processes with the number in their command line.
fn alive(number: u64) -> usize {
    let number = number.to_string();
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()))
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
        .filter(|line| String::from_utf8_lossy(line).contains(&number))
        .count()
}

/// All the kinds are there.
async fn until_escaped(bench: &Bench, number: u64) {
    let started = bench.root().join("started");
    until(async || (started.exists() && alive(number) >= 8).then_some(())).await;
}

/// A call with so many processes that ending them takes a while, and their number.
async fn many(client: &Client) -> (Running, u64) {
    let number = number();
    let command = format!("for n in {{1..100}}; do sleep {number} & done; wait");
    let running = client.spawn("Bash", json!({"command": command}));
    until(async || (alive(number) > 100).then_some(())).await;
    (running, number)
}

/// Nobody is there, and nobody comes back: one that forks all the time may hide from a single look.
async fn until_gone(number: u64) {
    let mut quiet = 0;
    until(async || {
        quiet = if alive(number) == 0 { quiet + 1 } else { 0 };
        (quiet == 20).then_some(())
    })
    .await;
}

#[tokio::test]
async fn after_a_normal_end() {
    let (bench, number) = (Bench::new(), number());
    let command = escapees(&bench, number, "sleep 0.2; exit 3");
    let text = bench.client().ok("Bash", json!({"command": command})).await;
    assert!(text.ends_with("exit: 3"), "{text}");
    assert_eq!(alive(number), 0, "the reply comes when all are gone");
    until_gone(number).await;
}

#[tokio::test]
async fn after_a_timeout() {
    let (bench, number) = (Bench::new(), number());
    let args = json!({"command": escapees(&bench, number, "sleep 1000"), "timeout": 2});
    let text = bench.client().ok("Bash", args).await;
    assert!(text.ends_with("bash: timed out after 2s\nexit: 124"), "{text}");
    assert!(bench.root().join("started").exists());
    assert_eq!(alive(number), 0, "the reply comes when all are gone");
    until_gone(number).await;
}

#[tokio::test]
async fn after_a_cancel() {
    let (bench, number) = (Bench::new(), number());
    let client = bench.client();
    let running = client.spawn("Bash", json!({"command": escapees(&bench, number, "sleep 1000")}));
    until_escaped(&bench, number).await;
    running.cancel.cancel();
    assert!(running.task.await.unwrap().is_error);
    assert_eq!(alive(number), 0, "the reply comes when all are gone");
    until_gone(number).await;
}

#[tokio::test]
async fn after_a_cancel_of_a_call_that_was_picked_up_again() {
    let (bench, number) = (Bench::new(), number());
    let client = bench.client();
    let args = json!({"command": escapees(&bench, number, "sleep 1000"), "wait": 0.1});
    let text = client.ok("Bash", args).await;
    let running = client.spawn("Bash", json!({"handle": after(&text, "handle \"")}));
    until_escaped(&bench, number).await;
    running.cancel.cancel();
    assert!(running.task.await.unwrap().is_error);
    assert_eq!(alive(number), 0, "the reply comes when all are gone");
    until_gone(number).await;
}

/// Of a tool that collects what a program prints.
#[tokio::test]
async fn after_a_cancel_of_another_tool() {
    let (bench, number) = (Bench::new(), number());
    let client = bench.client();
    let program = escapees(&bench, number, "sleep 1000");
    bench.write("node_modules/.bin/mmdc", format!("#!/bin/bash\n{program}"));
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(bench.root().join("node_modules/.bin/mmdc"), executable).unwrap();
    let running = client.spawn("render_mermaid", json!({"source": "graph", "output_path": "a.svg"}));
    until_escaped(&bench, number).await;
    running.cancel.cancel();
    assert!(running.task.await.unwrap().is_error);
    assert_eq!(alive(number), 0, "the reply comes when all are gone");
    until_gone(number).await;
}

#[tokio::test]
async fn after_the_caller_went_away() {
    let (bench, number) = (Bench::new(), number());
    let client = bench.client();
    let running = client.spawn("Bash", json!({"command": escapees(&bench, number, "sleep 1000")}));
    until_escaped(&bench, number).await;
    running.task.abort();
    until_gone(number).await;
}

#[tokio::test]
async fn after_kill_shell() {
    let (bench, number) = (Bench::new(), number());
    let client = bench.client();
    let args = json!({"command": escapees(&bench, number, "sleep 1000"), "run_in_background": true});
    let text = client.ok("Bash", args).await;
    until_escaped(&bench, number).await;
    client.ok("KillShell", json!({"shell_id": after(&text, "shell_id: ")})).await;
    assert_eq!(alive(number), 0, "the reply comes when all are gone");
    until_gone(number).await;
}

#[tokio::test]
async fn after_a_dropped_session() {
    let (bench, number) = (Bench::new(), number());
    let client = bench.client();
    let args = json!({"command": escapees(&bench, number, "sleep 1000"), "run_in_background": true});
    client.ok("Bash", args).await;
    let args = json!({"command": format!("sleep {number}"), "wait": 0.1});
    client.ok("Bash", args).await;
    let (running, last) = many(&client).await;
    until_escaped(&bench, number).await;
    drop(client);
    assert!(running.task.await.unwrap().is_error);
    assert_eq!(alive(last), 0, "the reply comes when all of its own are gone");
    until_gone(number).await;
}

#[tokio::test]
async fn after_a_shutdown() {
    let number = number();
    let bench = Setup::default().limits(|limits| limits.grace = Duration::from_millis(100)).bench();
    let client = bench.client();
    let args = json!({"command": escapees(&bench, number, "sleep 1000"), "run_in_background": true});
    client.ok("Bash", args).await;
    let (running, last) = many(&client).await;
    until_escaped(&bench, number).await;
    bench.host.shut_down().await;
    assert_eq!((alive(number), alive(last)), (0, 0), "it returns when all are gone");
    assert!(running.task.await.unwrap().is_error);
    until_gone(number).await;
}
