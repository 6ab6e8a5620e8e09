//! Which test files a change affects, by following imports through the sources.

use super::{
    manifest::{Manifest, jsonc},
    script::Runner,
    tests,
};
use crate::{
    Affected, Facts,
    affected::{Graph, folder, inert, overlooked, plain, some, walk},
};
use regex::Regex;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

const SOURCES: &[&str] =
    &[".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".vue", ".svelte", ".json"];

/// Every quoted text of one line: an import, a mock, a file that is read.
#[expect(clippy::unwrap_used, reason = "the pattern is a constant, compiled by the tests")]
static QUOTED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#""([^"\n]{1,300})"|'([^'\n]{1,300})'"#).unwrap());
/// An import of a name.
#[expect(clippy::unwrap_used, reason = "the pattern is a constant, compiled by the tests")]
static IMPORT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?:\bfrom|\bimport|\brequire\s*\(|\bimport\s*\()\s*["']([^"'\n]+)["']"#).unwrap()
});
/// An import of something that only shows when it runs, or another program that is started.
#[expect(clippy::unwrap_used, reason = "the pattern is a constant, compiled by the tests")]
static WILD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"\brequire\s*\(\s*[^"'\s)]|\bimport\s*\(\s*[^"'\s)]|\bimport\.meta\.glob|child_process|\bexeca\b|\bworker_threads\b"#)
        .unwrap()
});

fn source(file: &str) -> bool {
    SOURCES.iter().any(|end| file.ends_with(end))
}

/// What a change affects.
pub(super) fn affected(facts: &dyn Facts, changed: &[String]) -> Affected {
    let manifest = Manifest::read(facts);
    let Some(runner) = tests::runner(facts) else {
        return Affected::everything("the test script cannot be told to run a part of the tests");
    };
    let (code, other): (Vec<&String>, Vec<&String>) = changed.iter().partition(|file| source(file));
    let shared = |file: &&&String| {
        let name = file.rsplit('/').next().unwrap_or(file);
        name.starts_with("package") && name.ends_with(".json")
            || name.starts_with("tsconfig")
            || name.contains(".config.")
            || name.starts_with('.')
            || name.contains("setup")
    };
    if let Some(file) = code.iter().find(shared) {
        return Affected::everything(format!("{file} changed"));
    }
    if let Some(file) = changed.iter().find(|file| overlooked(file) && !inert(file)) {
        return Affected::everything(format!("{file} is in a folder that is not looked at"));
    }
    if let Some(place) = own_patterns(facts, &manifest, runner) {
        return Affected::everything(format!("{place} says which files are tests"));
    }
    let Some(files) = walk(facts, &source) else {
        return Affected::everything("there are too many files to follow their imports");
    };
    let graph = graph(facts, &manifest, &files, changed);
    let unknown: Vec<String> = other
        .into_iter()
        .filter(|file| !inert(file) && !graph.knows(file) && !file.ends_with(".snap"))
        .cloned()
        .collect();
    if !unknown.is_empty() {
        return Affected::everything(format!("nothing tells who uses {}", some(&unknown)));
    }
    // A recorded output belongs to the test beside it.
    let recorded = changed.iter().filter_map(|file| file.strip_suffix(".snap")).map(|file| {
        let (place, name) = file.rsplit_once('/').unwrap_or(("", file));
        let place = place.strip_suffix("__snapshots__").unwrap_or(place).trim_end_matches('/');
        format!("{place}/{name}").trim_start_matches('/').to_owned()
    });
    let begin: Vec<String> = changed.iter().cloned().chain(recorded).collect();
    let reached = graph.reached(&begin);
    let there: BTreeSet<&String> = files.iter().collect();
    let tests: Vec<String> =
        reached.into_iter().filter(|file| there.contains(file) && is_test(file, runner)).collect();
    let one = if tests.len() == 1 { "file" } else { "files" };
    let why = format!("{} test {one}, by following imports", tests.len());
    Affected::of(tests, why)
}

/// Where the project says itself which files are tests: then their names do not tell.
fn own_patterns(facts: &dyn Facts, manifest: &Manifest, runner: Runner) -> Option<String> {
    let (starts, words): (&[&str], &[&str]) = match runner {
        Runner::Jest => (&["jest.config."], &["testMatch", "testRegex", "projects"]),
        Runner::Vitest => {
            (&["vitest.config.", "vite.config.", "vitest.workspace."], &["include", "projects", "workspace"])
        }
        Runner::Mocha => (&[".mocharc."], &["spec", "extension"]),
        Runner::Bun => (&["bunfig.toml"], &["root"]),
        Runner::NodeTest => (&[], &[]),
    };
    let says = |text: &str| words.iter().any(|word| text.contains(word));
    let files = facts.list(".").into_iter().filter(|name| starts.iter().any(|start| name.starts_with(start)));
    let mut files = files.filter(|name| facts.read(name).is_none_or(|text| says(&text)));
    if let Some(file) = files.next() {
        return Some(file);
    }
    let section =
        manifest.has_section(runner.name()) && facts.read("package.json").is_some_and(|text| says(&text));
    let script = manifest.script("test").unwrap_or_default();
    // A path or a pattern on the command line that is not where tests usually are.
    let usual = |word: &str| {
        let word = word.trim_matches(['"', '\'']).trim_start_matches("./");
        ["test", "tests", "spec", "__tests__"].iter().any(|place| word.split('/').any(|part| part == *place))
            || [".test.", ".spec."].iter().any(|mark| word.contains(mark))
    };
    let named = script.split_whitespace().any(|word| {
        !word.starts_with('-') && word.contains(['/', '*']) && !word.contains("node_modules") && !usual(word)
    });
    let config = ["--config", "--dir", "--root", "--project"].iter().any(|flag| script.contains(flag));
    (section || named || config).then(|| "package.json".to_owned())
}

/// The test files of a project; nothing when there are too many files to look at.
pub(super) fn test_files(facts: &dyn Facts, runner: Runner) -> Option<Vec<String>> {
    let files = walk(facts, &source)?;
    Some(files.into_iter().filter(|file| is_test(file, runner)).collect())
}

/// Whether a runner may take a file for a test file; those that match files by themselves leave out the others.
fn is_test(file: &str, runner: Runner) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    let stem = name.split('.').next().unwrap_or(name);
    let marked = name.contains(".test.")
        || name.contains(".spec.")
        || ["-test.", "_test.", "_spec."].iter().any(|mark| name.contains(mark))
        || stem == "test"
        || stem.starts_with("test-");
    let below = |names: &[&str]| folder(file).split('/').any(|part| names.contains(&part));
    let placed = match runner {
        Runner::Jest => below(&["__tests__"]),
        Runner::Mocha | Runner::NodeTest => below(&["test", "tests", "spec"]),
        Runner::Vitest | Runner::Bun => false,
    };
    (marked || placed) && !file.ends_with(".json")
}

/// What the sources of a project import of one another.
struct Imports {
    graph: Graph,
    data: BTreeSet<String>,
}

impl Imports {
    fn knows(&self, file: &str) -> bool {
        self.data.contains(file)
    }

    fn reached(&self, changed: &[String]) -> BTreeSet<String> {
        self.graph.reached(changed)
    }
}

fn graph(facts: &dyn Facts, manifest: &Manifest, files: &[String], changed: &[String]) -> Imports {
    // What was deleted is still imported by its name.
    let there: BTreeSet<&str> = files.iter().chain(changed).map(String::as_str).collect();
    let aliases = aliases(facts);
    let mut imports = Imports { graph: Graph::default(), data: BTreeSet::new() };
    for file in files.iter().filter(|file| !file.ends_with(".json")) {
        let Some(text) = facts.read(file) else {
            imports.graph.wild.insert(file.clone());
            continue;
        };
        for parts in QUOTED.captures_iter(&text) {
            let Some(word) = parts.get(1).or_else(|| parts.get(2)) else { continue };
            for target in targets(word.as_str(), folder(file), &aliases, &there) {
                imports.data.insert(target.clone());
                imports.graph.add(file, target);
            }
        }
        let stranger = |name: &str| {
            !name.starts_with('.')
                && targets(name, folder(file), &aliases, &there).is_empty()
                && !package(facts, manifest, name)
        };
        if WILD.is_match(&text) || IMPORT.captures_iter(&text).any(|parts| stranger(&parts[1])) {
            imports.graph.wild.insert(file.clone());
        }
    }
    imports
}

/// Whether a name is one of an installed package or of Node itself, so that it cannot be a file of the project.
fn package(facts: &dyn Facts, manifest: &Manifest, name: &str) -> bool {
    let mut parts = name.split('/');
    let first = parts.next().unwrap_or(name);
    let package = match first.starts_with('@') {
        true => format!("{first}/{}", parts.next().unwrap_or_default()),
        false => first.to_owned(),
    };
    name.starts_with("node:")
        || name.starts_with("bun:")
        || manifest.dependencies.contains(&package)
        || BUILT_IN.contains(&first)
        || super::manifest::ups().any(|above| facts.exists(&format!("{above}node_modules/{package}")))
}

const BUILT_IN: &[&str] = &[
    "assert",
    "buffer",
    "child_process",
    "cluster",
    "console",
    "crypto",
    "dns",
    "events",
    "fs",
    "http",
    "http2",
    "https",
    "module",
    "net",
    "os",
    "path",
    "perf_hooks",
    "process",
    "querystring",
    "readline",
    "stream",
    "string_decoder",
    "test",
    "timers",
    "tls",
    "url",
    "util",
    "v8",
    "vm",
    "worker_threads",
    "zlib",
];

/// Prefixes that stand for folders of the project: `paths` and `baseUrl` of tsconfig.json.
fn aliases(facts: &dyn Facts) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    let config = facts.read("tsconfig.json").or_else(|| facts.read("jsconfig.json"));
    let options = config.and_then(|text| jsonc(&text)).map(|value| value["compilerOptions"].clone());
    let Some(options) = options else { return found };
    let base = options["baseUrl"].as_str().map(str::to_owned);
    if let Some(base) = &base {
        found.insert(String::new(), vec![base.clone()]);
    }
    let base = base.unwrap_or_default();
    for (pattern, places) in options["paths"].as_object().into_iter().flatten() {
        let places = places.as_array().into_iter().flatten().filter_map(serde_json::Value::as_str);
        let places = places.map(|place| format!("{base}/{}", place.trim_end_matches('*'))).collect();
        found.insert(pattern.trim_end_matches('*').to_owned(), places);
    }
    found
}

/// The files of the project that a quoted text may mean: beside the file, from the project's folder, or through an
/// alias, with whatever ending an import leaves out.
fn targets(
    word: &str,
    place: &str,
    aliases: &BTreeMap<String, Vec<String>>,
    there: &BTreeSet<&str>,
) -> Vec<String> {
    let mut bases = vec![format!("{place}/{word}"), word.to_owned()];
    for (prefix, places) in aliases {
        if let Some(rest) = word.strip_prefix(prefix.as_str()) {
            bases.extend(places.iter().map(|place| format!("{place}/{rest}")));
        }
    }
    let mut found = Vec::new();
    for base in bases.iter().filter_map(|base| plain(base)).filter(|base| !base.is_empty()) {
        let stem = [".js", ".mjs", ".cjs", ".jsx"].iter().find_map(|end| base.strip_suffix(end));
        let mut names = vec![base.clone()];
        for start in [Some(base.as_str()), stem].into_iter().flatten() {
            names.extend(SOURCES.iter().map(|end| format!("{start}{end}")));
        }
        names.extend(SOURCES.iter().map(|end| format!("{base}/index{end}")));
        found.extend(names.into_iter().filter(|name| there.contains(name.as_str())));
    }
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod unit {
    use super::*;
    use crate::MapFacts;

    fn say(changed: &[&str]) -> String {
        let mut facts = MapFacts::default();
        for (name, text) in [
            ("package.json", r#"{"devDependencies": {"vitest": "*", "left-pad": "*"}}"#),
            (
                "tsconfig.json",
                r#"{"compilerOptions": {"paths": {"@lib/*": ["src/*"]}}} // it is JSON with comments"#,
            ),
            ("src/a.ts", "export const a = 1;"),
            ("src/b.ts", "import pad from 'left-pad';\nexport { a } from './a.js';"),
            ("src/deep/index.ts", "import { b } from '@lib/b';"),
            ("src/a.test.ts", "import { a } from './a';"),
            ("src/b.test.ts", "import '../src/deep';"),
            ("src/data.test.ts", "readFileSync('fixtures/one.json'); vi.mock('./c')"),
            ("fixtures/one.json", "{}"),
            ("src/c.ts", ""),
        ] {
            facts.files.insert(name.to_owned(), text.to_owned());
        }
        let changed: Vec<String> = changed.iter().map(|file| (*file).to_owned()).collect();
        match affected(&facts, &changed) {
            Affected::Units { units, .. } => units.join(" "),
            Affected::Everything { why } => format!("everything: {why}"),
            Affected::Nothing { .. } => "nothing".to_owned(),
        }
    }

    #[test]
    fn tests_are_found_through_what_they_import() {
        assert_eq!(say(&["src/a.ts"]), "src/a.test.ts src/b.test.ts");
        assert_eq!(say(&["src/b.ts"]), "src/b.test.ts");
        assert_eq!(say(&["src/c.ts"]), "src/data.test.ts");
        assert_eq!(say(&["fixtures/one.json"]), "src/data.test.ts");
        assert_eq!(say(&["src/b.test.ts"]), "src/b.test.ts");
        assert_eq!(say(&["src/__snapshots__/a.test.ts.snap"]), "src/a.test.ts");
        assert_eq!(say(&["docs/x.md"]), "nothing");
        assert!(say(&["package-lock.json"]).starts_with("everything"));
        assert!(say(&["vitest.config.ts"]).starts_with("everything"));
        assert!(say(&["assets/x.bin"]).starts_with("everything: nothing tells who uses assets/x.bin"));
    }
}
