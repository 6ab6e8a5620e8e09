//! What Cargo.toml and its neighbours say.

use crate::Facts;
use std::path::PathBuf;
use toml::{Table, Value};

/// How many folders up a workspace root is looked for.
const UP: usize = 8;

fn read(facts: &dyn Facts, file: &str) -> Option<Table> {
    facts.read(file)?.parse().ok()
}

/// The manifest at the project folder.
fn own(facts: &dyn Facts) -> Table {
    read(facts, "Cargo.toml").unwrap_or_default()
}

/// The folder that paths in cargo's output start from: the root of the cargo workspace.
pub(super) fn base(facts: &dyn Facts) -> PathBuf {
    let root = facts.root();
    if own(facts).contains_key("workspace") {
        return root.to_path_buf();
    }
    (1..=UP)
        .find(|up| {
            read(facts, &format!("{}Cargo.toml", "../".repeat(*up)))
                .is_some_and(|m| m.contains_key("workspace"))
        })
        .and_then(|up| root.ancestors().nth(up))
        .unwrap_or(root)
        .to_path_buf()
}

/// Which packages a bare `cargo test` leaves out although they belong to the project.
pub(super) enum Members {
    /// There is one package.
    Single,
    /// The root names the members it wants by default.
    Chosen,
    /// A workspace: every member is meant.
    All,
}

/// How the project is divided into packages.
pub(super) fn members(facts: &dyn Facts) -> Members {
    match own(facts).get("workspace").and_then(Value::as_table) {
        None => Members::Single,
        Some(workspace) if workspace.contains_key("default-members") => Members::Chosen,
        Some(_) => Members::All,
    }
}

/// Whether the project has a library, which may have doctests.
pub(super) fn has_library(facts: &dyn Facts) -> bool {
    let own = own(facts);
    own.contains_key("lib") || facts.exists("src/lib.rs") || own.contains_key("workspace")
}

/// Whether the project is tested with nextest.
pub(super) fn configures_nextest(facts: &dyn Facts) -> bool {
    (0..=UP).any(|up| facts.exists(&format!("{}.config/nextest.toml", "../".repeat(up))))
}

/// The folder of the package that a file belongs to, relative to the project folder ("" for the project itself).
pub(super) fn package_of(facts: &dyn Facts, file: &str) -> String {
    let mut folder = file;
    while let Some((up, _)) = folder.rsplit_once('/') {
        if facts.exists(&format!("{up}/Cargo.toml")) {
            return up.to_owned();
        }
        folder = up;
    }
    String::new()
}

/// The edition a file is written in: rustfmt has to be told.
pub(super) fn edition(facts: &dyn Facts, file: &str) -> String {
    let package = package_of(facts, file);
    let manifest = if package.is_empty() { "Cargo.toml".to_owned() } else { format!("{package}/Cargo.toml") };
    let own = read(facts, &manifest).unwrap_or_default();
    let edition = own.get("package").and_then(|package| package.get("edition"));
    match edition {
        Some(Value::String(edition)) => edition.clone(),
        Some(_) => inherited(facts, &own, &package).unwrap_or_else(|| "2021".to_owned()),
        // A manifest without an edition means the first one.
        None => "2015".to_owned(),
    }
}

/// The edition that the workspace root hands down.
fn inherited(facts: &dyn Facts, own: &Table, package: &str) -> Option<String> {
    let of = |manifest: &Table| {
        let edition = manifest.get("workspace")?.get("package")?.get("edition")?.as_str()?;
        Some(edition.to_owned())
    };
    let inside = std::iter::successors(Some(package), |folder| match folder.rsplit_once('/') {
        Some((up, _)) => Some(up),
        None => (!folder.is_empty()).then_some(""),
    });
    of(own)
        .or_else(|| {
            inside
                .filter(|folder| !folder.is_empty())
                .find_map(|folder| of(&read(facts, &format!("{folder}/Cargo.toml"))?))
        })
        .or_else(|| (0..=UP).find_map(|up| of(&read(facts, &format!("{}Cargo.toml", "../".repeat(up)))?)))
}

/// Names that `cargo <name>` runs because the project says so.
pub(super) fn aliases(facts: &dyn Facts) -> Vec<String> {
    let mut names: Vec<String> = [".cargo/config.toml", ".cargo/config"]
        .iter()
        .filter_map(|file| read(facts, file))
        .filter_map(|config| {
            config.get("alias")?.as_table().map(|table| table.keys().cloned().collect::<Vec<_>>())
        })
        .flatten()
        .collect();
    if facts.exists("xtask/Cargo.toml") && !names.iter().any(|name| name == "xtask") {
        names.push("xtask".to_owned());
    }
    names
}

/// A package of the project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Package {
    /// Its name.
    pub(super) name: String,
    /// Its folder relative to the project's, empty for the project itself.
    pub(super) folder: String,
}

/// The packages of the project: its own and the members of the workspace it is the root of.
pub(super) fn packages(facts: &dyn Facts) -> Vec<Package> {
    let own = own(facts);
    let strings = |key: &str| -> Vec<String> {
        let list = own.get("workspace").and_then(|workspace| workspace.get(key)).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let left_out = strings("exclude");
    let mut folders = vec![String::new()];
    for member in strings("members") {
        folders.extend(expand(facts, member.trim_end_matches('/')));
    }
    folders.dedup();
    let named = |folder: String| {
        let manifest = read(facts, format!("{folder}/Cargo.toml").trim_start_matches('/'))?;
        let name = manifest.get("package")?.get("name")?.as_str()?.to_owned();
        (!left_out.contains(&folder)).then_some(Package { name, folder })
    };
    folders.into_iter().filter_map(named).collect()
}

/// Whether a package of the project has a library.
pub(super) fn has_library_of(facts: &dyn Facts, name: &str) -> bool {
    packages(facts).iter().filter(|package| package.name == name).any(|package| {
        let inside = |file: &str| format!("{}/{file}", package.folder).trim_start_matches('/').to_owned();
        facts.exists(&inside("src/lib.rs"))
            || read(facts, &inside("Cargo.toml")).is_some_and(|manifest| manifest.contains_key("lib"))
    })
}

/// The folders that a member's pattern means; only whole parts of a path are patterns in practice.
fn expand(facts: &dyn Facts, pattern: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    for part in pattern.split('/').filter(|part| !part.is_empty() && *part != ".") {
        let mut next = Vec::new();
        for folder in found {
            let below = |name: &str| format!("{folder}/{name}").trim_start_matches('/').to_owned();
            match part.split_once('*') {
                Some((start, end)) => {
                    let place = if folder.is_empty() { "." } else { &folder };
                    let names = facts.list(place);
                    let fits = |name: &&String| {
                        name.len() >= part.len() - 1 && name.starts_with(start) && name.ends_with(end)
                    };
                    next.extend(names.iter().filter(fits).map(|name| below(name)));
                }
                None => next.push(below(part)),
            }
        }
        found = next;
    }
    found
}

/// Integration tests with a harness of their own that does not speak nextest's language: package and target.
pub(super) fn own_harness(facts: &dyn Facts) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for package in packages(facts) {
        let inside = |file: &str| format!("{}/{file}", package.folder).trim_start_matches('/').to_owned();
        let manifest = read(facts, &inside("Cargo.toml")).unwrap_or_default();
        let tests = manifest.get("test").and_then(Value::as_array);
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
