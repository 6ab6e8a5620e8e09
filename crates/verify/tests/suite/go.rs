//! Go outputs.

use crate::support::{captured, facts, language, output, project, read_run};
use verify::{LintAsk, MapFacts, Plan, TestAsk, TestRun};

fn plan() -> Plan {
    language("go").test_cmd(&MapFacts::default(), &TestAsk::default()).expect("a plan").remove(0)
}

fn read(stdout: &str, stderr: Option<&str>) -> TestRun {
    let stderr = stderr.map(output).unwrap_or_default();
    let facts = project("go/mixed", "/sample/go");
    read_run("go", &plan(), &facts, &captured(output(stdout), stderr, 1))
}

#[test]
fn every_outcome_of_the_mixed_project() {
    insta::assert_yaml_snapshot!(read("go/go1.26.8-mixed.jsonl", None));
}

#[test]
fn a_newer_go_types_its_output() {
    insta::assert_yaml_snapshot!(read("go/go1.27.3-test.jsonl", None));
}

#[test]
fn build_errors_as_events() {
    insta::assert_yaml_snapshot!(read("go/go1.24.11-build-failures.jsonl", None));
}

#[test]
fn build_errors_on_stderr() {
    let run = read("go/go1.23.9-build-failures.jsonl", Some("go/go1.23.9-build-failures.stderr.txt"));
    insta::assert_yaml_snapshot!(run);
}

#[test]
fn vet_findings_and_type_errors() {
    let facts = facts("/sample/go", &[]);
    let plan = language("go").typecheck_cmd(&facts, &LintAsk::default()).expect("a plan");
    let (stdout, stderr) = (output("go/go1.27-vet-json.stdout.txt"), output("go/go1.27-vet-json.stderr.txt"));
    insta::assert_yaml_snapshot!(language("go").parse_typecheck(&plan, &facts, &captured(stdout, stderr, 1)));
}
