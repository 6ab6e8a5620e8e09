//! `run_lint` and `run_typecheck`.

use super::{
    arguments,
    command::{self, NotStarted},
    format::{self, Sources},
    project::Project,
    render,
};
use crate::{Call, Class, Facts, Group, Spec, Tool, ToolError};
use ::verify::{Answer, Detector, Facts as _, Finding, LintAsk, LintRun, Plan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{fmt::Write as _, sync::Arc, time::Duration};

/// Findings that are shown.
const SHOWN: usize = 300;

/// Runs the linter.
pub(crate) struct RunLint;
/// Runs the type checker.
pub(crate) struct RunTypecheck;

/// What `run_lint` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LintArgs {
    #[serde(default)]
    language: Option<String>,
    /// s, default 120, max 600
    #[serde(default)]
    timeout: Option<u64>,
    /// folder of a nested project
    #[serde(default)]
    path: Option<String>,
    /// apply the linter's own fixes and show the diff
    #[serde(default)]
    fix: Option<bool>,
    /// only say what would run and why
    #[serde(default)]
    explain: Option<bool>,
}

/// What `run_typecheck` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypecheckArgs {
    #[serde(default)]
    language: Option<String>,
    /// s, default 120, max 600
    #[serde(default)]
    timeout: Option<u64>,
    /// folder of a nested project
    #[serde(default)]
    path: Option<String>,
    /// only say what would run and why
    #[serde(default)]
    explain: Option<bool>,
}

/// What came out.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Report {
    /// All there are.
    total: usize,
    /// Sorted by file, line and column.
    findings: Vec<Finding>,
    /// Why the list may be short.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    incomplete: Vec<String>,
    exit: i32,
}

impl Tool for RunLint {
    const SPEC: Spec = Spec {
        name: "run_lint",
        group: Group::Verify,
        class: Class::Write,
        description: "Run the project's linter. Returns `file:line:col:rule: message` lines, then `<n> findings`.",
        destructive: true,
        idempotent: true,
        open_world: false,
        long: true,
    };
    type Args = LintArgs;
    type Output = Facts<Report>;

    async fn run(&self, call: &Call, args: LintArgs) -> Result<Facts<Report>, ToolError> {
        let check = Check { tool: "run_lint", fix: args.fix == Some(true) };
        check.run(call, args.language, args.timeout, args.path, args.explain == Some(true)).await
    }
}

impl Tool for RunTypecheck {
    const SPEC: Spec = Spec {
        name: "run_typecheck",
        group: Group::Verify,
        class: Class::Write,
        description: "Check types. Returns `file:line:col:rule: message` lines, `<n> findings`, then `exit: N`.",
        destructive: false,
        idempotent: true,
        open_world: false,
        long: true,
    };
    type Args = TypecheckArgs;
    type Output = Facts<Report>;

    async fn run(&self, call: &Call, args: TypecheckArgs) -> Result<Facts<Report>, ToolError> {
        let check = Check { tool: "run_typecheck", fix: false };
        check.run(call, args.language, args.timeout, args.path, args.explain == Some(true)).await
    }
}

/// One call of either tool.
#[derive(Clone, Copy)]
struct Check {
    tool: &'static str,
    fix: bool,
}

impl Check {
    fn plan(self, detector: &dyn Detector, project: &Project) -> Answer<Plan> {
        let ask = LintAsk { fix: self.fix, ..LintAsk::default() };
        match self.tool {
            "run_lint" => detector.lint_cmd(project, &ask),
            _ => detector.typecheck_cmd(project, &ask),
        }
    }

    async fn run(
        self,
        call: &Call,
        language: Option<String>,
        timeout: Option<u64>,
        path: Option<String>,
        explain: bool,
    ) -> Result<Facts<Report>, ToolError> {
        let timeout = arguments::timeout(self.tool, timeout, 120, 600)?;
        let project = Project::open(call, self.tool, path.as_deref())?;
        let facts = Arc::clone(&project);
        let detectors = call.blocking(move |_| facts.select(language.as_deref())).await?;
        let several = detectors.len() > 1;
        let (mut text, mut report) = (String::new(), Report::default());
        for detector in detectors {
            let name = detector.language();
            if several {
                let _ = writeln!(text, "{name}:");
            }
            let project = project.seen_by(call, detector);
            let done = match explain {
                true => self.explain(call, &project, detector).await,
                false => self.one(call, &project, detector, timeout, &mut report).await,
            };
            match done {
                Ok(part) => text.push_str(&part),
                Err(error @ ToolError::Caller { .. }) if several => {
                    let _ = writeln!(text, "{error}");
                    report.exit = if report.exit == 0 { 127 } else { report.exit };
                }
                Err(error) => return Err(error),
            }
        }
        if self.tool == "run_typecheck" && !explain {
            let _ = write!(text, "exit: {}", report.exit);
        }
        Ok(Facts { text: text.trim_end().to_owned(), facts: report })
    }

    async fn planned(
        self,
        call: &Call,
        project: &Arc<Project>,
        detector: &'static dyn Detector,
    ) -> Result<Plan, ToolError> {
        let facts = Arc::clone(project);
        call.blocking(move |_| {
            let mut plan =
                self.plan(detector, &facts).map_err(|error| ToolError::caller(error.to_string()))?;
            match plan.needs.iter().find(|need| facts.which(need).is_none()) {
                Some(need) => Err(command::missing(self.tool, detector, &facts, need)),
                None => {
                    facts.explain(detector, &mut plan);
                    Ok(plan)
                }
            }
        })
        .await
    }

    async fn explain(
        self,
        call: &Call,
        project: &Arc<Project>,
        detector: &'static dyn Detector,
    ) -> Result<String, ToolError> {
        let plan = self.planned(call, project, detector).await?;
        Ok(format!("{}\n", render::explain(&[plan])))
    }

    async fn one(
        self,
        call: &Call,
        project: &Arc<Project>,
        detector: &'static dyn Detector,
        timeout: u64,
        report: &mut Report,
    ) -> Result<String, ToolError> {
        let plan = self.planned(call, project, detector).await?;
        let before = if self.fix { Some(Sources::read(call, project, detector, None).await?) } else { None };
        let limit = Duration::from_secs(timeout);
        let (captured, ended) = match command::capture(project, &plan, limit).await {
            Ok(done) => done,
            Err(NotStarted::Missing(binary)) => {
                return Err(command::missing(self.tool, detector, project, &binary));
            }
            Err(NotStarted::Other(error)) => return Err(error),
        };
        let (facts, read) = (Arc::clone(project), plan.clone());
        let mut run = call
            .blocking(move |_| {
                Ok(match self.tool {
                    "run_lint" => detector.parse_lint(&read, &*facts, &captured),
                    _ => detector.parse_typecheck(&read, &*facts, &captured),
                })
            })
            .await?;
        if let Some(mut why) = run.config_error {
            project.say(&mut why);
            return Err(ToolError::caller(format!(
                "{}: configuration error ({}): {why}",
                self.tool, plan.runner
            )));
        }
        for finding in &mut run.findings {
            finding.file = project.shown(&finding.file);
            project.say(&mut finding.message);
        }
        let mut text = String::new();
        if let Some(before) = before {
            let after = Sources::read(call, project, detector, None).await?;
            text.push_str(&format::diff(&before, &after));
        }
        self.render(&mut text, &run, timeout);
        let exit = if ended.code == 0 && !run.findings.is_empty() { 1 } else { ended.code };
        report.exit = if report.exit == 0 { exit } else { report.exit };
        report.total += run.findings.len();
        report.findings.extend(run.findings.into_iter().take(SHOWN));
        report.incomplete.extend(run.incomplete);
        Ok(text)
    }

    fn render(self, text: &mut String, run: &LintRun, timeout: u64) {
        for finding in run.findings.iter().take(SHOWN) {
            let Finding { file, line, col, rule, message, .. } = finding;
            let _ = writeln!(text, "{file}:{line}:{col}:{rule}: {}", message.replace('\n', "\n  "));
        }
        if run.findings.len() > SHOWN {
            let _ =
                writeln!(text, "… {} more findings; `path` narrows them down", run.findings.len() - SHOWN);
        }
        let fixable = run.findings.iter().filter(|finding| finding.fixable).count();
        let hint = match (fixable, self.tool) {
            (0, _) => String::new(),
            (n, "run_lint") if !self.fix => format!(" ({n} fixable: fix=true)"),
            (n, _) => format!(" ({n} fixable)"),
        };
        let _ = writeln!(text, "{} findings{hint}", run.findings.len());
        if let Some(why) = &run.incomplete {
            let why = if why == "timed out" { format!("timed out after {timeout}s") } else { why.clone() };
            let what = if self.tool == "run_lint" { "lint" } else { "typecheck" };
            let _ = writeln!(text, "({what} incomplete: {why})");
        }
    }
}
