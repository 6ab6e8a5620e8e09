//! Tests, linters, type checkers, formatters and scripts of the project, through its detectors.
//!
//! A [`project::Project`] is a folder of the workspace with the detectors that match it; it plans. A
//! [`command`] carries a plan out in the sandbox. What came out is kept in the session's [`Memory`] and
//! rendered by [`render`]: the summary first, every failure as a block, `exit: N` last.

mod affected;
mod arguments;
mod command;
mod feedback;
mod format;
mod last_test_failures;
mod lint;
mod looked;
mod memory;
mod project;
mod render;
mod run_failing_tests;
mod run_script;
mod run_tests;
mod servers;
mod survey;
mod tests;
mod tests_covering;

pub(crate) use feedback::{Baselines, Touched, Wanted, feedback, look_before, news};
pub(crate) use format::RunFormat;
pub(crate) use last_test_failures::LastTestFailures;
pub(crate) use lint::{RunLint, RunTypecheck};
pub(crate) use looked::Looked;
pub(crate) use memory::Memory;
pub(crate) use run_failing_tests::RunFailingTests;
pub(crate) use run_script::RunScript;
pub(crate) use run_tests::RunTests;
pub(crate) use servers::Candidates;
pub use survey::{LanguageSurvey, Need, Planned, survey};
pub(crate) use tests_covering::{Coverage, TestsCovering};
