//! What an edit did to the file it touched, in the same reply: a syntax error first and alone, else findings of
//! the linter that the edit introduced and cured, and the formatter's diff. Never fails the edit.

use super::{
    command::{self, NotStarted},
    format,
    project::{Project, nearest},
};
use crate::{
    Call, ToolError,
    code::lsp::{News, Warm, Was},
};
use ::verify::{Detector, Facts as _, Finding, LintAsk, Plan, Scope};
use std::{
    collections::{HashMap, HashSet},
    fmt::Write as _,
    path::Path,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};
use tokio::time::{Instant, timeout, timeout_at};
use workspace::{ContainedPath, Version, unified_diff};

/// Deadlines; what is not there by then is said to be missing, and never comes later.
const LINT: Duration = Duration::from_secs(30);
const FORMAT: Duration = Duration::from_secs(10);
/// Lines of the formatter's diff.
const DIFF: usize = 500;
/// Findings that are shown.
const SHOWN: usize = 50;
/// Files of one patch that are looked at, and those that a language server is asked about.
const FILES: usize = 5;
const ASKED: usize = 50;
/// Files whose findings are remembered.
const REMEMBERED: usize = 2000;
/// How long a look before an edit may take; it is given up for the whole project when it takes longer.
const BEFORE: Duration = Duration::from_secs(2);
/// Files beside a checked one whose state the same check tells.
const BESIDE: usize = 200;
/// A source file larger than this is not looked at.
const LARGEST: u64 = 2 << 20;

/// The argument that turns feedback off: one edit of several often breaks code on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Wanted {
    None,
}

/// Shown by ten tools, so in as few bytes as can be; what it does, `Edit` says.
impl schemars::JsonSchema for Wanted {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Wanted".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"enum": ["none"]})
    }
}

/// A file that was just changed.
pub(crate) struct Touched {
    pub(crate) path: ContainedPath,
    pub(crate) before: Option<Vec<u8>>,
    /// Nothing for one that was deleted.
    pub(crate) after: Option<Arc<[u8]>>,
}

impl Touched {
    fn was(&self) -> Was<'_> {
        Was { file: &self.path, before: self.before.as_deref(), after: self.after.as_ref() }
    }
}

/// Findings of file versions this session has seen: what an edit introduced and cured is told against them.
#[derive(Default)]
pub(crate) struct Baselines {
    known: Mutex<HashMap<String, (Version, Vec<Finding>)>>,
    /// Projects whose checks are too slow, or too broken, to look before an edit.
    slow: Mutex<HashSet<String>>,
}

impl Baselines {
    fn is_slow(&self, project: &str) -> bool {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner).contains(project)
    }

    fn set_slow(&self, project: String) {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner).insert(project);
    }

    fn of(&self, key: &str, version: Version) -> Option<Vec<Finding>> {
        let all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(key).filter(|(known, _)| *known == version).map(|(_, findings)| findings.clone())
    }

    fn keep(&self, key: String, version: Version, findings: Vec<Finding>) {
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= REMEMBERED {
            all.clear();
        }
        all.insert(key, (version, findings));
    }
}

/// Looks at a file before it is changed, unless its state is known: only so can findings that the change
/// brings or cures be told from those that were there. Costs nothing for files of no language.
pub(crate) async fn look_before(call: &Call, path: &ContainedPath) {
    let Some((detector, project)) = at_home(call, path) else { return };
    let slow = format!("{}\0{}\0{}", call.workspace.name(), project.folder, detector.language());
    let key = key(call, path);
    let seen = path.clone();
    let version = call.blocking(move |call| {
        let read = call.session.ledgers.with(&call.workspace, |ledger| ledger.version(&seen));
        let bytes = call.workspace.read_bytes(&seen, LARGEST).ok();
        // A file that was not read as it is will not be changed: the change is about to be refused.
        Ok(bytes.map(|bytes| Version::of(&bytes)).filter(|now| read == Some(*now)))
    });
    let Ok(Some(version)) = version.await else { return };
    let baselines = &call.session.baselines;
    if baselines.of(&key, version).is_some() || baselines.is_slow(&slow) {
        return;
    }
    let file = project.own(&path.relative().to_string_lossy());
    // Where a language server speaks first, nothing else may keep an edit waiting for long.
    let limit = Warm::of(call, path).map_or(BEFORE, |_| patience(detector.language()));
    match timeout(limit, findings(call, &project, detector, &file)).await {
        Ok(Ok(found)) => baselines.keep(key, version, found),
        _ => baselines.set_slow(slow),
    }
}

/// The language of a file and the nearest project of it.
fn at_home(call: &Call, path: &ContainedPath) -> Option<(&'static dyn Detector, Arc<Project>)> {
    let known = call.host().languages.all().iter().copied();
    let detector = known.into_iter().find(|detector| detector.owns(path.relative()))?;
    let folder = nearest(call, path.relative().parent()?, &[detector])?;
    Some((detector, Project::open(call, "post-edit", Some(&folder)).ok()?.seen_by(call, detector)))
}

fn key(call: &Call, path: impl std::fmt::Display) -> String {
    format!("{}\0{path}", call.workspace.name())
}

/// The feedback on a change, beginning with a line break; empty when there is nothing to say.
pub(crate) async fn feedback(call: &Call, wanted: Option<Wanted>, touched: Vec<Touched>) -> String {
    let mut text = String::new();
    if wanted == Some(Wanted::None) {
        return text;
    }
    let of_a_language = |touched: &Touched| {
        call.host().languages.all().iter().any(|detector| detector.owns(touched.path.relative()))
    };
    let mut touched: Vec<Touched> = touched.into_iter().filter(of_a_language).collect();
    touched.sort_by_key(|touched| touched.after.is_none());
    let mut errors = Vec::new();
    let servers = servers(call, &touched);
    for (n, touched) in touched.iter().enumerate() {
        let server = servers.iter().find(|server| server.files.contains(&n));
        // All files of a server are asked about with the first of them.
        let first = server.filter(|server| server.files.first() == Some(&n));
        if first.is_none() && (n >= FILES || touched.after.is_none()) {
            continue;
        }
        let changed = first.map(|server| server.changed.as_slice()).unwrap_or_default();
        let part = match &touched.after {
            Some(after) if n < FILES => {
                one(call, (touched, after), server.map(|it| &it.warm), changed, &mut errors).await
            }
            _ => match server {
                Some(server) => only_news(call, &server.warm, changed).await,
                None => None,
            },
        };
        if let Some(part) = part {
            text.push('\n');
            text.push_str(part.trim_end());
        }
    }
    let written = touched.iter().filter(|touched| touched.after.is_some()).count();
    if written > FILES {
        let _ = write!(text, "\n{} more files were not checked; run_lint tells", written - FILES);
    }
    text
}

/// A language server that is up, and the files of a change that it serves.
struct Server<'a> {
    warm: Warm,
    files: Vec<usize>,
    changed: Vec<Was<'a>>,
}

fn servers<'a>(call: &Call, touched: &'a [Touched]) -> Vec<Server<'a>> {
    let mut all: Vec<Server<'a>> = Vec::new();
    for (n, touched) in touched.iter().enumerate().take(ASKED) {
        let Some(warm) = Warm::of(call, &touched.path) else { continue };
        match all.iter_mut().find(|server| server.warm.is(&warm)) {
            Some(server) => {
                server.files.push(n);
                server.changed.push(touched.was());
            }
            None => all.push(Server { warm, files: vec![n], changed: vec![touched.was()] }),
        }
    }
    all
}

/// What the language servers that are up say about a change, beginning with a line break; empty when nothing.
pub(crate) async fn news(call: &Call, touched: &[Touched]) -> String {
    let mut text = String::new();
    for server in servers(call, touched) {
        if let Some(part) = only_news(call, &server.warm, &server.changed).await {
            text.push('\n');
            text.push_str(part.trim_end());
        }
    }
    text
}

async fn only_news(call: &Call, warm: &Warm, changed: &[Was<'_>]) -> Option<String> {
    if changed.is_empty() {
        return None;
    }
    let news = warm.news(call, changed).await?;
    let mut text = String::new();
    tell(warm.name(), &news, &mut text);
    (!text.is_empty()).then_some(text)
}

/// The feedback on one file; `changed` are the files that the server is to be asked about with it, `told` the errors
/// it has told.
async fn one(
    call: &Call,
    touched: (&Touched, &Arc<[u8]>),
    warm: Option<&Warm>,
    changed: &[Was<'_>],
    told: &mut Vec<String>,
) -> Option<String> {
    let (touched, after) = touched;
    let Some((detector, project)) = at_home(call, &touched.path) else {
        // Its server needs no manifest.
        return only_news(call, warm?, changed).await;
    };
    let file = project.own(&touched.path.relative().to_string_lossy());
    let checks = Checks::default();
    let news = {
        let mut rest = std::pin::pin!(checks.run(call, &project, detector, (touched, after), &file));
        match warm {
            None => {
                rest.await;
                None
            }
            Some(warm) => {
                let due = Instant::now() + patience(detector.language());
                let ask = async {
                    match changed {
                        [] => Some(News { errors: Vec::new(), unchecked: 0, silent: None }),
                        changed => warm.news(call, changed).await,
                    }
                };
                let mut news = std::pin::pin!(ask);
                let told = tokio::select! {
                    told = &mut news => {
                        let _ = timeout_at(due, rest).await;
                        told
                    }
                    () = &mut rest => news.await,
                };
                told.map(|news| (warm, news))
            }
        }
    };
    let Checks { format, found } = checks;
    let late: Vec<&str> = [("lint", found.get().is_none()), ("format", format.get().is_none())]
        .into_iter()
        .filter_map(|(what, late)| late.then_some(what))
        .collect();
    let late = late.join(" and ");
    let format = format.into_inner().unwrap_or(Format::Fine);
    let mut text = String::new();
    if let Format::Syntax(why) = &format {
        let _ = write!(text, "syntax error in {}:\n{why}", touched.path);
        return Some(text);
    }
    let fine = news.as_ref().is_none_or(|(_, news)| news.errors.is_empty());
    if let Some((warm, news)) = news {
        tell(warm.name(), &news, &mut text);
        if let (Some(what), None, true) = (warm.blind_to(), found.get(), fine && news.silent.is_none()) {
            let _ = writeln!(
                text,
                "no errors that {} sees; it does not check {what}: run_typecheck does",
                warm.name()
            );
        }
        told.extend(news.errors);
    }
    match found.into_inner() {
        None => {}
        Some(Err(line)) => {
            let _ = writeln!(text, "{line}");
        }
        Some(Ok(mut found)) => {
            // What the server has said need not be said again.
            let said = |finding: &Finding| {
                let place = format!("{}:{}:", finding.file, finding.line);
                told.iter().any(|error| error.starts_with(&place))
            };
            found.retain(|finding| !said(finding));
            lint(call, detector, (touched, after), found, &mut text);
        }
    }
    if !late.is_empty() && fine {
        let _ = writeln!(text, "{late}: not waited for; run_lint and run_format tell");
    }
    match format {
        Format::Diff(diff) => {
            let _ = write!(text, "--- format ---\n{diff}");
        }
        Format::Said(line) => text.push_str(&line),
        Format::Fine | Format::Syntax(_) => {}
    }
    (!text.is_empty()).then_some(text)
}

/// How long an edit waits for the linter and the formatter when a language server has spoken.
fn patience(language: &str) -> Duration {
    Duration::from_millis(match language {
        "go" | "python" => 70,
        "rust" => 110,
        _ => 200,
    })
}

/// What the tools of the language say, as far as it came in time.
#[derive(Default)]
struct Checks {
    format: OnceLock<Format>,
    found: OnceLock<Result<Vec<Finding>, String>>,
}

impl Checks {
    async fn run(
        &self,
        call: &Call,
        project: &Arc<Project>,
        detector: &'static dyn Detector,
        touched: (&Touched, &Arc<[u8]>),
        file: &str,
    ) {
        let format = async {
            let format = timeout(FORMAT, formatted(call, project, detector, touched)).await;
            let late = |_| Format::Said(format!("format: no answer within {}s", FORMAT.as_secs()));
            let _ = self.format.set(format.unwrap_or_else(late));
        };
        let found = async {
            let found = match timeout(LINT, findings(call, project, detector, file)).await {
                Err(_) => Err(format!("lint: no answer within {}s", LINT.as_secs())),
                Ok(found) => {
                    found.map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())
                }
            };
            let _ = self.found.set(found);
        };
        tokio::join!(format, found);
    }
}

/// Tells the errors that a language server found.
fn tell(server: &str, news: &News, text: &mut String) {
    let errors = &news.errors;
    if !errors.is_empty() {
        let _ = writeln!(text, "post-edit errors ({}, {server}):", errors.len());
    }
    for error in errors.iter().take(SHOWN) {
        let _ = writeln!(text, "{error}");
    }
    if errors.len() > SHOWN {
        let _ = writeln!(text, "… {} more", errors.len() - SHOWN);
    }
    if let Some(silent) = &news.silent {
        let _ = writeln!(text, "{silent}: what the edit broke is not known; run_typecheck tells");
    }
    if news.unchecked > 0 {
        let _ = writeln!(text, "{} more files that may use it were not checked", news.unchecked);
    }
}

enum Format {
    Fine,
    Diff(String),
    Syntax(String),
    Said(String),
}

async fn formatted(
    call: &Call,
    project: &Arc<Project>,
    detector: &'static dyn Detector,
    (touched, after): (&Touched, &Arc<[u8]>),
) -> Format {
    let shown = touched.path.to_string();
    let file = project.own(&shown);
    let new = match format::one(call, project, detector, &file, after).await {
        Ok(Ok(new)) if *new == **after => return Format::Fine,
        Ok(Ok(new)) => new,
        Ok(Err(why)) if detector.blames_source(&why) => return Format::Syntax(::verify::bound(&why, 1500)),
        Ok(Err(why)) => return Format::Said(format!("format: {}", ::verify::bound(&why, 500))),
        Err(ToolError::Caller { message, .. }) => {
            // A language without a formatter here has nothing to say about format.
            return if message.contains("not supported") { Format::Fine } else { Format::Said(message) };
        }
        Err(_) => return Format::Fine,
    };
    if let Some(before) = &touched.before
        && let Ok(Ok(was)) = format::one(call, project, detector, &file, before).await
        && was != *before
    {
        return Format::Said(format!("format: {shown} was not formatted before either; run_format mends it"));
    }
    Format::Diff(unified_diff(&shown, after, &new, DIFF))
}

/// The linter's findings in one file.
async fn findings(
    call: &Call,
    project: &Arc<Project>,
    detector: &'static dyn Detector,
    file: &str,
) -> Result<Vec<Finding>, ToolError> {
    let (facts, scope) = (Arc::clone(project), Scope::File(file.to_owned()));
    let plan = call
        .blocking(move |_| {
            let ask = LintAsk { scope, fix: false };
            let plan =
                detector.lint_cmd(&*facts, &ask).map_err(|error| ToolError::caller(error.to_string()))?;
            match plan.needs.iter().find(|need| facts.which(need).is_none()) {
                Some(need) => Err(command::missing("run_lint", detector, &facts, need)),
                None => Ok(plan),
            }
        })
        .await?;
    let (captured, _) = match command::capture(project, &plan, LINT).await {
        Ok(done) => done,
        Err(NotStarted::Missing(binary)) => {
            return Err(command::missing("run_lint", detector, project, &binary));
        }
        Err(NotStarted::Other(error)) => return Err(error),
    };
    let (facts, file) = (Arc::clone(project), file.to_owned());
    call.blocking(move |call| {
        let run = detector.parse_lint(&plan, &*facts, &captured);
        if let Some(mut why) = run.config_error {
            facts.say(&mut why);
            return Err(ToolError::caller(format!("lint: configuration error: {why}")));
        }
        if run.incomplete.is_none() {
            keep_beside(call, &facts, detector, &plan, &file, &run.findings);
        }
        Ok(of_file(&facts, &file, &run.findings))
    })
    .await
}

fn of_file(project: &Project, file: &str, found: &[Finding]) -> Vec<Finding> {
    let own = found.iter().filter(|finding| finding.file == file).cloned();
    own.map(|mut finding| {
        finding.file = project.shown(&finding.file);
        project.say(&mut finding.message);
        finding
    })
    .collect()
}

/// A check of a package tells the state of its other files too: those that would have been checked by the very
/// same command.
fn keep_beside(
    call: &Call,
    project: &Project,
    detector: &dyn Detector,
    plan: &Plan,
    file: &str,
    found: &[Finding],
) {
    let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    for name in project.list(if folder.is_empty() { "." } else { folder }).into_iter().take(BESIDE) {
        let beside = format!("{folder}/{name}").trim_start_matches('/').to_owned();
        if beside == file || !detector.owns(Path::new(&beside)) {
            continue;
        }
        let ask = LintAsk { scope: Scope::File(beside.clone()), fix: false };
        let same = |other: Plan| other.args == plan.args && other.cwd == plan.cwd;
        if !detector.lint_cmd(project, &ask).is_ok_and(same) {
            // Then this command is about one file, and none of the others will be the same.
            return;
        }
        let Some(path) = project.resolve(&beside) else { continue };
        let Ok(bytes) = call.workspace.read_bytes(&path, LARGEST) else { continue };
        let own = of_file(project, &beside, found);
        call.session.baselines.keep(key(call, &path), Version::of(&bytes), own);
    }
}

/// Tells what the edit introduced and cured, and counts what was there. What hides everything else cures nothing:
/// the findings behind it are remembered until it is gone.
fn lint(
    call: &Call,
    detector: &dyn Detector,
    (touched, after): (&Touched, &Arc<[u8]>),
    mut found: Vec<Finding>,
    text: &mut String,
) {
    let key = key(call, &touched.path);
    let baselines = &call.session.baselines;
    let before = touched.before.as_deref();
    let known = before.and_then(|before| baselines.of(&key, Version::of(before)));
    let edit = Region::of(before.unwrap_or_default(), after);
    let hiding = |findings: &[Finding]| findings.iter().any(|finding| detector.hides_others(finding));
    let (hides, hid) = (hiding(&found), known.as_deref().is_some_and(hiding));
    let (mut introduced, mut old): (Vec<&Finding>, usize) = (Vec::new(), 0);
    let mut unmatched = known.clone().unwrap_or_default();
    for finding in &found {
        let was_there = match (&known, before) {
            (_, None) => false,
            (None, Some(_)) => !edit.touches_new(finding.line),
            (Some(_), Some(_)) => {
                let same = |was: &Finding| {
                    let place = match edit.moved(was.line) {
                        Some(line) => line == finding.line,
                        None => edit.touches_new(finding.line),
                    };
                    was.rule == finding.rule && was.message == finding.message && place
                };
                match unmatched.iter().position(same) {
                    Some(at) => {
                        unmatched.remove(at);
                        true
                    }
                    // It may have been hidden, where the edit did not reach.
                    None => hid && !edit.touches_new(finding.line),
                }
            }
        };
        match was_there {
            true => old += 1,
            false => introduced.push(finding),
        }
    }
    if !introduced.is_empty() {
        let _ = writeln!(text, "post-edit lint findings ({}):", introduced.len());
        for Finding { file, line, col, rule, message, .. } in introduced.iter().take(SHOWN) {
            let _ = writeln!(text, "{file}:{line}:{col}:{rule}: {message}");
        }
        if introduced.len() > SHOWN {
            let _ = writeln!(text, "… {} more", introduced.len() - SHOWN);
        }
    }
    let hidden = if hides { std::mem::take(&mut unmatched) } else { Vec::new() };
    for cured in unmatched.iter().take(SHOWN) {
        let _ = writeln!(text, "cured: {}: {}", cured.rule, cured.message);
    }
    if old > 0 && (!introduced.is_empty() || !unmatched.is_empty()) {
        let _ = writeln!(text, "({old} were there before)");
    }
    let still = |was: Finding| edit.moved(was.line).map(|line| Finding { line, ..was });
    found.extend(hidden.into_iter().filter_map(still));
    baselines.keep(key, Version::of(after), found);
}

/// The lines that an edit changed: everything between a common beginning and a common end.
struct Region {
    first: u32,
    old_end: u32,
    new_end: u32,
}

impl Region {
    fn of(old: &[u8], new: &[u8]) -> Self {
        let (old, new): (Vec<&[u8]>, Vec<&[u8]>) = (lines(old), lines(new));
        let same = |pair: &(&&[u8], &&[u8])| pair.0 == pair.1;
        let head = old.iter().zip(&new).take_while(same).count();
        let tail = old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(same).count();
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Self { first: number(head + 1), old_end: number(old.len() - tail), new_end: number(new.len() - tail) }
    }

    /// Whether a line of the new text is among those changed.
    fn touches_new(&self, line: u32) -> bool {
        (self.first..=self.new_end).contains(&line)
    }

    /// Where a line of the old text is now, unless it was changed.
    fn moved(&self, line: u32) -> Option<u32> {
        if line < self.first {
            Some(line)
        } else if line > self.old_end {
            Some(line - self.old_end + self.new_end)
        } else {
            None
        }
    }
}

fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_move_with_an_edit() {
        let region = Region::of(b"a\nb\nc\nd\n", b"a\nx\ny\nz\nc\nd\n");
        assert_eq!((region.first, region.old_end, region.new_end), (2, 2, 4));
        assert_eq!((region.moved(1), region.moved(2), region.moved(3)), (Some(1), None, Some(5)));
        assert!(region.touches_new(2) && region.touches_new(4) && !region.touches_new(5));
        let nothing = Region::of(b"a\n", b"a\n");
        assert!(!nothing.touches_new(1));
    }
}
