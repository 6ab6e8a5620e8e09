//! Who may use whom, and the gates: held against the tables in ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::steps::{Verdict, capture};

/// The only files that may hold `unsafe` code.
const UNSAFE_HOME: &str = "crates/sandbox/src/sys";

/// How a test that is ignored says that another test runs it.
const HELPER_REASONS: &[&str] = &["\"run by ", "for the tests above\""];

/// Where a lint that holds a gate may be set aside: the gate itself, and what is not part of the product.
const GATE_KEEPERS: &[&str] =
    &["crates/sandbox/", "crates/config/src/", "crates/testkit/", "xtask/", "bench/", "examples/"];

/// Product code that asks `workspace` for files: it neither names a module of file functions nor asks a path about the
/// disk.
const ASKS_FOR_FILES: &[&str] = &[
    "crates/code/src/",
    "crates/lsp/src/",
    "crates/scrub/src/",
    "crates/server/src/",
    "crates/tools/src/",
    "crates/verify/src/",
];

/// Those of it that use the disk themselves, and why that is no file of a workspace.
const OWN_FILES: &[(&str, &str)] = &[
    ("crates/server/src/found.rs", "looks for names at a root before there is a workspace; opens nothing"),
    ("crates/server/src/place.rs", "makes a folder in the state folder"),
    ("crates/tools/src/code/lsp/memory.rs", "reads /proc"),
    ("crates/tools/src/shell/capture.rs", "spools output into an unnamed temporary file"),
];

/// Questions that a path asks the disk.
const ASKED_BY_A_PATH: &[&str] = &[
    ".canonicalize()",
    ".exists()",
    ".is_dir()",
    ".is_file()",
    ".is_symlink()",
    ".metadata()",
    ".read_dir()",
    ".read_link()",
    ".symlink_metadata()",
    ".try_exists()",
];

/// Holds the workspace at `root` against the rules.
pub(crate) fn verdict(root: &Path) -> Result<Verdict> {
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).context("reading ARCHITECTURE.md")?;
    let rules = Rules::parse(&text)?;
    let printed = capture(Command::new("cargo").current_dir(root).args([
        "metadata",
        "--quiet",
        "--no-deps",
        "--offline",
        "--format-version",
        "1",
    ]))?;
    if !printed.success {
        bail!("{}", printed.text);
    }
    let packages = packages(&printed.text, root)?;
    let mut problems = rules.problems(&packages);
    let mut files = Vec::new();
    for package in &packages {
        rust_files(&root.join(&package.folder), &mut files)?;
        let manifest = root.join(&package.folder).join("Cargo.toml");
        let manifest =
            fs::read_to_string(&manifest).with_context(|| format!("reading {}", manifest.display()))?;
        if !manifest.contains("[lints]\nworkspace = true") {
            problems.push(format!("{}: Cargo.toml does not take the workspace's lints", package.folder));
        }
    }
    for file in &files {
        let name = file.strip_prefix(root).unwrap_or(file).to_string_lossy().into_owned();
        let source = fs::read_to_string(file).with_context(|| format!("reading {name}"))?;
        problems.extend(gate_problems(&name, &source));
    }
    if problems.is_empty() {
        let edges: usize = packages.iter().map(|package| package.uses.len()).sum();
        Ok(Verdict::Passed(format!("{} crates, {edges} dependencies, {} files", packages.len(), files.len())))
    } else {
        problems.sort();
        Ok(Verdict::Failed(format!("{}\nThe rules are in ARCHITECTURE.md.", problems.join("\n"))))
    }
}

/// A member of the workspace.
#[derive(Debug)]
struct Package {
    /// Its folder, relative to the root.
    folder: String,
    /// What it depends on: the dependency's folder for ours, its name for others, and whether it ships.
    uses: Vec<Use>,
}

#[derive(Debug)]
struct Use {
    target: Target,
    tests_only: bool,
}

#[derive(Debug)]
enum Target {
    Ours(String),
    Foreign(String),
}

/// What ARCHITECTURE.md allows.
#[derive(Debug, Default)]
struct Rules {
    /// Folder of a crate, and the folders of ours that it may use.
    rooms: BTreeMap<String, BTreeSet<String>>,
    /// Name of a foreign crate, and the folders of those that may use it.
    edges: BTreeMap<String, BTreeSet<String>>,
}

impl Rules {
    fn parse(text: &str) -> Result<Self> {
        let mut rules = Self::default();
        for row in rows(text, "## Rooms") {
            let [first, .., last] = row.as_slice() else {
                bail!("a row of the table under Rooms has no columns")
            };
            let Some(folder) = quoted(first).into_iter().next() else { bail!("`{first}` names no crate") };
            let allowed = match last.as_str() {
                "nothing" => BTreeSet::new(),
                "all of the above" => rules.rooms.keys().cloned().collect(),
                list => quoted(list).into_iter().map(|name| folder_of(&name)).collect(),
            };
            rules.rooms.insert(folder_of(&folder), allowed);
        }
        for row in rows(text, "## Foreign crates kept at the edge") {
            let [names, users, ..] = row.as_slice() else {
                bail!("a row of the table of foreign crates is too short")
            };
            let users: BTreeSet<String> = quoted(users).into_iter().map(|name| folder_of(&name)).collect();
            for name in quoted(names) {
                rules.edges.insert(name, users.clone());
            }
        }
        if rules.rooms.is_empty() || rules.edges.is_empty() {
            bail!(
                "ARCHITECTURE.md has lost its table under \"Rooms\" or \"Foreign crates kept at the edge\""
            );
        }
        Ok(rules)
    }

    fn problems(&self, packages: &[Package]) -> Vec<String> {
        let mut problems = Vec::new();
        for package in packages {
            let user = &package.folder;
            // Strangers' examples use what a stranger may use: the public crates, whichever.
            let free = user.starts_with("examples/");
            let allowed = self.rooms.get(user);
            if allowed.is_none() && !free {
                problems.push(format!("{user}: is not in the table of ARCHITECTURE.md"));
            }
            for used in &package.uses {
                match &used.target {
                    Target::Ours(target) => {
                        // A crate's tests may ask for itself, with other features.
                        let helps_tests = used.tests_only && (target == "crates/testkit" || target == user);
                        if !free && !helps_tests && !allowed.is_some_and(|allowed| allowed.contains(target)) {
                            problems.push(format!("{user}: may not use {target}"));
                        }
                    }
                    Target::Foreign(name) => {
                        let users = self.edges.get(name);
                        if !free && !used.tests_only && users.is_some_and(|users| !users.contains(user)) {
                            problems.push(format!("{user}: may not use the crate {name}"));
                        }
                    }
                }
            }
        }
        problems
    }
}

/// The rows of the first table after a heading, without its head.
fn rows(text: &str, heading: &str) -> Vec<Vec<String>> {
    let after = text.lines().skip_while(|line| line.trim() != heading).skip(1);
    let section = after.take_while(|line| !line.starts_with("## "));
    let table = section.filter(|line| line.starts_with('|')).skip(2);
    table.map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

/// The words in back quotes.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn folder_of(name: &str) -> String {
    if name.contains('/') || name == "xtask" || name == "bench" {
        name.to_owned()
    } else {
        format!("crates/{name}")
    }
}

fn packages(metadata: &str, root: &Path) -> Result<Vec<Package>> {
    let metadata: Value =
        serde_json::from_str(metadata).context("`cargo metadata` printed something else than JSON")?;
    let list = metadata["packages"].as_array().context("`cargo metadata` lists no packages")?;
    let relative = |path: &Path| path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
    let mut packages = Vec::new();
    for package in list {
        let manifest = Path::new(package["manifest_path"].as_str().context("a package without a manifest")?);
        let folder = relative(manifest.parent().context("a manifest without a folder")?);
        let dependencies = package["dependencies"].as_array().context("a package without dependencies")?;
        let uses = dependencies.iter().map(|dependency| {
            let target = match dependency["path"].as_str() {
                Some(path) => Target::Ours(relative(Path::new(path))),
                None => Target::Foreign(dependency["name"].as_str().unwrap_or_default().to_owned()),
            };
            Use { target, tests_only: dependency["kind"] == "dev" }
        });
        packages.push(Package { folder, uses: uses.collect() });
    }
    Ok(packages)
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        // Fixtures are other people's code in other people's style.
        let skipped = path.file_name().is_some_and(|name| name == "target" || name == "fixtures");
        if path.is_dir() && !skipped {
            rust_files(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

/// What a source file does that only another place may do.
fn gate_problems(name: &str, source: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let is_test = name.contains("/tests/") || name.contains("/benches/");
    let keeper = is_test || GATE_KEEPERS.iter().any(|keeper| name.starts_with(keeper));
    let raw = |number: usize| source.lines().nth(number - 1).unwrap_or_default();
    for (number, line) in code_lines(source) {
        let at = |what: &str| format!("{name}:{number}: {what}");
        if !name.starts_with(UNSAFE_HOME) && (has_word(&line, "unsafe") || line.contains("(unsafe_code")) {
            problems.push(at("`unsafe` belongs into sandbox::sys"));
        }
        if line.contains("#[ignore") && !HELPER_REASONS.iter().any(|reason| raw(number).contains(reason)) {
            problems.push(at("a test may only be ignored when another one runs it, and must name it"));
        }
        if !keeper && line.contains("clippy::disallowed_methods") {
            problems.push(at("sets a gate's lint aside: ask the crate that owns the gate"));
        }
    }
    problems.extend(file_problems(name, source));
    problems
}

/// Where a source file goes to the disk past `workspace`. A module of tests at its end may.
fn file_problems(name: &str, source: &str) -> Vec<String> {
    if !ASKS_FOR_FILES.iter().any(|place| name.starts_with(place)) || name.ends_with("/tests.rs") {
        return Vec::new();
    }
    let lines: Vec<(usize, String)> = code_lines(source).collect();
    let tests = lines.windows(2).position(|pair| {
        pair[0].1.trim() == "#[cfg(test)]" && pair[1].1.starts_with("mod ") && pair[1].1.ends_with('{')
    });
    let product = &lines[..tests.unwrap_or(lines.len())];
    let asks = |line: &str| has_word(line, "fs") || ASKED_BY_A_PATH.iter().any(|asked| line.contains(asked));
    let found = product.iter().filter(|(_, line)| asks(line));
    let found: Vec<String> = found
        .map(|(number, _)| format!("{name}:{number}: goes to the disk: files are opened by `workspace`"))
        .collect();
    match OWN_FILES.iter().find(|(own, _)| *own == name) {
        Some(_) if found.is_empty() => vec![format!("{name}: need not be in OWN_FILES any more")],
        Some(_) => Vec::new(),
        None => found,
    }
}

/// Lines with comments and the content of string literals taken out, numbered from 1.
fn code_lines(source: &str) -> impl Iterator<Item = (usize, String)> {
    let mut in_string = false;
    source.lines().enumerate().map(move |(index, line)| (index + 1, strip(line, &mut in_string)))
}

fn strip(line: &str, in_string: &mut bool) -> String {
    let mut code = String::new();
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match (*in_string, character) {
            (true, '\\') => drop(characters.next()),
            (true, '"') => *in_string = false,
            (true, _) => {}
            (false, '\'') if characters.peek() == Some(&'"') => drop(characters.next()),
            (false, '"') => {
                // That there is a text is told.
                code.push('"');
                *in_string = true;
            }
            (false, '/') if characters.peek() == Some(&'/') => break,
            (false, other) => code.push(other),
        }
    }
    code
}

fn has_word(line: &str, word: &str) -> bool {
    line.split(|character: char| !character.is_alphanumeric() && character != '_').any(|found| found == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLES: &str = "\
# Title

## Rooms

| crate | holds | may use of ours |
|---|---|---|
| `crates/files` | files | nothing |
| `crates/tools` | tools | all of the above |
| `xtask` | checks | `files` |

## Foreign crates kept at the edge

| crates | used only by |
|---|---|
| `rmcp`, `axum` | `tools` |
";

    /// A workspace in a temporary folder: each crate with its dependencies and its source.
    fn sample(crates: &[(&str, &str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::write(root.join("ARCHITECTURE.md"), TABLES).unwrap();
        fs::write(
            root.join("Cargo.toml"),
            "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\"]\n[workspace.lints]\n",
        )
        .unwrap();
        for (name, dependencies, source) in crates {
            let crate_folder = root.join("crates").join(name);
            fs::create_dir_all(crate_folder.join("src")).unwrap();
            let manifest = format!(
                "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[lints]\nworkspace = true\n{dependencies}"
            );
            fs::write(crate_folder.join("Cargo.toml"), manifest).unwrap();
            fs::write(crate_folder.join("src/lib.rs"), source).unwrap();
        }
        folder
    }

    fn check(crates: &[(&str, &str, &str)]) -> Result<String, String> {
        let folder = sample(crates);
        match verdict(folder.path()).unwrap() {
            Verdict::Failed(text) => Err(text),
            Verdict::Passed(text) | Verdict::NotChecked(text) => Ok(text),
        }
    }

    #[test]
    fn the_allowed_direction_passes() {
        let files = ("files", "", "");
        let tools = ("tools", "[dependencies]\nfiles = { path = \"../files\" }\n", "");
        assert_eq!(check(&[files, tools]), Ok("2 crates, 1 dependencies, 2 files".to_owned()));
    }

    #[test]
    fn the_other_direction_fails() {
        let files = ("files", "[dependencies]\ntools = { path = \"../tools\" }\n", "");
        let tools = ("tools", "", "");
        let problems = check(&[files, tools]).unwrap_err();
        assert!(problems.contains("crates/files: may not use crates/tools"), "{problems}");
    }

    #[test]
    fn a_crate_that_the_table_does_not_know_fails() {
        let problems = check(&[("files", "", ""), ("tools", "", ""), ("extra", "", "")]).unwrap_err();
        assert!(problems.contains("crates/extra: is not in the table"), "{problems}");
    }

    #[test]
    fn a_foreign_crate_of_the_edge_fails_elsewhere() {
        let files = ("files", "[dependencies]\naxum = \"0.8\"\n", "");
        let problems = check(&[files, ("tools", "[dependencies]\naxum = \"0.8\"\n", "")]).unwrap_err();
        assert!(problems.contains("crates/files: may not use the crate axum"), "{problems}");
        assert!(!problems.contains("crates/tools: may not"), "{problems}");
    }

    #[test]
    fn unsafe_code_and_a_gate_set_aside_fail() {
        let source = "// unsafe in a comment\nconst A: &str = \"unsafe in a string\";\nunsafe fn f() {}\n\
            #[expect(clippy::disallowed_methods, reason = \"\")]\nfn g() {}\n";
        let problems = check(&[("files", "", source), ("tools", "", "")]).unwrap_err();
        assert!(problems.contains("crates/files/src/lib.rs:3: `unsafe` belongs"), "{problems}");
        assert!(problems.contains("crates/files/src/lib.rs:4: sets a gate's lint aside"), "{problems}");
        assert_eq!(problems.lines().count(), 3, "{problems}");
    }

    #[test]
    fn going_to_the_disk_past_the_workspace_fails() {
        let source = "use std::{\n    fs,\n    path::Path,\n};\n// fs in a comment\nfn f(path: &Path) -> bool {\n    \
            path.exists()\n}\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n";
        let problems = check(&[("files", "", source), ("tools", "", source)]).unwrap_err();
        for line in [2, 7] {
            let told = format!("crates/tools/src/lib.rs:{line}: goes to the disk");
            assert!(problems.contains(&told), "{problems}");
        }
        assert_eq!(problems.lines().count(), 3, "{problems}");
        let (exempt, _) = OWN_FILES[0];
        assert!(gate_problems(exempt, source).is_empty());
        assert_eq!(gate_problems(exempt, "fn f() {}\n").len(), 1);
    }

    #[test]
    fn a_test_that_nobody_runs_fails() {
        let source =
            "#[test]\n#[ignore = \"slow\"]\nfn a() {}\n#[test]\n#[ignore = \"run by b\"]\nfn c() {}\n";
        let problems = gate_problems("crates/files/tests/suite/main.rs", source);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(
            problems[0].starts_with("crates/files/tests/suite/main.rs:2: a test may only"),
            "{problems:?}"
        );
    }

    #[test]
    fn this_project_holds_its_own_rules() {
        let root = crate::project_root().unwrap();
        let text = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
        let rules = Rules::parse(&text).unwrap();
        assert!(rules.rooms["crates/tools"].contains("crates/sandbox"));
        assert!(rules.rooms["crates/verify"].is_empty());
    }
}
