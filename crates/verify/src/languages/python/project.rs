//! What pyproject.toml and its neighbours say about a Python project.

use super::interpreter::Environment;
use crate::Facts;
use std::collections::BTreeMap;
use toml::{Table, Value};

/// Who runs a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Script {
    Poetry,
    Pdm,
    Hatch,
    Uv,
}

impl Script {
    /// The command that runs it.
    pub(super) fn command(self, name: &str) -> (&'static str, Vec<String>) {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        match self {
            Self::Poetry => ("poetry", words(&["run", name])),
            Self::Pdm => ("pdm", words(&["run", name])),
            Self::Hatch => ("hatch", words(&["run", name])),
            Self::Uv => ("uv", words(&["run", name])),
        }
    }
}

/// A read project.
#[derive(Debug, Default)]
pub(super) struct Project {
    /// Name to who runs it.
    pub scripts: BTreeMap<String, Script>,
    pyproject: Table,
    text: String,
}

impl Project {
    /// Whatever can be read; broken TOML is no TOML.
    pub(super) fn read(facts: &dyn Facts) -> Self {
        let text = facts.read("pyproject.toml").unwrap_or_default();
        let pyproject: Table = text.parse().unwrap_or_default();
        let mut project = Self { text, pyproject, ..Self::default() };
        project.find_scripts(facts);
        project
    }

    fn table(&self, path: &[&str]) -> Option<&Table> {
        let mut table = &self.pyproject;
        for name in path {
            table = table.get(*name)?.as_table()?;
        }
        Some(table)
    }

    fn find_scripts(&mut self, facts: &dyn Facts) {
        let manager = if facts.exists("pdm.lock") {
            Script::Pdm
        } else if facts.exists("poetry.lock") {
            Script::Poetry
        } else {
            Script::Uv
        };
        let mut found = BTreeMap::new();
        let mut add = |table: Option<&Table>, script: Script| {
            let names = table.into_iter().flat_map(Table::keys).filter(|name| !name.starts_with('_'));
            found.extend(names.map(|name| (name.clone(), script)));
        };
        add(self.table(&["project", "scripts"]), manager);
        add(self.table(&["tool", "poetry", "scripts"]), Script::Poetry);
        add(self.table(&["tool", "pdm", "scripts"]), Script::Pdm);
        for (environment, settings) in self.table(&["tool", "hatch", "envs"]).into_iter().flatten() {
            let scripts = settings.get("scripts").and_then(Value::as_table);
            for name in scripts.into_iter().flat_map(Table::keys) {
                let name =
                    if environment == "default" { name.clone() } else { format!("{environment}:{name}") };
                found.insert(name, Script::Hatch);
            }
        }
        self.scripts = found;
    }

    /// Whether tests run with unittest: nothing asks for pytest, and it is not there.
    pub(super) fn uses_unittest(&self, facts: &dyn Facts, environment: &Environment) -> bool {
        let asked = self.table(&["tool", "pytest"]).is_some()
            || ["pytest.ini", ".pytest.ini", "conftest.py", "tests/conftest.py", "test/conftest.py"]
                .iter()
                .any(|file| facts.exists(file))
            || self.mentions("pytest")
            || [
                "setup.cfg",
                "tox.ini",
                "requirements.txt",
                "requirements-dev.txt",
                "dev-requirements.txt",
                "setup.py",
            ]
            .iter()
            .any(|file| facts.read(file).is_some_and(|text| text.contains("pytest")));
        if asked {
            return false;
        }
        match environment.has_package(facts, "pytest") {
            Some(there) => !there,
            // A manager keeps it elsewhere: what is on the PATH says nothing about it.
            None if environment.is_kept_elsewhere() => true,
            None => environment.tool(facts, "pytest").is_none(),
        }
    }

    fn mentions(&self, package: &str) -> bool {
        self.text.contains(package)
    }

    /// The type checker: the one that is configured, else one that is there, else mypy.
    pub(super) fn checker(&self, facts: &dyn Facts, environment: &Environment) -> &'static str {
        if self.configures_mypy(facts) {
            return "mypy";
        }
        if self.table(&["tool", "basedpyright"]).is_some() {
            return "basedpyright";
        }
        if self.table(&["tool", "pyright"]).is_some() || facts.exists("pyrightconfig.json") {
            let based = environment.tool(facts, "pyright").is_none()
                && environment.tool(facts, "basedpyright").is_some();
            return if based { "basedpyright" } else { "pyright" };
        }
        if self.table(&["tool", "ty"]).is_some() || facts.exists("ty.toml") {
            return "ty";
        }
        let known = ["mypy", "pyright", "basedpyright", "ty"];
        let depended = known.into_iter().find(|name| *name != "ty" && self.mentions(name));
        let there = || known.into_iter().find(|name| environment.tool(facts, name).is_some());
        depended.or_else(there).unwrap_or("mypy")
    }

    fn configures_mypy(&self, facts: &dyn Facts) -> bool {
        self.table(&["tool", "mypy"]).is_some()
            || facts.exists("mypy.ini")
            || facts.exists(".mypy.ini")
            || facts.read("setup.cfg").is_some_and(|text| text.contains("[mypy"))
    }

    /// Why this checker.
    pub(super) fn why_checker(&self, facts: &dyn Facts, checker: &str) -> String {
        let configured = match checker {
            "mypy" => self.configures_mypy(facts),
            "ty" => self.table(&["tool", "ty"]).is_some() || facts.exists("ty.toml"),
            _ => {
                self.table(&["tool", "pyright"]).is_some()
                    || self.table(&["tool", "basedpyright"]).is_some()
                    || facts.exists("pyrightconfig.json")
            }
        };
        if configured {
            format!("{checker} because the project configures it")
        } else {
            format!("{checker} because no type checker is configured")
        }
    }
}
