//! `run_failing_tests`.

use super::{
    arguments,
    memory::{Latest, Tested},
    project::Project,
    render,
    run_tests::{LanguageReport, Report},
    tests,
};
use crate::{Call, Class, Facts, Group, Spec, Tool, ToolError};
use ::verify::{TestAsk, TestId};
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Instant;

/// Runs exactly the failed tests again.
pub(crate) struct RunFailingTests;

/// What `run_failing_tests` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// default 50, max 200
    #[serde(default)]
    limit: Option<usize>,
    /// s, default 300, max 1800
    #[serde(default)]
    timeout: Option<u64>,
    #[serde(default)]
    language: Option<String>,
}

impl Tool for RunFailingTests {
    const SPEC: Spec = Spec {
        name: "run_failing_tests",
        group: Group::Verify,
        class: Class::Write,
        description: "Run exactly the tests again that failed in this session's latest run_tests.",
        destructive: false,
        idempotent: false,
        open_world: true,
        long: true,
    };
    type Args = Args;
    type Output = Facts<Report>;

    async fn run(&self, call: &Call, args: Args) -> Result<Facts<Report>, ToolError> {
        let limit = arguments::limit("run_failing_tests", args.limit, 50, 200)?;
        let timeout = arguments::timeout("run_failing_tests", args.timeout, 300, 1800)?;
        call.session.verified.settled().await;
        let Some(mut latest) = call.session.verified.latest(call.workspace.name()) else {
            return Err(ToolError::with_hint(
                "no run_tests call yet in this session",
                "call run_tests first",
            ));
        };
        let wanted = args
            .language
            .as_deref()
            .map(|name| name.trim().to_lowercase())
            .filter(|name| !name.is_empty() && name != "all");
        if let Some(wanted) = &wanted
            && !latest.languages.iter().any(|tested| tested.language == wanted)
        {
            return Err(ToolError::caller(format!("no structured failures available for {wanted}")));
        }
        let project = Project::open(call, "run_failing_tests", Some(&latest.folder))?;
        let (mut text, mut report) = (String::new(), Report { languages: Vec::new(), exit: 0 });
        let mut left = limit;
        for tested in &mut latest.languages {
            if wanted.as_ref().is_some_and(|wanted| tested.language != wanted) {
                continue;
            }
            let all = tested.run.failures.len();
            let only: Vec<TestId> =
                tested.run.failures.iter().take(left).map(|failure| failure.id.clone()).collect();
            left -= only.len();
            let Some(detector) = call.host().languages.get(tested.language).filter(|_| !only.is_empty())
            else {
                continue;
            };
            let ask = TestAsk { only: only.clone(), timeout_seconds: timeout, ..TestAsk::default() };
            let mut done = tests::run(call, "run_failing_tests", &project, detector, ask, None).await?;
            if only.len() < all {
                done.run.notes.push(format!("{} of {all} failing tests were run; raise `limit`", only.len()));
            }
            text.push_str(&render::report(tested.language, &done));
            text.push('\n');
            report.languages.push(LanguageReport::new(tested.language, &done));
            report.exit = if report.exit == 0 { done.exit } else { report.exit };
            remember(tested, &only, &done.run);
        }
        if report.languages.is_empty() {
            return Err(nothing(&latest));
        }
        latest.when = Instant::now();
        call.session.verified.keep(call.workspace.name(), latest);
        text.push_str(&format!("exit: {}", report.exit));
        Ok(Facts { text, facts: report })
    }
}

/// What is still failing is what failed again, or was not run.
fn remember(tested: &mut Tested, only: &[TestId], run: &::verify::TestRun) {
    if run.unread.is_some() || !run.problems.is_empty() {
        tested.rerun_problems = true;
        tested.run.problems.clone_from(&run.problems);
        return;
    }
    if std::mem::take(&mut tested.rerun_problems) {
        tested.run.problems.clear();
    }
    let fixed = run.passed;
    let gone = |id: &TestId| only.contains(id) && run.incomplete.is_none();
    tested.run.failures.retain(|failure| !gone(&failure.id) || run.missing.contains(&failure.name));
    tested.run.failures.splice(0..0, run.failures.iter().cloned());
    tested.run.failed = u32::try_from(tested.run.failures.len()).unwrap_or(u32::MAX);
    tested.run.passed += fixed;
}

fn nothing(latest: &Latest) -> ToolError {
    let problems: usize = latest.languages.iter().map(|tested| tested.run.problems.len()).sum();
    let unread = latest.languages.iter().filter(|tested| tested.run.unread.is_some());
    let unread: Vec<&str> = unread.map(|tested| tested.language).collect();
    match problems {
        0 if !unread.is_empty() => ToolError::with_hint(
            format!("nothing to run again: no structured failures available for {}", unread.join(", ")),
            "call run_tests and read what it says",
        ),
        0 => ToolError::caller("nothing to run again: last run_tests had no failures"),
        count => ToolError::with_hint(
            format!("nothing to run again: last run_tests had {count} error(s) before any test failed"),
            "mend them and call run_tests",
        ),
    }
}
