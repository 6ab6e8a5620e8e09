//! Captured outputs of Node's and Python's tools, read as the plans that make them would be.

use super::{
    runs::{lint_told, told},
    support::{facts, language, output},
};
use verify::{Captured, End, LintAsk, MapFacts, Plan, TestAsk};

fn captured(stdout: &[u8], code: i32) -> Captured {
    Captured { stdout: stdout.to_vec(), stderr: Vec::new(), report: None, end: End::Exited(code) }
}

fn sample(marker: (&str, &str)) -> MapFacts {
    facts("/sample", &[marker])
}

fn lint(id: &str, runner: &'static str, file: &str, code: i32) -> String {
    let facts = sample(("package.json", "{}"));
    let plan = Plan { runner, ..language(id).lint_cmd(&facts, &LintAsk::default()).expect("a plan") };
    lint_told(&language(id).parse_lint(&plan, &facts, &captured(&output(&format!("{id}/{file}")), code)))
}

#[test]
fn linters_and_type_checkers() {
    let mut text = String::new();
    for (id, runner, file, code) in [
        ("node", "eslint", "eslint.json", 1),
        ("node", "eslint", "eslint-syntax-error-exit1.json", 1),
        ("node", "eslint", "eslint-ignored-file-exit0.json", 0),
        ("node", "biome", "biome-lint.json", 1),
        ("node", "oxlint", "oxlint.json", 0),
        ("node", "tsc", "tsc6-exit2.txt", 2),
        ("node", "tsc", "tsc7-exit1.txt", 1),
        ("node", "script", "tsc7-exit1.txt", 1),
        ("node", "script", "prettier-check-exit1.txt", 1),
        ("python", "ruff", "ruff.json", 1),
        ("python", "ruff", "ruff-syntax-error.json", 1),
        ("python", "mypy", "mypy-exit1.jsonl", 1),
        ("python", "mypy", "mypy-syntax-exit2.jsonl", 2),
        ("python", "pyright", "pyright.json", 1),
        ("python", "ty", "ty-gitlab.json", 1),
    ] {
        text += &format!("== {runner} {file}\n{}", lint(id, runner, file, code));
    }
    insta::assert_snapshot!(text);
}

#[test]
fn the_events_of_every_runner() {
    let mut text = String::new();
    for (id, runner, file) in [
        ("node", "jest", "jest-events.jsonl"),
        ("node", "vitest", "vitest-events.jsonl"),
        ("node", "mocha", "mocha-events.jsonl"),
        ("node", "node", "node-test-events.jsonl"),
        ("node", "bun", "bun-junit.xml"),
        ("python", "pytest", "pytest-events.jsonl"),
        ("python", "unittest", "unittest-events.jsonl"),
    ] {
        let facts = match id {
            "node" => sample(("package.json", r#"{"scripts":{"test":"jest"}}"#)),
            _ => sample(("pyproject.toml", "[tool.pytest]")),
        };
        let plan = language(id).test_cmd(&facts, &TestAsk::default()).expect("a plan").remove(0);
        let plan = Plan { runner, ..plan };
        let report = Some(output(&format!("{id}/{file}")));
        let captured = Captured { report, ..captured(b"", 1) };
        let run = super::support::read_run(id, &plan, &facts, &captured);
        text += &format!("== {runner}\n{}\n", told(&run));
    }
    insta::assert_snapshot!(text);
}

#[test]
fn a_report_that_ends_early_is_never_green() {
    for (id, runner, file) in
        [("node", "mocha", "mocha-events.jsonl"), ("python", "pytest", "pytest-events.jsonl")]
    {
        let facts = sample(("package.json", "{}"));
        let whole = output(&format!("{id}/{file}"));
        // Only what passed, so that nothing but the missing end can tell.
        let text = String::from_utf8_lossy(&whole);
        let good: Vec<&str> = text.lines().filter(|line| !line.contains("\"fail\"")).collect();
        let good = good
            .into_iter()
            .filter(|line| !line.contains("\"end\"") && !line.contains("\"exit\""))
            .collect::<Vec<_>>();
        for lines in 0..good.len() {
            let report = Some(good[..lines].join("\n").into_bytes());
            let captured = Captured { report, ..captured(b"", 0) };
            let plan = Plan { runner, ..Plan::default() };
            let run = language(id).read_tests(&plan, &facts, &captured);
            assert!(!run.green(), "{runner} after {lines} lines: {}", told(&run));
        }
    }
}

#[test]
fn the_lines_that_tests_reach() {
    let mut facts = sample(("go.mod", "module example.com/mixed\n"));
    facts.root = "/sample/family".into();
    let reached = |id: &str, file: &str| {
        let plan = Plan { memo: serde_json::json!({ "unit": "u" }), ..Plan::default() };
        let report = Some(output(&format!("coverage/{file}")));
        let found = language(id).parse_coverage(&plan, &facts, &Captured { report, ..captured(b"", 0) });
        let one = |covered: &verify::Covered| {
            format!("{} {:?} {}: {:?}", covered.test.unit, covered.test.path, covered.file, covered.lines)
        };
        found.iter().map(one).collect::<Vec<_>>()
    };
    assert_eq!(reached("go", "go1.26-cover.out"), ["u [] calc/calc.go: [(7, 7)]"]);
    assert_eq!(reached("rust", "llvm-cov.lcov"), ["u [] one/src/lib.rs: [(9, 11), (14, 15)]"]);
    assert_eq!(reached("node", "jest.lcov"), ["u [] src/calc.js: [(1, 3)]"]);
    let python = reached("python", "coverage-py-contexts.json");
    let wanted = "tests/test_calc.py [\"TestGroup\", \"test_raises_in_calc\"] calc/__init__.py: [(9, 9)]";
    assert!(python.iter().any(|line| line == wanted), "{python:#?}");
}
