//! search_code on real sources: the standard library of the Go toolchain, as much of it as was asked for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::client::Client;
use crate::probe::{Times, resident};
use crate::report::{Report, ms, verdict};
use crate::subjects::Subjects;

/// Lines that are indexed.
const LINES: usize = 1_000_000;
/// How often each question is asked.
const ROUNDS: usize = 200;
/// One word, several, and a sentence.
const QUERIES: &[&str] =
    &["invoice", "parse header", "read a line from the buffer and return the error to the caller"];

pub(crate) fn code(subjects: &Subjects, report: &mut Report) -> Result<()> {
    let folder = subjects.folder()?;
    let (files, lines) = corpus(folder.path())?;
    let mut client = subjects.product(folder.path())?;
    // the live workspace stands before the clock starts: it serves Grep and Glob as well
    while client.text("Glob", &json!({ "pattern": "**/*.go", "limit": 1 }))?.is_empty() {}
    settle(&mut client)?;
    let before = resident(client.pid())?;
    let start = Instant::now();
    let mut text = client.text("search_code", &json!({ "query": "reader" }))?;
    let first = start.elapsed();
    while text.starts_with("index ") {
        text = client.text("search_code", &json!({ "query": "reader" }))?;
    }
    let built = start.elapsed();
    let grown = resident(client.pid())?.saturating_sub(before);

    report.section("search_code", &["what", "took", "asked", ""]);
    let mut row = |what: String, took: String, asked: &str, met: bool| {
        report.row(&[what, took, asked.to_owned(), verdict(met)]);
    };
    let mb = grown as f64 / 1e6;
    row(
        format!("index of {lines} lines in {files} files, ready"),
        ms(built),
        "< 4 s",
        built < Duration::from_secs(4),
    );
    row(
        "first answer, from what was there by then".to_owned(),
        ms(first),
        "≤ 2.5 s",
        first <= Duration::from_millis(2500),
    );
    row("memory of the process, more than before".to_owned(), format!("{mb:.1} MB"), "< 12 MB", mb < 12.0);
    for query in QUERIES {
        let mut times = Times::new();
        for _ in 0..ROUNDS {
            times.time(|| client.text("search_code", &json!({ "query": query })))?;
        }
        let words = query.split(' ').count();
        row(
            format!("question of {words} word(s), over stdio, results read from their files"),
            ms(times.median()),
            "< 1.5 ms",
            times.median() < Duration::from_micros(1500),
        );
    }
    let mut times = Times::new();
    for round in 0..ROUNDS / 4 {
        let name = format!("FreshlyMadeWidget{round}");
        fs::write(folder.path().join("fresh.go"), source(&name))?;
        let text = times.time(|| client.text("search_code", &json!({ "query": name, "limit": 1 })))?;
        ensure!(text.contains(&name), "{name} is not in {text:?}");
    }
    row(
        "question right after a change by another program".to_owned(),
        ms(times.median()),
        "< 3 ms",
        times.median() < Duration::from_millis(3),
    );
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

/// Copies sources until there are enough lines of them; how many files and lines there are.
fn corpus(to: &Path) -> Result<(usize, usize)> {
    let printed =
        Command::new("go").args(["env", "GOROOT"]).output().context("the Go toolchain is needed")?;
    let root = PathBuf::from(String::from_utf8(printed.stdout)?.trim()).join("src");
    let (mut folders, mut files, mut lines) = (vec![root], 0, 0);
    while let Some(folder) = folders.pop() {
        let mut entries: Vec<PathBuf> = fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
        entries.sort();
        for path in entries {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "go") && lines < LINES {
                let text = fs::read(&path)?;
                let folder = to.join(format!("p{}", files / 40));
                fs::create_dir_all(&folder)?;
                lines += memchr::memchr_iter(b'\n', &text).count();
                fs::write(folder.join(format!("f{files}.go")), text)?;
                files += 1;
            }
        }
    }
    Ok((files, lines))
}
