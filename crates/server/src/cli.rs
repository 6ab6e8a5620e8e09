//! The command line.

use crate::commands::{self, Clients, Format};
use clap::{CommandFactory, Parser, Subcommand};
use config::{Flags, Listen, ServeFlags};
use std::{path::PathBuf, process::ExitCode};

/// Turns any checkout into a safe workspace that an agent can read, change and verify over MCP.
#[derive(Debug, Parser)]
#[command(name = "codegen-sandbox", version, propagate_version = true)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve clients over HTTP
    Serve {
        #[command(flatten)]
        flags: Flags,
        #[command(flatten)]
        serve: ServeFlags,
    },
    /// Serve one client on standard input and output
    Stdio {
        #[command(flatten)]
        flags: Flags,
    },
    /// Call a tool: call Grep --pattern foo, or call Grep --json '{"pattern": "foo"}'
    #[command(
        after_help = "`call <TOOL> --help` shows a tool's flags. Exit code: 0 ok, 1 the tool failed, 2 wrong usage. \
                      A failing command or test is a result: the text says `exit: N`."
    )]
    Call {
        #[command(flatten)]
        flags: Flags,
        /// How to print the result
        #[arg(long, value_enum, default_value_t)]
        format: Format,
        /// The tool, then its arguments; `--then` starts a further call in the same session
        #[arg(value_name = "TOOL", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        line: Vec<String>,
    },
    /// List the tools
    Tools {
        #[command(flatten)]
        flags: Flags,
        /// As clients see them, schemas included
        #[arg(long)]
        json: bool,
    },
    /// Say what works here, what is missing and how to get it
    #[command(after_help = "Exit code: 0 ok, 1 something asked for is missing, 2 wrong usage.")]
    Doctor {
        #[command(flatten)]
        flags: Flags,
        /// For programs
        #[arg(long)]
        json: bool,
        /// What must be there: isolation, a guarantee, an engine, a language (go) or one of its tools (go:run_lint)
        #[arg(long, value_name = "LIST", value_delimiter = ',')]
        require: Vec<String>,
    },
    /// Check a RuntimeConfig file, or print its JSON Schema
    Config {
        #[command(subcommand)]
        what: ConfigCommand,
    },
    /// Print the version
    Version,
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Check a file: exit code 0 when it can be used
    Check {
        /// The file
        file: PathBuf,
        /// The checkout it is meant for [default: the current directory]
        #[arg(long, value_name = "DIR")]
        workspace: Option<PathBuf>,
    },
    /// Print the JSON Schema of the file
    Schema,
}

pub(crate) fn command() -> clap::Command {
    Line::command()
}

/// Does what the command line says.
///
/// # Errors
/// Anything that kept it from being done, in words for a person.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    match Line::parse().command {
        Command::Serve { flags, serve } => {
            let (log, settings) = (flags.log.clone(), commands::settings(flags)?);
            let listen = Listen::resolve(&serve)?;
            let mut settings = settings.serving(&serve);
            settings.auth_token_file = serve.auth_token_file;
            settings.withheld = listen.tokens.iter().map(config::Token::secret).collect();
            commands::run(Clients::Many, || async move { commands::serve(settings, listen, &log).await })
        }
        Command::Stdio { flags } => {
            let (log, settings) = (flags.log.clone(), commands::settings(flags)?);
            commands::run(Clients::One, || async move { commands::stdio(settings, &log).await })
        }
        Command::Call { flags, format, line } => {
            let (log, settings) = (flags.log.clone(), commands::settings(flags)?);
            commands::run(Clients::One, || async move { commands::call(settings, &log, line, format).await })
        }
        Command::Tools { flags, json } => commands::tools(&commands::settings(flags)?, json),
        Command::Doctor { mut flags, json, require } => {
            // What is found goes to stdout; the log of the start would only repeat it.
            let log = if flags.log == "info" { "warn".to_owned() } else { std::mem::take(&mut flags.log) };
            let (settings, ask) = (commands::settings(flags)?, commands::Ask { json, require });
            commands::run(Clients::One, || async move { commands::doctor(settings, &log, ask).await })
        }
        Command::Config { what: ConfigCommand::Schema } => commands::config::schema(),
        Command::Config { what: ConfigCommand::Check { file, workspace } } => {
            let settings = commands::settings(Flags { config: Some(file), workspace, ..Flags::default() })?;
            commands::run(Clients::One, || async move { commands::config::check(settings).await })
        }
        Command::Version => {
            commands::print(concat!("codegen-sandbox ", env!("CARGO_PKG_VERSION"), "\n"));
            Ok(ExitCode::SUCCESS)
        }
        Command::Completions { shell } => {
            commands::completions(shell);
            Ok(ExitCode::SUCCESS)
        }
    }
}
