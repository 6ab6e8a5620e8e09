//! Cases of the streaming interface.

use super::{Body, STUBBORN, Subject};
use crate::{Outcome, Process, StartRequest, Stdio};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

pub(super) const CASES: &[(&str, Body)] = &[
    ("live: separate streams", |s| Box::pin(separate(s))),
    ("live: merged streams keep their order", |s| Box::pin(merged(s))),
    ("live: a conversation", |s| Box::pin(conversation(s))),
    ("live: terminal", |s| Box::pin(terminal(s))),
    ("live: kill leaves nobody", |s| Box::pin(kill(s))),
    ("live: drop leaves nobody", |s| Box::pin(dropped(s))),
    ("live: missing command", |s| Box::pin(missing(s))),
    ("live: an orphan cannot hold the reader", |s| Box::pin(orphan(s))),
    ("live: nobody reads", |s| Box::pin(unread(s))),
];

impl Subject {
    pub(super) async fn start(&self, script: &str, stdio: Stdio) -> Process {
        let request = StartRequest {
            command: "sh".into(),
            args: vec!["-c".into(), script.into()],
            cwd: Some(self.scratch.clone()),
            stdio,
            ..StartRequest::default()
        };
        self.begin(request).await
    }

    async fn begin(&self, request: StartRequest) -> Process {
        let Some(streaming) = self.sandbox.streaming() else { panic!("no streaming interface") };
        match streaming.start(request).await {
            Ok(process) => process,
            Err(outcome) => panic!("not started: {outcome}"),
        }
    }
}

async fn all(reader: &mut (impl tokio::io::AsyncRead + Unpin)) -> String {
    let mut bytes = Vec::new();
    let read = reader.read_to_end(&mut bytes).await;
    assert!(read.is_ok(), "reading failed: {read:?}");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads until the text holds `needle`.
async fn until(reader: &mut (impl tokio::io::AsyncRead + Unpin), needle: &str) -> String {
    let mut text = String::new();
    let mut buffer = [0; 1024];
    while !text.contains(needle) {
        match reader.read(&mut buffer).await {
            Ok(n @ 1..) => text.push_str(&String::from_utf8_lossy(&buffer[..n])),
            other => panic!("the stream ended ({other:?}) before {needle:?}: {text:?}"),
        }
    }
    text
}

async fn separate(subject: &Subject) {
    let mut process = subject.start("echo out; echo err >&2; exit 5", Stdio::Separate).await;
    let Some(mut stderr) = process.stderr.take() else { panic!("no stderr of its own") };
    let (out, err) = tokio::join!(all(&mut process.stdout), all(&mut stderr));
    if subject.separate_stderr {
        assert_eq!((out.as_str(), err.as_str()), ("out\n", "err\n"));
    }
    assert_eq!(process.control.wait().await, Outcome::Exited(5));
    assert_eq!(process.control.wait().await, Outcome::Exited(5), "waiting again gives the same");
}

async fn merged(subject: &Subject) {
    let script = "for i in 1 2 3 4 5; do echo o$i; echo e$i >&2; done; cat";
    let mut process = subject.start(script, Stdio::Merged).await;
    assert!(process.stdin.is_none() && process.stderr.is_none());
    assert_eq!(all(&mut process.stdout).await, "o1\ne1\no2\ne2\no3\ne3\no4\ne4\no5\ne5\n");
    assert_eq!(process.control.wait().await, Outcome::Exited(0));
}

async fn conversation(subject: &Subject) {
    let mut process = subject.start("cat", Stdio::Separate).await;
    let Some(mut stdin) = process.stdin.take() else { panic!("no stdin") };
    for line in ["one\n", "two\n"] {
        assert!(stdin.write_all(line.as_bytes()).await.is_ok() && stdin.flush().await.is_ok());
        assert_eq!(until(&mut process.stdout, "\n").await, line);
    }
    drop(stdin);
    assert_eq!(process.control.wait().await, Outcome::Exited(0), "the end of stdin ends cat");
}

async fn terminal(subject: &Subject) {
    // A far side hears of the new size a little after the near side.
    let script = r#"test -t 0 && test -t 1 && test -t 2 && stty size; read line; echo got $line
        i=0; while [ "$(stty size)" != "40 120" ] && [ $i -lt 400 ]; do i=$((i+1)); sleep 0.05; done
        stty size; exit 6"#;
    let mut process = subject.start(script, Stdio::Terminal { cols: 91, rows: 33 }).await;
    until(&mut process.stdout, "33 91").await;
    process.control.resize(120, 40);
    let Some(stdin) = process.stdin.as_mut() else { panic!("a terminal can be typed into") };
    assert!(stdin.write_all(b"hello\n").await.is_ok());
    let answer = until(&mut process.stdout, "40 120").await;
    assert!(answer.contains("got hello"), "{answer:?}");
    assert_eq!(process.control.wait().await, Outcome::Exited(6));
}

async fn stubborn(subject: &Subject, lock: &super::Lock) -> Process {
    let request = StartRequest {
        command: "sh".into(),
        args: vec!["-c".into(), STUBBORN.into()],
        env: vec![lock.entry()],
        cwd: Some(subject.scratch.clone()),
        stdio: Stdio::Merged,
    };
    let mut process = subject.begin(request).await;
    until(&mut process.stdout, "ready").await;
    process
}

async fn kill(subject: &Subject) {
    let lock = subject.lock();
    let process = stubborn(subject, &lock).await;
    process.control.kill();
    assert_eq!(process.control.wait().await, Outcome::Cancelled);
    lock.assert_free("a kill").await;
}

async fn dropped(subject: &Subject) {
    let lock = subject.lock();
    let process = stubborn(subject, &lock).await;
    drop(process);
    lock.wait_free("the process was dropped").await;
}

async fn missing(subject: &Subject) {
    let request = StartRequest { command: "no-such-command-anywhere".into(), ..StartRequest::default() };
    let Some(streaming) = subject.sandbox.streaming() else { panic!("no streaming interface") };
    match streaming.start(request).await {
        Err(Outcome::NotFound { command }) => assert_eq!(command, "no-such-command-anywhere"),
        Err(other) => panic!("expected NotFound, got {other:?}"),
        Ok(_) => panic!("a missing command was started"),
    }
}

async fn orphan(subject: &Subject) {
    let mut process = subject.start("(setsid sleep 1000 &); sleep 1000 & echo hi", Stdio::Separate).await;
    assert_eq!(all(&mut process.stdout).await, "hi\n");
    assert_eq!(process.control.wait().await, Outcome::Exited(0));
}

async fn unread(subject: &Subject) {
    let process = subject.start("head -c 10000000 /dev/zero; exit 9", Stdio::Separate).await;
    process.control.kill();
    assert_eq!(
        process.control.wait().await,
        Outcome::Cancelled,
        "a full pipe must not keep the kill from working"
    );
}
