//! `diagnostics`: what is wrong with a file; and what an edit broke, from a server that is up.

use super::{
    args::{File, read_tool},
    ask::{owner, ready},
    pool::Key,
    running::{InUse, Running},
    show,
    trouble::{Trouble, twice},
    workspace_symbols::files_with,
};
use crate::{Call, Class, Group, Spec, Tool, ToolError};
use ::lsp::{Diagnostic, Lines, Severity};
use futures_util::future::join_all;
use std::{
    collections::{HashMap, HashSet},
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::{
        PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};
use workspace::{ContainedPath, GlobQuery, Version};

/// Diagnostics that are shown.
const SHOWN: usize = 100;
/// Bytes of one message.
const MESSAGE: usize = 1000;
/// Files that use a changed one and are looked at with it, and those of a Go package.
const USERS: usize = 8;
const PACKAGE: usize = 32;
/// Files of a folder that are looked through.
const FOLDER: usize = 1000;

/// Tells what is wrong with a file.
pub(crate) struct Diagnostics;

read_tool!(
    Diagnostics,
    File,
    "diagnostics",
    "Errors and warnings of a file, from its language server.",
    diagnostics
);

async fn diagnostics(call: &Call, args: &File) -> Result<String, Trouble> {
    let ready = ready(call, "diagnostics", &args.file_path).await?;
    let server = &ready.server;
    let mut found = server.in_time(call, server.client.diagnose(&ready.path)).await?;
    server.said(&ready.path, &ready.text, &found);
    found.sort_by_key(|one| (one.range.start, one.severity));
    if found.is_empty() {
        return Ok(format!("no problems in {} ({})", ready.file, server.name));
    }
    let mut text = format!("{} problem(s) in {} ({}):", found.len(), ready.file, server.name);
    let lines = ready.lines();
    for one in found.iter().take(SHOWN) {
        let _ = write!(text, "\n{}", line(server, &ready.file.to_string(), &lines, one));
    }
    show::more(found.len(), SHOWN, &mut text);
    Ok(text)
}

fn line(server: &Running, file: &str, lines: &Lines<'_>, one: &Diagnostic) -> String {
    let (line, col) = lines.shown(one.range.start, server.client.encoding());
    let code = if one.code.is_empty() { String::new() } else { format!(" [{}]", one.code) };
    let message = ::verify::bound(&one.message, MESSAGE);
    format!("{file}:{line}:{col}: {}: {message}{code}", one.severity.word())
}

/// What a server said about a file, and about which world.
pub(super) struct Said {
    /// The file's text.
    text: Version,
    /// How many changes the server had been told of.
    stand: u64,
    found: Vec<Diagnostic>,
}

impl Running {
    /// Remembers what it said about a file with this text.
    fn said(&self, path: &Path, text: &str, found: &[Diagnostic]) {
        let said = Said { text: Version::of(text.as_bytes()), stand: self.stand(), found: found.to_vec() };
        self.said.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), said);
    }

    /// How many changes it was told of.
    pub(super) fn stand(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// What it said about a file when it had been told of this many changes; about this text, if one is given.
    fn known(&self, path: &Path, stand: u64, text: Option<&str>) -> Option<Vec<Diagnostic>> {
        let all = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |said: &&Said| text.is_none_or(|text| said.text == Version::of(text.as_bytes()));
        all.get(path).filter(|said| said.stand == stand).filter(same).map(|said| said.found.clone())
    }
}

/// A text as servers are shown it.
fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned()
}

/// A file that was just changed, and what it was.
#[derive(Clone, Copy)]
pub(crate) struct Was<'a> {
    pub(crate) file: &'a ContainedPath,
    /// Nothing for a new one.
    pub(crate) before: Option<&'a [u8]>,
    /// It was deleted.
    pub(crate) gone: bool,
}

/// What changes brought.
pub(crate) struct News {
    /// Errors, a line each.
    pub(crate) errors: Vec<String>,
    /// Files that may use what was changed and were not looked at.
    pub(crate) unchecked: usize,
}

/// A server that is up for a file that was just changed.
pub(crate) struct Warm(InUse);

impl Warm {
    /// The one for a file, if it is up. Never starts any.
    pub(crate) fn of(call: &Call, file: &ContainedPath) -> Option<Self> {
        let detector = owner(call, "", file).ok()?;
        let key = Key::of(&call.workspace, detector, file.relative());
        call.host().servers.warm(&key).map(|running| Self(running.hold()))
    }

    /// Its name.
    pub(crate) fn name(&self) -> &'static str {
        self.0.name
    }

    /// Whether it is the same server.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.0.key == other.0.key
    }

    /// Errors that changes brought to the files and to those that use them; `None` when the server cannot tell.
    pub(crate) async fn news(&self, call: &Call, changed: &[Was<'_>]) -> Option<News> {
        let server = &self.0;
        let (users, unchecked) = call
            .blocking({
                let changed: Vec<ContainedPath> = changed.iter().map(|was| was.file.clone()).collect();
                let language = server.key.language;
                move |call| Ok(users(call, &changed, language))
            })
            .await
            .ok()?;
        let mut files: Vec<ContainedPath> =
            changed.iter().filter(|was| !was.gone).map(|was| was.file.clone()).collect();
        files.extend(users);
        let paths: Vec<PathBuf> = files.iter().map(|file| server.theirs(file.relative())).collect();
        let (old, texts) = self.look_back(call, changed, &files, &paths).await?;
        let found = join_all(paths.iter().map(|path| server.client.diagnose(path))).await;
        let mut errors = Vec::new();
        for ((((file, path), text), mut old), found) in
            files.iter().zip(&paths).zip(&texts).zip(old).zip(found)
        {
            let found = found.ok()?;
            let lines = Lines::of(text);
            for one in found.iter().filter(|one| one.severity == Severity::Error) {
                let same = |was: &Diagnostic| was.message == one.message && was.code == one.code;
                match old.iter().position(same) {
                    Some(at) => drop(old.swap_remove(at)),
                    None => errors.push(line(server, &file.to_string(), &lines, one)),
                }
            }
            server.said(path, text, &found);
        }
        Some(News { errors, unchecked })
    }

    /// What the server says of the files without the changes, and their texts with them, which it then knows. What it
    /// said once counts only if nothing else has changed since.
    async fn look_back(
        &self,
        call: &Call,
        changed: &[Was<'_>],
        files: &[ContainedPath],
        paths: &[PathBuf],
    ) -> Option<(Vec<Vec<Diagnostic>>, Vec<String>)> {
        let server = &self.0;
        let client = &server.client;
        let before: HashMap<PathBuf, Option<String>> =
            changed.iter().map(|was| (server.theirs(was.file.relative()), was.before.map(plain))).collect();
        let stand = server.stand();
        let as_said = |(path, text): (&PathBuf, &Option<String>)| {
            text.as_ref().is_none_or(|text| server.known(path, stand, Some(text)).is_some())
        };
        let mut trusted = before.iter().all(as_said);
        // A new or deleted file was not there, or was, as long as the server has not been told.
        let only_texts = changed.iter().all(|was| was.before.is_some() && !was.gone);
        let mut texts = None;
        if only_texts {
            texts = Some(server.sync(call, files).await.ok()?);
            server.settle(call).await.ok()?;
            trusted &= server.stand() <= stand + changed.len() as u64;
        }
        let known = |path: &PathBuf| match before.get(path) {
            Some(None) => Some(Vec::new()),
            _ => server.known(path, stand, None).filter(|_| trusted),
        };
        let mut old: Vec<Option<Vec<Diagnostic>>> = paths.iter().map(known).collect();
        if old.iter().any(Option::is_none) {
            for (path, text) in &before {
                if let Some(text) = text {
                    client.show(path, text);
                }
            }
            for n in (0..paths.len()).filter(|n| old[*n].is_none()).collect::<Vec<_>>() {
                if texts.is_none() && !before.contains_key(&paths[n]) {
                    let file = files[n].clone();
                    let read = move |call: &Call| super::told::source(&call.workspace, &file);
                    client.show(&paths[n], &call.blocking(read).await.ok()?);
                }
                old[n] = Some(client.diagnose(&paths[n]).await.ok()?);
            }
            for (path, text) in paths.iter().zip(texts.iter().flatten()) {
                client.show(path, text);
            }
        }
        if texts.is_none() {
            texts = Some(server.sync(call, files).await.ok()?);
        }
        server.settle(call).await.ok()?;
        Some((old.into_iter().map(Option::unwrap_or_default).collect(), texts?))
    }
}

/// Sources of the same language that may use one of these files, the nearest first, and how many more there are.
fn users(call: &Call, changed: &[ContainedPath], language: &str) -> (Vec<ContainedPath>, usize) {
    let mut seen: HashSet<PathBuf> = changed.iter().map(|file| file.relative().to_owned()).collect();
    let mut found = Vec::new();
    for file in changed {
        let mut of_one =
            if language == "go" { go_users(call, file.relative()) } else { named_by(call, file) };
        let shared = |other: &PathBuf| {
            let same = |pair: &(std::path::Component<'_>, std::path::Component<'_>)| pair.0 == pair.1;
            other.components().zip(file.relative().components()).take_while(same).count()
        };
        of_one.sort_by_key(|other| std::cmp::Reverse(shared(other)));
        of_one.retain(|other| seen.insert(other.clone()));
        let resolved = of_one.into_iter().filter_map(|other| call.workspace.resolve(other).ok());
        found
            .extend(resolved.filter(|other| {
                owner(call, "", other).is_ok_and(|detector| detector.language() == language)
            }));
    }
    // A package is checked as one.
    let most = if language == "go" { PACKAGE } else { USERS };
    let unchecked = found.len().saturating_sub(most);
    found.truncate(most);
    (found, unchecked)
}

/// Files that name a file's module.
fn named_by(call: &Call, file: &ContainedPath) -> Vec<PathBuf> {
    let relative = file.relative();
    let stem = relative.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let folder = || relative.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    // The file of a folder is known by the folder's name.
    let of_folder = ["mod", "index", "__init__", "lib", "main"].contains(&stem);
    let name = if of_folder { folder().unwrap_or(stem) } else { stem };
    if name.len() < 2 { Vec::new() } else { files_with(call, name) }
}

/// The other files of a Go file's package, and those that import it.
fn go_users(call: &Call, file: &Path) -> Vec<PathBuf> {
    let folder = file.parent().unwrap_or(Path::new(""));
    let beside = |path: &Path| -> Option<Vec<PathBuf>> {
        let path = call.workspace.resolve(if path == Path::new("") { Path::new(".") } else { path }).ok()?;
        let query = GlobQuery { pattern: "*.go".to_owned(), path, limit: FOLDER, fresh: false };
        Some(call.workspace.glob(&query, &AtomicBool::new(false)).ok()?.files)
    };
    let mut found = beside(folder).unwrap_or_default();
    found.retain(|other| other.parent() == Some(folder));
    let module = folder.ancestors().find_map(|root| {
        let manifest = call.workspace.resolve(root.join("go.mod")).ok()?;
        let text = call.workspace.read_bytes(&manifest, 1 << 20).ok()?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let name = text.lines().find_map(|line| line.trim().strip_prefix("module "))?;
        let name = name.split("//").next()?.trim().trim_matches('"').to_owned();
        Some((name, folder.strip_prefix(root).ok()?.to_string_lossy().into_owned()))
    });
    if let Some((module, within)) = module {
        let path = if within.is_empty() { module } else { format!("{module}/{within}") };
        found.extend(files_with(call, &format!("\"{path}\"")));
    }
    found
}
