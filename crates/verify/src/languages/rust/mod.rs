//! Rust: cargo test and nextest, clippy, cargo check, rustfmt, rust-analyzer.

mod affected;
mod cargo;
mod diagnostics;
mod doctest;
mod failure;
mod manifest;
mod nextest;
mod packages;
mod plan;
mod target;

use crate::{
    Affected, Answer, Captured, Covered, Detector, ExitMeaning, Facts, Finding, LintAsk, LintRun,
    NeededBinary, Plan, ScriptError, ServerPlan, TestAsk, TestId, TestReader, TestRun, coverage,
    languages::tasks,
};
use std::path::Path;

/// The Rust detector.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rust;

impl Detector for Rust {
    fn language(&self) -> &'static str {
        "rust"
    }

    fn markers(&self) -> &'static [&'static str] {
        &["Cargo.toml"]
    }

    fn gatherers(&self) -> &'static [(&'static str, &'static str)] {
        &[("Cargo.toml", "[workspace]")]
    }

    fn gathers(&self, text: &str, folder: &Path) -> bool {
        !packages::leaves_out(text, folder)
    }

    fn owns(&self, file: &Path) -> bool {
        file.extension().is_some_and(|extension| extension == "rs")
    }

    fn binaries(&self, facts: &dyn Facts) -> Vec<NeededBinary> {
        let needed = |binary: &str, purpose, get| NeededBinary {
            binary: binary.to_owned(),
            purpose,
            version_args: &["--version"],
            get,
            local: None,
        };
        let mut binaries = vec![
            needed("cargo", "run_tests, run_typecheck", "https://rustup.rs"),
            needed("cargo-clippy", "run_lint", "rustup component add clippy"),
            needed("rustfmt", "run_format", "rustup component add rustfmt"),
            needed("rust-analyzer", "code intelligence", "rustup component add rust-analyzer rust-src"),
        ];
        if manifest::configures_nextest(facts) {
            binaries.push(needed("cargo-nextest", "run_tests", "cargo install --locked cargo-nextest"));
        }
        binaries
    }

    fn test_cmd(&self, facts: &dyn Facts, ask: &TestAsk) -> Answer<Vec<Plan>> {
        Ok(plan::tests(facts, ask))
    }

    fn test_reader(&self, plan: &Plan, facts: &dyn Facts) -> Box<dyn TestReader> {
        match plan.runner {
            "nextest" => Box::new(nextest::Reader::new(plan)),
            _ => Box::new(cargo::Reader::new(plan, manifest::base(facts))),
        }
    }

    fn follow_up(&self, _facts: &dyn Facts, plan: &Plan, run: &mut TestRun) -> Option<Plan> {
        plan::follow_up(plan, run)
    }

    fn affected_query(&self, _facts: &dyn Facts) -> Option<Plan> {
        Some(affected::query())
    }

    fn affected(&self, facts: &dyn Facts, changed: &[String], asked: Option<&Captured>) -> Affected {
        affected::affected(facts, changed, asked)
    }

    fn lint_cmd(&self, facts: &dyn Facts, ask: &LintAsk) -> Answer<Plan> {
        Ok(plan::check(facts, ask, "clippy"))
    }

    fn hides_others(&self, finding: &Finding) -> bool {
        let number = finding.rule.strip_prefix('E').unwrap_or_default();
        finding.rule == "error" || (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    }

    fn parse_lint(&self, plan: &Plan, facts: &dyn Facts, captured: &Captured) -> LintRun {
        diagnostics::lint(plan, facts, captured)
    }

    fn typecheck_cmd(&self, facts: &dyn Facts, ask: &LintAsk) -> Answer<Plan> {
        Ok(plan::check(facts, ask, "check"))
    }

    fn format_cmd(&self, facts: &dyn Facts, file: &str, text: &[u8]) -> Answer<Plan> {
        Ok(plan::format(facts, file, text))
    }

    fn holds(&self, facts: &dyn Facts, folder: &str) -> bool {
        packages::packages(facts).iter().any(|package| package.folder == folder)
    }

    fn coverage_cmd(&self, facts: &dyn Facts, _ask: &TestAsk) -> Answer<Vec<Plan>> {
        plan::coverage(facts).map_err(|why| self.unsupported("coverage", &why))
    }

    fn parse_coverage(&self, plan: &Plan, facts: &dyn Facts, captured: &Captured) -> Vec<Covered> {
        let test =
            TestId { unit: plan.memo["unit"].as_str().unwrap_or_default().to_owned(), path: Vec::new() };
        coverage::lcov(captured.report.as_deref().unwrap_or_default(), facts.root(), &test)
    }

    fn scripts(&self, facts: &dyn Facts) -> Vec<String> {
        let mut names = manifest::aliases(facts);
        names.extend(tasks::names(facts));
        names.sort();
        names.dedup();
        names
    }

    fn script_cmd(&self, facts: &dyn Facts, name: &str) -> Result<Plan, ScriptError> {
        plan::script(facts, name)
            .or_else(|| tasks::plan(facts, name))
            .ok_or_else(|| tasks::unknown(self, facts, name))
    }

    fn server_cmd(&self, _facts: &dyn Facts) -> Answer<Vec<ServerPlan>> {
        Ok(vec![ServerPlan {
            name: "rust-analyzer",
            program: "rust-analyzer".to_owned(),
            args: Vec::new(),
            // Checks are made when they are asked for; a folder of its own, so that it never waits for a build.
            options: serde_json::json!({
                "checkOnSave": false,
                "cargo": { "targetDir": true },
                // Without these it takes names and imports that are nowhere for fine.
                "diagnostics": { "experimental": { "enable": true } },
                "workspace": { "symbol": { "search": { "kind": "all_symbols", "limit": 4096 } } },
            }),
            folders: &["CARGO_TARGET_DIR"],
        }])
    }

    fn exit_meaning(&self, plan: &Plan, code: i32) -> ExitMeaning {
        match (plan.runner, code) {
            (_, 0) => ExitMeaning::Clean,
            // cargo says 101 for failed tests and for code that does not compile alike: both are findings.
            ("cargo test" | "clippy" | "check", 101) | ("nextest", 100) => ExitMeaning::Findings,
            _ => ExitMeaning::Broken,
        }
    }
}
