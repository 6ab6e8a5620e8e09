//! Cases of the narrow interface.

use super::{Body, Subject};
use crate::{EnvEntry, Outcome, Request, Stdio};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

pub(super) const CASES: &[(&str, Body)] = &[
    ("exit codes", |s| Box::pin(exit_codes(s))),
    ("killed by a signal", |s| Box::pin(signal(s))),
    ("stdout and stderr apart", |s| Box::pin(streams_apart(s))),
    ("binary bytes", |s| Box::pin(binary(s))),
    ("arguments verbatim", |s| Box::pin(arguments(s))),
    ("a closed stdin", |s| Box::pin(closed_stdin(s))),
    ("stdin nobody reads", |s| Box::pin(unread_stdin(s))),
    ("huge stdin and stdout at once", |s| Box::pin(huge(s))),
    ("capture limit", |s| Box::pin(capture_limit(s))),
    ("long arguments", |s| Box::pin(long_arguments(s))),
    ("environment merge", |s| Box::pin(environment(s))),
    ("working directory", |s| Box::pin(directory(s))),
    ("missing working directory", |s| Box::pin(missing_directory(s))),
    ("missing command", |s| Box::pin(missing_command(s))),
    ("timeout leaves nobody", |s| Box::pin(timeout(s))),
    ("output before a timeout", |s| Box::pin(output_before_timeout(s))),
    ("cancel leaves nobody", |s| Box::pin(cancel(s))),
    ("cancelled before the start", |s| Box::pin(cancelled_before(s))),
    ("dropped call leaves nobody", |s| Box::pin(dropped(s))),
    ("an orphan cannot hold the call", |s| Box::pin(orphan_holds_pipe(s))),
    ("concurrent calls", |s| Box::pin(concurrent(s))),
    ("stable name", |s| Box::pin(name(s))),
];

/// What no other case may come after, or run beside.
pub(super) const LAST: (&str, Body) = ("close twice", |s| Box::pin(close(s)));

async fn exit_codes(subject: &Subject) {
    for code in [0, 1, 3, 77, 126, 127, 255] {
        let response = subject.sh(&format!("exit {code}")).await;
        assert_eq!(response.outcome, Outcome::Exited(code), "of `exit {code}`");
    }
}

async fn signal(subject: &Subject) {
    for signal in [9, 15] {
        let outcome = subject.sh(&format!("kill -{signal} $$")).await.outcome;
        let by_code = !subject.exact_signals && outcome == Outcome::Exited(128 + signal);
        assert!(by_code || outcome == Outcome::Signaled(signal), "kill -{signal}: {outcome:?}");
    }
}

async fn streams_apart(subject: &Subject) {
    let response = subject.sh("echo out; echo err >&2").await;
    if subject.separate_stderr {
        assert_eq!((&response.stdout[..], &response.stderr[..]), (&b"out\n"[..], &b"err\n"[..]));
    } else {
        let both = [response.stdout, response.stderr].concat();
        assert!(both.windows(3).any(|w| w == b"out") && both.windows(3).any(|w| w == b"err"));
    }
}

async fn binary(subject: &Subject) {
    let mut request = subject.script("cat");
    request.stdin = (0..=255).cycle().take(4096).collect();
    let sent = request.stdin.clone();
    let response = subject.sandbox.spawn(request).await;
    assert!(response.stdout == sent, "bytes were changed on the way: {} came back", response.stdout.len());
}

async fn arguments(subject: &Subject) {
    let odd = ["", " two  spaces ", "quo\"te'", "$HOME `id` \\", "line\nbreak", "*", "ünï"];
    let mut request = subject.script(r#"for a; do printf '<%s>' "$a"; done"#);
    request.args.push("sh".into());
    request.args.extend(odd.map(str::to_owned));
    let response = subject.sandbox.spawn(request).await;
    let expected: String = odd.iter().map(|a| format!("<{a}>")).collect();
    assert_eq!(String::from_utf8_lossy(&response.stdout), expected);
}

async fn closed_stdin(subject: &Subject) {
    let response = subject.sh("cat; echo done").await;
    assert_eq!(String::from_utf8_lossy(&response.stdout), "done\n", "{}", response.outcome);
}

async fn unread_stdin(subject: &Subject) {
    let mut request = subject.script("exit 4");
    request.stdin = vec![b'x'; 4 << 20];
    assert_eq!(subject.sandbox.spawn(request).await.outcome, Outcome::Exited(4));
}

async fn huge(subject: &Subject) {
    let mut request = subject.script("cat");
    request.stdin = (0..16_u32 << 20).map(|n| n.to_le_bytes()[1]).collect();
    let sent = request.stdin.clone();
    let response = subject.sandbox.spawn(request).await;
    assert!(response.outcome.success(), "{}", response.outcome);
    assert!(response.stdout == sent, "{} of {} bytes came back", response.stdout.len(), sent.len());
}

async fn capture_limit(subject: &Subject) {
    let mut request = subject.script("printf HEAD; head -c 5000000 /dev/zero; printf TAIL");
    request.capture_limit = Some(1000);
    let response = subject.sandbox.spawn(request).await;
    assert!(response.outcome.success(), "{}", response.outcome);
    assert!(response.stdout.len() <= 1000, "kept {} bytes", response.stdout.len());
    assert!(
        response.stdout.starts_with(b"HEAD") && response.stdout.ends_with(b"TAIL"),
        "head and tail are kept"
    );
    let total = u64::try_from(response.stdout.len()).unwrap_or(0) + response.omitted;
    assert_eq!(total, 5_000_008, "kept and omitted bytes add up to what was written");
}

async fn long_arguments(subject: &Subject) {
    let long = "x".repeat(100_000);
    let mut request = subject.script("echo ${#1} ${#2}");
    request.args.extend(["sh".to_owned(), long.clone(), long]);
    let response = subject.sandbox.spawn(request).await;
    assert_eq!(String::from_utf8_lossy(&response.stdout), "100000 100000\n", "{}", response.outcome);
}

async fn environment(subject: &Subject) {
    let mut request =
        subject.script(r#"printf '%s|%s|%s|%s' "$A" "$B" "${NOT_SET_ANYWHERE-unset}" "${PATH:+path}""#);
    request.env = ["A=first", "A=a b=c", "B=", "NOT_SET_ANYWHERE"].map(EnvEntry::parse).to_vec();
    let response = subject.sandbox.spawn(request).await;
    assert_eq!(String::from_utf8_lossy(&response.stdout), "a b=c||unset|path");
    let again = subject.sh(r#"printf %s "${A-unset}""#).await;
    assert_eq!(
        String::from_utf8_lossy(&again.stdout),
        "unset",
        "one call's environment must not reach the next"
    );
}

async fn directory(subject: &Subject) {
    let mut request = subject.script("pwd");
    request.cwd = Some("/".into());
    assert_eq!(String::from_utf8_lossy(&subject.sandbox.spawn(request).await.stdout), "/\n");
}

async fn missing_directory(subject: &Subject) {
    let mut request = subject.script("true");
    request.cwd = Some(subject.scratch.join("no/such/folder"));
    let outcome = subject.sandbox.spawn(request).await.outcome;
    assert!(!outcome.success(), "a missing working directory must not be ignored");
    assert!(
        !matches!(outcome, Outcome::NotFound { .. }),
        "it is the folder that is missing, not the command"
    );
}

async fn missing_command(subject: &Subject) {
    for command in ["no-such-command-anywhere", "/no/such/command"] {
        let request = Request { timeout: Duration::from_secs(180), ..Request::new(command) };
        let response = subject.sandbox.spawn(request).await;
        assert_eq!(response.outcome, Outcome::NotFound { command: command.to_owned() });
    }
}

async fn timeout(subject: &Subject) {
    let lock = subject.lock();
    let mut request = lock.stubborn();
    request.timeout = Duration::from_millis(700);
    let response = subject.sandbox.spawn(request).await;
    assert_eq!(response.outcome, Outcome::TimedOut);
    lock.assert_free("a timeout").await;
}

async fn output_before_timeout(subject: &Subject) {
    // How long it takes to get there, on a busy machine or far away, nobody knows.
    for seconds in [1, 4, 16, 64, 160] {
        let mut request = subject.script("echo early; sleep 1000");
        request.timeout = Duration::from_secs(seconds);
        let response = subject.sandbox.spawn(request).await;
        assert_eq!(response.outcome, Outcome::TimedOut);
        if !response.stdout.is_empty() {
            assert_eq!(String::from_utf8_lossy(&response.stdout), "early\n");
            return;
        }
    }
    panic!("what was written before a timeout is lost");
}

async fn cancel(subject: &Subject) {
    let lock = subject.lock();
    let request = lock.stubborn();
    let cancel = request.cancel.clone();
    let call = subject.sandbox.spawn(request);
    let canceller = async {
        lock.wait_held().await;
        cancel.cancel();
    };
    let (response, ()) = tokio::join!(call, canceller);
    assert_eq!(response.outcome, Outcome::Cancelled);
    lock.assert_free("a cancel").await;
}

async fn cancelled_before(subject: &Subject) {
    let mut request = subject.script("sleep 1000");
    request.cancel = CancellationToken::new();
    request.cancel.cancel();
    let cancel = request.cancel.clone();
    assert_eq!(subject.sandbox.spawn(request).await.outcome, Outcome::Cancelled);
    // Nobody even looks for it.
    let missing = Request { cancel, ..Request::new("no-such-command-anywhere") };
    assert_eq!(subject.sandbox.spawn(missing).await.outcome, Outcome::Cancelled);
}

async fn dropped(subject: &Subject) {
    let lock = subject.lock();
    tokio::select! {
        _ = subject.sandbox.spawn(lock.stubborn()) => panic!("the stubborn program ended by itself"),
        () = lock.wait_held() => {}
    }
    lock.wait_free("the call was dropped").await;
}

async fn orphan_holds_pipe(subject: &Subject) {
    let response = subject.sh("(setsid sleep 1000 &) ; sleep 1000 & echo hi").await;
    assert_eq!(response.outcome, Outcome::Exited(0));
    assert_eq!(String::from_utf8_lossy(&response.stdout), "hi\n");
}

async fn concurrent(subject: &Subject) {
    let calls = (0..20).map(|n| async move {
        let response = subject.sh(&format!("echo {n}; exit {n}")).await;
        assert_eq!(response.outcome, Outcome::Exited(n));
        assert_eq!(
            String::from_utf8_lossy(&response.stdout),
            format!("{n}\n"),
            "answers must not be mixed up"
        );
    });
    futures_util::future::join_all(calls).await;
}

async fn name(subject: &Subject) {
    assert!(!subject.sandbox.name().is_empty());
    assert_eq!(subject.sandbox.name(), subject.sandbox.name());
}

async fn close(subject: &Subject) {
    let Some(closer) = subject.sandbox.closer() else { return };
    let live = match subject.sandbox.streaming() {
        Some(_) => Some(subject.start("sleep 1000", Stdio::Merged).await),
        None => None,
    };
    for time in ["first", "second"] {
        assert_eq!(closer.close().await, Ok(()), "the {time} close");
    }
    // Whether it ends live processes, or takes further calls, is its own business; what must not be is a wait without
    // end.
    let rest = async {
        if let Some(process) = live {
            process.control.kill();
            let outcome = process.control.wait().await;
            assert!(!outcome.success(), "a live process beside a close: {outcome}");
        }
        subject.sh("true").await
    };
    assert!(
        tokio::time::timeout(Duration::from_secs(180), rest).await.is_ok(),
        "after a close nothing is answered"
    );
}
