//! Messages between the server, the spawner and the supervisors: one packet each, descriptors alongside.

use rustix::{
    fs::{MemfdFlags, SeekFrom},
    io::Errno,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    },
};
use std::{
    ffi::{CStr, OsStr},
    io::{IoSlice, IoSliceMut, Read as _, Write as _},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
};

/// A packet never carries more descriptors than this.
const MOST_FDS: usize = 5;
/// Larger start requests travel in an anonymous file, because a packet is bounded by the socket's buffer.
const LARGEST_PACKET: usize = 64 * 1024;

/// Asks the spawner for a zygote on the first descriptor, built after the plan in the second, in namespaces of the process
/// in the third, if there is one.
pub(crate) const MAKE_ZYGOTE: u8 = b'Z';
/// Asks a spawner or zygote for a supervisor on the first descriptor, which joins the control group whose list
/// of members is the second, if there is one.
pub(crate) const MAKE_WORKER: u8 = b'W';
/// Asks a spawner to close the descriptor sent along once no orphan of a dead supervisor is left.
pub(crate) const SETTLE: u8 = b'S';
/// Asks a supervisor to start a program.
pub(crate) const RUN: u8 = b'R';
/// The same, the request being in the last descriptor.
pub(crate) const RUN_LARGE: u8 = b'L';
/// Asks a supervisor to end the program and every descendant.
pub(crate) const KILL: u8 = b'K';

/// A connected pair of packet sockets.
pub(crate) fn socket_pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// Sends one packet without waiting.
pub(crate) fn send(socket: impl AsFd, data: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::INVAL);
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::io::retry_on_intr(|| {
        rustix::net::sendmsg(&socket, &[IoSlice::new(data)], &mut control, flags).map(drop)
    })
}

/// Receives one packet without waiting. Zero bytes mean that the other side is gone.
pub(crate) fn receive(socket: impl AsFd, buffer: &mut [u8]) -> Result<(usize, Vec<OwnedFd>), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let got = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(&socket, &mut [IoSliceMut::new(buffer)], &mut control, flags)
    })?;
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    Ok((got.bytes, fds))
}

/// What a supervisor is to start. Strings are bytes without NUL.
pub(crate) struct Run<'a> {
    pub(crate) command: &'a OsStr,
    pub(crate) args: &'a [String],
    pub(crate) env: &'a [(&'a OsStr, &'a OsStr)],
    pub(crate) cwd: Option<&'a OsStr>,
    /// Whether the first descriptor is stdin; otherwise stdin is /dev/null.
    pub(crate) stdin: bool,
    pub(crate) terminal: bool,
    /// Whether the caller wants to hear of a successful start before the end.
    pub(crate) announce: bool,
}

const HEADER: usize = 12;
const STDIN: u8 = 1;
const TERMINAL: u8 = 2;
const ANNOUNCE: u8 = 4;

impl Run<'_> {
    /// One packet, and the anonymous file it may need.
    pub(crate) fn encode(&self) -> Result<(Vec<u8>, Option<OwnedFd>), String> {
        let mut flags = 0;
        for (set, bit) in [(self.stdin, STDIN), (self.terminal, TERMINAL), (self.announce, ANNOUNCE)] {
            flags |= if set { bit } else { 0 };
        }
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).to_ne_bytes();
        let mut out = Vec::with_capacity(4096);
        out.extend([RUN, flags, 0, 0]);
        out.extend(count(self.args.len() + 1));
        out.extend(count(self.env.len()));
        let cwd = self.cwd.map_or(b"".as_slice(), OsStrExt::as_bytes);
        push(&mut out, &[cwd]);
        push(&mut out, &[self.command.as_bytes()]);
        for arg in self.args {
            push(&mut out, &[arg.as_bytes()]);
        }
        for (key, value) in self.env {
            push(&mut out, &[key.as_bytes(), b"=", value.as_bytes()]);
        }
        // Counted in one go: every string ends in one, and there must be no other.
        let nuls = out[HEADER..].iter().filter(|byte| **byte == 0).count();
        if nuls != self.args.len() + self.env.len() + 2 {
            return Err(format!("{} contains a NUL byte", self.with_nul()));
        }
        if out.len() <= LARGEST_PACKET {
            return Ok((out, None));
        }
        let file = in_memory_file(&out)
            .map_err(|e| format!("cannot hand over {} bytes of arguments: {e}", out.len()))?;
        Ok((vec![RUN_LARGE], Some(file)))
    }

    /// The kind of the string that cannot be handed over.
    fn with_nul(&self) -> &'static str {
        let nul = |text: &OsStr| text.as_bytes().contains(&0);
        if self.cwd.is_some_and(nul) {
            "the working directory"
        } else if nul(self.command) {
            "the command"
        } else if self.args.iter().any(|arg| nul(arg.as_ref())) {
            "an argument"
        } else {
            "an environment entry"
        }
    }
}

fn push(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        out.extend_from_slice(part);
    }
    out.push(0);
}

/// An anonymous file with this content, to be read from its beginning.
pub(crate) fn in_memory_file(data: &[u8]) -> std::io::Result<OwnedFd> {
    let mut file = std::fs::File::from(rustix::fs::memfd_create(c"request", MemfdFlags::CLOEXEC)?);
    file.write_all(data)?;
    rustix::fs::seek(&file, SeekFrom::Start(0))?;
    Ok(file.into())
}

/// The content of such a file.
pub(crate) fn read_file(file: OwnedFd) -> std::io::Result<Vec<u8>> {
    let mut data = Vec::new();
    std::fs::File::from(file).read_to_end(&mut data)?;
    Ok(data)
}

/// A [`Run`] as the supervisor sees it: borrowed from the packet.
pub(crate) struct RunView<'a> {
    pub(crate) argv: Vec<&'a CStr>,
    pub(crate) envp: Vec<&'a CStr>,
    pub(crate) cwd: Option<&'a CStr>,
    pub(crate) stdin: bool,
    pub(crate) terminal: bool,
    pub(crate) announce: bool,
}

impl<'a> RunView<'a> {
    pub(crate) fn decode(packet: &'a [u8]) -> Option<Self> {
        let (header, body) = packet.split_at_checked(HEADER)?;
        let number = |at: usize| -> Option<usize> {
            usize::try_from(u32::from_ne_bytes(*header.get(at..)?.first_chunk()?)).ok()
        };
        let flags = header[1];
        let mut rest = body;
        let cwd = *take_strings(&mut rest, 1).first()?;
        let argv = take_strings(&mut rest, number(4)?);
        let envp = take_strings(&mut rest, number(8)?);
        Some(Self {
            argv,
            envp,
            cwd: (!cwd.is_empty()).then_some(cwd),
            stdin: flags & STDIN != 0,
            terminal: flags & TERMINAL != 0,
            announce: flags & ANNOUNCE != 0,
        })
    }
}

/// Takes so many strings off the beginning of `rest`, or as many as there are.
pub(crate) fn take_strings<'a>(rest: &mut &'a [u8], count: usize) -> Vec<&'a CStr> {
    let mut taken = Vec::with_capacity(count.min(64));
    let mut left = *rest;
    while taken.len() < count
        && let Ok(string) = CStr::from_bytes_until_nul(left)
    {
        left = &left[string.count_bytes() + 1..];
        taken.push(string);
    }
    *rest = left;
    taken
}

/// What a supervisor or zygote says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Report {
    /// The program runs.
    Started,
    /// The program and every descendant are gone.
    Ended {
        /// As `wait` gave it.
        status: i32,
        /// Which cap the supervisor enforced, if any.
        exceeded: Option<Exceeded>,
    },
    /// Nothing was started.
    Failed {
        /// The step, as a number of `Stage`.
        stage: u8,
        errno: i32,
    },
    /// The process could not be set up and has ended.
    Broken(String),
    /// The process is set up, but for what is said here, which is nothing as a rule; its own pidfd may come along.
    Ready(String),
}

/// A cap that the supervisor watches over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exceeded {
    Memory,
    Pids,
    Cpu,
}

/// The longest report.
pub(crate) const REPORT: usize = 512;

impl Report {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (kind, detail, value) = match self {
            Self::Started => (1, 0, 0),
            Self::Ended { status, exceeded: None } => (2, 0, *status),
            Self::Ended { status, exceeded: Some(Exceeded::Memory) } => (2, 1, *status),
            Self::Ended { status, exceeded: Some(Exceeded::Pids) } => (2, 2, *status),
            Self::Ended { status, exceeded: Some(Exceeded::Cpu) } => (2, 3, *status),
            Self::Failed { stage, errno } => (3, *stage, *errno),
            Self::Broken(_) => (4, 0, 0),
            Self::Ready(_) => (5, 0, 0),
        };
        let mut out = vec![kind, detail];
        out.extend(value.to_ne_bytes());
        if let Self::Broken(why) | Self::Ready(why) = self {
            out.extend(why.bytes().take(REPORT - out.len()));
        }
        out
    }

    pub(crate) fn decode(packet: &[u8]) -> Option<Self> {
        let ([kind, detail], rest) = packet.split_first_chunk()?;
        let (value, text) = rest.split_first_chunk()?;
        let value = i32::from_ne_bytes(*value);
        Some(match (kind, detail) {
            (1, _) => Self::Started,
            (2, 0) => Self::Ended { status: value, exceeded: None },
            (2, 1) => Self::Ended { status: value, exceeded: Some(Exceeded::Memory) },
            (2, 2) => Self::Ended { status: value, exceeded: Some(Exceeded::Pids) },
            (2, 3) => Self::Ended { status: value, exceeded: Some(Exceeded::Cpu) },
            (3, stage) => Self::Failed { stage: *stage, errno: value },
            (4, _) => Self::Broken(String::from_utf8_lossy(text).into_owned()),
            (5, _) => Self::Ready(String::from_utf8_lossy(text).into_owned()),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_survive_the_way() {
        for report in [
            Report::Started,
            Report::Ended { status: 256, exceeded: None },
            Report::Ended { status: 9, exceeded: Some(Exceeded::Memory) },
            Report::Ended { status: 9, exceeded: Some(Exceeded::Pids) },
            Report::Ended { status: 9, exceeded: Some(Exceeded::Cpu) },
            Report::Failed { stage: 3, errno: 2 },
            Report::Broken("mount /proc: not permitted".into()),
            Report::Ready(String::new()),
            Report::Ready("freeze .git/hooks: invalid argument".into()),
        ] {
            assert_eq!(Report::decode(&report.encode()), Some(report));
        }
        assert_eq!(Report::decode(b""), None);
        assert_eq!(Report::decode(&[9; 16]), None);
    }
}
