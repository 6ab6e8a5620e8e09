//! `last_test_failures`.

use super::{arguments, memory::Tested, render};
use crate::{Call, Class, Facts, Group, Spec, Tool, ToolError};
use ::verify::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Shows the failures of the latest run again.
pub(crate) struct LastTestFailures;

/// What `last_test_failures` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// default 50, max 500
    #[serde(default)]
    limit: Option<usize>,
    #[serde(default)]
    language: Option<String>,
}

/// The failures of the latest run.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Report {
    /// All there are.
    total: usize,
    /// As many as were asked for.
    failures: Vec<Failure>,
}

impl Tool for LastTestFailures {
    const SPEC: Spec = Spec {
        name: "last_test_failures",
        group: Group::Verify,
        class: Class::Read,
        description: "Show the failures of this session's latest run_tests again, without running anything.",
        destructive: false,
        idempotent: true,
        open_world: false,
        long: false,
    };
    type Args = Args;
    type Output = Facts<Report>;

    async fn run(&self, call: &Call, args: Args) -> Result<Facts<Report>, ToolError> {
        let limit = arguments::limit("last_test_failures", args.limit, 50, 500)?;
        let nothing = |text: String| Ok(Facts { text, facts: Report::default() });
        call.session.verified.settled().await;
        let Some(latest) = call.session.verified.latest(call.workspace.name()) else {
            return nothing("no run_tests call yet in this session".to_owned());
        };
        let wanted = args
            .language
            .as_deref()
            .map(|name| name.trim().to_lowercase())
            .filter(|name| !name.is_empty() && name != "all");
        let mut of: Vec<&Tested> = latest.languages.iter().collect();
        if let Some(wanted) = &wanted {
            of.retain(|tested| tested.language == wanted);
            if of.is_empty() {
                return nothing(format!("no structured failures available for {wanted}"));
            }
        }
        let unread: Vec<&str> =
            of.iter().filter(|tested| tested.run.unread.is_some()).map(|tested| tested.language).collect();
        if !unread.is_empty() && unread.len() == of.len() {
            return nothing(format!("no structured failures available for {}", unread.join(", ")));
        }
        let unread = match unread.as_slice() {
            [] => String::new(),
            some => format!("; no structured failures available for {}", some.join(", ")),
        };
        let languages = of.iter().map(|tested| tested.language).collect::<Vec<_>>().join(", ");
        let ago = render::ago(latest.when.elapsed());
        let incomplete: Vec<&str> = of.iter().filter_map(|tested| tested.run.incomplete.as_deref()).collect();
        let failures: Vec<&Failure> = of.iter().flat_map(|tested| &tested.run.failures).collect();
        let problems: usize = of.iter().map(|tested| tested.run.problems.len()).sum();
        if failures.is_empty() && problems == 0 {
            let passed: u32 = of.iter().map(|tested| tested.run.passed).sum();
            let missing: Vec<&str> =
                of.iter().flat_map(|tested| &tested.run.missing).map(String::as_str).collect();
            if passed == 0 && !missing.is_empty() {
                return nothing(format!(
                    "last run_tests ran nothing: no test matched {} ({languages}, {ago} ago)",
                    missing.join(", ")
                ));
            }
            let but = if incomplete.is_empty() {
                String::new()
            } else {
                format!("; but it {}", incomplete.join(", "))
            };
            return nothing(format!(
                "last run_tests had no failures ({passed} tests passed, {languages}, {ago} ago){but}{unread}"
            ));
        }
        let mut text = format!(
            "{} test failure(s) from last run_tests call ({languages}, {ago} ago){unread}:",
            failures.len()
        );
        for (number, failure) in (1..).zip(failures.iter().take(limit)) {
            text.push_str(&format!("\n{number}. {}", render::block(failure)));
        }
        if failures.len() > limit {
            text.push_str(&format!("\n… {} more; raise `limit`", failures.len() - limit));
        }
        for line in of.iter().flat_map(|tested| &tested.run.problems).take(50).map(render::problem_line) {
            text.push_str(&format!("\nnot a test: {line}"));
        }
        if !incomplete.is_empty() {
            text.push_str(&format!("\nthe run {}: others may fail too", incomplete.join(", ")));
        }
        let shown = failures.iter().take(limit).map(|failure| (*failure).clone()).collect();
        Ok(Facts { text, facts: Report { total: failures.len(), failures: shown } })
    }
}
