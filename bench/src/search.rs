//! Grep and Glob beside a spawned `rg`, from 10 to 50,000 files.

use std::process::Command;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::probe::Times;
use crate::report::{Report, ms, times, verdict};
use crate::subjects::Subjects;
use crate::tree::{self, RARE};

/// Sizes of trees, and how often each is searched.
const SIZES: &[(usize, usize)] = &[(10, 100), (100, 100), (400, 60), (5_000, 15), (50_000, 5)];

pub(crate) fn search(subjects: &Subjects, report: &mut Report) -> Result<()> {
    report.section(
        "Grep and Glob",
        &[
            "files",
            "Grep, one hit",
            "rg spawned",
            "rg beside Grep",
            "Glob `**/*.md`",
            "rg --files spawned",
            "rg beside Glob",
            "asked",
            "",
        ],
    );
    for &(files, rounds) in SIZES {
        let folder = subjects.folder()?;
        tree::make(folder.path(), files)?;
        let mut client = subjects.product(folder.path())?;
        let rg = |arguments: &[&str]| {
            let mut command = Command::new("rg");
            command.args(arguments).current_dir(folder.path());
            Ok(command.output()?.stdout)
        };
        let [mut grep, mut spawned_grep, mut glob, mut spawned_glob] = [const { Times::new() }; 4];
        for _ in 0..rounds {
            let text = grep.time(|| client.text("Grep", &json!({ "pattern": RARE })))?;
            ensure!(text.contains(RARE), "Grep in {files} files gave {text:?}");
            let found = spawned_grep.time(|| rg(&["--no-heading", "-n", RARE, "."]))?;
            ensure!(!found.is_empty(), "rg found nothing in {files} files");
            glob.time(|| client.text("Glob", &json!({ "pattern": "**/*.md" })))?;
            spawned_glob.time(|| rg(&["--files", "-g", "**/*.md"]))?;
        }
        let least = if files < 500 { 5 } else { 1 };
        let met =
            grep.median() * least <= spawned_grep.median() && glob.median() * least <= spawned_glob.median();
        report.row(&[
            files.to_string(),
            ms(grep.median()),
            ms(spawned_grep.median()),
            times(spawned_grep.median(), grep.median()),
            ms(glob.median()),
            ms(spawned_glob.median()),
            times(spawned_glob.median(), glob.median()),
            if least == 5 { "≥ 5 ×".to_owned() } else { "quicker".to_owned() },
            verdict(met),
        ]);
    }
    Ok(())
}
