//! Go: `go test -json`, golangci-lint, `go vet`, gofmt, gopls.

mod affected;
mod failure;
mod lint;
mod plan;
mod tests;

use crate::{
    Affected, Answer, Captured, Covered, Detector, ExitMeaning, Facts, LintAsk, LintRun, NeededBinary, Plan,
    ScriptError, ServerPlan, TestAsk, TestId, TestReader, coverage, languages::tasks,
};
use std::path::Path;

/// The Go detector.
#[derive(Debug, Clone, Copy)]
pub(super) struct Go;

impl Detector for Go {
    fn language(&self) -> &'static str {
        "go"
    }

    fn markers(&self) -> &'static [&'static str] {
        &["go.mod"]
    }

    fn gatherers(&self) -> &'static [(&'static str, &'static str)] {
        &[("go.work", "")]
    }

    fn owns(&self, file: &Path) -> bool {
        file.extension().is_some_and(|extension| extension == "go")
    }

    fn binaries(&self, _facts: &dyn Facts) -> Vec<NeededBinary> {
        let needed = |binary: &str, purpose, version_args, get| NeededBinary {
            binary: binary.to_owned(),
            purpose,
            version_args,
            get,
            local: None,
        };
        vec![
            needed("go", "run_tests, run_typecheck", &["version"], "https://go.dev/doc/install"),
            needed(
                "golangci-lint",
                "run_lint",
                &["version"],
                "go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@latest",
            ),
            needed("gofmt", "run_format", &[], "comes with Go"),
            needed("gopls", "code intelligence", &["version"], "go install golang.org/x/tools/gopls@latest"),
        ]
    }

    fn test_cmd(&self, _facts: &dyn Facts, ask: &TestAsk) -> Answer<Vec<Plan>> {
        Ok(plan::tests(ask))
    }

    fn test_reader(&self, plan: &Plan, _facts: &dyn Facts) -> Box<dyn TestReader> {
        Box::new(tests::Reader::new(plan))
    }

    fn affected_query(&self, _facts: &dyn Facts) -> Option<Plan> {
        Some(affected::query())
    }

    fn affected(&self, facts: &dyn Facts, changed: &[String], asked: Option<&Captured>) -> Affected {
        affected::affected(facts, changed, asked)
    }

    fn lint_cmd(&self, facts: &dyn Facts, ask: &LintAsk) -> Answer<Plan> {
        Ok(plan::lint(facts, ask))
    }

    fn parse_lint(&self, plan: &Plan, facts: &dyn Facts, captured: &Captured) -> LintRun {
        match plan.runner {
            "go vet" => lint::vet(facts, captured),
            _ => lint::golangci(facts, captured),
        }
    }

    fn typecheck_cmd(&self, _facts: &dyn Facts, ask: &LintAsk) -> Answer<Plan> {
        Ok(plan::vet(ask))
    }

    fn format_cmd(&self, _facts: &dyn Facts, _file: &str, text: &[u8]) -> Answer<Plan> {
        Ok(Plan {
            runner: "gofmt",
            program: "gofmt".to_owned(),
            stdin: Some(text.to_vec()),
            why: vec!["gofmt is Go's own formatter".to_owned()],
            ..Plan::default()
        })
    }

    fn coverage_cmd(&self, facts: &dyn Facts, ask: &TestAsk) -> Answer<Vec<Plan>> {
        plan::coverage(facts, ask).map_err(|why| self.unsupported("coverage", &why))
    }

    fn parse_coverage(&self, plan: &Plan, facts: &dyn Facts, captured: &Captured) -> Vec<Covered> {
        let module = plan::module(facts).unwrap_or_default();
        let test =
            TestId { unit: plan.memo["unit"].as_str().unwrap_or_default().to_owned(), path: Vec::new() };
        coverage::go_profile(captured.report.as_deref().unwrap_or_default(), &module, &test)
    }

    fn scripts(&self, facts: &dyn Facts) -> Vec<String> {
        tasks::names(facts)
    }

    fn script_cmd(&self, facts: &dyn Facts, name: &str) -> Result<Plan, ScriptError> {
        tasks::plan(facts, name).ok_or_else(|| tasks::unknown(self, facts, name))
    }

    fn server_cmd(&self, _facts: &dyn Facts) -> Answer<Vec<ServerPlan>> {
        Ok(vec![ServerPlan {
            name: "gopls",
            program: "gopls".to_owned(),
            args: Vec::new(),
            options: serde_json::json!({ "pullDiagnostics": true }),
            folders: &[],
        }])
    }

    fn exit_meaning(&self, plan: &Plan, code: i32) -> ExitMeaning {
        match (plan.runner, code) {
            (_, 0) => ExitMeaning::Clean,
            ("gofmt", _) => ExitMeaning::Broken,
            (_, 1) => ExitMeaning::Findings,
            _ => ExitMeaning::Broken,
        }
    }
}
