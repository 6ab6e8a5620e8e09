//! Go: `go test -json`, golangci-lint, `go vet`, gofmt, gopls.

mod failure;
mod lint;
mod plan;
mod tests;

use crate::{
    Answer, Captured, Detector, ExitMeaning, Facts, LintAsk, LintRun, NeededBinary, Plan, ScriptError,
    ServerPlan, TestAsk, TestReader, languages::tasks,
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
