//! What Cargo.toml and its neighbours say.

use crate::Facts;
use std::path::PathBuf;
use toml::{Table, Value};

/// How many folders up a workspace root is looked for.
const UP: usize = 8;

/// A manifest, when it is there and can be read.
pub(super) fn read(facts: &dyn Facts, file: &str) -> Option<Table> {
    facts.read(file)?.parse().ok()
}

/// The manifest at the project folder.
pub(super) fn own(facts: &dyn Facts) -> Table {
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
