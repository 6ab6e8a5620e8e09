//! How many bytes of runner output a reader takes in per second.

#![expect(clippy::expect_used, reason = "a benchmark may stop where its fixture is wrong")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::{fs, hint::black_box, path::PathBuf};
use verify::{End, Languages, MapFacts, Stream, TestAsk};

/// A long run as the runner would print it: real lines, many tests that pass, some that fail.
fn long_run(language: &str) -> Vec<u8> {
    let outputs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/outputs");
    match language {
        "go" => fs::read(outputs.join("go/go1.26.8-mixed.jsonl")).expect("an output").repeat(100),
        "node" => fs::read(outputs.join("node/mocha-events.jsonl")).expect("an output").repeat(2000),
        "python" => fs::read(outputs.join("python/pytest-events.jsonl")).expect("an output").repeat(1000),
        _ => {
            let real = fs::read(outputs.join("rust/cargo1.95-mixed.txt")).expect("an output");
            let text = String::from_utf8_lossy(&real).into_owned();
            let (build, run) = text.split_once("\nrunning 13 tests\n").expect("a run");
            let passing: String = (0..60_000).map(|n| format!("test module::case_{n} ... ok\n")).collect();
            format!("{build}\nrunning 60013 tests\n{passing}{run}").into_bytes()
        }
    }
}

fn readers(criterion: &mut Criterion) {
    let mut facts = MapFacts { root: "/sample".into(), ..MapFacts::default() };
    facts.files.insert("package.json".to_owned(), r#"{"scripts":{"test":"mocha"}}"#.to_owned());
    let mut group = criterion.benchmark_group("readers");
    for language in ["go", "rust", "node", "python"] {
        let detector = Languages::shipped().get(language).expect("a shipped language");
        let bytes = long_run(language);
        let stream = if ["node", "python"].contains(&language) { Stream::Report } else { Stream::Stdout };
        let plan = detector.test_cmd(&facts, &TestAsk::default()).expect("a plan").remove(0);
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.sample_size(10);
        group.bench_function(language, |bencher| {
            bencher.iter(|| {
                let mut reader = detector.test_reader(&plan, &facts);
                bytes.chunks(64 << 10).for_each(|chunk| reader.feed(stream, chunk));
                black_box(reader.finish(&End::Exited(1), &facts))
            });
        });
    }
    group.finish();
}

criterion_group!(benches, readers);
criterion_main!(benches);
