//! What the binary does, a file for each command.

mod call;
pub(crate) mod config;
mod doctor;
mod serve;
mod stdio;
mod tools;

use crate::{cli, logging, place, probes};
use ::config::{Flags, Settings};
use ::tools::Host;
use std::{
    io::{self, Write},
    process::ExitCode,
    sync::Arc,
};

pub(crate) use self::{
    call::{Format, call},
    doctor::{Ask, doctor},
    serve::serve,
    stdio::stdio,
    tools::tools,
};

/// Threads beyond this gain nothing: heavy work has threads of its own.
const MOST_WORKERS: usize = 8;

/// How many the process works for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clients {
    /// One, whose calls a single thread passes on: two would only wake each other.
    One,
    /// Any number.
    Many,
}

/// Starts the process that starts processes, then the runtime, then the command.
pub(crate) fn run<F: Future<Output = anyhow::Result<ExitCode>>>(
    clients: Clients,
    command: impl FnOnce() -> F,
) -> anyhow::Result<ExitCode> {
    // It must be forked while this process is small and has one thread.
    sandbox::spawner::init()?;
    let workers = match clients {
        Clients::One => 1,
        Clients::Many => std::thread::available_parallelism().map_or(2, usize::from).clamp(2, MOST_WORKERS),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build()?;
    let code = runtime.block_on(command())?;
    // Work that blocks may outlive its call; it must not hold up the end.
    runtime.shutdown_background();
    Ok(code)
}

/// Opens the workspaces, then starts logging: only then is it known what must not be logged.
pub(crate) fn host(settings: Settings, log: &str) -> anyhow::Result<Arc<Host>> {
    place::register(&settings)?;
    let runtime = place::runtime(&settings, settings.runtime.as_ref())?;
    let catalog = probes::catalog(settings.conformance);
    let host = Host::with_runtime(settings, runtime, catalog)?;
    logging::start(log, &host)?;
    host.remarks().iter().for_each(|remark| tracing::warn!("{remark}"));
    Ok(host)
}

/// Settings from the flags that all commands share.
pub(crate) fn settings(flags: Flags) -> anyhow::Result<Settings> {
    Ok(::config::resolve(flags)?)
}

/// Prints for people and pipes; a closed pipe is not a failure of ours.
pub(crate) fn print(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Shell completions for `shell`.
pub(crate) fn completions(shell: clap_complete::Shell) {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut shown(&cli::command()), "codegen-sandbox", &mut script);
    print(&String::from_utf8_lossy(&script));
}

/// The same command without what is hidden, which completions would offer.
fn shown(command: &clap::Command) -> clap::Command {
    let arguments = command.get_arguments().filter(|argument| !argument.is_hide_set());
    // Names must last as long as the process, which ends after this.
    let name: &'static str = Box::leak(command.get_name().into());
    let shown =
        clap::Command::new(name).args(arguments.cloned()).subcommands(command.get_subcommands().map(shown));
    match command.get_about() {
        Some(about) => shown.about(about.clone()),
        None => shown,
    }
}
