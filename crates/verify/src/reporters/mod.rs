//! Reporters that are injected into the project's own runners, and the reader of what they write.
//!
//! Every reporter is embedded, written to the scratch folder next to a `plan.json` that tells it what to do, and
//! appends to one report: one JSON object per line, the *events*. They need nothing installed, add nothing to the
//! project, and act only inside the runner. One vocabulary of events serves every runner, so that there is one
//! reader:
//!
//! | event | says |
//! |---|---|
//! | `found` | the runner's process was recognised; it has reported nothing yet |
//! | `start` | a runner begins: its name, the project's real path, its working folder |
//! | `total` | how many tests there will be |
//! | `open`, `close` | a test file begins, ends |
//! | `begin` | a test begins |
//! | `test` | a test ended: `state` is `pass`, `fail` or `skip`; a failure brings message and places |
//! | `group` | something that began turned out to be a group of tests |
//! | `unit` | forget the file's results so far: the final ones follow |
//! | `output` | a line of a file printed this |
//! | `problem` | a file that cannot be loaded, a crash, an error that belongs to no test |
//! | `end`, `exit` | the runner has told everything; its process goes with this code |

mod events;
mod record;
mod text;

pub(crate) use events::{EventsReader, Memo, value};
pub(crate) use text::{Paths, locate};

use crate::{Injected, TestId};
use serde::Serialize;
use std::{borrow::Cow, collections::BTreeMap};

/// Name of the report in the scratch folder.
pub(crate) const REPORT: &str = "report.jsonl";

/// Name of the folder there that `mirror.cjs` copies a project into.
pub(crate) const MIRROR: &str = "mirror";

/// What the reporters are told, as `plan.json`.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct ReporterPlan {
    /// The project folder.
    pub root: String,
    /// Name of the report, next to the reporters.
    pub report: &'static str,
    /// Exactly these tests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<TestId>,
    /// Every test of these suites.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub suites: Vec<TestId>,
    /// These tests, as a person named them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Further arguments by runner, for the hook to add.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub args: BTreeMap<&'static str, Vec<String>>,
    /// Findings are wanted rather than test results.
    pub lint: bool,
    /// The TypeScript projects to check need what others of them write.
    pub linked: bool,
}

impl ReporterPlan {
    fn file(&self) -> Injected {
        let content = serde_json::to_string(self).unwrap_or_else(|_| "{}".to_owned());
        Injected { name: "plan.json".to_owned(), content: Cow::Owned(content) }
    }

    /// Everything a JavaScript runner or linter needs.
    pub(crate) fn for_node(&self) -> Vec<Injected> {
        let mut files = vec![self.file()];
        files.extend(embedded(&[
            ("report.cjs", include_str!("report.cjs")),
            ("hook.cjs", include_str!("hook.cjs")),
            ("jest.cjs", include_str!("jest.cjs")),
            ("jest_runner.cjs", include_str!("jest_runner.cjs")),
            ("vitest.mjs", include_str!("vitest.mjs")),
            ("mocha.cjs", include_str!("mocha.cjs")),
            ("node_test.mjs", include_str!("node_test.mjs")),
            ("eslint.cjs", include_str!("eslint.cjs")),
            ("aside.cjs", include_str!("aside.cjs")),
            ("mirror.cjs", include_str!("mirror.cjs")),
        ]));
        files
    }

    /// Everything a Python runner needs.
    pub(crate) fn for_python(&self) -> Vec<Injected> {
        let mut files = vec![self.file()];
        files.extend(embedded(&[
            ("codegen_sandbox_pytest.py", include_str!("codegen_sandbox_pytest.py")),
            ("codegen_sandbox_unittest.py", include_str!("codegen_sandbox_unittest.py")),
        ]));
        files
    }
}

fn embedded(files: &[(&str, &'static str)]) -> Vec<Injected> {
    files
        .iter()
        .map(|(name, content)| Injected { name: (*name).to_owned(), content: Cow::Borrowed(content) })
        .collect()
}
