//! The flags of every command that opens workspaces.

use crate::{
    ConfigError, FileError, Fixed, Limits, NamedRoot, RuntimeConfig, Secret, ServeFlags, Settings,
    ToolFilter, is_secret_name, listen, read_secrets, units,
};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// Flags shared by `serve`, `stdio`, `call` and `tools`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Flags {
    /// The checkout to work on [default: the current directory]
    #[arg(long, value_name = "DIR", conflicts_with = "workspaces")]
    pub workspace: Option<PathBuf>,

    /// Several checkouts, each under a name
    #[arg(long, value_name = "NAME=DIR,…", value_delimiter = ',')]
    pub workspaces: Vec<String>,

    /// Register only tools that change nothing
    #[arg(long)]
    pub readonly: bool,

    /// Groups or names of tools to register; `-name` leaves one out [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', allow_hyphen_values = true)]
    pub tools: Vec<String>,

    /// RuntimeConfig file: sandboxes, languages, hooks
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Folder of files whose names are secrets' names and whose contents are their values
    #[arg(long, value_name = "DIR")]
    pub secrets_dir: Option<PathBuf>,

    /// What to log on stderr: a level, or levels by module
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log: String,

    /// Calls running at once [default: 64]
    #[arg(long, value_name = "N", value_parser = listen::at_least_one, help_heading = "Limits")]
    pub max_calls: Option<usize>,

    /// Bytes of one message, be it a request's body or a line on stdio [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = units::size, help_heading = "Limits")]
    pub max_body: Option<u64>,

    /// Memory that the index of one workspace may take; past it large files leave it [default: 256MiB]
    #[arg(long, value_name = "SIZE", value_parser = units::size, help_heading = "Limits")]
    pub index_budget: Option<u64>,

    /// How long calls may go on after the first SIGTERM or SIGINT [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Limits")]
    pub grace: Option<Duration>,

    /// A language server that nobody asks for this long is ended [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Limits")]
    pub server_idle: Option<Duration>,

    /// A language server that does not answer within this time is replaced [default: 45s]
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Limits")]
    pub server_answer: Option<Duration>,

    /// Memory that one language server may take, with everything it starts [default: 4GiB]
    #[arg(long, value_name = "SIZE", value_parser = units::size, help_heading = "Limits")]
    pub server_memory: Option<u64>,

    /// Register the fixture tools of the protocol's conformance suite
    #[arg(long, hide = true)]
    pub conformance: bool,
}

const SECRET_PREFIX: &str = "CODEGEN_SANDBOX_SECRET_";

/// Makes settings from flags and the process environment.
///
/// # Errors
/// Anything given that cannot be used.
pub fn resolve(flags: Flags) -> Result<Settings, ConfigError> {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
    let environment: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    if let Some(dir) = &flags.secrets_dir {
        // Read again whenever they change; here only to say at once that they cannot be.
        read_secrets(dir)?;
    }
    let (secrets, misnamed) = secrets(&environment);
    let variable =
        |name: &str| environment.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    let runtime = flags.config.as_deref().map(|path| RuntimeConfig::load(path, &variable)).transpose()?;
    let file = runtime.clone().unwrap_or_default();
    let limits = file.limits;
    let fixed = Fixed {
        tools: !flags.tools.is_empty(),
        calls: flags.max_calls.is_some(),
        grace: flags.grace.is_some(),
        ..Fixed::default()
    };
    Ok(Settings {
        fixed,
        runtime,
        denylist: file.denylist,
        patterns: file.patterns,
        undo: file.undo,
        hide_secrets: file.hide_secrets,
        workspaces: workspaces(&flags)?,
        limits: Limits {
            concurrent_calls: flags.max_calls.unwrap_or(limits.concurrent_calls),
            body_bytes: flags
                .max_body
                .map_or(limits.body_bytes, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
            grace: flags.grace.unwrap_or(limits.grace),
            server_idle: flags.server_idle.unwrap_or(limits.server_idle),
            server_answer: flags.server_answer.unwrap_or(limits.server_answer),
            server_memory: flags.server_memory.unwrap_or(limits.server_memory),
            index_budget: flags
                .index_budget
                .map_or(limits.index_budget, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
            ..limits
        },
        readonly: flags.readonly,
        tools: ToolFilter(if flags.tools.is_empty() { file.tools } else { flags.tools }),
        secrets,
        misnamed,
        secrets_dir: flags.secrets_dir,
        state_dir: state_dir(&environment),
        environment: environment.into_iter().filter(|(key, _)| !key.starts_with(SECRET_PREFIX)).collect(),
        conformance: flags.conformance,
        ..Settings::default()
    })
}

/// These settings with their RuntimeConfig file as it is now; `None` when they have none.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn read_again(settings: &Settings) -> Result<Option<Settings>, FileError> {
    let find = |name: &str| settings.environment.iter().find(|(key, _)| key == name);
    let variable = |name: &str| find(name).map(|(_, value)| value.clone());
    let Some(config) = &settings.runtime else { return Ok(None) };
    Ok(Some(settings.with_file(RuntimeConfig::load(&config.path, &variable)?)))
}

impl Settings {
    /// The same settings with what `serve` was told.
    #[must_use]
    pub fn serving(mut self, flags: &ServeFlags) -> Self {
        self.fixed.sessions = flags.max_sessions.is_some();
        self.fixed.idle_session = flags.session_idle.is_some();
        self.limits = self.limits.with(flags);
        self
    }
}

impl Limits {
    /// The same limits with what `serve` was told.
    #[must_use]
    pub fn with(self, flags: &ServeFlags) -> Self {
        Self {
            sessions: flags.max_sessions.unwrap_or(self.sessions),
            connections: flags.max_connections.unwrap_or(self.connections),
            body_time: flags.body_time.unwrap_or(self.body_time),
            idle_connection: flags.connection_idle.unwrap_or(self.idle_connection),
            idle_session: flags.session_idle.unwrap_or(self.idle_session),
            ..self
        }
    }
}

/// The secrets among the variables, and those that cannot be any and why.
fn secrets(environment: &[(String, String)]) -> (Vec<Secret>, Vec<String>) {
    let (mut secrets, mut misnamed) = (Vec::new(), Vec::new());
    for (key, value) in environment {
        let Some(name) = key.strip_prefix(SECRET_PREFIX) else { continue };
        if !is_secret_name(name) {
            misnamed.push(format!(
                "{key} is no secret: names are made of letters, digits, `_` and `-`; nobody is given its value, and \
                 it is not scrubbed; rename it"
            ));
        } else if value.is_empty() {
            misnamed.push(format!("{key} is no secret: it is empty; set it, or take it away"));
        } else {
            secrets.push(Secret { name: name.to_owned(), value: value.clone() });
        }
    }
    (secrets, misnamed)
}

/// Where the user's programs keep what is worth keeping but not worth backing up.
fn state_dir(environment: &[(String, String)]) -> PathBuf {
    let value = |name: &str| {
        let found = environment.iter().find(|(key, value)| key == name && value.starts_with('/'));
        found.map(|(_, value)| PathBuf::from(value))
    };
    value("XDG_STATE_HOME")
        .or_else(|| value("HOME").map(|home| home.join(".local/state")))
        .unwrap_or_else(std::env::temp_dir)
        .join("codegen-sandbox")
}

fn workspaces(flags: &Flags) -> Result<Vec<NamedRoot>, ConfigError> {
    if flags.workspaces.is_empty() {
        let root = flags.workspace.clone().unwrap_or_else(|| PathBuf::from("."));
        return Ok(vec![NamedRoot { name: "default".to_owned(), root: canonical(&root)? }]);
    }
    let mut names = BTreeSet::new();
    flags
        .workspaces
        .iter()
        .map(|entry| {
            let (name, dir) = entry
                .split_once('=')
                .filter(|(name, dir)| !name.is_empty() && !dir.is_empty())
                .ok_or_else(|| ConfigError::WorkspaceEntry { entry: entry.clone() })?;
            if !names.insert(name.to_owned()) {
                return Err(ConfigError::DuplicateWorkspace { name: name.to_owned() });
            }
            Ok(NamedRoot { name: name.to_owned(), root: canonical(Path::new(dir))? })
        })
        .collect()
}

fn canonical(root: &Path) -> Result<PathBuf, ConfigError> {
    let bad = |why: String| ConfigError::Workspace { root: root.to_owned(), why };
    let full = fs::canonicalize(root).map_err(|error| bad(error.to_string()))?;
    if full.is_dir() { Ok(full) } else { Err(bad("it is not a directory".to_owned())) }
}
