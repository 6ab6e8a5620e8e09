//! Files that a server for TypeScript does not know of: it knows those that the `tsconfig.json` of an open file names
//! and what they import. Who uses a symbol from elsewhere (tests beside the sources, another package, plain
//! JavaScript) is unknown to it until it is shown; so whoever has the symbol's name is.

use super::{
    ask::Spot,
    constraints, macros, names,
    pool::Key,
    running::{InUse, Running},
    show::places as shown_places,
    told::source_of,
    trouble::Trouble,
    workspace_symbols::files_matching,
};
use crate::Call;
use ::code::{Depth, Language, Reader, Symbol, outline};
use ::lsp::{Kind, Lines, Location, Position, locations};
use serde_json::json;
use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::{Arc, MutexGuard, PoisonError},
};

/// Files that are shown at once.
const SHOWN: usize = 48;
/// Files that are looked into for the names that a symbol goes by.
const READ: usize = 16;
/// Other names may be found in what was shown, and lead on.
const ROUNDS: usize = 3;

/// Places that were asked about, and how many changes the server had been told of by then.
#[derive(Default)]
pub(super) struct Gathered {
    stand: u64,
    asked: HashMap<(PathBuf, Position), Shown>,
    /// The files of the project that was last asked for.
    members: Arc<HashSet<PathBuf>>,
}

fn limited(server: &Running) -> bool {
    matches!(server.client.kind(), Kind::TypeScript | Kind::NativeTypeScript)
}

/// What has a symbol's name and was not looked at, or in vain.
#[derive(Clone, Default)]
pub(super) struct Left {
    /// Files that were too many.
    pub(super) files: usize,
    /// Places of which the server cannot tell what they mean.
    pub(super) places: Vec<Location>,
}

/// Where the symbol at a spot is used, and what is not known about it.
pub(super) async fn references(call: &Call, spot: &Spot) -> Result<(Vec<Location>, Left), Trouble> {
    let server = &spot.ready.server;
    let mut params = spot.params();
    params["context"] = json!({"includeDeclaration": true});
    let ask = async || {
        let answer = server.ask(call, "textDocument/references", params.clone()).await?;
        Ok::<_, Trouble>(locations(&answer))
    };
    let mut found = ask().await?;
    let passes_over = matches!(server.client.kind(), Kind::Gopls | Kind::RustAnalyzer);
    if !(limited(server) || passes_over) || found.is_empty() {
        return Ok((found, Left::default()));
    }
    let place = (spot.ready.path.clone(), spot.position);
    let stand = server.stand();
    if let Some((left, more)) = server.asked(&place, stand) {
        found.extend(more);
        return Ok((found, left));
    }
    if passes_over {
        let (more, left) = match server.client.kind() {
            Kind::Gopls => constraints::elsewhere(call, spot, &found).await?,
            _ => macros::elsewhere(call, spot, &found).await?,
        };
        server.has_asked(place, stand, Shown { more: more.clone(), left: left.clone(), ..Shown::default() });
        found.extend(more);
        return Ok((found, left));
    }
    let (mut known, mut all) = (HashSet::new(), Shown::default());
    for _ in 0..ROUNDS {
        let (at, encoding) = (ours(server, &found), server.client.encoding());
        let seen = known.clone();
        let look = move |call: &Call| {
            let (words, modules) = called(call, &at, encoding);
            let new: HashSet<String> =
                words.union(&modules).filter(|it| !seen.contains(*it)).cloned().collect();
            let patterns = words.iter().filter(|it| new.contains(*it)).map(|word| names::any_word(&[word]));
            let modules = modules
                .iter()
                .filter(|it| new.contains(*it))
                .map(|module| format!(r#"['"/]{}(\.\w+)?['"]"#, regex::escape(module)));
            let pattern: Vec<String> = patterns.chain(modules).collect();
            let files = if pattern.is_empty() { Vec::new() } else { files_matching(call, pattern.join("|")) };
            Ok((files, new))
        };
        let (files, new) = call.blocking(look).await?;
        known.extend(new);
        let hit: HashSet<PathBuf> = found.iter().filter_map(|at| server.ours(&at.path)).collect();
        let files = files.into_iter().filter(|file| !hit.contains(file)).collect();
        let shown = show(call, server, spot.ready.file.relative(), files).await?;
        all.left.files += shown.left.files;
        if shown.files.is_empty() {
            break;
        }
        all.files.extend(shown.files);
        found = ask().await?;
    }
    let left = all.left.clone();
    server.has_asked(place, stand, all);
    Ok((found, left))
}

/// Shows a server who may use the symbol at a spot; says how many files it was not shown.
pub(super) async fn gather(call: &Call, spot: &Spot) -> Result<usize, Trouble> {
    if limited(&spot.ready.server) { Ok(references(call, spot).await?.1.files) } else { Ok(0) }
}

/// Calls of the symbol at a spot in files that are none of these, each with who makes it; and what is not known. A server for TypeScript looks for callers in one project, gopls in what is built under one set of conditions.
pub(super) async fn calls(
    call: &Call,
    spot: &Spot,
    known: HashSet<PathBuf>,
) -> Result<(Vec<(String, Location)>, Left), Trouble> {
    let server = &spot.ready.server;
    if !limited(server) && server.client.kind() != Kind::Gopls {
        return Ok(Default::default());
    }
    let (mut found, left) = references(call, spot).await?;
    found.retain(|at| !known.contains(&at.path));
    let found: Vec<(PathBuf, Location)> =
        found.into_iter().filter_map(|at| Some((server.ours(&at.path)?, at))).collect();
    let encoding = server.client.encoding();
    let look = move |call: &Call| {
        let mut files: HashMap<PathBuf, Vec<Location>> = HashMap::new();
        for (file, at) in found {
            files.entry(file).or_default().push(at);
        }
        let mut all = Vec::new();
        for (file, places) in files {
            let text = source_of(&call.workspace, &file, u64::MAX);
            let Some((text, language)) = text.zip(Language::of_path(&file)) else { continue };
            let symbols = outline(language, text.as_bytes(), Depth::Everything);
            let lines = Lines::of(&text);
            all.extend(places.into_iter().filter_map(|at| {
                let (start, end) = (lines.byte(at.range.start, encoding), lines.byte(at.range.end, encoding));
                let called = is_called(language, text.get(..start)?, text.get(end..)?);
                Some((around(&file, &symbols, start).filter(|_| called)?, at))
            }));
        }
        all.sort_by(|(_, a), (_, b)| (&a.path, a.range.start).cmp(&(&b.path, b.range.start)));
        Ok(all)
    };
    Ok((call.blocking(look).await?, left))
}

/// Whether what stands between two texts is called there.
fn is_called(language: Language, before: &str, behind: &str) -> bool {
    if language != Language::Go {
        let behind = behind.trim_start().trim_start_matches("?.");
        return behind.starts_with(['(', '`', '<']) && !before.ends_with('<');
    }
    // Types may stand in between.
    let mut depth = 0_usize;
    let inner = |c: char| {
        depth += usize::from(c == '[');
        let inner = depth > 0;
        depth -= usize::from(c == ']').min(depth);
        inner
    };
    behind.trim_start_matches(inner).starts_with('(')
}

/// The function around a place, else the file; nothing where something is declared.
fn around(file: &Path, symbols: &[Symbol], at: usize) -> Option<String> {
    let inner = symbols.iter().rev().find(|it| it.kind.is_callable() && it.full.contains(&at));
    let caller = match inner {
        Some(inner) => format!("{} {}", inner.kind.name(), inner.name),
        None => format!("module {}", file.file_name().unwrap_or_default().to_string_lossy()),
    };
    (!symbols.iter().any(|it| it.name_at.start == at)).then_some(caller)
}

/// What became of files that a server may not know.
#[derive(Default)]
pub(super) struct Shown {
    /// Those that it was shown, as it calls them.
    files: Vec<PathBuf>,
    /// What is not known for want of showing it.
    pub(super) left: Left,
    /// What it told when it was asked elsewhere.
    more: Vec<Location>,
}

/// Shows a server those of its files that it does not know of, the nearest to `near` first; and makes it look again at
/// what it was shown before.
pub(super) async fn show(
    call: &Call,
    server: &InUse,
    near: &Path,
    files: Vec<PathBuf>,
) -> Result<Shown, Trouble> {
    if !limited(server) || files.is_empty() {
        return Ok(Shown::default());
    }
    let key = server.key.clone();
    let own = move |call: &Call| Ok(of_server(call, &key, files.into_iter()));
    let mut files = call.blocking(own).await?;
    if files.is_empty() {
        return Ok(Shown::default());
    }
    let stand = server.stand();
    let members = match server.members(near, stand) {
        Some(members) => members,
        None => {
            let near = server.theirs(near);
            let members = server.in_time(call, server.client.project_files(&near)).await?;
            let members = Arc::new(members.iter().filter_map(|path| server.ours(path)).collect());
            server.at_stand(stand).members = Arc::clone(&members);
            members
        }
    };
    files.retain(|file| !members.contains(file));
    files.sort_by_key(|file| std::cmp::Reverse(shared(file, near)));
    let (open, mut files): (Vec<PathBuf>, Vec<PathBuf>) =
        files.into_iter().map(|file| server.theirs(&file)).partition(|path| server.client.is_open(path));
    // It knows these, but what they import now only once their project was asked about.
    for path in open.iter().take(SHOWN) {
        server.in_time(call, server.client.renew_project(path)).await?;
    }
    let left = files.len().saturating_sub(SHOWN);
    files.truncate(SHOWN);
    let resolved: Vec<_> =
        files.iter().filter_map(|path| call.workspace.resolve(server.ours(path)?).ok()).collect();
    if !resolved.is_empty() {
        server.sync(call, &resolved).await?;
        server.settle(call).await?;
    }
    let files = open
        .into_iter()
        .take(SHOWN)
        .chain(resolved.iter().map(|file| server.theirs(file.relative())))
        .collect();
    let left = Left { files: left, places: Vec::new() };
    Ok(Shown { files, left, more: Vec::new() })
}

/// How many folders two files share.
pub(super) fn shared(file: &Path, other: &Path) -> usize {
    file.components().zip(other.components()).take_while(|(a, b)| a == b).count()
}

/// Those of some files that a server serves.
pub(super) fn of_server(call: &Call, key: &Key, files: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let all = call.host().languages.all();
    let Some(detector) = all.iter().copied().find(|it| it.language() == key.language) else {
        return Vec::new();
    };
    let mut folders: HashMap<PathBuf, bool> = HashMap::new();
    let mut own = |file: &PathBuf| {
        let folder = file.parent().unwrap_or(Path::new("")).to_owned();
        detector.owns(file)
            && *folders.entry(folder).or_insert_with(|| Key::of(call, detector, file).root == key.root)
    };
    files.filter(|file| own(file)).collect()
}

/// Places of the workspace, by file.
fn ours(server: &Running, found: &[Location]) -> HashMap<PathBuf, Vec<::lsp::Range>> {
    let mut all: HashMap<PathBuf, Vec<::lsp::Range>> = HashMap::new();
    for at in found {
        if let Some(file) = server.ours(&at.path)
            && (all.len() < READ || all.contains_key(&file))
        {
            all.entry(file).or_default().push(at.range);
        }
    }
    all
}

/// The names that a symbol goes by, and those of modules that it is the default of.
fn called(
    call: &Call,
    found: &HashMap<PathBuf, Vec<::lsp::Range>>,
    encoding: ::lsp::Encoding,
) -> (HashSet<String>, HashSet<String>) {
    let (mut words, mut modules) = (HashSet::new(), HashSet::new());
    for (file, ranges) in found {
        let Some(text) = source_of(&call.workspace, file, u64::MAX) else { continue };
        let lines = Lines::of(&text);
        let mut seen = HashSet::new();
        for range in ranges {
            let (start, end) = (lines.byte(range.start, encoding), lines.byte(range.end, encoding));
            let word = text.get(start..end).unwrap_or_default().trim_matches(['"', '\'', '`']);
            if names::is_name(word) && word != "default" {
                words.insert(word.to_owned());
            }
            // A line may hold thousands of uses.
            if !seen.insert(range.start.line) {
                continue;
            }
            let line = lines.line(range.start.line as usize);
            if ["default", "module.exports", "export ="].iter().any(|it| line.contains(it)) {
                modules.extend(names::module(file).map(str::to_owned));
            }
        }
    }
    (words, modules)
}

impl Running {
    /// What was left out when this place was asked about, if nothing has changed since.
    fn asked(&self, place: &(PathBuf, Position), stand: u64) -> Option<(Left, Vec<Location>)> {
        let gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = gathered.asked.get(place).filter(|_| gathered.stand == stand)?;
        // What was closed meanwhile, it has forgotten.
        let open = asked.files.iter().all(|file| self.client.is_open(file));
        open.then(|| (asked.left.clone(), asked.more.clone()))
    }

    fn has_asked(&self, place: (PathBuf, Position), stand: u64, shown: Shown) {
        self.at_stand(stand).asked.insert(place, shown);
    }

    /// The files of the project that a file belongs to, if they are known.
    fn members(&self, file: &Path, stand: u64) -> Option<Arc<HashSet<PathBuf>>> {
        let members = Arc::clone(&self.at_stand(stand).members);
        members.contains(file).then_some(members)
    }

    /// What is known since the last change.
    fn at_stand(&self, stand: u64) -> MutexGuard<'_, Gathered> {
        let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        if gathered.stand != stand {
            *gathered = Gathered { stand, ..Gathered::default() };
        }
        gathered
    }
}

/// What to say when a server for TypeScript does not know where a symbol comes from that is imported at one of these
/// places, beginning with a line break: it knows no more than this file then.
pub(super) async fn unresolved(call: &Call, spot: &Spot, found: &[Location]) -> Result<String, Trouble> {
    let (server, here) = (&spot.ready.server, &spot.ready.path);
    if !limited(server) || found.is_empty() || found.iter().any(|at| at.path != *here) {
        return Ok(String::new());
    }
    let (text, lines, encoding) = (&spot.ready.text, spot.ready.lines(), server.client.encoding());
    let byte = |at: Position| lines.byte(at, encoding);
    // A name among others in braces.
    let listed = |at: &&Location| {
        let (before, behind) = (&text[..byte(at.range.start)], &text[byte(at.range.end)..]);
        before.trim_end().ends_with(['{', ',', 'e']) && behind.trim_start().starts_with([',', '}'])
    };
    let listed: Vec<usize> = found.iter().filter(listed).map(|at| byte(at.range.start)).collect();
    drop(lines);
    let Some(language) = Language::of_path(spot.ready.file.relative()).filter(|_| !listed.is_empty()) else {
        return Ok(String::new());
    };
    let text = text.clone();
    let look = move |_: &Call| {
        let mut reader = Reader::default();
        let all = reader.parse(language, text.as_bytes()).map(|parsed| parsed.borrowed()).unwrap_or_default();
        let module = all.into_iter().find(|it| listed.contains(&it.name.start)).and_then(|it| it.module);
        Ok(module.map(|at| text[at].to_owned()))
    };
    Ok(call.blocking(look).await?.map_or_else(String::new, |module| {
        format!("\n{} does not know what {module} exports: uses in other files are not known", server.name)
    }))
}

/// What to say about what is not known, beginning with a line break.
pub(super) async fn said(call: &Call, server: &Running, mut left: Left) -> String {
    /// Places that are named.
    const NAMED: usize = 5;
    let mut text = String::new();
    if !left.places.is_empty() {
        let (all, more) = (left.places.len(), if left.places.len() > NAMED { ", …" } else { "" });
        left.places.truncate(NAMED);
        let named = shown_places(call, server, &left.places, None).await;
        let named: Vec<String> = named.into_iter().map(|shown| shown.place).collect();
        text = format!(
            "\n{all} more place(s) have the name, and {} cannot tell what they mean (other build tags): {}{more}",
            server.name,
            named.join(", ")
        );
    }
    text + &left_out(left.files)
}

/// What to say about files that were not shown.
pub(super) fn left_out(left: usize) -> String {
    match left {
        0 => String::new(),
        left => format!("\n{left} more files have the name and were not looked at; Grep finds them"),
    }
}
