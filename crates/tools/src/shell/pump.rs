//! Reading a process to its end, whoever ends it.

use sandbox::{Outcome, Process};
use std::{future::Future, pin::Pin, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

/// How long to read on when everybody who could write is gone.
const DRAIN: Duration = Duration::from_secs(2);
/// What is read at once: little at first, because most commands print little, and more for those that print more.
const FIRST: usize = 4 * 1024;
const MOST: usize = 64 * 1024;

/// Which stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    Stdout,
    Stderr,
}

/// Takes what a process prints.
pub(crate) trait Sink: Send {
    fn take(&mut self, from: From, bytes: &[u8]) -> impl Future<Output = ()> + Send;
}

/// How a process ended.
pub(crate) struct Ending {
    /// [`Outcome::TimedOut`] and [`Outcome::Cancelled`] when it was us.
    pub(crate) outcome: Outcome,
    pub(crate) notes: Vec<String>,
}

type Pipe = Box<dyn AsyncRead + Send + Unpin>;

/// One output of a process and the place its bytes go through.
struct Reader {
    pipe: Option<Pipe>,
    buffer: Vec<u8>,
    /// The last time there was more to read than fits.
    full: bool,
}

impl Reader {
    fn new(pipe: Option<Pipe>) -> Self {
        let buffer = if pipe.is_some() { vec![0; FIRST] } else { Vec::new() };
        Self { pipe, buffer, full: false }
    }

    fn open(&self) -> bool {
        self.pipe.is_some()
    }

    /// Some bytes; none when it was the last time.
    async fn read(&mut self) -> &[u8] {
        let Some(pipe) = &mut self.pipe else { return &[] };
        if self.full {
            self.buffer.resize(MOST, 0);
        }
        // A pipe that cannot be read any more is at its end for us.
        match pipe.read(&mut self.buffer).await {
            Ok(n) if n > 0 => {
                self.full = n == self.buffer.len();
                &self.buffer[..n]
            }
            _ => {
                self.pipe = None;
                &[]
            }
        }
    }
}

/// Reads `process` to its end and feeds `sink`. Ends it when `kill` fires or `limit` has passed. When the
/// future returns, every descendant is gone; when it is dropped, they are on their way.
pub(crate) async fn pump(
    process: Process,
    limit: Option<Duration>,
    kill: &CancellationToken,
    sink: &mut impl Sink,
) -> Ending {
    // A command has nobody to ask.
    drop(process.stdin);
    let control = process.control;
    let (mut stdout, mut stderr) = (Reader::new(Some(process.stdout)), Reader::new(process.stderr));
    let mut wait = control.wait();
    let (mut outcome, mut ended_by_us) = (None, None);
    // First the time limit; once the process is gone, the time left to read.
    let mut deadline: Option<Pin<Box<tokio::time::Sleep>>> =
        limit.map(|limit| Box::pin(sleep_until(Instant::now() + limit)));
    while outcome.is_none() || stdout.open() || stderr.open() {
        tokio::select! {
            bytes = stdout.read(), if stdout.open() => sink.take(From::Stdout, bytes).await,
            bytes = stderr.read(), if stderr.open() => sink.take(From::Stderr, bytes).await,
            () = kill.cancelled(), if outcome.is_none() && ended_by_us.is_none() => {
                ended_by_us = Some(Outcome::Cancelled);
                deadline = None;
                control.kill();
            }
            () = async { match &mut deadline { Some(at) => at.await, None => std::future::pending().await } } => {
                if outcome.is_some() {
                    break;
                }
                ended_by_us = Some(Outcome::TimedOut);
                deadline = None;
                control.kill();
            }
            how = &mut wait, if outcome.is_none() => {
                outcome = Some(how);
                deadline = Some(Box::pin(sleep_until(Instant::now() + DRAIN)));
            }
        }
    }
    let outcome = outcome.unwrap_or(Outcome::Cancelled);
    // It may have ended by itself in the very moment it was to be killed.
    let outcome = match (ended_by_us, outcome) {
        (Some(ours), Outcome::Signaled(_) | Outcome::Cancelled) => ours,
        (Some(Outcome::TimedOut), _) => Outcome::TimedOut,
        (_, outcome) => outcome,
    };
    Ending { outcome, notes: control.notes() }
}
