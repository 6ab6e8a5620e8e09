//! Who may use what was changed.

use super::{ask::owner, workspace_symbols::files_with};
use crate::Call;
use ::code::{Depth, Language, Symbol, outline};
use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
};
use workspace::{ContainedPath, GlobQuery};

/// Files that use a changed one and are looked at with it, and those of a Go package.
const USERS: usize = 8;
const PACKAGE: usize = 32;
/// Files of a folder that are looked through.
const FOLDER: usize = 1000;
/// Names of changed symbols that are looked for.
const NAMES: usize = 16;

/// A file as it was and is.
pub(super) struct Changed {
    pub(super) file: ContainedPath,
    pub(super) before: Option<Box<[u8]>>,
    pub(super) after: Option<Arc<[u8]>>,
}

/// Sources of the same language that may use one of these files, the nearest first, and how many more there are.
pub(super) fn users(call: &Call, changed: &[Changed], language: &str) -> (Vec<ContainedPath>, usize) {
    let mut seen: HashSet<PathBuf> = changed.iter().map(|one| one.file.relative().to_owned()).collect();
    let mut found = Vec::new();
    for one in changed {
        let file = &one.file;
        let shared = |other: &PathBuf| {
            let same = |pair: &(std::path::Component<'_>, std::path::Component<'_>)| pair.0 == pair.1;
            other.components().zip(file.relative().components()).take_while(same).count()
        };
        let mut add = |mut some: Vec<PathBuf>, found: &mut Vec<ContainedPath>| {
            some.sort_by_key(|other| std::cmp::Reverse(shared(other)));
            some.retain(|other| seen.insert(other.clone()));
            let resolved = some.into_iter().filter_map(|other| call.workspace.resolve(other).ok());
            let same =
                |other: &_| owner(call, "", other).is_ok_and(|detector| detector.language() == language);
            found.extend(resolved.filter(same));
        };
        if language == "go" {
            add(go_users(call, file.relative()), &mut found);
            continue;
        }
        // Who has the names of what changed may use it, through whatever other module; who has the module's name may
        // use all of it.
        let names = names(one);
        if !names.is_empty() {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            add(files_with(call, &names), &mut found);
        }
        if found.len() < USERS {
            add(named_by(call, file), &mut found);
        }
    }
    // A package is checked as one.
    let most = if language == "go" { PACKAGE } else { USERS };
    let unchecked = found.len().saturating_sub(most);
    found.truncate(most);
    (found, unchecked)
}

/// Files that name a file's module.
fn named_by(call: &Call, file: &ContainedPath) -> Vec<PathBuf> {
    let name = super::names::module(file.relative()).unwrap_or_default();
    if name.len() < 2 { Vec::new() } else { files_with(call, &[name]) }
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
        found.extend(files_with(call, &[&format!("\"{path}\"")]));
    }
    found
}

/// The names of the symbols that a change touched: first those that are gone, new or declared otherwise.
fn names(one: &Changed) -> Vec<String> {
    let Some(language) = Language::of_path(one.file.relative()) else { return Vec::new() };
    let (before, after) =
        (one.before.as_deref().unwrap_or_default(), one.after.as_deref().unwrap_or_default());
    let (was, is) = (outline(language, before, Depth::Items), outline(language, after, Depth::Items));
    let mut found = differing((&was, before), (&is, after));
    found.extend(differing((&is, after), (&was, before)));
    found.sort_by_key(|(declared, _)| !declared);
    let mut seen = HashSet::new();
    let own = |name: &String| name.len() > 1 && seen.insert(name.clone());
    found.into_iter().map(|(_, symbol)| symbol.name.clone()).filter(own).take(NAMES).collect()
}

/// The names that a change took away.
pub(super) fn gone(one: &Changed) -> Vec<String> {
    let Some(language) = Language::of_path(one.file.relative()) else { return Vec::new() };
    let outline = |text: Option<&[u8]>| outline(language, text.unwrap_or_default(), Depth::Items);
    let left: HashSet<String> = outline(one.after.as_deref()).into_iter().map(|symbol| symbol.name).collect();
    let mut gone: Vec<String> =
        outline(one.before.as_deref()).into_iter().map(|symbol| symbol.name).collect();
    gone.retain(|name| name.len() > 1 && !left.contains(name));
    gone.sort();
    gone.dedup();
    gone.truncate(NAMES);
    gone
}

/// The symbols of one text that another does not have, and whether they are also declared otherwise there.
fn differing<'a>(
    (these, text): (&'a [Symbol], &[u8]),
    (others, other): (&[Symbol], &[u8]),
) -> Vec<(bool, &'a Symbol)> {
    let mut known: HashMap<String, Vec<&Symbol>> = HashMap::new();
    for symbol in others {
        known.entry(symbol.path()).or_default().push(symbol);
    }
    let look = |symbol: &'a Symbol| {
        let same = known.get(&symbol.path()).map(Vec::as_slice).unwrap_or_default();
        if same.iter().any(|it| other[it.full.clone()] == text[symbol.full.clone()]) {
            return None;
        }
        let declared = same.iter().any(|it| other[it.signature.clone()] == text[symbol.signature.clone()]);
        Some((!declared, symbol))
    };
    these.iter().filter_map(look).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_has_names() {
        let text = |text: &str| Arc::from(text.as_bytes());
        let folder = tempfile::TempDir::new().unwrap();
        let file = workspace::Workspace::open("w", folder.path()).unwrap().resolve("a.ts").unwrap();
        let before = "function one() { return 1; }\nfunction two() {}\nfunction three() {}\nconst x = 1;\n";
        let after =
            "function one() { return 2; }\nfunction two() {}\nfunction three(a) {}\nfunction five() {}\n";
        let mut one = Changed { file, before: Some(before.as_bytes().into()), after: Some(text(after)) };
        assert_eq!(names(&one), ["three", "five", "one"]);
        assert_eq!(gone(&one), ["x"; 0]);
        one.after = None;
        assert_eq!(names(&one), ["one", "two", "three"]);
    }
}
