//! Runs of single test files that record which lines they reach.

use super::{affected, lint, manifest, script::Runner, tests};
use crate::{Facts, Plan};

const REPORT: &str = "cover/lcov.info";

/// One run for each test file, or why there is none.
pub(super) fn plans(facts: &dyn Facts) -> Result<Vec<Plan>, String> {
    let runner = tests::runner(facts)
        .ok_or_else(|| "the test script runs something whose coverage cannot be asked for".to_owned())?;
    let needed = match runner {
        Runner::Vitest => Some(("@vitest/coverage-v8", "npm install --save-dev @vitest/coverage-v8")),
        Runner::Mocha => Some(("c8", "npm install --save-dev c8")),
        _ => None,
    };
    let there = |name: &str| manifest::ups().any(|above| facts.exists(&format!("{above}{name}")));
    // A folder that lies elsewhere cannot be looked into: then the runner will say.
    if let Some((package, get)) = needed
        && there("node_modules")
        && !there(&format!("node_modules/{package}/package.json"))
    {
        return Err(format!("{} needs {package}: {get}", runner.name()));
    }
    let files = affected::test_files(facts, runner).ok_or("there are too many files to look at")?;
    Ok(files.iter().map(|file| one(facts, runner, file)).collect())
}

fn one(facts: &dyn Facts, runner: Runner, file: &str) -> Plan {
    let at = |name: &str| facts.scratch().join(name).to_string_lossy().into_owned();
    let folder = at("cover");
    let program = |name: &str| lint::program(facts, name);
    let (program, args): (String, Vec<String>) = match runner {
        Runner::Jest => (
            program("jest"),
            vec![
                "--coverage".to_owned(),
                "--coverageReporters=lcovonly".to_owned(),
                format!("--coverageDirectory={folder}"),
                "--runTestsByPath".to_owned(),
                file.to_owned(),
            ],
        ),
        Runner::Vitest => (
            program("vitest"),
            vec![
                "run".to_owned(),
                "--coverage.enabled".to_owned(),
                "--coverage.provider=v8".to_owned(),
                "--coverage.reporter=lcovonly".to_owned(),
                format!("--coverage.reportsDirectory={folder}"),
                "--coverage.reportOnFailure".to_owned(),
                file.to_owned(),
            ],
        ),
        Runner::Mocha => (
            program("c8"),
            vec![
                "--reporter=lcovonly".to_owned(),
                format!("--reports-dir={folder}"),
                format!("--temp-directory={}", at("v8")),
                program("mocha"),
                file.to_owned(),
            ],
        ),
        Runner::NodeTest => (
            "node".to_owned(),
            vec![
                "--test".to_owned(),
                "--experimental-test-coverage".to_owned(),
                "--test-reporter=lcov".to_owned(),
                format!("--test-reporter-destination={}", at(NODE_REPORT)),
                file.to_owned(),
            ],
        ),
        Runner::Bun => (
            "bun".to_owned(),
            vec![
                "test".to_owned(),
                "--coverage".to_owned(),
                "--coverage-reporter=lcov".to_owned(),
                format!("--coverage-dir={folder}"),
                format!("./{file}"),
            ],
        ),
    };
    let report = if runner == Runner::NodeTest { NODE_REPORT } else { REPORT };
    Plan {
        runner: runner.name(),
        program,
        args,
        env: vec![("NO_COLOR".to_owned(), "1".to_owned())],
        report: Some(report.to_owned()),
        memo: serde_json::json!({ "unit": file }),
        why: vec!["file by file, so that the lines can be told apart".to_owned()],
        ..Plan::default()
    }
}

/// Node writes the file itself, into a folder that is there.
const NODE_REPORT: &str = "cover.lcov";
