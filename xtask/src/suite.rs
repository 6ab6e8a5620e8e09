//! `cargo xtask test` and `cargo xtask check`: the steps, in the order in which a failure is cheapest.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::Result;
use testkit::tools::{self, BUNDLES, Bundle};

use crate::product::Product;
use crate::steps::{Steps, Verdict, capture, program};
use crate::{architecture, budget, generate, links, setup, test_run};

/// How much to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// What CI looks at.
    Everything,
    /// The quick part.
    WithoutTests,
}

pub(crate) fn run(root: &Path, scope: Scope) -> Result<ExitCode> {
    let mut steps = Steps::default();
    let wanted: Vec<&'static Bundle> = match scope {
        Scope::Everything => BUNDLES.iter().collect(),
        Scope::WithoutTests => tools::bundle("cargo-deny").into_iter().collect(),
    };
    let ready = steps.run("setup", || {
        let done = setup::install(&wanted)?;
        Ok(Verdict::Passed(format!("{} installed, {} there already", done.installed, done.present)))
    });
    if !ready {
        return Ok(steps.finish());
    }
    steps.run("format", || program(cargo(root).args(["fmt", "--all", "--check"])));
    steps.run("architecture", || architecture::verdict(root));
    steps.run("links", || links::verdict(root));
    // Also what only other systems build: the next step looks at the licences of all.
    steps.run("crates", || program(cargo(root).args(["fetch", "--quiet", "--locked"])));
    steps.run("licences", || {
        program(cargo_deny(root).args([
            "--offline",
            "check",
            "--hide-inclusion-graph",
            "bans",
            "licenses",
            "sources",
        ]))
    });
    steps.run("advisories", || advisories(root));
    steps.run("clippy", || {
        let mut command = cargo(root);
        command.args([
            "clippy",
            "--quiet",
            "--locked",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ]);
        program(&mut command)
    });
    steps.run("docs", || {
        let mut command = cargo(root);
        command.env("RUSTDOCFLAGS", "-D warnings");
        program(command.args(["doc", "--quiet", "--locked", "--workspace", "--no-deps"]))
    });
    steps.run("build", || match scope {
        Scope::Everything => test_run::build(root),
        Scope::WithoutTests => Product::build(root).map(|_| Verdict::Passed(String::new())),
    });
    steps.run("generated", || generate::verdict(root, &Product::built(root)?));
    steps.run("budget", || budget::verdict(&Product::built(root)?));
    if scope == Scope::Everything {
        steps.run("tests", || test_run::run(root));
    }
    Ok(steps.finish())
}

pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root);
    if std::env::var_os("CI").is_some() {
        // what would make the next build quicker makes this one, which is the only one there, slower
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

fn cargo_deny(root: &Path) -> Command {
    let mut command = Command::new(tools::path("cargo-deny"));
    command.current_dir(root);
    command
}

/// Known security problems of the dependencies, where their database can be fetched.
fn advisories(root: &Path) -> Result<Verdict> {
    let fetched = capture(
        Command::new("timeout").arg("20").arg(tools::path("cargo-deny")).arg("fetch").current_dir(root),
    )?;
    if !fetched.success {
        return Ok(Verdict::NotChecked("the advisory database cannot be reached from here".into()));
    }
    program(cargo_deny(root).args(["--offline", "check", "advisories"]))
}
