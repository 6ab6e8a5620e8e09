//! Real outputs and the facts around them.

use std::{fs, path::PathBuf};
use verify::{Captured, Detector, End, Languages, MapFacts, Plan, TestRun};

/// The repository's fixtures.
pub(crate) fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// A captured output.
pub(crate) fn output(name: &str) -> Vec<u8> {
    let path = fixtures().join("outputs").join(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The detector of a language.
pub(crate) fn language(id: &str) -> &'static dyn Detector {
    Languages::shipped().get(id).expect("a shipped language")
}

/// Facts of a project at `root` with these files.
pub(crate) fn facts(root: &str, files: &[(&str, &str)]) -> MapFacts {
    let mut facts = MapFacts { root: root.into(), scratch: "/scratch".into(), ..MapFacts::default() };
    facts.files.extend(files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())));
    facts
}

/// Facts of a fixture project, as if it stood at `root`.
pub(crate) fn project(name: &str, root: &str) -> MapFacts {
    let base = fixtures().join("projects").join(name);
    let mut facts = facts(root, &[]);
    let mut todo = vec![base.clone()];
    while let Some(folder) = todo.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            match entry.is_dir() {
                true if entry.ends_with("target") => {}
                true => todo.push(entry),
                false => {
                    let name = entry.strip_prefix(&base).expect("inside").to_string_lossy().into_owned();
                    facts.files.insert(name, fs::read_to_string(&entry).unwrap_or_default());
                }
            }
        }
    }
    facts
}

/// What a command left behind.
pub(crate) fn captured(stdout: Vec<u8>, stderr: Vec<u8>, code: i32) -> Captured {
    Captured { stdout, stderr, report: None, end: End::Exited(code) }
}

/// Reads a test run in chunks of every awkward size and checks that they all agree.
pub(crate) fn read_run(id: &str, plan: &Plan, facts: &MapFacts, captured: &Captured) -> TestRun {
    let whole = language(id).read_tests(plan, facts, captured);
    for size in [1, 7, 4096] {
        let mut reader = language(id).test_reader(plan, facts);
        captured.stdout.chunks(size).for_each(|chunk| reader.feed(verify::Stream::Stdout, chunk));
        captured.stderr.chunks(size).for_each(|chunk| reader.feed(verify::Stream::Stderr, chunk));
        if let Some(report) = &captured.report {
            report.chunks(size).for_each(|chunk| reader.feed(verify::Stream::Report, chunk));
        }
        let run = reader.finish(&captured.end, facts);
        assert_eq!(run, whole, "in chunks of {size}");
    }
    whole
}
