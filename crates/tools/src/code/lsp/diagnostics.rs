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
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::PoisonError,
};
use workspace::ContainedPath;

/// Diagnostics that are shown.
const SHOWN: usize = 100;
/// Bytes of one message.
const MESSAGE: usize = 1000;
/// Files that use a changed one and are looked at with it.
const USERS: usize = 8;

/// Tells what is wrong with a file.
pub(crate) struct Diagnostics;

read_tool!(
    Diagnostics,
    File,
    "diagnostics",
    "Errors and warnings of a file from its language server, as of now.",
    diagnostics
);

async fn diagnostics(call: &Call, args: &File) -> Result<String, Trouble> {
    let ready = ready(call, "diagnostics", &args.file_path).await?;
    let server = &ready.server;
    let mut found = server.in_time(call, server.client.diagnose(&ready.path)).await?;
    server.said(&ready.path, &found);
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

impl Running {
    /// Remembers what it said about a file.
    fn said(&self, path: &Path, found: &[Diagnostic]) {
        let mut all = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(path.to_owned(), found.to_vec());
    }

    /// What it last said about a file.
    fn known(&self, path: &Path) -> Option<Vec<Diagnostic>> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned()
    }
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

    /// Errors that a change brought to the file and to those that use it, a line each; `None` when the server
    /// cannot tell.
    pub(crate) async fn news(
        &self,
        call: &Call,
        file: &ContainedPath,
        before: Option<&[u8]>,
    ) -> Option<Vec<String>> {
        let server = &self.0;
        let users = call.blocking({
            let (file, language) = (file.clone(), server.key.language);
            move |call| Ok(users(call, &file, language))
        });
        let mut files = vec![file.clone()];
        files.extend(users.await.ok()?);
        let paths: Vec<PathBuf> = files.iter().map(|file| server.theirs(file.relative())).collect();
        self.look_back(call, &files, &paths, before).await?;
        let texts = server.sync(call, &files).await.ok()?;
        server.settle(call).await.ok()?;
        let found = join_all(paths.iter().map(|path| server.client.diagnose(path))).await;
        let mut news = Vec::new();
        for (((file, path), text), found) in files.iter().zip(&paths).zip(&texts).zip(found) {
            let found = found.ok()?;
            let mut old = server.known(path).unwrap_or_default();
            let lines = Lines::of(text);
            for one in found.iter().filter(|one| one.severity == Severity::Error) {
                let same = |was: &Diagnostic| was.message == one.message && was.code == one.code;
                match old.iter().position(same) {
                    Some(at) => drop(old.swap_remove(at)),
                    None => news.push(line(server, &file.to_string(), &lines, one)),
                }
            }
            server.said(path, &found);
        }
        Some(news)
    }

    /// What the server said before the change, where that is not known: it has not been told of it yet.
    async fn look_back(
        &self,
        call: &Call,
        files: &[ContainedPath],
        paths: &[PathBuf],
        before: Option<&[u8]>,
    ) -> Option<()> {
        let server = &self.0;
        let client = &server.client;
        let unknown: Vec<usize> = (0..files.len()).filter(|n| server.known(&paths[*n]).is_none()).collect();
        if unknown.is_empty() {
            return Some(());
        }
        if let (Some(before), Some(path)) = (before, paths.first()) {
            let text = String::from_utf8_lossy(before);
            client.show(path, text.strip_prefix('\u{feff}').unwrap_or(&text));
        }
        for n in unknown {
            if n == 0 && before.is_none() {
                server.said(&paths[0], &[]);
                continue;
            }
            if n > 0 {
                let file = files[n].clone();
                let read = move |call: &Call| super::told::source(&call.workspace, &file);
                client.show(&paths[n], &call.blocking(read).await.ok()?);
            }
            server.said(&paths[n], &client.diagnose(&paths[n]).await.ok()?);
        }
        Some(())
    }
}

/// Sources of the same language that name the file's module, the nearest first.
fn users(call: &Call, file: &ContainedPath, language: &str) -> Vec<ContainedPath> {
    let relative = file.relative();
    let stem = relative.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let folder = || relative.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    // The file of a folder is known by the folder's name, a Go file always.
    let named_by_folder = language == "go" || ["mod", "index", "__init__", "lib", "main"].contains(&stem);
    let name = if named_by_folder { folder().unwrap_or(stem) } else { stem };
    if name.len() < 2 {
        return Vec::new();
    }
    let mut found: Vec<ContainedPath> = files_with(call, name)
        .into_iter()
        .filter(|other| other != relative)
        .filter_map(|other| call.workspace.resolve(other).ok())
        .filter(|other| owner(call, "", other).is_ok_and(|detector| detector.language() == language))
        .collect();
    let shared = |other: &ContainedPath| {
        let same = |pair: &(std::path::Component<'_>, std::path::Component<'_>)| pair.0 == pair.1;
        other.relative().components().zip(relative.components()).take_while(same).count()
    };
    found.sort_by_key(|other| std::cmp::Reverse(shared(other)));
    found.truncate(USERS);
    found
}
