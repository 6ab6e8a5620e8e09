//! Which commands verify a Rust project.

use super::{
    manifest::{self, Members},
    packages,
};
use crate::{Facts, Injected, LintAsk, Plan, Scope, TestAsk, TestId, TestRun};
use std::collections::BTreeMap;

/// How often a test process that keeps dying is started again to name the next culprit.
const ROUNDS: u64 = 8;

const NEXTEST_PROFILE: &str = "codegen-sandbox";
const NEXTEST_CONFIG: &str = "nextest-tool.toml";
const NEXTEST_REPORT: &str = "nextest-junit.xml";

/// The commands that run tests.
pub(super) fn tests(facts: &dyn Facts, ask: &TestAsk) -> Vec<Plan> {
    let configured = manifest::configures_nextest(facts);
    if configured && facts.which("cargo-nextest").is_some() {
        return nextest(facts, ask);
    }
    let mut whole = cargo_test();
    if configured {
        let why = ".config/nextest.toml is there, but cargo-nextest is not installed: cargo test instead";
        whole.why.push(why.to_owned());
    }
    if !ask.only.is_empty() {
        return by_unit(&ask.only).into_iter().map(|(unit, ids)| exact(&whole, unit, &ids)).collect();
    }
    chosen(facts, ask, &mut whole);
    if !ask.names.is_empty() {
        whole.args.push("--".to_owned());
        whole.args.extend(ask.names.iter().cloned());
        whole.why.push("names select every test that contains one of them".to_owned());
        whole.memo = serde_json::json!({ "names": ask.names });
    }
    vec![whole]
}

fn cargo_test() -> Plan {
    Plan {
        runner: "cargo test",
        program: "cargo".to_owned(),
        args: ["test", "--no-fail-fast", "--message-format=json"].map(str::to_owned).to_vec(),
        env: quiet(),
        // The order of cargo's lines among those of the tests says which target they belong to.
        merged: true,
        why: vec!["Cargo.toml: cargo test; --no-fail-fast runs every target".to_owned()],
        ..Plan::default()
    }
}

pub(super) fn quiet() -> Vec<(String, String)> {
    [("CARGO_TERM_COLOR", "never"), ("NO_COLOR", "1"), ("RUST_BACKTRACE", "0")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
}

/// The packages that are wanted: those named, or what the workspace means by all.
fn chosen(facts: &dyn Facts, ask: &TestAsk, plan: &mut Plan) {
    if ask.units.is_empty() {
        return members(facts, plan);
    }
    plan.args.extend(ask.units.iter().flat_map(|package| ["-p".to_owned(), package.clone()]));
}

fn members(facts: &dyn Facts, plan: &mut Plan) {
    match manifest::members(facts) {
        Members::Single => {}
        Members::Chosen => plan.why.push("the workspace's default-members are used".to_owned()),
        Members::All => {
            plan.args.push("--workspace".to_owned());
            plan.why.push("--workspace: without it a root package would hide the other members".to_owned());
        }
    }
}

fn by_unit(only: &[TestId]) -> BTreeMap<&str, Vec<&TestId>> {
    let mut units: BTreeMap<&str, Vec<&TestId>> = BTreeMap::new();
    for id in only {
        units.entry(&id.unit).or_default().push(id);
    }
    units
}

/// A rerun of some tests of one target; the target's own arguments are its unit.
fn exact(whole: &Plan, unit: &str, ids: &[&TestId]) -> Plan {
    let mut plan = whole.clone();
    plan.args.extend(unit.split_whitespace().map(str::to_owned));
    plan.why.push(format!("exactly the {} test(s) of {unit}", ids.len()));
    let names: Vec<String> =
        ids.iter().map(|id| id.path.join("::")).filter(|name| !name.is_empty()).collect();
    // A target with its own harness has no names: all of it runs again.
    if names.len() < ids.len() {
        return plan;
    }
    plan.args.push("--".to_owned());
    if unit.ends_with("--doc") {
        let items: Vec<String> = names.iter().map(|name| doctest_item(name).to_owned()).collect();
        let mut words: Vec<String> = items.iter().map(|item| doctest_word(item).to_owned()).collect();
        words.sort();
        words.dedup();
        plan.args.extend(words);
        plan.why.push(
            "doctests are selected by a word of their names: rustdoc takes no more, and lines move"
                .to_owned(),
        );
        plan.memo = serde_json::json!({ "names": items });
    } else {
        plan.args.push("--exact".to_owned());
        plan.args.extend(names.iter().cloned());
        plan.memo = serde_json::json!({ "only": names });
    }
    plan
}

/// `src/lib.rs - add` of `src/lib.rs - add (line 5)`.
fn doctest_item(name: &str) -> &str {
    name.find("(line ").map_or(name, |at| &name[..at + "(line ".len()])
}

/// The word that selects a doctest best. rustdoc splits what it is given at spaces, so that a whole name cannot be.
fn doctest_word(item: &str) -> &str {
    let (file, rest) = item.split_once(" - ").unwrap_or((item, ""));
    let name = rest.trim_end_matches("(line ").trim();
    if name.is_empty() || name.contains(' ') { file } else { name }
}

fn nextest(facts: &dyn Facts, ask: &TestAsk) -> Vec<Plan> {
    // The tests of cargo's own units: doctests, and targets with a harness that nextest cannot talk to.
    let (cargos, own): (Vec<&TestId>, Vec<&TestId>) =
        ask.only.iter().partition(|id| id.unit.starts_with('-'));
    if ask.only.is_empty() {
        let strange = packages::own_harness(facts);
        let mut plans = vec![nextest_run(facts, ask, &strange, &own)];
        plans.extend(beside_nextest(facts, ask, &strange));
        if plans.len() > 1 {
            // That it finds nothing is no failure where something else may have the tests.
            plans[0].env.push(("NEXTEST_NO_TESTS".to_owned(), "pass".to_owned()));
        }
        return plans;
    }
    let mut plans = Vec::new();
    if !own.is_empty() {
        plans.push(nextest_run(facts, ask, &[], &own));
    }
    let ids: Vec<TestId> = cargos.into_iter().cloned().collect();
    plans.extend(by_unit(&ids).into_iter().map(|(unit, ids)| exact(&cargo_test(), unit, &ids)));
    plans
}

fn nextest_run(facts: &dyn Facts, ask: &TestAsk, strange: &[(String, String)], own: &[&TestId]) -> Plan {
    let report = facts.scratch().join(NEXTEST_REPORT);
    // A profile of our own inherits the project's default one and wins where that writes a report elsewhere.
    let config = format!(
        "[profile.{NEXTEST_PROFILE}.junit]\npath = {:?}\nstore-success-output = true\nstore-failure-output = true\n",
        report.display().to_string()
    );
    let mut plan = Plan {
        runner: "nextest",
        program: "cargo".to_owned(),
        args: ["nextest", "run", "--no-fail-fast", "--profile", NEXTEST_PROFILE, "--tool-config-file"]
            .map(str::to_owned)
            .to_vec(),
        needs: vec!["cargo-nextest".to_owned()],
        env: quiet(),
        inject: vec![Injected { name: NEXTEST_CONFIG.to_owned(), content: config.into() }],
        report: Some(NEXTEST_REPORT.to_owned()),
        why: vec![".config/nextest.toml: the project uses nextest".to_owned()],
        ..Plan::default()
    };
    plan.args.push(format!("codegen-sandbox:{}", facts.scratch().join(NEXTEST_CONFIG).display()));
    chosen(facts, ask, &mut plan);
    if !own.is_empty() {
        let each = |id: &&TestId| format!("(binary_id({}) & test(={}))", id.unit, id.path.join("::"));
        plan.args.extend(["-E".to_owned(), own.iter().map(each).collect::<Vec<_>>().join(" | ")]);
        plan.memo = serde_json::json!({ "only": own });
    } else if !strange.is_empty() {
        let each = |(package, target): &(String, String)| format!("not binary_id(={package}::{target})");
        plan.args.extend(["-E".to_owned(), strange.iter().map(each).collect::<Vec<_>>().join(" and ")]);
        plan.why
            .push("targets with a harness of their own are left out: nextest cannot list them".to_owned());
    }
    plan.args.extend(ask.names.iter().cloned());
    plan
}

/// What nextest does not run: doctests, and targets with a harness of their own.
fn beside_nextest(facts: &dyn Facts, ask: &TestAsk, strange: &[(String, String)]) -> Vec<Plan> {
    let mut plans = Vec::new();
    // Such a target has no names to select by.
    let strange: Vec<&(String, String)> =
        strange.iter().filter(|(package, _)| ask.units.is_empty() || ask.units.contains(package)).collect();
    if !strange.is_empty() && ask.names.is_empty() {
        let mut plan = cargo_test();
        for (package, target) in strange {
            plan.args.extend(["-p", package, "--test", target].map(str::to_owned));
        }
        plan.why.push("a harness of its own is run by cargo test: nextest cannot list its tests".to_owned());
        plans.push(plan);
    }
    if let Some(chosen) = packages::doctests(facts, &ask.units) {
        let mut doctests = cargo_test();
        doctests.args.push("--doc".to_owned());
        doctests.args.extend(chosen);
        doctests.why.push("nextest does not run doctests".to_owned());
        if !ask.names.is_empty() {
            doctests.args.push("--".to_owned());
            doctests.args.extend(ask.names.iter().cloned());
        }
        plans.push(doctests);
    }
    plans
}

/// The next command that a run asks for: a target that died is run test by test, to name the culprit; then
/// without it, to hear of the others.
pub(super) fn follow_up(plan: &Plan, run: &mut TestRun) -> Option<Plan> {
    if plan.runner != "cargo test" {
        return None;
    }
    if let Some(unit) = run.carry["hung"]["unit"].as_str() {
        let mut list = cargo_test();
        list.args.extend(unit.split_whitespace().map(str::to_owned));
        list.args.extend(["--".to_owned(), "--list".to_owned()]);
        list.why = vec![format!("{unit} hung: its list of tests tells which did not end")];
        list.memo = serde_json::json!({ "list": unit, "finished": run.carry["hung"]["finished"] });
        run.carry = serde_json::Value::Null;
        return Some(list);
    }
    let mut waiting: Vec<serde_json::Value> = run.carry["dead"].as_array().cloned().unwrap_or_default();
    waiting.extend(plan.memo["waiting"].as_array().cloned().unwrap_or_default());
    run.carry = serde_json::Value::Null;
    let rounds = plan.memo["round"].as_u64().unwrap_or(0);
    if waiting.is_empty() || rounds >= ROUNDS {
        return None;
    }
    let dead = waiting.remove(0);
    let unit = dead["unit"].as_str()?.to_owned();
    let culprits: Vec<String> = serde_json::from_value(dead["culprits"].clone()).unwrap_or_default();
    let count = |name: &str| u32::try_from(dead[name].as_u64().unwrap_or(0)).unwrap_or(0);
    run.passed = run.passed.saturating_sub(count("passed"));
    run.skipped = run.skipped.saturating_sub(count("skipped"));
    run.failures.retain(|failure| failure.id.unit != unit || culprits.contains(&failure.id.path.join("::")));
    run.failed = u32::try_from(run.failures.len()).unwrap_or(u32::MAX);
    run.notes.retain(|note| !note.contains(&unit));

    let mut next = cargo_test();
    next.args.extend(unit.split_whitespace().map(str::to_owned));
    next.args.extend(["--".to_owned(), "--test-threads=1".to_owned(), "--exact".to_owned()]);
    let only: Vec<String> = serde_json::from_value(dead["only"].clone()).unwrap_or_default();
    let only: Vec<String> = only.into_iter().filter(|name| !culprits.contains(name)).collect();
    if only.is_empty() && dead["only"].as_array().is_some_and(|only| !only.is_empty()) {
        return None;
    }
    next.args.extend(only.iter().cloned());
    for culprit in &culprits {
        next.args.extend(["--skip".to_owned(), culprit.clone()]);
    }
    next.why = vec![format!("the test process of {unit} died: one test at a time names the culprit")];
    next.memo = serde_json::json!({
        "culprits": culprits, "waiting": waiting, "round": rounds + 1, "crashed_only": only,
    });
    Some(next)
}

/// A run of each package that records which lines it reaches.
pub(super) fn coverage(facts: &dyn Facts) -> Result<Vec<Plan>, String> {
    if facts.which("cargo-llvm-cov").is_none() {
        let get = "cargo install cargo-llvm-cov and rustup component add llvm-tools";
        return Err(format!("it needs cargo-llvm-cov: {get}"));
    }
    // Otherwise what a package's tests reach in the other packages is left out.
    let everywhere = "--no-default-ignore-filename-regex";
    let one = |package: packages::Package| Plan {
        runner: "cargo llvm-cov",
        program: "cargo".to_owned(),
        args: ["llvm-cov", "test", "-p", &package.name, "--ignore-run-fail", everywhere]
            .into_iter()
            .chain(["--lcov", "--output-path"])
            .map(str::to_owned)
            .chain([facts.scratch().join(COVER_REPORT).display().to_string()])
            .collect(),
        env: quiet(),
        report: Some(COVER_REPORT.to_owned()),
        memo: serde_json::json!({ "unit": format!("-p {}", package.name) }),
        why: vec!["package by package, so that the lines can be told apart".to_owned()],
        ..Plan::default()
    };
    Ok(packages::packages(facts).into_iter().map(one).collect())
}

const COVER_REPORT: &str = "cover.lcov";

/// The command that lints or checks types.
pub(super) fn check(facts: &dyn Facts, ask: &LintAsk, tool: &'static str) -> Plan {
    let mut plan = Plan {
        runner: tool,
        program: "cargo".to_owned(),
        args: vec![tool.to_owned(), "--message-format=json".to_owned()],
        env: quiet(),
        why: vec![match tool {
            "clippy" => {
                "clippy is Rust's linter; warnings count as findings, so -D warnings is left off".to_owned()
            }
            _ => "cargo check is the compiler without code generation".to_owned(),
        }],
        ..Plan::default()
    };
    if tool == "clippy" {
        plan.needs.push("cargo-clippy".to_owned());
    }
    match &ask.scope {
        Scope::Project => {
            members(facts, &mut plan);
            plan.args.push("--all-targets".to_owned());
            plan.why.push("--all-targets covers tests, examples and benches".to_owned());
        }
        Scope::File(file) => {
            plan.cwd = manifest::package_of(facts, file);
            let inside = file.strip_prefix(&plan.cwd).unwrap_or(file).trim_start_matches('/');
            let library = facts.exists(format!("{}/src/lib.rs", plan.cwd).trim_start_matches('/'));
            plan.args.extend(target_of(inside, library));
        }
    }
    if ask.fix {
        plan.args.extend(["--fix", "--allow-dirty", "--allow-staged", "--allow-no-vcs"].map(str::to_owned));
    }
    plan
}

/// The target that a file of a package belongs to.
fn target_of(file: &str, library: bool) -> Vec<String> {
    let one = |kind: &str, rest: &str| {
        let name = rest.split('/').next().unwrap_or(rest);
        vec![format!("--{kind}"), name.trim_end_matches(".rs").to_owned()]
    };
    if let Some(rest) = file.strip_prefix("tests/") {
        return one("test", rest);
    }
    if let Some(rest) = file.strip_prefix("examples/") {
        return one("example", rest);
    }
    if let Some(rest) = file.strip_prefix("benches/") {
        return one("bench", rest);
    }
    if let Some(rest) = file.strip_prefix("src/bin/") {
        return one("bin", rest);
    }
    if file == "src/main.rs" || !library {
        return vec!["--bins".to_owned()];
    }
    vec!["--lib".to_owned()]
}

/// The command that formats a file's text.
pub(super) fn format(facts: &dyn Facts, file: &str, text: &[u8]) -> Plan {
    let edition = manifest::edition(facts, file);
    Plan {
        runner: "rustfmt",
        program: "rustfmt".to_owned(),
        args: vec!["--emit".to_owned(), "stdout".to_owned(), "--edition".to_owned(), edition.clone()],
        // rustfmt looks for rustfmt.toml from the folder it runs in.
        cwd: file.rsplit_once('/').map(|(folder, _)| folder.to_owned()).unwrap_or_default(),
        stdin: Some(text.to_vec()),
        why: vec![format!("rustfmt does not read the edition from Cargo.toml: it is told {edition}")],
        ..Plan::default()
    }
}

/// The command that runs a cargo alias.
pub(super) fn script(facts: &dyn Facts, name: &str) -> Option<Plan> {
    let aliases = manifest::aliases(facts);
    aliases.iter().find(|alias| *alias == name)?;
    let configured = facts.read(".cargo/config.toml").or_else(|| facts.read(".cargo/config"));
    let xtask = name == "xtask" && !configured.is_some_and(|text| text.contains("xtask"));
    let (args, why) = match xtask {
        true => (vec!["run", "--package", "xtask", "--"], "the project has an xtask package"),
        false => (vec![name], "an alias in .cargo/config.toml"),
    };
    Some(Plan {
        runner: "cargo alias",
        program: "cargo".to_owned(),
        args: args.into_iter().map(str::to_owned).collect(),
        env: quiet(),
        merged: true,
        why: vec![why.to_owned()],
        ..Plan::default()
    })
}
