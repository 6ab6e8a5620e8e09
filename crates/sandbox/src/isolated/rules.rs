//! Landlock: the write fence of both tiers, the read fence of the tier without mounts, and the signal scope.

use super::{
    mounts::{DEVICES, Doing as _},
    plan::Plan,
};
use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, Scope,
};
use std::{
    io,
    path::{Path, PathBuf},
};

/// The newest file-access rights these rules know.
const RIGHTS: ABI = ABI::V5;

/// Places for terminals and shared memory.
const DEVICE_FOLDERS: [&str; 3] = ["/dev/ptmx", "/dev/pts", "/dev/shm"];

fn failed(error: impl std::error::Error) -> io::Error {
    io::Error::other(error.to_string())
}

fn base() -> io::Result<RulesetCreated> {
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(RIGHTS))
        .and_then(|rules| rules.scope(Scope::AbstractUnixSocket | Scope::Signal))
        .and_then(Ruleset::create)
        .map_err(failed)
        .doing("Landlock")
}

fn allow(
    mut rules: RulesetCreated,
    paths: impl IntoIterator<Item = impl AsRef<Path>>,
    access: BitFlags<AccessFs>,
) -> io::Result<RulesetCreated> {
    for path in paths {
        let path = path.as_ref();
        // What went away meanwhile needs no rule.
        let Ok(fd) = PathFd::new(path) else { continue };
        let access = if path.is_dir() { access } else { access & AccessFs::from_file(RIGHTS) };
        rules = rules.add_rule(PathBeneath::new(fd, access)).map_err(failed).doing("Landlock")?;
    }
    Ok(rules)
}

/// With mounts the reads are fenced already: read all but devices, write what the mounts leave writable.
pub(crate) fn beside_mounts(plan: &Plan) -> io::Result<RulesetCreated> {
    let rules = allow(base()?, ["/"], AccessFs::ReadDir.into())?;
    let rules =
        allow(rules, readable_beside(Path::new("/"), &[PathBuf::from("/dev")]), AccessFs::from_read(RIGHTS))?;
    let rules = allow(rules, plan.writable.iter().chain(plan.instead.get(1)), AccessFs::from_all(RIGHTS))?;
    let rules = allow(rules, ["/tmp", "/var/tmp", "/proc"], AccessFs::from_all(RIGHTS))?;
    let rules = allow(rules, DEVICES, AccessFs::from_all(RIGHTS))?;
    allow(rules, DEVICE_FOLDERS, AccessFs::from_all(RIGHTS))
}

/// Without mounts: read what is not hidden, write what is writable. Folders can be listed everywhere. Nothing
/// below /proc is writable: for root, /proc/sys would be open.
pub(crate) fn alone(plan: &Plan) -> io::Result<RulesetCreated> {
    let rules = allow(base()?, ["/"], AccessFs::ReadDir.into())?;
    let rules = allow(rules, &plan.readable, AccessFs::from_read(RIGHTS))?;
    let rules = allow(rules, &plan.writable, AccessFs::from_all(RIGHTS))?;
    let rules = allow(rules, plan.shared.iter().chain([&plan.tmp]), AccessFs::from_all(RIGHTS))?;
    let rules = allow(rules, DEVICES, AccessFs::from_all(RIGHTS))?;
    allow(rules, DEVICE_FOLDERS, AccessFs::from_all(RIGHTS))
}

/// Puts this process into a domain that nobody inside can signal out of. `kill(-1)` then reaches exactly the
/// domain: every descendant, whatever its session or parent, in one pass.
pub(crate) fn enter_signal_domain() -> io::Result<()> {
    // A layer that does not grant REFER forbids all renames between folders, even when it handles no files.
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::Refer)
        .and_then(|rules| rules.scope(Scope::Signal))
        .and_then(Ruleset::create)
        .map_err(failed)?;
    let rules = allow(rules, ["/"], AccessFs::Refer.into())?;
    rules.restrict_self().map_err(failed).map(drop)
}

/// Everything below `folder` that is neither hidden nor above something hidden.
pub(crate) fn readable_beside(folder: &Path, hidden: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir(folder) else { return found };
    for entry in entries.flatten() {
        let path = entry.path();
        let link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        if link || hidden.contains(&path) {
            continue;
        }
        if hidden.iter().any(|h| h.starts_with(&path)) {
            found.extend(readable_beside(&path, hidden));
        } else {
            found.push(path);
        }
    }
    // The order of a folder is not stable, and plans are compared.
    found.sort();
    found
}
