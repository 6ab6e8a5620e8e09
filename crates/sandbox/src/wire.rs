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
    ffi::{CStr, OsStr, OsString},
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

/// Asks a spawner for a supervisor on the descriptor sent along.
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
    pub(crate) env: &'a [(OsString, OsString)],
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
        push(&mut out, &[self.cwd.map_or(b"", OsStrExt::as_bytes)], "the working directory")?;
        push(&mut out, &[self.command.as_bytes()], "the command")?;
        for arg in self.args {
            push(&mut out, &[arg.as_bytes()], "an argument")?;
        }
        for (key, value) in self.env {
            push(&mut out, &[key.as_bytes(), b"=", value.as_bytes()], "an environment entry")?;
        }
        if out.len() <= LARGEST_PACKET {
            return Ok((out, None));
        }
        let file = in_memory_file(&out)
            .map_err(|e| format!("cannot hand over {} bytes of arguments: {e}", out.len()))?;
        Ok((vec![RUN_LARGE], Some(file)))
    }
}

fn push(out: &mut Vec<u8>, parts: &[&[u8]], what: &str) -> Result<(), String> {
    for part in parts {
        if part.contains(&0) {
            return Err(format!("{what} contains a NUL byte"));
        }
        out.extend_from_slice(part);
    }
    out.push(0);
    Ok(())
}

fn in_memory_file(data: &[u8]) -> std::io::Result<OwnedFd> {
    let mut file = std::fs::File::from(rustix::fs::memfd_create(c"request", MemfdFlags::CLOEXEC)?);
    file.write_all(data)?;
    rustix::fs::seek(&file, SeekFrom::Start(0))?;
    Ok(file.into())
}

/// The request of a [`RUN_LARGE`] packet.
pub(crate) fn read_large(file: OwnedFd) -> std::io::Result<Vec<u8>> {
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
        let mut strings = body.split_inclusive(|b| *b == 0).map_while(|s| CStr::from_bytes_with_nul(s).ok());
        let cwd = strings.next()?;
        let argv: Vec<_> = strings.by_ref().take(number(4)?).collect();
        let envp: Vec<_> = strings.take(number(8)?).collect();
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

/// What a supervisor says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Report {
    /// The program runs.
    Started,
    /// The program and every descendant are gone.
    Ended {
        /// As `wait` gave it.
        status: i32,
        /// The largest resident set of the program, in KiB.
        peak_kib: u64,
    },
    /// Nothing was started.
    Failed {
        /// The step, as a number of `Stage`.
        stage: u8,
        errno: i32,
    },
}

/// The length of every report.
pub(crate) const REPORT: usize = 16;

impl Report {
    pub(crate) fn encode(self) -> [u8; REPORT] {
        let (kind, stage, value, extra) = match self {
            Self::Started => (1, 0, 0, 0),
            Self::Ended { status, peak_kib } => (2, 0, status, peak_kib),
            Self::Failed { stage, errno } => (3, stage, errno, 0),
        };
        let mut out = [0; REPORT];
        (out[0], out[1]) = (kind, stage);
        out[4..8].copy_from_slice(&value.to_ne_bytes());
        out[8..].copy_from_slice(&extra.to_ne_bytes());
        out
    }

    pub(crate) fn decode(packet: &[u8]) -> Option<Self> {
        let value = i32::from_ne_bytes(*packet.get(4..)?.first_chunk()?);
        let extra = u64::from_ne_bytes(*packet.get(8..)?.first_chunk()?);
        match packet[0] {
            1 => Some(Self::Started),
            2 => Some(Self::Ended { status: value, peak_kib: extra }),
            3 => Some(Self::Failed { stage: packet[1], errno: value }),
            _ => None,
        }
    }
}
