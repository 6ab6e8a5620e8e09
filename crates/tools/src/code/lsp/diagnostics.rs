//! `diagnostics`: what is wrong with a file; and what an edit broke, from a server that is up.

use super::{
    args::{File, read_tool},
    ask::{owner, ready},
    past::Then,
    pool::Key,
    running::{InUse, Running},
    show,
    trouble::{Trouble, twice},
    unlinked::UNLINKED,
    users::{Changed, gone, users},
};
use crate::{Call, Class, Group, Spec, Tool, ToolError};
use ::code::{Language, Reader};
use ::lsp::{Diagnostic, Lines, Severity, locations, to_uri};
use futures_util::future::join_all;
use serde_json::json;
use std::{
    collections::HashMap,
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, atomic::Ordering},
};
use workspace::{ContainedPath, Version};

/// Diagnostics that are shown.
const SHOWN: usize = 100;
/// Bytes of one message.
const MESSAGE: usize = 1000;
/// The part of what a server may take for an answer that an edit waits for it: 5 of 45 seconds.
const FEEDBACK: u32 = 9;

/// Tells what is wrong with a file.
pub(crate) struct Diagnostics;

read_tool!(Diagnostics, File, "diagnostics", "Errors and warnings of a file.", diagnostics);

async fn diagnostics(call: &Call, args: &File) -> Result<String, Trouble> {
    let ready = ready(call, "diagnostics", &args.file_path).await?;
    let server = &ready.server;
    let present = server.present().await;
    let mut found = server.in_time(call, server.client.diagnose(&ready.path)).await?;
    drop(present);
    server.said(&ready.path, &ready.text, &found);
    found.sort_by_key(|one| (one.range.start, one.severity));
    if found.is_empty() {
        let blind = server.client.kind().blind_to();
        let blind =
            blind.map(|what| format!(" does not check {what}: run_typecheck does")).unwrap_or_default();
        let trouble = server.client.trouble().map(|why| format!("\n{} says: {why}", server.name));
        let trouble = trouble.unwrap_or_default();
        return Ok(format!("no problems in {} ({}{blind}){trouble}", ready.file, server.name));
    }
    let page = show::Page::of(&mut found, None, SHOWN);
    let mut text = format!("{} problem(s) in {} ({}):", page.total(), ready.file, server.name);
    let lines = ready.lines();
    for one in &found {
        let _ = write!(text, "\n{}", line(server, &ready.file.to_string(), &lines, one));
    }
    if page.left() > 0 {
        let _ = write!(text, "\n… {} more of {}; run_typecheck lists all", page.left(), page.total());
    }
    Ok(text)
}

fn line(server: &Running, file: &str, lines: &Lines<'_>, one: &Diagnostic) -> String {
    let (line, col) = lines.shown(one.range.start, server.client.encoding());
    let code = if one.code.is_empty() { String::new() } else { format!(" [{}]", one.code) };
    let said = match one.code.as_str() {
        UNLINKED => "no `mod` names this file: nothing in it is checked until one does".to_owned(),
        _ => server.within(&one.message),
    };
    let message = ::verify::bound(&said, MESSAGE);
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
    /// Nothing for one that was deleted.
    pub(crate) after: Option<&'a Arc<[u8]>>,
}

/// What changes brought.
pub(crate) struct News {
    /// Errors, a line each.
    pub(crate) errors: Vec<String>,
    /// Files that may use what was changed and were not looked at.
    pub(crate) unchecked: usize,
    /// That the server did not answer.
    pub(crate) silent: Option<String>,
}

/// A server that is up for a file that was just changed.
pub(crate) struct Warm(InUse);

impl Warm {
    /// The one for a file, if it is up. Never starts any.
    pub(crate) fn of(call: &Call, file: &ContainedPath) -> Option<Self> {
        let detector = owner(call, "", file).ok()?;
        let key = Key::of(call, detector, file.relative());
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

    /// What it does not look for.
    pub(crate) fn blind_to(&self) -> Option<&'static str> {
        self.0.client.kind().blind_to()
    }

    /// Errors that changes brought to the files and to those that use them. An edit does not wait for long: a server
    /// that takes longer is left alone until it has answered something, and ended when it does not.
    pub(crate) async fn news(&self, call: &Call, changed: &[Was<'_>]) -> Option<News> {
        let answer = call.host().settings.limits.server_answer;
        let limit = answer / FEEDBACK;
        let silent = match tokio::time::timeout(limit, self.ask(call, changed)).await {
            Ok(None) if self.0.client.gone() => format!("{} ended before it answered", self.0.name),
            Ok(news) => return news,
            Err(_) => {
                self.0.doubt(call, answer);
                format!("{} did not answer within {:.1} s", self.0.name, limit.as_secs_f32())
            }
        };
        Some(News { errors: Vec::new(), unchecked: 0, silent: Some(silent) })
    }

    /// The same without a limit; `None` when the server cannot tell.
    async fn ask(&self, call: &Call, changed: &[Was<'_>]) -> Option<News> {
        let server = &self.0;
        let (users, unchecked, gone) = call
            .blocking({
                let one = |was: &Was<'_>| Changed {
                    file: was.file.clone(),
                    before: was.before.map(Into::into),
                    after: was.after.map(Arc::clone),
                };
                let changed: Vec<Changed> = changed.iter().map(one).collect();
                let language = server.key.language;
                let blind = self.blind_to().is_some();
                move |call| {
                    let (users, unchecked) = users(call, &changed, language);
                    let gone: Vec<String> = changed.iter().filter(|_| blind).flat_map(gone).collect();
                    Ok((users, unchecked, gone))
                }
            })
            .await
            .ok()?;
        let mut files: Vec<ContainedPath> =
            changed.iter().filter(|was| was.after.is_some()).map(|was| was.file.clone()).collect();
        files.extend(users);
        let paths: Vec<PathBuf> = files.iter().map(|file| server.theirs(file.relative())).collect();
        let (old, texts) = self.before(call, changed, &files, &paths).await?;
        let present = server.present().await;
        let found = join_all(paths.iter().map(|path| server.client.diagnose(path))).await;
        drop(present);
        let mut errors = Vec::new();
        for ((((file, path), text), mut old), found) in
            files.iter().zip(&paths).zip(&texts).zip(old).zip(found)
        {
            let found = found.ok()?;
            let lines = Lines::of(text);
            let counts = |one: &&Diagnostic| one.severity == Severity::Error || one.code == UNLINKED;
            for one in found.iter().filter(counts) {
                let same = |was: &Diagnostic| was.message == one.message && was.code == one.code;
                match old.iter().position(same) {
                    Some(at) => drop(old.swap_remove(at)),
                    None => errors.push(line(server, &file.to_string(), &lines, one)),
                }
            }
            server.said(path, text, &found);
        }
        if !gone.is_empty() {
            let texts: Vec<_> = files.into_iter().zip(texts).collect();
            self.missed(call, &gone, texts, &mut errors).await;
        }
        Some(News { errors, unchecked, silent: None })
    }

    /// Adds the uses of names that are gone and lead nowhere now, for a server that passes over some of them.
    async fn missed(
        &self,
        call: &Call,
        gone: &[String],
        texts: Vec<(ContainedPath, String)>,
        errors: &mut Vec<String>,
    ) {
        /// Uses of a name in a file that are looked at.
        const USES: usize = 4;
        let server = &self.0;
        let (names, encoding) = (gone.to_vec(), server.client.encoding());
        let look = move |_: &Call| {
            let mut reader = Reader::default();
            let mut found = Vec::new();
            for (file, text) in &texts {
                let language = Language::of_path(file.relative());
                let parsed = language.and_then(|language| reader.parse(language, text.as_bytes()));
                let Some(parsed) = parsed else { continue };
                let lines = Lines::of(text);
                for name in &names {
                    let at = |byte| lines.position(byte, encoding);
                    let uses = parsed.uses(name, USES).into_iter().map(at);
                    found.extend(uses.map(|at| (file.clone(), name.clone(), at, lines.shown(at, encoding))));
                }
            }
            Ok(found)
        };
        for (file, name, position, (line, col)) in call.blocking(look).await.unwrap_or_default() {
            let place = format!("{file}:{line}:");
            let params = json!({
                "textDocument": {"uri": to_uri(&server.theirs(file.relative()))}, "position": position,
            });
            let leads = server.client.request("textDocument/definition", params).await;
            let told = errors.iter().any(|error| error.starts_with(&place));
            if !told && leads.is_ok_and(|leads| locations(&leads).is_empty()) {
                errors.push(format!("{place}{col}: error: {name} is gone and leads nowhere here"));
            }
        }
    }

    /// What the server says of the files without the changes, and their texts with them, which it then knows. What it
    /// said once counts only if nothing else has changed since.
    async fn before(
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
        let after: HashMap<PathBuf, String> = changed
            .iter()
            .filter_map(|was| Some((server.theirs(was.file.relative()), plain(was.after?))))
            .collect();
        let stand = server.stand();
        let as_said = |(path, text): (&PathBuf, &Option<String>)| {
            text.as_ref().is_none_or(|text| server.known(path, stand, Some(text)).is_some())
        };
        let mut trusted = before.iter().all(as_said);
        // A new or deleted file was not there, or was, as long as the server has not been told.
        let only_texts = changed.iter().all(|was| was.before.is_some() && was.after.is_some());
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
            let is = |path: &PathBuf| match &texts {
                Some(texts) => {
                    paths.iter().zip(texts).find(|(known, _)| *known == path).map(|(_, text)| text.clone())
                }
                None => after.get(path).cloned(),
            };
            let then = before
                .iter()
                .filter_map(|(path, was)| Some(Then { path: path.clone(), was: was.clone()?, is: is(path) }));
            let past = server.look_back(then.collect()).await;
            for n in (0..paths.len()).filter(|n| old[*n].is_none()).collect::<Vec<_>>() {
                if texts.is_none() && !before.contains_key(&paths[n]) {
                    let file = files[n].clone();
                    let read = move |call: &Call| super::told::source(&call.workspace, &file);
                    client.show(&paths[n], &call.blocking(read).await.ok()?);
                }
                old[n] = Some(client.diagnose(&paths[n]).await.ok()?);
            }
            drop(past);
        }
        if texts.is_none() {
            texts = Some(server.sync(call, files).await.ok()?);
        }
        server.settle(call).await.ok()?;
        Some((old.into_iter().map(Option::unwrap_or_default).collect(), texts?))
    }
}
