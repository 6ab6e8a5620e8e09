//! Node's linters, type checkers and formatters, for real.

use super::runs::{Project, lint_told as told};
use verify::{LintAsk, Scope, Severity};

const ESLINT: &str = "export default [{ rules: { 'no-unused-vars': 'error', 'prefer-const': 'warn' } }];\n";
const SOURCE: &str = "let unused = 1;\nlet fixed = 2;\nif (fixed == 2) {\n  debugger;\n}\n";

fn project(package: &str) -> Project {
    let project = Project::empty("node");
    // Some tools follow the link to the tools unless it is ignored.
    project.write(".gitignore", "node_modules\n").write("package.json", package).write("src/a.js", SOURCE);
    project
}

#[test]
fn eslint_is_read_with_rules_severities_and_fixes() {
    let project = project(r#"{"type":"module"}"#);
    project.write("eslint.config.js", ESLINT);
    insta::assert_snapshot!(told(&project.lint(&LintAsk::default())), @r"
    src/a.js:1:5:no-unused-vars: 'unused' is assigned a value but never used. [Error]
    src/a.js:1:5:prefer-const: 'unused' is never reassigned. Use 'const' instead. [Warning] (fixable)
    src/a.js:2:5:prefer-const: 'fixed' is never reassigned. Use 'const' instead. [Warning] (fixable)
    ");
    // The project's own script says the same, though it asks for another format and fails.
    project.write(
        "package.json",
        r#"{"type":"module","scripts":{"lint":"eslint --format stylish src && echo never"}}"#,
    );
    let by_script = project.lint(&LintAsk::default());
    assert_eq!(by_script.findings.len(), 3, "{}", told(&by_script));
    project.write("src/b.js", "let x = ;\n");
    let one = project.lint(&LintAsk { scope: Scope::File("src/b.js".to_owned()), fix: false });
    insta::assert_snapshot!(told(&one), @"src/b.js:1:9:syntax: Parsing error: Unexpected token ; [Error]
");
    project
        .write("eslint.config.js", "export default [{ rules: { 'no-such-rule': 'error' } }];\n")
        .remove("src/b.js");
    project.write("package.json", r#"{"type":"module"}"#);
    let broken = project.lint(&LintAsk::default());
    assert!(
        broken.config_error.as_deref().is_some_and(|text| text.contains("no-such-rule")),
        "{}",
        told(&broken)
    );
}

#[test]
fn eslint_mends_what_it_can() {
    let project = project(r#"{"type":"module","scripts":{"lint":"eslint ."}}"#);
    project.write("eslint.config.js", ESLINT);
    let left = project.lint(&LintAsk { fix: true, ..LintAsk::default() });
    assert_eq!(left.findings.len(), 1, "{}", told(&left));
    let text = std::fs::read_to_string(project.root.join("src/a.js")).expect("a file");
    assert!(text.contains("const fixed = 2"), "{text}");
}

#[test]
fn biome_and_oxlint_are_read() {
    for (package, config) in [("@biomejs/biome", "biome.json"), ("oxlint", ".oxlintrc.json")] {
        let project = project(&format!(r#"{{"devDependencies":{{"{package}":"1"}}}}"#));
        project.write(config, "{}");
        let run = project.lint(&LintAsk::default());
        let debugger = run.findings.iter().find(|one| one.rule.to_lowercase().contains("debugger"));
        let debugger = debugger.unwrap_or_else(|| panic!("{package}: {}", told(&run)));
        assert_eq!((debugger.file.as_str(), debugger.line, debugger.col), ("src/a.js", 4, 3), "{package}");
        assert!(run.config_error.is_none() && run.incomplete.is_none(), "{package}: {}", told(&run));
        let tool = if package == "oxlint" { "oxlint" } else { "biome lint" };
        project.write("package.json", format!(r#"{{"scripts":{{"lint":"{tool} ."}}}}"#));
        let by_script = project.lint(&LintAsk::default());
        assert_eq!(by_script.findings, run.findings, "{package}: {}", told(&by_script));
    }
}

#[test]
fn what_a_lint_script_prints_is_understood_or_said_not_to_be() {
    let project = project(r#"{"scripts":{"lint":"prettier --check src"}}"#);
    let run = project.lint(&LintAsk::default());
    insta::assert_snapshot!(told(&run), @"");
    project.write("src/a.js", "let  a=1");
    let run = project.lint(&LintAsk::default());
    insta::assert_snapshot!(told(&run), @"src/a.js:1:1:prettier: not formatted [Warning] (fixable)
");
    project.write("package.json", r#"{"scripts":{"lint":"echo all is bad; exit 4"}}"#);
    let run = project.lint(&LintAsk::default());
    assert!(run.findings.is_empty());
    let why = run.incomplete.expect("a reason");
    assert!(why.contains("exited with 4") && why.contains("all is bad"), "{why}");
}

/// Gives the project the compiler of that version, and no other package.
fn compiler(project: &Project, major: u8) {
    if major == 7 {
        let tool = testkit::tools::node_modules().join("typescript7/bin/tsc");
        project.remove("node_modules").write("node_modules/.bin/keep", "");
        std::os::unix::fs::symlink(tool, project.root.join("node_modules/.bin/tsc")).expect("a link");
    }
}

#[test]
fn types_are_checked_by_every_compiler() {
    let wrong = "export const n: number = 'x';\nexport function f(a: { b: string }): { b: number } {\n  return a;\n}\n";
    for major in [5, 7] {
        let project = project("{}");
        project.write(
            "tsconfig.json",
            r#"{ "compilerOptions": { "strict": true, "types": [] }, "include": ["src"] }"#,
        );
        project.write("src/t.ts", wrong);
        compiler(&project, major);
        let run = project.typecheck();
        let rules: Vec<(&str, u32, u32)> =
            run.findings.iter().map(|one| (one.rule.as_str(), one.line, one.col)).collect();
        assert_eq!(rules, [("TS2322", 1, 14), ("TS2322", 3, 3)], "{major}: {}", told(&run));
        assert!(run.findings[1].message.contains("Types of property 'b' are incompatible"), "{}", told(&run));
        assert!(run.findings.iter().all(|one| one.severity == Severity::Error && one.file == "src/t.ts"));
        project.write("tsconfig.json", r#"{ "compilerOptions": { "module": "nonsense" } }"#);
        let broken = project.typecheck();
        assert!(broken.config_error.is_some() || !broken.findings.is_empty(), "{major}: {}", told(&broken));
    }
}

#[test]
fn what_stopped_eslint_is_told_with_the_way_out() {
    let project = project(r#"{"type":"module"}"#);
    let stopped = |config: &str| {
        project.write("eslint.config.js", config);
        let run = project.lint(&LintAsk::default());
        let why = run.config_error.clone().unwrap_or_else(|| panic!("{}", told(&run)));
        assert!(
            !why.contains("Oops") && !why.contains("node:internal") && why.starts_with("eslint "),
            "{why}"
        );
        why
    };
    let why = stopped("import nope from 'eslint-plugin-nope';\nexport default [nope];\n");
    assert!(why.contains("Cannot find package 'eslint-plugin-nope'"), "{why}");
    assert!(
        why.ends_with("next: npm install --save-dev eslint-plugin-nope, or take it out of the configuration")
    );
    let why = stopped(
        "const r = { create: () => ({ Program() { throw new TypeError('boom'); } }) };\n\
         export default [{ plugins: { p: { rules: { r } } }, rules: { 'p/r': 2 } }];\n",
    );
    assert!(
        why.contains("TypeError: boom\nOccurred while linting ") && why.contains("Rule: \"p/r\""),
        "{why}"
    );
    assert!(why.contains("next: this rule broke"), "{why}");
    let why = stopped("export default [{ nope: 1 }];\n");
    assert!(why.contains("Unexpected key \"nope\" found.\nnext: mend the configuration"), "{why}");
    // The same through the project's own script.
    project.write("package.json", r#"{"type":"module","scripts":{"lint":"eslint src"}}"#);
    project.remove("eslint.config.js");
    let run = project.lint(&LintAsk::default());
    let why = run.config_error.clone().unwrap_or_else(|| panic!("{}", told(&run)));
    assert!(
        why.contains("couldn't find an eslint.config") && why.contains("npm init @eslint/config"),
        "{why}"
    );
}

#[test]
fn a_solution_checks_the_projects_it_refers_to() {
    for major in [5, 7] {
        let project = project("{}");
        compiler(&project, major);
        project.write(
            "tsconfig.json",
            "{\n  // only refers\n  \"files\": [],\n  \"references\": [{ \"path\": \"./lib\" }],\n}\n",
        );
        project.write(
            "lib/tsconfig.json",
            r#"{ "compilerOptions": { "composite": true, "strict": true, "types": [], "outDir": "../out" } }"#,
        );
        project.write("lib/t.ts", "export const n: number = 'x';\n");
        let run = project.typecheck();
        assert_eq!(run.findings.len(), 1, "{major}: {}", told(&run));
        let place = (run.findings[0].file.as_str(), run.findings[0].line);
        assert_eq!(place, ("lib/t.ts", 1), "{major}: {}", told(&run));
        for script in ["tsc -b --noEmit", "tsc --noEmit -p lib"] {
            project.write("package.json", format!(r#"{{"scripts":{{"typecheck":"{script}"}}}}"#));
            let by_script = project.typecheck();
            assert_eq!(by_script.findings, run.findings, "{major} {script}: {}", told(&by_script));
        }
        assert!(!project.root.join("out").exists(), "{major}: tsc left its notes behind");
    }
}

#[test]
fn projects_that_refer_to_each_other_are_checked_and_nothing_is_written() {
    for major in [5, 7] {
        let project = project("{}");
        compiler(&project, major);
        project.write(
            "tsconfig.json",
            r#"{ "files": [], "references": [{ "path": "./lib" }, { "path": "./app/tsconfig.app.json" }] }"#,
        );
        let options =
            r#""compilerOptions": { "composite": true, "strict": true, "types": [], "outDir": "out" }"#;
        project.write("lib/tsconfig.json", format!("{{ {options} }}"));
        project.write("lib/t.ts", "export const n: number = 1;\nexport const wrong: number = 'x';\n");
        project.write(
            "app/tsconfig.app.json",
            format!(r#"{{ {options}, "references": [{{ "path": "../lib" }}] }}"#),
        );
        project.write("app/u.ts", "import { n } from '../lib/t';\nexport const s: string = n;\n");
        // Once more with what an older build left, which says otherwise.
        for before in [None, Some("export declare const n: string;\nexport declare const wrong: number;\n")] {
            if let Some(types) = before {
                project.write("lib/out/t.d.ts", types);
            }
            let run = project.typecheck();
            let found: Vec<(&str, u32, &str)> =
                run.findings.iter().map(|one| (one.file.as_str(), one.line, one.rule.as_str())).collect();
            let wanted = [("app/u.ts", 2, "TS2322"), ("lib/t.ts", 2, "TS2322")];
            assert_eq!(found, wanted, "{major}: {}", told(&run));
            let written = std::fs::read_to_string(project.root.join("lib/out/t.d.ts")).ok();
            assert_eq!(written.as_deref(), before, "{major}");
            assert!(!project.root.join("app/out").exists(), "{major}: what app builds was written");
        }
    }
}

/// TypeScript 7 works on a copy: packages of the workspace are links into the sources, and what is said of the copy
/// is meant of them.
#[test]
fn the_packages_of_a_workspace_are_those_of_the_copy() {
    let project = project("{}");
    compiler(&project, 7);
    project.write("tsconfig.json", r#"{ "files": [], "references": [{ "path": "./app" }] }"#);
    let options = r#""compilerOptions": { "composite": true, "strict": true, "types": [], "module": "nodenext", "outDir": "dist" }"#;
    project
        .write("lib/package.json", r#"{ "name": "@ours/lib", "types": "dist/t.d.ts", "main": "dist/t.js" }"#);
    project.write("lib/tsconfig.json", format!("{{ {options} }}"));
    project.write("lib/t.ts", "export const n: number = 1;\n");
    project.write("app/tsconfig.json", format!(r#"{{ {options}, "references": [{{ "path": "../lib" }}] }}"#));
    project
        .write("app/u.ts", "import { n } from '@ours/lib';\nexport const s: string = n;\nimport './gone';\n");
    std::fs::create_dir(project.root.join("node_modules/@ours")).expect("a folder");
    std::os::unix::fs::symlink("../../lib", project.root.join("node_modules/@ours/lib")).expect("a link");
    let run = project.typecheck();
    let found: Vec<(&str, u32, &str)> =
        run.findings.iter().map(|one| (one.file.as_str(), one.line, one.rule.as_str())).collect();
    assert_eq!(found, [("app/u.ts", 2, "TS2322"), ("app/u.ts", 3, "TS2882")], "{}", told(&run));
    assert!(!project.root.join("lib/dist").exists() && !project.root.join("app/dist").exists());
    // A project that lies outside is in no copy: then tsc speaks for itself.
    project
        .write("app/tsconfig.json", format!(r#"{{ {options}, "references": [{{ "path": "../../lib" }}] }}"#));
    let run = project.typecheck();
    let root = project.root.to_string_lossy();
    let above = root.rsplit_once('/').expect("a folder above").0;
    assert!(format!("{run:?}").contains(&format!("File '{above}/lib")), "{}", told(&run));
}

#[test]
fn prettier_and_biome_format_from_stdin() {
    for (package, config) in [("prettier", ".prettierrc"), ("@biomejs/biome", "biome.json")] {
        let project = project(&format!(r#"{{"devDependencies":{{"{package}":"1"}}}}"#));
        project.write(config, "{}");
        let text =
            project.format("src/a.js", "const  a=1").unwrap_or_else(|error| panic!("{package}: {error}"));
        assert_eq!(text, "const a = 1;\n", "{package}");
        let error = project.format("src/a.js", "const = ;").expect_err("a syntax error");
        assert!(!error.is_empty(), "{package}");
    }
}
