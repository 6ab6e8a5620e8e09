//! RuntimeConfig: one YAML file that decides where everything runs.

mod expand;
mod modes;
mod node;
mod schema;

pub use node::{Place, Places};

use crate::{
    Limits, Undo,
    hook::{HookKind, HookSpec, Phase},
    units,
};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// A sandbox that the file declares.
#[derive(Debug, Clone, PartialEq)]
pub struct SandboxSpec {
    /// Its name.
    pub name: String,
    /// Its mode.
    pub mode: String,
    /// What the mode takes.
    pub config: Map<String, Value>,
}

/// What a RuntimeConfig file says. Names of modes and languages are checked by whoever knows them, with
/// [`RuntimeConfig::wrong`] for the message.
#[derive(Debug, Clone, Default)]
pub struct RuntimeConfig {
    /// The file, for messages.
    pub path: PathBuf,
    /// Declared sandboxes, by name.
    pub sandboxes: Vec<SandboxSpec>,
    /// Where Bash and everything else runs.
    pub default_sandbox: Option<String>,
    /// Language to sandbox.
    pub languages: BTreeMap<String, String>,
    /// In the order of the file.
    pub hooks: Vec<HookSpec>,
    /// Which tools are registered, when the flag does not say.
    pub tools: Vec<String>,
    /// Replaces the command denylist.
    pub denylist: Option<Vec<String>>,
    /// Further patterns to scrub, by name.
    pub patterns: BTreeMap<String, String>,
    /// The defaults, with what the file says.
    pub limits: Limits,
    /// The same for what is kept for undo.
    pub undo: Undo,
    /// The tool `secret` is left out.
    pub hide_secrets: bool,
    places: Places,
}

/// What is wrong with a file, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}:{}:{}: {why}", path.display(), place.line, place.column)]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// Where in it.
    pub place: Place,
    /// What is wrong and what would be right.
    pub why: String,
}

impl RuntimeConfig {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn load(path: &Path, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, FileError> {
        let text = fs::read_to_string(path).map_err(|error| FileError {
            path: path.to_owned(),
            place: Place { line: 1, column: 1 },
            why: error.to_string(),
        })?;
        Self::parse(path, &text, variable)
    }

    /// Checks the text of a file.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn parse(
        path: &Path,
        text: &str,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, FileError> {
        let at = |place: Place, why: String| FileError { path: path.to_owned(), place, why };
        // Variables may stand bare inside { } too, where YAML would trip over their braces.
        let masked = expand::mask(text);
        let expanded = |text: &str| expand::expand(text, variable);
        let (value, places, bad) = node::read(&masked, &expanded).map_err(|error| {
            let place = error
                .location()
                .map_or(Place { line: 1, column: 1 }, |at| Place { line: at.line(), column: at.column() });
            at(place, format!("not YAML: {}", plain(&error)))
        })?;
        if let Some(bad) = bad.first() {
            return Err(at(places.of(&bad.path), format!("{}: {}", bad.path, bad.why)));
        }
        if let Some(key) = not_a_table(&value) {
            return Err(at(places.of(&key), format!("{key}: must be a table of keys and values")));
        }
        let file: schema::File = serde_path_to_error::deserialize(&value).map_err(|error| {
            let path = error.path().to_string();
            let path = if path == "." { "" } else { path.as_str() };
            at(places.of(path), explain(path, &error.inner().to_string()))
        })?;
        if let Some(key) = without_value(&value) {
            return Err(at(places.of(&key), format!("{key}: {NO_VALUE}")));
        }
        let mut config = Self { path: path.to_owned(), places, ..Self::default() };
        config.fill(file.spec)?;
        config.check_names()?;
        Ok(config)
    }

    /// What is wrong at `key` (`spec.languages.cobol`).
    pub fn wrong(&self, key: &str, why: impl Into<String>) -> FileError {
        FileError {
            path: self.path.clone(),
            place: self.places.of(key),
            why: format!("{key}: {}", why.into()),
        }
    }

    fn fill(&mut self, spec: schema::Spec) -> Result<(), FileError> {
        self.sandboxes = spec
            .sandboxes
            .into_iter()
            .map(|(name, block)| SandboxSpec { name, mode: block.mode, config: block.config })
            .collect();
        self.default_sandbox = spec.tools.default_sandbox;
        self.tools = spec.tools.enabled;
        self.denylist = spec.tools.denylist;
        for (index, entry) in self.denylist.iter().flatten().enumerate() {
            if let Some(why) = never_refused(entry) {
                return Err(self.wrong(&format!("spec.tools.denylist[{index}]"), why));
            }
        }
        self.languages = spec.languages.into_iter().map(|(id, block)| (id, block.sandbox)).collect();
        self.patterns = spec.scrub.patterns;
        for (name, block) in spec.hooks {
            let hook = self.hook(name, block)?;
            self.hooks.push(hook);
        }
        let places = &self.places;
        self.hooks.sort_by_key(|hook| places.of(&format!("spec.hooks.{}", hook.name)));
        self.limits = self.limits(&spec.limits)?;
        self.undo = self.undo(&spec.undo)?;
        self.hide_secrets = spec.secrets.reveal == Some(false);
        Ok(())
    }

    fn hook(&self, name: String, block: schema::HookBlock) -> Result<HookSpec, FileError> {
        let key = |field: &str| format!("spec.hooks.{name}.{field}");
        let of = |phase: Phase| match phase {
            Phase::BeforeExecution | Phase::AfterExecution => HookKind::Tool,
            Phase::SessionStart | Phase::SessionUpdate | Phase::SessionEnd => HookKind::Session,
        };
        if block.phases.is_empty() {
            return Err(self.wrong(&key("phases"), "a hook without a phase would never run"));
        }
        if let Some(foreign) = block.phases.iter().position(|phase| of(*phase) != block.hook) {
            let phases = match block.hook {
                HookKind::Tool => "before_execution, after_execution",
                HookKind::Session => "session_start, session_update, session_end",
            };
            let why = format!("a hook of this kind has the phases {phases}");
            return Err(self.wrong(&format!("{}[{foreign}]", key("phases")), why));
        }
        if block.command.is_empty() {
            return Err(self.wrong(&key("command"), "it must name a program"));
        }
        if block.hook == HookKind::Session && !block.tools.is_empty() {
            return Err(self.wrong(&key("tools"), "only hooks of tools look at the tool's name"));
        }
        let command = match self.path.parent() {
            Some(folder) if block.command.starts_with('.') => {
                let folder =
                    fs::canonicalize(if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
                folder
                    .map_or(block.command.clone(), |folder| folder.join(&block.command).display().to_string())
            }
            _ => block.command,
        };
        Ok(HookSpec {
            kind: block.hook,
            phases: block.phases,
            mode: block.mode,
            tools: block.tools,
            command,
            args: block.args,
            env: block.env,
            timeout: Duration::from_millis(block.timeout_ms),
            sandbox: block.sandbox,
            name,
        })
    }

    fn limits(&self, block: &schema::LimitsBlock) -> Result<Limits, FileError> {
        let key = |field: &str| format!("spec.limits.{field}");
        let count = |field: &str, given: Option<u64>, default: usize| match given {
            None => Ok(default),
            Some(0) => Err(self.wrong(&key(field), "must be above 0")),
            Some(number) => Ok(usize::try_from(number).unwrap_or(usize::MAX)),
        };
        let time = |field: &str, given: &Option<String>, default: Duration| match given {
            None => Ok(default),
            Some(text) => units::duration(text).map_err(|why| self.wrong(&key(field), why)),
        };
        let size = |field: &str, given: &Option<String>, default: usize| match given {
            None => Ok(default),
            Some(text) => units::size(text)
                .map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
                .map_err(|why| self.wrong(&key(field), why)),
        };
        let default = Limits::default();
        Ok(Limits {
            concurrent_calls: count("calls", block.calls, default.concurrent_calls)?,
            sessions: count("sessions", block.sessions, default.sessions)?,
            connections: count("connections", block.connections, default.connections)?,
            body_bytes: size("body", &block.body, default.body_bytes)?,
            body_time: time("body_time", &block.body_time, default.body_time)?,
            idle_connection: time("connection_idle", &block.connection_idle, default.idle_connection)?,
            idle_session: time("session_idle", &block.session_idle, default.idle_session)?,
            grace: time("grace", &block.grace, default.grace)?,
            index_budget: size("index_budget", &block.index_budget, default.index_budget)?,
            ..default
        })
    }

    /// The keys that only a start reads and whose values are not those of `start`.
    #[must_use]
    pub fn waiting(&self, start: &Self) -> Vec<&'static str> {
        let ((now, was), (undo, undo_was)) = ((&self.limits, &start.limits), (&self.undo, &start.undo));
        let keys = [
            ("spec.limits.connections", now.connections != was.connections),
            ("spec.limits.body", now.body_bytes != was.body_bytes),
            ("spec.limits.body_time", now.body_time != was.body_time),
            ("spec.limits.connection_idle", now.idle_connection != was.idle_connection),
            ("spec.limits.index_budget", now.index_budget != was.index_budget),
            ("spec.undo.enabled", undo.enabled != undo_was.enabled),
            ("spec.undo.keep", undo.keep != undo_was.keep),
            ("spec.undo.max_age", undo.age != undo_was.age),
        ];
        keys.into_iter().filter(|(_, changed)| *changed).map(|(key, _)| key).collect()
    }

    fn undo(&self, block: &schema::UndoBlock) -> Result<Undo, FileError> {
        let default = Undo::default();
        let age = |text: &String| units::duration(text).map_err(|why| self.wrong("spec.undo.max_age", why));
        Ok(Undo {
            enabled: block.enabled.unwrap_or(default.enabled),
            keep: match block.keep {
                None => default.keep,
                Some(0) => {
                    return Err(
                        self.wrong("spec.undo.keep", "must be above 0; `enabled: false` turns it off")
                    );
                }
                Some(number) => usize::try_from(number).unwrap_or(usize::MAX),
            },
            age: block.max_age.as_ref().map_or(Ok(default.age), age)?,
        })
    }

    /// Every sandbox that is named is declared; `direct` needs no declaration.
    fn check_names(&self) -> Result<(), FileError> {
        let named = self.default_sandbox.iter().map(|name| ("spec.tools.default_sandbox".to_owned(), name));
        let languages =
            self.languages.iter().map(|(id, name)| (format!("spec.languages.{id}.sandbox"), name));
        let hooks = self
            .hooks
            .iter()
            .filter_map(|hook| Some((format!("spec.hooks.{}.sandbox", hook.name), hook.sandbox.as_ref()?)));
        for (key, name) in named.chain(languages).chain(hooks) {
            if name != "direct" && !self.sandboxes.iter().any(|sandbox| sandbox.name == *name) {
                let known: Vec<&str> = self.sandboxes.iter().map(|sandbox| sandbox.name.as_str()).collect();
                let mean = did_you_mean(name, known.iter().copied());
                let why = format!(
                    "no sandbox \"{name}\" is declared under spec.sandboxes (declared: {}){}",
                    if known.is_empty() { "none".to_owned() } else { known.join(", ") },
                    mean
                );
                return Err(self.wrong(&key, why));
            }
        }
        Ok(())
    }
}

/// What a key with nothing after it is told.
pub const NO_VALUE: &str = "has no value; write one, or leave the key out";

/// The first key of a block that has no value and that decoding lets pass. A whole block may be empty: then
/// it says nothing. Sandboxes are looked at by whoever knows their mode's keys.
fn without_value(file: &Value) -> Option<String> {
    fn find(path: &str, value: &Value) -> Option<String> {
        match value {
            Value::Null => Some(path.to_owned()),
            Value::Object(map) => map.iter().find_map(|(key, value)| find(&format!("{path}.{key}"), value)),
            _ => None,
        }
    }
    let blocks = file.get("spec")?.as_object()?.iter();
    blocks
        .filter(|(name, block)| *name != "sandboxes" && !block.is_null())
        .find_map(|(name, block)| find(&format!("spec.{name}"), block))
}

/// The first key that should hold a table and does not: decoding would take a list for one.
fn not_a_table(file: &Value) -> Option<String> {
    let wrong = |value: &Value| !value.is_object();
    let spec = file.get("spec").filter(|spec| !spec.is_null())?;
    if wrong(spec) {
        return Some("spec".to_owned());
    }
    for (name, nested) in [
        ("tools", false),
        ("scrub", false),
        ("limits", false),
        ("undo", false),
        ("secrets", false),
        ("sandboxes", true),
        ("languages", true),
        ("hooks", true),
    ] {
        let Some(block) = spec.get(name).filter(|block| !block.is_null()) else { continue };
        if wrong(block) {
            return Some(format!("spec.{name}"));
        }
        let inner =
            block.as_object().filter(|_| nested).into_iter().flatten().find(|(_, value)| wrong(value));
        if let Some((inner, _)) = inner {
            return Some(format!("spec.{name}.{inner}"));
        }
    }
    None
}

/// The JSON Schema of the file, for editors.
#[must_use]
pub fn json_schema() -> Value {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<schema::File>().to_value()
}

/// The message without the position, which is told in front of it.
fn plain(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().to_string();
    expand::unmask(text.lines().next().unwrap_or_default())
}

/// A decoding error with a suggestion when a key or a word is misspelt.
fn explain(path: &str, inner: &str) -> String {
    let around = if path.is_empty() { "the file" } else { path };
    let mut quoted = inner.split('`').skip(1).step_by(2);
    let misspelt = inner.starts_with("unknown field") || inner.starts_with("unknown variant");
    match (misspelt, quoted.next()) {
        (true, Some(given)) => {
            let known: Vec<&str> = quoted.collect();
            let mean = did_you_mean(given, known.iter().copied());
            let what = if inner.starts_with("unknown field") { "key" } else { "value" };
            let around = around.strip_suffix(&format!(".{given}")).unwrap_or(around);
            format!("{around}: unknown {what} \"{given}\"{mean} (known: {})", known.join(", "))
        }
        _ if inner.starts_with("invalid type: null") => format!("{around}: {NO_VALUE}"),
        _ => format!("{around}: {inner}"),
    }
}

/// Why an entry of the denylist would refuse nothing.
fn never_refused(entry: &str) -> Option<&'static str> {
    let mut words = entry.split_whitespace();
    let Some(first) = words.next() else { return Some("an empty entry refuses nothing; name a command") };
    let inner = first.strip_suffix('*').unwrap_or(first).contains('*');
    (inner || words.any(|word| word.contains('*')))
        .then_some("`*` may stand at the end of the command's name alone, as in mkfs*")
}

/// `; did you mean "…"?` for a word that is not known, or nothing when none is close.
pub fn did_you_mean<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> String {
    similar(given, known).map(|it| format!("; did you mean \"{it}\"?")).unwrap_or_default()
}

/// The candidate that is closest, when it is close enough to be meant.
fn similar<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = known.map(|candidate| (distance(given, candidate), candidate)).min()?;
    (near.0 <= 1 + given.chars().count() / 4).then_some(near.1)
}

/// How many letters differ (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.to_lowercase().chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests;
