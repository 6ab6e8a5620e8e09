//! The workspace's own inotify descriptor, read by whoever is about to answer: the kernel queues an event before the
//! write that caused it returns, so what was done before a query is in the queue when the query reads it.

use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd as _;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::{Errno, Result};

/// One thing that happened in a watched folder.
pub(super) struct Event {
    pub(super) watch: i32,
    pub(super) flags: ReadFlags,
    /// Empty when it happened to the folder itself.
    pub(super) name: Vec<u8>,
}

/// The watches of one workspace.
pub(super) struct Journal {
    fd: OwnedFd,
    mounts: Option<File>,
}

impl Journal {
    pub(super) fn new() -> Result<Self> {
        let fd = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        Ok(Self { fd, mounts: File::open("/proc/self/mountinfo").ok() })
    }

    /// Watches an open folder: this very one, whatever its name leads to by now.
    pub(super) fn watch(&self, folder: BorrowedFd<'_>) -> Result<i32> {
        let flags = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MODIFY
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::ATTRIB
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        inotify::add_watch(&self.fd, format!("/proc/self/fd/{}", folder.as_raw_fd()), flags)
    }

    pub(super) fn forget(&self, watch: i32) {
        let _ = inotify::remove_watch(&self.fd, watch);
    }

    /// Adds everything that is queued now.
    pub(super) fn drain(&self, events: &mut Vec<Event>) {
        let mut buffer = [MaybeUninit::uninit(); 16 << 10];
        let mut reader = Reader::new(&self.fd, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) => events.push(Event {
                    watch: event.wd(),
                    flags: event.events(),
                    name: event.file_name().map(|name| name.to_bytes().to_vec()).unwrap_or_default(),
                }),
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    /// Whether something was mounted or unmounted since the last time this was asked.
    pub(super) fn mounts_changed(&self) -> bool {
        let Some(mounts) = &self.mounts else { return false };
        let mut fds = [PollFd::new(mounts, PollFlags::PRI)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        // asking resets it
        poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().intersects(PollFlags::PRI | PollFlags::ERR)
    }
}
