//! What a worker gives up before it serves: capabilities and resources.

use super::{mounts::Doing as _, plan::Caps};
use rustix::{
    process::{Resource, Rlimit},
    thread::{CapabilitySet, CapabilitySets},
};
use std::{fs, io};

/// What root keeps: the file powers that builds use, nothing that could undo a mount. Others have nothing.
fn kept() -> CapabilitySet {
    if rustix::process::geteuid().is_root() {
        CapabilitySet::CHOWN
            | CapabilitySet::DAC_OVERRIDE
            | CapabilitySet::FOWNER
            | CapabilitySet::FSETID
            | CapabilitySet::KILL
            | CapabilitySet::SETGID
            | CapabilitySet::SETUID
            | CapabilitySet::NET_BIND_SERVICE
    } else {
        CapabilitySet::empty()
    }
}

pub(crate) fn drop_capabilities() -> io::Result<()> {
    let kept = kept();
    for capability in CapabilitySet::all().difference(kept).iter() {
        // Without the power to change the set (an ordinary user), no_new_privs closes the same way.
        let _ = rustix::thread::remove_capability_from_bounding_set(capability);
    }
    let _ = rustix::thread::clear_ambient_capability_set();
    let held = rustix::thread::capabilities(None).doing("capabilities")?.permitted & kept;
    let sets = CapabilitySets { effective: held, permitted: held, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets).doing("capabilities")
}

/// Limits that the kernel enforces on every process below.
pub(crate) fn limits(caps: &Caps, grouped: bool) -> io::Result<()> {
    let set = |resource, value: Option<u64>| -> io::Result<()> {
        let Some(value) = value else { return Ok(()) };
        let hard = rustix::process::getrlimit(resource).maximum.map_or(value, |hard| hard.min(value));
        rustix::process::setrlimit(resource, Rlimit { current: Some(hard), maximum: Some(hard) })
            .doing(&format!("{resource:?} limit"))
    };
    set(Resource::Core, Some(0))?;
    if let Some(seconds) = caps.cpu_seconds {
        let most = rustix::process::getrlimit(Resource::Cpu).maximum.unwrap_or(u64::MAX);
        // The first second over it is a signal that says why; whoever does not heed that is killed after it.
        let (current, maximum) = (seconds.min(most), seconds.saturating_add(1).min(most));
        rustix::process::setrlimit(Resource::Cpu, Rlimit { current: Some(current), maximum: Some(maximum) })
            .doing("Cpu limit")?;
    }
    set(Resource::Fsize, caps.file_size)?;
    if !grouped {
        // Data, not address space: many runtimes reserve far more of the latter than they ever use. Above the cap,
        // so that the watchdog comes first and can name the reason; this is for what grows faster than it looks.
        set(Resource::Data, caps.memory.map(|cap| cap.saturating_add(cap / 2)))?;
    }
    // The command goes first when the machine runs out of memory.
    let _ = fs::write("/proc/self/oom_score_adj", "500");
    Ok(())
}
