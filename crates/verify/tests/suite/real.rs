//! Go and Rust through their real tools.

use super::runs::Project;
use verify::{TestAsk, TestRun};

/// Everything that failed, to be run again.
fn again(run: &TestRun) -> TestAsk {
    let only = run.failures.iter().map(|failure| failure.id.clone()).collect();
    TestAsk { only, timeout_seconds: 60, ..TestAsk::default() }
}

fn names(run: &TestRun) -> Vec<String> {
    run.failures.iter().map(|failure| failure.name.clone()).collect()
}

#[test]
fn go_reruns_exactly_what_failed() {
    let project = Project::copy("go/mixed");
    let first = project.test_with(&TestAsk::default());
    assert_eq!((first.passed, first.failed, first.skipped), (5, 19, 1), "{:?}", names(&first));
    let second = project.test_with(&again(&first));
    assert_eq!(names(&second), names(&first));
    assert_eq!((second.passed, second.missing.len()), (0, 0), "{:?}", second.missing);
}

#[test]
fn rust_reruns_exactly_what_failed() {
    let project = Project::copy("rust/mixed");
    let first = project.test_with(&TestAsk::default());
    assert_eq!((first.passed, first.failed, first.skipped), (8, 15, 1), "{:?}", names(&first));
    let second = project.test_with(&again(&first));
    let sorted = |run: &TestRun| {
        let mut names = names(run);
        names.sort();
        names
    };
    assert_eq!(sorted(&second), sorted(&first));
    // Other examples of the same items come along: rustdoc selects by a word of the name.
    assert_eq!((second.passed, second.missing.len()), (3, 0), "{:?}", second.missing);
}

#[test]
fn rust_names_every_test_that_took_its_process_down() {
    let project = Project::copy("rust/deadly");
    let run = project.test_with(&TestAsk::default());
    let crashed: Vec<String> = run
        .failures
        .iter()
        .filter(|failure| failure.kind == verify::FailureKind::Crashed)
        .map(|failure| failure.name.clone())
        .collect();
    assert_eq!(crashed, ["aborts", "z_segfaults", "exits_zero", "overflows"], "{run:#?}");
    assert_eq!((run.passed, run.failed), (7, 5), "{run:#?}");
}

#[test]
fn a_hanging_rust_test_is_named() {
    let mut project = Project::copy("rust/deadly");
    let wanted = vec!["hangs".to_owned(), "quick".to_owned()];
    let mut ask = TestAsk { names: wanted, ..TestAsk::default() };
    // Built beforehand, so that the limit is spent on the test.
    project.test_with(&ask);
    project.set("FIXTURE_HANG", "1");
    ask.timeout_seconds = 5;
    let run = project.test_with(&ask);
    assert_eq!(names(&run), ["hangs"], "{run:#?}");
    assert_eq!((run.passed, run.incomplete.as_deref()), (1, Some("timed out")));
}

#[test]
fn a_vanished_test_is_never_a_success() {
    for (id, name, unit) in [("go", "go/green", "example.com/green"), ("rust", "rust/green", "--lib")] {
        let project = Project::copy(name);
        let gone = verify::TestId { unit: unit.to_owned(), path: vec!["TestGone".to_owned()] };
        let run = project.test_with(&TestAsk { only: vec![gone], ..TestAsk::default() });
        assert!(!run.green(), "{id}");
        assert_eq!(run.missing, ["TestGone"], "{id}");
    }
}

#[test]
fn green_and_empty_projects() {
    for (name, passed) in [("go/green", 300), ("rust/green", 300), ("go/empty", 0), ("rust/empty", 0)] {
        let run = Project::copy(name).test_with(&TestAsk::default());
        assert_eq!((run.passed, run.failed), (passed, 0), "{name}: {run:#?}");
        assert_eq!(run.green(), passed > 0, "{name}");
        assert_eq!(run.notes.is_empty(), passed > 0, "{name}");
    }
}

/// A package in a folder of a workspace, with more lines for its manifest.
fn package(project: &Project, name: &str, manifest: &str, file: &str, text: &str) {
    let head = format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n{manifest}");
    project.write(&format!("{name}/Cargo.toml"), head).write(&format!("{name}/{file}"), text);
}

fn example(name: &str, holds: bool) -> String {
    format!("/// ```\n/// assert!({holds});\n/// ```\npub fn {name}() {{}}\n")
}

#[test]
fn nextest_and_doctests_only_where_there_are_some() {
    let nextest = testkit::tools::path("cargo-nextest");
    let mut project = Project::empty("rust");
    project.find_first(nextest.parent().expect("a folder"));
    project.write(".config/nextest.toml", "");
    project.write("Cargo.toml", "[package]\nname = \"tool\"\nversion = \"0.1.0\"\n[workspace]\n");
    project.write("src/main.rs", "fn main() {}\n#[test]\nfn in_the_program() {}\n");
    // A program alone: a workspace, but nothing that could have examples.
    let run = project.test();
    assert!(run.green(), "{run:#?}");
    assert_eq!((run.passed, &run.notes[..]), (1, &[][..]));

    // Members of every kind, one of them there because another one depends on it.
    project.write(
        "Cargo.toml",
        "[workspace]\nresolver = \"2\"\nmembers = [\"app\", \"li?\", \"quiet\", \"c\"]\n",
    );
    project.remove("src/main.rs");
    package(&project, "app", "", "src/main.rs", "fn main() {}\n");
    let beside = "[dependencies]\nbeside = { path = \"../beside\" }\n";
    package(&project, "lib", beside, "src/lib.rs", &example("shown", true));
    package(&project, "beside", "", "src/lib.rs", &example("beside", true));
    package(&project, "quiet", "[lib]\ndoctest = false\n", "src/lib.rs", &example("wrong", false));
    package(&project, "c", "[lib]\ncrate-type = [\"cdylib\"]\n", "src/lib.rs", "");
    let run = project.test();
    assert!(run.green(), "{run:#?}");
    assert_eq!(run.passed, 2, "{run:#?}");

    // Those that a change affects, and the workspace's own choice.
    let some = |units: &[&str]| {
        let units = units.iter().map(|unit| (*unit).to_owned()).collect();
        let ask = TestAsk { units, ..TestAsk::default() };
        let plans = project.detector().test_cmd(&project, &ask).expect("a plan");
        plans.get(1).map(|plan| plan.args[3..].join(" "))
    };
    assert_eq!(some(&["app", "beside", "quiet"]).as_deref(), Some("--doc -p beside"));
    assert_eq!(some(&["app", "quiet", "c"]), None);
    assert_eq!(some(&[]).as_deref(), Some("--doc --workspace --exclude quiet"));
    let chosen =
        "[workspace]\nmembers = [\"*\"]\nexclude = [\"target\"]\ndefault-members = [\"app\", \"quiet\"]\n";
    project.write("Cargo.toml", chosen);
    assert_eq!(some(&[]), None);
}
