//! Steps with a name, a time and a verdict.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// What became of a step.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It holds; a few words on what was seen.
    Passed(String),
    /// It could not be looked at here, and why that is in order.
    NotChecked(String),
    /// It does not hold; everything that helps to mend it.
    Failed(String),
}

/// The steps of one run, in order.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    done: Vec<(String, Duration, Verdict)>,
}

impl Steps {
    /// Runs a step and prints its line; says whether it held.
    pub(crate) fn run(&mut self, name: &str, step: impl FnOnce() -> Result<Verdict>) -> bool {
        print!("{name:<14} ");
        // A line that is not shown yet is only less comfortable.
        let _ = std::io::stdout().flush();
        let start = Instant::now();
        let verdict = step().unwrap_or_else(|problem| Verdict::Failed(format!("{problem:#}")));
        let took = start.elapsed();
        println!("{}", line(took, &verdict));
        if let Verdict::Failed(output) = &verdict {
            println!("{}\n", output.trim_end());
        }
        let held = !matches!(verdict, Verdict::Failed(_));
        self.done.push((name.to_owned(), took, verdict));
        held
    }

    /// Prints the closing summary and gives the exit code.
    pub(crate) fn finish(self) -> ExitCode {
        let failed: Vec<&str> = self
            .done
            .iter()
            .filter(|(_, _, verdict)| matches!(verdict, Verdict::Failed(_)))
            .map(|(name, _, _)| name.as_str())
            .collect();
        let total: Duration = self.done.iter().map(|(_, took, _)| *took).sum();
        let mut summary = format!("\n{} steps in {:.0} s", self.done.len(), total.as_secs_f64());
        for (name, _, verdict) in &self.done {
            if let Verdict::NotChecked(why) = verdict {
                // Writing to a String does not fail.
                let _ = write!(summary, "; {name} not checked ({why})");
            }
        }
        println!("{summary}");
        if failed.is_empty() {
            println!("everything holds");
            ExitCode::SUCCESS
        } else {
            println!("FAILED: {}", failed.join(", "));
            ExitCode::FAILURE
        }
    }
}

fn line(took: Duration, verdict: &Verdict) -> String {
    let seconds = took.as_secs_f64();
    match verdict {
        Verdict::Passed(note) => format!("ok      {seconds:7.1} s  {note}").trim_end().to_owned(),
        Verdict::NotChecked(why) => format!("skipped {seconds:7.1} s  {why}"),
        Verdict::Failed(_) => format!("FAILED  {seconds:7.1} s"),
    }
}

/// What a program printed, and whether it succeeded.
#[derive(Debug)]
pub(crate) struct Printed {
    pub(crate) success: bool,
    pub(crate) text: String,
}

/// Runs a program to its end and keeps everything it prints, in the order in which it printed it.
pub(crate) fn capture(command: &mut Command) -> Result<Printed> {
    let shown = show(command);
    let (mut reader, writer) = std::io::pipe().context("no pipe to be had")?;
    let second = writer.try_clone().context("no pipe to be had")?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(second)
        .spawn()
        .with_context(|| format!("cannot start `{shown}`"))?;
    // The command holds the writing ends; the reader sees the end only when they are gone.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut reader, &mut bytes).with_context(|| format!("reading from `{shown}`"))?;
    let status = child.wait().with_context(|| format!("waiting for `{shown}`"))?;
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if !status.success() {
        text = format!("$ {shown}\n{}\n({status})", text.trim_end());
    }
    Ok(Printed { success: status.success(), text })
}

/// Runs a program; it holds when the program succeeds.
pub(crate) fn program(command: &mut Command) -> Result<Verdict> {
    let printed = capture(command)?;
    Ok(if printed.success { Verdict::Passed(String::new()) } else { Verdict::Failed(printed.text) })
}

fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
