//! Other people's clients, run against our server: the Python client, the Inspector, the conformance suite.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::{Launch, Served, tools};

/// Seconds after which a client that hangs is ended.
const LIMIT: &str = "120";

/// Where a client finds its server.
#[derive(Debug, Clone)]
pub enum Target {
    /// The client starts this command line.
    Stdio(Vec<String>),
    /// Streamable HTTP at this address.
    Http(String),
    /// The older HTTP with server-sent events at this address.
    Sse(String),
}

impl Target {
    /// A server that the client starts itself.
    pub fn stdio(launch: &Launch) -> Self {
        let command = launch.command("stdio");
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        Self::Stdio(words.map(|word| word.to_string_lossy().into_owned()).collect())
    }

    /// A running server, over streamable HTTP.
    pub fn http(served: &Served) -> Self {
        Self::Http(served.url("/mcp"))
    }

    /// A running server, over the older HTTP.
    pub fn sse(served: &Served) -> Self {
        Self::Sse(served.url("/sse"))
    }
}

/// What a Python client saw in a session.
#[derive(Debug, Clone)]
pub struct Session {
    /// Everything, as the script printed it.
    pub seen: Value,
}

impl Session {
    /// The protocol version that was agreed on.
    pub fn version(&self) -> &str {
        self.seen["version"].as_str().unwrap_or_default()
    }

    /// The names of the tools.
    pub fn tools(&self) -> Vec<&str> {
        self.seen["tools"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// The text of the reply to the call of that index, and whether it is an error.
    pub fn reply(&self, index: usize) -> (&str, bool) {
        let reply = &self.seen["replies"][index];
        (reply["text"].as_str().unwrap_or_default(), reply["error"] == true)
    }
}

/// A session of the Python client: connect, list the tools, make these calls, leave.
///
/// `generation` is `mcp1` or `mcp2`; `mode` is what the second generation calls so (`auto`, `legacy`, or a
/// version of the protocol).
///
/// # Panics
/// When the session does not go through.
pub fn python_session(generation: &str, mode: &str, target: &Target, calls: &[(&str, Value)]) -> Session {
    let mut plan = json!({ "mode": mode, "calls": calls });
    match target {
        Target::Stdio(command) => {
            plan["transport"] = json!("stdio");
            plan["command"] = json!(command);
        }
        Target::Http(url) => {
            plan["transport"] = json!("http");
            plan["url"] = json!(url);
        }
        Target::Sse(url) => {
            plan["transport"] = json!("sse");
            plan["url"] = json!(url);
        }
    }
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/sessions").join(format!("{generation}.py"));
    let mut command = limited(&tools::python(generation));
    // No proxy stands between a test and its server.
    command.arg(script).arg(plan.to_string()).env("NO_PROXY", "*").env("no_proxy", "*");
    let output = run(&mut command);
    match serde_json::from_slice(&output.stdout) {
        Ok(seen) if output.status.success() => Session { seen },
        _ => panic!("the session of {generation} over {target:?} failed:\n{}", both(&output)),
    }
}

/// Runs the Inspector's command line with `--method` and what follows; gives its exit code and its JSON.
///
/// # Panics
/// When it cannot be started or prints something else than JSON.
pub fn inspector(target: &Target, arguments: &[&str]) -> (Option<i32>, Value) {
    let mut command = limited(&tools::path("node22"));
    command.arg(tools::path("mcp-inspector")).arg("--cli").env("NO_PROXY", "*");
    match target {
        Target::Stdio(words) => command.args(words),
        Target::Http(url) => command.args([url, "--transport", "http"]),
        Target::Sse(url) => command.args([url, "--transport", "sse"]),
    };
    let output = run(command.args(["--method"]).args(arguments));
    match serde_json::from_slice(&output.stdout) {
        Ok(value) => (output.status.code(), value),
        Err(_) => panic!("the Inspector over {target:?} failed:\n{}", both(&output)),
    }
}

/// What the conformance suite found.
#[derive(Debug)]
pub struct Conformance {
    /// Scenarios whose every check passed.
    pub passed: Vec<String>,
    /// Scenarios with a check that did not, and what the check says.
    pub failed: Vec<String>,
    /// Everything that it printed.
    pub output: String,
}

/// Runs every scenario of the official conformance suite that a revision of the protocol knows, also those
/// that are not scored (yet); extensions of the protocol are not among them.
///
/// # Panics
/// When it cannot be started or leaves no results.
pub fn conformance(url: &str, revision: &str) -> Conformance {
    let results = match tempfile::tempdir() {
        Ok(folder) => folder,
        Err(problem) => panic!("no temporary folder: {problem}"),
    };
    let mut command = limited(&tools::path("node22"));
    command.arg(tools::path("conformance")).args(["server", "--url", url, "--suite", "all", "-o"]);
    let output =
        both(&run(command.arg(results.path()).args(["--spec-version", revision]).env("NO_PROXY", "*")));
    let mut found = Conformance { passed: Vec::new(), failed: Vec::new(), output };
    for file in checks_files(results.path()) {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let checks: Vec<Value> = serde_json::from_str(&text).unwrap_or_default();
        let scenario = scenario_name(&file);
        let bad: Vec<String> = checks
            .iter()
            .filter(|check| !matches!(check["status"].as_str(), Some("SUCCESS" | "INFO" | "SKIPPED")))
            .map(|check| format!("{scenario}: {}: {}", check["id"], check["errorMessage"]))
            .collect();
        if bad.is_empty() { found.passed.push(scenario) } else { found.failed.extend(bad) }
    }
    found.passed.sort();
    assert!(!found.passed.is_empty() || !found.failed.is_empty(), "no results:\n{}", found.output);
    found
}

/// The scenario in `server-<scenario>-<instant>/checks.json`.
fn scenario_name(file: &Path) -> String {
    let folder = file.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let name = folder.strip_prefix("server-").unwrap_or(&folder);
    let instant = name.rfind('T').and_then(|at| at.checked_sub("-2026-01-01".len()));
    instant.and_then(|at| name.get(..at)).unwrap_or(name).to_owned()
}

fn checks_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path().join("checks.json"));
    files.filter(|file| file.is_file()).collect()
}

fn limited(program: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", LIMIT]).arg(program);
    command
}

fn run(command: &mut Command) -> Output {
    match command.output() {
        Ok(output) => output,
        Err(problem) => panic!("cannot start {command:?}: {problem}"),
    }
}

fn both(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}({})", text(&output.stdout), text(&output.stderr), output.status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_a_scenario() {
        let file = Path::new("out/server-tools-call-audio-2026-11-15T20-28-14-220Z/checks.json");
        assert_eq!(scenario_name(file), "tools-call-audio");
    }
}
