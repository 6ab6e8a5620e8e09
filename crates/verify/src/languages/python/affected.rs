//! Which test modules a change affects, by following imports through the sources.

use crate::{
    Affected, Facts,
    affected::{Graph, folder, inert, overlooked, plain, some, walk},
};
use regex::Regex;
use std::{collections::BTreeSet, sync::LazyLock};

#[expect(clippy::unwrap_used, reason = "the pattern is a constant, compiled by the tests")]
static IMPORT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?m)^[ \t]*import[ \t]+([^\n#]+)").unwrap());
#[expect(clippy::unwrap_used, reason = "the pattern is a constant, compiled by the tests")]
static FROM: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?m)^[ \t]*from[ \t]+([.\w]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n#]+)").unwrap()
});
/// Modules that are found by name while the program runs, and programs that are started.
#[expect(clippy::unwrap_used, reason = "the pattern is a constant, compiled by the tests")]
static WILD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b(?:importlib|__import__|runpy|subprocess|os\.system|os\.exec|pytester|testdir)\b").unwrap()
});

/// What a change affects.
pub(super) fn affected(facts: &dyn Facts, changed: &[String]) -> Affected {
    let shared = |file: &&String| {
        let name = file.rsplit('/').next().unwrap_or(file);
        ["pyproject.toml", "setup.py", "setup.cfg", "tox.ini", "pytest.ini", ".pytest.ini", "Pipfile"]
            .contains(&name)
            || name.starts_with("requirements")
            || name.ends_with(".lock")
            || name.starts_with(".env")
    };
    if let Some(file) = changed.iter().find(shared) {
        return Affected::everything(format!("{file} changed"));
    }
    for config in ["pyproject.toml", "setup.cfg", "tox.ini", "pytest.ini", ".pytest.ini"] {
        let text = facts.read(config).unwrap_or_default();
        if let Some(word) =
            ["python_files", "doctest-modules", "doctest_modules"].iter().find(|w| text.contains(**w))
        {
            return Affected::everything(format!("{config} sets {word}: any file may hold tests"));
        }
    }
    if let Some(file) = changed.iter().find(|file| overlooked(file) && !inert(file)) {
        return Affected::everything(format!("{file} is in a folder that is not looked at"));
    }
    let unknown: Vec<String> =
        changed.iter().filter(|file| !file.ends_with(".py") && !inert(file)).cloned().collect();
    if !unknown.is_empty() {
        return Affected::everything(format!("nothing tells who uses {}", some(&unknown)));
    }
    let Some(files) = walk(facts, &|name| name.ends_with(".py")) else {
        return Affected::everything("there are too many files to follow their imports");
    };
    let graph = graph(facts, &files, changed);
    let mut reached = graph.reached(changed);
    // Fixtures reach every test below their folder without being imported.
    let fixtures: Vec<String> = reached
        .iter()
        .filter(|file| name(file) == "conftest.py")
        .map(|file| folder(file).to_owned())
        .collect();
    let below =
        |file: &str| fixtures.iter().any(|place| place.is_empty() || file.starts_with(&format!("{place}/")));
    reached.extend(files.iter().filter(|file| below(file)).cloned());
    let there: BTreeSet<&String> = files.iter().collect();
    let tests: Vec<String> =
        reached.into_iter().filter(|file| there.contains(file) && is_test(name(file))).collect();
    let one = if tests.len() == 1 { "module" } else { "modules" };
    let why = format!("{} test {one}, by following imports", tests.len());
    Affected::of(tests, why)
}

fn name(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

fn is_test(name: &str) -> bool {
    name.starts_with("test") || name.ends_with("_test.py")
}

fn graph(facts: &dyn Facts, files: &[String], changed: &[String]) -> Graph {
    // What was deleted is still imported by its name.
    let there: BTreeSet<&str> = files.iter().chain(changed).map(String::as_str).collect();
    let mut graph = Graph::default();
    for file in files {
        let Some(text) = facts.read(file) else {
            graph.wild.insert(file.clone());
            continue;
        };
        if WILD.is_match(&text) {
            graph.wild.insert(file.clone());
        }
        for module in modules(&text) {
            for target in targets(&module, folder(file), &there) {
                graph.add(file, target);
            }
        }
    }
    graph
}

/// The modules a text imports, as it names them; `from a import b` may mean the module `a.b`.
fn modules(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for parts in IMPORT.captures_iter(text) {
        let names = parts[1].split(',').filter_map(|part| part.split_whitespace().next());
        found.extend(names.map(str::to_owned));
    }
    for parts in FROM.captures_iter(text) {
        let module = &parts[1];
        found.insert(module.to_owned());
        let names = parts[2].trim_matches(['(', ')']).split([',', '\n']);
        for name in names.filter_map(|part| part.split_whitespace().next()) {
            let dot = if module.ends_with('.') { "" } else { "." };
            found.insert(format!("{module}{dot}{name}"));
        }
    }
    found
}

/// The files that importing a module runs: its own, and those of the packages around it.
fn targets(module: &str, place: &str, there: &BTreeSet<&str>) -> Vec<String> {
    let dots = module.len() - module.trim_start_matches('.').len();
    let path = module.trim_start_matches('.').replace('.', "/");
    let roots: Vec<String> = match dots {
        // From the project, from a folder of sources, or from beside the file, as pytest puts it on the path.
        0 => {
            let above = std::iter::successors(Some(place), |at| (!at.is_empty()).then(|| folder(at)));
            above
                .map(str::to_owned)
                .chain(["src".to_owned(), "lib".to_owned(), "python".to_owned()])
                .collect()
        }
        _ => plain(&format!("{place}{}", "/..".repeat(dots - 1))).into_iter().collect(),
    };
    let mut found = Vec::new();
    for root in roots {
        let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        loop {
            let base = format!("{root}/{}", parts.join("/"));
            let base = base.trim_matches('/');
            let names = [format!("{base}.py"), format!("{base}/__init__.py")];
            let names = names.iter().map(|name| name.trim_start_matches('/'));
            found.extend(names.filter(|name| there.contains(name)).map(str::to_owned));
            if parts.pop().is_none() || parts.is_empty() {
                break;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MapFacts;

    fn say(changed: &[&str]) -> String {
        let mut facts = MapFacts::default();
        for (name, text) in [
            ("src/app/__init__.py", ""),
            ("src/app/core.py", "import os, sys\n"),
            ("src/app/api/__init__.py", "from .views import (\n    show,  # a comment\n    hide,\n)\n"),
            ("src/app/api/views.py", "from ..core import run as r\n"),
            ("src/app/other.py", ""),
            ("tests/conftest.py", "import app.other\n"),
            ("tests/unit/test_core.py", "def test():\n    from app import core\n"),
            ("tests/unit/test_api.py", "import app.api as a\n"),
            ("tests/unit/test_plain.py", "import helper\n"),
            ("tests/unit/helper.py", ""),
            ("it/test_cli.py", "import subprocess\n"),
        ] {
            facts.files.insert(name.to_owned(), text.to_owned());
        }
        let changed: Vec<String> = changed.iter().map(|file| (*file).to_owned()).collect();
        match affected(&facts, &changed) {
            Affected::Units { units, .. } => units.join(" ").replace("tests/unit/", ""),
            Affected::Everything { why } => format!("everything: {why}"),
            Affected::Nothing { .. } => "nothing".to_owned(),
        }
    }

    #[test]
    fn tests_are_found_through_what_they_import_and_what_starts_programs_always_runs() {
        assert_eq!(say(&["src/app/core.py"]), "it/test_cli.py test_api.py test_core.py");
        assert_eq!(say(&["src/app/api/views.py"]), "it/test_cli.py test_api.py");
        assert_eq!(say(&["tests/unit/helper.py"]), "it/test_cli.py test_plain.py");
        assert_eq!(say(&["src/app/other.py"]), "it/test_cli.py test_api.py test_core.py test_plain.py");
        assert!(say(&["pyproject.toml"]).starts_with("everything"));
        assert!(say(&["tests/data.csv"]).starts_with("everything: nothing tells who uses tests/data.csv"));
    }
}
