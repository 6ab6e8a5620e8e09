//! How many bytes of runner output a reader takes in per second.

#![expect(clippy::expect_used, reason = "a benchmark may stop where its fixture is wrong")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::{fs, hint::black_box, path::PathBuf};
use verify::{End, Languages, MapFacts, Stream, TestAsk};

fn readers(criterion: &mut Criterion) {
    let outputs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/outputs");
    let facts = MapFacts { root: "/sample".into(), ..MapFacts::default() };
    let mut group = criterion.benchmark_group("readers");
    for (language, file) in [("go", "go/go1.26.8-mixed.jsonl"), ("rust", "rust/cargo1.95-mixed.txt")] {
        let detector = Languages::shipped().get(language).expect("a shipped language");
        let once = fs::read(outputs.join(file)).expect("an output");
        let many = once.repeat((4 << 20) / once.len() + 1);
        let plan = detector.test_cmd(&facts, &TestAsk::default()).expect("a plan").remove(0);
        group.throughput(Throughput::Bytes(many.len() as u64));
        group.sample_size(10);
        group.bench_function(language, |bencher| {
            bencher.iter(|| {
                let mut reader = detector.test_reader(&plan, &facts);
                many.chunks(64 << 10).for_each(|chunk| reader.feed(Stream::Stdout, chunk));
                black_box(reader.finish(&End::Exited(1), &facts))
            });
        });
    }
    group.finish();
}

criterion_group!(benches, readers);
criterion_main!(benches);
