//! The workspace's own inotify descriptor, read by whoever is about to answer: the kernel queues an event before the
//! write that caused it returns, so what was done before a query is in the queue when the query reads it.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

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
    /// The root as the list of mounts writes it.
    root: String,
    /// What is mounted at, above or below the root.
    mounted: AtomicU64,
}

/// What is read at once.
const BUFFER: usize = 16 << 10;
/// An event without a name, and the largest there can be.
const EVENT: usize = 16;
const LARGEST: usize = EVENT + 256;

/// The list of mounts.
const MOUNTS: &str = "/proc/self/mountinfo";

impl Journal {
    /// For the folder with this absolute path.
    pub(super) fn new(root: &Path) -> Result<Self> {
        let fd = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        // what happens after this is told
        let mounts = File::open(MOUNTS).ok();
        let root = escaped(&root.to_string_lossy());
        let mounted = AtomicU64::new(mounted(&root));
        Ok(Self { fd, mounts, root, mounted })
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
        let mut buffer = [MaybeUninit::uninit(); BUFFER];
        let mut reader = Reader::new(&self.fd, &mut buffer);
        let mut filled = 0;
        loop {
            match reader.next() {
                Ok(event) => {
                    let name = event.file_name().map(|name| name.to_bytes().to_vec()).unwrap_or_default();
                    filled += EVENT + name.len();
                    events.push(Event { watch: event.wd(), flags: event.events(), name });
                }
                Err(Errno::INTR) => continue,
                Err(_) => return,
            }
            if reader.is_buffer_empty() {
                // the kernel gives as many as fit: with room for another there was no other. What it adds to names
                // is less than they take without.
                if 2 * (filled + LARGEST) <= BUFFER {
                    return;
                }
                filled = 0;
            }
        }
    }

    /// Whether something was mounted or unmounted that may show in the workspace since the last time this was asked.
    /// Elsewhere it happens all the time: every container that starts is a mount.
    pub(super) fn mounts_changed(&self) -> bool {
        let Some(mounts) = &self.mounts else { return false };
        let mut fds = [PollFd::new(mounts, PollFlags::PRI)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        // asking resets it
        let told = poll(&mut fds, Some(&now)).is_ok()
            && fds[0].revents().intersects(PollFlags::PRI | PollFlags::ERR);
        told && {
            let now = mounted(&self.root);
            self.mounted.swap(now, Ordering::Relaxed) != now
        }
    }
}

/// A number for what is mounted at, above and below a folder.
fn mounted(root: &str) -> u64 {
    let list = fs::read(MOUNTS).unwrap_or_default();
    let list = String::from_utf8_lossy(&list);
    let mut hasher = DefaultHasher::new();
    list.lines().filter(|line| concerns(line, root)).for_each(|line| line.hash(&mut hasher));
    hasher.finish()
}

/// Whether a line of the list of mounts is about a place at, above or below a folder.
fn concerns(line: &str, root: &str) -> bool {
    let Some(place) = line.split(' ').nth(4).filter(|place| place.starts_with('/')) else { return true };
    let within = |inner: &str, outer: &str| {
        let rest = inner.strip_prefix(outer.trim_end_matches('/'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    within(place, root) || within(root, place)
}

/// A path as the list of mounts writes it.
fn escaped(path: &str) -> String {
    path.replace('\\', "\\134").replace(' ', "\\040").replace('\t', "\\011").replace('\n', "\\012")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mounts_on_the_way_to_the_workspace_and_in_it_concern_it() {
        let root = escaped("/home/a b/work");
        let line = |place: &str| format!("61 43 0:41 / {place} rw,relatime shared:2 - overlay overlay rw");
        for place in ["/", "/home", "/home/a\\040b", "/home/a\\040b/work", "/home/a\\040b/work/deep/er"] {
            assert!(concerns(&line(place), &root), "{place}");
        }
        for place in ["/var/lib/docker/x", "/home/a\\040b/worker", "/home/a\\040b/other", "/homes"] {
            assert!(!concerns(&line(place), &root), "{place}");
        }
        assert!(concerns("no line as we know it", &root));
    }
}
