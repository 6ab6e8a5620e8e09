//! How the tests of a Node project are run and selected.

use super::{
    lint,
    manifest::{self, Manager, Manifest},
    script::{Chain, Runner},
};
use crate::{
    Facts, Plan, TestAsk, TestId,
    reporters::{Memo, REPORT, ReporterPlan},
};
use std::collections::BTreeSet;

/// Name of bun's report.
pub(super) const BUN_REPORT: &str = "report.xml";

/// Runners a project may depend on, with the files that configure them.
const KNOWN: [(&str, Runner, &[&str]); 3] = [
    (
        "jest",
        Runner::Jest,
        &["jest.config.js", "jest.config.ts", "jest.config.mjs", "jest.config.cjs", "jest.config.json"],
    ),
    (
        "vitest",
        Runner::Vitest,
        &["vitest.config.ts", "vitest.config.js", "vitest.config.mts", "vitest.config.mjs"],
    ),
    (
        "mocha",
        Runner::Mocha,
        &[".mocharc.json", ".mocharc.js", ".mocharc.cjs", ".mocharc.yml", ".mocharc.yaml", ".mocharc.jsonc"],
    ),
];

/// The command that runs the tests, or why there is none.
pub(super) fn plan(facts: &dyn Facts, ask: &TestAsk) -> Result<Plan, String> {
    let manifest = Manifest::read(facts);
    let (manager, why) = manifest.manager(facts);
    // A selection of files is one of names whose tests need not exist.
    let mut ask = ask.clone();
    if ask.names.is_empty() {
        ask.names.clone_from(&ask.units);
    }
    let ask = &ask;
    let mut plan = match manifest.script("test") {
        Some(script) => by_script(facts, ask, &manifest, manager, script),
        None => by_runner(facts, ask, &manifest, manager)?,
    };
    plan.why.push(why);
    plan.env.extend(manager.env());
    plan.env.push(("NO_COLOR".to_owned(), "1".to_owned()));
    Ok(plan)
}

/// The runner that a plan drives, when its tests can be selected.
pub(super) fn runner(facts: &dyn Facts) -> Option<Runner> {
    let plan = plan(facts, &TestAsk::default()).ok()?;
    [Runner::Jest, Runner::Vitest, Runner::Mocha, Runner::NodeTest, Runner::Bun]
        .into_iter()
        .find(|runner| runner.name() == plan.runner)
}

fn by_script(facts: &dyn Facts, ask: &TestAsk, manifest: &Manifest, manager: Manager, script: &str) -> Plan {
    let chain = Chain::of(manifest, script);
    let runner = chain.tests.map(|(_, runner)| runner);
    let mut plan = prepared(facts, ask, runner);
    let mut memo = memo(ask, runner);
    memo.parts.clone_from(&chain.parts);
    memo.test_part = chain.tests.map(|(at, _)| at);
    plan.program = manager.program().to_owned();
    plan.why.push(format!("package.json defines the script test: {script}"));
    let hooked = !chain.mentions("NODE_OPTIONS=");
    let mut more = Vec::new();
    match runner {
        Some(Runner::Bun) => more = bun_args(facts, ask),
        Some(runner) if !hooked => {
            plan.why
                .push("the script sets NODE_OPTIONS itself, so the reporter comes as arguments".to_owned());
            more = direct_args(facts, ask, runner);
        }
        // A plain `node file.js` may use node:test, and says nothing when it does not.
        None if chain.parts.iter().any(|part| part.starts_with("node ")) => {
            plan.env.push(node_options(facts, !chain.mentions("--test-reporter") && !selects(ask)));
        }
        Some(Runner::NodeTest) => {
            plan.env.push(node_options(facts, !chain.mentions("--test-reporter") && !selects(ask)));
        }
        _ => plan.env.push(node_options(facts, false)),
    }
    plan.args = manager.run("test", &more);
    plan.memo = serde_json::to_value(memo).unwrap_or_default();
    plan
}

fn by_runner(
    facts: &dyn Facts,
    ask: &TestAsk,
    manifest: &Manifest,
    manager: Manager,
) -> Result<Plan, String> {
    let configured = KNOWN
        .iter()
        .find_map(|(name, runner, files)| Some((*name, *runner, manifest::first_of(facts, files)?)))
        .map(|(name, runner, file)| (name, runner, format!("{name} because of {file}")));
    let depended = || {
        KNOWN
            .iter()
            .find(|(name, ..)| manifest.dependencies.contains(*name))
            .map(|(name, runner, _)| (*name, *runner, format!("{name} because package.json depends on it")))
    };
    let found = configured.or_else(depended);
    if let Some((name, runner, why)) = found {
        let mut plan = prepared(facts, ask, Some(runner));
        plan.why = vec!["package.json defines no test script".to_owned(), why];
        plan.env.push(node_options(facts, false));
        if runner == Runner::Vitest {
            plan.args.push("run".to_owned());
        }
        plan = lint::own(facts, name, plan);
        plan.memo = serde_json::to_value(memo(ask, Some(runner))).unwrap_or_default();
        return Ok(plan);
    }
    if manager == Manager::Bun {
        let mut plan = prepared(facts, ask, Some(Runner::Bun));
        plan.program = "bun".to_owned();
        plan.args = vec!["test".to_owned()];
        plan.args.extend(bun_args(facts, ask));
        plan.why = vec!["no test script and no other runner: bun's own".to_owned()];
        plan.memo = serde_json::to_value(memo(ask, None)).unwrap_or_default();
        return Ok(plan);
    }
    if has_node_tests(facts) {
        let mut plan = prepared(facts, ask, Some(Runner::NodeTest));
        plan.program = "node".to_owned();
        plan.args = vec!["--test".to_owned()];
        plan.env.push(node_options(facts, !selects(ask)));
        plan.why =
            vec!["no test script and no runner in the dependencies, but test files: node --test".to_owned()];
        plan.memo = serde_json::to_value(memo(ask, None)).unwrap_or_default();
        return Ok(plan);
    }
    Err("package.json has no test script, no known runner (jest, vitest, mocha) is in its dependencies and no \
         test files were found; add a script named test"
        .to_owned())
}

/// Files that `node --test` would run.
fn has_node_tests(facts: &dyn Facts) -> bool {
    let script =
        |name: &String| [".js", ".mjs", ".cjs", ".ts", ".mts", ".cts"].iter().any(|end| name.ends_with(end));
    let test = |name: &String| {
        script(name) && (name.contains(".test.") || name.contains("-test.") || name.starts_with("test"))
    };
    facts.list("test").iter().any(script)
        || [".", "src"].iter().any(|folder| facts.list(folder).iter().any(test))
}

/// A plan with reporters, without a command.
fn prepared(facts: &dyn Facts, ask: &TestAsk, runner: Option<Runner>) -> Plan {
    if runner == Some(Runner::Bun) {
        // Between two results stands what the second one printed: the streams' order matters.
        return Plan { runner: "bun", merged: true, report: Some(BUN_REPORT.to_owned()), ..Plan::default() };
    }
    let (suites, only) = ask.only.iter().cloned().partition(|id| is_hook(id, runner));
    let mut told = ReporterPlan {
        root: facts.root().to_string_lossy().into_owned(),
        report: REPORT,
        only,
        suites: without_hooks(suites, runner),
        names: ask.names.clone(),
        ..ReporterPlan::default()
    };
    for runner in [Runner::Jest, Runner::Vitest, Runner::Mocha] {
        let args = selection(facts, ask, runner);
        if !args.is_empty() {
            told.args.insert(runner.name(), args);
        }
    }
    if selects(ask) {
        told.args.insert("node", files(facts, ask));
    }
    Plan {
        runner: runner.map_or("script", Runner::name),
        inject: told.for_node(),
        report: Some(REPORT.to_owned()),
        ..Plan::default()
    }
}

/// Whether this is a hook of mocha's, which tells of its failure as if it were a test. It cannot run alone.
fn is_hook(id: &TestId, runner: Option<Runner>) -> bool {
    let hooks = ["\"before each\" hook", "\"before all\" hook", "\"after each\" hook", "\"after all\" hook"];
    runner == Some(Runner::Mocha)
        && id.path.last().is_some_and(|last| hooks.iter().any(|hook| last.starts_with(hook)))
}

/// The suites that hooks belong to in place of the hooks.
fn without_hooks(mut ids: Vec<TestId>, runner: Option<Runner>) -> Vec<TestId> {
    for id in ids.iter_mut().filter(|id| is_hook(id, runner)) {
        id.path.pop();
    }
    ids
}

fn memo(ask: &TestAsk, runner: Option<Runner>) -> Memo {
    Memo {
        only: without_hooks(ask.only.clone(), runner),
        names: if ask.units.is_empty() { ask.names.clone() } else { Vec::new() },
        timeout_seconds: ask.timeout_seconds,
        ..Memo::default()
    }
}

fn selects(ask: &TestAsk) -> bool {
    !ask.only.is_empty() || !ask.names.is_empty()
}

/// NODE_OPTIONS with the hook, after what the environment has already.
pub(super) fn node_options(facts: &dyn Facts, reporter: bool) -> (String, String) {
    let path = |name: &str| {
        let path = facts.scratch().join(name).to_string_lossy().into_owned();
        if path.contains(' ') { format!("\"{path}\"") } else { path }
    };
    let mut options: Vec<String> =
        facts.env("NODE_OPTIONS").into_iter().filter(|text| !text.trim().is_empty()).collect();
    options.push(format!("--require={}", path("hook.cjs")));
    if reporter {
        options.push(format!("--test-reporter={}", path("node_test.mjs")));
        options.push("--test-reporter-destination=stdout".to_owned());
    }
    ("NODE_OPTIONS".to_owned(), options.join(" "))
}

/// What is added to the command line of a runner that the hook cannot reach.
fn direct_args(facts: &dyn Facts, ask: &TestAsk, runner: Runner) -> Vec<String> {
    let at = |name: &str| facts.scratch().join(name).to_string_lossy().into_owned();
    let mut args = match runner {
        Runner::Jest => vec!["--reporters=default".to_owned(), format!("--reporters={}", at("jest.cjs"))],
        Runner::Vitest => vec!["--reporter=default".to_owned(), format!("--reporter={}", at("vitest.mjs"))],
        Runner::Mocha => vec!["--reporter".to_owned(), at("mocha.cjs")],
        Runner::NodeTest => vec![
            format!("--test-reporter={}", at("node_test.mjs")),
            "--test-reporter-destination=stdout".to_owned(),
        ],
        Runner::Bun => Vec::new(),
    };
    args.extend(selection(facts, ask, runner));
    if runner == Runner::Vitest {
        args.extend(["--includeTaskLocation".to_owned(), "--watch=false".to_owned()]);
    }
    args
}

/// The arguments that select tests.
fn selection(facts: &dyn Facts, ask: &TestAsk, runner: Runner) -> Vec<String> {
    let files = files(facts, ask);
    let pattern = pattern(facts, ask);
    let mut args = Vec::new();
    match runner {
        Runner::Jest => {
            if !files.is_empty() {
                args.extend(["--passWithNoTests".to_owned(), "--runTestsByPath".to_owned()]);
                args.extend(files);
            }
            args.extend(pattern.into_iter().flat_map(|pattern| ["-t".to_owned(), pattern]));
        }
        Runner::Vitest => {
            if !files.is_empty() {
                args.extend(files);
                args.push("--passWithNoTests".to_owned());
            }
            args.extend(pattern.into_iter().flat_map(|pattern| ["-t".to_owned(), pattern]));
        }
        // The reporter picks; an expression would leave out the other tests of a hook's suite.
        Runner::Mocha if ask.only.iter().any(|id| is_hook(id, Some(runner))) => {}
        Runner::Mocha => args.extend(pattern.into_iter().flat_map(|pattern| ["-g".to_owned(), pattern])),
        Runner::NodeTest => {}
        Runner::Bun => {
            args.extend(files);
            args.extend(pattern.into_iter().flat_map(|pattern| ["-t".to_owned(), pattern]));
        }
    }
    args
}

fn bun_args(facts: &dyn Facts, ask: &TestAsk) -> Vec<String> {
    let report = facts.scratch().join(BUN_REPORT);
    let mut args =
        vec!["--reporter=junit".to_owned(), format!("--reporter-outfile={}", report.to_string_lossy())];
    args.extend(selection(facts, ask, Runner::Bun));
    args
}

/// Whether files and titles are named together: runners would only take tests that match both.
fn mixed(facts: &dyn Facts, ask: &TestAsk) -> bool {
    let files = ask.names.iter().filter(|name| is_file(facts, name)).count();
    files > 0 && files < ask.names.len()
}

/// The files the selection names.
fn files(facts: &dyn Facts, ask: &TestAsk) -> Vec<String> {
    if mixed(facts, ask) {
        return Vec::new();
    }
    let named = ask.names.iter().filter(|name| is_file(facts, name)).cloned();
    let units = ask.only.iter().map(|id| id.unit.clone()).filter(|unit| !unit.is_empty());
    let all: BTreeSet<String> = named.chain(units).collect();
    // The runner may be started in another folder of the workspace.
    all.iter().map(|file| facts.root().join(file).to_string_lossy().into_owned()).collect()
}

fn is_file(facts: &dyn Facts, name: &str) -> bool {
    name.contains(['/', '.']) && !name.starts_with("..") && facts.exists(name)
}

/// One expression that matches the full names of the selection, whichever way the runner joins them.
fn pattern(facts: &dyn Facts, ask: &TestAsk) -> Option<String> {
    if mixed(facts, ask) {
        return None;
    }
    let exact =
        ask.only.iter().map(|TestId { path, .. }| format!("^{}$", joined(path.iter().map(String::as_str))));
    let loose = ask
        .names
        .iter()
        .filter(|name| !is_file(facts, name))
        .map(|name| format!("(?:{})", joined(name.split(" > ").flat_map(|part| part.split(" › ")))));
    let all: BTreeSet<String> = exact.chain(loose).collect();
    match all.len() {
        0 => None,
        1 => all.into_iter().next(),
        _ => Some(format!("(?:{})", all.into_iter().collect::<Vec<_>>().join("|"))),
    }
}

fn joined<'a>(path: impl Iterator<Item = &'a str>) -> String {
    path.map(escape).collect::<Vec<_>>().join("(?: > | )")
}

/// A text as an expression of JavaScript that matches just it.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if "\\^$.*+?()[]{}|/".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}
