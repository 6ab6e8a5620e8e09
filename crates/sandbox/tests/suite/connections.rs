//! Connections to containers and pods that are bad, as some are on busy nodes: a real client, and somebody around it who
//! meddles with the first connection of one command.

use crate::{
    docker::{client, exec_after, sh, wait_for},
    kubernetes,
};
use sandbox::{Outcome, Request, Response, Sandbox, StartRequest, Stdio};
use serde_json::json;
use std::{path::Path, sync::Arc, time::Duration};
use testkit::engines;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// The word among a command's by which its connection is known.
const FAULTY: &str = "faulty";

/// What the client does the first time it is to carry such a command.
fn once(folder: &Path, fault: &str) -> String {
    let met = folder.join("met");
    format!(
        "for word; do if [ \"$word\" = {FAULTY} ] && mkdir {} 2>/dev/null; then {fault}; fi; done",
        met.display()
    )
}

/// How a command is started.
#[derive(Debug, Clone, Copy)]
enum How {
    Collected,
    Live(Stdio),
}

/// How a script ended whose connection is a bad one, and what it wrote to stdout and stderr.
async fn run(sandbox: &dyn Sandbox, how: How, script: &str, input: &str) -> (Outcome, String, String) {
    let args = ["-c", script, FAULTY].map(str::to_owned).to_vec();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let stdio = match how {
        How::Live(stdio) => stdio,
        How::Collected => {
            // Enough for a second connection.
            let timeout = Duration::from_secs(55);
            let request = Request { stdin: input.into(), timeout, ..Request::new("sh").args(args) };
            let response = sandbox.spawn(request).await;
            return (response.outcome, text(response.stdout), text(response.stderr));
        }
    };
    let request = StartRequest { command: "sh".into(), args, stdio, ..StartRequest::default() };
    let mut process = sandbox.streaming().unwrap().start(request).await.unwrap();
    if let Some(mut stdin) = process.stdin.take() {
        stdin.write_all(input.as_bytes()).await.unwrap();
        stdin.flush().await.unwrap();
    }
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut stderr = process.stderr.take().unwrap_or_else(|| Box::new(tokio::io::empty()));
    let (read, also) = tokio::join!(process.stdout.read_to_end(&mut out), stderr.read_to_end(&mut err));
    read.and(also).unwrap();
    let outcome = process.control.wait().await;
    assert_eq!(process.control.wait().await, outcome, "waiting again gives the same");
    (outcome, text(out), text(err))
}

/// Runs a script once for each fault and way to start it, all at a time; `with` makes a sandbox whose client is in the
/// folder and does something first.
async fn for_each<const N: usize>(
    faults: &[&str],
    hows: [How; N],
    (script, input): (&str, &str),
    with: impl Fn(&Path, &str) -> Arc<dyn Sandbox>,
    check: impl Fn((Outcome, String, String), &str),
) {
    let runs = faults.iter().flat_map(|fault| hows.map(|how| (*fault, how))).map(|(fault, how)| {
        let folder = tempfile::tempdir().unwrap();
        let sandbox = with(folder.path(), &once(folder.path(), fault));
        let check = &check;
        async move {
            let place = folder.path().file_name().unwrap().display().to_string();
            let ended = run(&*sandbox, how, &script.replace("PLACE", &place), input).await;
            assert!(folder.path().join("met").exists(), "{how:?} did not meet: {fault}");
            check(ended, &format!("{how:?} with {fault}"));
        }
    });
    futures_util::future::join_all(runs).await;
}

/// Connections that are there but carry nothing, one way or the other or both.
const USELESS: [&str; 3] =
    ["exec sleep 1000", "sleep 1000 | $real \"$@\"; exit", "$real \"$@\" >/dev/null 2>&1; exec sleep 1000"];

/// Another one is made, and the command runs once.
async fn are_replaced(with: impl Fn(&Path, &str) -> Arc<dyn Sandbox>) {
    let hows = [How::Collected, How::Live(Stdio::Separate), How::Live(Stdio::Merged)];
    let script = "echo ran >>/tmp/PLACE; cat /tmp/PLACE; exit 7";
    for_each(&USELESS, hows, (script, ""), with, |(outcome, out, _), which| {
        assert_eq!((outcome, out.trim_end()), (Outcome::Exited(7), "ran"), "{which}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn those_to_a_container_that_carry_nothing_are_replaced() {
    let container = engines::docker().container();
    are_replaced(|folder, first| exec_after(&container, folder, first)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn those_to_a_pod_that_carry_nothing_are_replaced() {
    are_replaced(pod).await;
}

fn pod(folder: &Path, first: &str) -> Arc<dyn Sandbox> {
    kubernetes::build(json!({"kubectl_path": client(folder, &engines::kubernetes().client, first)}))
}

/// Connections that do not end with the command: the client goes on, or the end of stdin never comes.
const ENDLESS: [&str; 2] =
    ["$real \"$@\"; exec sleep 1000", "{ cat; exec sleep 1000; } | $real \"$@\"; exit"];

/// The call is over all the same, as the command ended it, and all that it wrote is there.
async fn are_left(with: impl Fn(&Path, &str) -> Arc<dyn Sandbox>) {
    let hows = [How::Collected, How::Live(Stdio::Separate)];
    let script = "read -r line; head -c 1000000 /dev/zero; echo \"$line\" >&2; exit 7";
    for_each(&ENDLESS, hows, (script, "word\nmore\n"), with, |(outcome, out, err), which| {
        assert_eq!((outcome, out.len(), err.as_str()), (Outcome::Exited(7), 1_000_000, "word\n"), "{which}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn those_to_a_container_that_do_not_end_are_left() {
    let container = engines::docker().container();
    are_left(|folder, first| exec_after(&container, folder, first)).await;
    // Nor is anybody left there who waits for their end; the script is known by a name of its own.
    wait_for(|| !container.processes().contains("cs_mark="));
}

#[tokio::test(flavor = "multi_thread")]
async fn those_to_a_pod_that_do_not_end_are_left() {
    are_left(pod).await;
}

/// A program without a stdin does not depend on the connection to tell it so.
#[tokio::test(flavor = "multi_thread")]
async fn no_stdin_needs_no_end() {
    let container = engines::docker().container();
    let hows = [How::Collected, How::Live(Stdio::Merged)];
    let with = |folder: &Path, first: &str| exec_after(&container, folder, first);
    for_each(&ENDLESS[1..], hows, ("cat; echo done; exit 7", ""), with, |(outcome, out, _), which| {
        assert_eq!((outcome, out.as_str()), (Outcome::Exited(7), "done\n"), "{which}");
    })
    .await;
}

/// What was begun, or may have been, is not begun again.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_breaks_off_when_the_command_begins_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let container = engines::docker().container();
    // Everything gets there; of what comes back, no more than the script's first sign.
    let fault = "for mark; do case $mark in cs*-*.) break ;; esac; done
        $real \"$@\" 2>/dev/null | head -c $((${#mark} + 8)); exit";
    let sandbox = exec_after(&container, folder.path(), &once(folder.path(), fault));
    let (outcome, ..) = run(&*sandbox, How::Collected, "echo ran >>/tmp/ran", "").await;
    assert!(matches!(outcome, Outcome::Transport { .. }), "{outcome:?}");
    assert!(folder.path().join("met").exists());
    let ran = sandbox.spawn(sh("cat /tmp/ran")).await.stdout;
    assert!(ran.is_empty() || ran == b"ran\n", "{:?}", String::from_utf8_lossy(&ran));
}

/// The end of a command that is cancelled once it runs.
async fn cancelled(sandbox: &dyn Sandbox, container: &engines::Container<'_>) -> Response {
    let request = sh("exec sleep 7004");
    let cancel = request.cancel.clone();
    let stop = async {
        // The script around it has the same words, and others.
        let runs = |line: &str| line.ends_with(" sleep 7004") && !line.contains("cs_mark=");
        while !container.processes().lines().any(runs) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        cancel.cancel();
    };
    tokio::join!(sandbox.spawn(request), stop).0
}

/// A cancelled command is ended over a connection of its own, which may be lost like any other: its client fails, or says
/// that all is well though nothing came through.
#[tokio::test(flavor = "multi_thread")]
async fn those_that_are_to_end_a_command_are_replaced() {
    for fault in ["exit 0", "exit 1"] {
        let folder = tempfile::tempdir().unwrap();
        let met = folder.path().join("met");
        // The last word is the mark of the call then.
        let twice = format!(
            "for word; do :; done; case $word in cs*-*.) for n in 1 2; do if mkdir {}$n 2>/dev/null; then {fault}; fi; done ;; esac",
            met.display()
        );
        let container = engines::docker().container();
        let sandbox = exec_after(&container, folder.path(), &twice);
        let response = cancelled(&*sandbox, &container).await;
        assert_eq!((response.outcome, response.notes), (Outcome::Cancelled, Vec::new()), "{fault}");
        assert!(!container.processes().contains("sleep 7004"), "{fault}: the command runs on");
        assert!(folder.path().join("met2").exists(), "{fault} was met but once");
    }
}

/// Where none comes through, what may go on there is told.
#[tokio::test(flavor = "multi_thread")]
async fn none_that_would_end_a_command_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let container = engines::docker().container();
    let never = "for word; do :; done; case $word in cs*-*.) exit 0 ;; esac";
    let sandbox = exec_after(&container, folder.path(), never);
    let response = cancelled(&*sandbox, &container).await;
    assert_eq!(response.outcome, Outcome::Cancelled);
    let [note] = &response.notes[..] else { panic!("{:?}", response.notes) };
    assert!(note.contains(&container.id) && note.contains("may still run"), "{note}");

    let live = StartRequest { command: "sleep".into(), args: vec!["7005".into()], ..StartRequest::default() };
    let process = sandbox.streaming().unwrap().start(live).await.unwrap();
    process.control.kill();
    assert_eq!(process.control.wait().await, Outcome::Cancelled);
    let [note] = &process.control.notes()[..] else { panic!("{:?}", process.control.notes()) };
    assert!(note.contains("may still run"), "{note}");
}
