//! Many at once, and nothing left over.

use futures_util::future::join_all;
use sandbox::{Outcome, Request, Sandbox, StartRequest, Stdio, direct::Direct, isolated::Tier};
use std::{process::Command, time::Duration};
use tokio::io::AsyncReadExt as _;

/// Runs one test of this file alone in a process of its own, because it counts that process's descriptors.
fn alone(test: &str) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_thousand_at_once() {
    alone("load::a_thousand_at_once_alone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by a_thousand_at_once in a process of its own"]
async fn a_thousand_at_once_alone() {
    let workspace = tempfile::tempdir().unwrap();
    let isolated = crate::isolated::build(Tier::Namespaces, workspace.path());
    thousand(&Direct::new("direct")).await;
    thousand(&isolated).await;
}

async fn thousand(sandbox: &dyn Sandbox) {
    let call = |n: usize| {
        let mut request = Request::new("sh").args(["-c", "read line; echo $line"]);
        request.stdin = format!("{n}\n").into_bytes();
        request.timeout = Duration::from_secs(120);
        sandbox.spawn(request)
    };
    // The first round leaves the pool of idle supervisors as full as it gets.
    join_all((0..64).map(call)).await;
    let held = || {
        sandbox::release_memory();
        (open_files(), resident_kib())
    };
    let (files, memory) = held();
    let answers = join_all((0..1000).map(call)).await;
    for (n, response) in answers.iter().enumerate() {
        assert_eq!(response.outcome, Outcome::Exited(0), "call {n}: {response:?}");
        assert_eq!(String::from_utf8_lossy(&response.stdout), format!("{n}\n"));
    }
    drop(answers);
    let (files_after, memory_after) = held();
    let name = sandbox.name();
    assert_eq!(files_after, files, "{name}: descriptors are back where they were");
    let grown = memory_after.saturating_sub(memory);
    assert!(grown < 4 * 1024, "{name}: the resident set grew by {grown} KiB");
}

#[test]
fn output_without_end_in_bounded_memory() {
    alone("load::output_without_end_in_bounded_memory_alone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by output_without_end_in_bounded_memory in a process of its own"]
async fn output_without_end_in_bounded_memory_alone() {
    let direct = Direct::new("direct");
    assert!(direct.spawn(Request::new("true")).await.outcome.success());
    let before = resident_kib();
    let mut request = Request::new("head").args(["-c", "1000000000", "/dev/zero"]);
    request.capture_limit = Some(100 * 1024);
    request.timeout = Duration::from_secs(60);
    let response = direct.spawn(request).await;
    assert_eq!(response.outcome, Outcome::Exited(0));
    assert_eq!(response.omitted + response.stdout.len() as u64, 1_000_000_000);
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 8 * 1024, "the resident set grew by {grown} KiB");
}

#[tokio::test]
async fn live_processes_leave_no_descriptor() {
    let direct = Direct::new("direct");
    let one = || async {
        let request = StartRequest {
            command: "echo".into(),
            args: vec!["x".into()],
            stdio: Stdio::Terminal { cols: 80, rows: 24 },
            ..StartRequest::default()
        };
        let mut process = direct.streaming().unwrap().start(request).await.unwrap();
        let mut text = String::new();
        process.stdout.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "x\r\n");
        assert!(process.control.wait().await.success());
    };
    // Other tests of this process open files meanwhile, so the count is of terminals only.
    let terminals = || {
        let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        links.filter(|l| std::fs::read_link(l.path()).is_ok_and(|t| t.ends_with("ptmx"))).count()
    };
    for _ in 0..20 {
        one().await;
    }
    assert!(terminals() < 10, "{} terminals are still open", terminals());
}
