//! The fifth language against the real `prove`.

#![expect(clippy::disallowed_methods, clippy::expect_used, reason = "tests drive real programs and may fail")]

use add_a_language::PERL;
use config::{NamedRoot, Settings};
use sandbox::{Sandbox, direct::Direct};
use serde_json::{Map, Value};
use std::{path::Path, process::Command, sync::Arc};
use tools::{Access, Catalog, Host, Progress, Runtime, SessionGuard};
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

async fn call(session: &SessionGuard, tool: &str) -> String {
    call_with(session, tool, Map::new()).await
}

async fn call_with(session: &SessionGuard, tool: &str, args: Map<String, Value>) -> String {
    let cancel = tokio_util::sync::CancellationToken::new();
    session.call(tool, args, cancel, Progress::default()).await.all_text()
}

/// A host that knows the language serves it through every tool, beside the shipped ones.
#[tokio::test(flavor = "multi_thread")]
async fn the_servers_tools_speak_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().canonicalize().expect("a path");
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/project/.");
    assert!(Command::new("cp").arg("-r").arg(project).arg(&root).status().expect("cp").success());
    let state = tempfile::tempdir().expect("a folder");
    let settings = Settings {
        workspaces: vec![NamedRoot { name: "default".to_owned(), root }],
        state_dir: state.path().to_owned(),
        ..Settings::default()
    };
    let variables = std::env::vars_os().collect();
    let sandbox: Arc<dyn Sandbox> = Arc::new(Direct::new("direct").with_baseline(variables));
    let runtime = Runtime::new(sandbox);
    let languages = Languages::shipped().with(&PERL);
    let host = Host::with_languages(settings, runtime, Catalog::shipped(), languages).expect("a host");
    let session = host.session("example", Access::Full);
    let text = call(&session, "run_tests").await;
    assert!(text.starts_with("perl: 6 passed, 3 failed, "), "{text}");
    assert!(text.contains("\nFAIL adds wrongly t/calc.t:6\n"), "{text}");
    let text = call(&session, "last_test_failures").await;
    assert!(text.starts_with("3 test failure(s) from last run_tests call (perl, "), "{text}");
    assert_eq!(call(&session, "run_lint").await, "run_lint is not supported for perl: no linter is known");
    // Its language server is asked for, here where it is not installed.
    let file = Map::from_iter([("file_path".to_owned(), Value::from("t/calc.t"))]);
    let text = call_with(&session, "document_symbols", file).await;
    assert!(text.contains("perlnavigator"), "{text}");
}
