//! Which packages a change affects, by what `go list` says about imports.

use crate::{
    Affected, Captured, Facts, Plan,
    affected::{folder, some},
};
use std::collections::{BTreeMap, BTreeSet};

/// One package a line: its path, its folder, what it imports, what its tests import.
const FORMAT: &str = "{{.ImportPath}}\t{{.Dir}}\t{{join .Imports \" \"}}\t{{join .TestImports \" \"}} {{join .XTestImports \" \"}}";

/// Files on which every package depends.
const SHARED: [&str; 4] = ["go.mod", "go.sum", "go.work", "vendor/modules.txt"];

/// The command that lists packages.
pub(super) fn query() -> Plan {
    Plan {
        runner: "go list",
        program: "go".to_owned(),
        args: ["list", "-e", "-f", FORMAT, "./..."].map(str::to_owned).to_vec(),
        why: vec!["go list knows which package imports which".to_owned()],
        ..Plan::default()
    }
}

struct Package<'a> {
    path: &'a str,
    folder: String,
    imports: Vec<&'a str>,
    tests: Vec<&'a str>,
}

/// What a change affects.
pub(super) fn affected(facts: &dyn Facts, changed: &[String], asked: Option<&Captured>) -> Affected {
    if let Some(shared) = changed.iter().find(|file| SHARED.contains(&file.as_str())) {
        return Affected::everything(format!("{shared} changed"));
    }
    let listed = asked.map(|asked| String::from_utf8_lossy(&asked.stdout).into_owned()).unwrap_or_default();
    let packages: Vec<Package<'_>> = listed.lines().filter_map(|line| package(facts, line)).collect();
    if packages.is_empty() {
        return Affected::everything("go list named no packages");
    }
    let Some(module) = super::plan::module(facts) else {
        return Affected::everything("go.mod names no module");
    };
    let mut hit: BTreeSet<String> = BTreeSet::new();
    let mut stray = Vec::new();
    for file in changed {
        if file.ends_with(".go") {
            let place = folder(file);
            // A package that is gone is still imported by its path.
            let path = match place {
                "" => module.clone(),
                place => format!("{module}/{place}"),
            };
            let known = packages.iter().find(|package| package.folder == place);
            hit.insert(known.map_or(path, |package| package.path.to_owned()));
        } else {
            // Data belongs to the nearest package above it, which may embed it or read it in its tests.
            let mut above = folder(file);
            let owner = loop {
                if let Some(owner) = packages.iter().find(|package| package.folder == above) {
                    break Some(owner);
                }
                if above.is_empty() {
                    break None;
                }
                above = folder(above);
            };
            match owner {
                Some(owner) => drop(hit.insert(owner.path.to_owned())),
                None if crate::affected::inert(file) => {}
                None => stray.push(file.clone()),
            }
        }
    }
    if !stray.is_empty() {
        return Affected::everything(format!("{} belongs to no package", some(&stray)));
    }
    let units = importers(&packages, hit);
    let why = format!("{} of {} packages, by imports (go list)", units.len(), packages.len());
    Affected::of(units, why)
}

fn package<'a>(facts: &dyn Facts, line: &'a str) -> Option<Package<'a>> {
    let mut fields = line.split('\t');
    let (path, place) = (fields.next()?, fields.next()?);
    let words = |text: Option<&'a str>| text.unwrap_or_default().split(' ').filter(|word| !word.is_empty());
    let place = std::path::Path::new(place).strip_prefix(facts.root()).ok()?;
    let (imports, tests) = (words(fields.next()).collect(), words(fields.next()).collect());
    Some(Package { path, folder: place.to_string_lossy().into_owned(), imports, tests })
}

/// Those hit, those that import them however indirectly, and those whose tests do.
fn importers(packages: &[Package<'_>], hit: BTreeSet<String>) -> Vec<String> {
    let mut importers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        for import in &package.imports {
            importers.entry(import).or_default().push(package.path);
        }
    }
    let mut reached = BTreeSet::new();
    let mut todo: Vec<String> = hit.into_iter().collect();
    while let Some(path) = todo.pop() {
        if reached.insert(path.clone()) {
            todo.extend(importers.get(path.as_str()).into_iter().flatten().map(|path| (*path).to_owned()));
        }
    }
    let affected = |package: &&Package<'_>| {
        reached.contains(package.path) || package.tests.iter().any(|import| reached.contains(*import))
    };
    packages.iter().filter(affected).map(|package| package.path.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{End, MapFacts};

    fn say(changed: &[&str]) -> Affected {
        let mut facts = MapFacts { root: "/m".into(), ..MapFacts::default() };
        facts.files.insert("go.mod".to_owned(), "module example.com/m\n\ngo 1.21\n".to_owned());
        let stdout = "example.com/m/a\t/m/a\tfmt\t testing\n\
                      example.com/m/b\t/m/b\texample.com/m/a fmt\t testing\n\
                      example.com/m/c\t/m/c\tfmt\texample.com/m/b testing \n\
                      example.com/m/d\t/m/d\texample.com/m/c example.com/m/gone\t\n";
        let asked = Captured { stdout: stdout.into(), stderr: Vec::new(), report: None, end: End::Exited(0) };
        let changed: Vec<String> = changed.iter().map(|file| (*file).to_owned()).collect();
        affected(&facts, &changed, Some(&asked))
    }

    #[test]
    fn importers_are_affected_and_tests_of_importers_but_no_further() {
        let units = |affected: Affected| match affected {
            Affected::Units { units, .. } => units.join(" ").replace("example.com/m/", ""),
            other => format!("{other:?}"),
        };
        assert_eq!(units(say(&["a/x.go"])), "a b c");
        assert_eq!(units(say(&["c/testdata/in.txt"])), "c d");
        assert_eq!(units(say(&["gone/x.go"])), "d");
        assert!(matches!(say(&["README.md"]), Affected::Nothing { .. }));
        assert!(matches!(say(&["a/x.go", "go.sum"]), Affected::Everything { .. }));
        assert!(matches!(say(&["assets/logo.bin"]), Affected::Everything { .. }));
    }
}
