//! `cargo xtask`: what everybody who works on the project runs.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line program talks to its user")]
#![expect(clippy::disallowed_methods, reason = "runs the development tools, outside of the product")]

mod architecture;
mod budget;
mod generate;
mod links;
mod product;
mod setup;
mod steps;
mod suite;
mod test_run;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};

use crate::product::Product;
use crate::steps::Verdict;

const HELP: &str = "\
cargo xtask: checks, tests and generated files of codegen-sandbox

Usage: cargo xtask <command>

  test                  Everything: sets the test tools up, then format, lints, documentation,
                        licences and sources, architecture, generated files, every test.
                        This is what CI runs. A first run installs tools and takes minutes.
  check                 The same without the tests: for the moment before a commit.
  setup [name...]       Install the test tools (or those named) into the cache folder.
                        Instant when they are there.
  setup --list          What would be installed, pinned to what, and whether it is there.
  architecture          Check who may use whom (the tables in ARCHITECTURE.md) and the gates.
  generate [--check]    Write the generated reference pages (or only say whether they are current).
  budget                What tools/list costs a conversation, tool by tool, against its limit.

Tools go to $XDG_CACHE_HOME/codegen-sandbox/tools (~/.cache when unset); nothing else is touched,
except packages of the system (apt, only as root) and components of the Rust toolchain (rustup).
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(code) => code,
        Err(problem) => {
            eprintln!("error: {problem:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> Result<ExitCode> {
    let root = project_root()?;
    match arguments {
        [] | ["help" | "--help" | "-h", ..] | [_, "--help" | "-h"] => {
            print!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        ["test"] => suite::run(&root, suite::Scope::Everything),
        ["check"] => suite::run(&root, suite::Scope::WithoutTests),
        ["setup", "--list"] => {
            setup::list();
            Ok(ExitCode::SUCCESS)
        }
        ["setup", names @ ..] => setup::command(names),
        ["architecture"] => Ok(show(architecture::verdict(&root)?)),
        ["generate"] => {
            println!("{}", generate::write(&root, &Product::build(&root)?)?);
            Ok(ExitCode::SUCCESS)
        }
        ["generate", "--check"] => Ok(show(generate::verdict(&root, &Product::build(&root)?)?)),
        ["budget"] => {
            let (report, held) = budget::report(&Product::build(&root)?)?;
            println!("{report}");
            Ok(if held { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        [unknown, ..] => {
            bail!("`{}` is not understood (near `{unknown}`); see `cargo xtask --help`", arguments.join(" "))
        }
    }
}

fn show(verdict: Verdict) -> ExitCode {
    match verdict {
        Verdict::Failed(problems) => {
            println!("{problems}");
            ExitCode::FAILURE
        }
        Verdict::Passed(note) | Verdict::NotChecked(note) => {
            println!("{note}");
            ExitCode::SUCCESS
        }
    }
}

fn project_root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(Path::to_owned).context("xtask does not lie inside the project")
}
