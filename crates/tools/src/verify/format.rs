//! `run_format`, and the sources of a project as a whole.

use super::{
    command::{self, NotStarted},
    project::{Project, nearest},
};
use crate::{Call, Class, Facts, Group, Spec, Tool, ToolError};
use ::verify::{Captured, Detector, Plan};
use futures_util::{StreamExt as _, stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};
use workspace::{Expected, GlobQuery, Kind, Version, unified_diff};

/// How long one file may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Formatters at work at the same time.
const AT_ONCE: usize = 4;
/// Files of a project that are looked at.
const FILES: usize = 5000;
/// A source file larger than this is left alone.
const LARGEST: u64 = 2 << 20;
/// Lines of diff that are shown.
const DIFF: usize = 500;
/// Folders whose files are somebody else's.
const FOREIGN: [&str; 6] = ["vendor", "node_modules", "target", ".venv", "venv", "third_party"];

/// Formats sources.
pub(crate) struct RunFormat;

/// What `run_format` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    #[serde(default)]
    language: Option<String>,
    /// file or folder; default all
    #[serde(default)]
    path: Option<String>,
    /// only show the diff
    #[serde(default)]
    check: Option<bool>,
}

/// What came out.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Report {
    /// Files looked at.
    files: usize,
    /// Those that were, or would be, changed.
    changed: Vec<String>,
    /// Those that could not be formatted, and why.
    failed: Vec<String>,
}

impl Tool for RunFormat {
    const SPEC: Spec = Spec {
        name: "run_format",
        group: Group::Verify,
        class: Class::Write,
        description: "Format the project, a folder or a file with the language's formatter; check=true only shows \
                      the diff.",
        destructive: true,
        idempotent: true,
        open_world: false,
        long: true,
    };
    type Args = Args;
    type Output = Facts<Report>;

    async fn run(&self, call: &Call, args: Args) -> Result<Facts<Report>, ToolError> {
        let check = args.check == Some(true);
        let (language, path) = (args.language, args.path.clone());
        let (project, detectors) =
            call.blocking(move |call| chosen(call, language.as_deref(), path.as_deref())).await?;
        let (mut text, mut report) = (String::new(), Report::default());
        let several = detectors.len() > 1;
        for detector in detectors {
            let sources = Sources::read(call, &project, detector, args.path.as_deref()).await?;
            match format_all(call, &project, detector, sources, check, &mut text, &mut report).await {
                // One language that cannot be formatted here does not silence the others.
                Err(error @ ToolError::Caller { .. }) if several => report.failed.push(error.to_string()),
                done => done?,
            }
        }
        let (changed, files) = (report.changed.len(), report.files);
        for failure in &report.failed {
            let _ = writeln!(text, "{failure}");
        }
        let _ = match check {
            true => write!(text, "{changed} of {files} files would change"),
            false if changed == 0 => write!(text, "{files} files, nothing to change"),
            false => write!(text, "formatted {changed} of {files} files:\n{}", report.changed.join("\n")),
        };
        Ok(Facts { text, facts: report })
    }
}

/// The project that a path means and the languages to format there: the nearest one above it. A single file
/// chooses its own language; otherwise the usual rules hold.
fn chosen(
    call: &Call,
    language: Option<&str>,
    path: Option<&str>,
) -> Result<(Arc<Project>, Vec<&'static dyn Detector>), ToolError> {
    let language = language.map(str::trim).filter(|name| !name.is_empty());
    let Some(path) = path else {
        let project = Project::open(call, "run_format", None)?;
        let detectors = project.select(language)?;
        return Ok((project, detectors));
    };
    let contained =
        call.workspace.resolve(path).map_err(|error| ToolError::caller(format!("run_format: {error}")))?;
    let place = contained.relative();
    let kind = call.workspace.kind(&contained);
    if kind.is_none() {
        return Err(ToolError::caller(format!("run_format: no such file or folder: {path}")));
    }
    let file = kind == Some(Kind::File);
    let mut candidates = call.host().languages.all().to_vec();
    match language {
        Some(name) if !name.eq_ignore_ascii_case("all") => {
            candidates.retain(|detector| detector.language().eq_ignore_ascii_case(name));
        }
        None if file => {
            candidates.retain(|detector| detector.owns(place));
            candidates.truncate(1);
            if candidates.is_empty() {
                let why = format!("run_format: {path} is of no language this build ships");
                return Err(ToolError::caller(why));
            }
        }
        _ => {}
    }
    let start = if file { place.parent().unwrap_or(Path::new("")) } else { place };
    let home = nearest(call, start, &candidates).unwrap_or_default();
    let project = Project::open(call, "run_format", Some(&home))?;
    let detectors = if file && language.is_none() { candidates } else { project.select(language)? };
    Ok((project, detectors))
}

async fn format_all(
    call: &Call,
    project: &Arc<Project>,
    detector: &'static dyn Detector,
    sources: Sources,
    check: bool,
    text: &mut String,
    report: &mut Report,
) -> Result<(), ToolError> {
    let project = &project.seen_by(call, detector);
    report.files += sources.0.len();
    let jobs = sources.0.into_iter().map(|(file, old)| async move {
        let formatted = one(call, project, detector, &project.own(&file), &old).await;
        (file, old, formatted)
    });
    let mut done: Vec<_> = stream::iter(jobs).buffer_unordered(AT_ONCE).collect().await;
    done.sort_by(|(a, ..), (b, ..)| a.cmp(b));
    let mut shown = 0;
    for (file, old, formatted) in done {
        let new = match formatted? {
            Ok(new) if new == old => continue,
            Ok(new) => new,
            Err(why) => {
                report.failed.push(format!("cannot format {file}: {why}"));
                continue;
            }
        };
        if check {
            let diff = unified_diff(&file, &old, &new, DIFF.saturating_sub(shown));
            shown += diff.lines().count();
            text.push_str(&diff);
        } else if let Err(why) = write(call, &file, &old, new).await {
            report.failed.push(format!("{file}: {why}"));
            continue;
        }
        report.changed.push(file);
    }
    Ok(())
}

/// The formatted text, or the formatter's words.
pub(super) async fn one(
    call: &Call,
    project: &Arc<Project>,
    detector: &'static dyn Detector,
    file: &str,
    old: &[u8],
) -> Result<Result<Vec<u8>, String>, ToolError> {
    let (facts, name, text) = (Arc::clone(project), file.to_owned(), old.to_vec());
    let plan: Plan = call
        .blocking(move |_| {
            detector.format_cmd(&*facts, &name, &text).map_err(|error| ToolError::caller(error.to_string()))
        })
        .await?;
    let captured: Captured = match command::filter(call, project, plan.clone(), PATIENCE).await {
        Ok(captured) => captured,
        Err(NotStarted::Missing(binary)) => {
            return Err(command::missing("run_format", detector, project, &binary));
        }
        Err(NotStarted::Other(error)) => return Err(error),
    };
    if captured.end == ::verify::End::TimedOut {
        return Ok(Err(format!("{} timed out after {}s", plan.runner, PATIENCE.as_secs())));
    }
    Ok(detector.parse_format(&plan, &captured).map_err(|mut why| {
        project.say(&mut why);
        why
    }))
}

async fn write(call: &Call, file: &str, old: &[u8], new: Vec<u8>) -> Result<(), String> {
    let (file, expected) = (file.to_owned(), Expected::Exactly(Version::of(old)));
    let written = call.blocking(move |call| {
        let path = call.workspace.resolve(&file).map_err(|error| ToolError::caller(error.to_string()))?;
        let done = call.workspace.update::<std::convert::Infallible>(&path, expected, |_| Ok(new));
        done.map(drop).map_err(|error| match error {
            workspace::UpdateError::File(error) => ToolError::caller(error.to_string()),
            _ => ToolError::caller("changed while it was formatted; left as it is"),
        })
    });
    written.await.map_err(|error| error.to_string())
}

/// The sources of one language, by path relative to the workspace.
pub(super) struct Sources(BTreeMap<String, Vec<u8>>);

impl Sources {
    /// Reads them all, or those below `path`.
    pub(super) async fn read(
        call: &Call,
        project: &Arc<Project>,
        detector: &'static dyn Detector,
        path: Option<&str>,
    ) -> Result<Self, ToolError> {
        let start = path.map_or_else(|| project.folder.clone(), str::to_owned);
        let start = if start.is_empty() { ".".to_owned() } else { start };
        call.blocking(move |call| {
            let workspace = &call.workspace;
            let folder = workspace.resolve(&start).map_err(|error| ToolError::caller(error.to_string()))?;
            let found = match workspace.kind(&folder) {
                Some(Kind::File) => vec![folder.relative().to_owned()],
                _ => {
                    let query = GlobQuery {
                        pattern: "**/*".to_owned(),
                        path: folder,
                        limit: usize::MAX,
                        fresh: false,
                    };
                    let reply = workspace.glob(&query, &AtomicBool::new(false));
                    reply.map_err(|error| ToolError::caller(error.to_string()))?.files
                }
            };
            let ours = |file: &Path| {
                let foreign = |part: &std::ffi::OsStr| FOREIGN.iter().any(|name| part == *name);
                detector.owns(file) && !file.iter().any(foreign)
            };
            let mut sources = BTreeMap::new();
            for file in found.into_iter().filter(|file| ours(file)).take(FILES) {
                let Ok(path) = workspace.resolve(&file) else { continue };
                let Ok(bytes) = workspace.read_bytes(&path, LARGEST) else { continue };
                sources.insert(file.to_string_lossy().into_owned(), bytes);
            }
            Ok(Self(sources))
        })
        .await
    }
}

/// What changed between two looks at the same sources.
pub(super) fn diff(before: &Sources, after: &Sources) -> String {
    let (mut text, mut left) = (String::new(), DIFF);
    for (file, new) in &after.0 {
        let old = before.0.get(file).map(Vec::as_slice).unwrap_or_default();
        let diff = unified_diff(file, old, new, left);
        left = left.saturating_sub(diff.lines().count());
        text.push_str(&diff);
    }
    text
}
