//! Which packages a change affects, by what `cargo metadata` says about dependencies.

use super::plan;
use crate::{
    Affected, Captured, Facts, Plan,
    affected::{inert, some},
};
use serde::Deserialize;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// The command that lists the packages of the workspace.
pub(super) fn query() -> Plan {
    Plan {
        runner: "cargo metadata",
        program: "cargo".to_owned(),
        args: ["metadata", "--format-version", "1", "--no-deps"].map(str::to_owned).to_vec(),
        env: plan::quiet(),
        why: vec!["cargo metadata knows which package depends on which".to_owned()],
        ..Plan::default()
    }
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    #[serde(default)]
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    path: Option<PathBuf>,
}

impl Package {
    fn folder(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(Path::new("/"))
    }
}

/// What a change affects.
pub(super) fn affected(facts: &dyn Facts, changed: &[String], asked: Option<&Captured>) -> Affected {
    let shared = |file: &&String| {
        let name = file.rsplit('/').next().unwrap_or(file);
        ["Cargo.toml", "Cargo.lock", "rust-toolchain", "rust-toolchain.toml", "clippy.toml"].contains(&name)
            || file.contains(".cargo/")
            || file.contains(".config/nextest")
    };
    if let Some(shared) = changed.iter().find(shared) {
        return Affected::everything(format!("{shared} changed"));
    }
    let read = asked.and_then(|asked| serde_json::from_slice::<Metadata>(&asked.stdout).ok());
    let Some(Metadata { packages }) = read else {
        return Affected::everything("cargo metadata named no packages");
    };
    // All of a package's code, or only what nobody else can depend on.
    let (mut whole, mut tests) = (BTreeSet::new(), BTreeSet::new());
    let mut stray = Vec::new();
    for file in changed {
        let path = facts.root().join(file);
        let owner = packages
            .iter()
            .enumerate()
            .filter(|(_, package)| path.starts_with(package.folder()))
            .max_by_key(|(_, package)| package.folder().as_os_str().len());
        let Some((at, package)) = owner else {
            if !inert(file) {
                stray.push(file.clone());
            }
            continue;
        };
        let inside = path.strip_prefix(package.folder()).unwrap_or(&path);
        let own = ["tests", "benches", "examples"].iter().any(|folder| inside.starts_with(folder));
        match own {
            true => tests.insert(at),
            false => whole.insert(at),
        };
    }
    if !stray.is_empty() {
        return Affected::everything(format!("{} belongs to no package", some(&stray)));
    }
    if packages.len() == 1 && !(whole.is_empty() && tests.is_empty()) {
        return Affected::everything("the project is one package");
    }
    let units = dependents(&packages, whole, tests);
    let why = format!("{} of {} packages, by dependencies (cargo metadata)", units.len(), packages.len());
    Affected::of(units, why)
}

/// Those hit, those that depend on them however indirectly, and those that do for their tests only.
fn dependents(packages: &[Package], whole: BTreeSet<usize>, mut tests: BTreeSet<usize>) -> Vec<String> {
    let depends = |package: &Package, on: &Package, dev: bool| {
        package.dependencies.iter().any(|dependency| {
            let is_dev = dependency.kind.as_deref() == Some("dev");
            is_dev == dev && dependency.path.as_deref() == Some(on.folder())
        })
    };
    let (mut reached, mut todo) = (BTreeSet::new(), whole.into_iter().collect::<Vec<_>>());
    while let Some(at) = todo.pop() {
        if !reached.insert(at) {
            continue;
        }
        for (other, package) in packages.iter().enumerate() {
            if depends(package, &packages[at], false) {
                todo.push(other);
            } else if depends(package, &packages[at], true) {
                tests.insert(other);
            }
        }
    }
    reached.extend(tests);
    reached.into_iter().map(|at| packages[at].name.clone()).collect()
}
