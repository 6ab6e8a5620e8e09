//! How many bytes of runner output a reader takes in per second.

#![expect(clippy::expect_used, reason = "a benchmark may stop where its fixture is wrong")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::{fs, hint::black_box, path::PathBuf};
use verify::{Captured, End, Languages, MapFacts, Plan, Stream, TestAsk, TestReader, UnknownReader};

fn output(name: &str) -> Vec<u8> {
    let outputs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/outputs");
    fs::read(outputs.join(name)).expect("an output")
}

/// A long run of cargo as it would print it: real lines, many tests that pass, some that fail.
fn cargo() -> Vec<u8> {
    let text = String::from_utf8_lossy(&output("rust/cargo1.95-mixed.txt")).into_owned();
    let (build, run) = text.split_once("\nrunning 13 tests\n").expect("a run");
    let passing: String = (0..60_000).map(|n| format!("test module::case_{n} ... ok\n")).collect();
    format!("{build}\nrunning 60013 tests\n{passing}{run}").into_bytes()
}

/// A report in JUnit's format with its suites many times over.
fn junit(name: &str, times: usize) -> Vec<u8> {
    let text = String::from_utf8_lossy(&output(name)).into_owned();
    let begin = text.find("<testsuite ").expect("a suite");
    let end = text.rfind("</testsuite>").expect("a suite") + "</testsuite>".len();
    format!("{}{}{}", &text[..begin], text[begin..end].repeat(times), &text[end..]).into_bytes()
}

/// Each reader with what it reads: name, language, runner, stream, bytes.
fn runs() -> Vec<(&'static str, &'static str, &'static str, Stream, Vec<u8>)> {
    vec![
        ("go", "go", "go test", Stream::Stdout, output("go/go1.26.8-mixed.jsonl").repeat(100)),
        ("cargo", "rust", "cargo test", Stream::Stdout, cargo()),
        ("nextest", "rust", "nextest", Stream::Report, junit("rust/nextest-junit.xml", 300)),
        ("jest", "node", "jest", Stream::Report, events("node/jest-events.jsonl", "calc.test.js", 1500)),
        (
            "vitest",
            "node",
            "vitest",
            Stream::Report,
            events("node/vitest-events.jsonl", "calc.test.js", 2000),
        ),
        ("mocha", "node", "mocha", Stream::Report, events("node/mocha-events.jsonl", "calc.test.js", 2000)),
        ("node", "node", "node", Stream::Report, events("node/node-test-events.jsonl", "calc.test.js", 1500)),
        ("bun", "node", "bun", Stream::Report, junit("node/bun-junit.xml", 3000)),
        (
            "pytest",
            "python",
            "pytest",
            Stream::Report,
            events("python/pytest-events.jsonl", "test_calc", 1000),
        ),
        (
            "unittest",
            "python",
            "unittest",
            Stream::Report,
            events("python/unittest-events.jsonl", "test_calc", 1500),
        ),
    ]
}

/// The events of many files, each with what the fixture's tells.
fn events(name: &str, file: &str, times: usize) -> Vec<u8> {
    let text = String::from_utf8_lossy(&output(name)).into_owned();
    assert!(text.contains(file), "{name}");
    (0..times).map(|n| text.replace(file, &format!("many{n}/{file}"))).collect::<String>().into_bytes()
}

/// A JSON array with its elements many times over.
fn array(name: &str, times: usize) -> Vec<u8> {
    let text = String::from_utf8_lossy(&output(name)).into_owned();
    let inner = text.trim().trim_start_matches('[').trim_end_matches(']');
    format!("[{}]", vec![inner; times].join(",")).into_bytes()
}

/// pyright's report with its only list many times over.
fn pyright() -> Vec<u8> {
    let mut report: serde_json::Value =
        serde_json::from_slice(&output("python/pyright.json")).expect("a report");
    let list = report["generalDiagnostics"].as_array().expect("a list");
    report["generalDiagnostics"] = list.iter().cycle().take(list.len() * 4000).cloned().collect();
    serde_json::to_vec_pretty(&report).expect("a report")
}

/// Each linter or checker with what it printed: runner, language, bytes.
fn lints() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    vec![
        ("clippy", "rust", output("rust/clippy.jsonl").repeat(300)),
        ("eslint", "node", array("node/eslint.json", 600)),
        ("tsc", "node", output("node/tsc6-exit2.txt").repeat(12_000)),
        ("ruff", "python", array("python/ruff.json", 1000)),
        ("mypy", "python", output("python/mypy-exit1.jsonl").repeat(10_000)),
        ("pyright", "python", pyright()),
    ]
}

fn measure(
    group: &mut criterion::BenchmarkGroup<'_, criterion::measurement::WallTime>,
    name: &str,
    (stream, bytes): (Stream, &[u8]),
    facts: &MapFacts,
    reader: &dyn Fn() -> Box<dyn TestReader>,
) {
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    group.sample_size(10);
    group.bench_function(name, |bencher| {
        bencher.iter(|| {
            let mut reader = reader();
            bytes.chunks(64 << 10).for_each(|chunk| reader.feed(stream, chunk));
            black_box(reader.finish(&End::Exited(1), facts))
        });
    });
}

fn readers(criterion: &mut Criterion) {
    let mut facts = MapFacts { root: "/sample".into(), ..MapFacts::default() };
    facts.files.insert("package.json".to_owned(), r#"{"scripts":{"test":"mocha"}}"#.to_owned());
    let mut group = criterion.benchmark_group("readers");
    for (name, language, runner, stream, bytes) in runs() {
        let detector = Languages::shipped().get(language).expect("a shipped language");
        let plan = detector.test_cmd(&facts, &TestAsk::default()).expect("a plan").remove(0);
        let plan = Plan { runner, ..plan };
        measure(&mut group, name, (stream, &bytes), &facts, &|| detector.test_reader(&plan, &facts));
    }
    let tap: String = (1..60_000).map(|n| format!("ok {n} - case {n}\n")).collect();
    let tap = format!("TAP version 13\n{tap}not ok 60000 - last\n1..60000\n").into_bytes();
    measure(&mut group, "tap", (Stream::Stdout, &tap), &facts, &|| Box::new(UnknownReader::new("make test")));
    for (runner, language, stdout) in lints() {
        let detector = Languages::shipped().get(language).expect("a shipped language");
        let plan = Plan { runner, ..Plan::default() };
        group.throughput(Throughput::Bytes(stdout.len() as u64));
        let captured = Captured { stdout, stderr: Vec::new(), report: None, end: End::Exited(1) };
        assert!(!detector.parse_lint(&plan, &facts, &captured).findings.is_empty(), "{runner}");
        group.bench_function(runner, |bencher| {
            bencher.iter(|| black_box(detector.parse_lint(&plan, &facts, &captured)));
        });
    }
    group.finish();
}

criterion_group!(benches, readers);
criterion_main!(benches);
