//! What the languages need in a workspace, where it is found, and what would run: for people who ask why.

use super::{project::Project, render};
use crate::{Call, ToolError};
use ::verify::{Answer, Detector, Facts as _, LintAsk, NeededBinary, Plan, TestAsk};
use futures_util::{StreamExt as _, future::try_join_all, stream};
use sandbox::{Outcome, Request};
use serde::Serialize;
use std::{path::PathBuf, sync::Arc, time::Duration};

/// How long a program may take to say its version.
const PATIENCE: Duration = Duration::from_secs(20);
/// Programs asked at the same time.
const AT_ONCE: usize = 4;

/// One language in one workspace.
#[derive(Debug, Clone, Serialize)]
pub struct LanguageSurvey {
    /// The language's id.
    pub language: &'static str,
    /// Whether the workspace is a project of it.
    pub here: bool,
    /// Where its programs run, when that is a sandbox of its own.
    pub sandbox: Option<String>,
    /// The programs it needs.
    pub needs: Vec<Need>,
    /// What would run; empty when the workspace is no project of it.
    pub plans: Vec<Planned>,
}

/// A program that a language needs.
#[derive(Debug, Clone, Serialize)]
pub struct Need {
    /// Its name.
    pub binary: String,
    /// What for.
    pub purpose: &'static str,
    /// Where it is, as the place where it would run sees it.
    pub found: Option<PathBuf>,
    /// The project itself brings it.
    pub own: bool,
    /// What it says of itself.
    pub version: Option<String>,
    /// What it says instead when it cannot be started.
    pub broken: Option<String>,
    /// How to get it.
    pub get: &'static str,
}

impl Need {
    /// Whether it can be used.
    #[must_use]
    pub fn usable(&self) -> bool {
        self.found.is_some() && self.broken.is_none()
    }
}

/// What a tool would run.
#[derive(Debug, Clone, Serialize)]
pub struct Planned {
    /// The tool.
    pub tool: &'static str,
    /// The runner or linter; `None` when there is none.
    pub runner: Option<&'static str>,
    /// The command as one would type it.
    pub command: Option<String>,
    /// Why this one, or why none.
    pub why: Vec<String>,
}

/// Looks at every language in the call's workspace.
///
/// # Errors
/// A fault of ours.
pub async fn survey(call: &Call) -> Result<Vec<LanguageSurvey>, ToolError> {
    let root = Project::open(call, "doctor", None)?;
    let facts = Arc::clone(&root);
    let here = call.blocking(move |call| Ok(call.host().languages.detect_all(&*facts))).await?;
    try_join_all(call.host().languages.all().iter().map(|detector| {
        let here = here.iter().any(|found| found.language() == detector.language());
        one(call, &root, *detector, here)
    }))
    .await
}

async fn one(
    call: &Call,
    root: &Arc<Project>,
    detector: &'static dyn Detector,
    here: bool,
) -> Result<LanguageSurvey, ToolError> {
    let project = root.seen_by(call, detector);
    let facts = Arc::clone(&project);
    let (needed, plans) = call
        .blocking(move |_| {
            let needed: Vec<_> = detector.binaries(&*facts).into_iter().map(|it| look(&facts, it)).collect();
            Ok((needed, if here { plans(detector, &facts) } else { Vec::new() }))
        })
        .await?;
    let asked = needed.into_iter().map(|(need, args)| ask(&project, need, args));
    let needs = stream::iter(asked).buffered(AT_ONCE).collect().await;
    let sandbox = project.elsewhere(detector).map(|_| project.place().sandbox.name().to_owned());
    Ok(LanguageSurvey { language: detector.language(), here, sandbox, needs, plans })
}

/// Where a program is: the project's own before the one on the PATH.
fn look(facts: &Project, needed: NeededBinary) -> (Need, &'static [&'static str]) {
    let own = needed.local.and_then(|path| facts.which(&path.to_string_lossy()));
    let need = Need {
        own: own.is_some(),
        found: own.or_else(|| facts.which(&needed.binary)),
        binary: needed.binary,
        purpose: needed.purpose,
        version: None,
        broken: None,
        get: needed.get,
    };
    (need, needed.version_args)
}

/// Asks a program for its version: a stub that only says how to install it is found, and of no use.
async fn ask(project: &Project, mut need: Need, args: &[&str]) -> Need {
    let Some(path) = need.found.as_ref().filter(|_| !args.is_empty()) else { return need };
    let mut request = Request::new(path.to_string_lossy()).args(args.iter().copied());
    request.timeout = PATIENCE;
    request.cwd = Some(project.root().to_owned());
    let response = project.place().spawn(request).await;
    let said = first_line(&response.stdout).or_else(|| first_line(&response.stderr));
    match response.outcome {
        Outcome::Exited(0) => need.version = said,
        outcome => {
            let said = first_line(&response.stderr).or(said);
            need.broken = Some(said.map_or_else(|| outcome.to_string(), |said| format!("{outcome}: {said}")));
        }
    }
    need
}

fn first_line(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(::verify::strip_ansi(line).chars().take(100).collect())
}

fn plans(detector: &dyn Detector, facts: &Project) -> Vec<Planned> {
    let whole = LintAsk::default();
    vec![
        planned("run_tests", detector.test_cmd(facts, &TestAsk::default())),
        planned("run_lint", detector.lint_cmd(facts, &whole).map(|plan| vec![plan])),
        planned("run_typecheck", detector.typecheck_cmd(facts, &whole).map(|plan| vec![plan])),
    ]
}

fn planned(tool: &'static str, answer: Answer<Vec<Plan>>) -> Planned {
    match answer {
        Ok(plans) => Planned {
            tool,
            runner: plans.first().map(|plan| plan.runner),
            command: plans.first().map(render::command),
            why: plans.first().map(|plan| plan.why.clone()).unwrap_or_default(),
        },
        Err(no) => Planned { tool, runner: None, command: None, why: vec![no.why] },
    }
}
