//! From a tool's arguments to a server that is ready and a place in a file it knows.

use super::{
    names,
    pool::{Key, Servers},
    running::InUse,
    show::Known,
    trouble::Trouble,
    workspace_symbols::Hit,
};
use crate::{Call, ToolError};
use ::code::{Language, Reader};
use ::lsp::{Lines, Position, locations, outline, to_uri};
use ::verify::Detector;
use serde_json::{Value, json};
use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};
use workspace::{ContainedPath, Kind};

/// Symbols that are listed when one was not found.
const LISTED: usize = 30;

/// A place as agents give it.
#[derive(Debug, Clone, Default)]
pub(super) struct At<'a> {
    pub(super) file: Option<&'a str>,
    pub(super) line: Option<u32>,
    pub(super) col: Option<u32>,
    pub(super) symbol: Option<&'a str>,
}

/// A server that knows the workspace as it is now, and a file of it.
pub(super) struct Ready {
    pub(super) server: InUse,
    pub(super) file: ContainedPath,
    /// The file as the server calls it.
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// A place in it.
pub(super) struct Spot {
    pub(super) ready: Ready,
    pub(super) position: Position,
    /// `file:line:col`, as agents see it.
    pub(super) shown: String,
}

/// A project: its server, its language, a file of it.
pub(super) type Project = (Key, &'static dyn Detector, ContainedPath);

/// The detector that owns a file.
pub(super) fn owner(
    call: &Call,
    tool: &str,
    file: &ContainedPath,
) -> Result<&'static dyn Detector, ToolError> {
    let languages = &call.host().languages;
    languages.all().iter().copied().find(|detector| detector.owns(file.relative())).ok_or_else(|| {
        let known: Vec<&str> = languages.all().iter().map(|detector| detector.language()).collect();
        ToolError::caller(format!("{tool}: no language server for {file}; served: {}", known.join(", ")))
    })
}

/// A server for this file, ready to be asked about it.
pub(super) async fn ready(call: &Call, tool: &'static str, file: &str) -> Result<Ready, Trouble> {
    let file = call.workspace.resolve(file).map_err(ToolError::from)?;
    let wrong = |why: String| Trouble::from(ToolError::caller(format!("{tool}: {why}")));
    let kind = call.workspace.kind(&file);
    if kind == Some(Kind::Folder) {
        return Err(wrong(format!("{file} is a folder; pass a file")));
    }
    let detector = owner(call, tool, &file)?;
    if kind != Some(Kind::File) {
        return Err(wrong(format!("no such file: {file}")));
    }
    let key = Key::of(call, detector, file.relative());
    let server = up(call, tool, &key, detector).await?;
    let text = fresh(call, &server, &file).await?;
    if text.contains('\0') {
        return Err(wrong(format!("{file} is a binary file")));
    }
    let path = server.theirs(file.relative());
    Ok(Ready { server, file, path, text })
}

/// A server that is up; it may still be loading its project.
pub(super) async fn up(
    call: &Call,
    tool: &'static str,
    key: &Key,
    detector: &'static dyn Detector,
) -> Result<InUse, Trouble> {
    Ok(Servers::get(call, tool, key, detector).await?.hold())
}

/// Makes a server know the workspace as it is now and waits until it has loaded its project; gives a file's text.
/// The file is shown first where that can be: what is asked about it then can be made ready together with the project.
pub(super) async fn fresh(call: &Call, server: &InUse, file: &ContainedPath) -> Result<String, Trouble> {
    let shown = server.client.takes_files();
    let mut texts = server.sync(call, std::slice::from_ref(file)).await?;
    server.settle_about(call, file).await?;
    if !shown {
        texts = server.sync(call, std::slice::from_ref(file)).await?;
        server.settle(call).await?;
    }
    Ok(texts.into_iter().next().unwrap_or_default())
}

impl Ready {
    pub(super) fn document(&self) -> Value {
        json!({"uri": to_uri(&self.path)})
    }

    /// The file and its text.
    pub(super) fn known(&self) -> Known<'_> {
        (self.file.relative(), &self.text)
    }

    pub(super) fn lines(&self) -> Lines<'_> {
        Lines::of(&self.text)
    }

    fn at(self, position: Position) -> Spot {
        let (line, col) = self.lines().shown(position, self.server.client.encoding());
        Spot { shown: format!("{}:{line}:{col}", self.file), position, ready: self }
    }
}

impl Spot {
    /// Parameters of a request about it.
    pub(super) fn params(&self) -> Value {
        json!({"textDocument": self.ready.document(), "position": self.position})
    }

    /// The name that stands there.
    pub(super) fn word(&self) -> Option<String> {
        let at = self.ready.lines().byte(self.position, self.ready.server.client.encoding());
        names::around(&self.ready.text, at).map(str::to_owned)
    }
}

/// The place that `at` means.
pub(super) async fn spot(call: &Call, tool: &'static str, at: &At<'_>) -> Result<Spot, Trouble> {
    let wrong = |why: String| Trouble::from(ToolError::caller(format!("{tool}: {why}")));
    let (symbol, behind) = at.symbol.map(names::placed).unzip();
    let at = &At { symbol, line: at.line.or(behind.flatten()), ..at.clone() };
    if at.col.is_none() && at.symbol.is_some_and(|symbol| names::parts(symbol).is_empty()) {
        return Err(wrong(
            "`symbol` holds no name; pass one like `Foo` or `T.foo`, or line and col".to_owned(),
        ));
    }
    let Some(file) = at.file else {
        let Some(symbol) = at.symbol else {
            return Err(wrong("pass file_path, line and col, or symbol".to_owned()));
        };
        return named(call, tool, symbol, at.line).await;
    };
    let ready = ready(call, tool, file).await?;
    let encoding = ready.server.client.encoding();
    let Some(line) = at.line else {
        let Some(symbol) = at.symbol else {
            return Err(wrong("pass line and col, or symbol".to_owned()));
        };
        return in_file(call, tool, ready, symbol).await;
    };
    let lines = ready.lines();
    if line == 0 || line as usize > lines.count() {
        return Err(wrong(format!("no line {line}: {} has lines 1 to {}", ready.file, lines.count())));
    }
    let text = lines.line(line as usize - 1);
    let col = match (at.col, at.symbol) {
        (Some(col), _) => col,
        (None, Some(symbol)) => {
            let name = names::last(symbol);
            let found = names::word(text, name);
            let byte = found.ok_or_else(|| wrong(format!("no {name} on line {line}: {}", text.trim())))?;
            u32::try_from(text[..byte].chars().count()).unwrap_or(u32::MAX - 1) + 1
        }
        (None, None) => return Err(wrong("pass col as well, or symbol".to_owned())),
    };
    let length = text.chars().count();
    if col == 0 || col as usize > length + 1 {
        let (file, last, text) = (&ready.file, length + 1, super::show::short(text.trim()));
        return Err(wrong(format!("no col {col}: line {line} of {file} has cols 1 to {last}: {text}")));
    }
    let position = lines.at(line, col, encoding);
    drop(lines);
    Ok(ready.at(position))
}

/// A symbol of a file by its name: one that is defined there, else one that is used there.
async fn in_file(call: &Call, tool: &str, ready: Ready, symbol: &str) -> Result<Spot, Trouble> {
    let params = json!({"textDocument": ready.document()});
    let all = names::flat(&outline(&ready.server.ask(call, "textDocument/documentSymbol", params).await?));
    let found: Vec<&names::Named> = all.iter().filter(|named| named.is(symbol)).collect();
    match found.as_slice() {
        [one] => {
            let position = names::place(&ready.text, one, ready.server.client.encoding());
            return Ok(ready.at(position));
        }
        [] => {}
        several => {
            let encoding = ready.server.client.encoding();
            let places =
                several.iter().map(|one| (ready.path.clone(), names::place(&ready.text, one, encoding)));
            if let Some(position) = the_same(call, &ready, &places.collect::<Vec<_>>()).await? {
                return Ok(ready.at(position));
            }
            let list: Vec<String> =
                several.iter().map(|one| format!("{} line {}", one.path(), one.line())).collect();
            let why = format!("{tool}: {symbol} is ambiguous in {}: {}", ready.file, list.join(", "));
            return Err(ToolError::with_hint(why, "pass line as well").into());
        }
    }
    if let Some(position) = used(call, &ready, names::last(symbol)).await? {
        return Ok(ready.at(position));
    }
    let known: Vec<String> = all.iter().take(LISTED).map(names::Named::path).collect();
    let more = if all.len() > LISTED { ", …" } else { "" };
    let has = if known.is_empty() { "no symbols".to_owned() } else { known.join(", ") };
    let why = format!("{tool}: no {symbol} in {}; it has {has}{more}", ready.file);
    Err(ToolError::caller(why).into())
}

/// The first of several declarations when all of them are of one symbol to the server: a type and its `impl` blocks,
/// overloads, an interface in parts.
async fn the_same(
    call: &Call,
    ready: &Ready,
    places: &[(PathBuf, Position)],
) -> Result<Option<Position>, Trouble> {
    let Some((path, first)) = places.first().filter(|_| places.len() <= LISTED) else { return Ok(None) };
    let params = json!({
        "textDocument": {"uri": to_uri(path)}, "position": first, "context": {"includeDeclaration": true},
    });
    let uses = locations(&ready.server.ask(call, "textDocument/references", params).await?);
    let known = |(path, at): &(PathBuf, Position)| {
        at == first || uses.iter().any(|use_| use_.path == *path && use_.range.start == *at)
    };
    Ok(places.iter().all(known).then_some(*first))
}

/// Where a name is used in a file: the first place whose definition the server knows. Comments and texts, where
/// many names stand first, count only when there is nothing else.
async fn used(call: &Call, ready: &Ready, name: &str) -> Result<Option<Position>, Trouble> {
    /// Places that are tried.
    const TRIED: usize = 8;
    let (text, word) = (ready.text.clone(), name.to_owned());
    let places = match Language::of_path(ready.file.relative()) {
        None => Vec::new(),
        Some(language) => {
            let look = move |_: &Call| {
                let mut reader = Reader::default();
                let parsed = reader.parse(language, text.as_bytes());
                Ok(parsed.map(|parsed| parsed.uses(&word, TRIED)).unwrap_or_default())
            };
            call.blocking(look).await?
        }
    };
    let lines = ready.lines();
    let encoding = ready.server.client.encoding();
    let places: Vec<Position> = places.into_iter().map(|byte| lines.position(byte, encoding)).collect();
    if places.len() > 1 {
        for position in &places {
            let params = json!({"textDocument": ready.document(), "position": position});
            if !locations(&ready.server.ask(call, "textDocument/definition", params).await?).is_empty() {
                return Ok(Some(*position));
            }
        }
    }
    let anywhere = || names::word(&ready.text, name).map(|byte| lines.position(byte, encoding));
    Ok(places.first().copied().or_else(anywhere))
}

/// A symbol of the workspace by its name alone.
async fn named(call: &Call, tool: &'static str, symbol: &str, line: Option<u32>) -> Result<Spot, Trouble> {
    let (mut found, unasked) = super::workspace_symbols::exactly(call, tool, symbol).await?;
    let name = names::last(symbol);
    found.retain(|hit| line.is_none_or(|line| hit.position.line + 1 == line));
    let found = originals(call, tool, name, found).await?;
    if let [first, others @ ..] = found.as_slice()
        && others.iter().all(|other| other.file == first.file)
    {
        let ready = ready(call, tool, &first.file).await?;
        let encoding = ready.server.client.encoding();
        let place = |hit: &Hit| (ready.path.clone(), names::near(&ready.text, hit.position, name, encoding));
        let places: Vec<_> = found.iter().map(place).collect();
        let one = if others.is_empty() { Some(places[0].1) } else { the_same(call, &ready, &places).await? };
        if let Some(position) = one {
            return Ok(ready.at(position));
        }
    }
    match found.as_slice() {
        [] => {
            let hint = "pass file_path and line, or look with workspace_symbols";
            let why = match unasked.as_slice() {
                [] => format!("{tool}: no symbol {symbol} in this workspace"),
                some => format!("{tool}: no symbol {symbol} where it was looked for; {}", left_out(some)),
            };
            Err(ToolError::with_hint(why, hint).into())
        }
        several => {
            let list: Vec<&str> = several.iter().take(LISTED).map(|one| one.shown.as_str()).collect();
            let why = format!("{tool}: {symbol} is ambiguous:\n{}", list.join("\n"));
            Err(ToolError::with_hint(
                why,
                "pass file_path as well, with line or a qualified name where that is not enough",
            )
            .into())
        }
    }
}

/// Those of several symbols that are no mere imports of another one of them.
async fn originals(
    call: &Call,
    tool: &'static str,
    name: &str,
    mut found: Vec<Hit>,
) -> Result<Vec<Hit>, Trouble> {
    /// More than that are ambiguous anyway.
    const MOST: usize = 8;
    if !(2..=MOST).contains(&found.len()) {
        return Ok(found);
    }
    let places: Vec<(PathBuf, u32)> =
        found.iter().map(|hit| (PathBuf::from(&hit.file), hit.position.line)).collect();
    let mut own = Vec::new();
    for hit in &found {
        let ready = ready(call, tool, &hit.file).await?;
        let position = names::near(&ready.text, hit.position, name, ready.server.client.encoding());
        let params = json!({"textDocument": ready.document(), "position": position});
        let leads = locations(&ready.server.ask(call, "textDocument/definition", params).await?);
        let to = |at: &::lsp::Location| Some((ready.server.ours(&at.path)?, at.range.start.line));
        let leads: Vec<(PathBuf, u32)> = leads.iter().filter_map(to).collect();
        let here = (PathBuf::from(&hit.file), position.line);
        own.push(leads.contains(&here) || !leads.iter().any(|lead| places.contains(lead)));
    }
    if own.contains(&true) {
        let mut own = own.into_iter();
        found.retain(|_| own.next() == Some(true));
    }
    Ok(found)
}

/// Projects that were not asked, in words.
pub(super) fn left_out(unasked: &[Key]) -> String {
    /// Projects that are named.
    const NAMED: usize = 5;
    let names: Vec<&str> = unasked.iter().take(NAMED).map(|key| key.root.as_str()).collect();
    let more = if unasked.len() > NAMED { ", …" } else { "" };
    format!("{} more project(s) were not asked: {}{more}", unasked.len(), names.join(", "))
}

/// The projects that these files belong to, with one file of each; and those that are too many to be asked.
pub(super) fn projects(call: &Call, files: Vec<PathBuf>) -> (Vec<Project>, Vec<Key>) {
    /// Servers that are asked at once.
    const SERVERS: usize = 8;
    let languages = &call.host().languages;
    let mut found: Vec<Project> = Vec::new();
    let mut unasked: Vec<Key> = Vec::new();
    let mut seen: HashSet<(PathBuf, &str)> = HashSet::new();
    for file in files {
        let owner = languages.all().iter().copied().find(|detector| detector.owns(&file));
        let Some(detector) = owner else { continue };
        let folder = file.parent().unwrap_or(Path::new("")).to_owned();
        if !seen.insert((folder, detector.language())) {
            continue;
        }
        let key = Key::of(call, detector, &file);
        if found.iter().any(|(known, ..)| *known == key) || unasked.contains(&key) {
            continue;
        }
        match call.workspace.resolve(&file) {
            Ok(_) if found.len() >= SERVERS => unasked.push(key),
            Ok(path) => found.push((key, detector, path)),
            Err(_) => {}
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    unasked.sort();
    (found, unasked)
}
