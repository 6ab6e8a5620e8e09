//! The near side: one connection a call, so that the next call has a fresh one.

use super::{
    frame::{Frame, PIECE},
    link::{Link, SILENCE},
    words::End,
};
use crate::{Control, Outcome, Process, Response, Stdio};
use futures_util::future::BoxFuture;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex},
    sync::{Semaphore, mpsc, watch},
};
use tokio_util::sync::CancellationToken;

/// How much stdin may be under way before the program takes it.
pub(super) const WINDOW: usize = 4 * PIECE;

pub(super) fn gone(place: &str) -> Outcome {
    let why =
        format!("{place}: the connection broke, or there was no sign of life for {} s", SILENCE.as_secs());
    Outcome::Transport { why }
}

/// Runs a call to its end.
pub(super) async fn collect(
    mut link: Link,
    stdin: &[u8],
    cancel: &CancellationToken,
    place: &str,
) -> Response {
    let (say, cancel) = (link.say.clone(), cancel.clone());
    let feed = async {
        for piece in stdin.chunks(PIECE) {
            if say.send(Frame::Stdin(piece.to_vec())).await.is_err() {
                return;
            }
        }
        let _ = say.send(Frame::StdinEnd).await;
        cancel.cancelled().await;
        let _ = say.send(Frame::Kill).await;
    };
    let hear = async {
        let mut response = Response::nothing(gone(place));
        while let Some(frame) = link.heard.recv().await {
            match frame {
                Frame::Stdout(bytes) => response.stdout.extend_from_slice(&bytes),
                Frame::Stderr(bytes) => response.stderr.extend_from_slice(&bytes),
                Frame::End(end) => {
                    if let Some(end) = End::from_json(&end) {
                        response.outcome = end.outcome;
                        response.omitted = end.omitted;
                        response.notes = end.notes;
                    }
                    break;
                }
                _ => {}
            }
        }
        response
    };
    tokio::pin!(feed);
    tokio::pin!(hear);
    let mut fed = false;
    loop {
        tokio::select! {
            response = &mut hear => return response,
            () = &mut feed, if !fed => fed = true,
        }
    }
}

/// Turns a connection on which a process has started into its handles.
pub(super) fn process(link: Link, stdio: Stdio, place: String) -> Process {
    let Link { heard, say } = link;
    let (ended, outcome) = watch::channel(None);
    let over = CancellationToken::new();
    let killed = CancellationToken::new();
    let notes = Arc::new(Mutex::new(Vec::new()));
    let window = Arc::new(Semaphore::new(WINDOW));
    let (stdout, stdout_end) = duplex(PIECE);
    let (stderr, stderr_end) = match stdio {
        Stdio::Separate => Some(duplex(PIECE)).unzip(),
        Stdio::Merged | Stdio::Terminal { .. } => (None, None),
    };
    let stdin = match stdio {
        Stdio::Merged => None,
        Stdio::Separate | Stdio::Terminal { .. } => {
            let (ours, theirs) = duplex(PIECE);
            tokio::spawn(feed(theirs, say.clone(), Arc::clone(&window), over.clone()));
            Some(Box::new(ours) as Box<_>)
        }
    };
    let hearing = Hearing { heard, window, killed: killed.clone(), notes: Arc::clone(&notes), place };
    let finish = over.clone();
    tokio::spawn(async move {
        let outcome = tokio::select! {
            outcome = hearing.run(stdout_end, stderr_end) => outcome,
            // The handle was dropped.
            () = finish.cancelled() => Outcome::Cancelled,
        };
        ended.send_replace(Some(outcome));
        finish.cancel();
    });
    let control = Box::new(Handle { say, outcome, over, killed, notes });
    Process {
        stdin,
        stdout: Box::new(stdout),
        stderr: stderr.map(|stderr| Box::new(stderr) as Box<_>),
        control,
    }
}

/// Takes stdin to the far side, as fast as the program takes it.
async fn feed(
    mut stdin: DuplexStream,
    say: mpsc::Sender<Frame>,
    window: Arc<Semaphore>,
    over: CancellationToken,
) {
    let all = async {
        let mut buffer = vec![0; PIECE];
        while let Ok(count @ 1..) = stdin.read(&mut buffer).await {
            let Ok(room) = window.acquire_many(u32::try_from(count).unwrap_or(u32::MAX)).await else {
                return;
            };
            room.forget();
            if say.send(Frame::Stdin(buffer[..count].to_vec())).await.is_err() {
                return;
            }
        }
        let _ = say.send(Frame::StdinEnd).await;
    };
    over.run_until_cancelled(all).await;
}

/// Listens to the far side of a live process.
struct Hearing {
    heard: mpsc::Receiver<Frame>,
    window: Arc<Semaphore>,
    killed: CancellationToken,
    notes: Arc<Mutex<Vec<String>>>,
    place: String,
}

impl Hearing {
    async fn run(mut self, mut stdout: DuplexStream, mut stderr: Option<DuplexStream>) -> Outcome {
        while let Some(frame) = self.heard.recv().await {
            match frame {
                Frame::Stdout(bytes) => self.pass_on(&mut stdout, &bytes).await,
                Frame::Stderr(bytes) => {
                    if let Some(stderr) = &mut stderr {
                        self.pass_on(stderr, &bytes).await;
                    }
                }
                Frame::Taken(count) => self.window.add_permits(usize::try_from(count).unwrap_or(0)),
                Frame::End(end) => {
                    let Some(end) = End::from_json(&end) else { break };
                    *self.notes.lock().unwrap_or_else(PoisonError::into_inner) = end.notes;
                    return end.outcome;
                }
                _ => {}
            }
        }
        gone(&self.place)
    }

    /// A reader that is gone misses it; one that does not read must not keep a kill from being heard.
    async fn pass_on(&self, stream: &mut DuplexStream, bytes: &[u8]) {
        tokio::select! {
            biased;
            _ = stream.write_all(bytes) => {}
            () = self.killed.cancelled() => {}
        }
    }
}

struct Handle {
    say: mpsc::Sender<Frame>,
    outcome: watch::Receiver<Option<Outcome>>,
    over: CancellationToken,
    killed: CancellationToken,
    notes: Arc<Mutex<Vec<String>>>,
}

impl Handle {
    /// Says it now, or as soon as there is room.
    fn tell(&self, frame: Frame) {
        if let Err(mpsc::error::TrySendError::Full(frame)) = self.say.try_send(frame)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let say = self.say.clone();
            runtime.spawn(async move { say.send(frame).await });
        }
    }
}

impl Control for Handle {
    fn wait(&self) -> BoxFuture<'_, Outcome> {
        let mut outcome = self.outcome.clone();
        Box::pin(async move {
            match outcome.wait_for(Option::is_some).await {
                Ok(outcome) => outcome.clone().unwrap_or(Outcome::Cancelled),
                Err(_) => Outcome::Cancelled,
            }
        })
    }

    fn kill(&self) {
        self.tell(Frame::Kill);
        self.killed.cancel();
    }

    fn resize(&self, cols: u16, rows: u16) {
        self.tell(Frame::Resize(cols, rows));
    }

    fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// With the last sender the connection closes, and the far side ends the process.
impl Drop for Handle {
    fn drop(&mut self) {
        self.over.cancel();
    }
}
