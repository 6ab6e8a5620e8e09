//! The far side: runs what the near side asks for, for as long as it is there.

use super::{
    Terms,
    frame::{Frame, PIECE},
    link::{Link, SILENCE},
    near::WINDOW,
    words::{End, Start, Way},
};
use crate::{Control, EnvEntry, Outcome, Process, Request, Sandbox, StartRequest, Stdio};
use std::sync::Arc;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::mpsc,
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

/// Runs one command for whoever is at the other end of `stream`, and returns when it and its descendants are
/// gone. They go when the connection does, or when `stop` is cancelled.
pub async fn attend(
    stream: impl AsyncRead + AsyncWrite + Send + 'static,
    sandbox: Arc<dyn Sandbox>,
    terms: Terms,
    stop: CancellationToken,
) {
    let mut link = Link::new(stream);
    let Some(Frame::Start(asked)) = link.heard.recv().await else { return };
    let end = match Start::from_json(&asked) {
        None => End::new(Outcome::Transport { why: "the request was not understood".to_owned() }),
        Some(start) => match start.way {
            Way::Collected { .. } => collected(&mut link, sandbox.as_ref(), &terms, start, &stop).await,
            Way::Live(stdio) => live(&mut link, sandbox.as_ref(), &terms, start, stdio, &stop).await,
        },
    };
    // Whoever is gone does not hear it.
    let _ = link.say.send(Frame::End(end.to_json())).await;
    let Link { mut heard, say } = link;
    drop(say);
    // What is still coming must be taken, or the closing connection would take the answer with it.
    let _ = tokio::time::timeout(SILENCE, async { while heard.recv().await.is_some() {} }).await;
}

fn entries(env: Vec<(String, String)>) -> Vec<EnvEntry> {
    env.into_iter().map(|(key, value)| EnvEntry::Set(key, value)).collect()
}

async fn collected(
    link: &mut Link,
    sandbox: &dyn Sandbox,
    terms: &Terms,
    start: Start,
    stop: &CancellationToken,
) -> End {
    let Way::Collected { timeout, capture_limit } = start.way else {
        return End::new(Outcome::Cancelled);
    };
    let mut stdin = Vec::new();
    loop {
        match link.heard.recv().await {
            Some(Frame::Stdin(bytes)) if stdin.len() + bytes.len() > terms.stdin_bytes => {
                let why =
                    format!("stdin is larger than the {} bytes that the far side takes", terms.stdin_bytes);
                return End::new(Outcome::Refused { why });
            }
            Some(Frame::Stdin(bytes)) => stdin.extend_from_slice(&bytes),
            Some(Frame::StdinEnd) => break,
            _ => return End::new(Outcome::Cancelled),
        }
    }
    let request = Request {
        command: start.command,
        args: start.args,
        env: entries(start.env),
        stdin,
        timeout,
        cwd: start.cwd.or_else(|| Some(terms.cwd.clone())),
        cancel: stop.child_token(),
        capture_limit,
    };
    let cancel = request.cancel.clone();
    let mut call = sandbox.spawn(request);
    let mut there = true;
    let response = loop {
        tokio::select! {
            response = &mut call => break response,
            heard = link.heard.recv(), if there => {
                there = heard.is_some();
                if matches!(heard, None | Some(Frame::Kill)) {
                    cancel.cancel();
                }
            }
        }
    };
    for piece in response.stdout.chunks(PIECE) {
        let _ = link.say.send(Frame::Stdout(piece.to_vec())).await;
    }
    for piece in response.stderr.chunks(PIECE) {
        let _ = link.say.send(Frame::Stderr(piece.to_vec())).await;
    }
    End { outcome: response.outcome, omitted: response.omitted, notes: response.notes }
}

async fn live(
    link: &mut Link,
    sandbox: &dyn Sandbox,
    terms: &Terms,
    start: Start,
    stdio: Stdio,
    stop: &CancellationToken,
) -> End {
    let Some(streaming) = sandbox.streaming() else {
        return End::new(Outcome::Refused { why: "the far side's sandbox cannot keep a process".to_owned() });
    };
    let request = StartRequest {
        command: start.command,
        args: start.args,
        env: entries(start.env),
        cwd: start.cwd.or_else(|| Some(terms.cwd.clone())),
        stdio,
    };
    let process = match streaming.start(request).await {
        Ok(process) => process,
        Err(outcome) => return End::new(outcome),
    };
    let _ = link.say.send(Frame::Started).await;
    let Process { stdin, stdout, stderr, control } = process;
    let mut pumps = JoinSet::new();
    pumps.spawn(pump_out(stdout, link.say.clone(), Frame::Stdout));
    if let Some(stderr) = stderr {
        pumps.spawn(pump_out(stderr, link.say.clone(), Frame::Stderr));
    }
    let (feed, fed) = mpsc::unbounded_channel();
    let mut feed = Some(feed);
    tokio::spawn(pump_in(stdin, fed, link.say.clone()));
    let mut wait = control.wait();
    let mut there = true;
    let outcome = loop {
        tokio::select! {
            outcome = &mut wait => break outcome,
            () = stop.cancelled(), if there => {
                there = false;
                control.kill();
            }
            heard = link.heard.recv(), if there => there = obey(heard, control.as_ref(), &mut feed),
        }
    };
    drop(wait);
    // What it wrote last is still on its way; nobody who is gone, or wants it dead, waits for that.
    loop {
        tokio::select! {
            done = pumps.join_next() => if done.is_none() { break },
            heard = link.heard.recv(), if there => match heard {
                None | Some(Frame::Kill) => break,
                Some(_) => {}
            },
        }
    }
    End { notes: control.notes(), ..End::new(outcome) }
}

/// Does what the near side says; whether it is still there.
fn obey(
    heard: Option<Frame>,
    control: &dyn Control,
    feed: &mut Option<mpsc::UnboundedSender<Vec<u8>>>,
) -> bool {
    match heard {
        // It may send so much ahead and no more; pieces that nobody takes are not kept without bounds.
        Some(Frame::Stdin(bytes)) if bytes.len() <= WINDOW => {
            if let Some(feed) = feed {
                // A program that takes no more input has closed its end.
                let _ = feed.send(bytes);
            }
        }
        Some(Frame::StdinEnd) => *feed = None,
        Some(Frame::Resize(cols, rows)) => control.resize(cols, rows),
        Some(Frame::Kill) => control.kill(),
        Some(_) => {}
        None => {
            control.kill();
            return false;
        }
    }
    true
}

async fn pump_out(
    mut stream: Box<dyn AsyncRead + Send + Unpin>,
    say: mpsc::Sender<Frame>,
    frame: fn(Vec<u8>) -> Frame,
) {
    let mut buffer = vec![0; PIECE];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        if say.send(frame(buffer[..count].to_vec())).await.is_err() {
            return;
        }
    }
}

async fn pump_in(
    stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    mut fed: mpsc::UnboundedReceiver<Vec<u8>>,
    say: mpsc::Sender<Frame>,
) {
    let Some(mut stdin) = stdin else { return };
    while let Some(bytes) = fed.recv().await {
        if stdin.write_all(&bytes).await.is_err() {
            return;
        }
        let taken = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        if say.send(Frame::Taken(taken)).await.is_err() {
            return;
        }
    }
}
