//! Every language's reader of linters and type checkers.
#![no_main]

use libfuzzer_sys::fuzz_target;
use verify::{Captured, End, Languages, LintAsk, MapFacts};

fuzz_target!(|data: &[u8]| {
    let facts = MapFacts { root: "/sample".into(), scratch: "/scratch".into(), ..MapFacts::default() };
    for code in [0, 1, 2, 101] {
        let captured = Captured {
            stdout: data.to_vec(),
            stderr: data.to_vec(),
            report: Some(data.to_vec()),
            end: End::Exited(code),
        };
        for detector in Languages::shipped().all() {
            if let Ok(plan) = detector.lint_cmd(&facts, &LintAsk::default()) {
                let _ = detector.parse_lint(&plan, &facts, &captured);
            }
            if let Ok(plan) = detector.typecheck_cmd(&facts, &LintAsk::default()) {
                let _ = detector.parse_typecheck(&plan, &facts, &captured);
            }
        }
    }
});
