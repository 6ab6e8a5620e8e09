//! What to run for a language, and how to read what came out.
//!
//! A [`Detector`] is pure knowledge of one language: marker files, commands, and readers over captured
//! output. It starts nothing and opens nothing: [`Facts`] about the project go in, a [`Plan`] comes out;
//! bytes go in, [`TestRun`]s and [`Finding`]s come out. Readers are total: any bytes, no panic.

mod affected;
pub mod coverage;
mod detector;
mod facts;
pub mod junit;
pub mod languages;
mod model;
mod plan;
mod reporters;
mod select;
pub mod tap;
mod text;
mod unknown;

pub use affected::Affected;
pub use detector::{
    Answer, Detector, ExitMeaning, NeededBinary, ScriptError, ServerPlan, TestReader, Unsupported,
};
pub use facts::{Facts, MapFacts};
pub use model::{
    Captured, Covered, End, Failure, FailureKind, Finding, LintRun, Problem, ProblemKind, Progress, Severity,
    TestId, TestRun,
};
pub use plan::{Injected, LintAsk, Plan, Scope, Stream, TestAsk};
pub use select::{Languages, SelectError, detect, detect_all, select};
pub use text::{Kept, Lines, bound, relative, strip_ansi};
pub use unknown::UnknownReader;
