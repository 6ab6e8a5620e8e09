//! `run_tests`.

use super::{
    affected::{Share, Since},
    arguments,
    memory::Keeper,
    project::Project,
    render,
    tests::{self, Tests},
};
use crate::{Call, Class, Facts, Group, Spec, Tool, ToolError};
use ::verify::{TestAsk, TestRun};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Runs the project's tests.
pub(crate) struct RunTests;

/// What `run_tests` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// go, rust, node, python or all; needed only if the project has several
    #[serde(default)]
    language: Option<String>,
    /// s, default 300, max 1800
    #[serde(default)]
    timeout: Option<u64>,
    /// folder of a nested project
    #[serde(default)]
    path: Option<String>,
    /// names of tests; default all
    #[serde(default)]
    tests: Option<Vec<String>>,
    /// snapshot or git revision: run only tests that changes since then may affect
    #[serde(default)]
    affected_since: Option<String>,
    /// only say what would run and why
    #[serde(default)]
    explain: Option<bool>,
}

/// What came out.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Report {
    /// In detection order.
    pub(super) languages: Vec<LanguageReport>,
    /// 0 only if everything that ran is green.
    pub(super) exit: i32,
}

/// What one language's tests said.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LanguageReport {
    language: String,
    #[serde(flatten)]
    run: TestRun,
    exit: i32,
    seconds: f64,
}

impl LanguageReport {
    pub(super) fn new(language: &str, tests: &Tests) -> Self {
        let mut run = tests.run.clone();
        // Programs get the details of as many as people would read; all are counted.
        run.failures.truncate(200);
        Self { language: language.to_owned(), run, exit: tests.exit, seconds: tests.took.as_secs_f64() }
    }
}

impl Tool for RunTests {
    const SPEC: Spec = Spec {
        name: "run_tests",
        group: Group::Verify,
        class: Class::Write,
        description: "Run the project's tests. Returns a summary per language, each failure with place, message, \
                      expected/actual and its own output, build errors with place, then `exit: N`.",
        destructive: false,
        idempotent: false,
        open_world: true,
        long: true,
    };
    type Args = Args;
    type Output = Facts<Report>;

    async fn run(&self, call: &Call, args: Args) -> Result<Facts<Report>, ToolError> {
        let timeout = arguments::timeout("run_tests", args.timeout, 300, 1800)?;
        let project = Project::open(call, "run_tests", args.path.as_deref())?;
        let (facts, language) = (std::sync::Arc::clone(&project), args.language.clone());
        let detectors = call.blocking(move |_| facts.select(language.as_deref())).await?;
        let names = args.tests.unwrap_or_default();
        let mut ask = TestAsk { names, timeout_seconds: timeout, ..TestAsk::default() };
        let since = match args.affected_since.as_deref().map(str::trim).filter(|since| !since.is_empty()) {
            Some(_) if !ask.names.is_empty() => {
                return Err(ToolError::caller("run_tests: pass either `tests` or `affected_since`"));
            }
            Some(since) => Some(Since::ask(call, since).await?),
            None => None,
        };
        if args.explain == Some(true) {
            let mut text = String::new();
            for detector in detectors {
                if let Some(since) = &since {
                    let share = since.share(call, &project, detector).await?;
                    text.push_str(&format!("{}: {}\n", detector.language(), share.said()));
                    let Share::Run { units, .. } = share else { continue };
                    ask.units = units;
                }
                let plans = tests::plan(call, "run_tests", &project, detector, ask.clone()).await?;
                text.push_str(&format!("{}:\n{}\n", detector.language(), render::explain(&plans)));
            }
            return Ok(Facts { text, facts: Report { languages: Vec::new(), exit: 0 } });
        }
        let several = detectors.len() > 1;
        let (mut text, mut report) = (String::new(), Report { languages: Vec::new(), exit: 0 });
        let keeper = Keeper::new(call, &project.folder);
        for detector in detectors {
            let language = detector.language();
            let mut said = None;
            if let Some(since) = &since {
                let share = since.share(call, &project, detector).await?;
                let Share::Run { units, .. } = &share else {
                    // Nothing was run: this is no verdict, and what failed before is still known.
                    text.push_str(&format!("{language}: {}\n", share.said()));
                    continue;
                };
                ask.units.clone_from(units);
                said = Some(share.said());
            }
            let mut tests =
                match tests::run(call, "run_tests", &project, detector, ask.clone(), Some(&keeper)).await {
                    Ok(tests) => tests,
                    // One language that cannot run does not silence the others.
                    Err(error @ ToolError::Caller { .. }) if several => {
                        text.push_str(&format!("{language}: {error}\n"));
                        report.exit = if report.exit == 0 { 127 } else { report.exit };
                        continue;
                    }
                    Err(error) => return Err(error),
                };
            tests.run.notes.extend(said);
            text.push_str(&render::report(language, &tests));
            text.push('\n');
            report.languages.push(LanguageReport::new(language, &tests));
            report.exit = if report.exit == 0 { tests.exit } else { report.exit };
            keeper.add(language, tests.run);
        }
        text.push_str(&format!("exit: {}", report.exit));
        if !report.languages.is_empty() {
            keeper.keep();
        }
        Ok(Facts { text, facts: report })
    }
}
