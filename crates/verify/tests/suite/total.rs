//! Readers are total: whatever becomes of real output on its way, they answer and do not panic.

use crate::support::{facts, fixtures};
use proptest::prelude::*;
use std::{fs, sync::LazyLock};
use verify::{
    Captured, Detector, End, Languages, LintAsk, MapFacts, Plan, Scope, Stream, TestAsk, TestId,
    UnknownReader,
};

/// Every real output of every language, and a few bytes of nothing in particular.
static OUTPUTS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let mut outputs = vec![Vec::new(), b"\xff\xfe\x00\n{\n<\n".to_vec()];
    for language in fs::read_dir(fixtures().join("outputs")).expect("outputs") {
        for file in fs::read_dir(language.expect("an entry").path()).expect("a folder") {
            outputs.push(fs::read(file.expect("an entry").path()).expect("an output"));
        }
    }
    assert!(outputs.len() > 10);
    outputs
});

/// What can happen to bytes.
#[derive(Debug, Clone)]
enum Harm {
    Cut(usize),
    Behead(usize),
    Flip(usize, u8),
    DropLine(usize),
    SwapLines(usize, usize),
    Insert(usize, Vec<u8>),
}

fn harm() -> impl Strategy<Value = Harm> {
    prop_oneof![
        any::<usize>().prop_map(Harm::Cut),
        any::<usize>().prop_map(Harm::Behead),
        (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| Harm::Flip(at, byte)),
        any::<usize>().prop_map(Harm::DropLine),
        (any::<usize>(), any::<usize>()).prop_map(|(a, b)| Harm::SwapLines(a, b)),
        (any::<usize>(), proptest::collection::vec(any::<u8>(), 1..8))
            .prop_map(|(at, bytes)| Harm::Insert(at, bytes)),
    ]
}

fn apply(bytes: &mut Vec<u8>, harm: &Harm) {
    if bytes.is_empty() {
        return;
    }
    let size = bytes.len();
    let mut lines: Vec<Vec<u8>> = bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    let count = lines.len();
    match harm {
        Harm::Cut(at) => bytes.truncate(at % size),
        Harm::Behead(at) => drop(bytes.drain(..at % size)),
        Harm::Flip(at, byte) => bytes[at % size] = *byte,
        Harm::DropLine(at) => {
            lines.remove(at % count);
            *bytes = lines.concat();
        }
        Harm::SwapLines(a, b) => {
            lines.swap(a % count, b % count);
            *bytes = lines.concat();
        }
        Harm::Insert(at, more) => drop(bytes.splice(at % size..at % size, more.iter().copied())),
    }
}

fn rich_facts() -> MapFacts {
    let mut facts = facts(
        "/sample",
        &[
            ("go.mod", "module example.com/mixed\n"),
            ("Cargo.toml", "[package]\nname='x'\nedition='2024'\n"),
            ("src/lib.rs", "/// ```\n/// x\n/// ```\nfn x() {}\n"),
            ("package.json", "{\"scripts\":{\"test\":\"jest\"},\"devDependencies\":{\"jest\":\"1\"}}"),
            ("pyproject.toml", "[tool.pytest.ini_options]\n"),
        ],
    );
    for binary in ["cargo-nextest", "pytest", "python3", "node", "npm"] {
        facts.binaries.insert(binary.to_owned(), format!("/bin/{binary}").into());
    }
    facts
}

fn end(code: u8) -> End {
    match code {
        0 => End::TimedOut,
        1 => End::Cancelled,
        2 => End::Signaled(9),
        3 => End::OutOfMemory,
        4 => End::Exited(0),
        5 => End::Exited(101),
        code => End::Exited(i32::from(code) - 6),
    }
}

/// Every plan a detector can make here.
fn plans(detector: &dyn Detector, facts: &MapFacts) -> Vec<Plan> {
    let id = |unit: &str| TestId { unit: unit.to_owned(), path: vec!["a b".to_owned(), "c".to_owned()] };
    let asks = [
        TestAsk { timeout_seconds: 9, ..TestAsk::default() },
        TestAsk { names: vec!["TestA/b".to_owned()], ..TestAsk::default() },
        TestAsk { only: vec![id("--lib"), id("a/b.test.js")], ..TestAsk::default() },
    ];
    asks.iter().flat_map(|ask| detector.test_cmd(facts, ask).unwrap_or_default()).collect()
}

fn check(detector: &dyn Detector, facts: &MapFacts, captured: &Captured, chunk: usize) {
    for plan in plans(detector, facts) {
        let mut reader = detector.test_reader(&plan, facts);
        for piece in captured.stdout.chunks(chunk) {
            reader.feed(Stream::Stdout, piece);
            let _ = reader.progress();
        }
        captured.stderr.chunks(chunk).for_each(|piece| reader.feed(Stream::Stderr, piece));
        captured.report.iter().for_each(|report| reader.feed(Stream::Report, report));
        let mut run = reader.finish(&captured.end, facts);
        assert!(run.failures.len() <= run.failed as usize + 1, "{}", plan.runner);
        let _ = detector.follow_up(facts, &plan, &mut run);
    }
    for ask in [LintAsk::default(), LintAsk { scope: Scope::File("src/lib.rs".to_owned()), fix: true }] {
        if let Ok(plan) = detector.lint_cmd(facts, &ask) {
            let _ = detector.parse_lint(&plan, facts, captured);
        }
        if let Ok(plan) = detector.typecheck_cmd(facts, &ask) {
            let _ = detector.parse_typecheck(&plan, facts, captured);
        }
    }
    let _ = detector.parse_coverage(&Plan::default(), facts, captured);
    let changed = ["src/lib.rs", "a/b.py", "x.go"].map(str::to_owned);
    let _ = detector.affected(facts, &changed, Some(captured));
    if let Ok(plan) = detector.format_cmd(facts, "src/lib.rs", b"x") {
        let _ = detector.parse_format(&plan, captured);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_harm_to_any_output_is_survived(
        (which, other) in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        harms in proptest::collection::vec(harm(), 0..6),
        (code, chunk) in (0u8..12, 1usize..600),
    ) {
        let mut bytes = which.get(&OUTPUTS).clone();
        harms.iter().for_each(|harm| apply(&mut bytes, harm));
        let facts = rich_facts();
        let captured = Captured {
            stdout: bytes.clone(),
            stderr: other.get(&OUTPUTS).clone(),
            report: Some(bytes),
            end: end(code),
        };
        for detector in Languages::shipped().all() {
            check(*detector, &facts, &captured, chunk);
        }
        let mut unknown: Box<dyn verify::TestReader> = Box::new(UnknownReader::new("make test"));
        unknown.feed(Stream::Stdout, &captured.stdout);
        let _ = unknown.finish(&captured.end, &facts);
    }
}

/// Output of another language is never a success.
#[test]
fn a_foreign_output_is_never_green() {
    let facts = rich_facts();
    for detector in Languages::shipped().all() {
        let own = detector.language();
        for language in fs::read_dir(fixtures().join("outputs")).expect("outputs") {
            let language = language.expect("an entry").path();
            if language.ends_with(own) {
                continue;
            }
            for file in fs::read_dir(&language).expect("a folder").map(|file| file.expect("an entry").path())
            {
                let captured = Captured {
                    stdout: fs::read(&file).expect("an output"),
                    stderr: Vec::new(),
                    report: None,
                    end: End::Exited(0),
                };
                let plan = detector.test_cmd(&facts, &TestAsk::default()).expect("a plan").remove(0);
                let run = detector.read_tests(&plan, &facts, &captured);
                assert!(!run.green(), "{own} takes {} for its own", file.display());
            }
        }
    }
}
