//! What the product costs, beside floors and peers, in one run: `cargo run --release -p bench -- --write`.
#![expect(clippy::disallowed_methods, reason = "it starts what it measures")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a program for the terminal")]

mod calls;
mod client;
mod code;
mod floors;
mod http;
mod life;
mod live;
mod lsp;
#[path = "../../crates/workspace/tests/suite/oracle.rs"]
mod oracle;
mod probe;
mod report;
mod sandboxes;
mod scrub;
mod search;
mod serena;
mod snapshots;
mod subjects;
mod tree;
mod verify;

use std::fs;
use std::path::Path;

use anyhow::Result;

use report::Report;
use subjects::Subjects;

type Measure = fn(&Subjects, &mut Report) -> Result<()>;

const MEASURES: &[(&str, Measure)] = &[
    ("read", calls::read),
    ("edit", calls::edit),
    ("search", search::search),
    ("live", live::live),
    ("code", code::code),
    ("snapshots", snapshots::snapshots),
    ("bash", calls::bash),
    ("lsp", lsp::lsp),
    ("sandboxes", sandboxes::sandboxes),
    ("start", life::start),
    ("sessions", life::sessions),
    ("tests", verify::tests),
    ("feedback", verify::feedback),
    ("readers", verify::readers),
    ("scrub", scrub::scrub),
];

const USAGE: &str =
    "usage: bench [--write] [read|edit|search|live|code|snapshots|bash|sandboxes|lsp|start|sessions|tests|feedback|readers|scrub]…
  --write  put the table into docs/benchmarks.md
  tests:RUNNER  only this runner, as the table names it
usage: bench oracle [--rounds N] [--seed N]
  random changes, then questions to the live workspace and to a fresh walk: do they answer the same?";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some((first, rest)) = arguments.split_first()
        && first == "oracle"
    {
        return live::oracle(rest);
    }
    let write = arguments.iter().any(|argument| argument == "--write");
    let named: Vec<&str> =
        arguments.iter().map(String::as_str).filter(|argument| *argument != "--write").collect();
    // A part of a measure comes after a colon.
    let part = named.iter().find_map(|name| name.split_once(':')).map(|(_, part)| part.to_owned());
    let named: Vec<&str> =
        named.iter().map(|name| name.split_once(':').map_or(*name, |(name, _)| name)).collect();
    if named.iter().any(|name| !MEASURES.iter().any(|(known, _)| known == name)) {
        anyhow::bail!("{USAGE}");
    }
    let mut subjects = Subjects::prepare()?;
    subjects.part = part;
    let mut report = Report::default();
    for (name, measure) in MEASURES.iter().filter(|(name, _)| named.is_empty() || named.contains(name)) {
        eprintln!("{name} …");
        if let Err(error) = measure(&subjects, &mut report) {
            report.section(name, &["could not be measured"]);
            report.row(&[format!("{error:#}")
                .chars()
                .take(300)
                .collect::<String>()
                .replace(['\n', '|'], " ")]);
        }
    }
    let text = format!("{}{}", preface()?, report.text());
    println!("{text}");
    if write {
        fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/benchmarks.md"), text)?;
    }
    Ok(())
}

fn preface() -> Result<String> {
    let cores = std::thread::available_parallelism()?;
    let load = fs::read_to_string("/proc/loadavg")?;
    let load = load.split(' ').next().unwrap_or("?");
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    Ok(format!(
        "# Benchmarks\n\nMade by `cargo run --release -p bench -- --write`, all in one run; ratios matter, values depend on \
         the machine ({cores} cores, Linux {}, load {load} at the end of the run). Medians; subjects take turns. Floors and \
         peers: an echo of the same number of bytes over the bare MCP SDK, npm `@modelcontextprotocol/server-filesystem`, \
         git's own commands, a spawned `rg`, a bare spawn of `bash -c true`. The client is a Rust program over raw pipes.\n",
        kernel.trim()
    ))
}
