//! The one trait a language implements.

use crate::{
    Affected, Captured, Covered, End, Facts, Failure, Finding, LintAsk, LintRun, Plan, Progress, Stream,
    TestAsk, TestRun,
};
use std::path::Path;

/// A capability a language lacks, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} is not supported for {language}: {why}")]
pub struct Unsupported {
    /// The capability ("run_format").
    pub what: String,
    /// The language.
    pub language: &'static str,
    /// The reason, and the way out when there is one.
    pub why: String,
}

/// Why a script cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// The project defines scripts, but not this one; the text is contract.
    #[error("no script named \"{name}\" in {place}; available: {}", available.join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
        /// Where scripts are defined ("package.json").
        place: String,
        /// Those there are, sorted.
        available: Vec<String>,
    },
    /// There are none.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
}

/// A capability's answer.
pub type Answer<T> = Result<T, Unsupported>;

/// A program a language needs for something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeededBinary {
    /// Its name.
    pub binary: String,
    /// What it is needed for.
    pub purpose: &'static str,
    /// Arguments that make it print its version.
    pub version_args: &'static [&'static str],
    /// How to get it.
    pub get: &'static str,
    /// Where the project itself brings it, before the PATH is asked.
    pub local: Option<std::path::PathBuf>,
}

/// A language server to start.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerPlan {
    /// The server's name.
    pub name: &'static str,
    /// The program.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Sent as `initializationOptions`.
    pub options: serde_json::Value,
    /// Variables that name the folder for what it builds, where that else lies in the project.
    pub folders: &'static [&'static str],
}

/// What an exit code says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitMeaning {
    /// It ran and has nothing to report.
    Clean,
    /// It ran and reports failures or findings.
    Findings,
    /// It could not do its work.
    Broken,
}

/// Reads one test run while it happens.
pub trait TestReader: Send {
    /// Takes the next bytes of a stream, in order, in chunks of any size.
    fn feed(&mut self, stream: Stream, bytes: &[u8]);

    /// How far it has come.
    fn progress(&self) -> Progress;

    /// Closes the books. The facts allow a look at the sources a failure points to.
    fn finish(self: Box<Self>, end: &End, facts: &dyn Facts) -> TestRun;
}

/// Pure knowledge of one language. Defaults are honest: what a language does not supply answers
/// [`Unsupported`], never an empty success.
pub trait Detector: Send + Sync {
    /// The language's id ("go").
    fn language(&self) -> &'static str;

    /// Files whose presence at the root makes a folder a project of this language.
    fn markers(&self) -> &'static [&'static str];

    /// Files that make a folder the home of the projects below it as well, each with a text that it must hold:
    /// one language server serves them all.
    fn gatherers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Whether such a file with this text gathers the project in a folder below its own, too.
    fn gathers(&self, _text: &str, _folder: &Path) -> bool {
        true
    }

    /// Files that change when dependencies do, which lie where nobody watches: a language server that does not
    /// follow them itself must start anew.
    fn dependencies(&self) -> &'static [&'static str] {
        &[]
    }

    /// Folders of a project, or of those above it, that packages are installed in.
    fn packages(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether a source file is this language's.
    fn owns(&self, file: &Path) -> bool;

    /// Programs it needs here, and how to get them.
    fn binaries(&self, facts: &dyn Facts) -> Vec<NeededBinary>;

    /// The commands that run tests, in order. Several when exact selection needs several.
    ///
    /// # Errors
    /// The language cannot do it here.
    fn test_cmd(&self, facts: &dyn Facts, ask: &TestAsk) -> Answer<Vec<Plan>>;

    /// A reader for what [`Detector::test_cmd`] planned.
    fn test_reader(&self, plan: &Plan, facts: &dyn Facts) -> Box<dyn TestReader>;

    /// The failures in what a test command left behind.
    fn parse_test_failures(&self, plan: &Plan, facts: &dyn Facts, captured: &Captured) -> Vec<Failure> {
        self.read_tests(plan, facts, captured).failures
    }

    /// Everything a test command left behind, read at once.
    fn read_tests(&self, plan: &Plan, facts: &dyn Facts, captured: &Captured) -> TestRun {
        read_captured(self.test_reader(plan, facts), facts, captured)
    }

    /// A further command that the outcome of `plan` asks for, such as naming the test that took its process
    /// down. It takes out of `run` whatever the further command establishes afresh; the caller merges what
    /// that one finds and asks again with it, until there is nothing left to ask.
    fn follow_up(&self, facts: &dyn Facts, plan: &Plan, run: &mut TestRun) -> Option<Plan> {
        let _ = (facts, plan, run);
        None
    }

    /// The command whose output [`Detector::affected`] wants to see, when there is one.
    fn affected_query(&self, facts: &dyn Facts) -> Option<Plan> {
        let _ = facts;
        None
    }

    /// What has to be tested after these files changed; paths are relative to the project folder.
    fn affected(&self, facts: &dyn Facts, changed: &[String], asked: Option<&Captured>) -> Affected {
        let _ = (facts, changed, asked);
        Affected::everything(format!("what depends on what is not known for {}", self.language()))
    }

    /// What an exit code of a planned command means. Most tools agree on this default.
    fn exit_meaning(&self, plan: &Plan, code: i32) -> ExitMeaning {
        let _ = plan;
        match code {
            0 => ExitMeaning::Clean,
            1 => ExitMeaning::Findings,
            _ => ExitMeaning::Broken,
        }
    }

    /// The command that lints.
    ///
    /// # Errors
    /// The language cannot do it here.
    fn lint_cmd(&self, facts: &dyn Facts, ask: &LintAsk) -> Answer<Plan> {
        let _ = (facts, ask);
        Err(self.unsupported("run_lint", "no linter is known"))
    }

    /// Reads what the linter left behind.
    fn parse_lint(&self, plan: &Plan, facts: &dyn Facts, captured: &Captured) -> LintRun {
        let _ = (facts, captured);
        LintRun { incomplete: Some(format!("{} cannot be read", plan.runner)), ..LintRun::default() }
    }

    /// The command that checks types.
    ///
    /// # Errors
    /// The language cannot do it here.
    fn typecheck_cmd(&self, facts: &dyn Facts, ask: &LintAsk) -> Answer<Plan> {
        let _ = (facts, ask);
        Err(self.unsupported("run_typecheck", "no type checker is known"))
    }

    /// Reads what the type checker left behind.
    fn parse_typecheck(&self, plan: &Plan, facts: &dyn Facts, captured: &Captured) -> LintRun {
        self.parse_lint(plan, facts, captured)
    }

    /// The command that formats one file's text from stdin to stdout.
    ///
    /// # Errors
    /// The language cannot do it here.
    fn format_cmd(&self, facts: &dyn Facts, file: &str, text: &[u8]) -> Answer<Plan> {
        let _ = (facts, file, text);
        Err(self.unsupported("run_format", "no formatter is known"))
    }

    /// The formatted text.
    ///
    /// # Errors
    /// The formatter's own words, usually a syntax error.
    fn parse_format(&self, plan: &Plan, captured: &Captured) -> Result<Vec<u8>, String> {
        let _ = plan;
        match captured.end {
            End::Exited(0) => Ok(captured.stdout.clone()),
            _ => Err(String::from_utf8_lossy(&captured.stderr).trim().to_owned()),
        }
    }

    /// Whether the formatter's words are about the text it was given. Otherwise it is the configuration that is
    /// wrong, or the formatter itself.
    fn blames_source(&self, words: &str) -> bool {
        let words = words.to_lowercase();
        let elsewhere =
            ["configuration", "pyproject.toml", "ruff.toml", "rustfmt.toml", ".prettierrc", "biome.json"];
        !elsewhere.iter().any(|sign| words.contains(sign))
    }

    /// Whether a finding keeps the linter from saying anything else: what does not compile is not looked into.
    fn hides_others(&self, finding: &Finding) -> bool {
        matches!(finding.rule.as_str(), "syntax" | "invalid-syntax" | "typecheck" | "compile" | "error")
    }

    /// Whether the project in `folder` below this one is a part of it, as a package is of a workspace: then tests of
    /// other parts may reach its lines.
    fn holds(&self, facts: &dyn Facts, folder: &str) -> bool {
        let _ = (facts, folder);
        false
    }

    /// The commands that record which lines each test reaches.
    ///
    /// # Errors
    /// The language cannot do it here.
    fn coverage_cmd(&self, facts: &dyn Facts, ask: &TestAsk) -> Answer<Vec<Plan>> {
        let _ = (facts, ask);
        Err(self.unsupported("coverage", "no coverage tool is known"))
    }

    /// What a command of [`Detector::coverage_cmd`] recorded.
    fn parse_coverage(&self, plan: &Plan, facts: &dyn Facts, captured: &Captured) -> Vec<Covered> {
        let _ = (plan, facts, captured);
        Vec::new()
    }

    /// Names of scripts or targets the project defines, sorted.
    fn scripts(&self, facts: &dyn Facts) -> Vec<String> {
        let _ = facts;
        Vec::new()
    }

    /// The command that runs one of them.
    ///
    /// # Errors
    /// There is no such script, or the language has none.
    fn script_cmd(&self, facts: &dyn Facts, name: &str) -> Result<Plan, ScriptError> {
        let _ = (facts, name);
        Err(self.unsupported("run_script", "it has no scripts").into())
    }

    /// Language servers that serve it, best first.
    ///
    /// # Errors
    /// The language has none.
    fn server_cmd(&self, facts: &dyn Facts) -> Answer<Vec<ServerPlan>> {
        let _ = facts;
        Err(self.unsupported("language server", "none is known"))
    }

    /// The one way to say no.
    fn unsupported(&self, what: &str, why: &str) -> Unsupported {
        Unsupported { what: what.to_owned(), language: self.language(), why: why.to_owned() }
    }
}

/// Feeds everything captured to a reader at once.
fn read_captured(mut reader: Box<dyn TestReader>, facts: &dyn Facts, captured: &Captured) -> TestRun {
    reader.feed(Stream::Stdout, &captured.stdout);
    reader.feed(Stream::Stderr, &captured.stderr);
    if let Some(report) = &captured.report {
        reader.feed(Stream::Report, report);
    }
    reader.finish(&captured.end, facts)
}
