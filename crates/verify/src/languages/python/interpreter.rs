//! Which Python runs a project: its own environment before anything on the PATH, because a runner from the
//! PATH may test an installed copy and be green.

use crate::{
    Facts, Plan,
    reporters::{Memo, REPORT, ReporterPlan},
};
use std::path::PathBuf;

/// The environment a project's commands run in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Environment {
    /// The virtual environment, when there is one on disk.
    pub folder: Option<PathBuf>,
    /// The environment's folder relative to the project, when it lies there.
    inside: Option<String>,
    /// A manager that knows an environment which is not in the project (`poetry run`).
    manager: Option<(&'static str, &'static [&'static str])>,
    /// Why this one.
    pub why: String,
}

impl Environment {
    /// Looks at what the project and the environment variables offer.
    pub(super) fn of(facts: &dyn Facts) -> Self {
        for above in ["", "../", "../../"] {
            for name in [".venv", "venv"] {
                let folder = format!("{above}{name}");
                if facts.exists(&format!("{folder}/bin/python"))
                    || facts.exists(&format!("{folder}/pyvenv.cfg"))
                {
                    let mut path = facts.root().to_owned();
                    for _ in 0..above.matches("../").count() {
                        path.pop();
                    }
                    let why = format!("the project's environment {folder}");
                    return Self { folder: Some(path.join(name)), inside: Some(folder), manager: None, why };
                }
            }
        }
        if let Some(active) = facts.env("VIRTUAL_ENV").filter(|path| !path.is_empty()) {
            let why = format!("the active environment VIRTUAL_ENV={active}");
            return Self { folder: Some(PathBuf::from(active)), inside: None, manager: None, why };
        }
        if let Some(manager) = manager(facts) {
            let why = format!("{} because of {}", manager.0.0, manager.1);
            return Self { folder: None, inside: None, manager: Some(manager.0), why };
        }
        if let Some(inside) = tox(facts) {
            let why = format!("the environment {inside} that tox or nox made");
            return Self {
                folder: Some(facts.root().join(&inside)),
                inside: Some(inside),
                manager: None,
                why,
            };
        }
        if let Some(place) = tox_config(facts) {
            let why =
                format!("tox because of {place}; it makes the environment py when that is not there yet");
            return Self { folder: None, inside: None, manager: Some(TOX), why };
        }
        let why = "the interpreter on the PATH: the project has no environment of its own (.venv, venv, VIRTUAL_ENV)";
        Self { folder: None, inside: None, manager: None, why: why.to_owned() }
    }

    /// The interpreter's path, or the name that finds it.
    pub(super) fn python(&self, facts: &dyn Facts) -> Option<String> {
        match &self.folder {
            Some(folder) => Some(folder.join("bin/python").to_string_lossy().into_owned()),
            None => {
                ["python3", "python"].into_iter().find(|name| facts.which(name).is_some()).map(str::to_owned)
            }
        }
    }

    /// Whether a manager keeps it where nobody else looks.
    pub(super) fn is_kept_elsewhere(&self) -> bool {
        self.manager.is_some()
    }

    /// Where a tool is in the environment.
    pub(super) fn own(&self, facts: &dyn Facts, name: &str) -> Option<PathBuf> {
        let (inside, folder) = (self.inside.as_ref()?, self.folder.as_ref()?);
        // It may be a link that leads out of the project, where only its name can be seen.
        let named = || facts.list(&format!("{inside}/bin")).iter().any(|other| other == name);
        let there = facts.exists(&format!("{inside}/bin/{name}")) || named();
        there.then(|| folder.join("bin").join(name))
    }

    /// Where a tool is: in the environment, or on the PATH.
    pub(super) fn tool(&self, facts: &dyn Facts, name: &str) -> Option<PathBuf> {
        self.own(facts, name).or_else(|| facts.which(name))
    }

    /// The program to start for a tool; its plain name when it is nowhere, so that its absence is told.
    pub(super) fn program(&self, facts: &dyn Facts, name: &str) -> String {
        self.tool(facts, name).map_or_else(|| name.to_owned(), |path| path.to_string_lossy().into_owned())
    }

    /// Whether the environment has a package; `None` when that cannot be seen.
    pub(super) fn has_package(&self, facts: &dyn Facts, name: &str) -> Option<bool> {
        let inside = self.inside.as_ref()?;
        let libraries = facts.list(&format!("{inside}/lib"));
        let found = libraries.iter().any(|library| {
            facts.exists(&format!("{inside}/lib/{library}/site-packages/{name}"))
                || facts.exists(&format!("{inside}/lib/{library}/site-packages/{name}.py"))
        });
        Some(found || facts.exists(&format!("{inside}/bin/{name}")))
    }

    /// A plan for a tool of the project.
    pub(super) fn plan(&self, facts: &dyn Facts, tool: &'static str, args: Vec<String>) -> Plan {
        let own = self.tool(facts, tool);
        let why = match (&own, self.manager) {
            (None, Some((manager, _))) => format!("{tool} through {manager}"),
            (Some(path), _) => format!("{tool} at {}", path.to_string_lossy()),
            (None, None) => format!("{tool} from the PATH"),
        };
        let (program, args) = match (own, self.manager) {
            (None, Some((manager, run))) => {
                let words = run.iter().map(|word| (*word).to_owned());
                (manager.to_owned(), words.chain([tool.to_owned()]).chain(args).collect())
            }
            (own, _) => {
                (own.map_or_else(|| tool.to_owned(), |path| path.to_string_lossy().into_owned()), args)
            }
        };
        Plan { runner: tool, program, args, env: super::plain_env(), why: vec![why], ..Plan::default() }
    }

    /// A plan that starts the interpreter with one of our reporters.
    pub(super) fn python_plan(
        &self,
        facts: &dyn Facts,
        runner: &'static str,
        args: Vec<String>,
        mut env: Vec<(String, String)>,
        told: ReporterPlan,
        memo: Memo,
    ) -> Plan {
        let (program, args) = match self.manager {
            Some((manager, run)) => {
                let words = run.iter().map(|word| (*word).to_owned());
                (manager.to_owned(), words.chain(["python".to_owned()]).chain(args).collect())
            }
            None => (self.python(facts).unwrap_or_else(|| "python3".to_owned()), args),
        };
        if let Some(folder) = &self.folder {
            let folder = folder.to_string_lossy();
            let path = facts.env("PATH").unwrap_or_default();
            env.push(("VIRTUAL_ENV".to_owned(), folder.clone().into_owned()));
            // Tests that start programs of the environment find them, as in an activated one.
            if !path.is_empty() {
                env.push(("PATH".to_owned(), format!("{folder}/bin:{path}")));
            }
        }
        Plan {
            runner,
            program,
            args,
            env,
            inject: told.for_python(),
            report: Some(REPORT.to_owned()),
            why: vec![self.why.clone()],
            memo: serde_json::to_value(memo).unwrap_or_default(),
            ..Plan::default()
        }
    }
}

/// A manager that keeps the environment elsewhere, and the file that shows that it is used.
fn manager(facts: &dyn Facts) -> Option<((&'static str, &'static [&'static str]), &'static str)> {
    let pyproject = facts.read("pyproject.toml").unwrap_or_default();
    let candidates: [(&'static str, &'static [&'static str], bool, &'static str); 4] = [
        ("poetry", &["run"], facts.exists("poetry.lock"), "poetry.lock"),
        ("pdm", &["run"], facts.exists("pdm.lock"), "pdm.lock"),
        ("uv", &["run", "--frozen"], facts.exists("uv.lock"), "uv.lock"),
        ("hatch", &["run"], pyproject.contains("[tool.hatch.envs"), "[tool.hatch.envs] in pyproject.toml"),
    ];
    candidates
        .into_iter()
        .find(|(program, _, used, _)| *used && facts.which(program).is_some())
        .map(|(program, run, _, why)| ((program, run), why))
}

/// What makes the environment of a project that has a configuration of tox and nothing made from it yet: tox lets a
/// command into an environment of its own interpreter, and by default keeps our variables from it.
const TOX: (&str, &[&str]) = ("tox", &["exec", "-q", "-e", "py", "-x", "testenv.pass_env=*", "--"]);

/// The file that configures tox, when tox is there.
fn tox_config(facts: &dyn Facts) -> Option<&'static str> {
    facts.which("tox")?;
    let says = |file: &str, text: &str| facts.read(file).is_some_and(|content| content.contains(text));
    [
        ("tox.ini", says("tox.ini", "[")),
        ("tox.toml", facts.exists("tox.toml")),
        ("[tool.tox] in pyproject.toml", says("pyproject.toml", "[tool.tox")),
        ("[tox:tox] in setup.cfg", says("setup.cfg", "[tox:tox]")),
    ]
    .into_iter()
    .find_map(|(place, used)| used.then_some(place))
}

/// An environment that tox or nox left in the project: one for an interpreter, else any that has pytest.
fn tox(facts: &dyn Facts) -> Option<String> {
    let made = |folder: &str, fits: &dyn Fn(&str) -> bool| {
        let is_one = |place: &String| {
            facts.exists(&format!("{place}/bin/python")) || facts.exists(&format!("{place}/pyvenv.cfg"))
        };
        let names = facts.list(folder);
        let mut places = names.iter().rev().filter(|name| fits(name)).map(|name| format!("{folder}/{name}"));
        places.find(is_one)
    };
    let for_interpreters = ["py", "python"].iter().find_map(|start| {
        [".tox", ".nox"].iter().find_map(|folder| made(folder, &|name| name.starts_with(start)))
    });
    for_interpreters.or_else(|| {
        let has_pytest = |folder: &str, name: &str| facts.exists(&format!("{folder}/{name}/bin/pytest"));
        [".tox", ".nox"].iter().find_map(|folder| made(folder, &|name| has_pytest(folder, name)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MapFacts;

    fn facts(files: &[&str]) -> MapFacts {
        let files = files.iter().map(|name| ((*name).to_owned(), String::new())).collect();
        MapFacts { files, root: PathBuf::from("/w/app"), ..MapFacts::default() }
    }

    #[test]
    fn the_projects_own_environment_comes_first() {
        let mut facts = facts(&[".venv/bin/python", "poetry.lock"]);
        facts.env.insert("VIRTUAL_ENV".to_owned(), "/elsewhere".to_owned());
        let environment = Environment::of(&facts);
        assert_eq!(environment.python(&facts).as_deref(), Some("/w/app/.venv/bin/python"));
        assert_eq!(environment.why, "the project's environment .venv");
    }

    #[test]
    fn then_the_one_above_the_active_one_and_the_managers() {
        assert_eq!(Environment::of(&facts(&["../.venv/bin/python"])).folder, Some(PathBuf::from("/w/.venv")));
        let mut active = facts(&["uv.lock"]);
        active.env.insert("VIRTUAL_ENV".to_owned(), "/elsewhere".to_owned());
        assert_eq!(Environment::of(&active).folder, Some(PathBuf::from("/elsewhere")));
        for (lock, program) in [("poetry.lock", "poetry"), ("pdm.lock", "pdm"), ("uv.lock", "uv")] {
            let mut facts = facts(&[lock]);
            assert_eq!(Environment::of(&facts).manager, None, "{program} is not installed");
            facts.binaries.insert(program.to_owned(), PathBuf::from("/bin").join(program));
            assert_eq!(Environment::of(&facts).manager.map(|(name, _)| name), Some(program));
        }
    }
    #[test]
    fn tox_lends_its_environment_or_makes_one() {
        let ini = &["tox.ini", ".tox/.pkg/bin/python", ".tox/lint/bin/python", ".tox/unit/bin/python"];
        let mut with = facts(ini);
        with.files.insert("tox.ini".to_owned(), "[tox]\nenvlist = unit\n".to_owned());
        // None of them has pytest, and tox is not installed.
        assert_eq!(Environment::of(&with).python(&with), None);
        with.binaries.insert("tox".to_owned(), PathBuf::from("/bin/tox"));
        let environment = Environment::of(&with);
        assert_eq!(environment.manager, Some(TOX));
        assert!(environment.why.starts_with("tox because of tox.ini;"), "{}", environment.why);
        let plan = environment.plan(&with, "mypy", vec![".".to_owned()]);
        assert_eq!(
            (plan.program.as_str(), plan.args.join(" ").as_str()),
            ("tox", "exec -q -e py -x testenv.pass_env=* -- mypy .",)
        );
        with.files.insert(".tox/unit/bin/pytest".to_owned(), String::new());
        assert_eq!(Environment::of(&with).folder, Some(PathBuf::from("/w/app/.tox/unit")));
        with.files.insert(".tox/py312/bin/python".to_owned(), String::new());
        assert_eq!(Environment::of(&with).folder, Some(PathBuf::from("/w/app/.tox/py312")));
    }
}
