//! `Read`: lines of a file.

use super::foreign;
use crate::{Call, Class, Content, Group, Reply, Spec, Tool, ToolError};
use schemars::JsonSchema;
use scrub::Scrubber;
use serde::Deserialize;
use std::borrow::Cow;
use workspace::{ContainedPath, Window, WindowSpec, quoted};

/// Bytes of one reply; what is left is a further call away.
pub(super) const MAX_BYTES: usize = 256 << 10;

/// A file up to this size is read where the call runs.
const SMALL: u64 = 256 << 10;

/// Reads a file.
pub(crate) struct Read;

/// What `Read` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    file_path: String,
    /// first line, default 1
    #[serde(default)]
    offset: Option<u64>,
    /// lines, default 2000
    #[serde(default)]
    limit: Option<u64>,
}

impl Tool for Read {
    const SPEC: Spec = Spec {
        name: "Read",
        group: Group::Files,
        class: Class::Read,
        description: "Read a file as `LINENO<TAB>text` lines; images are shown. Needed before Edit, Write or \
                      apply_patch may change an existing file.",
        destructive: false,
        idempotent: true,
        open_world: false,
        long: false,
    };
    type Args = Args;
    type Output = Reply;

    async fn run(&self, call: &Call, args: Args) -> Result<Reply, ToolError> {
        if args.limit == Some(0) {
            return Err(ToolError::caller("Read: `limit` must be at least 1"));
        }
        let default = WindowSpec::default();
        let spec = WindowSpec {
            offset: args.offset.unwrap_or(default.offset).max(1),
            limit: args.limit.unwrap_or(default.limit),
            max_bytes: MAX_BYTES,
            ..default
        };
        // Waking a thread takes longer than reading a small file.
        if let Some((path, read)) = call.workspace.read_small(&args.file_path, &spec, SMALL) {
            return Ok(reply(call, &path, read?));
        }
        if let Some(read) = foreign::read(call, &args.file_path, &spec).await {
            return read;
        }
        call.blocking(move |call| {
            let path = call.workspace.resolve(&args.file_path)?;
            Ok(reply(call, &path, call.workspace.read(&path, &spec)?))
        })
        .await
    }
}

/// The lines without parts of secrets: a private key that begins before them, a secret at which a line is cut. Whole
/// ones are for the pipeline.
fn without_halves(scrubber: &Scrubber, window: &mut Window) -> String {
    let mut text = std::mem::take(&mut window.numbered);
    for cut in window.cuts.iter().rev() {
        if let Cow::Owned(clean) = scrubber.scrub_part("", &text[cut.shown.clone()], &cut.after) {
            text.replace_range(cut.shown.clone(), &clean);
        }
    }
    if let Some(key) = scrub::open_key(&window.before)
        && let Cow::Owned(clean) = scrubber.scrub_part(key, &text, "")
    {
        // The number of the first line goes with its text.
        let number =
            if clean.starts_with(scrub::KEY_MARKER) { format!("{}\t", window.first) } else { String::new() };
        text = number + &clean;
    }
    text
}

fn reply(call: &Call, path: &ContainedPath, read: workspace::Read) -> Reply {
    call.session.ledgers.with(&call.workspace, |ledger| ledger.record(path, read.version, read.bytes));
    match read.content {
        workspace::Content::Text(window) if window.len == 0 => Reply::text(format!("[{path} is empty]")),
        workspace::Content::Text(mut window) => {
            let more = window.has_more();
            let mut text = without_halves(&call.host().scrubber(), &mut window);
            if more {
                let next = window.first + window.lines;
                let of = window.total_lines.map(|total| format!(" of {total}")).unwrap_or_default();
                text.push_str(&format!(
                    "[lines {}-{}{of}; offset={next} reads on]\n",
                    window.first,
                    next - 1
                ));
            }
            Reply::text(text)
        }
        workspace::Content::Image { mime, bytes } => Reply {
            content: vec![
                Content::Text(format!("{}: {mime}, {} bytes", quoted(path.relative()), bytes.len())),
                Content::Image { data: bytes.to_vec(), mime },
            ],
            ..Reply::default()
        },
        workspace::Content::Binary { kind, len } => {
            Reply::text(format!("{path}: {kind}, {len} bytes, not shown"))
        }
        _ => Reply::text(format!("{path}: not shown")),
    }
}
