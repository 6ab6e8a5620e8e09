//! Python through its real runners.

use super::runs::{Project, lint_told, told};
use verify::{FailureKind, LintAsk, ProblemKind, Scope, TestAsk, TestId, TestRun};

const RUNNERS: [&str; 2] = ["pytest", "unittest"];

fn project(runner: &str) -> Project {
    Project::copy(&format!("python/{runner}"))
}

fn file(runner: &str, body: &str) -> String {
    if runner == "pytest" {
        return body.to_owned();
    }
    let indented = body.replace('\n', "\n    ").replace("():", "(self):");
    format!("import os, time, unittest\n\nclass TestMore(unittest.TestCase):\n    {indented}\n")
}

/// A project with one passing file and another.
fn with(runner: &str, name: &str, text: impl AsRef<[u8]>) -> Project {
    let project = project(runner);
    project.remove("tests/test_calc.py");
    project.write("tests/test_good.py", file(runner, "def test_good():\n    pass"));
    project.write(name, text);
    project
}

fn failing(run: &TestRun) -> Vec<TestId> {
    let mut ids: Vec<TestId> = run.failures.iter().map(|failure| failure.id.clone()).collect();
    ids.sort();
    ids
}

#[test]
fn every_failure_is_told_with_its_place_and_what_was_compared() {
    for runner in RUNNERS {
        insta::assert_snapshot!(format!("python_{runner}"), told(&project(runner).test()));
    }
}

#[test]
fn exactly_the_failed_tests_run_again() {
    let project = project("pytest");
    let ids = failing(&project.test());
    let again = project.rerun(ids.clone());
    assert_eq!(failing(&again), ids, "{}", told(&again));
    assert_eq!((again.passed, again.skipped), (0, 0), "{}", told(&again));
    for id in ids.iter().filter(|id| id.path.iter().any(|name| name.contains('['))) {
        let one = project.rerun(vec![id.clone()]);
        assert_eq!(failing(&one), vec![id.clone()], "{}", told(&one));
    }
}

#[test]
fn a_subtest_runs_again_with_its_test_and_that_is_said() {
    let project = project("unittest");
    let all = project.test();
    let ids = failing(&all);
    assert!(ids.iter().any(|id| id.path.join(".") == "TestSetUp.(setUpClass)"), "{ids:?}");
    let again = project.rerun(ids.clone());
    assert_eq!(failing(&again), ids, "{}", told(&again));
    assert!(again.notes.iter().any(|note| note.contains("cannot select less")), "{}", told(&again));
}

#[test]
fn a_selection_that_matches_nothing_is_no_success() {
    for (runner, unit) in [("pytest", "tests/test_calc.py"), ("unittest", "tests.test_calc")] {
        let gone =
            TestId { unit: unit.to_owned(), path: vec!["TestGone".to_owned(), "test_gone".to_owned()] };
        let run = project(runner).rerun(vec![gone]);
        assert!(!run.green(), "{runner}: {}", told(&run));
        assert_eq!((run.passed, run.failed), (0, 0), "{runner}: {}", told(&run));
        assert_eq!(run.missing.len(), 1, "{runner}: {}", told(&run));
    }
    let run = project("pytest")
        .rerun(vec![TestId { unit: "tests/gone.py".to_owned(), path: vec!["test_x".to_owned()] }]);
    assert!(!run.green() && run.missing.len() == 1, "{}", told(&run));
}

#[test]
fn tests_are_found_by_name_and_by_file() {
    let project = project("pytest");
    for (name, counts) in [
        ("test_adds", (1, 0)),
        ("tests/test_calc.py::test_adds", (1, 0)),
        ("TestGroup::test_odd", (1, 5)),
        ("TestGroup", (1, 7)),
        ("test_odd[a::b]", (0, 1)),
    ] {
        let run = project.named(&[name]);
        assert_eq!((run.passed, run.failed), counts, "{name}: {}", told(&run));
    }
    let nothing = project.named(&["test_nothing_of_the_kind"]);
    assert!(!nothing.green() && nothing.missing.len() == 1, "{}", told(&nothing));
    let unittest = super::python::project("unittest").named(&["tests.test_calc.TestCalc.test_adds"]);
    assert!(unittest.green() && unittest.passed == 1, "{}", told(&unittest));
}

#[test]
fn a_test_that_ends_the_process_is_not_a_success() {
    for runner in RUNNERS {
        for leave in ["os._exit(0)", "os.abort()"] {
            let body = format!("def test_leaves():\n    import os\n    {leave}");
            let run = with(runner, "tests/test_leaves.py", file(runner, &body)).test();
            assert!(!run.green(), "{runner}: {}", told(&run));
            let crashed = run.failures.iter().find(|failure| failure.kind == FailureKind::Crashed);
            let crashed = crashed.unwrap_or_else(|| panic!("{runner}: {}", told(&run)));
            assert!(crashed.name.contains("test_leaves"), "{runner}: {}", told(&run));
        }
    }
}

#[test]
fn a_hanging_test_is_named_and_what_had_finished_is_told() {
    for runner in RUNNERS {
        let body =
            "def test_hangs():\n    import time\n    open('started', 'w').close()\n    time.sleep(1000)";
        let project = with(runner, "tests/test_hangs.py", file(runner, body));
        let run = project.test_with(&TestAsk { timeout_seconds: 100, ..TestAsk::default() });
        assert_eq!(run.incomplete.as_deref(), Some("timed out after 100s"), "{runner}: {}", told(&run));
        assert_eq!(run.passed, 1, "{runner}: {}", told(&run));
        let named =
            run.failures.iter().any(|f| f.name.ends_with("test_hangs") && f.kind == FailureKind::TimedOut);
        assert!(named, "{runner}: {}", told(&run));
    }
}

#[test]
fn a_file_that_cannot_be_loaded_is_told_with_its_line() {
    for runner in RUNNERS {
        for (text, line, message) in [
            ("import os\n\nimport no_such_module\n", 3, "No module named 'no_such_module'"),
            ("def f(:\n    pass\n", 1, "SyntaxError"),
        ] {
            let run = with(runner, "tests/test_broken.py", text).test();
            assert_eq!(run.passed, 1, "{runner}: {}", told(&run));
            assert_eq!(run.problems.len(), 1, "{runner}: {}", told(&run));
            let problem = &run.problems[0];
            assert_eq!(problem.kind, ProblemKind::Collection, "{runner}: {}", told(&run));
            let place = (problem.file.as_deref(), problem.line);
            assert_eq!(place, (Some("tests/test_broken.py"), Some(line)), "{runner}: {}", told(&run));
            assert!(problem.message.contains(message), "{runner}: {}", told(&run));
        }
    }
}

#[test]
fn a_project_that_breaks_its_own_runner_is_told_with_the_last_line_of_its_own() {
    let project = project("pytest");
    project.write("tests/conftest.py", "import calc.missing\n");
    let run = project.test();
    assert!(!run.green(), "{}", told(&run));
    let problem = run.problems.first().unwrap_or_else(|| panic!("{}", told(&run)));
    assert_eq!(problem.file.as_deref(), Some("tests/conftest.py"), "{}", told(&run));
    project.write("tests/conftest.py", "").write("pytest.ini", "[pytest]\naddopts = --no-such-option\n");
    let run = project.test();
    assert_eq!(run.problems.first().map(|problem| problem.kind), Some(ProblemKind::Config), "{}", told(&run));
}

#[test]
fn no_tests_are_no_success() {
    for runner in RUNNERS {
        let project = project(runner);
        project.remove("tests/test_calc.py");
        let run = project.test();
        assert!(!run.green(), "{runner}: {}", told(&run));
        assert_eq!((run.passed, run.failed), (0, 0), "{runner}: {}", told(&run));
    }
}

#[test]
fn ten_thousand_tests_are_counted() {
    let pytest = "import pytest\n\n@pytest.mark.parametrize('n', range(10000))\ndef test_many(n):\n    assert n != 7777\n";
    let run = with("pytest", "tests/test_many.py", pytest).test();
    assert_eq!((run.passed, run.failed), (10_000, 1), "{}", told(&run));
    let unittest = "import unittest\n\nclass TestMany(unittest.TestCase):\n    pass\n\nfor n in range(10000):\n    setattr(TestMany, 'test_%d' % n, lambda self, n=n: self.assertNotEqual(n, 7777))\n";
    let run = with("unittest", "tests/test_many.py", unittest).test();
    assert_eq!((run.passed, run.failed), (10_000, 1), "{}", told(&run));
}

#[test]
fn output_that_is_no_text_does_not_disturb() {
    for runner in RUNNERS {
        let body = "def test_bytes():\n    import os\n    os.write(1, b'\\xff\\xfe\\n')\n    raise ValueError('half \\ud800 pair')";
        let run = with(runner, "tests/test_bytes.py", file(runner, body)).test();
        assert_eq!((run.passed, run.failed), (1, 1), "{runner}: {}", told(&run));
        assert!(run.failures[0].message.contains("half"), "{runner}: {}", told(&run));
    }
}

#[test]
fn nothing_of_the_project_is_touched_and_nothing_leaks_into_the_tests() {
    let body = "def test_environment():\n    import os, subprocess, sys\n    assert 'codegen' not in os.environ.get('PYTHONPATH', '')\n    subprocess.check_call([sys.executable, '-c', 'import sys; sys.exit(any(\"scratch\" in p for p in sys.path))'])";
    let project = with("pytest", "tests/test_environment.py", body);
    project.write("pyproject.toml", "[tool.pytest.ini_options]\naddopts = '-p no:cacheprovider'\n");
    assert_eq!(project.changed_files(), "");
    let run = project.test();
    assert!(run.green(), "{}", told(&run));
    assert_eq!(project.changed_files(), "");
}

#[test]
fn a_run_that_stops_at_the_first_failure_says_so() {
    let project = project("pytest");
    project.write("pytest.ini", "[pytest]\naddopts = -x\n");
    let run = project.test();
    assert_eq!(run.failed, 1, "{}", told(&run));
    assert!(run.incomplete.is_some_and(|why| why.contains("stopping after 1 failures")));
}

#[test]
fn ruff_and_the_type_checkers_are_read() {
    let project = project("pytest");
    project.write("calc/wrong.py", "import os\n\n\ndef f(a: int) -> int:\n    return 'x'\n");
    insta::assert_snapshot!(lint_told(&project.lint(&LintAsk::default())), @"calc/wrong.py:1:8:F401: `os` imported but unused [Error] (fixable)
");
    project.write("pyproject.toml", "[tool.mypy]\n");
    insta::assert_snapshot!(lint_told(&project.typecheck()), @r#"calc/wrong.py:5:12:return-value: Incompatible return value type (got "str", expected "int") [Error]
"#);
    project.write("pyproject.toml", "[tool.basedpyright]\ntypeCheckingMode = 'basic'\n");
    insta::assert_snapshot!(lint_told(&project.typecheck()), @r#"calc/wrong.py:5:12:reportReturnType: Type "Literal['x']" is not assignable to return type "int" "Literal['x']" is not assignable to "int" [Error]
"#);
    project.write("pyproject.toml", "[tool.ty.rules]\n");
    insta::assert_snapshot!(lint_told(&project.typecheck()), @r#"calc/wrong.py:5:12:invalid-return-type: Return type does not match returned value: expected `int`, found `Literal["x"]` [Error]
"#);
    project.write("pyproject.toml", "[tool.ruff]\nnonsense = 1\n");
    let broken = project.lint(&LintAsk::default());
    assert!(
        broken.config_error.as_deref().is_some_and(|text| text.contains("nonsense")),
        "{}",
        lint_told(&broken)
    );
    project.write("pyproject.toml", "").write("calc/wrong.py", "import os\nx = (\n");
    let syntax = project.lint(&LintAsk { scope: Scope::File("calc/wrong.py".to_owned()), fix: false });
    assert!(syntax.findings.iter().any(|one| one.rule == "invalid-syntax"), "{}", lint_told(&syntax));
    project.write("calc/wrong.py", "import os\n");
    let left = project.lint(&LintAsk { scope: Scope::File("calc/wrong.py".to_owned()), fix: true });
    assert!(left.findings.is_empty(), "{}", lint_told(&left));
    assert_eq!(std::fs::read_to_string(project.root.join("calc/wrong.py")).expect("a file"), "");
}

#[test]
fn ruff_formats_from_stdin() {
    let project = project("pytest");
    assert_eq!(
        project.format("calc/a.py", "def  f( a ):\n  return   a").as_deref(),
        Ok("def f(a):\n    return a\n")
    );
    assert!(project.format("calc/a.py", "def f(:").is_err());
}

#[test]
fn a_selection_of_modules_runs_them_and_misses_nothing() {
    for name in ["python/pytest", "python/unittest"] {
        let project = Project::copy(name);
        project.write(
            "tests/test_alone.py",
            "import unittest\n\n\nclass Alone(unittest.TestCase):\n    def test_alone(self):\n        pass\n",
        );
        project.write("tests/test_empty.py", "");
        let units = vec!["tests/test_alone.py".to_owned(), "tests/test_empty.py".to_owned()];
        let run = project.test_with(&verify::TestAsk { units, timeout_seconds: 60, ..Default::default() });
        assert_eq!((run.passed, run.failed), (1, 0), "{name}: {run:#?}");
        assert!(run.green(), "{name}: {run:#?}");
    }
}

/// Managers that keep the environment elsewhere, or make it: nothing but the standard library is needed.
#[test]
fn every_manager_runs_the_tests_in_its_environment() {
    let bin = testkit::tools::path("poetry");
    let bin = bin.parent().expect("a folder");
    let plain = "[project]\nname = \"x\"\nversion = \"1\"\nrequires-python = \">=3.9\"\n";
    let hatch = "[tool.hatch.envs.default]\nskip-install = true\n";
    for (manager, lock, text) in [
        ("poetry", "poetry.lock", format!("{plain}[tool.poetry]\npackage-mode = false\n")),
        ("pdm", "pdm.lock", format!("{plain}[tool.pdm]\ndistribution = false\n")),
        ("uv", "uv.lock", plain.to_owned()),
        ("hatch", "hatch.toml", format!("{plain}{hatch}")),
        (
            "tox",
            "",
            format!("{plain}[tool.tox]\nenv_list = [\"py\"]\n[tool.tox.env_run_base]\nskip_install = true\n"),
        ),
    ] {
        let mut project = Project::copy("python/unittest");
        project.find_first(bin);
        // Their environments go with the project.
        let environments = project.root.join("environments").to_string_lossy().into_owned();
        project.set("POETRY_VIRTUALENVS_PATH", &environments);
        project.set("HATCH_DATA_DIR", &environments);
        project.shell("rm -rf .venv");
        project.write("pyproject.toml", text);
        match manager {
            "uv" => project.shell("uv lock -q --offline"),
            "tox" => {}
            _ => drop(project.write(lock, "")),
        }
        let plan = &project.detector().test_cmd(&project, &verify::TestAsk::default()).expect("a plan")[0];
        assert_eq!((plan.program.as_str(), plan.runner), (manager, "unittest"), "{:?}", plan.why);
        let run = project.test();
        assert!(run.passed > 0 && run.failed > 0, "{manager}: {}", told(&run));
        assert!(run.unread.is_none() && run.incomplete.is_none(), "{manager}: {}", told(&run));
        if manager == "tox" {
            // From now on without tox: what it made is there.
            let plan =
                &project.detector().test_cmd(&project, &verify::TestAsk::default()).expect("a plan")[0];
            assert!(plan.program.ends_with(".tox/py/bin/python"), "{plan:#?}");
            assert_eq!(project.test().passed, run.passed);
        }
    }
}
