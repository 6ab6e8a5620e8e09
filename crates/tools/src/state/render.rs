//! `render_dot` and `render_mermaid`: a diagram as a picture in the workspace.

use super::{graph, svg};
use crate::{Call, Class, Content, Group, Place, Reply, Spec, Tool, ToolError, Touches};
use sandbox::{EnvEntry, Outcome, Request, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use std::{
    convert::Infallible,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio_util::task::TaskTracker;
use workspace::{Expected, UpdateError};

const MAX_SOURCE: usize = 1 << 20;
const MAX_OUTPUT: usize = 10 << 20;
const DEFAULT_TIMEOUT: u64 = 60;
const MAX_TIMEOUT: u64 = 300;
/// How much of a program's complaints is passed on.
const MAX_COMPLAINT: usize = 2000;

/// Draws a graph.
pub(crate) struct RenderDot;

/// Draws a diagram.
pub(crate) struct RenderMermaid;

/// What both take.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
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
    fn of(tool: &str, path: &str) -> Result<Self, ToolError> {
        let extension = Path::new(path).extension().and_then(|extension| extension.to_str());
        match extension.map(str::to_ascii_lowercase).as_deref() {
            Some("svg") => Ok(Self::Svg),
            Some("png") => Ok(Self::Png),
            Some("pdf") => Ok(Self::Pdf),
            _ => Err(ToolError::caller(format!(
                "{tool}: `output_path` must end in .svg, .png or .pdf, got \"{path}\""
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
}

impl Tool for RenderDot {
    const SPEC: Spec = Spec {
        name: "render_dot",
        group: Group::State,
        class: Class::Write,
        description: "Draw a Graphviz graph into a file.",
        destructive: true,
        idempotent: true,
        open_world: false,
        long: true,
    };
    // What draws writes to its stdout alone.
    const TOUCHES: Touches = Touches::Noted;
    type Args = Args;
    type Output = Reply;

    async fn run(&self, call: &Call, args: Args) -> Result<Reply, ToolError> {
        let graphs = graph::graphs(&args.source);
        if graphs > 1 {
            return Err(ToolError::with_hint(
                format!("render_dot: `source` holds {graphs} graphs, and a picture shows one"),
                "call once for each, or make them parts of one graph: subgraph cluster_a { … }",
            ));
        }
        if let Some(found) = graph::reference(&args.source) {
            return Err(ToolError::with_hint(
                format!("render_dot: `{found}` refers to a file, which is not opened"),
                "draw it without pictures and files of its own",
            ));
        }
        render(call, Self::SPEC.name, args, dot).await
    }
}

impl Tool for RenderMermaid {
    const SPEC: Spec = Spec {
        name: "render_mermaid",
        description: "Draw a Mermaid diagram into a file.",
        ..RenderDot::SPEC
    };
    type Args = Args;
    type Output = Reply;

    async fn run(&self, call: &Call, args: Args) -> Result<Reply, ToolError> {
        let room = Room::new(call);
        let done = render(call, Self::SPEC.name, args, |format| mermaid(format, &room)).await;
        // A program that ended by itself left nothing.
        if done.is_ok() {
            room.cleared();
        }
        done
    }
}

/// Checks what was asked for, has it drawn, and writes the picture.
async fn render(
    call: &Call,
    tool: &'static str,
    args: Args,
    draw: impl Fn(Format) -> Request,
) -> Result<Reply, ToolError> {
    let timeout = args.timeout.unwrap_or(DEFAULT_TIMEOUT);
    if !(1..=MAX_TIMEOUT).contains(&timeout) {
        return Err(ToolError::caller(format!(
            "{tool}: `timeout` must be 1 to {MAX_TIMEOUT} seconds, got {timeout}"
        )));
    }
    let format = Format::of(tool, &args.output_path)?;
    check_source(tool, &args.source)?;
    // Where it goes is looked at before anything is drawn.
    let path = call.workspace.resolve(&args.output_path)?;
    // A link may bear the name of a picture and lead to a source.
    if Format::of(tool, &path.relative().to_string_lossy()).ok() != Some(format) {
        return Err(ToolError::with_hint(
            format!("{tool}: {} leads to {path}, which is no .{}", args.output_path, format.name()),
            "give an `output_path` that is no link, or a link to such a picture",
        ));
    }
    if path.relative().iter().any(|name| name.eq_ignore_ascii_case(".git")) {
        return Err(ToolError::with_hint(
            format!("{tool}: {path} lies in a repository's .git, where git takes it for its own"),
            "give an `output_path` beside the sources",
        ));
    }
    let drawn = async |format| {
        let request = Request {
            stdin: args.source.clone().into_bytes(),
            timeout: Duration::from_secs(timeout),
            cwd: Some(call.place().paths.inward(call.workspace.root())),
            cancel: call.cancel.clone(),
            capture_limit: Some(MAX_OUTPUT),
            ..draw(format)
        };
        let response = call.place().spawn(request).await;
        let warnings = judge(tool, &response, timeout)?;
        Ok::<_, ToolError>((response.stdout, warnings))
    };
    let (mut picture, mut warnings) = drawn(format).await?;
    if format == Format::Svg {
        let text = String::from_utf8_lossy(&picture).into_owned();
        let (alone, removed) =
            call.blocking(move |_| svg::alone(&text).map_err(|error| ToolError::Fault(error.into()))).await?;
        if removed > 0 {
            warnings += &format!("\n{removed} references to other files or hosts were taken out");
            picture = alone.into_bytes();
        }
    }
    let shown = match args.show {
        // No model takes an .svg or a .pdf, and many a client cannot go on once it was given one.
        Some(true) if format == Format::Png => Some(Ok(picture.clone())),
        Some(true) => Some(drawn(Format::Png).await.map(|(picture, _)| picture)),
        _ => None,
    };
    let target = path.clone();
    let bytes = call
        .blocking(move |call| {
            let mut note = None;
            let new = |old: Option<&[u8]>| {
                note = call.note(tool, &target, old);
                Ok::<_, Infallible>(picture)
            };
            let written = call.workspace.update(&target, Expected::Anything, new);
            call.noted(note, written.as_ref().ok().map(|written| Arc::clone(&written.new)));
            match written {
                Ok(written) => Ok(written.new.len()),
                Err(UpdateError::File(error)) => Err(error.into()),
                Err(_) => {
                    Err(ToolError::caller(format!("{target} changed while it was being written; call again")))
                }
            }
        })
        .await?;
    let mut reply = Reply::text(format!("wrote {bytes} bytes to {path}{warnings}"));
    match shown {
        Some(Ok(data)) => reply.content.push(Content::Image { data, mime: "image/png" }),
        Some(Err(error)) => reply.content.push(Content::Text(format!("it cannot be shown: {error}"))),
        None => {}
    }
    Ok(reply)
}

fn check_source(tool: &str, source: &str) -> Result<(), ToolError> {
    if source.trim().is_empty() {
        return Err(ToolError::caller(format!("{tool}: `source` is empty; say what to draw")));
    }
    if let Some(at) = source.find('\0') {
        return Err(ToolError::caller(format!(
            "{tool}: `source` has a NUL character at byte {at}, at which reading ends; take it out"
        )));
    }
    if source.len() > MAX_SOURCE {
        return Err(ToolError::caller(format!(
            "{tool}: `source` has {} bytes, {MAX_SOURCE} are the most; draw less of it",
            source.len()
        )));
    }
    Ok(())
}

/// Draws from stdin to stdout with 2 GiB of memory at most: a single node may ask for a picture of four. Exit 127: there
/// is no such program.
const DOT: &str = r#"
command -v dot > /dev/null || exit 127
ulimit -v 2097152 2> /dev/null
exec dot "-T$1"
"#;

fn dot(format: Format) -> Request {
    Request {
        // As for a web service: no file named in a graph is opened.
        env: vec![
            EnvEntry::Set("SERVER_NAME".to_owned(), "codegen-sandbox".to_owned()),
            EnvEntry::Set("GV_FILE_PATH".to_owned(), String::new()),
        ],
        ..Request::new("bash").args(["-c", DOT, "render_dot", format.name()])
    }
}

/// Keeps the page that draws from loading files and hosts.
const GUARD: &str = include_str!("render_guard.mjs");

/// Finds Mermaid's command line (the project's own first) and a browser for it, gives the browser neither network
/// nor devtools' port, and draws from stdin to stdout. Exit 127: there is no such program.
const MERMAID: &str = r#"
mmdc=node_modules/.bin/mmdc
[ -x "$mmdc" ] || mmdc=$(command -v mmdc) || exit 127
# Ours alone, whoever else writes to the same /tmp: what stands in the settings is started.
(umask 077; mkdir "$2" 2>/dev/null || { [ -O "$2" ] && [ ! -L "$2" ]; }) ||
  { echo "$2 cannot be made, or is another user's" >&2; exit 1; }
trap 'rm -rf "$2"' EXIT
export TMPDIR=$2
config=$2/puppeteer.json
browser=
for name in "${PUPPETEER_EXECUTABLE_PATH:-}" chromium chromium-browser google-chrome-stable google-chrome; do
  [ -n "$name" ] && browser=$(command -v "$name") && break
done
executable=
[ -n "$browser" ] && executable="\"executablePath\":\"$browser\","
printf '{%s"pipe":true,"args":["--no-sandbox","--disable-gpu","--disable-dev-shm-usage","--disable-background-networking","--host-resolver-rules=MAP * ~NOTFOUND"]}' "$executable" > "$config"
printf %s "$3" > "$2/guard.mjs"
export NODE_OPTIONS="${NODE_OPTIONS:+$NODE_OPTIONS }--import=file://$2/guard.mjs"
alone=
unshare -rn true 2>/dev/null && alone='unshare -rn'
$alone "$mmdc" --quiet --puppeteerConfigFile "$config" --input - --output - --outputFormat "$1"
"#;

fn mermaid(format: Format, room: &Room) -> Request {
    Request::new("bash").args(["-c", MERMAID, "render_mermaid", format.name(), &room.folder, GUARD])
}

/// A folder in the sandbox for the browser and its settings. A script that is killed cannot clear it up, so
/// it goes with this.
struct Room {
    place: Place,
    folder: String,
    background: TaskTracker,
    made: bool,
}

impl Room {
    fn new(call: &Call) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let place = call.place();
        let folder = place.scratch.join(format!("codegen-sandbox-mermaid-{}-{number}", std::process::id()));
        let folder = folder.to_string_lossy().into_owned();
        Self { place, folder, background: call.host().background.clone(), made: true }
    }

    fn cleared(mut self) {
        self.made = false;
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if !self.made {
            return;
        }
        let (sandbox, folder) = (Arc::clone(&self.place.sandbox), std::mem::take(&mut self.folder));
        self.background.spawn(async move {
            let mut request = Request::new("rm").args(["-rf", "--", &folder]);
            request.timeout = Duration::from_secs(DEFAULT_TIMEOUT);
            sandbox.spawn(request).await;
        });
    }
}

/// Whether a line says where in the program it failed, which helps nobody: `at parse`, `parse (https://x/y.mjs:1:2)`.
fn is_frame(line: &str) -> bool {
    let number = |text: Option<&str>| text.is_some_and(|text| text.parse::<u32>().is_ok());
    let place = line.strip_suffix(')').filter(|place| place.contains(" (") && place.contains("://"));
    let place = place.map(|place| place.rsplitn(3, ':'));
    line.starts_with("at ") || place.is_some_and(|mut parts| number(parts.next()) && number(parts.next()))
}

/// Warnings of a drawing that was made, or why there is none.
fn judge(tool: &str, response: &Response, timeout: u64) -> Result<String, ToolError> {
    let complaint = String::from_utf8_lossy(&response.stderr);
    let complaint: Vec<&str> = complaint.lines().filter(|line| !is_frame(line.trim())).collect();
    let complaint = complaint.join("\n");
    let complaint = complaint.trim();
    let complaint = &complaint[..complaint.floor_char_boundary(MAX_COMPLAINT)];
    match &response.outcome {
        Outcome::Exited(0) if response.omitted > 0 => Err(ToolError::with_hint(
            format!("{tool}: the picture is larger than {} MiB; nothing was written", MAX_OUTPUT >> 20),
            "draw less of it",
        )),
        Outcome::Exited(0) if response.stdout.is_empty() => {
            let why = if complaint.is_empty() && tool == RenderDot::SPEC.name {
                "begin `source` with `digraph { a -> b }` or `graph { a -- b }`"
            } else {
                complaint
            };
            Err(ToolError::caller(format!("{tool}: nothing was drawn; {why}")))
        }
        Outcome::Exited(0) if complaint.is_empty() => Ok(String::new()),
        Outcome::Exited(0) => Ok(format!("\n{complaint}")),
        Outcome::Exited(127) if tool == RenderMermaid::SPEC.name => Err(ToolError::with_hint(
            "render_mermaid needs the program `mmdc`, which is neither in node_modules/.bin nor on the PATH",
            "npm install @mermaid-js/mermaid-cli, and a Chromium for it (Debian: apt install chromium)",
        )),
        Outcome::NotFound { .. } | Outcome::Exited(127) => Err(ToolError::with_hint(
            "render_dot needs the program `dot` of Graphviz, which is not installed",
            "the package is called graphviz",
        )),
        Outcome::TimedOut => Err(ToolError::with_hint(
            format!("{tool}: timed out after {timeout}s; nothing was written"),
            "draw less of it or raise `timeout`",
        )),
        Outcome::Cancelled => Err(ToolError::Cancelled),
        outcome => Err(ToolError::caller(format!("{tool}: {outcome}\n{complaint}"))),
    }
}
