//! The end of what a call started, also when nobody waits for its result any more.

use crate::Place;
use futures_util::{FutureExt as _, future::BoxFuture};
use sandbox::{Control, Outcome, Process, Request, Response, StartRequest};
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::runtime::Handle;
use tokio_util::{sync::DropGuard, task::TaskTracker};

/// What ending a tree of processes may take on a busy machine.
pub(crate) const KILL_TIME: Duration = Duration::from_secs(5);

/// Processes of one call that were given up, until they are gone.
#[derive(Clone, Default)]
pub(crate) struct Endings {
    call: TaskTracker,
    /// Whoever waits for everything.
    all: TaskTracker,
}

impl Endings {
    /// Those of a new call; `all` knows of them as well.
    pub(crate) fn among(all: &TaskTracker) -> Self {
        Self { call: TaskTracker::new(), all: all.clone() }
    }

    /// Returns when everything that was given up is gone, or does not go.
    pub(crate) async fn wait(&self) {
        self.call.close();
        if tokio::time::timeout(KILL_TIME, self.call.wait()).await.is_err() {
            tracing::warn!("processes of a cancelled call have not ended after {KILL_TIME:?}");
        }
    }

    fn add(&self, ending: impl Future<Output = ()> + Send + 'static) {
        // Without a runtime nothing goes on, and whoever kept the process is gone with it.
        if let Ok(runtime) = Handle::try_current() {
            drop(self.all.spawn_on(self.call.track_future(ending), &runtime));
        }
    }
}

impl Place {
    /// Runs a command to its end, its timeout or its cancellation. Dropping the future cancels it.
    pub(crate) async fn spawn(&self, mut request: Request) -> Response {
        let stop = request.cancel.child_token();
        request.cancel = stop.clone();
        let sandbox = Arc::clone(&self.sandbox);
        let work = async move { sandbox.spawn(request).await }.boxed();
        Collected { work: Some(work), _stop: stop.drop_guard(), endings: self.endings.clone() }.await
    }

    /// Starts a process, which ends when it is dropped; `None` where none can be kept.
    pub(crate) async fn start(&self, request: StartRequest) -> Option<Result<Process, Outcome>> {
        let started = self.sandbox.streaming()?.start(request).await;
        Some(started.map(|process| {
            let (control, endings) = (process.control.into(), self.endings.clone());
            Process { control: Box::new(Kept { control, endings }), ..process }
        }))
    }
}

/// A command whose response somebody waits for.
struct Collected {
    work: Option<BoxFuture<'static, Response>>,
    _stop: DropGuard,
    endings: Endings,
}

impl Future for Collected {
    type Output = Response;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Response> {
        let Some(work) = &mut self.work else { return Poll::Pending };
        let polled = work.as_mut().poll(cx);
        if polled.is_ready() {
            self.work = None;
        }
        polled
    }
}

impl Drop for Collected {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            self.endings.add(work.map(drop));
        }
    }
}

/// The handle of a process.
struct Kept {
    control: Arc<dyn Control>,
    endings: Endings,
}

impl Control for Kept {
    fn wait(&self) -> BoxFuture<'_, Outcome> {
        self.control.wait()
    }

    fn kill(&self) {
        self.control.kill();
    }

    fn resize(&self, cols: u16, rows: u16) {
        self.control.resize(cols, rows);
    }

    fn notes(&self) -> Vec<String> {
        self.control.notes()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.control.wait().now_or_never().is_some() {
            return;
        }
        self.control.kill();
        let control = Arc::clone(&self.control);
        self.endings.add(async move { drop(control.wait().await) });
    }
}
