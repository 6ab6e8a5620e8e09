//! search_code on real sources: the standard library of the Go toolchain, and for more lines than that has, the same
//! again with other names in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::client::Client;
use crate::floors::{self, Limit};
use crate::probe::{Times, resident};
use crate::report::{Report, ms, times, verdict};
use crate::subjects::Subjects;

/// Lines that are indexed against the clock.
const LINES: usize = 1_000_000;
/// What is asked in: so many files, and so many lines.
const FILES: usize = 5_000;
const MANY: usize = 5_000_000;
/// Milliseconds that the floors take where the limits were set: parsing the lines, and an echo of an answer.
const PARSE: f64 = 2_000.0;
const ECHO: f64 = 0.06;
/// How often each question is asked.
const ROUNDS: usize = 200;
/// One word, several, and a sentence.
const QUERIES: &[&str] = &[
    "invoice",
    "parse header",
    "read a line from the buffer and",
    "read a line from the buffer and return the error to the caller",
];

/// Which sources come first.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    ByPath,
    /// As small as files are where there are thousands of them.
    SmallestFirst,
}

pub(crate) fn code(subjects: &Subjects, report: &mut Report) -> Result<()> {
    report.section("search_code", &["what", "took", "asked", ""]);
    building(subjects, report)?;
    let (few, many) = (|files: usize, _| files < FILES, |_, lines: usize| lines < MANY);
    let half = Limit::new(0.5, ECHO);
    asking(subjects, report, Order::SmallestFirst, few, &half)?;
    asking(subjects, report, Order::ByPath, few, &half)?;
    asking(subjects, report, Order::ByPath, many, &Limit::new(1.5, ECHO))?;
    report.note(
        "Questions come over stdio, and what is shown is read from the files. Their floor is an echo of such an answer \
         over the bare SDK, by turns with them.",
    );
    Ok(())
}

fn row(report: &mut Report, what: String, took: String, asked: &str, met: bool) {
    report.row(&[what, took, asked.to_owned(), verdict(met)]);
}

/// The product in a folder with sources, with nothing left to do before the first question.
fn settled(subjects: &Subjects, folder: &Path) -> Result<Client> {
    let mut client = subjects.product(folder)?;
    // the live workspace stands before the clock starts: it serves Grep and Glob as well
    while client.text("Glob", &json!({ "pattern": "**/*.go", "limit": 1 }))?.is_empty() {}
    settle(&mut client)?;
    Ok(client)
}

/// Asks until the index is complete; how long the first answer took.
fn built(client: &mut Client) -> Result<Duration> {
    let start = Instant::now();
    let mut text = client.text("search_code", &json!({ "query": "reader" }))?;
    let first = start.elapsed();
    while text.starts_with("index ") {
        text = client.text("search_code", &json!({ "query": "reader" }))?;
    }
    Ok(first)
}

fn building(subjects: &Subjects, report: &mut Report) -> Result<()> {
    let folder = subjects.folder()?;
    let (files, lines) = corpus(folder.path(), Order::ByPath, |_, lines| lines < LINES)?;
    let mut client = settled(subjects, folder.path())?;
    let before = resident(client.pid())?;
    let start = Instant::now();
    let first = built(&mut client)?;
    let took = start.elapsed();
    let mb = resident(client.pid())?.saturating_sub(before) as f64 / 1e6;
    let mut floor = Times::new();
    let all = sources(folder.path())?;
    floor.time(|| floors::parse(&all))?;
    let (floor, limit) = (floor.median(), Limit::new(4_000.0, PARSE));
    let what = format!("floor: the same {files} files read and parsed, all processors");
    report.row(&[what, ms(floor), String::new(), String::new()]);
    let what = format!("index of {lines} lines in {files} files, ready ({} the floor)", times(took, floor));
    report.row(&[what, ms(took), limit.asked(), limit.verdict(took, floor)]);
    let what = "first answer, from what was there by then".to_owned();
    row(report, what, ms(first), "≤ 2.5 s", first <= Duration::from_millis(2500));
    let what = "memory of the process, more than before".to_owned();
    row(report, what, format!("{mb:.1} MB"), "< 12 MB", mb < 12.0);
    let mut times = Times::new();
    for round in 0..ROUNDS / 4 {
        let name = format!("FreshlyMadeWidget{round}");
        fs::write(folder.path().join("fresh.go"), source(&name))?;
        let text = times.time(|| client.text("search_code", &json!({ "query": name, "limit": 1 })))?;
        ensure!(text.contains(&name), "{name} is not in {text:?}");
    }
    let what = "question right after a change by another program".to_owned();
    row(report, what, ms(times.median()), "< 3 ms", times.median() < Duration::from_millis(3));
    Ok(())
}

/// How long questions take in as many sources as are `wanted`.
fn asking(
    subjects: &Subjects,
    report: &mut Report,
    order: Order,
    wanted: impl Fn(usize, usize) -> bool,
    limit: &Limit,
) -> Result<()> {
    let folder = subjects.folder()?;
    let (files, lines) = corpus(folder.path(), order, wanted)?;
    let mut client = settled(subjects, folder.path())?;
    built(&mut client)?;
    let answer = folder.path().join("answer.txt");
    fs::write(&answer, client.text("search_code", &json!({ "query": QUERIES[1] }))?)?;
    let mut echo = subjects.echo(&answer)?;
    for query in QUERIES {
        let [mut ours, mut floor] = [const { Times::new() }; 2];
        for _ in 0..ROUNDS {
            ours.time(|| client.text("search_code", &json!({ "query": query })))?;
            floor.time(|| echo.text("echo", &json!({})))?;
        }
        let (words, ours, floor) = (query.split(' ').count(), ours.median(), floor.median());
        let what = format!("question of {words} word(s) in {files} files, {lines} lines");
        let took = format!("{} ({} the floor of {})", ms(ours), times(ours, floor), ms(floor));
        report.row(&[what, took, limit.asked(), limit.verdict(ours, floor)]);
    }
    Ok(())
}

/// Waits until nothing in the background uses the processor any more.
fn settle(client: &mut Client) -> Result<()> {
    loop {
        let before = crate::probe::cpu(client.pid())?;
        std::thread::sleep(Duration::from_millis(300));
        if crate::probe::cpu(client.pid())? - before < Duration::from_millis(10) {
            return Ok(());
        }
    }
}

fn source(name: &str) -> String {
    let filler: String = (0..25)
        .map(|n| format!("// helper{n} helps.\nfunc helper{n}() int {{\n\treturn {n}\n}}\n\n"))
        .collect();
    format!("package fresh\n\n// {name} is new.\nfunc {name}() {{}}\n\n{filler}")
}

/// The Go sources in a folder and below.
fn sources(root: &Path) -> Result<Vec<PathBuf>> {
    let (mut folders, mut sources) = (vec![root.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        let mut entries: Vec<PathBuf> = fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
        entries.sort();
        folders.extend(entries.iter().filter(|path| path.is_dir()).cloned());
        let go = |path: &PathBuf| path.is_file() && path.extension().is_some_and(|ending| ending == "go");
        sources.extend(entries.into_iter().filter(go));
    }
    Ok(sources)
}

/// Copies sources as long as they are `wanted`; how many files and lines there are.
fn corpus(to: &Path, order: Order, wanted: impl Fn(usize, usize) -> bool) -> Result<(usize, usize)> {
    let printed =
        Command::new("go").args(["env", "GOROOT"]).output().context("the Go toolchain is needed")?;
    let root = PathBuf::from(String::from_utf8(printed.stdout)?.trim()).join("src");
    let mut sources = sources(&root)?;
    ensure!(!sources.is_empty(), "no sources in the Go toolchain");
    if order == Order::SmallestFirst {
        sources.sort_by_cached_key(|path| fs::metadata(path).map_or(u64::MAX, |file| file.len()));
    }
    let (mut files, mut lines) = (0, 0);
    while wanted(files, lines) {
        let (round, at) = (files / sources.len(), files % sources.len());
        let text = fs::read(&sources[at])?;
        let text = if round == 0 { text } else { renamed(&text, round) };
        let folder = to.join(format!("p{}", files / 40));
        fs::create_dir_all(&folder)?;
        lines += memchr::memchr_iter(b'\n', &text).count();
        fs::write(folder.join(format!("f{files}.go")), text)?;
        files += 1;
    }
    Ok((files, lines))
}

/// Go's words that are no names.
const KEYWORDS: &[&str] = &[
    "break",
    "case",
    "chan",
    "const",
    "continue",
    "default",
    "defer",
    "else",
    "fallthrough",
    "func",
    "goto",
    "import",
    "interface",
    "package",
    "range",
    "return",
    "select",
    "struct",
    "switch",
    "type",
];

/// A source with other names: about a third of its words have one more part.
fn renamed(text: &[u8], round: usize) -> Vec<u8> {
    const PARTS: [&str; 8] = ["Amber", "Birch", "Cedar", "Delta", "Ember", "Fjord", "Grove", "Haven"];
    let part = PARTS[round % PARTS.len()];
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let (mut out, mut at) = (Vec::with_capacity(text.len() * 5 / 4), 0);
    while at < text.len() {
        let len = text[at..].iter().take_while(|byte| is_word(byte)).count();
        let word = &text[at..at + len.max(1)];
        out.extend_from_slice(word);
        let escaped = at > 0 && text[at - 1] == b'\\';
        let name = len > 3 && word[0].is_ascii_alphabetic() && !escaped;
        let sum: usize = word.iter().map(|byte| usize::from(*byte)).sum();
        let keyword = || KEYWORDS.iter().any(|keyword| keyword.as_bytes() == word);
        if name && (sum + round).is_multiple_of(3) && !keyword() {
            out.extend_from_slice(part.as_bytes());
        }
        at += word.len();
    }
    out
}
