//! `rename_symbol`: a new name everywhere, or nowhere.

use super::{
    args::place_args,
    ask::{Spot, spot},
    identifiers, names,
    running::Running,
    shorthand, show, siblings, strangers, taken,
    trouble::{Trouble, twice},
    unseen,
};
use crate::{
    Call, Class, Group, Spec, Tool, ToolError,
    verify::{Touched, news},
};
use ::code::{Language, Problem, Reader};
use ::lsp::{Kind, TextEdit, UnknownEdit, apply, edits, locations, narrowed, to_uri};
use serde_json::json;
use std::{collections::BTreeMap, fmt::Write as _, path::PathBuf, time::Duration};
use workspace::{ContainedPath, PatchError, Version, unified_diff};

/// Lines of diff that are shown.
const DIFF: usize = 1000;
/// Characters of one of them that are shown.
const WIDE: usize = 1000;
/// How often a server is asked when files change meanwhile, and how long it is left alone in between.
const TRIES: usize = 3;
const PAUSE: Duration = Duration::from_millis(20);
/// Bytes of a file that can be changed.
const LARGEST: u64 = 64 << 20;

/// Renames a symbol.
pub(crate) struct RenameSymbol;

place_args! {
    /// What `rename_symbol` takes.
    Args {
        new_name: String,
        #[serde(default)]
        apply: Option<bool>,
    }
}

impl Tool for RenameSymbol {
    const SPEC: Spec = Spec {
        name: "rename_symbol",
        group: Group::Code,
        class: Class::Write,
        description: "Rename a symbol everywhere. Shows the diff; apply writes all files or none.",
        destructive: true,
        idempotent: false,
        open_world: false,
        long: false,
    };
    type Args = Args;
    type Output = String;

    async fn run(&self, call: &Call, args: Args) -> Result<String, ToolError> {
        twice!(rename(call, &args))
    }
}

/// A file that the server would change, as it was when that was known to be true of it.
pub(super) struct Found {
    pub(super) path: ContainedPath,
    pub(super) before: Vec<u8>,
    pub(super) edits: Vec<TextEdit>,
}

/// A file as it will be.
struct Renamed {
    path: ContainedPath,
    before: Vec<u8>,
    after: Vec<u8>,
    places: usize,
}

fn wrong(why: String) -> Trouble {
    ToolError::caller(format!("rename_symbol: {why}")).into()
}

async fn rename(call: &Call, args: &Args) -> Result<String, Trouble> {
    let mut last: Vec<Found> = Vec::new();
    for _ in 0..TRIES {
        let spot = spot(call, "rename_symbol", &args.at()).await?;
        let Answer { files, changed, note } = found(call, args, &spot).await?;
        // Some files are always told of as changed: that they are what they were before this question is as good.
        let same = |(file, was): (&Found, &Found)| file.path == was.path && file.before == was.before;
        let unchanged = files.len() == last.len() && files.iter().zip(&last).all(same);
        if !changed || unchanged {
            return Ok(carry_out(call, args, &spot.ready.server, files).await? + &note);
        }
        last = files;
        tokio::time::sleep(PAUSE).await;
    }
    Err(wrong("files it would change keep changing meanwhile; nothing was written, call again".to_owned()))
}

/// What a server would change.
struct Answer {
    files: Vec<Found>,
    /// Whether that may be about files as they no longer are.
    changed: bool,
    /// What is to be said about the rest, beginning with a line break.
    note: String,
}

async fn found(call: &Call, args: &Args, spot: &Spot) -> Result<Answer, Trouble> {
    let server = &spot.ready.server;
    identifiers::check(server.key.language, &args.new_name).map_err(wrong)?;
    // A server that knows nothing of a file leaves the old name there.
    let left = strangers::gather(call, spot).await?;
    let stand = server.stand();
    let mut params = origin(call, spot).await?;
    params["newName"] = json!(args.new_name);
    let answer = match server.ask(call, "textDocument/rename", params).await {
        // What rust-analyzer says of a module, whose file would have to be moved.
        Err(Trouble::Tool(error)) if error.to_string().contains("does not support rename capability") => {
            let why = format!("{} would move the module's file, which is not supported", server.name);
            return Err(ToolError::with_hint(
                format!("rename_symbol: {why}"),
                "move the file with Bash and change `mod` and the paths with Edit; nothing was written",
            )
            .into());
        }
        answer => answer?,
    };
    let all = edits(&answer).map_err(|UnknownEdit(what)| {
        wrong(format!("{} would also {what} files, which is not supported", server.name))
    })?;
    if all.is_empty() {
        return Err(wrong(format!("{} has nothing to rename at {}", server.name, spot.shown)));
    }
    let mut files: BTreeMap<PathBuf, Vec<TextEdit>> = BTreeMap::new();
    for (path, edits) in all {
        let Some(inside) = server.ours(&path) else {
            let why = format!(
                "rename_symbol: it would change {}, outside the workspace",
                show::name(server, &path)
            );
            let hint = "nothing was written; what is defined there cannot get another name from here";
            return Err(ToolError::with_hint(why, hint).into());
        };
        files.insert(inside, edits);
    }
    let encoding = server.client.encoding();
    let narrow = move |file: Found| {
        let edits = narrowed(&unseen::plain(&file.before), file.edits, encoding);
        Found { edits, ..file }
    };
    let files = call.blocking(move |call| Ok(read(call, files)?.into_iter().map(narrow).collect()));
    let mut files: Vec<Found> = files.await?;
    let mut note = String::new();
    if server.key.language == "node" {
        files = shorthand::only_asked(call, spot, files).await?;
        (files, note) = shorthand::complete(call, server, files, &args.new_name).await?;
    }
    note.push_str(&strangers::left_out(left));
    note.push_str(&unseen::complete(call, spot, &mut files, &args.new_name).await?);
    note.push_str(&defined(call, spot, &files).await?);
    let (files, standing) = taken::told(call, server, files, &args.new_name).await?;
    note.push_str(&standing);
    let mut known = Vec::new();
    for file in &files {
        known.extend(file.edits.iter().map(|edit| (file.path.relative().to_owned(), edit.range.start)));
    }
    note.push_str(&siblings::told(call, spot, known).await?);
    // The edits are for what the server knew when it was asked: whatever it was not told by then counts.
    let names: Vec<ContainedPath> = files.iter().map(|file| file.path.clone()).collect();
    let told = server.sync_telling(call, &names).await?;
    let same = |(file, text): (&Found, &String)| {
        let was = String::from_utf8_lossy(&file.before);
        was.strip_prefix('\u{feff}').unwrap_or(&was) == text && !told.changed.contains(file.path.relative())
    };
    let by_others = server.stand() != stand + told.changed.len() as u64;
    let changed = by_others || !files.iter().zip(&told.texts).all(same);
    Ok(Answer { files, changed, note })
}

/// Refuses what is defined where nothing is to be changed (a package that is installed in the workspace): most servers
/// do, others give the new name to those who use it. Says, beginning with a line break, that a server does not know.
async fn defined(call: &Call, spot: &Spot, files: &[Found]) -> Result<String, Trouble> {
    let server = &spot.ready.server;
    if server.client.kind() != Kind::Other {
        return Ok(String::new());
    }
    let leads = server.leads(call, spot.ready.file.relative(), spot.position).await?;
    let (Some(first), Some(word)) = (leads.first(), spot.word()) else {
        return Ok(format!(
            "\n{} does not know where it is defined; places that it does not know of keep the name",
            server.name
        ));
    };
    let edited = |at: &::lsp::Location| {
        let inside = server.ours(&at.path);
        let edits = files.iter().filter(|file| inside.as_deref() == Some(file.path.relative()));
        edits.flat_map(|file| &file.edits).any(|edit| edit.range.start == at.range.start)
    };
    if leads.iter().any(edited) {
        return Ok(String::new());
    }
    let inside = server.ours(&first.path);
    let own =
        call.blocking(move |call| Ok(inside.is_some_and(|file| !call.workspace.leaves_out(&file)))).await?;
    let shown = show::places(call, server, std::slice::from_ref(first), None).await;
    // Of an import under another name, that one alone is meant.
    let Some(shown) = shown.first().filter(|shown| !own && names::word(&shown.line, &word).is_some()) else {
        return Ok(String::new());
    };
    let why = format!("rename_symbol: {word} is defined in {}, which would keep it", shown.place);
    let hint = "nothing was written; what is defined there cannot get another name from here";
    Err(ToolError::with_hint(why, hint).into())
}

async fn carry_out(call: &Call, args: &Args, server: &Running, files: Vec<Found>) -> Result<String, Trouble> {
    let encoding = server.client.encoding();
    let (files, broken) = call
        .blocking(move |_| {
            let files =
                files.into_iter().map(|file| renamed(file, encoding)).collect::<Result<Vec<_>, _>>()?;
            let broken = files.iter().find_map(breaks);
            Ok((files, broken))
        })
        .await?;
    let new = &args.new_name;
    if files.iter().all(|file| file.before == file.after) {
        return Err(wrong(format!("it is called \"{new}\" already; nothing to change")));
    }
    if let Some(broken) = broken {
        let word = if identifiers::reserved(server.key.language, new) { ", a reserved word" } else { "" };
        return Err(wrong(format!("with \"{new}\"{word}, {broken}; nothing was written")));
    }
    if args.apply == Some(true) {
        let touched = |file: &Renamed| Touched {
            path: file.path.clone(),
            before: Some(file.before.clone()),
            after: Some(file.after.as_slice().into()),
        };
        let touched: Vec<Touched> = files.iter().map(touched).collect();
        let new = new.clone();
        let mut text = call.blocking(move |call| write(call, &new, files)).await?;
        text.push_str(&news(call, &touched).await);
        return Ok(text);
    }
    let mut text = format!("Rename → \"{new}\" would touch {} file(s):\n", files.len());
    let mut room = DIFF;
    for file in &files {
        let diff = unified_diff(&file.path.to_string(), &file.before, &file.after, room.max(1));
        room = room.saturating_sub(diff.lines().count());
        for line in diff.split_inclusive('\n') {
            let end = line.char_indices().nth(WIDE).map_or(line.len(), |(at, _)| at);
            text.push_str(&line[..end]);
            text.push_str(if end < line.len() { "…\n" } else { "" });
        }
    }
    Ok(text)
}

/// How a file would no longer parse.
fn breaks(file: &Renamed) -> Option<String> {
    let language = Language::of_path(file.path.relative())?;
    let mut reader = Reader::default();
    let was = reader.parse(language, &file.before)?.problems();
    let now = reader.parse(language, &file.after)?.problems();
    if now.len() <= was.len() {
        return None;
    }
    let new =
        |problem: &&Problem| was.iter().all(|was| was.line != problem.line || was.reason != problem.reason);
    let problem = now.iter().find(new).or(now.first())?;
    Some(format!("{} would not parse: line {}: {}", file.path, problem.line, problem.reason))
}

/// Where to ask: gopls renames all of a generic type's method only at its declaration.
pub(super) async fn origin(call: &Call, spot: &Spot) -> Result<serde_json::Value, Trouble> {
    let server = &spot.ready.server;
    if server.client.kind() != Kind::Gopls {
        return Ok(spot.params());
    }
    let found = locations(&server.ask(call, "textDocument/definition", spot.params()).await?);
    Ok(match found.as_slice() {
        [one] if server.ours(&one.path).is_some() => {
            json!({"textDocument": {"uri": to_uri(&one.path)}, "position": one.range.start})
        }
        _ => spot.params(),
    })
}

/// Reads the files that would change.
pub(super) fn read(call: &Call, files: BTreeMap<PathBuf, Vec<TextEdit>>) -> Result<Vec<Found>, ToolError> {
    let one = |(file, edits): (PathBuf, Vec<TextEdit>)| {
        let path = call.workspace.resolve(&file)?;
        let before = call.workspace.read_bytes(&path, LARGEST)?;
        if std::str::from_utf8(&before).is_err() {
            let why = format!("rename_symbol: {path} is not UTF-8; convert it first");
            return Err(ToolError::caller(why));
        }
        Ok(Found { path, before, edits })
    };
    files.into_iter().map(one).collect()
}

fn renamed(file: Found, encoding: ::lsp::Encoding) -> Result<Renamed, ToolError> {
    /// A byte order mark, which servers do not see.
    const MARK: &[u8] = b"\xef\xbb\xbf";
    let Found { path, before, edits } = file;
    let (mark, plain) = match before.strip_prefix(MARK) {
        Some(plain) => (MARK, plain),
        None => (&b""[..], before.as_slice()),
    };
    let changed = apply(&String::from_utf8_lossy(plain), &edits, encoding).ok_or_else(|| {
        ToolError::caller(format!("rename_symbol: the server's edits of {path} contradict each other"))
    })?;
    let after = [mark, changed.text.as_bytes()].concat();
    Ok(Renamed { path, before, after, places: changed.places })
}

/// Writes all of it, or nothing; what the session had read, it has read as it is now.
fn write(call: &Call, new: &str, files: Vec<Renamed>) -> Result<String, ToolError> {
    let changes: Vec<(ContainedPath, Version, Vec<u8>)> =
        files.iter().map(|file| (file.path.clone(), Version::of(&file.before), file.after.clone())).collect();
    let report = call.workspace.replace_files(&changes).map_err(|error| match error {
        PatchError::Stale { path, .. } => ToolError::with_hint(
            format!("rename_symbol: {path} changed meanwhile"),
            "nothing was written; call again",
        ),
        error => ToolError::with_hint(format!("rename_symbol: {error}"), "nothing was written"),
    })?;
    report.files.iter().for_each(|file| call.changed(&file.path));
    let places: usize = files.iter().map(|file| file.places).sum();
    let mut text = format!("Rename → \"{new}\" changed {places} place(s) in {} file(s):", report.files.len());
    call.session.ledgers.with(&call.workspace, |ledger| {
        for file in report.files {
            let _ = write!(text, "\nM {}", file.path);
            let seen = ledger.version(&file.path);
            if let (Some((version, bytes)), Some(before)) = (file.now, file.before)
                && seen == Some(Version::of(&before))
            {
                ledger.record(&file.path, version, Some(bytes));
            }
        }
    });
    Ok(text)
}
