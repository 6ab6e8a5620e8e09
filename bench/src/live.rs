//! The live workspace: search beside a spawned `rg`, the first call, memory, and what it costs to be idle; and the
//! random oracle, which says whether its answers are right.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use workspace::Mode;

use crate::USAGE;
use crate::client::Client;
use crate::oracle as changes;
use crate::probe::{Times, cpu, resident};
use crate::report::{Report, ms, times, verdict};
use crate::subjects::Subjects;
use crate::tree::{self, RARE};

/// Sizes of trees, how often each is searched, and how much quicker than `rg` a rare string is to be found.
const SIZES: &[(usize, usize, u32)] = &[(5_000, 15, 50), (50_000, 7, 200)];
/// Stands in every file, many times.
const COMMON: &str = "compute";
const LIMIT: usize = 50;
/// How long an idle server is watched.
const WATCHED: Duration = Duration::from_secs(60);
/// A server that used no processor for so long has built its index.
const QUIET: Duration = Duration::from_millis(400);

pub(crate) fn live(subjects: &Subjects, report: &mut Report) -> Result<()> {
    report.section("The live workspace", &["", "files", "ours", "beside", "", "asked", ""]);
    for &(files, rounds, rare) in SIZES {
        let folder = subjects.folder()?;
        tree::make(folder.path(), files)?;
        let stage = Stage { subjects, folder: folder.path(), files };
        stage.first_call(report)?;
        stage.warm(report, rounds, rare)?;
        stage.memory(report)?;
        stage.idle(report)?;
    }
    report.note(
        "`rg -m 50` stops after fifty matches in each file, which is the nearest it has to a limit; `| head -50` ends it \
         when the reader has enough. Index memory is the server's growth over one with an empty workspace, per byte of \
         text. The idle server is watched for a minute, sweeps included.",
    );
    Ok(())
}

/// One tree and the product on it.
struct Stage<'s> {
    subjects: &'s Subjects,
    folder: &'s Path,
    files: usize,
}

impl Stage<'_> {
    fn row(&self, report: &mut Report, what: &str, cells: [String; 4], met: Option<bool>) {
        let [ours, beside, ratio, asked] = cells;
        let met = met.map(verdict).unwrap_or_default();
        report.row(&[what.to_owned(), self.files.to_string(), ours, beside, ratio, asked, met]);
    }

    fn rg(&self, arguments: &[&str]) -> Result<Vec<u8>> {
        let output = Command::new("rg").args(arguments).current_dir(self.folder).output()?;
        ensure!(!output.stdout.is_empty(), "rg {arguments:?} found nothing");
        Ok(output.stdout)
    }

    /// `rg … | head -50`, without a shell in between.
    fn rg_head(&self, arguments: &[&str]) -> Result<Vec<u8>> {
        let mut rg = Command::new("rg")
            .args(arguments)
            .current_dir(self.folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let lines = rg.stdout.take().context("rg's output")?;
        let head = Command::new("head").args(["-n", &LIMIT.to_string()]).stdin(lines).output()?;
        rg.wait()?;
        Ok(head.stdout)
    }

    /// The first call of a server that has just come up, while it builds its index.
    fn first_call(&self, report: &mut Report) -> Result<()> {
        let first = [
            ("Grep, first call", "Grep", json!({ "pattern": RARE }), &["--no-heading", "-n", RARE, "."][..]),
            ("Glob, first call", "Glob", json!({ "pattern": "**/*.md" }), &["--files", "-g", "**/*.md"]),
        ];
        for (what, tool, arguments, beside_it) in first {
            let [mut ours, mut beside] = [const { Times::new() }; 2];
            for _ in 0..9 {
                let mut client = self.subjects.product(self.folder)?;
                let text = ours.time(|| client.text(tool, &arguments))?;
                ensure!(text.contains(RARE) || text.contains(".md"), "the first {tool} gave {text:?}");
                drop(client);
                beside.time(|| self.rg(beside_it))?;
            }
            let (ours, beside) = (ours.median(), beside.median());
            let cells = [ms(ours), ms(beside), times(beside, ours), "not slower than `rg`".to_owned()];
            self.row(report, what, cells, Some(ours <= beside));
        }
        Ok(())
    }

    fn warm(&self, report: &mut Report, rounds: usize, rare: u32) -> Result<()> {
        let mut client = self.subjects.product(self.folder)?;
        settle(&client)?;
        let common = ["--no-heading", "-n", COMMON, "."];
        let [mut grep, mut limited, mut listed, mut glob] = [const { Times::new() }; 4];
        let [mut rg, mut rg_limited, mut rg_head, mut rg_listed, mut rg_files] = [const { Times::new() }; 5];
        let limits = json!({ "pattern": COMMON, "head_limit": LIMIT });
        let lists = json!({ "pattern": COMMON, "head_limit": LIMIT, "output_mode": "files_with_matches" });
        for _ in 0..rounds {
            let mut ask = |times: &mut Times, tool: &str, arguments: &Value, lines: usize| {
                let text = times.time(|| client.text(tool, arguments))?;
                ensure!(text.lines().count() >= lines, "{tool} {arguments} gave {text:?}");
                anyhow::Ok(())
            };
            ask(&mut grep, "Grep", &json!({ "pattern": RARE }), 1)?;
            rg.time(|| self.rg(&["--no-heading", "-n", RARE, "."]))?;
            ask(&mut limited, "Grep", &limits, LIMIT)?;
            rg_limited.time(|| self.rg(&[&["-m", "50"], &common[..]].concat()))?;
            rg_head.time(|| self.rg_head(&common))?;
            ask(&mut listed, "Grep", &lists, LIMIT)?;
            rg_listed.time(|| self.rg(&["-l", COMMON, "."]))?;
            ask(&mut glob, "Glob", &json!({ "pattern": "**/*.md" }), 100)?;
            rg_files.time(|| self.rg(&["--files", "-g", "**/*.md"]))?;
        }
        let mut compare = |what: &str, ours: &mut Times, beside: &mut Times, asked: Option<u32>| {
            let (ours, beside) = (ours.median(), beside.median());
            let text = asked.map(|asked| format!("≥ {asked} ×")).unwrap_or_default();
            let met = asked.map(|asked| ours * asked <= beside);
            self.row(report, what, [ms(ours), ms(beside), times(beside, ours), text], met);
        };
        compare("Grep, one hit; `rg`", &mut grep, &mut rg, Some(rare));
        compare("Grep, 50 of many lines; `rg -m 50`", &mut limited, &mut rg_limited, Some(20));
        compare("the same; `rg` into `head -50`", &mut limited, &mut rg_head, None);
        compare("Grep, 50 of many files; `rg -l`", &mut listed, &mut rg_listed, Some(20));
        compare("Glob `**/*.md`; `rg --files`", &mut glob, &mut rg_files, Some(20));
        Ok(())
    }

    fn memory(&self, report: &mut Report) -> Result<()> {
        let empty = self.subjects.folder()?;
        let idle = |folder: &Path| {
            let mut client = self.subjects.product(folder)?;
            client.text("Glob", &json!({ "pattern": "*" }))?;
            settle(&client)?;
            resident(client.pid())
        };
        let grown = idle(self.folder)?.saturating_sub(idle(empty.path())?);
        let text = bytes_below(self.folder)?;
        let ratio = grown as f64 / text as f64;
        let cells = [
            format!("{:.1} MB", grown as f64 / 1e6),
            format!("{:.1} MB of text", text as f64 / 1e6),
            format!("{ratio:.2}"),
            "≤ 0.5".to_owned(),
        ];
        self.row(report, "index memory", cells, Some(ratio <= 0.5));
        Ok(())
    }

    fn idle(&self, report: &mut Report) -> Result<()> {
        let client = self.subjects.product(self.folder)?;
        settle(&client)?;
        let (before, begin) = (cpu(client.pid())?, Instant::now());
        thread::sleep(WATCHED);
        let used = cpu(client.pid())?.saturating_sub(before).as_secs_f64() / begin.elapsed().as_secs_f64();
        let cells =
            [format!("{:.3} % of a core", used * 100.0), String::new(), String::new(), "< 0.5 %".to_owned()];
        self.row(report, "idle", cells, Some(used < 0.005));
        Ok(())
    }
}

/// Waits until a server has nothing to do.
fn settle(client: &Client) -> Result<()> {
    let give_up = Instant::now() + Duration::from_secs(120);
    let (mut last, mut since) = (cpu(client.pid())?, Instant::now());
    while since.elapsed() < QUIET {
        ensure!(Instant::now() < give_up, "the server does not come to rest");
        thread::sleep(Duration::from_millis(20));
        let now = cpu(client.pid())?;
        if now > last + Duration::from_millis(1) {
            (last, since) = (now, Instant::now());
        }
    }
    Ok(())
}

fn bytes_below(folder: &Path) -> Result<u64> {
    let mut total = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        total +=
            if entry.file_type()?.is_dir() { bytes_below(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(total)
}

/// Random changes and questions, by events and by stat data.
pub(crate) fn oracle(arguments: &[String]) -> Result<()> {
    let (mut rounds, mut seed) = (100_000, 1);
    for pair in arguments.chunks(2) {
        match pair {
            [name, number] if name == "--rounds" => rounds = number.parse()?,
            [name, number] if name == "--seed" => seed = number.parse()?,
            _ => bail!("{USAGE}"),
        }
    }
    for mode in [Mode::Events, Mode::Stat] {
        let begin = Instant::now();
        let outcome = changes::run(mode, rounds, seed).map_err(anyhow::Error::msg)?;
        println!(
            "{mode}: {rounds} rounds, {} answers, 0 wrong, {:.0} s\n{}\n",
            outcome.answers,
            begin.elapsed().as_secs_f64(),
            outcome.status
        );
    }
    Ok(())
}
