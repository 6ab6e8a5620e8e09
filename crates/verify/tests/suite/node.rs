//! Node through its real runners.

use super::runs::{Project, told};
use verify::{FailureKind, ProblemKind, TestAsk, TestId, TestRun};

/// The runners with a fixture project each.
const RUNNERS: [&str; 5] = ["jest", "vitest", "mocha", "node-test", "bun"];

fn each(runners: &[&str], test: impl Fn(&str, &Project)) {
    for runner in runners {
        test(runner, &Project::copy(&format!("node/{runner}")));
    }
}

/// A test file in the words of a runner.
fn file(runner: &str, body: &str) -> String {
    let header = match runner {
        "vitest" => "import { describe, test } from 'vitest';\n",
        "node-test" => "import { describe, test } from 'node:test';\n",
        "bun" => "import { describe, test } from 'bun:test';\n",
        "mocha" => "const test = it;\n",
        _ => "",
    };
    format!("{header}{body}\n")
}

/// A project with one passing file and another.
fn with(runner: &str, name: &str, body: &str) -> Project {
    let project = Project::copy(&format!("node/{runner}"));
    project.remove("test/calc.test.js");
    project.write("test/good.test.js", file(runner, "test('good', () => {});"));
    project.write(name, file(runner, body));
    project
}

fn failing(run: &TestRun) -> Vec<TestId> {
    run.failures.iter().map(|failure| failure.id.clone()).collect()
}

#[test]
fn every_failure_is_told_with_its_place_and_what_was_compared() {
    each(&RUNNERS, |runner, project| {
        insta::assert_snapshot!(format!("node_{runner}"), told(&project.test()));
    });
}

#[test]
fn exactly_the_failed_tests_run_again() {
    each(&RUNNERS, |runner, project| {
        let ids = failing(&project.test());
        assert_eq!(ids.len(), 6, "{runner}");
        let mut again = project.rerun(ids.clone());
        assert_eq!((again.passed, again.skipped), (0, 0), "{runner}: {}", told(&again));
        let mut rerun = failing(&again);
        rerun.sort();
        let mut all = ids.clone();
        all.sort();
        assert_eq!(rerun, all, "{runner}: {}", told(&again));
        again.notes.clear();
        assert!(again.missing.is_empty(), "{runner}: {}", told(&again));
        // One with everything in its name that an expression or a shell could take amiss.
        let odd = ids
            .iter()
            .find(|id| id.path.iter().any(|name| name.contains("[brackets]")))
            .expect("the odd one");
        let one = project.rerun(vec![odd.clone()]);
        assert_eq!(failing(&one), vec![odd.clone()], "{runner}: {}", told(&one));
    });
}

#[test]
fn a_failed_hook_of_mocha_runs_again_with_its_suite() {
    let hooks = "const fail = () => { if (process.env.MENDED !== '1') throw new Error('no set-up'); };\n\
        describe('one', () => { beforeEach(fail); it('a', () => {}); it('b', () => {}); });\n\
        describe('two', () => { before(fail); it('c', () => {}); });\n\
        describe('three', () => { after(fail); it('d', () => {}); });\n\
        describe('four', () => { it('e', () => {}); });\n";
    let mut project = Project::empty("node");
    project.write("package.json", r#"{"scripts":{"test":"mocha"}}"#).write("test/hooks.js", hooks);
    let run = project.test();
    let ids = failing(&run);
    assert_eq!((run.passed, ids.len()), (2, 3), "{}", told(&run));
    let again = project.rerun(ids.clone());
    assert_eq!(failing(&again), ids, "{}", told(&again));
    project.set("MENDED", "1");
    let mended = project.rerun(ids);
    assert_eq!((mended.passed, mended.failed), (4, 0), "{}", told(&mended));
    assert!(mended.missing.is_empty() && mended.green(), "{}", told(&mended));
}

#[test]
fn a_selection_that_matches_nothing_is_no_success() {
    each(&RUNNERS, |runner, project| {
        let gone = TestId {
            unit: "test/calc.test.js".to_owned(),
            path: vec!["group".to_owned(), "gone".to_owned()],
        };
        let run = project.rerun(vec![gone]);
        assert!(!run.green(), "{runner}: {}", told(&run));
        assert_eq!((run.passed, run.failed), (0, 0), "{runner}: {}", told(&run));
        assert_eq!(run.missing, ["group > gone (test/calc.test.js)"], "{runner}: {}", told(&run));
    });
}

#[test]
fn tests_are_found_by_name_and_by_file() {
    each(&RUNNERS, |runner, project| {
        let run = project.named(&["object differs"]);
        assert_eq!((run.passed, run.failed), (0, 1), "{runner}: {}", told(&run));
        let nothing = project.named(&["no such test"]);
        assert!(!nothing.green() && nothing.missing == ["no such test"], "{runner}: {}", told(&nothing));
        project.write("test/other.test.js", file(runner, "test('other', () => {});"));
        let other = project.named(&["test/other.test.js"]);
        assert!(other.green() && other.passed == 1, "{runner}: {}", told(&other));
    });
}

#[test]
fn a_test_that_ends_the_process_is_not_a_success() {
    for runner in RUNNERS {
        let body = "test('one', () => {});\ntest('leaves', () => {\n  process.exit(0);\n});\ntest('three', () => {});";
        let run = with(runner, "test/leaves.test.js", body).test();
        assert!(!run.green(), "{runner}: {}", told(&run));
        let named = run.failures.iter().any(|failure| failure.name.contains("leaves"))
            || run.problems.iter().any(|problem| problem.file.as_deref() == Some("test/leaves.test.js"));
        assert!(named, "{runner}: {}", told(&run));
    }
}

#[test]
fn a_process_that_dies_is_not_a_success() {
    for runner in RUNNERS {
        let run = with(runner, "test/dies.test.js", "test('dies', () => {\n  process.abort();\n});").test();
        assert!(!run.green(), "{runner}: {}", told(&run));
        assert!(run.failures.len() + run.problems.len() > 0, "{runner}: {}", told(&run));
    }
}

#[test]
fn a_hanging_test_is_named_and_what_had_finished_is_told() {
    for runner in RUNNERS {
        let wait = "0;\n  process.getBuiltinModule('node:fs').writeFileSync('started', '');\n  await new Promise((resolve) => setTimeout(resolve, 1000000))";
        let slow = if runner == "node-test" { "" } else { ", 1000000" };
        let hang = match runner {
            "mocha" => format!("it('hangs', async function () {{ this.timeout(0); await {wait}; }});"),
            _ => format!("test('hangs', async () => {{ await {wait}; }}{slow});"),
        };
        let project = with(runner, "test/hangs.test.js", &format!("test('before', () => {{}});\n{hang}"));
        let run = project.test_with(&TestAsk { timeout_seconds: 100, ..TestAsk::default() });
        assert_eq!(run.incomplete.as_deref(), Some("timed out after 100s"), "{runner}: {}", told(&run));
        assert!(!run.green() && run.passed > 0, "{runner}: {}", told(&run));
        let named = run.failures.iter().any(|f| f.name == "hangs" && f.kind == FailureKind::TimedOut)
            || run.problems.iter().any(|problem| problem.file.as_deref() == Some("test/hangs.test.js"));
        assert!(named, "{runner}: {}", told(&run));
    }
}

#[test]
fn a_file_that_cannot_be_loaded_is_told_with_its_line() {
    for runner in RUNNERS {
        let project = with(runner, "test/broken.test.js", "test('one', () => {});\nnope.nope();");
        let line = if file(runner, "").lines().count() == 2 { 3 } else { 2 };
        let run = project.test();
        let found =
            run.problems.iter().find(|problem| problem.file.as_deref() == Some("test/broken.test.js"));
        let found = found.unwrap_or_else(|| panic!("{runner}: {}", told(&run)));
        assert_eq!(found.line, Some(line), "{runner}: {}", told(&run));
        assert!(found.message.contains("nope is not defined"), "{runner}: {}", told(&run));
        project.write("test/broken.test.js", file(runner, "test('one', () => { let x = ; });"));
        let run = project.test();
        let found =
            run.problems.iter().find(|problem| problem.file.as_deref() == Some("test/broken.test.js"));
        assert!(found.is_some() && !run.green(), "{runner}: {}", told(&run));
    }
}

#[test]
fn what_breaks_after_the_tests_is_told_beside_a_failed_one() {
    let body =
        "test('bad', () => { throw new Error('first'); });\nafterAll(() => { throw new Error('after'); });";
    let run = with("jest", "test/after.test.js", body).test();
    assert!(run.failures.iter().any(|failure| failure.message.contains("first")), "{}", told(&run));
    assert!(run.problems.iter().any(|problem| problem.message.contains("after")), "{}", told(&run));
}

/// Places and output are looked for only where a test failed, whatever process and runner the tests have.
#[test]
fn jest_tells_places_and_output_wherever_its_tests_run() {
    // The helper stands below every test, so that its line says nothing about who called it.
    let body = |name: &str| {
        format!(
            "test('passes', () => say('passes'));\n\
             test('fails', () => {{\n  say('fails');\n  throw Object.assign(new Error('{name}'), {{ stack: 'Error: {name}' }});\n}});\n\
             test('passes after', () => say('passes after'));\n\
             function say(what) {{\n  console.log('{name} ' + what);\n}}\n"
        )
    };
    // What such tests print can be told apart by its line alone.
    let concurrent = "test.concurrent('waits', async () => {\n  await new Promise((done) => setTimeout(done, 20));\n  console.log('waits');\n});\n\
        test.concurrent('fails', async () => {\n  console.log('three fails');\n  throw new Error('three');\n});\n";
    let runner = "module.exports = async (...all) => {\n  const circus = require('jest-circus/runner');\n  return (circus.default ?? circus)(...all);\n};\n";
    for (settings, workers) in
        [("", "jest -i"), ("", "jest -w 2"), (r#","jest":{"testRunner":"./runner.js"}"#, "jest -i")]
    {
        let project = with("jest", "test/one.test.js", &body("one"));
        project.write("test/two.test.js", body("two")).write("test/three.test.js", concurrent);
        project.write("runner.js", runner);
        project.write("package.json", format!(r#"{{"scripts":{{"test":"{workers}"}}{settings}}}"#));
        let run = project.test();
        let case = format!("{workers} {settings}: {}", told(&run));
        assert_eq!((run.passed, run.failed), (6, 3), "{case}");
        for failure in &run.failures {
            let line = if failure.message == "three" { 7 } else { 2 };
            let place = (failure.file.as_deref(), failure.line);
            assert_eq!(place, (Some(&*failure.id.unit), Some(line)), "{case}");
            assert_eq!(failure.output, Some(format!("{} fails", failure.message)), "{case}");
        }
    }
}

#[test]
fn no_tests_are_no_success() {
    for runner in RUNNERS {
        let project = Project::copy(&format!("node/{runner}"));
        project.remove("test/calc.test.js");
        let run = project.test();
        assert!(!run.green(), "{runner}: {}", told(&run));
        assert_eq!((run.passed, run.failed), (0, 0), "{runner}: {}", told(&run));
    }
}

#[test]
fn ten_thousand_tests_are_counted() {
    for runner in RUNNERS {
        let body = "for (let n = 0; n < 10000; n++) test(`case ${n}`, () => { if (n === 7777) throw new Error('lucky'); });";
        let run = with(runner, "test/many.test.js", body).test();
        assert_eq!((run.passed, run.failed), (10_000, 1), "{runner}: {}", told(&run));
        assert_eq!(run.failures[0].name, "case 7777", "{runner}");
    }
}

#[test]
fn output_that_is_no_text_does_not_disturb() {
    for runner in RUNNERS {
        let body = "test('bytes', () => {\n  process.stdout.write(Buffer.from([0xff, 0xfe, 0x0a, 0x00]));\n  throw new Error('half \\ud800 pair');\n});";
        let run = with(runner, "test/bytes.test.js", body).test();
        assert_eq!((run.passed, run.failed), (1, 1), "{runner}: {}", told(&run));
        assert!(run.failures[0].message.contains("half"), "{runner}: {}", told(&run));
    }
}

#[test]
fn nothing_of_the_project_is_touched() {
    each(&RUNNERS, |runner, project| {
        assert_eq!(project.changed_files(), "", "{runner}");
        project.test();
        assert_eq!(project.changed_files(), "", "{runner}");
    });
}

#[test]
fn the_part_of_a_script_that_failed_is_named() {
    let script = |test: &str| {
        let project = with("mocha", "test/more.test.js", "test('more', () => {});");
        project.write(
            "package.json",
            format!(r#"{{"scripts":{{"test":"{test}","lint":"node -e 'process.exit(3)'"}}}}"#),
        );
        project.test()
    };
    let before = script("npm run lint && mocha");
    assert_eq!((before.passed, before.problems.len()), (0, 1), "{}", told(&before));
    assert_eq!(before.problems[0].kind, ProblemKind::Script);
    let message = &before.problems[0].message;
    assert!(message.contains("`node -e 'process.exit(3)'` failed before the tests"), "{message}");
    let after = script("mocha && npm run lint");
    assert_eq!((after.passed, after.failed, after.problems.len()), (2, 0, 1), "{}", told(&after));
    let message = &after.problems[0].message;
    assert!(message.contains("`node -e 'process.exit(3)'` failed after the tests passed"), "{message}");
    let coverage = script("c8 --100 mocha && echo fine");
    assert_eq!((coverage.passed, coverage.failed), (2, 0), "{}", told(&coverage));
    let swallowed = script("mocha; echo done");
    assert!(swallowed.green(), "{}", told(&swallowed));
}

#[test]
fn a_script_that_swallows_the_exit_code_hides_nothing() {
    let project = Project::copy("node/mocha");
    project.write("package.json", r#"{"scripts":{"test":"mocha; true"}}"#);
    assert_eq!(project.test().failed, 6);
}

#[test]
fn a_script_that_sets_node_options_gets_arguments() {
    for (runner, command) in [("jest", "jest"), ("vitest", "vitest run"), ("mocha", "mocha")] {
        let project = Project::copy(&format!("node/{runner}"));
        let kind = if runner == "vitest" { r#""type":"module","# } else { "" };
        project.write(
            "package.json",
            format!(r#"{{{kind}"scripts":{{"test":"NODE_OPTIONS=--no-deprecation {command}"}}}}"#),
        );
        let run = project.test();
        assert_eq!((run.passed, run.failed, run.skipped), (4, 6, 2), "{runner}: {}", told(&run));
        let again = project.rerun(failing(&run));
        assert_eq!((again.passed, again.failed), (0, 6), "{runner}: {}", told(&again));
    }
}

#[test]
fn every_package_manager_runs_the_script() {
    let locks = [
        ("pnpm", "pnpm-lock.yaml", "lockfileVersion: '9.0'\n"),
        ("yarn", "yarn.lock", "# yarn lockfile v1\n"),
        ("bun", "bun.lock", "{\"lockfileVersion\":1,\"workspaces\":{\"\":{}},\"packages\":{}}\n"),
        ("npm", "package-lock.json", "{\"lockfileVersion\":3,\"packages\":{}}\n"),
    ];
    for (manager, lock, text) in locks {
        let project = Project::copy("node/mocha");
        project.write("package.json", r#"{"name":"x","scripts":{"test":"mocha"}}"#).write(lock, text);
        let plan = &project.detector().test_cmd(&project, &TestAsk::default()).expect("a plan")[0];
        assert_eq!(plan.program, manager);
        let run = project.test();
        assert_eq!((run.passed, run.failed, run.skipped), (4, 6, 2), "{manager}: {}", told(&run));
        assert_eq!(std::fs::read_to_string(project.root.join(lock)).expect("a lock"), text, "{manager}");
    }
}

#[test]
fn without_a_script_the_runner_is_found() {
    for runner in ["jest", "vitest", "mocha", "node-test"] {
        let project = Project::copy(&format!("node/{runner}"));
        let kind = if runner == "vitest" || runner == "node-test" { r#""type":"module","# } else { "" };
        let needs = if runner == "node-test" { String::new() } else { format!("\"{runner}\":\"1\"") };
        project.write("package.json", format!(r#"{{{kind}"devDependencies":{{{needs}}}}}"#));
        let run = project.test();
        assert_eq!((run.passed, run.failed, run.skipped), (4, 6, 2), "{runner}: {}", told(&run));
    }
}

#[test]
fn a_runner_nobody_knows_is_read_when_it_speaks_tap() {
    let project = Project::copy("node/mocha");
    let tap = "console.log('TAP version 13\\nok 1 - fine\\nnot ok 2 - bad\\n1..2'); process.exit(1);";
    project.write("run.js", tap).write("package.json", r#"{"scripts":{"test":"node run.js"}}"#);
    let run = project.test();
    assert_eq!((run.passed, run.failed), (1, 1), "{}", told(&run));
    project.write("run.js", "console.log('everything went well, 5 tests passed');");
    let run = project.test();
    assert!(run.unread.is_some() && !run.green() && run.passed == 0, "{}", told(&run));
}

/// Yarn's newer generation, with a node_modules folder and without one.
#[test]
fn yarn_berry_runs_the_script_with_either_linker() {
    for linker in ["node-modules", "pnp"] {
        let mut project = Project::copy("node/node-test");
        project.remove("node_modules");
        let bin = tempfile::tempdir().expect("a folder");
        std::os::unix::fs::symlink(testkit::tools::path("yarn-berry"), bin.path().join("yarn"))
            .expect("a link");
        project.find_first(bin.path());
        let settings = "enableTelemetry: false\nenableNetwork: false\nenableGlobalCache: false\nenableImmutableInstalls: false\n";
        project.write(".yarnrc.yml", format!("nodeLinker: {linker}\n{settings}")).write("yarn.lock", "");
        project.shell("yarn install");
        project.changed_files();
        project.shell("mkdir -p .yarn/cache");
        let before = project.changed_files();
        let plan = &project.detector().test_cmd(&project, &TestAsk::default()).expect("a plan")[0];
        assert_eq!(plan.program, "yarn");
        let run = project.test();
        assert_eq!((run.passed, run.failed, run.skipped), (4, 6, 2), "{linker}: {}", told(&run));
        assert_eq!(project.changed_files(), before, "{linker}");
        let again = project.rerun(failing(&run));
        assert_eq!((again.passed, again.failed), (0, 6), "{linker}: {}", told(&again));
        project.write("package.json", r#"{"type": "module", "devDependencies": {"eslint": "9"}}"#);
        let plan = project.detector().lint_cmd(&project, &verify::LintAsk::default()).expect("a plan");
        let expected = if linker == "pnp" { "yarn" } else { "eslint" };
        assert_eq!(plan.program, expected, "{:?}", plan.why);
    }
}
