//! The server's ends of a program's standard streams, as asynchronous readers and writers.

use crate::capture::Capture;
use rustix::{io::Errno, pipe::PipeFlags, pty::OpenptFlags, termios::Winsize};
use std::{
    io,
    os::fd::OwnedFd,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, unix::AsyncFd};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// A pipe as (ours, theirs), ours read without waiting.
pub(crate) fn output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&read, true)?;
    Ok((read, write))
}

/// A pipe as (ours, theirs), ours written without waiting.
pub(crate) fn input_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&write, true)?;
    Ok((write, read))
}

/// A pseudo-terminal as (ours, theirs).
pub(crate) fn terminal(cols: u16, rows: u16) -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = rustix::pty::openpt(flags)?;
    rustix::pty::grantpt(&ours)?;
    rustix::pty::unlockpt(&ours)?;
    let theirs = rustix::pty::ioctl_tiocgptpeer(&ours, flags)?;
    resize(&ours, cols, rows)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}

/// Changes the size of a terminal; the program is told by the kernel.
pub(crate) fn resize(terminal: &OwnedFd, cols: u16, rows: u16) -> io::Result<()> {
    let size = Winsize { ws_col: cols, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(rustix::termios::tcsetwinsize(terminal, size)?)
}

/// What a program writes.
///
/// It ends when the last writer closes it, or when the program and all its descendants are gone and what
/// they wrote is read: a foreign process that got hold of the pipe cannot keep the reader waiting.
pub(crate) struct Output {
    fd: Arc<AsyncFd<OwnedFd>>,
    ended: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Sees everything that is read.
    tap: Option<Tap>,
}

/// Keeps the beginning and the end of what passes by.
pub(crate) type Tap = Arc<Mutex<Capture>>;

impl Output {
    pub(crate) fn new(fd: Arc<AsyncFd<OwnedFd>>, ended: CancellationToken) -> Self {
        Self { fd, ended: Box::pin(ended.cancelled_owned()), tap: None }
    }

    pub(crate) fn tapped(mut self, tap: Option<Tap>) -> Self {
        self.tap = tap;
        self
    }
}

/// The far side of a terminal that everybody has left reads as an error, which means the end.
fn read_some(fd: &OwnedFd, buffer: &mut ReadBuf<'_>) -> io::Result<()> {
    match rustix::io::read(fd, buffer.initialize_unfilled()) {
        Ok(n) => {
            buffer.advance(n);
            Ok(())
        }
        Err(Errno::IO) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl AsyncRead for Output {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let done = ready!(self.poll_some(cx, buffer));
        if let Some(tap) = &self.tap {
            tap.lock().unwrap_or_else(PoisonError::into_inner).push(&buffer.filled()[before..]);
        }
        Poll::Ready(done)
    }
}

impl Output {
    fn poll_some(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let this = &mut *self;
            match this.fd.poll_read_ready(cx) {
                Poll::Ready(ready) => {
                    if let Ok(done) = ready?.try_io(|fd| read_some(fd.get_ref(), buffer)) {
                        return Poll::Ready(done);
                    }
                }
                Poll::Pending => {
                    ready!(this.ended.as_mut().poll(cx));
                    return Poll::Ready(match read_some(this.fd.get_ref(), buffer) {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
                        done => done,
                    });
                }
            }
        }
    }
}

/// What a program reads.
pub(crate) struct Input(Arc<AsyncFd<OwnedFd>>);

impl Input {
    pub(crate) fn new(fd: Arc<AsyncFd<OwnedFd>>) -> Self {
        Self(fd)
    }
}

impl AsyncWrite for Input {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.0.poll_write_ready(cx))?;
            if let Ok(done) =
                guard.try_io(|fd| rustix::io::write(fd.get_ref(), data).map_err(io::Error::from))
            {
                return Poll::Ready(done);
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// The program sees the end when this is dropped.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
