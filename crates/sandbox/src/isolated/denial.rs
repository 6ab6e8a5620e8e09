//! Was it us? Reads what a failed command printed and names the rule of the sandbox that caused it.
//!
//! Words for errors and paths are taken from the output; the plan says what the rules do to such a path, and
//! whether this process could have done it outside tells a rule from an ordinary lack of permission.

use super::plan::{Network, Plan, Tier};
use crate::Outcome;
use rustix::fs::Access;
use std::path::{Path, PathBuf};

/// More remarks than this help nobody.
const MOST: usize = 3;

/// Words in which programs and languages say the same.
struct Words {
    read_only: bool,
    denied: bool,
    busy: bool,
    not_permitted: bool,
    missing: bool,
    no_process: bool,
}

impl Words {
    fn of(low: &str) -> Self {
        let has = |words: &[&str]| words.iter().any(|word| low.contains(word));
        Self {
            read_only: has(&["read-only file system", "erofs", "os error 30", "errno 30"]),
            denied: has(&["permission denied", "eacces", "os error 13", "errno 13"]),
            busy: has(&["device or resource busy", "ebusy", "errno 16", "os error 16"]),
            not_permitted: has(&["operation not permitted", "eperm", "os error 1)", "errno 1]"]),
            missing: has(&["no such file", "enoent", "connection refused", "cannot connect", "cannot open"]),
            no_process: has(&["no such process", "esrch", "errno 3]", "os error 3)"]),
        }
    }
}

const NETWORK: &[&str] = &[
    "network is unreachable",
    "enetunreach",
    "temporary failure in name resolution",
    "could not resolve",
    "couldn't resolve",
    "eai_again",
    "enotfound",
    "name or service not known",
    "failed to lookup address",
    "server misbehaving",
    "dns error",
    "dial udp",
];

const CALLS: &[&str] = &[
    "unshare",
    "mount",
    "namespace",
    "bwrap",
    "io_uring",
    "keyctl",
    "perf_event",
    "bpf",
    "ptrace",
    "setns",
    "chroot",
    "clone",
];

/// The paths in a line; relative ones only when they name `.git`.
fn paths(line: &str, workspaces: &[PathBuf]) -> Vec<PathBuf> {
    let words = line.split(|c: char| c.is_whitespace() || "'\"`‘’“”()[]<>,;=".contains(c));
    words
        .filter_map(|word| {
            let word =
                word.trim_start_matches("file://").trim_start_matches("unix://").trim_end_matches([':', '.']);
            if word.len() > 1 && word.starts_with('/') {
                Some(PathBuf::from(word))
            } else if word.starts_with(".git/") {
                workspaces.first().map(|workspace| workspace.join(word))
            } else {
                None
            }
        })
        .collect()
}

/// Could this process, outside the sandbox, write there? The nearest folder that exists decides.
fn we_could_write(path: &Path) -> bool {
    let nearest = path.ancestors().find(|p| p.exists());
    nearest.is_some_and(|p| rustix::fs::access(p, Access::WRITE_OK).is_ok())
}

/// Could this process, outside the sandbox, read there? What is missing, it could not.
fn we_could_read(path: &Path) -> bool {
    rustix::fs::access(path, Access::READ_OK).is_ok()
}

const PROCESSOR_TIME: &str = "the sandbox caps processor time; raise `cpu` to allow more";

/// What the way in which a command ended says about a cap.
pub(crate) fn explain_end(outcome: &Outcome, plan: &Plan) -> Option<String> {
    match outcome {
        Outcome::Signaled(libc::SIGXCPU) if plan.caps.cpu_seconds.is_some() => {
            Some(PROCESSOR_TIME.to_owned())
        }
        Outcome::Signaled(libc::SIGXFSZ) if plan.caps.file_size.is_some() => {
            Some("the sandbox caps the size of a file; raise `file_size` to allow more".to_owned())
        }
        Outcome::OutOfMemory { .. } => {
            Some("the sandbox caps memory; raise `memory` to allow more".to_owned())
        }
        _ => None,
    }
}

/// What the rules did to a command that printed `text` and failed, and how to allow it.
pub(crate) fn explain(text: &str, plan: &Plan, workspaces: &[PathBuf]) -> Vec<String> {
    let mut remarks: Vec<String> = Vec::new();
    for line in text.lines() {
        if let Some(remark) = line_remark(line, plan, workspaces)
            && !remarks.contains(&remark)
        {
            remarks.push(remark);
            if remarks.len() == MOST {
                break;
            }
        }
    }
    remarks
}

fn line_remark(line: &str, plan: &Plan, workspaces: &[PathBuf]) -> Option<String> {
    let low = line.to_lowercase();
    let words = Words::of(&low);
    let by_path = paths(line, workspaces).into_iter().find_map(|path| path_remark(&path, &words, plan));
    by_path.or_else(|| process_remark(&low, &words, plan)).or_else(|| general_remark(&low, &words, plan))
}

/// A process outside that was to be signalled or traced.
fn process_remark(low: &str, words: &Words, plan: &Plan) -> Option<String> {
    // The number of the error is no process: `[Errno 3]`, `(os error 3)`.
    let plain = ["errno ", "os error "].iter().fold(low.to_owned(), |text, word| {
        let mut parts = text.split(word);
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |all, part| all + part.trim_start_matches(|c: char| c.is_ascii_digit()))
    });
    let numbers = plain.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty());
    let mut outside = numbers.filter(|number| Path::new("/proc").join(number).exists());
    match plan.tier {
        Tier::Namespaces if words.no_process => outside.next().map(|number| {
            format!(
                "the sandbox has processes of its own: {number} runs outside, and nobody inside can see or signal it; \
                 end it outside the sandbox"
            )
        }),
        Tier::Landlock if words.not_permitted && low.contains("kill") => Some(
            "denied by the sandbox: processes outside cannot be signalled; do it outside the sandbox".to_owned(),
        ),
        _ => None,
    }
}

fn path_remark(path: &Path, words: &Words, plan: &Plan) -> Option<String> {
    let shown = path.display();
    let inside = |places: &[PathBuf]| places.iter().any(|place| path.starts_with(place));
    let run = ["/run", "/var/run"].map(PathBuf::from);
    let free = ["/tmp", "/var/tmp", "/dev", "/proc"].map(PathBuf::from);
    let namespaces = plan.tier == Tier::Namespaces;
    if namespaces && inside(&plan.frozen) && (words.read_only || words.busy || words.denied) {
        let who = if path.iter().any(|name| name == ".git") { "git" } else { "a program" };
        return Some(format!(
            "denied by the sandbox: {shown} is frozen, because {who} on the host would run what is written there; \
             change it outside the sandbox"
        ));
    }
    if inside(&plan.others) && (words.denied || words.missing || words.read_only) {
        return Some(format!(
            "denied by the sandbox: {shown} belongs to another workspace; name that one in `workspace`"
        ));
    }
    let unreadable = words.denied || words.missing || words.read_only;
    if unreadable && (inside(&plan.hidden_dirs) || inside(&plan.hidden_files)) && we_could_read(path) {
        return Some(format!(
            "denied by the sandbox: {shown} is hidden (credentials); add it to `read` to allow it"
        ));
    }
    if inside(&run) && (words.missing || words.denied) && path.exists() {
        return Some(format!("denied by the sandbox: {shown} is not reachable from inside"));
    }
    if namespaces && words.missing && path.starts_with("/tmp") && path.exists() && !inside(&plan.writable) {
        return Some(format!("the sandbox has a /tmp of its own: {shown} exists only on the host"));
    }
    let write_denied = words.read_only || (words.denied && !namespaces);
    if write_denied && !inside(&plan.writable) && !inside(&free) && we_could_write(path) {
        return Some(format!(
            "denied by the sandbox: {shown} is read-only inside; add its folder to `write` to allow it"
        ));
    }
    None
}

fn general_remark(low: &str, words: &Words, plan: &Plan) -> Option<String> {
    let has = |list: &[&str]| list.iter().any(|word| low.contains(word));
    let lookup = low.contains("lookup ") && low.contains(":53");
    if plan.network != Network::Host && !low.contains("127.0.0.1") && (has(NETWORK) || lookup) {
        return Some(format!(
            "denied by the sandbox: there is no network (`network: {}`); set `network: host` to allow it",
            plan.network.name()
        ));
    }
    if words.not_permitted && has(CALLS) {
        return Some(
            "denied by the sandbox: this system call is refused inside (namespaces, mounts, tracing)"
                .to_owned(),
        );
    }
    if low.contains("no usable sandbox") || low.contains("no-sandbox") {
        return Some(
            "the sandbox refuses a second one inside: start the browser with --no-sandbox".to_owned(),
        );
    }
    let memory = ["memoryerror", "cannot allocate memory", "out of memory", "enomem", "allocation failed"];
    if plan.caps.memory.is_some() && has(&memory) {
        return Some("the sandbox caps memory; raise `memory` to allow more".to_owned());
    }
    let processes = ["resource temporarily unavailable", "cannot fork", "can't fork", "eagain"];
    if plan.caps.pids.is_some() && has(&processes) && has(&["fork", "thread", "spawn", "process"]) {
        return Some("the sandbox caps processes; raise `pids` to allow more".to_owned());
    }
    if plan.caps.cpu_seconds.is_some() && has(&["cpu time limit exceeded", "sigxcpu"]) {
        return Some(PROCESSOR_TIME.to_owned());
    }
    if plan.caps.file_size.is_some() && has(&["file too large", "efbig", "file size limit"]) {
        return Some("the sandbox caps the size of a file; raise `file_size` to allow more".to_owned());
    }
    None
}
