//! Snapshots and what undo costs, beside git doing the same with its own commands.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::floors::{self, Limit};
use crate::probe::Times;
use crate::report::{Report, ms, times, verdict};
use crate::subjects::Subjects;
use crate::tree;

const FILES: usize = 5_000;
const MANY_FILES: usize = 50_000;
const ROUNDS: usize = 7;
/// Parts of the floor in milliseconds where the limits were set: the stamps of all files, a durable write, 1,000 files
/// written over.
const STAMPS: f64 = 2.7;
const DURABLE: f64 = 0.35;
const OVER: f64 = 8.3;
const OVERWRITTEN: usize = 1_000;

/// A tree, and git with an index and a repository of its own beside it.
struct Place {
    folder: tempfile::TempDir,
    git: tempfile::TempDir,
    files: Vec<PathBuf>,
    /// Files of their own for the floor, which nobody follows.
    spare: tempfile::TempDir,
    round: usize,
}

impl Place {
    fn new(subjects: &Subjects, files: usize) -> Result<Self> {
        let (folder, git) = (subjects.folder()?, subjects.folder()?);
        tree::make(folder.path(), files)?;
        let mut all = Vec::new();
        collect(&folder.path().join("src"), &mut all)?;
        all.sort();
        let spare = subjects.folder()?;
        for number in 0..OVERWRITTEN {
            fs::write(spare.path().join(number.to_string()), [b'x'; 1500])?;
        }
        let place = Self { folder, git, files: all, spare, round: 0 };
        // Without the variables of the other commands: `init --bare` refuses a work tree.
        let made = Command::new("git").args(["init", "-q", "--bare"]).arg(place.git.path()).status()?;
        ensure!(made.success(), "git init: {made}");
        // What we keep is on disk when we answer: so it is with git then, in the quickest way that it has.
        for setting in [["core.bare", "false"], ["core.fsync", "all"], ["core.fsyncMethod", "batch"]] {
            place.git(&["config", setting[0], setting[1]])?;
        }
        Ok(place)
    }

    /// New content in the first files, never the same twice. It is on disk before anything is timed, and so is what was
    /// left to be written after the last answer: neither side pays for the other's.
    fn change(&mut self, count: usize) -> Result<()> {
        self.round += 1;
        for (number, file) in self.files.iter().take(count).enumerate() {
            let mut text = fs::read_to_string(file)?;
            text.truncate(text.find("// round").unwrap_or(text.len()));
            fs::write(file, format!("{text}// round {} of file {number}\n", self.round))?;
        }
        rustix::fs::syncfs(fs::File::open(self.folder.path())?)?;
        Ok(())
    }

    /// The bare work below a snapshot or a restore that writes over so many files.
    fn floor(&self, over: usize) -> Result<()> {
        floors::stamps(&self.files)?;
        floors::durable(self.spare.path())?;
        let files: Vec<PathBuf> =
            (0..over).map(|number| self.spare.path().join(number.to_string())).collect();
        floors::overwrite(&files)
    }

    fn git(&self, arguments: &[&str]) -> Result<String> {
        let output = Command::new("git")
            .args(arguments)
            .current_dir(self.folder.path())
            .env("GIT_DIR", self.git.path())
            .env("GIT_WORK_TREE", self.folder.path())
            .env("GIT_AUTHOR_NAME", "bench")
            .env("GIT_AUTHOR_EMAIL", "bench@localhost")
            .env("GIT_COMMITTER_NAME", "bench")
            .env("GIT_COMMITTER_EMAIL", "bench@localhost")
            .output()?;
        ensure!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    fn git_create(&self) -> Result<String> {
        self.git(&["add", "-A"])?;
        let tree = self.git(&["write-tree"])?;
        let commit = self.git(&["commit-tree", "-m", "snapshot", &tree])?;
        self.git(&["update-ref", "refs/snapshots/s", &commit])?;
        Ok(tree)
    }

    /// As ours, with a snapshot of what is there first, and the names of what changed.
    fn git_restore(&self, tree: &str) -> Result<String> {
        let before = self.git_create()?;
        self.git(&["read-tree", "-u", "--reset", tree])?;
        self.git(&["diff-tree", "-r", "--name-status", &before, tree])
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { collect(&path, files)? } else { files.push(path) }
    }
    Ok(())
}

pub(crate) fn snapshots(subjects: &Subjects, report: &mut Report) -> Result<()> {
    let mut place = Place::new(subjects, FILES)?;
    let mut client = subjects.product(place.folder.path())?;
    client.text("snapshot_create", &json!({ "name": "base" }))?;
    let base = place.git_create()?;
    report.section(
        &format!("Snapshots, {FILES} files"),
        &["", "ours", "git's commands", "git beside ours", "floor", "ours beside the floor", "asked", ""],
    );
    let mut row = |name: &str, [ours, git, floor]: [Duration; 3], limit: &Limit| {
        let met = if git < ours * 10 { verdict(false) } else { limit.verdict(ours, floor) };
        let asked = format!("≥ 10 ×; {}", limit.asked());
        let (beside_git, beside_floor) = (times(git, ours), times(ours, floor));
        report.row(&[name.to_owned(), ms(ours), ms(git), beside_git, ms(floor), beside_floor, asked, met]);
    };
    let [mut ours, mut git, mut floor] = [const { Times::new() }; 3];
    for round in 0..ROUNDS {
        place.change(10)?;
        ours.time(|| client.text("snapshot_create", &json!({ "name": format!("s{round}") })))?;
        floor.time(|| place.floor(0))?;
        place.change(10)?;
        git.time(|| place.git_create())?;
    }
    let took = [ours.median(), git.median(), floor.median()];
    row("create, durable, 10 changed", took, &Limit::new(8.0, STAMPS + DURABLE));
    for (count, over, limit) in [
        (10, 0, Limit::new(10.0, STAMPS + DURABLE)),
        (1_000, OVERWRITTEN, Limit::new(40.0, STAMPS + DURABLE + OVER)),
    ] {
        let [mut ours, mut git, mut floor] = [const { Times::new() }; 3];
        for _ in 0..ROUNDS {
            place.change(count)?;
            let text = ours.time(|| client.text("snapshot_restore", &json!({ "name": "base" })))?;
            ensure!(text.contains(&format!("({count} file(s) changed)")), "{text}");
            floor.time(|| place.floor(over))?;
            place.change(count)?;
            let names = git.time(|| place.git_restore(&base))?;
            ensure!(names.lines().count() == count, "{names}");
        }
        let took = [ours.median(), git.median(), floor.median()];
        row(&format!("restore, {count} changed"), took, &limit);
    }
    report.note(
        "git works in a repository of its own with `core.fsync=all` and `core.fsyncMethod=batch`, since ours is on \
         disk when it answers. Create is `add -A`, `write-tree`, `commit-tree` and `update-ref`; restore is the same, \
         since ours keeps what is there first, then `read-tree -u --reset`, and `diff-tree`, since ours names what \
         changed. Ours waits until what was there and \
         what it is about to do is on disk, so that an answered restore outlasts a power cut: the next start finishes \
         it. The restored files themselves follow after the answer; git has no command that has them on disk. Before \
         each is timed, everything that was written so far is on disk, so that neither waits for the changes to the \
         files, or for what the other left to be written. The floor, by turns with both: the stamps of all files with \
         all processors and one small durable write; for 1,000 files also as many written over with all processors.",
    );
    calls(subjects, report)
}

/// What undo adds to a call.
fn calls(subjects: &Subjects, report: &mut Report) -> Result<()> {
    let folder = subjects.folder()?;
    tree::make(folder.path(), MANY_FILES)?;
    let off = subjects.scratch.join("no-undo.yaml");
    fs::write(
        &off,
        "apiVersion: codegen-sandbox/v1\nkind: RuntimeConfig\nspec:\n  undo: { enabled: false }\n",
    )?;
    let off = off.to_str().context("the scratch folder's name")?;
    let mut with = subjects.product(folder.path())?;
    let mut without = subjects.product_with(folder.path(), &["--config", off])?;
    let mut first = Times::default();
    first.time(|| with.text("Bash", &json!({ "command": "echo first > changed" })))?;
    without.text("Bash", &json!({ "command": "echo first > changed" }))?;
    let [mut ours, mut bare] = [const { Times::new() }; 2];
    for round in 0..40 {
        let command = json!({ "command": format!("echo {round} > changed; echo {round} > src/part0/also") });
        ours.time(|| with.text("Bash", &command))?;
        bare.time(|| without.text("Bash", &command))?;
    }
    let added = ours.median().saturating_sub(bare.median());
    report.section(&format!("Undo, {MANY_FILES} files"), &["", "median", "asked", ""]);
    let none = String::new;
    report.row(&["Bash that changes two files, undo off".to_owned(), ms(bare.median()), none(), none()]);
    report.row(&["the same, undo on".to_owned(), ms(ours.median()), none(), none()]);
    let met = verdict(added < Duration::from_millis(5));
    report.row(&["added per call".to_owned(), ms(added), "< 5 ms".to_owned(), met]);
    report.row(&["the first call, undo on".to_owned(), ms(first.median()), none(), none()]);
    Ok(())
}
