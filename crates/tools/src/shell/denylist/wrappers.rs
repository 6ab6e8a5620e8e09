//! Commands that start other commands, and where in their words those stand.

use std::ops::Range;

use super::{base_name, is_assignment};

/// What a command starts.
pub(super) enum Next {
    /// Nothing that can be told.
    Nothing,
    /// The command that begins at this word.
    Command(usize),
    /// Several commands.
    Commands(Vec<Range<usize>>),
    /// A text for a shell.
    Script(String),
    /// A shell without a text of its own.
    Shell(Reads),
}

/// Where a shell takes its commands from.
pub(super) enum Reads {
    /// Its standard input.
    Input,
}

/// Programs that run the command given after their own options: name, options that take a value, and how many
/// words of their own come before it.
const WRAPPERS: &[(&str, &[&str], usize)] = &[
    ("builtin", &[], 0),
    ("busybox", &[], 0),
    ("catchsegv", &[], 0),
    ("chrt", &["-T", "-P", "-D"], 1),
    ("command", &[], 0),
    ("coproc", &[], 0),
    ("doas", &["-u", "-C"], 0),
    ("env", &["-u", "--unset", "-C", "--chdir"], 0),
    ("exec", &["-a"], 0),
    ("fakeroot", &["-l", "-f", "-i", "-s", "-b"], 0),
    ("firejail", &[], 0),
    ("ionice", &["-c", "-n", "--class", "--classdata"], 0),
    ("ltrace", &["-e", "-o", "-p", "-s", "-u"], 0),
    ("nice", &["-n", "--adjustment"], 0),
    ("nohup", &[], 0),
    ("numactl", &["-m", "-N", "-C", "-i"], 0),
    ("parallel", &["-j", "--jobs", "-n", "-N", "-I", "-a", "-S"], 0),
    ("perf", &["-e", "-o"], 1),
    ("pkexec", &["--user"], 0),
    ("runuser", &["-u", "-g", "-G"], 0),
    ("setarch", &[], 1),
    ("setpriv", &[], 0),
    ("setsid", &[], 0),
    ("stdbuf", &["-i", "-o", "-e"], 0),
    ("strace", &["-e", "-o", "-p", "-s", "-u", "-P"], 0),
    ("taskset", &[], 1),
    ("time", &["-f", "-o", "--format", "--output"], 0),
    ("timeout", &["-k", "-s", "--kill-after", "--signal"], 1),
    ("toybox", &[], 0),
    ("unbuffer", &[], 0),
    ("unshare", &["-S", "-G", "-R", "-w", "--map-user", "--map-group"], 0),
    ("nsenter", &["-t", "-S", "-G", "--target"], 0),
    ("valgrind", &[], 0),
    (
        "xargs",
        &[
            "-I",
            "-n",
            "-P",
            "-L",
            "-d",
            "-s",
            "-a",
            "-E",
            "--replace",
            "--max-args",
            "--max-procs",
            "--delimiter",
            "--arg-file",
        ],
        0,
    ),
    ("xvfb-run", &["-n", "-s", "-e", "-f", "-w"], 0),
];

const SHELLS: &[&str] = &["bash", "sh", "dash", "zsh", "ksh", "ash", "mksh", "rbash", "fish"];

/// What the command in `words` starts in turn.
pub(super) fn next(words: &[String]) -> Next {
    let Some(name) = words.first().map(|word| base_name(word)) else { return Next::Nothing };
    let arguments = &words[1..];
    if SHELLS.contains(&name) {
        return shell(arguments);
    }
    match name {
        "source" | "." => {
            let reads = arguments.first().is_some_and(|word| is_input(word));
            return if reads { Next::Shell(Reads::Input) } else { Next::Nothing };
        }
        "eval" | "watch" => return Next::Script(plain(arguments, &["-n", "--interval"]).join(" ")),
        "trap" | "alias" => return trap_or_alias(name, arguments),
        "script" | "flock" => {
            if let Some(at) = arguments.iter().position(|word| word == "-c" || word == "--command")
                && let Some(text) = arguments.get(at + 1)
            {
                return Next::Script(text.clone());
            }
        }
        "find" | "fd" | "fdfind" => return exec_ranges(words),
        "command" if arguments.first().is_some_and(|word| word == "-v" || word == "-V") => {
            return Next::Nothing;
        }
        "env" => {
            if let Some(text) = split_string(arguments) {
                return Next::Script(text);
            }
        }
        _ => {}
    }
    let own = if name == "flock" { Some((&["-w", "-E"][..], 1)) } else { wrapper(name) };
    own.map_or(Next::Nothing, |(valued, positional)| after_options(words, valued, positional))
}

fn wrapper(name: &str) -> Option<(&'static [&'static str], usize)> {
    WRAPPERS
        .iter()
        .find(|(wrapper, ..)| *wrapper == name)
        .map(|(_, valued, positional)| (*valued, *positional))
}

/// Skips options, their values, assignments and the wrapper's own words.
fn after_options(words: &[String], valued: &[&str], mut positional: usize) -> Next {
    let mut at = 1;
    while let Some(word) = words.get(at) {
        if word.starts_with('-') && word.len() > 1 {
            at += 1 + usize::from(valued.contains(&word.as_str()));
        } else if is_assignment(word) {
            at += 1;
        } else if positional > 0 {
            positional -= 1;
            at += 1;
        } else {
            return Next::Command(at);
        }
    }
    Next::Nothing
}

/// Whether a file is what the shell reads anyway, or what another command prints.
fn is_input(file: &str) -> bool {
    ["/dev/stdin", "/dev/fd/", "/proc/", "<("].iter().any(|start| file.starts_with(start))
}

/// `bash [options] [-c text | file]`.
fn shell(arguments: &[String]) -> Next {
    let mut text_follows = false;
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if word == "--" || word == "-" {
            continue;
        }
        if let Some(long) = word.strip_prefix("--") {
            if matches!(long, "rcfile" | "init-file") {
                words.next();
            }
        } else if let Some(short) = word.strip_prefix(['-', '+']) {
            text_follows |= short.contains('c');
            if short.ends_with(['o', 'O']) {
                words.next();
            }
        } else if text_follows {
            return Next::Script(word.clone());
        } else if is_input(word) {
            return Next::Shell(Reads::Input);
        } else {
            return Next::Nothing;
        }
    }
    if text_follows { Next::Nothing } else { Next::Shell(Reads::Input) }
}

/// The words without options and their values.
fn plain(arguments: &[String], valued: &[&str]) -> Vec<String> {
    let mut out = Vec::new();
    let mut words = arguments.iter().peekable();
    while let Some(word) = words.next_if(|word| word.starts_with('-') && word.len() > 1) {
        if valued.contains(&word.as_str()) {
            words.next();
        }
    }
    out.extend(words.cloned());
    out
}

fn trap_or_alias(name: &str, arguments: &[String]) -> Next {
    let Some(first) = plain(arguments, &[]).into_iter().next() else { return Next::Nothing };
    match (name, first.split_once('=')) {
        ("trap", _) => Next::Script(first),
        (_, Some((_, text))) => Next::Script(text.to_owned()),
        _ => Next::Nothing,
    }
}

/// `env -S "…"` and `env --split-string=…`.
fn split_string(arguments: &[String]) -> Option<String> {
    let mut words = arguments.iter().take_while(|word| word.starts_with('-') || is_assignment(word));
    let word = words.find(|word| word.starts_with("-S") || word.starts_with("--split-string"))?;
    let at = arguments.iter().position(|other| std::ptr::eq(other, word))?;
    let own = word.strip_prefix("--split-string=").or_else(|| word.strip_prefix("-S")).unwrap_or("");
    let own = if word == "--split-string" { "" } else { own };
    Some(format!("{own} {}", arguments[at + 1..].join(" ")))
}

/// `find … -exec command … ;` and `fd -x command …`.
fn exec_ranges(words: &[String]) -> Next {
    const EXEC: &[&str] = &["-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"];
    let starts = words.iter().enumerate().filter(|(_, word)| EXEC.contains(&word.as_str()));
    let ranges = starts.map(|(at, _)| {
        let end =
            words[at..].iter().position(|word| word == ";" || word == "+").map_or(words.len(), |n| at + n);
        at + 1..end.max(at + 1)
    });
    Next::Commands(ranges.filter(|range| !range.is_empty()).collect())
}
