//! Which commands verify a Go project.

use crate::{Facts, LintAsk, Plan, Scope, TestAsk, TestId};
use std::collections::{BTreeMap, BTreeSet};

/// How much earlier than the caller `go test` gives up by itself: its own report of a hanging test names the
/// test and shows where it hangs.
const OWN_TIMEOUT_MARGIN: u64 = 3;

/// Configuration files golangci-lint reads.
const LINT_CONFIGS: [&str; 4] = [".golangci.yml", ".golangci.yaml", ".golangci.toml", ".golangci.json"];

/// The commands that run tests: one for everything, one per package for an exact selection.
pub(super) fn tests(ask: &TestAsk) -> Vec<Plan> {
    let whole = base(ask.timeout_seconds);
    if !ask.only.is_empty() {
        return exact(&whole, &ask.only);
    }
    let mut plan = whole;
    let (packages, names): (Vec<&String>, Vec<&String>) =
        ask.names.iter().partition(|name| is_package(name.as_str()));
    if !names.is_empty() {
        let patterns: Vec<String> = names.iter().map(|name| pattern(&bare(name))).collect();
        plan.args.extend(["-run".to_owned(), patterns.join("|")]);
        plan.why.push("-run with every level anchored selects exactly the named tests".to_owned());
        plan.memo = serde_json::json!({ "names": names });
    }
    match packages.is_empty() && ask.units.is_empty() {
        true => plan.args.push("./...".to_owned()),
        false => plan.args.extend(packages.into_iter().chain(&ask.units).cloned()),
    }
    vec![plan]
}

fn base(timeout_seconds: u64) -> Plan {
    let mut plan = Plan {
        runner: "go test",
        program: "go".to_owned(),
        args: ["test", "-json", "-fullpath", "-count=1"].map(str::to_owned).to_vec(),
        why: vec![
            "go.mod: go test; -json reports each test, -count=1 runs it instead of answering from the cache"
                .to_owned(),
        ],
        ..Plan::default()
    };
    if timeout_seconds > 0 {
        let own = if timeout_seconds > 3 * OWN_TIMEOUT_MARGIN {
            timeout_seconds - OWN_TIMEOUT_MARGIN
        } else {
            timeout_seconds
        };
        plan.args.push(format!("-timeout={own}s"));
        plan.why.push("-timeout a little below the caller's, so that Go itself names what hangs".to_owned());
    }
    plan
}

fn exact(whole: &Plan, only: &[TestId]) -> Vec<Plan> {
    let mut by_package: BTreeMap<&str, Vec<&TestId>> = BTreeMap::new();
    for id in only {
        by_package.entry(&id.unit).or_default().push(id);
    }
    by_package
        .into_iter()
        .map(|(package, ids)| {
            let mut plan = whole.clone();
            // A failure of the package itself (TestMain) has no name: then all of it runs again.
            if ids.iter().all(|id| !id.path.is_empty()) {
                let patterns: Vec<String> = ids.iter().map(|id| pattern(&id.path.join("/"))).collect();
                plan.args.extend(["-run".to_owned(), patterns.join("|")]);
                plan.memo = serde_json::json!({ "only": ids });
            }
            plan.args.push(package.to_owned());
            plan.why.push(format!("exactly the {} test(s) of {package}", ids.len()));
            plan
        })
        .collect()
}

/// A `-run` pattern that matches this test and no other: Go matches level by level between slashes.
fn pattern(name: &str) -> String {
    let levels: Vec<String> = name.split('/').map(|level| format!("^{}$", regex::escape(level))).collect();
    levels.join("/")
}

/// A name as Go knows it: `calc.TestAdd` and `example.com/calc.TestAdd` mean `TestAdd`.
pub(super) fn bare(name: &str) -> String {
    let first = name.split('/').next().unwrap_or(name);
    let known =
        |text: &str| ["Test", "Fuzz", "Example", "Benchmark"].iter().any(|kind| text.starts_with(kind));
    if known(first) {
        return name.to_owned();
    }
    name.match_indices('.').map(|(at, _)| &name[at + 1..]).find(|rest| known(rest)).unwrap_or(name).to_owned()
}

fn is_package(name: &str) -> bool {
    name.starts_with("./") || name == "." || name.ends_with("/...")
}

/// The module's path.
pub(super) fn module(facts: &dyn Facts) -> Option<String> {
    let text = facts.read("go.mod")?;
    let name = text.lines().find_map(|line| line.trim().strip_prefix("module "))?;
    Some(name.trim().trim_matches('"').to_owned())
}

/// A run of each package that records which lines of the whole module it reaches.
pub(super) fn coverage(facts: &dyn Facts, ask: &TestAsk) -> Result<Vec<Plan>, String> {
    let files = crate::affected::walk(facts, &|name| name.ends_with("_test.go"));
    let files = files.ok_or("there are too many files to look at")?;
    let folders = files.iter().map(|file| crate::affected::folder(file));
    let folders: BTreeSet<&str> =
        folders.filter(|folder| folder.split('/').all(|part| part != "testdata")).collect();
    if folders.is_empty() {
        return Err("no package has tests".to_owned());
    }
    let one = |folder: &str| {
        let mut plan = base(ask.timeout_seconds);
        let report = facts.scratch().join(COVER_REPORT);
        plan.args.extend(["-coverpkg=./...".to_owned(), format!("-coverprofile={}", report.display())]);
        plan.args.push(format!("./{folder}"));
        plan.report = Some(COVER_REPORT.to_owned());
        plan.memo = serde_json::json!({ "unit": format!("./{folder}") });
        plan.why = vec!["package by package, so that the lines can be told apart".to_owned()];
        plan
    };
    Ok(folders.into_iter().map(one).collect())
}

const COVER_REPORT: &str = "cover.out";

/// The command that lints.
pub(super) fn lint(facts: &dyn Facts, ask: &LintAsk) -> Plan {
    let config = LINT_CONFIGS.iter().find(|name| facts.exists(name));
    let mut args: Vec<String> = [
        "run",
        "--show-stats=false",
        "--path-mode=abs",
        "--issues-exit-code=1",
        "--max-issues-per-linter=0",
        "--max-same-issues=0",
        "--allow-parallel-runners",
    ]
    .map(str::to_owned)
    .to_vec();
    args.insert(1, format!("--output.json.path={}", facts.scratch().join(LINT_REPORT).display()));
    if ask.fix {
        args.push("--fix".to_owned());
    }
    args.push(packages(&ask.scope));
    Plan {
        runner: "golangci-lint",
        program: "golangci-lint".to_owned(),
        args,
        report: Some(LINT_REPORT.to_owned()),
        why: vec![match config {
            Some(name) => format!("golangci-lint with the project's {name}"),
            None => "golangci-lint with its default linters: the project has no configuration".to_owned(),
        }],
        ..Plan::default()
    }
}

const LINT_REPORT: &str = "golangci.json";

/// The command that checks types.
pub(super) fn vet(ask: &LintAsk) -> Plan {
    Plan {
        runner: "go vet",
        program: "go".to_owned(),
        args: vec!["vet".to_owned(), "-json".to_owned(), packages(&ask.scope)],
        why: vec![
            "go vet compiles every package with its tests and reports suspicious constructs".to_owned(),
        ],
        ..Plan::default()
    }
}

/// Linters work by package: a single file would be checked without its siblings.
fn packages(scope: &Scope) -> String {
    match scope {
        Scope::Project => "./...".to_owned(),
        Scope::File(file) => match file.rsplit_once('/') {
            Some((folder, _)) => format!("./{folder}"),
            None => ".".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_are_selected_exactly() {
        assert_eq!(pattern(r"TestSub/x+y(z)[1]*$^|\"), r"^TestSub$/^x\+y\(z\)\[1\]\*\$\^\|\\$");
        assert_eq!(pattern("TestSub/c/d"), "^TestSub$/^c$/^d$");
        assert_eq!(bare("example.com/mixed/calc.TestSub/a.b"), "TestSub/a.b");
        assert_eq!(bare("calc.TestAdd"), "TestAdd");
        assert_eq!(bare("TestAdd/calc.TestX"), "TestAdd/calc.TestX");
    }

    #[test]
    fn an_exact_selection_runs_package_by_package() {
        let id = |unit: &str, path: &[&str]| TestId {
            unit: unit.to_owned(),
            path: path.iter().map(|part| (*part).to_owned()).collect(),
        };
        let only = vec![id("m/b", &["TestB"]), id("m/a", &["TestA", "x y"]), id("m/b", &["TestC"])];
        let plans = tests(&TestAsk { only, timeout_seconds: 300, ..TestAsk::default() });
        let lines: Vec<String> = plans.iter().map(|plan| plan.args[4..].join(" ")).collect();
        assert_eq!(lines, ["-timeout=297s -run ^TestA$/^x y$ m/a", "-timeout=297s -run ^TestB$|^TestC$ m/b"]);
    }
}
