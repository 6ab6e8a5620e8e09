//! `render_dot`: a graph as a picture in the workspace.

use crate::{Call, Class, Content, Group, Reply, Spec, Tool, ToolError};
use regex::Regex;
use sandbox::{EnvEntry, Outcome, Request, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use std::{convert::Infallible, path::Path, sync::LazyLock, time::Duration};
use workspace::{Expected, UpdateError};

const MAX_SOURCE: usize = 1 << 20;
const MAX_OUTPUT: usize = 10 << 20;
const DEFAULT_TIMEOUT: u64 = 60;
const MAX_TIMEOUT: u64 = 300;
/// How much of a program's complaints is passed on.
const MAX_COMPLAINT: usize = 2000;

/// Attributes that make Graphviz open files, and pictures in HTML-like labels.
static FILE_REFERENCE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"(?i)\b(image|imagepath|shapefile|fontpath)\b"?\s*=|<\s*img\b"#).ok());

/// Draws a graph.
pub(crate) struct RenderDot;

/// What `render_dot` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// DOT
    source: String,
    /// .svg, .png or .pdf
    output_path: String,
    /// s, default 60, max 300
    #[serde(default)]
    timeout: Option<u64>,
    /// also return the picture
    #[serde(default)]
    show: Option<bool>,
}

/// What a picture is written as.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Svg,
    Png,
    Pdf,
}

impl Format {
    fn of(path: &str) -> Result<Self, ToolError> {
        let extension = Path::new(path).extension().and_then(|extension| extension.to_str());
        match extension.map(str::to_ascii_lowercase).as_deref() {
            Some("svg") => Ok(Self::Svg),
            Some("png") => Ok(Self::Png),
            Some("pdf") => Ok(Self::Pdf),
            _ => Err(ToolError::caller(format!(
                "render_dot: `output_path` must end in .svg, .png or .pdf, got \"{path}\""
            ))),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Svg => "svg",
            Self::Png => "png",
            Self::Pdf => "pdf",
        }
    }

    /// The media type under which a client shows it.
    fn picture(self) -> Option<&'static str> {
        match self {
            Self::Svg => Some("image/svg+xml"),
            Self::Png => Some("image/png"),
            Self::Pdf => None,
        }
    }
}

impl Tool for RenderDot {
    const SPEC: Spec = Spec {
        name: "render_dot",
        group: Group::State,
        class: Class::Write,
        description: "Draw a Graphviz graph into a file of the workspace.",
        destructive: true,
        idempotent: true,
        open_world: false,
        long: true,
    };
    type Args = Args;
    type Output = Reply;

    async fn run(&self, call: &Call, args: Args) -> Result<Reply, ToolError> {
        let timeout = args.timeout.unwrap_or(DEFAULT_TIMEOUT);
        if !(1..=MAX_TIMEOUT).contains(&timeout) {
            return Err(ToolError::caller(format!(
                "render_dot: `timeout` must be 1 to {MAX_TIMEOUT} seconds, got {timeout}"
            )));
        }
        let format = Format::of(&args.output_path)?;
        check_source(&args.source)?;
        // Where it goes is looked at before anything is drawn.
        let path = call.workspace.resolve(&args.output_path)?;
        let response = dot(call, args.source, format, Duration::from_secs(timeout)).await;
        let warnings = judge(&response, timeout)?;
        let picture = response.stdout;
        let shown = args.show == Some(true);
        let data = if shown { picture.clone() } else { Vec::new() };
        let target = path.clone();
        let bytes = call
            .blocking(move |call| {
                let new = |_: Option<&[u8]>| Ok::<_, Infallible>(picture);
                match call.workspace.update(&target, Expected::Anything, new) {
                    Ok(written) => Ok(written.new.len()),
                    Err(UpdateError::File(error)) => Err(error.into()),
                    Err(_) => Err(ToolError::caller(format!(
                        "{target} changed while it was being written; call again"
                    ))),
                }
            })
            .await?;
        let mut reply = Reply::text(format!("wrote {bytes} bytes to {path}{warnings}"));
        match format.picture() {
            Some(mime) if shown => reply.content.push(Content::Image { data, mime }),
            None if shown => {
                reply.content.push(Content::Text("a .pdf cannot be shown; write a .png".to_owned()))
            }
            _ => {}
        }
        Ok(reply)
    }
}

fn check_source(source: &str) -> Result<(), ToolError> {
    if source.trim().is_empty() {
        return Err(ToolError::caller("render_dot: `source` is empty"));
    }
    if source.len() > MAX_SOURCE {
        return Err(ToolError::caller(format!(
            "render_dot: `source` has {} bytes; at most {MAX_SOURCE}",
            source.len()
        )));
    }
    if let Some(found) = FILE_REFERENCE.as_ref().and_then(|pattern| pattern.find(source)) {
        return Err(ToolError::with_hint(
            format!("render_dot: `{}` refers to a file, which is not opened", found.as_str()),
            "draw it without pictures and files of its own",
        ));
    }
    Ok(())
}

async fn dot(call: &Call, source: String, format: Format, timeout: Duration) -> Response {
    let request = Request {
        stdin: source.into_bytes(),
        // As for a web service: no file named in a graph is opened.
        env: vec![
            EnvEntry::Set("SERVER_NAME".to_owned(), "codegen-sandbox".to_owned()),
            EnvEntry::Set("GV_FILE_PATH".to_owned(), String::new()),
        ],
        timeout,
        cwd: Some(call.place().paths.inward(call.workspace.root())),
        cancel: call.cancel.clone(),
        capture_limit: Some(MAX_OUTPUT),
        ..Request::new("dot").args([format!("-T{}", format.name())])
    };
    call.sandbox().spawn(request).await
}

/// Warnings of a drawing that was made, or why there is none.
fn judge(response: &Response, timeout: u64) -> Result<String, ToolError> {
    let complaint = String::from_utf8_lossy(&response.stderr);
    let complaint = complaint.trim();
    let complaint = &complaint[..complaint.floor_char_boundary(MAX_COMPLAINT)];
    match &response.outcome {
        Outcome::Exited(0) if response.omitted > 0 => Err(ToolError::with_hint(
            format!("render_dot: the picture is larger than {} MiB; nothing was written", MAX_OUTPUT >> 20),
            "draw less of it",
        )),
        Outcome::Exited(0) if response.stdout.is_empty() => {
            Err(ToolError::caller(format!("render_dot: nothing was drawn\n{complaint}")))
        }
        Outcome::Exited(0) if complaint.is_empty() => Ok(String::new()),
        Outcome::Exited(0) => Ok(format!("\n{complaint}")),
        Outcome::NotFound { .. } => Err(ToolError::with_hint(
            "render_dot needs the program `dot` of Graphviz, which is not installed",
            "the package is called graphviz",
        )),
        Outcome::TimedOut => Err(ToolError::with_hint(
            format!("render_dot: timed out after {timeout}s; nothing was written"),
            "draw less of it or raise `timeout`",
        )),
        Outcome::Cancelled => Err(ToolError::Cancelled),
        outcome => Err(ToolError::caller(format!("render_dot: {outcome}\n{complaint}"))),
    }
}
