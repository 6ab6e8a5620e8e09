//! Python: whatever pyproject.toml or setup.py describes, in the project's own environment.

mod affected;
mod findings;
mod interpreter;
mod project;

use super::tasks;
use crate::{
    Affected, Answer, Captured, Covered, Detector, ExitMeaning, Facts, LintAsk, LintRun, NeededBinary, Plan,
    Scope, ScriptError, ServerPlan, TestAsk, TestId, TestReader,
    reporters::{EventsReader, Memo, Paths, REPORT, ReporterPlan},
};
use interpreter::Environment;
use project::Project;
use std::{collections::BTreeSet, path::Path};

/// The detector for Python.
pub(super) struct Python;

impl Detector for Python {
    fn language(&self) -> &'static str {
        "python"
    }

    fn markers(&self) -> &'static [&'static str] {
        &["pyproject.toml", "setup.py"]
    }

    fn dependencies(&self) -> &'static [&'static str] {
        &["pyproject.toml", "requirements.txt", "uv.lock", "poetry.lock", "pdm.lock", "pyrightconfig.json"]
    }

    fn packages(&self) -> &'static [&'static str] {
        &[".venv", "venv"]
    }

    fn owns(&self, file: &Path) -> bool {
        let extension = file.extension().and_then(|end| end.to_str());
        extension.is_some_and(|end| ["py", "pyi"].contains(&end))
    }

    fn binaries(&self, facts: &dyn Facts) -> Vec<NeededBinary> {
        let environment = Environment::of(facts);
        let project = Project::read(facts);
        let checker = project.checker(facts, &environment);
        let mut needed = vec![
            NeededBinary {
                local: environment.folder.as_ref().map(|folder| folder.join("bin/python")),
                ..binary(&environment, "python3", "running tests", "install Python 3.8 or later")
            },
            binary(&environment, "ruff", "run_lint and run_format", "pip install ruff"),
            binary(&environment, checker, "run_typecheck", checker_help(checker)),
        ];
        let server = if environment.tool(facts, "pyright-langserver").is_some() {
            "pyright-langserver"
        } else {
            "basedpyright-langserver"
        };
        needed.push(NeededBinary {
            // A language server without a client waits for one: its version is the checker's.
            version_args: &[],
            ..binary(&environment, server, "code intelligence", "pip install basedpyright")
        });
        if !project.uses_unittest(facts, &environment) {
            needed.insert(1, binary(&environment, "pytest", "run_tests", "pip install pytest"));
        }
        needed
    }

    fn test_cmd(&self, facts: &dyn Facts, ask: &TestAsk) -> Answer<Vec<Plan>> {
        let environment = Environment::of(facts);
        let project = Project::read(facts);
        let ask = &by_units(ask);
        Ok(vec![if project.uses_unittest(facts, &environment) {
            unittest(facts, ask, &environment)
        } else {
            pytest(facts, ask, &environment)
        }])
    }

    fn test_reader(&self, plan: &Plan, facts: &dyn Facts) -> Box<dyn TestReader> {
        Box::new(EventsReader::new(plan, facts))
    }

    fn exit_meaning(&self, plan: &Plan, code: i32) -> ExitMeaning {
        match (plan.runner, code) {
            (_, 0) => ExitMeaning::Clean,
            (_, 1) => ExitMeaning::Findings,
            _ => ExitMeaning::Broken,
        }
    }

    fn affected(&self, facts: &dyn Facts, changed: &[String], _asked: Option<&Captured>) -> Affected {
        affected::affected(facts, changed)
    }

    fn lint_cmd(&self, facts: &dyn Facts, ask: &LintAsk) -> Answer<Plan> {
        let environment = Environment::of(facts);
        let mut args = vec!["check".to_owned(), "--output-format=json".to_owned()];
        if ask.fix {
            args.push("--fix".to_owned());
        }
        args.push(target(&ask.scope));
        Ok(environment.plan(facts, "ruff", args))
    }

    fn parse_lint(&self, plan: &Plan, facts: &dyn Facts, captured: &Captured) -> LintRun {
        findings::read(plan.runner, &Paths::new(&facts.root().to_string_lossy()), captured)
    }

    fn typecheck_cmd(&self, facts: &dyn Facts, ask: &LintAsk) -> Answer<Plan> {
        let environment = Environment::of(facts);
        let project = Project::read(facts);
        let checker = project.checker(facts, &environment);
        let target = target(&ask.scope);
        let mut args: Vec<String> = match checker {
            "mypy" => vec!["--output=json".to_owned(), "--no-error-summary".to_owned()],
            "ty" => vec!["check".to_owned(), "--output-format=gitlab".to_owned()],
            _ => vec!["--outputjson".to_owned()],
        };
        // The checker must see the packages that the project sees.
        if let Some(python) = environment.python(facts).filter(|_| environment.folder.is_some()) {
            match checker {
                "mypy" => args.push(format!("--python-executable={python}")),
                "ty" => args.push(format!("--python={python}")),
                _ => args.push(format!("--pythonpath={python}")),
            }
        }
        if checker == "mypy" || ask.scope != Scope::Project {
            args.push(target);
        }
        let mut plan = environment.plan(facts, checker, args);
        plan.why.insert(0, project.why_checker(facts, checker));
        Ok(plan)
    }

    fn format_cmd(&self, facts: &dyn Facts, file: &str, text: &[u8]) -> Answer<Plan> {
        let environment = Environment::of(facts);
        let args = ["format", "--stdin-filename", file, "-"].iter().map(|arg| (*arg).to_owned()).collect();
        Ok(Plan { stdin: Some(text.to_vec()), ..environment.plan(facts, "ruff", args) })
    }

    fn coverage_cmd(&self, facts: &dyn Facts, ask: &TestAsk) -> Answer<Vec<Plan>> {
        coverage(facts, ask).map_err(|why| self.unsupported("coverage", &why))
    }

    fn parse_coverage(&self, _plan: &Plan, facts: &dyn Facts, captured: &Captured) -> Vec<Covered> {
        let whole = TestId { unit: ".".to_owned(), path: Vec::new() };
        let report = captured.report.as_deref().unwrap_or_default();
        crate::coverage::coverage_json(report, facts.root(), &whole)
    }

    fn scripts(&self, facts: &dyn Facts) -> Vec<String> {
        let mut names: BTreeSet<String> = Project::read(facts).scripts.into_keys().collect();
        names.extend(tasks::names(facts));
        names.into_iter().collect()
    }

    fn script_cmd(&self, facts: &dyn Facts, name: &str) -> Result<Plan, ScriptError> {
        let project = Project::read(facts);
        if let Some(script) = project.scripts.get(name) {
            let (program, args) = script.command(name);
            return Ok(Plan {
                runner: program,
                program: program.to_owned(),
                args,
                env: plain_env(),
                merged: true,
                why: vec![format!("pyproject.toml defines {name} for {program}")],
                ..Plan::default()
            });
        }
        if let Some(plan) = tasks::plan(facts, name) {
            return Ok(plan);
        }
        let available = self.scripts(facts);
        if available.is_empty() {
            let why = "pyproject.toml defines no scripts and there is no Makefile or justfile with targets; use Bash";
            return Err(self.unsupported("run_script", why).into());
        }
        Err(ScriptError::Unknown { name: name.to_owned(), place: "pyproject.toml".to_owned(), available })
    }

    fn server_cmd(&self, facts: &dyn Facts) -> Answer<Vec<ServerPlan>> {
        let environment = Environment::of(facts);
        let python = environment.python(facts).filter(|_| environment.folder.is_some());
        let settings = match &python {
            Some(python) => serde_json::json!({ "python": { "pythonPath": python } }),
            None => serde_json::json!({}),
        };
        let family = [
            ("basedpyright-langserver", Some("--stdio")),
            ("pyright-langserver", Some("--stdio")),
            ("ty", Some("server")),
            ("pylsp", None),
        ];
        let mut servers: Vec<ServerPlan> = family
            .into_iter()
            .map(|(name, arg)| ServerPlan {
                name,
                program: environment.program(facts, name),
                args: arg.map(str::to_owned).into_iter().collect(),
                options: settings.clone(),
                folders: &[],
            })
            .collect();
        // The project's own comes first, then one that is there; without any, the first is named as missing.
        servers.sort_by_key(|server| {
            let own = environment.own(facts, server.name).is_some();
            (!own, environment.tool(facts, server.name).is_none())
        });
        Ok(servers)
    }
}

fn binary(environment: &Environment, name: &str, purpose: &'static str, get: &'static str) -> NeededBinary {
    NeededBinary {
        binary: name.to_owned(),
        purpose,
        version_args: &["--version"],
        get,
        local: environment.folder.as_ref().map(|folder| folder.join("bin").join(name)),
    }
}

fn checker_help(checker: &str) -> &'static str {
    match checker {
        "ty" => "pip install ty",
        "mypy" => "pip install mypy",
        "basedpyright" => "pip install basedpyright",
        _ => "pip install pyright",
    }
}

fn target(scope: &Scope) -> String {
    match scope {
        Scope::Project => ".".to_owned(),
        Scope::File(file) => file.clone(),
    }
}

fn plain_env() -> Vec<(String, String)> {
    vec![("NO_COLOR".to_owned(), "1".to_owned())]
}

/// A selection of modules is one of names whose tests need not exist.
fn by_units(ask: &TestAsk) -> TestAsk {
    let mut ask = ask.clone();
    if ask.names.is_empty() {
        ask.names.clone_from(&ask.units);
    }
    ask
}

fn told(facts: &dyn Facts, ask: &TestAsk) -> ReporterPlan {
    ReporterPlan {
        root: facts.root().to_string_lossy().into_owned(),
        report: REPORT,
        only: ask.only.clone(),
        names: ask.names.clone(),
        ..ReporterPlan::default()
    }
}

fn memo(ask: &TestAsk, separator: &str) -> Memo {
    Memo {
        only: ask.only.clone(),
        names: if ask.units.is_empty() { ask.names.clone() } else { Vec::new() },
        timeout_seconds: ask.timeout_seconds,
        separator: separator.to_owned(),
        ..Memo::default()
    }
}

fn pytest(facts: &dyn Facts, ask: &TestAsk, environment: &Environment) -> Plan {
    let scratch = facts.scratch().to_string_lossy().into_owned();
    let mut args: Vec<String> =
        ["-m", "pytest", "-p", "codegen_sandbox_pytest", "--continue-on-collection-errors"]
            .iter()
            .map(|arg| (*arg).to_owned())
            .collect();
    // An id that is gone would make pytest run nothing, so it gets files and the plugin picks.
    let units = ask.only.iter().map(|id| id.unit.as_str());
    let named = ask.names.iter().filter_map(|name| name.split("::").next());
    let files: BTreeSet<&str> = units.chain(named).filter(|file| facts.exists(file)).collect();
    let every = ask.names.iter().all(|name| name.split("::").next().is_some_and(|file| facts.exists(file)));
    if every {
        args.extend(files.into_iter().map(str::to_owned));
    }
    let path = facts.env("PYTHONPATH").filter(|path| !path.is_empty());
    let path = path.map_or_else(|| scratch.clone(), |path| format!("{scratch}:{path}"));
    let mut env = plain_env();
    env.extend([("PYTHONPATH".to_owned(), path), ("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned())]);
    environment.python_plan(facts, "pytest", args, env, told(facts, ask), memo(ask, "::"))
}

fn unittest(facts: &dyn Facts, ask: &TestAsk, environment: &Environment) -> Plan {
    let script = facts.scratch().join("codegen_sandbox_unittest.py").to_string_lossy().into_owned();
    let mut memo = memo(ask, ".");
    let mut args = vec![script];
    let mut wanted: BTreeSet<String> = ask.names.iter().map(|name| module_name(facts, name)).collect();
    for id in &ask.only {
        let subtest = id.path.iter().position(|part| part.starts_with(['(', '[']));
        if subtest.is_some() {
            memo.notes.push(format!("{} runs as a whole: unittest cannot select less", id.path.join(".")));
        }
        let path = &id.path[..subtest.unwrap_or(id.path.len())];
        let name = std::iter::once(&id.unit).chain(path).map(String::as_str).collect::<Vec<_>>().join(".");
        // What belongs to no module (it could not be told whose it is) is run with everything.
        if id.unit.is_empty() {
            wanted.clear();
            break;
        }
        wanted.insert(name);
    }
    memo.notes.sort();
    memo.notes.dedup();
    // `(setUpClass)` is no test: what stands for it is what it was set up for.
    for id in &mut memo.only {
        id.path.pop_if(|last| last.starts_with("(setUp") || last.starts_with("(tearDown"));
    }
    if wanted.is_empty() {
        args.push("discover".to_owned());
    } else {
        args.extend(wanted);
    }
    environment.python_plan(facts, "unittest", args, plain_env(), told(facts, ask), memo)
}

/// A file as unittest names it.
fn module_name(facts: &dyn Facts, name: &str) -> String {
    match name.strip_suffix(".py") {
        Some(stem) if facts.exists(name) => stem.replace('/', "."),
        _ => name.to_owned(),
    }
}

const COVER_REPORT: &str = "coverage.json";

/// A run that records which test reaches which line, and the report about it.
fn coverage(facts: &dyn Facts, ask: &TestAsk) -> Result<Vec<Plan>, String> {
    let environment = Environment::of(facts);
    if Project::read(facts).uses_unittest(facts, &environment) {
        return Err("unittest does not say which test reaches a line; pytest with pytest-cov does".to_owned());
    }
    if environment.has_package(facts, "pytest_cov") == Some(false) {
        return Err("it needs pytest-cov: pip install pytest-cov".to_owned());
    }
    let data = facts.scratch().join("coverage.data").to_string_lossy().into_owned();
    let mut record = pytest(facts, ask, &environment);
    record.args.extend(["--cov=.", "--cov-context=test", "--cov-report="].map(str::to_owned));
    record.env.push(("COVERAGE_FILE".to_owned(), data.clone()));
    record.env.push(("COVERAGE_CORE".to_owned(), "ctrace".to_owned()));
    record.why.push("pytest-cov records the test in which a line is reached".to_owned());
    let report = facts.scratch().join(COVER_REPORT).to_string_lossy().into_owned();
    let args = ["-m", "coverage", "json", "--show-contexts", "-o", &report];
    let args = args.into_iter().map(str::to_owned).collect();
    let mut env = plain_env();
    env.push(("COVERAGE_FILE".to_owned(), data));
    let mut told =
        environment.python_plan(facts, "coverage", args, env, ReporterPlan::default(), memo(ask, "::"));
    told.inject.clear();
    told.report = Some(COVER_REPORT.to_owned());
    Ok(vec![record, told])
}
