//! Other projects of the same workspace: a server knows its own and what that depends on, never who depends on it. What
//! they do with a symbol is not known here, and that is said.

use super::{
    ask::Spot, pool::Key, strangers::shared, taken::function, told::source_of, trouble::Trouble,
    workspace_symbols::files_with,
};
use crate::Call;
use ::code::{Language, Reader};
use ::lsp::Position;
use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
};

/// Files that are named.
const NAMED: usize = 5;
/// Files that are read to see whether the name stands in their code; of more, it is believed.
const READ: usize = 200;

/// Says, beginning with a line break, which files of other projects have the name at a spot; `known` are its places that
/// were found. What is known in one function alone is known nowhere else.
pub(super) async fn told(
    call: &Call,
    spot: &Spot,
    known: Vec<(PathBuf, Position)>,
) -> Result<String, Trouble> {
    let server = &spot.ready.server;
    let encoding = server.client.encoding();
    let Some(word) = spot.word() else { return Ok(String::new()) };
    let (mut files, mut here) = (HashSet::new(), Vec::new());
    let (own, lines) = (spot.ready.file.relative(), spot.ready.lines());
    for (file, at) in known {
        here.extend((file == own).then(|| lines.byte(at, encoding)));
        files.insert(file);
    }
    drop(lines);
    let alone = !here.is_empty() && files.len() == 1;
    let (key, near, text) = (server.key.clone(), own.to_owned(), spot.ready.text.clone());
    let look = move |call: &Call| {
        let mut reader = Reader::default();
        let parsed = Language::of_path(&near)
            .filter(|_| alone)
            .and_then(|language| reader.parse(language, text.as_bytes()));
        if parsed.is_some_and(|parsed| function(&parsed, &here).is_some()) {
            return Ok(Vec::new());
        }
        let others = files_with(call, &[&word]).into_iter().filter(|file| !files.contains(file));
        let mut others = elsewhere(call, &key, others);
        others.sort_by_key(|file| std::cmp::Reverse(shared(file, &near)));
        let mut read = 0;
        others.retain(|file| {
            read += 1;
            read > READ || in_code(call, &mut reader, file, &word)
        });
        Ok(others)
    };
    let others = call.paced(&server.looking, look).await?;
    if others.is_empty() {
        return Ok(String::new());
    }
    let named: Vec<String> = others.iter().take(NAMED).map(|file| file.display().to_string()).collect();
    Ok(format!(
        "\n{} file(s) of other projects have this name, and what they mean by it is not known here: {}{}; ask there",
        others.len(),
        named.join(", "),
        if others.len() > NAMED { ", …" } else { "" }
    ))
}

/// Those of some files that another server of the same language serves.
fn elsewhere(call: &Call, key: &Key, files: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let all = call.host().languages.all();
    let Some(detector) = all.iter().copied().find(|it| it.language() == key.language) else {
        return Vec::new();
    };
    let mut folders: HashMap<PathBuf, bool> = HashMap::new();
    let mut other = |file: &PathBuf| {
        let folder = file.parent().unwrap_or(Path::new("")).to_owned();
        detector.owns(file)
            && *folders.entry(folder).or_insert_with(|| Key::of(call, detector, file).root != key.root)
    };
    files.filter(|file| other(file)).collect()
}

/// Whether a name stands in a file's code, not only in its comments and texts.
fn in_code(call: &Call, reader: &mut Reader, file: &Path, word: &str) -> bool {
    let text = source_of(&call.workspace, file, u64::MAX).unwrap_or_default();
    let parsed = Language::of_path(file).and_then(|language| reader.parse(language, text.as_bytes()));
    parsed.is_none_or(|parsed| !parsed.uses(word, 1).is_empty())
}
