//! How much the reports of every runner say, and how shortly.

use crate::{
    support::{Bench, Setup, none},
    verify::{equipment, tests},
};
use serde_json::json;

/// Every runner, with its language.
const RUNNERS: [(&str, &str); 10] = [
    ("go test", "go"),
    ("cargo test", "rust"),
    ("nextest", "rust"),
    ("jest", "node"),
    ("vitest", "node"),
    ("mocha", "node"),
    ("node:test", "node"),
    ("bun", "node"),
    ("pytest", "python"),
    ("unittest", "python"),
];

/// Writes tests that pass and tests that fail, each of these with a place, values and output of its own.
fn many(bench: &Bench, runner: &str, passing: usize, failing: usize) {
    let all = |pass: &dyn Fn(usize) -> String, fail: &dyn Fn(usize) -> String| -> String {
        (0..passing).map(pass).chain((0..failing).map(fail)).collect()
    };
    match runner {
        "go test" => {
            bench.write("go.mod", "module example.com/many\n\ngo 1.21\n");
            let tests = all(&|n| format!("func TestPass{n}(t *testing.T) {{ t.Log(\"quiet\") }}\n"), &|n| {
                format!(
                    "func TestFail{n}(t *testing.T) {{\n\tfmt.Println(\"output of {n}\")\n\tif got := {n} + 1; got != 777 {{\n\t\tt.Errorf(\"wrong sum\\ngot: %d\\nwant: %d\", got, 777)\n\t}}\n}}\n"
                )
            });
            let head = "package many\n\nimport (\n\t\"fmt\"\n\t\"testing\"\n)\n\nvar _ = fmt.Sprint\n\n";
            bench.write("many_test.go", format!("{head}{tests}"));
        }
        "cargo test" | "nextest" => {
            bench
                .write("Cargo.toml", "[package]\nname = \"many\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
            if runner == "nextest" {
                bench.write(".config/nextest.toml", "");
            }
            let tests = all(&|n| format!("#[test]\nfn pass_{n}() {{}}\n"), &|n| {
                format!(
                    "#[test]\nfn fail_{n}() {{\n    println!(\"output of {n}\");\n    assert_eq!({n} + 1, 777, \"wrong sum\");\n}}\n"
                )
            });
            bench.write("src/lib.rs", tests);
        }
        "pytest" | "unittest" => {
            bench.write("pyproject.toml", "[project]\nname = \"many\"\nversion = \"1\"\n");
            if runner == "unittest" {
                bare_environment(bench);
            }
            let check = |n: usize| {
                format!("        print(\"output of {n}\")\n        self.assertEqual({n} + 1, 777)\n")
            };
            let tests = match runner {
                "pytest" => all(&|n| format!("def test_pass_{n}():\n    pass\n\n\n"), &|n| {
                    format!(
                        "def test_fail_{n}():\n    print(\"output of {n}\")\n    assert {n} + 1 == 777\n\n\n"
                    )
                }),
                _ => {
                    String::from("import unittest\n\n\nclass Many(unittest.TestCase):\n")
                        + &all(&|n| format!("    def test_pass_{n}(self):\n        pass\n\n"), &|n| {
                            format!("    def test_fail_{n}(self):\n{}\n", check(n))
                        })
                }
            };
            bench.write("test_many.py", tests);
        }
        runner => {
            let (script, head, check) = match runner {
                "jest" => ("jest", "", "expect"),
                "vitest" => ("vitest run", "import { expect, test } from 'vitest';\n", "expect"),
                "mocha" => ("mocha", "import assert from 'node:assert';\nconst test = it;\n", "assert"),
                "bun" => ("bun test", "import { expect, test } from 'bun:test';\n", "expect"),
                _ => (
                    "node --test",
                    "import assert from 'node:assert';\nimport { test } from 'node:test';\n",
                    "assert",
                ),
            };
            let kind = if head.is_empty() { "" } else { "\"type\": \"module\", " };
            bench.write(
                "package.json",
                format!("{{\"name\": \"many\", {kind}\"scripts\": {{\"test\": \"{script}\"}}}}"),
            );
            if runner == "bun" {
                bench.write("bun.lock", "{}");
            }
            let modules = bench.root().join("node_modules");
            if !modules.exists() {
                std::os::unix::fs::symlink(testkit::tools::node_modules(), modules).unwrap();
            }
            let checked = |n: usize| match check {
                "expect" => format!("expect({n} + 1).toBe(777);"),
                _ => format!("assert.strictEqual({n} + 1, 777);"),
            };
            let tests = all(&|n| format!("test('passes {n}', () => {{}});\n"), &|n| {
                format!(
                    "test('fails {n}', () => {{\n  console.log('output of {n}');\n  {}\n}});\n",
                    checked(n)
                )
            });
            bench.write("test/many.test.js", format!("{head}{tests}"));
        }
    }
}

/// An environment without packages, so without pytest.
fn bare_environment(bench: &Bench) {
    let python = testkit::tools::python("python").canonicalize().unwrap();
    let link = bench.root().join(".venv/bin/python");
    if link.exists() {
        return;
    }
    let home = python.parent().unwrap().display().to_string();
    bench.write(".venv/pyvenv.cfg", format!("home = {home}\n"));
    bench.write(".venv/lib/python3/site-packages/none", "");
    bench.write(".venv/bin/none", "");
    std::os::unix::fs::symlink(&python, link).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn replies_of_compiled_languages_are_short_and_whole() {
    short_and_whole(&RUNNERS[..3]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replies_of_javascript_runners_are_short_and_whole() {
    short_and_whole(&RUNNERS[3..8]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replies_of_python_runners_are_short_and_whole() {
    short_and_whole(&RUNNERS[8..]).await;
}

/// What every runner's replies cost: little, and yet nothing is lost.
async fn short_and_whole(runners: &[(&str, &str)]) {
    let mut wrong = Vec::new();
    for (runner, language) in runners {
        let bench = equipment(Setup::default());
        let client = bench.client();
        let mut check = |right: bool, what: &str, text: &str| {
            if !right {
                wrong.push(format!("{runner}: {what} in {} bytes:\n{text}", text.len()));
            }
        };
        many(&bench, runner, 300, 3);
        let (text, _) = tests(&client, none()).await;
        check(text.starts_with(&format!("{language}: 300 passed, 3 failed (")), "counts", &text);
        check(text.len() < 900, "too much", &text);
        check(text.matches("\nFAIL ").count() == 3, "blocks", &text);
        for (n, block) in text.split("\nFAIL ").skip(1).enumerate() {
            let head = block.lines().next().unwrap();
            check(head.contains(&format!("{n} ")), "names in order", &text);
            check(head.rsplit(':').next().unwrap().parse::<u32>().is_ok(), "places", &text);
            check(block.contains(&format!("\n  | output of {n}")), "output", &text);
            check(block.contains("777") && block.contains(&(n + 1).to_string()), "values", &text);
        }

        many(&bench, runner, 0, 60);
        let (text, _) = tests(&client, none()).await;
        check(text.starts_with(&format!("{language}: 60 failed (")), "counts", &text);
        check(text.matches("\nFAIL ").count() == 60, "sixty failures", &text);
        check(text.matches("| output of ").count() == 60, "sixty outputs", &text);

        many(&bench, runner, 300, 0);
        let (text, _) = tests(&client, none()).await;
        check(text.starts_with(&format!("{language}: 300 passed (")), "counts", &text);
        check(text.ends_with("\nexit: 0") && text.len() < 120, "a short green", &text);
        let last = client.ok("last_test_failures", none()).await;
        let none_failed = format!("last run_tests had no failures (300 tests passed, {language}, ");
        check(last.starts_with(&none_failed), "none failed", &last);
        let again = client.err("run_failing_tests", none()).await;
        check(again == "nothing to run again: last run_tests had no failures", "nothing again", &again);
        let (text, _) = tests(&client, json!({"tests": ["no_such_test"]})).await;
        check(text.contains("no_such_test") && !text.ends_with("exit: 0"), "a name nobody has", &text);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
