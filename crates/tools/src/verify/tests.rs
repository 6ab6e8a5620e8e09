//! Runs the tests of one language to the end, with whatever further commands the outcome asks for.

use super::{
    command::{self, NotStarted},
    memory::Keeper,
    project::Project,
};
use crate::{Call, ProgressUpdate, ToolError};
use ::verify::{Detector, End, FailureKind, Plan, Stream, TestAsk, TestReader, TestRun};
use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// What a further command may take when the time is already up.
const EXTRA: Duration = Duration::from_secs(15);

/// One language's tests.
pub(super) struct Tests {
    pub(super) run: TestRun,
    pub(super) exit: i32,
    pub(super) took: Duration,
    pub(super) notes: Vec<String>,
}

/// Plans, with the programs they need checked.
pub(super) async fn plan(
    call: &Call,
    tool: &'static str,
    project: &Arc<Project>,
    detector: &'static dyn Detector,
    ask: TestAsk,
) -> Result<Vec<Plan>, ToolError> {
    let project = project.seen_by(call, detector);
    call.blocking(move |_| {
        let mut plans =
            detector.test_cmd(&*project, &ask).map_err(|error| ToolError::caller(error.to_string()))?;
        for need in plans.iter().flat_map(|plan| &plan.needs) {
            if ::verify::Facts::which(&*project, need).is_none() {
                return Err(command::missing(tool, detector, &project, need));
            }
        }
        for plan in &mut plans {
            project.explain(detector, plan);
        }
        Ok(plans)
    })
    .await
}

/// Runs everything planned. What a run that is given up had found goes to the keeper.
pub(super) async fn run(
    call: &Call,
    tool: &'static str,
    project: &Arc<Project>,
    detector: &'static dyn Detector,
    ask: TestAsk,
    keeper: Option<&Keeper>,
) -> Result<Tests, ToolError> {
    let project = &project.seen_by(call, detector);
    let begin = Instant::now();
    let (timeout, names) = (ask.timeout_seconds, ask.names.clone());
    let deadline = begin + Duration::from_secs(timeout);
    let plans = plan(call, tool, project, detector, ask).await?;
    let runner = Runner { call, tool, project, detector, keeper };
    let mut total = Tests { run: TestRun::default(), exit: 0, took: Duration::ZERO, notes: Vec::new() };
    for (at, first) in plans.into_iter().enumerate() {
        if at > 0 && Instant::now() >= deadline {
            total.run.incomplete = Some("timed out".to_owned());
            total.exit = 124;
            break;
        }
        let exit = runner.to_the_end(first, deadline, &mut total).await?;
        total.exit = if total.exit == 0 { exit } else { total.exit };
    }
    if total.run.incomplete.as_deref() == Some("timed out") {
        total.run.incomplete = Some(format!("timed out after {timeout}s"));
        total.exit = 124;
    }
    let run = &mut total.run;
    let ran = run.passed + run.failed + run.skipped > 0 || run.incomplete.is_some() || run.unread.is_some();
    if !ran && run.problems.is_empty() && run.missing.is_empty() {
        // Names that no runner knows are no success, whatever its exit code.
        run.missing = names;
    }
    // A runner that says 0 although something is wrong does not have the last word.
    let wrong = total.run.failed > 0 || !total.run.problems.is_empty() || !total.run.missing.is_empty();
    if total.exit == 0 && (wrong || total.run.incomplete.is_some()) {
        total.exit = 1;
    }
    total.took = begin.elapsed();
    place(project, &mut total.run);
    Ok(total)
}

/// Says every place relative to the workspace, and every text with the workspace's own paths.
fn place(project: &Project, run: &mut TestRun) {
    let failures = run.failures.iter_mut().map(|failure| &mut failure.file);
    let problems = run.problems.iter_mut().map(|problem| &mut problem.file);
    for file in failures.chain(problems).flatten() {
        *file = project.shown(file);
    }
    if project.place().paths.same() {
        return;
    }
    for failure in &mut run.failures {
        project.say(&mut failure.message);
        let more = [&mut failure.expected, &mut failure.actual, &mut failure.output];
        more.into_iter().flatten().for_each(|text| project.say(text));
    }
    let problems = run.problems.iter_mut().map(|problem| &mut problem.message);
    problems.chain(&mut run.notes).chain(&mut run.unread).for_each(|text| project.say(text));
}

struct Runner<'a> {
    call: &'a Call,
    tool: &'static str,
    project: &'a Arc<Project>,
    detector: &'static dyn Detector,
    keeper: Option<&'a Keeper>,
}

impl Runner<'_> {
    /// Runs one command and every further one that its outcome asks for; gives the first one's exit code.
    async fn to_the_end(&self, first: Plan, deadline: Instant, total: &mut Tests) -> Result<i32, ToolError> {
        let mut current = first;
        let limit = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(100));
        let (mut run, exit) = self.one(&current, limit, &total.run, &mut total.notes).await?;
        loop {
            let (plan, before) = (current.clone(), run);
            let (facts, detector) = (Arc::clone(self.project), self.detector);
            let (next, kept) = self
                .call
                .blocking(move |_| {
                    let mut run = before;
                    let next = detector.follow_up(&*facts, &plan, &mut run);
                    Ok((next, run))
                })
                .await?;
            run = kept;
            let Some(next) = next else { break };
            let limit = deadline.saturating_duration_since(Instant::now()).max(EXTRA);
            let mut before = total.run.clone();
            before.merge(run.clone());
            let (more, _) = self.one(&next, limit, &before, &mut total.notes).await?;
            run.merge(more);
            current = next;
        }
        total.run.merge(run);
        Ok(exit)
    }

    /// Runs one command and reads it. `before` is what earlier ones found, should this one be given up.
    async fn one(
        &self,
        plan: &Plan,
        limit: Duration,
        before: &TestRun,
        notes: &mut Vec<String>,
    ) -> Result<(TestRun, i32), ToolError> {
        let progress = self.call.progress.clone();
        let mut latest = ::verify::Progress::default();
        let reading = Reading {
            runner: self,
            plan,
            before,
            reader: Mutex::new(Some(self.reader(plan).await?)),
            read: AtomicUsize::new(0),
        };
        let mut take = |stream: Stream, bytes: &[u8]| {
            if let Some(reader) = reading.lock().as_mut() {
                reader.feed(stream, bytes);
                let now = reader.progress();
                if now != latest {
                    latest = now;
                    progress.report(update(now));
                }
            }
        };
        let done = command::run_counting(self.project, plan, limit, &mut take, &reading.read).await;
        // From here on it is no longer given up: what there is to read is read.
        let reader = reading.lock().take();
        let ended = match done {
            Ok(ended) => ended,
            Err(NotStarted::Missing(binary)) => {
                return Err(command::missing(self.tool, self.detector, self.project, &binary));
            }
            Err(NotStarted::Other(error)) => return Err(error),
        };
        // Every command of a run says the same about where it runs.
        for note in ended.notes.into_iter().filter_map(|note| self.call.session.verified.worth_saying(note)) {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        let (facts, end) = (Arc::clone(self.project), ended.end);
        let Some(reader) = reader else { return Ok((TestRun::default(), ended.code)) };
        let run = self.call.blocking(move |_| Ok(finish(reader, &end, &facts))).await?;
        Ok((run, ended.code))
    }

    async fn reader(&self, plan: &Plan) -> Result<Box<dyn TestReader>, ToolError> {
        let (plan, facts, detector) = (plan.clone(), Arc::clone(self.project), self.detector);
        self.call.blocking(move |_| Ok(detector.test_reader(&plan, &*facts))).await
    }
}

/// A command that is being read. Dropped before it came to its end, because the call was cancelled, it closes
/// the books on what had come until then.
struct Reading<'a> {
    runner: &'a Runner<'a>,
    plan: &'a Plan,
    before: &'a TestRun,
    reader: Mutex<Option<Box<dyn TestReader>>>,
    read: AtomicUsize,
}

impl Reading<'_> {
    fn lock(&self) -> MutexGuard<'_, Option<Box<dyn TestReader>>> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let reader = self.lock().take();
        let (Some(mut reader), Some(keeper)) = (reader, self.runner.keeper.cloned()) else { return };
        let (call, project) = (self.runner.call.clone(), Arc::clone(self.runner.project));
        let (plan, read) = (self.plan.clone(), self.read.load(Ordering::Relaxed));
        let (mut run, language) = (self.before.clone(), self.runner.detector.language());
        let facts = Arc::clone(&project);
        project.go_on(async move {
            let rest = command::report(&facts, &plan, read).await;
            let closed = call.blocking(move |_| {
                reader.feed(Stream::Report, &rest.unwrap_or_default());
                run.merge(finish(reader, &End::Cancelled, &facts));
                run.incomplete = Some("was cancelled".to_owned());
                place(&facts, &mut run);
                Ok(run)
            });
            if let Ok(run) = closed.await {
                keeper.add(language, run);
                keeper.keep();
            }
        });
    }
}

fn finish(reader: Box<dyn TestReader>, end: &End, facts: &Project) -> TestRun {
    let mut run = reader.finish(end, facts);
    if *end == End::OutOfMemory && run.failures.iter().all(|failure| failure.kind != FailureKind::Crashed) {
        run.incomplete = Some("the tests used more memory than allowed".to_owned());
    }
    run
}

/// "142/300, 2 failed".
fn update(now: ::verify::Progress) -> ProgressUpdate {
    let mut message = match now.total {
        Some(total) => format!("{}/{total}", now.done),
        None => format!("{} tests done", now.done),
    };
    if now.failed > 0 {
        message.push_str(&format!(", {} failed", now.failed));
    }
    ProgressUpdate { done: f64::from(now.done), total: now.total.map(f64::from), message }
}
