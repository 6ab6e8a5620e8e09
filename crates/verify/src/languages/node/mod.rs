//! Node: whatever package.json describes, through npm, pnpm, yarn or bun.

mod affected;
mod bun;
mod cover;
mod findings;
mod lint;
mod manifest;
mod script;
mod tests;

use crate::{
    Affected, Answer, Captured, Covered, Detector, ExitMeaning, Facts, LintAsk, LintRun, NeededBinary, Plan,
    ScriptError, ServerPlan, TestAsk, TestId, TestReader, coverage,
    reporters::{EventsReader, MIRROR, Paths},
};
use manifest::Manifest;
use std::path::Path;

/// The detector for Node.
pub(super) struct Node;

const SOURCES: &[&str] = &["js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx"];

impl Detector for Node {
    fn language(&self) -> &'static str {
        "node"
    }

    fn markers(&self) -> &'static [&'static str] {
        &["package.json"]
    }

    fn gatherers(&self) -> &'static [(&'static str, &'static str)] {
        &[("package.json", "\"workspaces\""), ("pnpm-workspace.yaml", "")]
    }

    fn dependencies(&self) -> &'static [&'static str] {
        &["package.json", "package-lock.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock", "bun.lockb"]
    }

    fn packages(&self) -> &'static [&'static str] {
        &["node_modules"]
    }

    fn owns(&self, file: &Path) -> bool {
        let extension = file.extension().and_then(|end| end.to_str());
        extension.is_some_and(|end| SOURCES.contains(&end))
    }

    fn binaries(&self, facts: &dyn Facts) -> Vec<NeededBinary> {
        let manifest = Manifest::read(facts);
        let (manager, _) = manifest.manager(facts);
        let mut needed = vec![
            needed(facts, "node", "running everything", "install Node.js 20 or later"),
            needed(facts, manager.program(), "running scripts", manager_help(manager.program())),
        ];
        if let Ok(plan) = tests::plan(facts, &TestAsk::default())
            && ["jest", "vitest", "mocha"].contains(&plan.runner)
        {
            needed.push(needed_here(facts, plan.runner, "run_tests"));
        }
        let linter = lint::linter(facts, &manifest).map_or("eslint", |(name, _)| name);
        needed.push(needed_here(facts, linter, "run_lint"));
        needed.push(needed_here(facts, "tsc", "run_typecheck"));
        let formatter = lint::formatter(facts, &manifest).map_or("prettier", |(name, _)| name);
        if formatter != linter {
            needed.push(needed_here(facts, formatter, "run_format"));
        }
        for server in
            self.server_cmd(facts).into_iter().flatten().take(1).filter(|server| server.name != "tsc")
        {
            needed.push(NeededBinary { purpose: "code intelligence", ..needed_here(facts, server.name, "") });
        }
        needed
    }

    fn test_cmd(&self, facts: &dyn Facts, ask: &TestAsk) -> Answer<Vec<Plan>> {
        match tests::plan(facts, ask) {
            Ok(plan) => Ok(vec![plan]),
            Err(why) => Err(self.unsupported("run_tests", &why)),
        }
    }

    fn test_reader(&self, plan: &Plan, facts: &dyn Facts) -> Box<dyn TestReader> {
        match plan.runner {
            "bun" => Box::new(bun::BunReader::new(plan, facts)),
            _ => Box::new(EventsReader::new(plan, facts)),
        }
    }

    fn exit_meaning(&self, plan: &Plan, code: i32) -> ExitMeaning {
        match (plan.runner, code) {
            (_, 0) => ExitMeaning::Clean,
            (_, 1) | ("tsc", 2) => ExitMeaning::Findings,
            // mocha's code is the number of failures.
            ("mocha" | "script", 2..=125) => ExitMeaning::Findings,
            _ => ExitMeaning::Broken,
        }
    }

    fn affected(&self, facts: &dyn Facts, changed: &[String], _asked: Option<&Captured>) -> Affected {
        affected::affected(facts, changed)
    }

    fn lint_cmd(&self, facts: &dyn Facts, ask: &LintAsk) -> Answer<Plan> {
        Ok(lint::lint(facts, ask))
    }

    fn parse_lint(&self, plan: &Plan, facts: &dyn Facts, captured: &Captured) -> LintRun {
        let copies = facts.scratch().join(MIRROR);
        let paths = Paths::new(&facts.root().to_string_lossy());
        findings::read(plan.runner, &paths, &copies.to_string_lossy(), captured)
    }

    fn typecheck_cmd(&self, facts: &dyn Facts, _ask: &LintAsk) -> Answer<Plan> {
        lint::typecheck(facts).map_err(|why| self.unsupported("run_typecheck", &why))
    }

    fn format_cmd(&self, facts: &dyn Facts, file: &str, text: &[u8]) -> Answer<Plan> {
        lint::format(facts, file, text).map_err(|why| self.unsupported("run_format", &why))
    }

    fn coverage_cmd(&self, facts: &dyn Facts, _ask: &TestAsk) -> Answer<Vec<Plan>> {
        cover::plans(facts).map_err(|why| self.unsupported("coverage", &why))
    }

    fn parse_coverage(&self, plan: &Plan, facts: &dyn Facts, captured: &Captured) -> Vec<Covered> {
        let test =
            TestId { unit: plan.memo["unit"].as_str().unwrap_or_default().to_owned(), path: Vec::new() };
        coverage::lcov(captured.report.as_deref().unwrap_or_default(), facts.root(), &test)
    }

    fn scripts(&self, facts: &dyn Facts) -> Vec<String> {
        Manifest::read(facts).scripts.into_keys().collect()
    }

    fn script_cmd(&self, facts: &dyn Facts, name: &str) -> Result<Plan, ScriptError> {
        let manifest = Manifest::read(facts);
        if manifest.scripts.contains_key(name) {
            return Ok(lint::run_script(facts, &manifest, name));
        }
        Err(ScriptError::Unknown {
            name: name.to_owned(),
            place: "package.json".to_owned(),
            available: self.scripts(facts),
        })
    }

    fn server_cmd(&self, facts: &dyn Facts) -> Answer<Vec<ServerPlan>> {
        let native = ServerPlan {
            name: "tsc",
            program: lint::program(facts, "tsc"),
            args: vec!["--lsp".to_owned(), "--stdio".to_owned()],
            options: serde_json::json!({ "preferences": { "useAliasesForRenames": false } }),
            folders: &[],
        };
        let classic = ServerPlan {
            name: "typescript-language-server",
            program: lint::program(facts, "typescript-language-server"),
            args: vec!["--stdio".to_owned()],
            // One tsserver that knows the whole project: the quick one beside it answers before it knows.
            options: serde_json::json!({
                "preferences": { "providePrefixAndSuffixTextForRename": false },
                "disableAutomaticTypingAcquisition": true,
                "tsserver": { "useSyntaxServer": "never", "useClientFileWatcher": true },
            }),
            folders: &[],
        };
        // The classic server refuses TypeScript 7, and only that has a server of its own. Without either of them in
        // the project, the PATH may have a TypeScript 7; an older one does not start as a server.
        match manifest::installed_major(facts, "typescript") {
            Some(7..) => Ok(vec![native]),
            _ => Ok(vec![classic, ServerPlan { program: "tsc".to_owned(), ..native }]),
        }
    }
}

fn needed(facts: &dyn Facts, binary: &str, purpose: &'static str, get: &'static str) -> NeededBinary {
    NeededBinary {
        binary: binary.to_owned(),
        purpose,
        version_args: &["--version"],
        get,
        local: manifest::bin(facts, binary),
    }
}

fn needed_here(facts: &dyn Facts, binary: &str, purpose: &'static str) -> NeededBinary {
    let get = match binary {
        "biome" => "npm install --save-dev @biomejs/biome",
        "eslint" => "npm install --save-dev eslint",
        "jest" => "npm install --save-dev jest",
        "mocha" => "npm install --save-dev mocha",
        "oxlint" => "npm install --save-dev oxlint",
        "prettier" => "npm install --save-dev prettier",
        "tsc" => "npm install --save-dev typescript",
        "vitest" => "npm install --save-dev vitest",
        _ => "npm install --save-dev typescript-language-server typescript",
    };
    needed(facts, binary, purpose, get)
}

fn manager_help(program: &str) -> &'static str {
    match program {
        "pnpm" => "npm install --global pnpm",
        "yarn" => "npm install --global yarn",
        "bun" => "npm install --global bun",
        _ => "install Node.js 20 or later",
    }
}
