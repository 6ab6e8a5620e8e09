//! `BashOutput`: what a shell printed.

use super::{About, Entry, background::Background, capture::SHOWN, clean, stream::Stream};
use crate::{Call, Class, Group, Spec, Tool, ToolError, Touches, bound::left_out};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::fmt::Write as _;

/// Reads a shell.
pub(crate) struct BashOutput;

/// What `BashOutput` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    shell_id: String,
    /// `next` of an earlier reply: only what is new
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    since: Option<Value>,
}

/// Where in the two streams a reader stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Cursor {
    stdout: Position,
    stderr: Position,
}

/// Where in one stream a reader stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Position {
    /// In complete lines.
    at: u64,
    /// What was shown of the line after them, which had no end yet.
    unfinished: u64,
}

impl Position {
    /// `at`, or `at+unfinished`.
    fn parse(text: &str) -> Option<Self> {
        let (at, unfinished) = text.split_once('+').unwrap_or((text, "0"));
        Some(Self { at: at.parse().ok()?, unfinished: unfinished.parse().ok()? })
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.unfinished {
            0 => write!(f, "{}", self.at),
            unfinished => write!(f, "{}+{unfinished}", self.at),
        }
    }
}

impl Cursor {
    /// `stdout:stderr`, or only the first.
    fn parse(value: &Value) -> Option<Self> {
        if let Some(at) = value.as_u64() {
            return Some(Self { stdout: Position { at, unfinished: 0 }, ..Self::default() });
        }
        let (stdout, stderr) = value.as_str().map(|text| text.split_once(':').unwrap_or((text, "0")))?;
        Some(Self { stdout: Position::parse(stdout)?, stderr: Position::parse(stderr)? })
    }
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.stdout, self.stderr)
    }
}

impl Tool for BashOutput {
    const SPEC: Spec = Spec {
        name: "BashOutput",
        group: Group::Shell,
        class: Class::Write,
        description: "Read a background shell's status and output.",
        destructive: false,
        idempotent: true,
        open_world: false,
        long: false,
    };
    const TOUCHES: Touches = Touches::Nothing;
    type Args = Args;
    type Output = String;

    async fn run(&self, call: &Call, args: Args) -> Result<String, ToolError> {
        let since = match &args.since {
            None | Some(Value::Null) => None,
            Some(value) => Some(Cursor::parse(value).ok_or_else(|| {
                ToolError::with_hint(
                    format!("BashOutput: `since` must be a cursor, got {value}"),
                    "pass `next` of an earlier reply, like \"120:0\"",
                )
            })?),
        };
        match call.session.shells.find(&args.shell_id)? {
            Entry::Background(shell) => Ok(running(call, &shell, since)),
            Entry::Finished(finished) => {
                call.blocking(move |_| {
                    let from = since.unwrap_or_default().stdout.at;
                    let output = &finished.output;
                    let (text, next) =
                        output.part(from, SHOWN).map_err(|error| ToolError::Fault(error.into()))?;
                    let mut header = header(&finished.about, Some(finished.code));
                    if !output.complete {
                        let _ = writeln!(header, "[TRUNCATED] the first {} bytes are kept", output.length);
                    }
                    let _ = writeln!(header, "next: \"{next}\"");
                    let more = match output.length - next {
                        0 => String::new(),
                        more => format!("\n… {more} bytes more: since=\"{next}\" …"),
                    };
                    let text = clean::overwritten(&text);
                    Ok(format!(
                        "{header}--- stdout and stderr ({} bytes) ---\n{text}{more}",
                        output.length - from.min(output.length)
                    ))
                })
                .await
            }
        }
    }
}

fn header(about: &About, code: Option<i32>) -> String {
    let mut header = format!("command: {}\n", about.command);
    if let Some(description) = &about.description {
        let _ = writeln!(header, "description: {description}");
    }
    let status = code.map_or_else(|| "running".to_owned(), |code| format!("completed (exit {code})"));
    let _ = writeln!(header, "status: {status}\nstarted: {}", about.started);
    header
}

fn running(call: &Call, shell: &Background, since: Option<Cursor>) -> String {
    let state = &mut *shell.state();
    let mut text = header(&shell.about, state.ended.as_ref().map(|ended| ended.code));
    for note in state.ended.iter().flat_map(|ended| &ended.notes) {
        if call.session.shells.worth_saying(call.workspace.name(), note) {
            let _ = writeln!(text, "note: {note}");
        }
    }
    for (name, stream) in [("stdout", &state.stdout), ("stderr", &state.stderr)] {
        if stream.dropped() > 0 {
            let _ = writeln!(
                text,
                "[TRUNCATED] {name}: {} bytes of its middle are no longer kept",
                stream.dropped()
            );
        }
    }
    let stdout = section(&mut state.stdout, "stdout", since.map(|since| since.stdout));
    let stderr = section(&mut state.stderr, "stderr", since.map(|since| since.stderr));
    let next = Cursor { stdout: stdout.next, stderr: stderr.next };
    let _ = writeln!(text, "next: \"{next}\"");
    text + &stdout.text + &stderr.text
}

struct Section {
    text: String,
    next: Position,
}

/// One stream from `since` on; without it, head and tail of what there is.
fn section(stream: &mut Stream, name: &str, since: Option<Position>) -> Section {
    let total = stream.total();
    let from = since.unwrap_or_default().at.min(total);
    let mut unfinished = stream.pending().len() as u64;
    // A line without an end is shown again only when there is more of it, and then as a whole: a secret must not
    // leave in two halves of which neither looks like one.
    let shown = Position { at: total, unfinished };
    let pending = if since == Some(shown) { String::new() } else { stream.pending().to_owned() };
    let mut text = format!("--- {name} ({} bytes) ---\n", total - from + pending.len() as u64);
    let mut next = total;
    if since.is_none() && total > SHOWN as u64 {
        let head = stream.part(0, SHOWN / 2);
        let tail = stream.part(total - SHOWN as u64 / 2, SHOWN / 2);
        let gap = total - (head.next + tail.text.len() as u64);
        let read_on = format!("; since=\"{}\" in the place of this stream's number reads on", head.next);
        text += &clean::overwritten(&head.text);
        let _ = write!(text, "\n{}\n", left_out(gap, &read_on));
        text += &clean::overwritten(&tail.text);
    } else {
        let part = stream.part(from, SHOWN);
        next = part.next;
        text += &clean::overwritten(&part.text);
    }
    if next < total {
        let _ = write!(text, "\n… {} bytes more: call again with `next` …", total - next);
        unfinished = 0;
    } else {
        text += &clean::overwritten(&pending);
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Section { text, next: Position { at: next, unfinished } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cursors_are_pairs_or_a_single_number() {
        let position = |at, unfinished| Position { at, unfinished };
        let cursor =
            |stdout, stderr| Some(Cursor { stdout: position(stdout, 0), stderr: position(stderr, 0) });
        assert_eq!(Cursor::parse(&json!("12:3")), cursor(12, 3));
        assert_eq!(Cursor::parse(&json!("12")), cursor(12, 0));
        assert_eq!(Cursor::parse(&json!(12)), cursor(12, 0));
        let written = Cursor { stdout: position(12, 0), stderr: position(3, 4) }.to_string();
        assert_eq!(written, "12:3+4");
        assert_eq!(Cursor::parse(&json!(written)).unwrap().stderr, position(3, 4));
        for bad in [json!("x"), json!("1:2:3"), json!("1:"), json!("1+:2"), json!(-1), json!([1])] {
            assert_eq!(Cursor::parse(&bad), None, "{bad}");
        }
    }

    #[test]
    fn an_unfinished_line_is_shown_once_and_again_when_there_is_more_of_it() {
        let mut stream = Stream::new(&scrub::Scrubber::default());
        let mut at = None;
        let mut read = |stream: &mut Stream| {
            let section = section(stream, "stdout", at);
            at = Position::parse(&section.next.to_string());
            section.text
        };
        stream.push(b"one\nPass");
        assert_eq!(read(&mut stream), "--- stdout (8 bytes) ---\none\nPass\n");
        assert_eq!(read(&mut stream), "--- stdout (0 bytes) ---\n");
        stream.push(b"word: ");
        assert_eq!(read(&mut stream), "--- stdout (10 bytes) ---\nPassword: \n");
        assert_eq!(read(&mut stream), "--- stdout (0 bytes) ---\n");
        stream.push(b"ok\n");
        assert_eq!(read(&mut stream), "--- stdout (13 bytes) ---\nPassword: ok\n");
        assert_eq!(read(&mut stream), "--- stdout (0 bytes) ---\n");
    }
}
