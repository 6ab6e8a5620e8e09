//! The packages of a project: its own, and the members of the workspace it is the root of.

use super::manifest::{Members, members, own, read};
use crate::Facts;
use regex::Regex;
use std::path::Path;
use toml::{Table, Value};

/// How deep `**` in a member's pattern reaches.
const DEPTH: usize = 4;

/// A package of the project.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Package {
    /// Its name.
    pub(super) name: String,
    /// Its folder relative to the project's, empty for the project itself.
    pub(super) folder: String,
    manifest: Table,
    /// Whether a bare command of cargo means it too.
    by_default: bool,
}

/// What a package has for those who look for examples in its documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doctests {
    /// Nothing that could hold examples: cargo refuses to look.
    NoLibrary,
    /// A library that wants its examples left alone; cargo runs them all the same when it is told `--doc`.
    Off,
    /// A library.
    On,
}

impl Package {
    /// A file of the package, relative to the project folder.
    fn inside(&self, file: &str) -> String {
        below(&self.folder, file)
    }

    fn doctests(&self, facts: &dyn Facts) -> Doctests {
        let library = self.manifest.get("lib");
        let told = |key: &str| library.and_then(|library| library.get(key));
        let found = || {
            let off = self.manifest.get("package").and_then(|package| package.get("autolib"));
            off.and_then(Value::as_bool) != Some(false) && facts.exists(&self.inside("src/lib.rs"))
        };
        let kinds = told("crate-type").or_else(|| told("crate_type")).and_then(Value::as_array);
        // Other kinds cannot be linked into an example.
        let linkable = |kind: &Value| matches!(kind.as_str(), Some("lib" | "rlib" | "proc-macro"));
        if !(library.is_some() || found()) || kinds.is_some_and(|kinds| !kinds.iter().any(linkable)) {
            return Doctests::NoLibrary;
        }
        match told("doctest").and_then(Value::as_bool) {
            Some(false) => Doctests::Off,
            _ => Doctests::On,
        }
    }
}

fn below(folder: &str, name: &str) -> String {
    format!("{folder}/{name}").trim_start_matches('/').to_owned()
}

/// The packages of the project: its own and the members of the workspace it is the root of.
pub(super) fn packages(facts: &dyn Facts) -> Vec<Package> {
    let own = own(facts);
    let workspace = own.get("workspace");
    let strings = |key: &str| -> Vec<String> {
        let list = workspace.and_then(|workspace| workspace.get(key)).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).map(|text| normal("", text)).collect()
    };
    let left_out = strings("exclude");
    let excluded = |folder: &str| left_out.iter().any(|out| within(folder, out));
    let mut todo = vec![String::new()];
    for member in strings("members") {
        let folders = expand(facts, &member).into_iter();
        todo.extend(folders.filter(|folder| *folder == member || !excluded(folder)));
    }
    let chosen: Option<Vec<String>> = workspace
        .is_some_and(|workspace| workspace.get("default-members").is_some())
        .then(|| strings("default-members").iter().flat_map(|member| expand(facts, member)).collect());
    let mut found: Vec<Package> = Vec::new();
    todo.reverse();
    while let Some(folder) = todo.pop() {
        if found.iter().any(|package| package.folder == folder) {
            continue;
        }
        let Some(manifest) = read(facts, &below(&folder, "Cargo.toml")) else { continue };
        if workspace.is_some() {
            // What a member has beside it belongs to the workspace whether it is listed or not.
            let beside = paths(&manifest, &folder).into_iter().chain(paths_of_workspace(&own, &manifest));
            todo.extend(beside.filter(|folder| !folder.starts_with("..") && !excluded(folder)));
        }
        let name = manifest.get("package").and_then(|package| package.get("name")).and_then(Value::as_str);
        let Some(name) = name.map(str::to_owned) else { continue };
        let by_default = chosen.as_ref().is_none_or(|chosen| chosen.contains(&folder));
        found.push(Package { name, folder, manifest, by_default });
    }
    found
}

/// Whether the workspace of a manifest leaves out a folder below it, as cargo has it: what is in an excluded folder is
/// no member, unless it is in one that is listed as well.
pub(super) fn leaves_out(manifest: &str, folder: &Path) -> bool {
    // Most exclude nothing, and need not be read for that.
    let Some(folder) = folder.to_str().filter(|_| manifest.contains("exclude")) else { return false };
    let manifest: Table = manifest.parse().unwrap_or_default();
    let listed = |key: &str| {
        let list =
            manifest.get("workspace").and_then(|workspace| workspace.get(key)).and_then(Value::as_array);
        let mut paths = list.into_iter().flatten().filter_map(Value::as_str).map(|path| normal("", path));
        paths.any(|path| within(folder, &path))
    };
    !folder.is_empty() && listed("exclude") && !listed("members")
}

/// Whether a folder is another one or lies in it.
fn within(folder: &str, other: &str) -> bool {
    folder.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A path written in the manifest of `folder`, relative to the project folder.
fn normal(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        match (part, parts.last()) {
            ("..", Some(&last)) if last != ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// Every table of dependencies in a manifest.
fn dependencies(manifest: &Table) -> impl Iterator<Item = (&String, &Value)> {
    let kinds = ["dependencies", "dev-dependencies", "build-dependencies"];
    let targets = manifest.get("target").and_then(Value::as_table);
    let targets = targets.into_iter().flat_map(Table::values).filter_map(Value::as_table);
    std::iter::once(manifest)
        .chain(targets)
        .flat_map(move |table| kinds.into_iter().filter_map(|kind| table.get(kind)?.as_table()))
        .flatten()
}

/// The folders of the packages that a manifest depends on by path.
fn paths(manifest: &Table, folder: &str) -> Vec<String> {
    let path = |(_, told): (&String, &Value)| Some(normal(folder, told.get("path")?.as_str()?));
    dependencies(manifest).filter_map(path).collect()
}

/// The same for those whose path the workspace root knows.
fn paths_of_workspace(root: &Table, manifest: &Table) -> Vec<String> {
    let shared = root.get("workspace").and_then(|workspace| workspace.get("dependencies"));
    let path = |(name, told): (&String, &Value)| {
        told.get("workspace")?.as_bool().filter(|inherited| *inherited)?;
        Some(normal("", shared?.get(name)?.get("path")?.as_str()?))
    };
    dependencies(manifest).filter_map(path).collect()
}

/// The arguments with which `cargo test --doc` runs the doctests of these packages (all of them when none is
/// named) and of no package that has no library or wants none; `None` when there are no doctests to run.
pub(super) fn doctests(facts: &dyn Facts, units: &[String]) -> Option<Vec<String>> {
    let packages = packages(facts);
    let meant = |package: &&Package| match units {
        [] => package.by_default,
        units => units.contains(&package.name),
    };
    let meant: Vec<&Package> = packages.iter().filter(meant).collect();
    let those = |wanted: Doctests| -> Vec<&str> {
        let fits = |package: &&&Package| package.doctests(facts) == wanted;
        meant.iter().filter(fits).map(|package| package.name.as_str()).collect()
    };
    let each = |flag: &'static str, names: Vec<&str>| -> Vec<String> {
        names.into_iter().flat_map(|name| [flag, name]).map(str::to_owned).collect()
    };
    let (on, off) = (those(Doctests::On), those(Doctests::Off));
    if on.is_empty() {
        return None;
    }
    Some(match members(facts) {
        Members::Single if units.is_empty() => Vec::new(),
        Members::All if units.is_empty() => {
            std::iter::once("--workspace".to_owned()).chain(each("--exclude", off)).collect()
        }
        _ => each("-p", on),
    })
}

/// The folders that a member's pattern means.
fn expand(facts: &dyn Facts, pattern: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        let names = |folder: &str| facts.list(if folder.is_empty() { "." } else { folder });
        let mut next = Vec::new();
        for folder in found {
            match (part, pattern_of(part)) {
                ("**", _) => deep(facts, &folder, DEPTH, &mut next),
                (_, Some(fits)) => {
                    let names = names(&folder);
                    next.extend(
                        names.iter().filter(|name| fits.is_match(name)).map(|name| below(&folder, name)),
                    );
                }
                (_, None) => next.push(below(&folder, part)),
            }
        }
        found = next;
    }
    found
}

/// The pattern that a part of a path is, when it is one.
fn pattern_of(part: &str) -> Option<Regex> {
    if !part.contains(['*', '?', '[']) {
        return None;
    }
    let mut text = String::from("^");
    for c in part.chars() {
        match c {
            '*' => text.push_str(".*"),
            '?' => text.push('.'),
            '!' if text.ends_with('[') => text.push('^'),
            '[' | ']' | '-' => text.push(c),
            c => text.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
        }
    }
    Regex::new(&(text + "$")).ok()
}

/// A folder and all below it that may hold packages.
fn deep(facts: &dyn Facts, folder: &str, depth: usize, into: &mut Vec<String>) {
    into.push(folder.to_owned());
    if depth == 0 {
        return;
    }
    let sources =
        |name: &&String| !name.contains('.') && !["target", "node_modules", "src"].contains(&name.as_str());
    for name in facts.list(if folder.is_empty() { "." } else { folder }).iter().filter(sources) {
        deep(facts, &below(folder, name), depth - 1, into);
    }
}

/// Integration tests with a harness of their own that does not speak nextest's language: package and target.
pub(super) fn own_harness(facts: &dyn Facts) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for package in packages(facts) {
        let inside = |file: &str| package.inside(file);
        let tests = package.manifest.get("test").and_then(Value::as_array);
        for test in tests.into_iter().flatten() {
            let Some(name) = test.get("name").and_then(Value::as_str) else { continue };
            if test.get("harness").and_then(Value::as_bool) != Some(false) {
                continue;
            }
            let told = test.get("path").and_then(Value::as_str).map(str::to_owned);
            let usual = [format!("tests/{name}.rs"), format!("tests/{name}/main.rs")];
            let source = told.into_iter().chain(usual).find_map(|file| facts.read(&inside(&file)));
            // These list their tests the way libtest does, which is what nextest asks for.
            let speaks = |text: &str| {
                ["libtest_mimic", "datatest_stable", "libtest2", "test_harness"]
                    .iter()
                    .any(|library| text.contains(library))
            };
            if !source.is_some_and(|text| speaks(&text)) {
                found.push((package.name.clone(), name.to_owned()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_leaves_out_what_it_excludes_and_does_not_list() {
        let manifest =
            "[workspace]\nmembers = [\"a\", \"tools/kept\", \"b/*\"]\nexclude = [\"tools\", \"./fuzz/\"]\n";
        for (folder, expected) in [
            ("", false),
            ("a", false),
            ("b/one", false),
            ("tools", true),
            ("tools/other", true),
            ("tools/kept", false),
            ("toolshed", false),
            ("fuzz", true),
        ] {
            assert_eq!(leaves_out(manifest, Path::new(folder)), expected, "{folder}");
        }
        assert!(
            !leaves_out("[workspace]\n", Path::new("tools")) && !leaves_out("exclude = [", Path::new("a"))
        );
    }
}
