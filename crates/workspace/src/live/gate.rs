//! Lets work in the background give way, and end.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long the background stands back for those who cannot wait before it does its next piece.
const PATIENCE: Duration = Duration::from_millis(50);

/// Stands between the background and those who cannot wait.
#[derive(Default)]
pub(super) struct Gate {
    closed: AtomicBool,
    hurried: AtomicUsize,
    lock: Mutex<()>,
    bell: Condvar,
}

/// Somebody who cannot wait, for as long as it lives.
pub(crate) struct Hurry<'g>(&'g Gate);

impl Drop for Hurry<'_> {
    fn drop(&mut self) {
        if self.0.hurried.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.ring();
        }
    }
}

impl Gate {
    /// Tells the background to end.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.ring();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Asks the background to stand back for a while.
    pub(super) fn hurry(&self) -> Hurry<'_> {
        self.hurried.fetch_add(1, Ordering::Relaxed);
        Hurry(self)
    }

    fn ring(&self) {
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
        self.bell.notify_all();
    }

    /// Stands back while somebody is in a hurry, but not for ever.
    pub(super) fn wait(&self) {
        if self.hurried.load(Ordering::Relaxed) == 0 {
            return;
        }
        let busy = |_: &mut ()| self.hurried.load(Ordering::Relaxed) > 0 && !self.is_closed();
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.bell.wait_timeout_while(guard, PATIENCE, busy);
    }

    /// Sleeps unless it is told to end; says whether it was.
    pub(super) fn sleep(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.is_closed() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            (guard, _) = self.bell.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner);
        }
        true
    }
}
