//! `Grep`: text in files.

use super::{cancellable, left_out};
use crate::{Call, Class, Group, Spec, Tool, ToolError};
use schemars::JsonSchema;
use scrub::Scrubber;
use serde::Deserialize;
use std::{borrow::Cow, fmt::Write as _, ops::ControlFlow, sync::atomic::AtomicBool};
use workspace::{FileHits, GrepError, GrepQuery, OutputMode, quoted};

/// Bytes of one reply; beyond it the search stops and says so.
const MAX_BYTES: usize = 256 << 10;
/// Larger files are not looked through for the private key that a line is part of.
const KEYS: u64 = 16 << 20;
/// Files that are named when they could not be searched.
const NAMED: usize = 5;

/// Searches files.
pub(crate) struct Grep;

/// What `Grep` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// Rust regex
    pattern: String,
    /// file or folder, default the root
    #[serde(default)]
    path: Option<String>,
    /// only such files: `*.rs`, `!*.md`
    #[serde(default)]
    glob: Option<String>,
    #[serde(default)]
    case_insensitive: Option<bool>,
    #[serde(default)]
    output_mode: Option<Mode>,
    /// matches or files, 0 = all
    #[serde(default)]
    head_limit: Option<usize>,
    /// lines around a match
    #[serde(default)]
    context: Option<usize>,
    /// match across lines
    #[serde(default)]
    multiline: Option<bool>,
    /// distrust file events
    #[serde(default)]
    fresh: Option<bool>,
}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    #[default]
    Content,
    FilesWithMatches,
    Count,
}

impl Tool for Grep {
    const SPEC: Spec = Spec {
        name: "Grep",
        group: Group::Files,
        class: Class::Read,
        description: "Search file contents, without ignored and binary files. Prints `path:line:text`, `path` or \
                      `path:count`.",
        destructive: false,
        idempotent: true,
        open_world: false,
        long: false,
    };
    type Args = Args;
    type Output = String;

    async fn run(&self, call: &Call, args: Args) -> Result<String, ToolError> {
        cancellable(call, move |call, cancel| grep(call, args, cancel)).await
    }
}

fn grep(call: &Call, args: Args, cancel: &AtomicBool) -> Result<String, ToolError> {
    let path = call.workspace.resolve(args.path.as_deref().filter(|path| !path.is_empty()).unwrap_or("."))?;
    let mode = match args.output_mode.unwrap_or_default() {
        Mode::Content => OutputMode::Content,
        Mode::FilesWithMatches => OutputMode::FilesWithMatches,
        Mode::Count => OutputMode::Count,
    };
    let query = GrepQuery {
        glob: args.glob.map(|glob| from_the_root(call, glob)),
        case_insensitive: args.case_insensitive == Some(true),
        mode,
        head_limit: args.head_limit.unwrap_or_default(),
        context: args.context.unwrap_or_default(),
        multiline: args.multiline == Some(true),
        fresh: args.fresh == Some(true),
        ..GrepQuery::new(args.pattern, path)
    };
    let mut text = String::new();
    let scrubber = call.host().scrubber();
    let summary = call.workspace.grep(&query, cancel, &mut |mut hits| {
        without_halves(call, &scrubber, &mut hits);
        render(&hits, mode, query.context > 0, &mut text);
        if text.len() < MAX_BYTES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    let summary = summary.map_err(|error| match error {
        GrepError::File(error) => error.into(),
        error => ToolError::caller(error.to_string()),
    })?;
    let full = text.len() >= MAX_BYTES;
    if full {
        let whole = text[..text.floor_char_boundary(MAX_BYTES)].rfind('\n').map_or(0, |end| end + 1);
        let lines = text[whole..].lines().count();
        text.truncate(whole);
        let _ = writeln!(
            text,
            "[cut at {MAX_BYTES} bytes, at least {lines} more line(s); narrow it or set head_limit]"
        );
    } else if summary.limited {
        let _ = writeln!(text, "[stopped at head_limit={}; there may be more]", query.head_limit);
    }
    for (path, why) in summary.unsearched.iter().take(NAMED) {
        let _ = writeln!(text, "[not searched: {path}: {why}]");
    }
    if summary.unsearched.len() > NAMED {
        let _ = writeln!(text, "[not searched: {} more]", summary.unsearched.len() - NAMED);
    }
    if text.is_empty() {
        text.push_str("no matches");
    }
    if let Some(left_out) = left_out(&summary.mounts) {
        text.truncate(text.trim_end_matches('\n').len());
        let _ = write!(text, "\n{left_out}");
    }
    Ok(text)
}

/// A glob whose absolute path inside the workspace is one from its root.
fn from_the_root(call: &Call, glob: String) -> String {
    let (not, path) = glob.strip_prefix('!').map_or(("", glob.as_str()), |path| ("!", path));
    let below = path.strip_prefix(&*call.workspace.root().to_string_lossy());
    match below.filter(|below| below.starts_with('/')) {
        Some(below) => format!("{not}{below}"),
        None => glob,
    }
}

/// Takes out parts of secrets: lines of a private key whose first line is not among those that are shown, and what a
/// cut leaves of a secret. Whole ones are for the pipeline.
fn without_halves(call: &Call, scrubber: &Scrubber, hits: &mut FileHits) {
    for line in &mut hits.lines {
        if let Some(cut) = &line.cut
            && let Cow::Owned(clean) =
                scrubber.scrub_part(&cut.before, &line.text[cut.shown.clone()], &cut.after)
        {
            line.text.replace_range(cut.shown.clone(), &clean);
        }
    }
    if !hits.lines.iter().any(|line| scrub::may_be_key(&line.text)) {
        return;
    }
    let bytes = call.workspace.resolve_entry(&hits.path).map(|path| call.workspace.read_bytes(&path, KEYS));
    let Ok(Ok(bytes)) = bytes else { return };
    let keys = scrub::key_lines(&String::from_utf8_lossy(&bytes));
    for line in &mut hits.lines {
        if keys.iter().any(|key| key.contains(&line.number)) {
            scrub::KEY_MARKER.clone_into(&mut line.text);
        }
    }
}

fn render(hits: &FileHits, mode: OutputMode, context: bool, text: &mut String) {
    let path = quoted(&hits.path);
    match mode {
        OutputMode::FilesWithMatches => {
            let _ = writeln!(text, "{path}");
        }
        OutputMode::Count => {
            let _ = writeln!(text, "{path}:{}", hits.count);
        }
        OutputMode::Content => {
            if context && !text.is_empty() {
                text.push_str("--\n");
            }
            for line in &hits.lines {
                if line.gap {
                    text.push_str("--\n");
                }
                let mark = if line.context { '-' } else { ':' };
                let _ = writeln!(text, "{path}{mark}{}{mark}{}", line.number, line.text);
            }
        }
    }
}
