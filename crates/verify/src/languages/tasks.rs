//! Targets of make and just: what a language without scripts of its own offers as such.

use crate::{Detector, Facts, Plan, ScriptError};
use std::collections::BTreeMap;

const MAKEFILES: [&str; 3] = ["GNUmakefile", "makefile", "Makefile"];
const JUSTFILES: [&str; 3] = ["justfile", "Justfile", ".justfile"];

/// Names of every target, sorted.
pub(crate) fn names(facts: &dyn Facts) -> Vec<String> {
    targets(facts).into_keys().collect()
}

/// The command that runs one.
pub(crate) fn plan(facts: &dyn Facts, name: &str) -> Option<Plan> {
    let (program, file) = targets(facts).remove(name)?;
    Some(Plan {
        runner: program,
        program: program.to_owned(),
        args: vec![name.to_owned()],
        merged: true,
        why: vec![format!("{name} is a target of {file}")],
        ..Plan::default()
    })
}

/// Why there is no such script, for a detector whose scripts are the project's targets and perhaps more.
pub(crate) fn unknown(detector: &dyn Detector, facts: &dyn Facts, name: &str) -> ScriptError {
    let available = detector.scripts(facts);
    if available.is_empty() {
        let why = "the project has no Makefile or justfile with targets; use Bash";
        return detector.unsupported("run_script", why).into();
    }
    let mut places: Vec<&str> = targets(facts).into_values().map(|(_, file)| file).collect();
    places.sort_unstable();
    places.dedup();
    let place = if places.is_empty() { "the project".to_owned() } else { places.join(" or ") };
    ScriptError::Unknown { name: name.to_owned(), place, available }
}

/// Target to its program and the file that defines it; make wins, being there on more machines.
fn targets(facts: &dyn Facts) -> BTreeMap<String, (&'static str, &'static str)> {
    let mut targets = BTreeMap::new();
    for (program, files) in [("just", JUSTFILES), ("make", MAKEFILES)] {
        for file in files {
            let Some(text) = facts.read(file) else { continue };
            targets.extend(text.lines().filter_map(target).map(|name| (name.to_owned(), (program, file))));
            break;
        }
    }
    targets
}

/// The target that a line of a Makefile or justfile defines.
fn target(line: &str) -> Option<&str> {
    let line = line.strip_prefix('@').unwrap_or(line);
    let (head, rest) = line.split_once(':')?;
    let mut words = head.split_whitespace();
    let name = words.next()?;
    let assigns = |word: &str| ["=", "?=", "+=", "!=", ":="].contains(&word);
    if rest.starts_with('=') || name.contains('=') || words.next().is_some_and(assigns) {
        return None;
    }
    let starts_well = head.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
    (starts_well && plain && !["alias", "set", "export", "import", "mod"].contains(&name)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MapFacts;

    #[test]
    fn targets_of_make_and_just_are_found_and_nothing_else() {
        let mut facts = MapFacts::default();
        let make = "CC := gcc\nX ?= y:z\n.PHONY: all\nall: a b\n\techo x: y\nbuild/out.o: in.c\n%.o: %.c\n# c: d\ninstall test:\n";
        facts.files.insert("Makefile".to_owned(), make.to_owned());
        let just = "set shell := [\"bash\"]\nalias b := build\nversion := \"1\"\n@build target='x':\n  cargo build\nlint: build\n";
        facts.files.insert("justfile".to_owned(), just.to_owned());
        assert_eq!(names(&facts), ["all", "build", "build/out.o", "install", "lint"].map(str::to_owned));
        assert_eq!(plan(&facts, "lint").map(|plan| plan.program), Some("just".to_owned()));
        assert!(plan(&facts, "echo").is_none());
    }
}
