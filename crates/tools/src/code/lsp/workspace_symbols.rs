//! `workspace_symbols`: symbols of every project by name.

use super::{
    args::read_tool,
    ask::{fresh, left_out, projects, ready, up},
    names,
    pool::Key,
    show, strangers,
    told::source_of,
    trouble::{Trouble, twice},
};
use crate::{Call, Class, Group, Spec, Tool, ToolError};
use ::code::{Depth, Language, Reader, Symbol};
use ::lsp::{Location, Position, outline, symbols};
use futures_util::future::join_all;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::{collections::HashSet, fmt::Write as _, ops::ControlFlow, path::PathBuf, sync::atomic::AtomicBool};
use workspace::{GlobQuery, GrepQuery, OutputMode};

/// Symbols that are shown.
const SHOWN: usize = 50;
/// Files that are looked at.
const FILES: usize = 50_000;
/// Files that are looked into for a name with a path before it.
const INTO: usize = 12;
/// Files that are parsed to see whether they declare a name.
const PARSED: usize = 2000;

/// Finds symbols by name.
pub(crate) struct WorkspaceSymbols;

/// What `workspace_symbols` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    query: String,
    #[serde(default)]
    offset: Option<u32>,
}

read_tool!(WorkspaceSymbols, Args, "workspace_symbols", "Symbols of all projects by name.", listed);

/// A symbol, and where.
pub(super) struct Hit {
    pub(super) file: String,
    pub(super) position: Position,
    /// `file:line:col  kind name  source line`.
    pub(super) shown: String,
    path: Vec<String>,
}

async fn listed(call: &Call, args: &Args) -> Result<String, Trouble> {
    let query = args.query.trim();
    if query.is_empty() {
        return Err(ToolError::caller("workspace_symbols: `query` is empty").into());
    }
    let name = names::last(query).to_owned();
    let look = move |call: &Call| {
        let having = format!("(?i){}", regex::escape(&name));
        Ok((all_files(call), files_matching(call, having)))
    };
    let (files, having) = call.blocking(look).await?;
    let Answers { mut hits, cuts, problems, unasked } =
        ask_all(call, "workspace_symbols", query, files, having).await?;
    // Those that are called so come before those that only resemble it.
    let wanted = names::parts(query);
    hits.sort_by_key(|hit| !names::ends_with(&hit.path, &wanted));
    let page = show::Page::of(&mut hits, args.offset, SHOWN);
    let mut text = format!("Found {} symbol(s) for \"{query}\"", page.total());
    text.push_str(if hits.is_empty() { "" } else { ":" });
    for (number, hit) in page.numbers().zip(&hits) {
        let _ = write!(text, "\n{number}. {}", hit.shown);
    }
    page.more(&mut text);
    for problem in cuts.into_iter().chain(problems) {
        let _ = write!(text, "\n{problem}");
    }
    if !unasked.is_empty() {
        let _ = write!(text, "\n{}", left_out(&unasked));
    }
    Ok(text)
}

/// The symbols that are called `symbol`, and the projects that could not be asked.
pub(super) async fn exactly(
    call: &Call,
    tool: &'static str,
    symbol: &str,
) -> Result<(Vec<Hit>, Vec<Key>), Trouble> {
    let name = names::last(symbol).to_owned();
    let word = name.clone();
    let files = call.blocking(move |call| Ok(files_with(call, &[&word]))).await?;
    let Answers { mut hits, cuts, problems, unasked } =
        ask_all(call, tool, &name, files.clone(), files.clone()).await?;
    // What a link outside leads to is named, but cannot be asked about.
    hits.retain(|hit| call.workspace.resolve(&hit.file).is_ok());
    let wanted = names::parts(symbol);
    let named = |hit: &&Hit| hit.path.last() == wanted.last() && !names::ends_with(&hit.path, &wanted);
    let files_of = |hits: &[&Hit]| {
        let mut files: Vec<PathBuf> = hits.iter().map(|hit| PathBuf::from(&hit.file)).collect();
        files.sort();
        files.dedup();
        files
    };
    let others: Vec<&Hit> = hits.iter().filter(named).collect();
    // Not every server tells what a symbol is in; the file does.
    let vague: Vec<&Hit> = others.iter().copied().filter(|hit| hit.path.len() < wanted.len()).collect();
    let (vague, others) = (files_of(&vague), files_of(&others));
    hits.retain(|hit| names::ends_with(&hit.path, &wanted));
    let vague = declaring_first(call, &wanted, vague).await?.0;
    hits.extend(within(call, tool, &wanted, vague).await?);
    if hits.is_empty() && wanted.len() > 1 {
        let others = if others.is_empty() { files.clone() } else { others };
        let others = declaring_first(call, &wanted, others).await?.0;
        hits = within(call, tool, &wanted, others).await?;
    }
    // A list that was cut may lack the one that is meant, or another of its name.
    if !cuts.is_empty() && hits.iter().all(|hit| hit.file == hits[0].file) {
        let known = hits.first().map(|hit| PathBuf::from(&hit.file));
        let files = files.into_iter().filter(|file| Some(file) != known.as_ref()).collect();
        let (mut files, declaring) = declaring_first(call, &wanted, files).await?;
        files.truncate(declaring);
        hits.extend(within(call, tool, &wanted, files).await?);
    }
    hits.dedup_by(|a, b| a.shown == b.shown);
    match problems.into_iter().next() {
        Some(problem) if hits.is_empty() => Err(ToolError::caller(problem).into()),
        _ => Ok((hits, unasked)),
    }
}

/// These files, those that declare what a path of names means before the others; and how many those are. Servers are
/// asked about few files, and many may have the name.
async fn declaring_first(
    call: &Call,
    wanted: &[String],
    mut files: Vec<PathBuf>,
) -> Result<(Vec<PathBuf>, usize), Trouble> {
    let wanted = wanted.to_vec();
    let look = move |call: &Call| {
        let mut reader = Reader::default();
        let mut parsed = 0;
        let mut declares = |file: &PathBuf| {
            let language = Language::of_path(file)?;
            let text = source_of(&call.workspace, file, u64::MAX)?;
            let path = file.to_string_lossy();
            let stands = |part: &String| text.contains(part.as_str()) || path.contains(part.as_str());
            // Of what it is in, the nearest stands there as well, or is the file's module.
            if !wanted.iter().rev().take(2).all(stands) || parsed >= PARSED {
                return None;
            }
            parsed += 1;
            let package = names::package(file, &text);
            let symbols = reader.parse(language, text.as_bytes())?.outline(Depth::Items);
            let meant = |symbol: &Symbol| {
                Some(&symbol.name) == wanted.last()
                    && names::fits(&names::parts(&symbol.path()), &wanted, file, package)
            };
            symbols.iter().any(meant).then_some(())
        };
        let declaring: HashSet<PathBuf> =
            files.iter().filter(|file| declares(file).is_some()).cloned().collect();
        files.sort_by_key(|file| !declaring.contains(file));
        Ok((files, declaring.len()))
    };
    Ok(call.blocking(look).await?)
}

/// The symbols of these files that a path of names means.
async fn within(
    call: &Call,
    tool: &'static str,
    wanted: &[String],
    files: Vec<PathBuf>,
) -> Result<Vec<Hit>, Trouble> {
    let known = projects(call, files.clone()).0;
    let mut hits = Vec::new();
    let served = |file: &&PathBuf| known.iter().any(|(_, detector, _)| detector.owns(file));
    for file in files.iter().filter(served).take(INTO) {
        let ready = ready(call, tool, &file.to_string_lossy()).await?;
        let params = json!({"textDocument": ready.document()});
        let all =
            names::flat(&outline(&ready.server.ask(call, "textDocument/documentSymbol", params).await?));
        let package = names::package(file, &ready.text);
        for named in all.iter().filter(|named| names::fits(&named.parts, wanted, file, package)) {
            let position = names::place(&ready.text, named, ready.server.client.encoding());
            let lines = ready.lines();
            let (line, col) = lines.shown(position, ready.server.client.encoding());
            let text = show::short(lines.line(position.line as usize).trim());
            let shown = format!("{}:{line}:{col}  {} {}  {text}", ready.file, named.kind.word(), named.name);
            hits.push(Hit {
                file: file.to_string_lossy().into_owned(),
                position,
                shown,
                path: named.parts.clone(),
            });
        }
    }
    Ok(hits)
}

fn all_files(call: &Call) -> Vec<PathBuf> {
    let Ok(path) = call.workspace.resolve(".") else { return Vec::new() };
    let query = GlobQuery { pattern: "**/*".to_owned(), path, limit: FILES, fresh: false };
    call.workspace.glob(&query, &AtomicBool::new(false)).map(|reply| reply.files).unwrap_or_default()
}

/// Files that hold one of these as a whole word: only their servers can know a symbol of that name.
pub(super) fn files_with(call: &Call, words: &[&str]) -> Vec<PathBuf> {
    files_matching(call, names::any_word(words))
}

/// Files that hold what a pattern matches.
pub(super) fn files_matching(call: &Call, pattern: String) -> Vec<PathBuf> {
    let Ok(path) = call.workspace.resolve(".") else { return Vec::new() };
    let mut query = GrepQuery::new(pattern, path);
    query.mode = OutputMode::FilesWithMatches;
    query.head_limit = FILES;
    let mut found = Vec::new();
    let mut take = |hits: workspace::FileHits| {
        found.push(hits.path.into_path_buf());
        ControlFlow::Continue(())
    };
    // A search that fails has found what it has found.
    let _ = call.workspace.grep(&query, &AtomicBool::new(false), &mut take);
    found
}

/// What servers know.
struct Answers {
    hits: Vec<Hit>,
    /// Whose list may go on.
    cuts: Vec<String>,
    /// Why some gave no answer.
    problems: Vec<String>,
    /// Whom nobody asked.
    unasked: Vec<Key>,
}

/// Asks the servers of these files, all at once; those `having` the name are known to them.
async fn ask_all(
    call: &Call,
    tool: &'static str,
    query: &str,
    files: Vec<PathBuf>,
    having: Vec<PathBuf>,
) -> Result<Answers, Trouble> {
    let (projects, unasked) = call.blocking(move |call| Ok(projects(call, files))).await?;
    let asked = projects.into_iter().map(async |(key, detector, file)| {
        let server = up(call, tool, &key, detector).await?;
        // Some know no project before a file of it is open.
        fresh(call, &server, &file).await?;
        let left = strangers::show(call, &server, file.relative(), having.clone()).await?.left.files;
        let mut found = symbols(&server.ask(call, "workspace/symbol", json!({"query": query})).await?);
        let cut = server.client.kind().most_symbols().filter(|most| found.len() >= *most);
        let cut = cut
            .map(|most| format!("{} tells {most} symbols at most: a longer query tells others", server.name));
        found.retain(|symbol| server.ours(&symbol.location.path).is_some());
        let places: Vec<Location> = found.iter().map(|symbol| symbol.location.clone()).collect();
        let shown = show::places(call, &server, &places, None).await;
        let hit = |(symbol, shown): (::lsp::Symbol, show::Shown)| {
            let path =
                names::parts(&symbol.container).into_iter().chain(names::own_parts(&symbol.name)).collect();
            Hit {
                file: show::name(&server, &symbol.location.path),
                position: symbol.location.range.start,
                shown: format!("{}  {} {}  {}", shown.place, symbol.kind.word(), symbol.name, shown.line),
                path,
            }
        };
        let cut = cut.or_else(|| (left > 0).then(|| strangers::left_out(left).trim_start().to_owned()));
        Ok::<_, Trouble>((found.into_iter().zip(shown).map(hit).collect::<Vec<Hit>>(), cut))
    });
    let (mut hits, mut cuts, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    for answer in join_all(asked).await {
        match answer {
            Ok((found, cut)) => {
                hits.extend(found);
                cuts.extend(cut);
            }
            Err(gone @ Trouble::Gone(_)) => return Err(gone),
            Err(Trouble::Tool(ToolError::Cancelled)) => return Err(ToolError::Cancelled.into()),
            Err(Trouble::Tool(error)) => problems.push(error.to_string()),
        }
    }
    Ok(Answers { hits, cuts, problems, unasked })
}
