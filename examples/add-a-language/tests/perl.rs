//! The fifth language against the real `prove`.

#![expect(clippy::disallowed_methods, clippy::expect_used, reason = "tests drive real programs and may fail")]

use add_a_language::PERL;
use std::{path::Path, process::Command};
use verify::{Captured, Detector, End, Languages, LintAsk, MapFacts, Plan, TestAsk, TestRun};

fn project() -> MapFacts {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/project");
    let mut facts = MapFacts { root, ..MapFacts::default() };
    facts.files.insert("cpanfile".to_owned(), String::new());
    facts.files.insert("t/calc.t".to_owned(), String::new());
    facts
}

fn carry_out(plan: &Plan, facts: &MapFacts) -> Captured {
    let mut words = vec![plan.program.clone()];
    words.extend(plan.args.iter().map(|word| format!("'{word}'")));
    // One pipe for both streams, as the plan wants it.
    let output = Command::new("sh")
        .args(["-c", &format!("exec {} 2>&1", words.join(" "))])
        .current_dir(&facts.root)
        .output()
        .expect("sh runs");
    let end = output.status.code().map_or(End::Signaled(0), End::Exited);
    Captured { stdout: output.stdout, stderr: output.stderr, report: None, end }
}

fn run(ask: &TestAsk) -> TestRun {
    let facts = project();
    let plan = PERL.test_cmd(&facts, ask).expect("a plan").remove(0);
    PERL.read_tests(&plan, &facts, &carry_out(&plan, &facts))
}

#[test]
fn it_is_chosen_like_the_shipped_ones() {
    let languages = Languages::shipped().with(&PERL);
    let mut facts = project();
    let chosen = languages.select(&facts, Some(" Perl ")).expect("a choice");
    assert_eq!(chosen.len(), 1);
    facts.files.insert("go.mod".to_owned(), String::new());
    let error = languages.select(&facts, None).err().expect("a refusal").to_string();
    assert_eq!(
        error,
        "polyglot workspace: 2 project types detected (go, perl) — pass `language` to pick one"
    );
}

#[test]
fn every_result_is_told() {
    let run = run(&TestAsk::default());
    let failures: Vec<(String, Option<u32>)> =
        run.failures.iter().map(|f| (f.name.clone(), f.line)).collect();
    assert_eq!((run.passed, run.failed), (6, 3), "{run:#?}");
    assert_eq!(
        failures,
        [
            ("adds wrongly".to_owned(), Some(6)),
            ("division > odd (with \"quotes\")".to_owned(), Some(10)),
            ("t/dies.t".to_owned(), None),
        ]
    );
    let first = &run.failures[0];
    assert_eq!((first.expected.as_deref(), first.actual.as_deref()), (Some("'3'"), Some("'2'")));
    let broken = &run.problems[0];
    assert_eq!((broken.file.as_deref(), broken.line), (Some("t/broken.t"), Some(4)));
    assert!(!run.green());
}

#[test]
fn failures_are_run_again_by_file_and_it_says_so() {
    let first = run(&TestAsk::default());
    let only = first.failures.iter().filter(|failure| failure.id.unit == "t/calc.t").map(|f| f.id.clone());
    let again = run(&TestAsk { only: only.collect(), ..TestAsk::default() });
    assert_eq!((again.passed, again.failed), (3, 2), "{again:#?}");
    assert!(again.notes.iter().any(|note| note.contains("widened")));
}

#[test]
fn a_green_file_is_green() {
    let run = run(&TestAsk { names: vec!["t/green.t".to_owned()], ..TestAsk::default() });
    assert!(run.green(), "{run:#?}");
    assert_eq!(run.passed, 2);
}

#[test]
fn what_it_lacks_it_refuses() {
    let facts = project();
    let error = PERL.lint_cmd(&facts, &LintAsk::default()).expect_err("a refusal").to_string();
    assert_eq!(error, "run_lint is not supported for perl: no linter is known");
}
