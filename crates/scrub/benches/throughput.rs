//! How fast ordinary source text goes through, with all rules and a handful of configured secrets.

use std::hint::black_box;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use scrub::Scrubber;

/// Ordinary source text: that of the other crates, some of which speak of tokens and keys a lot.
fn corpus() -> String {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut text = String::new();
    for name in ["config", "sandbox", "server", "tools", "verify", "workspace"] {
        append(&crates.join(name).join("src"), &mut text);
    }
    text
}

fn append(folder: &Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            append(&path, text);
        } else {
            text.push_str(&std::fs::read_to_string(path).unwrap_or_default());
        }
    }
}

fn throughput(c: &mut Criterion) {
    let text = corpus();
    let plain = Scrubber::default();
    let secrets = (0..10).fold(Scrubber::builder(), |builder, n| {
        builder.secret(format!("S{n}"), format!("q7{n}Zt-vN0p{n}/xW+3kLm9{n}"))
    });
    let secrets = secrets.build();
    let mut group = c.benchmark_group("scrub");
    group.throughput(Throughput::Bytes(text.len() as u64));
    group.bench_function("rules", |b| b.iter(|| plain.scrub(black_box(&text)).len()));
    group.bench_function("rules and 10 secrets", |b| b.iter(|| secrets.scrub(black_box(&text)).len()));
    group.bench_function("stream of 8 KiB chunks", |b| {
        b.iter(|| {
            let mut stream = secrets.stream();
            let sent: usize =
                text.as_bytes().chunks(8192).map(|chunk| stream.push(black_box(chunk)).len()).sum();
            sent + stream.finish().len()
        });
    });
    group.finish();
}

criterion_group!(benches, throughput);
criterion_main!(benches);
