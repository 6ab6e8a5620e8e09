//! Rust outputs.

use crate::support::{captured, facts, language, output, project, read_run};
use verify::{LintAsk, TestAsk, TestRun};

fn read(project_name: &str, file: &str) -> TestRun {
    let facts = project(&format!("rust/{project_name}"), &format!("/sample/{project_name}"));
    let plan = language("rust").test_cmd(&facts, &TestAsk::default()).expect("a plan").remove(0);
    read_run("rust", &plan, &facts, &captured(output(file), Vec::new(), 101))
}

#[test]
fn every_outcome_of_the_mixed_project() {
    insta::assert_yaml_snapshot!(read("mixed", "rust/cargo1.95-mixed.txt"));
}

#[test]
fn a_workspace_and_its_doctests() {
    insta::assert_yaml_snapshot!(read("family", "rust/cargo1.95-family.txt"));
}

#[test]
fn processes_that_die() {
    insta::assert_yaml_snapshot!(read("deadly", "rust/cargo1.95-deadly.txt"));
}

#[test]
fn a_target_that_does_not_compile() {
    insta::assert_yaml_snapshot!(read("broken", "rust/cargo1.95-broken.txt"));
}

#[test]
fn clippy_names_its_rules() {
    let facts = facts("/sample/rs", &[("Cargo.toml", "[package]\nname='sample'")]);
    let plan = language("rust").lint_cmd(&facts, &LintAsk::default()).expect("a plan");
    let captured = captured(output("rust/clippy.jsonl"), Vec::new(), 0);
    insta::assert_yaml_snapshot!(language("rust").parse_lint(&plan, &facts, &captured));
}

#[test]
fn nextest_by_its_report() {
    let mut facts =
        facts("/sample/rs", &[("Cargo.toml", "[package]\nname='sample'"), (".config/nextest.toml", "")]);
    facts.binaries.insert("cargo-nextest".to_owned(), "/bin/cargo-nextest".into());
    let plan = language("rust").test_cmd(&facts, &TestAsk::default()).expect("a plan").remove(0);
    assert_eq!(plan.runner, "nextest");
    let mut captured = captured(Vec::new(), Vec::new(), 100);
    captured.report = Some(output("rust/nextest-junit.xml"));
    insta::assert_yaml_snapshot!(read_run("rust", &plan, &facts, &captured));
}
