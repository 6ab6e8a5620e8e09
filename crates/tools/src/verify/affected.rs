//! What changed since a snapshot or a revision, and which tests that may affect.

use super::{
    command::{self, NotStarted},
    project::Project,
};
use crate::{Call, ToolError};
use ::verify::{Affected, Detector};
use sandbox::Request;
use std::{path::Path, sync::Arc, time::Duration};

/// How long git may take, and a look at a project's graph.
const PATIENCE: Duration = Duration::from_secs(60);

/// The changes since some state of the workspace.
pub(super) struct Since {
    since: String,
    /// Relative to the workspace.
    changed: Vec<String>,
}

/// What is to be run of one language.
pub(super) enum Share {
    /// Everything, when no units are named.
    Run {
        /// As [`::verify::TestAsk::units`] takes them.
        units: Vec<String>,
        /// How they were found.
        why: String,
    },
    /// No test is affected.
    Nothing {
        /// How that is known.
        why: String,
    },
}

impl Share {
    /// One line about it.
    pub(super) fn said(&self) -> String {
        match self {
            Self::Run { units, why } if units.is_empty() => format!("everything is run: {why}"),
            Self::Run { why, .. } => format!("only what is affected: {why}"),
            Self::Nothing { why } => format!("no tests affected, none run: {why}"),
        }
    }
}

impl Since {
    /// Looks for a snapshot of this name, then for a revision.
    pub(super) async fn ask(call: &Call, since: &str) -> Result<Self, ToolError> {
        let name = since.to_owned();
        let by_snapshot = call.blocking(move |call| {
            let archive = call.host().snapshots.of(&call.workspace)?;
            let snapshots = &archive.snapshots;
            let known: Vec<String> = snapshots.list()?.into_iter().map(|snapshot| snapshot.name).collect();
            match known.contains(&name) {
                true => Ok(Ok(snapshots.changed_since(&name)?)),
                false => Ok(Err(known)),
            }
        });
        let changed = match by_snapshot.await? {
            Ok(paths) => paths.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
            Err(known) => by_revision(call, since, &known).await?,
        };
        Ok(Self { since: since.to_owned(), changed })
    }

    /// Which tests of a language the changes may affect.
    pub(super) async fn share(
        &self,
        call: &Call,
        project: &Arc<Project>,
        detector: &'static dyn Detector,
    ) -> Result<Share, ToolError> {
        let project = &project.seen_by(call, detector);
        let since = &self.since;
        if self.changed.is_empty() {
            return Ok(Share::Nothing { why: format!("nothing changed since {since}") });
        }
        let (inside, outside) = self.sides(project);
        if let Some(file) = outside.iter().find(|file| matters(detector, file)) {
            let why = format!("{file}, changed since {since}, lies outside of the project");
            return Ok(Share::Run { units: Vec::new(), why });
        }
        let asked = match detector.affected_query(&**project).filter(|_| !inside.is_empty()) {
            None => None,
            Some(plan) => match command::capture(project, &plan, PATIENCE).await {
                Ok((captured, _)) => Some(captured),
                Err(NotStarted::Missing(binary)) => {
                    return Err(command::missing("run_tests", detector, project, &binary));
                }
                Err(NotStarted::Other(error)) => return Err(error),
            },
        };
        let (facts, count) = (Arc::clone(project), self.changed.len());
        let affected =
            call.blocking(move |_| Ok(detector.affected(&*facts, &inside, asked.as_ref()))).await?;
        let files = if count == 1 { "1 file".to_owned() } else { format!("{count} files") };
        Ok(match affected {
            Affected::Everything { why } => Share::Run { units: Vec::new(), why },
            Affected::Units { units, why } => {
                Share::Run { units, why: format!("{why}; {files} changed since {since}") }
            }
            Affected::Nothing { why } => {
                Share::Nothing { why: format!("{why}; {files} changed since {since}") }
            }
        })
    }

    /// The changed files inside the project, as it knows them, and those outside.
    fn sides(&self, project: &Project) -> (Vec<String>, Vec<String>) {
        let folder = Path::new(&project.folder);
        let (mut inside, mut outside) = (Vec::new(), Vec::new());
        for file in &self.changed {
            match Path::new(file).strip_prefix(folder) {
                Ok(own) => inside.push(own.to_string_lossy().into_owned()),
                Err(_) => outside.push(file.clone()),
            }
        }
        (inside, outside)
    }
}

/// Whether a file outside of a project may be used by it: sources, manifests and locks of its language.
fn matters(detector: &dyn Detector, file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    detector.owns(Path::new(file))
        || detector.markers().contains(&name)
        || name.contains("lock")
        || ["go.work", "go.sum", "go.work.sum"].contains(&name)
}

async fn by_revision(call: &Call, since: &str, snapshots: &[String]) -> Result<Vec<String>, ToolError> {
    let unknown = |why: &str| {
        let snapshots = if snapshots.is_empty() { "none".to_owned() } else { snapshots.join(", ") };
        let what = format!("run_tests: `affected_since`: \"{since}\" is no snapshot ({snapshots})");
        ToolError::caller(format!("{what} and no git revision{why}"))
    };
    if since.starts_with('-') {
        return Err(unknown(""));
    }
    let script = "git rev-parse -q --verify \"$0^{commit}\" >/dev/null || exit 3; \
                  git diff --name-only --no-renames --relative -z \"$0\" -- && \
                  git ls-files -z --others --exclude-standard";
    let mut request = Request::new("sh").args(["-c", script, since]);
    request.timeout = PATIENCE;
    let place = call.place();
    request.cwd = Some(place.paths.inward(call.workspace.root()));
    request.cancel = call.cancel.clone();
    let response = place.spawn(request).await;
    if !response.outcome.success() {
        let said = String::from_utf8_lossy(&response.stderr).trim().to_owned();
        return Err(unknown(&if said.is_empty() { said } else { format!(": {said}") }));
    }
    let text = String::from_utf8_lossy(&response.stdout).into_owned();
    Ok(text.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect())
}
