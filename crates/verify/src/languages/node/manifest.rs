//! What package.json, lock files and folders say about a Node project.

use crate::Facts;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path, PathBuf},
};

/// How many folders up a hoisted tool or a workspace's lock file is looked for.
const UP: usize = 8;

/// A package manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manager {
    Npm,
    Pnpm,
    Yarn,
    Bun,
}

/// Lock file to package manager, in the order they are asked.
const LOCKS: [(&str, Manager); 5] = [
    ("pnpm-lock.yaml", Manager::Pnpm),
    ("yarn.lock", Manager::Yarn),
    ("bun.lockb", Manager::Bun),
    ("bun.lock", Manager::Bun),
    ("package-lock.json", Manager::Npm),
];

impl Manager {
    /// Its program.
    pub(super) fn program(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::Pnpm => "pnpm",
            Self::Yarn => "yarn",
            Self::Bun => "bun",
        }
    }

    /// The arguments that run a script with further arguments for its last command.
    pub(super) fn run(self, script: &str, more: &[String]) -> Vec<String> {
        let mut args = vec!["run".to_owned(), script.to_owned()];
        // npm alone would take them for itself.
        if self == Self::Npm && !more.is_empty() {
            args.push("--".to_owned());
        }
        args.extend(more.iter().cloned());
        args
    }

    /// What keeps it from asking the registry or installing before it runs a script.
    pub(super) fn env(self) -> Vec<(String, String)> {
        let pairs: &[(&str, &str)] = match self {
            Self::Npm => &[("npm_config_update_notifier", "false"), ("npm_config_fund", "false")],
            Self::Pnpm => &[
                ("pnpm_config_verify_deps_before_run", "false"),
                ("npm_config_verify_deps_before_run", "false"),
                ("npm_config_manage_package_manager_versions", "false"),
            ],
            Self::Yarn => &[("YARN_ENABLE_TELEMETRY", "0"), ("COREPACK_ENABLE_DOWNLOAD_PROMPT", "0")],
            Self::Bun => &[],
        };
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }
}

/// A read package.json.
#[derive(Debug, Default)]
pub(super) struct Manifest {
    /// Name to command.
    pub scripts: BTreeMap<String, String>,
    /// Every package it depends on, in whatever way.
    pub dependencies: BTreeSet<String>,
    package_manager: Option<String>,
    sections: BTreeSet<String>,
}

impl Manifest {
    /// The project's own; empty when it cannot be read.
    pub(super) fn read(facts: &dyn Facts) -> Self {
        let value: Value = facts
            .read("package.json")
            .and_then(|text| serde_json::from_str(text.trim_start_matches('\u{feff}')).ok())
            .unwrap_or_default();
        let mut manifest = Self::default();
        let Some(object) = value.as_object() else { return manifest };
        manifest.sections = object.keys().cloned().collect();
        manifest.package_manager = object.get("packageManager").and_then(Value::as_str).map(str::to_owned);
        let scripts = object.get("scripts").and_then(Value::as_object);
        for (name, command) in scripts.into_iter().flatten() {
            if let Some(command) = command.as_str() {
                manifest.scripts.insert(name.clone(), command.to_owned());
            }
        }
        for section in ["dependencies", "devDependencies", "peerDependencies", "optionalDependencies"] {
            let packages = object.get(section).and_then(Value::as_object);
            manifest.dependencies.extend(packages.into_iter().flatten().map(|(name, _)| name.clone()));
        }
        manifest
    }

    /// Whether package.json has a section of this name ("jest", "eslintConfig").
    pub(super) fn has_section(&self, name: &str) -> bool {
        self.sections.contains(name)
    }

    /// The script of this name, unless it is npm's placeholder.
    pub(super) fn script(&self, name: &str) -> Option<&str> {
        let text = self.scripts.get(name)?.trim();
        (!text.is_empty() && !text.contains("no test specified")).then_some(text)
    }

    /// The package manager, and why it.
    pub(super) fn manager(&self, facts: &dyn Facts) -> (Manager, String) {
        for above in ups() {
            for (lock, manager) in LOCKS {
                if facts.exists(&format!("{above}{lock}")) {
                    return (manager, format!("{} because of {above}{lock}", manager.program()));
                }
            }
        }
        let named = self.package_manager.as_deref().unwrap_or_default();
        for manager in [Manager::Pnpm, Manager::Yarn, Manager::Bun] {
            if named.split('@').next() == Some(manager.program()) {
                return (manager, format!("{named} because package.json names it"));
            }
        }
        (Manager::Npm, "npm because there is no lock file".to_owned())
    }
}

/// The project's folder and those above it, as prefixes.
pub(super) fn ups() -> impl Iterator<Item = String> {
    (0..=UP).map(|level| "../".repeat(level))
}

/// Where a tool that the project brings is: `node_modules/.bin`, here or hoisted.
pub(super) fn bin(facts: &dyn Facts, name: &str) -> Option<PathBuf> {
    let at = ups().map(|above| format!("{above}node_modules/.bin/{name}")).find(|path| facts.exists(path))?;
    Some(plain(&facts.root().join(at)))
}

/// The major version of an installed package.
pub(super) fn installed_major(facts: &dyn Facts, package: &str) -> Option<u32> {
    let text = ups().find_map(|above| facts.read(&format!("{above}node_modules/{package}/package.json")))?;
    let value: Value = serde_json::from_str(&text).ok()?;
    value.get("version")?.as_str()?.split('.').next()?.parse().ok()
}

/// The path without its detours.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// The first of these files that is there.
pub(super) fn first_of(facts: &dyn Facts, names: &[&str]) -> Option<String> {
    let here = facts.list(".");
    names.iter().find(|name| here.iter().any(|file| file == *name)).map(|name| (*name).to_owned())
}

/// JSON as configuration files have it: with comments and trailing commas.
pub(super) fn jsonc(text: &str) -> Option<Value> {
    let mut clean = String::with_capacity(text.len());
    let mut chars = text.trim_start_matches('\u{feff}').chars().peekable();
    let mut quoted = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' if quoted => {
                clean.push(c);
                clean.extend(chars.next());
            }
            '"' => {
                quoted = !quoted;
                clean.push(c);
            }
            '/' if !quoted && chars.peek() == Some(&'/') => {
                while chars.peek().is_some_and(|c| *c != '\n') {
                    chars.next();
                }
            }
            '/' if !quoted && chars.peek() == Some(&'*') => {
                chars.next();
                let mut last = ' ';
                for c in chars.by_ref() {
                    if last == '*' && c == '/' {
                        break;
                    }
                    last = c;
                }
            }
            ']' | '}' if !quoted => {
                let end = clean.trim_end().len();
                clean.truncate(end);
                if clean.ends_with(',') {
                    clean.pop();
                }
                clean.push(c);
            }
            _ => clean.push(c),
        }
    }
    serde_json::from_str(&clean).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MapFacts;

    fn facts(files: &[(&str, &str)]) -> MapFacts {
        let files = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        MapFacts { files, root: PathBuf::from("/w/packages/app"), ..MapFacts::default() }
    }

    #[test]
    fn the_lock_file_chooses_the_package_manager() {
        for (lock, expected) in [
            (Some("pnpm-lock.yaml"), Manager::Pnpm),
            (Some("yarn.lock"), Manager::Yarn),
            (Some("bun.lockb"), Manager::Bun),
            (Some("bun.lock"), Manager::Bun),
            (Some("package-lock.json"), Manager::Npm),
            (Some("../../pnpm-lock.yaml"), Manager::Pnpm),
            (None, Manager::Npm),
        ] {
            let mut files = vec![("package.json", "{}")];
            files.extend(lock.map(|lock| (lock, "")));
            let facts = facts(&files);
            assert_eq!(Manifest::read(&facts).manager(&facts).0, expected, "{lock:?}");
        }
        let named = facts(&[("package.json", r#"{"packageManager":"pnpm@10.1.0"}"#)]);
        assert_eq!(Manifest::read(&named).manager(&named).0, Manager::Pnpm);
    }

    #[test]
    fn hoisted_tools_are_found_above() {
        let facts = facts(&[("package.json", "{}"), ("../../node_modules/.bin/jest", "")]);
        assert_eq!(bin(&facts, "jest"), Some(PathBuf::from("/w/node_modules/.bin/jest")));
        assert_eq!(bin(&facts, "mocha"), None);
    }

    #[test]
    fn a_broken_manifest_is_an_empty_one() {
        for text in ["", "{", "[]", "null", r#"{"scripts":[1],"dependencies":"x"}"#] {
            let facts = facts(&[("package.json", text)]);
            assert!(Manifest::read(&facts).scripts.is_empty(), "{text}");
        }
    }

    #[test]
    fn comments_and_trailing_commas_are_read_over() {
        let text = "{ // c\n \"a\": \"x//y\", /* b */ \"l\": [1, 2,],\n}";
        assert_eq!(jsonc(text), Some(serde_json::json!({"a": "x//y", "l": [1, 2]})));
        assert_eq!(jsonc("{ /* open"), None);
    }
}
