//! What is mounted inside a workspace, and is therefore no part of it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::root::Workspace;
use crate::walk::leaves_out;

/// The list of mounts. It tells whoever holds it open that it changed.
const LIST: &str = "/proc/self/mountinfo";

/// The mounts below a root as the list had them the last time it changed.
#[derive(Default)]
pub(crate) struct Mounts(Mutex<Option<Known>>);

struct Known {
    list: File,
    below: Vec<PathBuf>,
}

impl Mounts {
    /// Paths below `root`, relative to it, on which something is mounted now.
    fn below(&self, root: &Path) -> Vec<PathBuf> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref().is_none_or(Known::changed) {
            // opened first: what changes from now on is told
            *known = File::open(LIST).ok().map(|list| {
                let text = fs::read(LIST).unwrap_or_default();
                Known { list, below: places(&text, root) }
            });
        }
        known.as_ref().map(|known| known.below.clone()).unwrap_or_default()
    }
}

impl Known {
    fn changed(&self) -> bool {
        let mut fds = [PollFd::new(&self.list, PollFlags::PRI)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)).is_err() || !fds[0].revents().is_empty()
    }
}

/// The places below `root` in a list of mounts.
fn places(list: &[u8], root: &Path) -> Vec<PathBuf> {
    let place = |line: &[u8]| {
        let place = line.split(|byte| *byte == b' ').nth(4)?;
        let place = PathBuf::from(OsString::from_vec(unescaped(place)));
        place.strip_prefix(root).ok().filter(|below| *below != Path::new("")).map(Path::to_owned)
    };
    let mut all: Vec<PathBuf> = list.split(|byte| *byte == b'\n').filter_map(place).collect();
    all.sort();
    // what is mounted below a mount is left out with it
    all.dedup_by(|later, kept| later.starts_with(kept));
    all
}

/// The list writes blanks, line ends and backslashes as a backslash and three octal digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let digits =
            after.first_chunk::<3>().filter(|digits| digits.iter().all(|d| (b'0'..=b'7').contains(d)));
        match (byte, digits) {
            (b'\\', Some([high, mid, low])) => {
                out.push((high & 3) << 6 | (mid & 7) << 3 | (low & 7));
                rest = &after[3..];
            }
            _ => {
                out.push(byte);
                rest = after;
            }
        }
    }
    out
}

impl Workspace {
    /// What is mounted below a folder and left out of every search there only for that reason.
    pub(crate) fn left_out_mounts(&self, start: &Path) -> Vec<PathBuf> {
        if self.options.cross_mounts {
            return Vec::new();
        }
        let mut below = self.mounts.below(self.root());
        below.retain(|place| place.starts_with(start) && !leaves_out(self, start, place));
        below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_below_the_root_are_found_whatever_their_names() {
        let list = b"24 1 0:22 / / rw - ext4 /dev/sda rw\n\
            61 24 0:41 / /home/a\\040b/work rw shared:2 - overlay overlay rw\n\
            62 24 0:42 / /home/a\\040b/work/cache\\134x rw - tmpfs none rw\n\
            63 62 0:43 / /home/a\\040b/work/cache\\134x/deep rw - tmpfs none rw\n\
            64 24 0:44 / /home/a\\040b/workshop rw - tmpfs none rw\n\
            nonsense\n";
        assert_eq!(places(list, Path::new("/home/a b/work")), [Path::new("cache\\x")]);
    }
}
