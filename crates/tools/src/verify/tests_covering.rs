//! `tests_covering`.

use super::{
    command::{self, NotStarted},
    project::{Project, nearest},
    render,
};
use crate::{Access, Call, Class, Facts, Group, ProgressUpdate, Spec, Tool, ToolError};
use ::verify::{Covered, Detector, TestAsk, TestId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// What recording may take in all.
const PATIENCE: Duration = Duration::from_secs(900);
/// Tests that are named.
const NAMED: usize = 200;

/// Tells which tests reach a file or a line.
pub(crate) struct TestsCovering;

/// What `tests_covering` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    file: String,
    #[serde(default)]
    line: Option<u32>,
    /// record again
    #[serde(default)]
    fresh: Option<bool>,
}

/// What came out.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Report {
    /// What one entry stands for: `test`, `file` or `package`.
    precision: String,
    /// By package or file; no names below it mean all of it.
    tests: BTreeMap<String, Vec<String>>,
}

/// What was recorded of one project.
pub(super) struct Recorded {
    when: Instant,
    covered: Vec<Covered>,
    notes: Vec<String>,
}

/// Workspace, folder and language.
type Key = (String, String, &'static str);

/// Coverage of the projects of a session.
#[derive(Default)]
pub(crate) struct Coverage(Mutex<BTreeMap<Key, Arc<Recorded>>>);

impl Tool for TestsCovering {
    const SPEC: Spec = Spec {
        name: "tests_covering",
        group: Group::Verify,
        class: Class::Read,
        description: "Which tests reach a file or line. The first call of a session runs the tests with coverage.",
        destructive: false,
        idempotent: true,
        open_world: true,
        long: true,
    };
    type Args = Args;
    type Output = Facts<Report>;

    async fn run(&self, call: &Call, args: Args) -> Result<Facts<Report>, ToolError> {
        let (project, detector, file) = place(call, &args.file)?;
        let key = (call.workspace.name().to_owned(), project.folder.clone(), detector.language());
        let known = call.session.coverage.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        let recorded = match known.filter(|_| args.fresh != Some(true)) {
            Some(recorded) => recorded,
            None if call.session.access == Access::ReadOnly => {
                let text = "no coverage data yet — run run_tests first".to_owned();
                return Ok(Facts { text, facts: Report::default() });
            }
            None => {
                let recorded = Arc::new(record(call, &project, detector).await?);
                let mut all = call.session.coverage.0.lock().unwrap_or_else(PoisonError::into_inner);
                all.insert(key, Arc::clone(&recorded));
                recorded
            }
        };
        Ok(tell(&recorded, detector, &file, &args))
    }
}

/// The project of a file, its language, and the file as the project knows it.
fn place(call: &Call, file: &str) -> Result<(Arc<Project>, &'static dyn Detector, String), ToolError> {
    let refused = |why: String| ToolError::caller(format!("tests_covering: {why}"));
    let path = call.workspace.resolve(file).map_err(|error| refused(error.to_string()))?;
    let known = call.host().languages.all().iter().copied();
    let detector = known.into_iter().find(|detector| detector.owns(path.relative()));
    let detector = detector.ok_or_else(|| refused(format!("{file} is of no language this build ships")))?;
    let folder = nearest(call, path.relative().parent().unwrap_or(Path::new("")), &[detector]);
    let folder = folder.ok_or_else(|| refused(format!("{file} is in no {} project", detector.language())))?;
    let project = whole(call, detector, &folder)?;
    let own = project.own(&path.relative().to_string_lossy());
    Ok((project, detector, own))
}

/// The project of a folder, or the one that holds it as a part.
fn whole(call: &Call, detector: &'static dyn Detector, folder: &str) -> Result<Arc<Project>, ToolError> {
    let open = |folder: &str| Project::open(call, "tests_covering", Some(folder));
    for above in Path::new(folder).ancestors().skip(1) {
        let outer = above.to_string_lossy();
        if nearest(call, above, &[detector]).as_deref() != Some(&*outer) {
            continue;
        }
        let project = open(&outer)?.seen_by(call, detector);
        if detector.holds(&*project, folder[outer.len()..].trim_start_matches('/')) {
            return Ok(project);
        }
    }
    Ok(open(folder)?.seen_by(call, detector))
}

/// Runs the tests in whatever portions the language can tell apart.
async fn record(
    call: &Call,
    project: &Arc<Project>,
    detector: &'static dyn Detector,
) -> Result<Recorded, ToolError> {
    let begin = Instant::now();
    let facts = Arc::clone(project);
    let plans = call
        .blocking(move |_| {
            let ask = TestAsk { timeout_seconds: PATIENCE.as_secs(), ..TestAsk::default() };
            detector.coverage_cmd(&*facts, &ask).map_err(|error| ToolError::caller(error.to_string()))
        })
        .await?;
    let (total, mut covered, mut notes) = (plans.len(), Vec::new(), Vec::new());
    for (done, plan) in plans.into_iter().enumerate() {
        let left = PATIENCE.saturating_sub(begin.elapsed());
        if left.is_zero() {
            notes.push(format!("{done} of {total} runs were recorded within {}s", PATIENCE.as_secs()));
            break;
        }
        let message = format!("recorded {done}/{total}");
        let share = |n: usize| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
        call.progress.report(ProgressUpdate { done: share(done), total: Some(share(total)), message });
        let (captured, _) = match command::capture(project, &plan, left).await {
            Ok(done) => done,
            Err(NotStarted::Missing(binary)) => {
                return Err(command::missing("tests_covering", detector, project, &binary));
            }
            Err(NotStarted::Other(error)) => return Err(error),
        };
        let facts = Arc::clone(project);
        covered.extend(call.blocking(move |_| Ok(detector.parse_coverage(&plan, &*facts, &captured))).await?);
    }
    if covered.is_empty() {
        let why = "tests_covering: the tests ran with coverage, but none was recorded";
        return Err(ToolError::with_hint(why, "run_tests shows whether they run at all"));
    }
    Ok(Recorded { when: Instant::now(), covered, notes })
}

fn tell(recorded: &Recorded, detector: &dyn Detector, file: &str, args: &Args) -> Facts<Report> {
    let reaches = |covered: &&Covered| {
        let on = |line: u32| covered.lines.iter().any(|(first, last)| (*first..=*last).contains(&line));
        covered.file == file && args.line.is_none_or(on)
    };
    let found: BTreeSet<&TestId> =
        recorded.covered.iter().filter(reaches).map(|covered| &covered.test).collect();
    let what = match args.line {
        Some(line) => format!("{}:{line}", args.file),
        None => args.file.clone(),
    };
    let precision = match (detector.language(), recorded.covered.iter().any(|one| !one.test.path.is_empty()))
    {
        (_, true) => "test",
        ("node", false) => "file",
        (_, false) => "package",
    };
    if found.is_empty() {
        let text = format!("no coverage found for {what}");
        return Facts { text, facts: Report { precision: precision.to_owned(), ..Report::default() } };
    }
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for test in &found {
        let names = groups.entry(test.unit.clone()).or_default();
        names.extend((!test.path.is_empty()).then(|| test.path.join("::")));
    }
    let ago = render::ago(recorded.when.elapsed());
    let mut text = format!(
        "{} reach {what} (precision: {precision}; recorded {ago} ago):",
        count(found.len(), precision)
    );
    let mut left = NAMED;
    for (unit, names) in &groups {
        if left == 0 {
            break;
        }
        let _ = write!(text, "\n{unit}");
        left -= usize::from(names.is_empty());
        for name in names.iter().take(left) {
            let _ = write!(text, "\n  {name}");
        }
        left = left.saturating_sub(names.len());
    }
    if found.len() > NAMED {
        let _ = write!(text, "\n... ({} more truncated)", found.len() - NAMED);
    }
    for note in &recorded.notes {
        let _ = write!(text, "\nnote: {note}");
    }
    Facts { text, facts: Report { precision: precision.to_owned(), tests: groups } }
}

fn count(number: usize, precision: &str) -> String {
    let what = match precision {
        "test" => "test",
        "file" => "test file",
        _ => "package",
    };
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
