//! Which language server serves a project.

use super::{command, project::Project};
use crate::{Call, ToolError};
use ::verify::{Detector, Facts as _, ServerPlan};
use std::sync::Arc;

/// The servers that could serve a project folder, the best first.
pub(crate) struct Candidates {
    pub(crate) plans: Vec<ServerPlan>,
    detector: &'static dyn Detector,
    project: Arc<Project>,
}

impl Candidates {
    /// Those of a language. For threads that may block.
    pub(crate) fn of(
        call: &Call,
        tool: &str,
        detector: &'static dyn Detector,
        folder: &str,
    ) -> Result<Self, ToolError> {
        let project = Project::open(call, tool, Some(folder))?.seen_by(call, detector);
        let plans =
            detector.server_cmd(&*project).map_err(|error| ToolError::caller(format!("{tool}: {error}")))?;
        Ok(Self { plans, detector, project })
    }

    /// Whether the program of a plan is there. Looking for it is a process of its own: a start that works needs no
    /// look. For threads that may block.
    pub(crate) fn has(&self, plan: &ServerPlan) -> bool {
        plan.program.contains('/') || self.project.which(&plan.program).is_some()
    }

    /// What to say when none is there.
    pub(crate) fn missing(&self, tool: &str) -> ToolError {
        match self.plans.first() {
            Some(plan) => command::missing(tool, self.detector, &self.project, &plan.program),
            None => ToolError::caller(format!("{tool}: no language server is known")),
        }
    }
}
