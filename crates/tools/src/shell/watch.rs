//! What happened to a watched process: its lines matched, its silence timed, its end noted.

use crate::{Notice, Notices, ToolError};
use jiff::{Timestamp, Unit};
use regex::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};
use schemars::JsonSchema;
use serde::Serialize;
use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

/// Events kept; the oldest go first.
pub(super) const MAX_EVENTS: usize = 1024;
const MAX_PATTERNS: usize = 32;
const MAX_PATTERN: usize = 1000;
/// What compiled patterns may take, in bytes.
const MAX_COMPILED: usize = 1 << 20;
/// How much of a line is looked at.
const MAX_LINE: usize = 4 * 1024;
/// Matching a line may take so long by itself, and so long for each of its bytes.
const FAIR_LINE: Duration = Duration::from_micros(50);
const FAIR_BYTE: Duration = Duration::from_nanos(100);
/// What takes longer is paid for: for so many times as long, lines pass without being matched.
const PRICE: u32 = 50;
/// Nobody pays before it is so much.
const CREDIT: Duration = Duration::from_secs(10);
/// How much of a line an event shows.
const SHOWN_LINE: usize = 500;
/// Clients that take notifications get at most one error in this time; the next says how many were held back.
const PUSH_PAUSE: Duration = Duration::from_millis(200);

const DEFAULT_PATTERNS: [&str; 5] =
    ["^Error:", "^Fatal:", "^panic:", r"\buncaught\b", "UnhandledPromiseRejection"];

/// Which lines mean what.
pub(super) struct Patterns {
    errors: RegexSet,
    ready: Option<Regex>,
}

impl Patterns {
    /// No list means the default patterns.
    pub(super) fn new(errors: Option<Vec<String>>, ready: Option<String>) -> Result<Self, ToolError> {
        let errors = errors.unwrap_or_else(|| DEFAULT_PATTERNS.map(str::to_owned).into());
        if errors.len() > MAX_PATTERNS {
            let given = errors.len();
            return Err(bad("error_patterns", format!("takes at most {MAX_PATTERNS} patterns, got {given}")));
        }
        for pattern in &errors {
            // One by one, so that the message names the one that is wrong.
            compile("error_patterns", pattern)?;
        }
        let errors = RegexSetBuilder::new(&errors)
            .size_limit(MAX_COMPILED)
            .build()
            .map_err(|error| bad("error_patterns", format!("are too much together: {error}")))?;
        let ready = ready.map(|pattern| compile("ready_pattern", &pattern)).transpose()?;
        Ok(Self { errors, ready })
    }
}

fn compile(field: &str, pattern: &str) -> Result<Regex, ToolError> {
    if pattern.len() > MAX_PATTERN {
        return Err(bad(field, format!("must be shorter than {MAX_PATTERN} bytes, got {}", pattern.len())));
    }
    RegexBuilder::new(pattern)
        .size_limit(MAX_COMPILED)
        .build()
        .map_err(|error| bad(field, format!("is no regular expression: {error}")))
}

fn bad(field: &str, what: String) -> ToolError {
    ToolError::caller(format!("watch_process: `{field}` {what}"))
}

/// Something that happened.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Event {
    pub(super) id: u64,
    at: String,
    #[serde(flatten)]
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Kind {
    Started,
    Error { matched: String, line: String },
    Ready,
    IdleTimeout,
    Exited { exit: i32 },
}

impl std::fmt::Display for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{}] {}  ", self.id, self.at)?;
        match &self.kind {
            Kind::Started => f.write_str("started"),
            Kind::Error { matched, line } => write!(f, "error (matched \"{matched}\")  {line}"),
            Kind::Ready => f.write_str("ready"),
            Kind::IdleTimeout => f.write_str("idle_timeout"),
            Kind::Exited { exit } => write!(f, "exited  exit={exit}"),
        }
    }
}

/// The eyes on one process.
pub(super) struct Watch {
    shell_id: String,
    patterns: Patterns,
    /// Silence for this long is an event.
    idle: Option<Duration>,
    notices: Notices,
    /// Lines are not pushed: a hook may withhold them from whoever reads the events.
    reticent: bool,
    /// Matched without holding up who reads the events.
    lines: Mutex<Lines>,
    log: Mutex<Log>,
    heard: Notify,
    /// An event was held back.
    waiting: Notify,
}

/// What came of one stream.
#[derive(Default)]
pub(super) struct Heard {
    /// Clean text.
    pub(super) text: String,
    /// Lines behind it that will come again as part of it, because a secret may go on in the next one: whoever prints
    /// an error and then waits prints no next one. Clean as far as they can be.
    pub(super) lines: String,
    /// All that is still held back, those lines among it. Not scrubbed.
    pub(super) pending: String,
}

/// A line that was looked at before it was let go.
struct Early {
    line: String,
    /// An event tells of it.
    noted: bool,
}

struct Lines {
    /// The last line of stdout and of stderr, as far as it came.
    open: [String; 2],
    /// What was looked at of [`Heard::lines`].
    early: [VecDeque<Early>; 2],
    ready: bool,
    /// When everything will be paid for that took too long.
    paid: Instant,
}

struct Log {
    events: VecDeque<Event>,
    last: u64,
    /// Lines that were not matched.
    unmatched: u64,
    last_output: Instant,
    /// When the last error was.
    pushed: Option<Instant>,
    held_back: u64,
    /// The last of those held back.
    unpushed: Option<Event>,
}

/// The events after a given one.
pub(super) struct Since {
    pub(super) events: Vec<Event>,
    /// Those that are no longer kept.
    pub(super) dropped: u64,
    /// Lines that were not matched, because the patterns take too long.
    pub(super) unmatched: u64,
}

impl Watch {
    pub(super) fn new(
        shell_id: String,
        patterns: Patterns,
        idle: Option<Duration>,
        notices: Notices,
        reticent: bool,
    ) -> Self {
        let log = Log {
            events: VecDeque::new(),
            last: 0,
            unmatched: 0,
            last_output: Instant::now(),
            pushed: None,
            held_back: 0,
            unpushed: None,
        };
        let (open, early) = Default::default();
        let lines = Lines { open, early, ready: false, paid: Instant::now() };
        let (lines, log) = (Mutex::new(lines), Mutex::new(log));
        let (heard, waiting) = (Notify::new(), Notify::new());
        let watch = Self { shell_id, patterns, idle, notices, reticent, lines, log, heard, waiting };
        watch.note(&mut watch.lock(), Kind::Started);
        watch
    }

    /// Notes silences and pushes what was held back, in time. Never returns.
    pub(super) async fn mind(&self) {
        tokio::join!(self.mind_silence(), self.mind_held_back());
    }

    /// What came of one stream. May take a while.
    pub(super) fn hear(&self, stderr: bool, heard: &Heard) {
        self.lock().last_output = Instant::now();
        self.heard.notify_one();
        let lines = &mut *self.lines();
        let stream = usize::from(stderr);
        for line in heard.text.split_inclusive('\n') {
            let open = &mut lines.open[stream];
            go_on(open, line);
            if line.ends_with('\n') {
                let line = std::mem::take(open);
                self.let_come(lines, stderr, line.trim_end());
            }
        }
        let mut line = lines.open[stream].clone();
        for (at, part) in heard.lines.split_inclusive('\n').enumerate() {
            go_on(&mut line, part);
            self.judge_early(lines, stderr, at, std::mem::take(&mut line).trim_end());
        }
        if !lines.ready && self.patterns.ready.is_some() {
            let pending = heard.pending.rsplit('\n').next().unwrap_or_default();
            if heard.pending.len() == pending.len() {
                line.clone_from(&lines.open[stream]);
            }
            go_on(&mut line, pending);
            self.judge_ready(lines, line.trim_end_matches('\r'));
        }
    }

    /// It is over: the last line needs no end.
    pub(super) fn end(&self, exit: i32) {
        let lines = &mut *self.lines();
        for (stderr, line) in std::mem::take(&mut lines.open).into_iter().enumerate() {
            self.let_come(lines, stderr == 1, line.trim_end());
        }
        self.note(&mut self.lock(), Kind::Exited { exit });
    }

    /// Looks at a line before it is let go, when that has not been done: it is the one with this number of those.
    fn judge_early(&self, lines: &mut Lines, stderr: bool, at: usize, line: &str) {
        let early = &mut lines.early[usize::from(stderr)];
        if early.get(at).is_some_and(|early| early.line == line) {
            return;
        }
        early.truncate(at);
        let noted = self.judge(lines, stderr, line);
        lines.early[usize::from(stderr)].push_back(Early { line: line.to_owned(), noted });
    }

    /// Looks at a line that was let go, unless that was done before.
    fn let_come(&self, lines: &mut Lines, stderr: bool, line: &str) {
        let early = &mut lines.early[usize::from(stderr)];
        // Its end may have been kept back.
        match early.pop_front() {
            Some(early) if early.line == line || early.noted && line.starts_with(&early.line) => {}
            _ => {
                early.clear();
                self.judge(lines, stderr, line);
            }
        }
    }

    /// Tells whether the line is an error.
    fn judge(&self, lines: &mut Lines, stderr: bool, line: &str) -> bool {
        let errors = &self.patterns.errors;
        let first = || errors.matches(line).iter().next();
        let mut noted = false;
        if stderr
            && !errors.is_empty()
            && let Some(hit) = self.within_credit(lines, line, first).flatten()
        {
            let matched = errors.patterns()[hit].clone();
            let (shown, rest) = line.split_at(line.floor_char_boundary(SHOWN_LINE));
            let line =
                if rest.is_empty() { shown.to_owned() } else { format!("{shown}… (BashOutput has more)") };
            self.note(&mut self.lock(), Kind::Error { matched, line });
            noted = true;
        }
        self.judge_ready(lines, line);
        noted
    }

    fn judge_ready(&self, lines: &mut Lines, line: &str) {
        let Some(ready) = self.patterns.ready.as_ref().filter(|_| !lines.ready) else { return };
        if self.within_credit(lines, line, || ready.is_match(line)) == Some(true) {
            lines.ready = true;
            self.note(&mut self.lock(), Kind::Ready);
        }
    }

    /// Matches a line, unless lines before it took so long that there is no time left: a pattern can need a second for
    /// a line, and there may be thousands of them.
    fn within_credit<T>(&self, lines: &mut Lines, line: &str, look: impl FnOnce() -> T) -> Option<T> {
        let now = Instant::now();
        if lines.paid > now + CREDIT {
            self.lock().unmatched += 1;
            return None;
        }
        // Not the clock's time: on a busy machine that says nothing about the pattern.
        let begin = busy();
        let found = look();
        let length = u32::try_from(line.len()).unwrap_or(u32::MAX);
        let over = busy().saturating_sub(begin).saturating_sub(FAIR_LINE + FAIR_BYTE * length);
        lines.paid = lines.paid.max(now) + over * PRICE;
        Some(found)
    }

    /// Notes each silence once. Never returns.
    async fn mind_silence(&self) {
        let Some(idle) = self.idle else { return std::future::pending().await };
        loop {
            let due = self.lock().last_output + idle;
            tokio::time::sleep_until(due).await;
            {
                let log = &mut *self.lock();
                if log.last_output + idle > due {
                    continue;
                }
                self.note(log, Kind::IdleTimeout);
            }
            // An earlier output may have left a permit behind.
            loop {
                self.heard.notified().await;
                if self.lock().last_output + idle > due {
                    break;
                }
            }
        }
    }

    fn note(&self, log: &mut Log, kind: Kind) {
        log.last += 1;
        let now = Timestamp::now();
        let at = now.round(Unit::Millisecond).unwrap_or(now).to_string();
        let event = Event { id: log.last, at, kind };
        self.push(log, &event);
        if log.events.len() == MAX_EVENTS {
            log.events.pop_front();
        }
        log.events.push_back(event);
    }

    /// The last event of a burst is pushed when the pause is over. Never returns.
    async fn mind_held_back(&self) {
        loop {
            self.waiting.notified().await;
            // What is pushed meanwhile begins another pause.
            while let Some(due) = self.pause_ends() {
                tokio::time::sleep_until(due).await;
            }
            self.let_go(&mut self.lock());
        }
    }

    fn pause_ends(&self) -> Option<Instant> {
        let pushed = self.lock().pushed?;
        (pushed.elapsed() < PUSH_PAUSE).then(|| pushed + PUSH_PAUSE)
    }

    /// Tells clients that listen, but never floods them: of many error lines in a row they see the first
    /// and the last. Other events are rare, and begin no pause: the one error of a crash comes right behind the start.
    fn push(&self, log: &mut Log, event: &Event) {
        if !matches!(event.kind, Kind::Error { .. }) {
            // The last error before the end is most often the reason for it.
            self.let_go(log);
        } else if log.pushed.is_some_and(|pushed| pushed.elapsed() < PUSH_PAUSE) {
            log.held_back += 1;
            log.unpushed = Some(event.clone());
            self.waiting.notify_one();
            return;
        } else {
            log.pushed = Some(Instant::now());
            log.unpushed = None;
        }
        self.tell(log, event);
    }

    /// Tells the last error that was held back.
    fn let_go(&self, log: &mut Log) {
        let Some(event) = log.unpushed.take() else { return };
        log.held_back -= 1;
        log.pushed = Some(Instant::now());
        self.tell(log, &event);
    }

    fn tell(&self, log: &mut Log, event: &Event) {
        let held_back = match std::mem::take(&mut log.held_back) {
            0 => String::new(),
            count => format!(" ({count} events before it were not pushed)"),
        };
        let mut shown = event.clone();
        if let Kind::Error { line, .. } = &mut shown.kind
            && self.reticent
        {
            *line = "(watch_process_events has the line)".to_owned();
        }
        self.notices.send(Notice {
            source: "watch_process",
            error: matches!(event.kind, Kind::Error { .. }),
            text: format!("{} {shown}{held_back}", self.shell_id),
        });
    }

    pub(super) fn since(&self, id: u64) -> Since {
        let log = self.lock();
        let first = log.events.front().map_or(1, |event| event.id);
        Since {
            events: log.events.iter().filter(|event| event.id > id).cloned().collect(),
            dropped: (first - 1).saturating_sub(id),
            unmatched: log.unmatched,
        }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds to a line what came of it, as far as it is looked at. What follows a carriage return overwrites what was before.
fn go_on(line: &mut String, came: &str) {
    for part in came.split_inclusive('\r') {
        if line.ends_with('\r') && !part.trim_end().is_empty() {
            line.clear();
        }
        let room = MAX_LINE.saturating_sub(line.len());
        line.push_str(&part[..part.floor_char_boundary(room)]);
        if part.ends_with('\r') && !line.ends_with('\r') {
            line.push('\r');
        }
    }
}

/// How long this thread has been computing.
fn busy() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    Duration::from_secs(part(time.tv_sec)) + Duration::from_nanos(part(time.tv_nsec))
}

#[cfg(test)]
mod tests;
