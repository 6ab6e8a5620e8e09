//! Perl, as `docs/src/add-a-language.md` builds it: step by step, through public interface only.
//!
//! ```
//! use add_a_language::PERL;
//! use verify::{Languages, MapFacts};
//!
//! let mut facts = MapFacts::default();
//! facts.files.insert("cpanfile".into(), String::new());
//! let languages = Languages::shipped().with(&PERL);
//! assert_eq!(languages.detect(&facts).map(|detector| detector.language()), Some("perl"));
//! ```

mod reader;

use std::path::Path;
use verify::{Answer, Detector, Facts, NeededBinary, Plan, ServerPlan, TestAsk, TestReader};

/// The detector; it knows and holds nothing else.
#[derive(Debug, Clone, Copy)]
pub struct Perl;

/// The one instance that a list of languages needs.
pub static PERL: Perl = Perl;

impl Detector for Perl {
    fn language(&self) -> &'static str {
        "perl"
    }

    fn markers(&self) -> &'static [&'static str] {
        &["cpanfile", "Makefile.PL"]
    }

    fn owns(&self, file: &Path) -> bool {
        file.extension().is_some_and(|extension| ["pl", "pm", "t"].iter().any(|known| extension == *known))
    }

    fn binaries(&self, _facts: &dyn Facts) -> Vec<NeededBinary> {
        vec![NeededBinary {
            binary: "prove".to_owned(),
            purpose: "run_tests",
            version_args: &["--version"],
            get: "comes with Perl: apt install perl",
            local: None,
        }]
    }

    fn test_cmd(&self, facts: &dyn Facts, ask: &TestAsk) -> Answer<Vec<Plan>> {
        if !facts.exists("t") {
            return Err(self.unsupported("run_tests", "there is no folder t/ with tests"));
        }
        let mut plan = Plan {
            runner: "prove",
            program: "prove".to_owned(),
            args: ["-v", "--merge", "--nocolor", "-l", "-r"].map(str::to_owned).to_vec(),
            merged: true,
            why: vec![
                "a folder t/: prove; -v shows each result, --merge keeps diagnostics next to it".to_owned(),
            ],
            ..Plan::default()
        };
        let mut files: Vec<String> = ask.only.iter().map(|id| id.unit.clone()).collect();
        files.extend(ask.names.iter().cloned());
        files.sort();
        files.dedup();
        if files.is_empty() {
            files.push("t".to_owned());
        } else if !ask.only.is_empty() {
            plan.why.push("prove runs whole files: the rerun is widened to them".to_owned());
        }
        plan.args.extend(files);
        Ok(vec![plan])
    }

    fn test_reader(&self, plan: &Plan, _facts: &dyn Facts) -> Box<dyn TestReader> {
        Box::new(reader::Reader::new(plan))
    }

    fn server_cmd(&self, _facts: &dyn Facts) -> Answer<Vec<ServerPlan>> {
        Ok(vec![ServerPlan {
            name: "perlnavigator",
            program: "perlnavigator".to_owned(),
            args: vec!["--stdio".to_owned()],
            options: serde_json::Value::Null,
            folders: &[],
        }])
    }
}
