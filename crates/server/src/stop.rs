//! Being told to stop.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a shell shows for a program that ended by SIGINT.
const INTERRUPTED: i32 = 130;

/// SIGTERM and SIGINT, from now on ours to act on.
pub(crate) struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    /// Listens from now on.
    ///
    /// # Errors
    /// The signals cannot be listened to.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next one.
    pub(crate) async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// From now on the next one ends the process at once; the kernel ends its children with it.
    pub(crate) fn or_else_at_once(mut self) {
        tokio::spawn(async move {
            self.asked().await;
            tracing::warn!("told twice: ending at once");
            std::process::exit(INTERRUPTED);
        });
    }
}
