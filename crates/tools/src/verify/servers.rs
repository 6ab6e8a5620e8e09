//! Which language server serves a project.

use super::{command, project::Project};
use crate::{Call, ToolError};
use ::verify::{Detector, Facts as _, ServerPlan};

/// The server of a project folder: the first of its language's that is there. For threads that may block.
pub(crate) fn server(
    call: &Call,
    tool: &str,
    detector: &dyn Detector,
    folder: &str,
) -> Result<ServerPlan, ToolError> {
    let project = Project::open(call, tool, Some(folder))?.seen_by(call, detector);
    let plans =
        detector.server_cmd(&*project).map_err(|error| ToolError::caller(format!("{tool}: {error}")))?;
    let there = |plan: &&ServerPlan| plan.program.contains('/') || project.which(&plan.program).is_some();
    match (plans.iter().find(there), plans.first()) {
        (Some(plan), _) => Ok(plan.clone()),
        (None, Some(plan)) => Err(command::missing(tool, detector, &project, &plan.program)),
        (None, None) => Err(ToolError::caller(format!("{tool}: no language server is known"))),
    }
}
