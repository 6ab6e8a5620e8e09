//! What language servers do not know of by themselves, and names that they have several entries for.

use crate::{
    language_servers::bash,
    support::{Bench, Client},
    verify::equipped_over as bench,
};
use serde_json::{Value, json};
use std::fs;

fn read(bench: &Bench, file: &str) -> String {
    fs::read_to_string(bench.root().join(file)).unwrap()
}

const SUM: &str = "export function addUp(a, b) {\n  return a + b;\n}\nexport default addUp;\n";
const TYPED: &str = "export function addUp(a: number, b: number) {\n  return a + b;\n}\n";
const STRICT: &str = r#"{"compilerOptions": {"strict": true, "module": "nodenext"}, "include": ["src"]}"#;

/// All of these files use the function of the first, and a rename reaches them all.
async fn is_known_everywhere(bench: &Bench, client: &Client, module: &str, users: &[&str]) {
    let at = |more: Value| {
        let mut args = json!({"file_path": module, "symbol": "addUp"});
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        args
    };
    let text = client.ok("find_references", at(json!({}))).await;
    for user in users {
        assert!(text.contains(&format!(" {user}:")), "{user} is not in {text}");
    }
    assert_eq!(client.ok("find_references", at(json!({}))).await, text, "once more");
    let text = client.ok("call_hierarchy", at(json!({}))).await;
    assert!(text.starts_with(&format!("Found {} call(s) of addUp:", users.len())), "{text}");
    let text = client.ok("rename_symbol", at(json!({"new_name": "plus", "apply": true}))).await;
    assert!(!text.contains("post-edit errors") && !text.contains("keep the name"), "{text}");
    for user in users {
        let now = read(bench, user);
        assert!(now.contains("plus(1, 2)") || now.contains("sum(1, 2)"), "{user}: {now}");
        assert!(!now.contains("addUp"), "{user}: {now}");
    }
}

const FAR: &str = "export function farAway() {\n  return 1;\n}\nexport function nearby() {\n  return 2;\n}\n";

/// It is shown, never changed, and not taken for part of the workspace.
async fn knows_what_is_outside(bench: &Bench, client: &Client) {
    for name in ["farAway", "nearby"] {
        let at = json!({"file_path": "typed/src/f.ts", "line": 3, "symbol": name});
        let text = client.ok("find_definition", at.clone()).await;
        assert!(text.contains("far.ts:") && text.contains("(outside the workspace, read-only; "), "{text}");
        let mut rename = at;
        rename["new_name"] = json!("other");
        rename["apply"] = json!(true);
        let text = client.err("rename_symbol", rename).await;
        assert!(text.contains("outside the workspace"), "{text}");
        let text = client.err("find_definition", json!({"symbol": name})).await;
        assert!(
            text.starts_with(&format!("find_definition: no symbol {name} in this workspace\n")),
            "{text}"
        );
    }
    assert_eq!(fs::read_to_string(bench.dir.path().join("outside/far.ts")).unwrap(), FAR);
    assert!(read(bench, "typed/src/f.ts").contains("farAway() + nearby()"));
}

#[tokio::test(flavor = "multi_thread")]
async fn typescript_is_shown_who_uses_a_symbol_from_outside_its_project() {
    let package = |name: &str| format!(r#"{{"name": "{name}", "version": "1.0.0", "type": "module"}}"#);
    let (plain, typed) = (package("plain"), package("typed"));
    let bench = bench(&[
        // no tsconfig.json: only what is open and what that imports is known
        ("plain/package.json", &plain),
        ("plain/lib/a.js", SUM),
        ("plain/lib/b.js", "import { addUp } from './a.js';\nexport const three = addUp(1, 2);\n"),
        ("plain/test/a.test.js", "import sum from '../lib/a.js';\nsum(1, 2);\n"),
        ("plain/lib/again.js", "export { addUp as sum } from './a.js';\n"),
        ("plain/lib/c.js", "import { sum } from './again.js';\nsum(1, 2);\n"),
        // tests beside what tsconfig.json names
        ("typed/package.json", &typed),
        ("typed/tsconfig.json", STRICT),
        ("typed/src/a.ts", TYPED),
        ("typed/src/b.ts", "import { addUp } from './a.js';\nexport const three = addUp(1, 2);\n"),
        (
            "typed/src/f.ts",
            "import { farAway } from 'far';\nimport { nearby } from './linked/far.js';\nexport const one = farAway() + nearby();\n",
        ),
        ("typed/test/a.test.ts", "import { addUp } from '../src/a.js';\naddUp(1, 2);\n"),
        // packages of one workspace
        ("mono/package.json", r#"{"name": "mono", "private": true, "workspaces": ["packages/*"]}"#),
        ("mono/packages/a/package.json", r#"{"name": "a", "version": "1.0.0", "main": "src/index.ts"}"#),
        ("mono/packages/a/tsconfig.json", STRICT),
        ("mono/packages/a/src/index.ts", TYPED),
        ("mono/packages/b/package.json", r#"{"name": "b", "version": "1.0.0"}"#),
        ("mono/packages/b/tsconfig.json", STRICT),
        ("mono/packages/b/src/index.ts", "import { addUp } from 'a';\nexport const three = addUp(1, 2);\n"),
        ("mono/packages/b/src/only.ts", "export function onlyHere() {\n  return 1;\n}\n"),
    ]);
    fs::create_dir(bench.root().join("mono/node_modules")).unwrap();
    std::os::unix::fs::symlink("../packages/a", bench.root().join("mono/node_modules/a")).unwrap();
    // What links outside the workspace lead to.
    let outside = bench.dir.path().join("outside");
    fs::create_dir_all(bench.root().join("typed/node_modules")).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("package.json"), r#"{"name": "far", "type": "module", "exports": "./far.ts"}"#)
        .unwrap();
    fs::write(outside.join("far.ts"), FAR).unwrap();
    for link in ["typed/node_modules/far", "typed/src/linked"] {
        std::os::unix::fs::symlink("../../../outside", bench.root().join(link)).unwrap();
    }
    let client = bench.client();
    knows_what_is_outside(&bench, &client).await;
    // The server is up for one package: a symbol of the other is found all the same.
    client.ok("diagnostics", json!({"file_path": "mono/packages/a/src/index.ts"})).await;
    let text = client.ok("workspace_symbols", json!({"query": "onlyh"})).await;
    assert!(text.contains("1. mono/packages/b/src/only.ts:1:"), "{text}");
    let text = client.ok("find_definition", json!({"symbol": "onlyHere"})).await;
    assert!(text.contains("1. mono/packages/b/src/only.ts:1:17  "), "{text}");
    let plain = ["plain/lib/b.js", "plain/test/a.test.js", "plain/lib/c.js"];
    is_known_everywhere(&bench, &client, "plain/lib/a.js", &plain).await;
    let typed = ["typed/src/b.ts", "typed/test/a.test.ts"];
    is_known_everywhere(&bench, &client, "typed/src/a.ts", &typed).await;
    let mono = ["mono/packages/b/src/index.ts"];
    is_known_everywhere(&bench, &client, "mono/packages/a/src/index.ts", &mono).await;
}

const DUCKS: &str = "class Base:\n    def run(self) -> int:\n        return 1\n\n\nclass Child(Base):\n    def run(self) -> int:\n        return super().run()\n\n\nclass Other:\n    def run(self) -> int:\n        return 2\n\n\ndef use(x: Base, y) -> None:\n    x.run()\n    y.run()\n    Other().run()\n";

/// Derived from those by ways around, or from something else.
const DRAKES: &str = "import a\nfrom a import Base as Root\n\n\nclass Aliased(Root):\n    def run(self) -> int:\n        return 3\n\n\nSame = a.Child\n\n\nclass Grand(Same):\n    def run(self) -> int:\n        return 4\n\n\nclass Apart(list[a.Base]):\n    def run(self) -> int:\n        return 5\n\n\nclass Counts:\n    def __init__(self) -> None:\n        self.count = 0\n\n\nclass More(Counts):\n    def reset(self) -> None:\n        self.count = 1\n";

/// gopls loads folders that it finds at its start, and later only what these import.
#[tokio::test(flavor = "multi_thread")]
async fn go_in_new_folders_is_known() {
    let user = |name: &str| format!("package {name}\n\nimport \"ex.org/g/lib\"\n\nvar N = lib.Total()\n");
    let bench = bench(&[
        ("go.mod", "module ex.org/g\n\ngo 1.22\n"),
        ("lib/lib.go", "package lib\n\nfunc Total() int { return 1 }\n"),
        ("lib/x_test.go", &user("lib_test")),
        ("cmd/main.go", &user("main")),
    ]);
    let client = bench.client();
    let total = json!({"symbol": "Total"});
    let text = client.ok("find_references", total.clone()).await;
    assert!(text.starts_with("Found 3 reference(s)"), "{text}");
    // a package, its tests apart, a folder of nothing but tests, one beside go.mod; and what is no package
    bench.write("root.go", user("g"));
    bench.write("a/a.go", user("a") + "\nfunc OnlyThere() {}\n");
    bench.write("a/a_test.go", user("a_test"));
    bench.write("a/deep/d_test.go", user("deep"));
    bench.write("a/testdata/t.go", user("t"));
    let text = client.ok("find_references", total.clone()).await;
    assert!(text.starts_with("Found 7 reference(s)"), "{text}");
    for file in ["root.go", "a/a.go", "a/a_test.go", "a/deep/d_test.go"] {
        assert!(text.contains(&format!(" {file}:5:")), "{text}");
    }
    let text = client.ok("find_definition", json!({"symbol": "OnlyThere"})).await;
    assert!(text.contains(" a/a.go:7:6 "), "{text}");
    // as another branch has it: all that was known is gone
    bash(&client, "mv lib new && sed -i s,ex.org/g/lib,ex.org/g/new, *.go */*.go */*/*.go").await;
    let text = client.ok("find_references", total.clone()).await;
    assert!(text.starts_with("Found 7 reference(s) for symbol at new/lib.go:3:6:"), "{text}");
    assert!(text.contains(" new/x_test.go:5:"), "{text}");
    // more than a server is shown one by one
    for n in 0..50 {
        bench.write(&format!("many/m{n}/m.go"), user("m").replace("g/lib", "g/new"));
    }
    let text = client.ok("find_references", total).await;
    assert!(text.starts_with("Found 57 reference(s)"), "{text}");
}

/// Servers list only so many symbols of a name, and do not always tell what they are in.
#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_is_found_by_what_it_is_in() {
    let bench = bench(&[
        ("go/go.mod", "module ex.org/g\n\ngo 1.22\n"),
        ("web/tsconfig.json", "{}"),
        ("web/package.json", "{}"),
    ]);
    for n in 100..240 {
        let go = format!(
            "package p{n}\n\ntype T{n} struct{{}}\n\nfunc (T{n}) Get() int {{ return 1 }}\n\nfunc New() T{n} {{ return T{n}{{}} }}\n\nfunc Zip() {{}}\n"
        );
        bench.write(&format!("go/p{n}/t.go"), go);
    }
    bench.write("go/zip/zip.go", "package zip\n\nfunc zip() {}\n");
    for n in 300..340 {
        bench.write(
            &format!("web/src/p{n}.ts"),
            format!("export class T{n} {{\n  get(): number {{\n    return 1;\n  }}\n}}\n"),
        );
    }
    let client = bench.client();
    // what has no name of its own is not what it is in
    bench.write(
        "web/src/bag.ts",
        "export class Bag {\n  fill(o: object) {\n    return { ...o, a: 1 };\n  }\n  *[Symbol.iterator]() {\n    yield 1;\n  }\n}\n",
    );
    for (symbol, place) in [
        ("Bag", "web/src/bag.ts:1:14"),
        ("Bag.fill", "web/src/bag.ts:2:3"),
        ("T100.Get", "go/p100/t.go:5:13"),
        ("T175.Get", "go/p175/t.go:5:13"),
        ("(T239).Get", "go/p239/t.go:5:13"),
        ("p133.New", "go/p133/t.go:7:6"),
        ("p208.New", "go/p208/t.go:7:6"),
        ("zip", "go/zip/zip.go:3:6"),
        ("T320.get", "web/src/p320.ts:2:3"),
        ("T339.get", "web/src/p339.ts:2:3"),
    ] {
        let text = client.ok("find_definition", json!({"symbol": symbol})).await;
        let expected = format!("Found 1 definition(s) for symbol at {place}:");
        assert!(text.starts_with(&expected), "{symbol}: {text}");
        let file = place.split(':').next().unwrap();
        let text = client.ok("find_definition", json!({"symbol": symbol, "file_path": file})).await;
        assert!(text.starts_with(&expected), "{symbol} in {file}: {text}");
    }
    let text = client.err("find_definition", json!({"symbol": "New"})).await;
    assert!(text.starts_with("find_definition: New is ambiguous:\n"), "{text}");
}

/// An interface and what implements it: gopls renames both only where it sees one assigned to the other.
#[tokio::test(flavor = "multi_thread")]
async fn a_go_rename_names_implementations() {
    let bench = bench(&[
        ("go.mod", "module ex.org/g\n\ngo 1.22\n"),
        (
            "lib/lib.go",
            "package lib\n\ntype Shape interface {\n\tArea() int\n}\n\nfunc Sum(s Shape) int { return s.Area() }\n",
        ),
        (
            "sq/sq.go",
            "package sq\n\ntype Sq struct{}\n\nfunc (Sq) Area() int { return 1 }\n\ntype Other struct{}\n\nfunc (Other) Area() string { return \"\" }\n",
        ),
        (
            "cmd/main.go",
            "package main\n\nimport (\n\t\"ex.org/g/lib\"\n\t\"ex.org/g/sq\"\n)\n\nfunc main() { println(lib.Sum(sq.Sq{})) }\n",
        ),
    ]);
    let client = bench.client();
    let text = client.ok("rename_symbol", json!({"symbol": "Shape.Area", "new_name": "Size"})).await;
    assert!(text.contains("\n1 place(s) keep the name, since gopls "), "{text}");
    assert!(
        text.ends_with("(overrides, implementations, fixtures, what `**` takes): sq/sq.go:5:11"),
        "{text}"
    );
    let text = client.err("rename_symbol", json!({"symbol": "Sq.Area", "new_name": "Size"})).await;
    assert!(text.contains("no longer assignable to interface Shape"), "{text}");
}

/// What is built under other conditions is renamed where the server can tell, and named where it cannot.
#[tokio::test(flavor = "multi_thread")]
async fn a_rename_tells_what_it_leaves_behind() {
    let bench = bench(&[
        ("go/go.mod", "module ex.org/g\n\ngo 1.22\n"),
        ("go/g.go", "package g\n\nfunc Use() int { return open() }\n"),
        ("go/g_linux.go", "package g\n\nfunc open() int { return 1 }\n"),
        ("go/g_windows.go", "package g\n\nfunc open() int { return 2 }\n\nfunc Win() int { return Use() }\n"),
        ("go/tagged.go", "//go:build special\n\npackage g\n\nfunc Tag() int { return Use() }\n"),
        ("rust/Cargo.toml", "[package]\nname = \"r\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
        (
            "rust/src/lib.rs",
            "pub struct Foo {\n    pub x: i32,\n}\n\nimpl Foo {\n    pub fn make() -> Self {\n        Foo { x: 1 }\n    }\n}\n\nimpl Default for Foo {\n    fn default() -> Self {\n        Foo::make()\n    }\n}\n\n#[cfg(feature = \"extra\")]\npub fn extra() -> Foo {\n    Foo::make()\n}\n",
        ),
        ("rust/src/shape.rs", "pub fn a() {}\n"),
        ("python/pyproject.toml", "[project]\nname = \"p\"\nversion = \"0\"\n"),
        ("python/a.py", DUCKS),
        ("python/b.py", DRAKES),
        (
            "python/conftest.py",
            "import pytest\n\n\n@pytest.fixture(scope=\"session\")\ndef engine() -> int:\n    return 1\n\n\n@pytest.fixture\ndef car(engine: int) -> int:\n    return engine\n",
        ),
        (
            "python/test_a.py",
            "def test_it(engine):\n    assert engine\n\n\ndef test_other():\n    engine = 2\n    assert engine\n",
        ),
        ("web/package.json", "{}"),
        ("web/tsconfig.json", "{}"),
        (
            "web/over.ts",
            "export function over(a: string): string;\nexport function over(a: number): number;\nexport function over(a: any): any {\n  return a;\n}\nexport const one = over(1);\n",
        ),
    ]);
    let client = bench.client();
    let rename = |file: &str, symbol: &str, new: &str| json!({"file_path": file, "symbol": symbol, "new_name": new, "apply": true});
    for _ in 0..2 {
        let text = client.ok("find_references", json!({"file_path": "go/g.go", "symbol": "Use"})).await;
        assert!(text.starts_with("Found 2 reference(s)") && text.contains(" go/g_windows.go:5:"), "{text}");
        let unknown = "\n1 more place(s) have the name, and gopls cannot tell what they mean (other build tags): go/tagged.go:5:25";
        assert!(text.ends_with(unknown), "{text}");
        let text = client.ok("call_hierarchy", json!({"file_path": "go/g.go", "symbol": "Use"})).await;
        assert!(
            text.starts_with("Found 1 call(s) of Use:\n1. go/g_windows.go:5:25  function Win  "),
            "{text}"
        );
        assert!(text.ends_with(unknown), "{text}");
    }
    let text = client.ok("rename_symbol", rename("go/g.go", "Use", "Take")).await;
    assert!(text.contains("\nM go/g_windows.go") && text.contains("\n1 place(s) keep the name"), "{text}");
    assert!(text.ends_with(": go/tagged.go:5:25"), "{text}");
    assert!(read(&bench, "go/g_windows.go").contains("return Take()"));
    let text = client.ok("rename_symbol", rename("go/g.go", "open", "begin")).await;
    assert!(text.contains("\n1 place(s) keep the name, since gopls cannot tell what they mean"), "{text}");
    assert!(text.contains(": go/g_windows.go:3:6"), "{text}");
    let text = client.ok("rename_symbol", rename("rust/src/lib.rs", "Foo::make", "build")).await;
    assert!(text.contains("\n1 place(s) keep the name, since rust-analyzer"), "{text}");
    assert!(text.ends_with(": rust/src/lib.rs:19:10"), "{text}");
    // What overrides a method through others, and what is overridden.
    let preview = json!({"file_path": "python/b.py", "symbol": "Grand.run", "new_name": "go"});
    let text = client.ok("rename_symbol", preview).await;
    assert!(text.ends_with(": python/a.py:2:9, python/a.py:7:9, python/a.py:18:7"), "{text}");
    let text = client.ok("rename_symbol", rename("python/a.py", "Base.run", "go")).await;
    assert!(text.contains("\n4 place(s) keep the name, since "), "{text}");
    let left = ": python/a.py:7:9, python/a.py:18:7, python/b.py:6:9, python/b.py:14:9";
    assert!(text.ends_with(left), "{text}");
    let count = json!({"file_path": "python/b.py", "line": 25, "symbol": "count", "new_name": "sum"});
    let text = client.ok("rename_symbol", count).await;
    assert!(
        text.ends_with("(overrides, implementations, fixtures, what `**` takes): python/b.py:30:14"),
        "{text}"
    );
    // Who takes a fixture names it as a parameter.
    let text = client.ok("rename_symbol", rename("python/conftest.py", "engine:5", "motor")).await;
    assert!(text.contains("\n2 place(s) keep the name, since "), "{text}");
    assert!(text.ends_with(": python/conftest.py:10:9, python/test_a.py:1:13"), "{text}");
    let module = "pub mod shape;\n";
    bench.write("rust/src/lib.rs", read(&bench, "rust/src/lib.rs") + module);
    let text = client.err("rename_symbol", rename("rust/src/lib.rs", "shape", "form")).await;
    assert!(text.contains("would move the module's file, which is not supported\nmove the file"), "{text}");
    // A type and its blocks are one thing, and so are the forms of a function.
    for (symbol, line) in [("Foo", 1), ("Foo:1", 1), ("Foo:5", 5)] {
        let at = json!({"file_path": "rust/src/lib.rs", "symbol": symbol});
        let text = client.ok("find_references", at).await;
        let first = format!("Found 9 reference(s) for symbol at rust/src/lib.rs:{line}:");
        assert!(text.starts_with(&first), "{symbol}: {text}");
    }
    for at in [json!({"file_path": "web/over.ts", "symbol": "over"}), json!({"symbol": "over"})] {
        let text = client.ok("find_references", at).await;
        assert!(text.starts_with("Found 4 reference(s)"), "{text}");
    }
    let text = client.err("hover", json!({"file_path": "rust/src/lib.rs", "symbol": "Foo:2"})).await;
    assert_eq!(text, "hover: no Foo on line 2: pub x: i32,");
}

/// What is installed while a server is up is found, though nobody watches it and no manifest changes.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_installed_meanwhile_is_found() {
    let bench = bench(&[
        (".gitignore", "node_modules\n.venv\n"),
        ("web/package.json", r#"{"name": "web", "dependencies": {"dep": "1.0.0"}}"#),
        ("web/tsconfig.json", r#"{"compilerOptions": {"strict": true, "module": "nodenext"}}"#),
        ("web/a.ts", "import { hi } from \"dep\";\nexport const one: number = hi();\n"),
        ("python/pyproject.toml", "[project]\nname = \"p\"\nversion = \"0\"\n"),
        ("python/m.py", "import dep\n\none: int = dep.hi()\n"),
    ]);
    let client = bench.client();
    let problems = async |file: &str| client.ok("diagnostics", json!({"file_path": file})).await;
    let text = problems("web/a.ts").await;
    assert!(text.contains("Cannot find module 'dep'"), "{text}");
    let text = problems("python/m.py").await;
    assert!(text.contains("Import \"dep\" could not be resolved"), "{text}");
    let install = "mkdir -p web/node_modules/dep python/.venv/bin python/.venv/lib/python3.11/site-packages \
        && echo '{\"name\": \"dep\", \"version\": \"1.0.0\", \"types\": \"index.d.ts\"}' > web/node_modules/dep/package.json \
        && echo 'export declare function hi(): number;' > web/node_modules/dep/index.d.ts \
        && echo 'home = /usr/bin' > python/.venv/pyvenv.cfg && touch python/.venv/bin/activate \
        && ln -s \"$(command -v python3)\" python/.venv/bin/python \
        && printf 'def hi() -> int:\\n    return 1\\n' > python/.venv/lib/python3.11/site-packages/dep.py";
    client.ok("Bash", json!({"command": install})).await;
    assert!(problems("web/a.ts").await.starts_with("no problems in web/a.ts"));
    let text = problems("python/m.py").await;
    assert!(!text.contains("could not be resolved"), "{text}");
}

/// A list that a server cuts, a project that it could not load, a file that does not parse: what is not known is said.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_known_is_said() {
    let many: String = (0..150).map(|n| format!("\nfunc Handle{n}() {{}}\n")).collect();
    let bench = bench(&[
        ("go/go.mod", "module ex.org/g\n\ngo 1.22\n"),
        ("go/g.go", &format!("package g\n{many}")),
        ("loose.rs", "fn main() {}\n"),
        ("odd.ts", "function f() {}\nclass A { ]]] b() {} }}}\n"),
    ]);
    let client = bench.client();
    let text = client.ok("workspace_symbols", json!({"query": "Handle"})).await;
    assert!(text.contains("gopls tells 100 symbols at most: a longer query tells others"), "{text}");
    let text = client.ok("workspace_symbols", json!({"query": "Handle14"})).await;
    assert!(text.contains("1. go/g.go:31:6  ") && !text.contains("at most"), "{text}");
    let text = client.ok("diagnostics", json!({"file_path": "loose.rs"})).await;
    assert!(text.contains("\nrust-analyzer says: Failed to discover workspace"), "{text}");
    client.ok("Read", json!({"file_path": "odd.ts"})).await;
    let edit = json!({"file_path": "odd.ts", "function_name": "A.c", "new_body": ""});
    let text = client.err("edit_function_body", edit).await;
    assert!(text.contains("; line 2 does not parse, which may hide it: use Edit there"), "{text}");
    bench.write("macro.rs", "cfg_if! {\n    fn hidden() {}\n}\nfn seen() {}\n");
    client.ok("Read", json!({"file_path": "macro.rs"})).await;
    let edit = json!({"file_path": "macro.rs", "function_name": "hidden", "new_body": ""});
    let text = client.err("edit_function_body", edit).await;
    assert!(text.contains("; line 2 has the name, as no function (in a macro?): use Edit there"), "{text}");
}

/// rust-analyzer passes over some uses in what macros are given, in about half of its lives.
#[tokio::test(flavor = "multi_thread")]
async fn uses_in_macros_are_found() {
    let bench = bench(&[
        ("Cargo.toml", "[package]\nname = \"rs\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
        (
            "src/lib.rs",
            "pub mod cap;\npub mod shape;\n\nmacro_rules! call {\n    ($e:expr) => {\n        $e\n    };\n}\n\npub trait Area {\n    fn area(&self) -> f64;\n}\n\npub fn total(xs: &[&dyn Area]) -> f64 {\n    xs.iter().map(|x| call!(x.area())).sum()\n}\n\n#[cfg(test)]\nmod tests {\n    use super::*;\n    #[test]\n    fn t() {\n        assert_eq!(total(&[&shape::Sq { side: 2.0 }]), 4.0);\n    }\n}\n",
        ),
        ("src/cap.rs", "pub fn area(w: f64, h: f64) -> f64 {\n    let total = 5.0;\n    w * h + total\n}\n"),
        (
            "src/shape.rs",
            "use crate::Area;\n\n#[derive(Debug, Clone)]\npub struct Sq {\n    pub side: f64,\n}\n\nimpl Area for Sq {\n    fn area(&self) -> f64 {\n        self.side * self.side\n    }\n}\n\nimpl Sq {\n    pub fn new(side: f64) -> Self {\n        Sq { side }\n    }\n}\n\npub fn unit() -> Sq {\n    Sq::new(1.0)\n}\n",
        ),
        (
            "src/main.rs",
            "use rs::{\n    shape::{self, Sq},\n    total, Area,\n};\n\nmod other {\n    pub fn total() -> usize {\n        2\n    }\n}\n\nfn main() {\n    let s = Sq::new(2.0);\n    println!(\"{} {:?} {side}\", s.area(), shape::unit(), side = s.side);\n    println!(\"{}\", total(&[&s]));\n    println!(\"{}\", other::total());\n}\n",
        ),
    ]);
    let client = bench.client();
    for _ in 0..2 {
        let text = client.ok("find_references", json!({"file_path": "src/lib.rs", "symbol": "total"})).await;
        assert!(text.starts_with("Found 4 reference(s)"), "{text}");
        for place in ["src/lib.rs:14:8", "src/lib.rs:23:20", "src/main.rs:3:5", "src/main.rs:15:20"] {
            assert!(text.contains(&format!(". {place}  ")), "{place}: {text}");
        }
    }
    let at = json!({"file_path": "src/main.rs", "line": 7, "symbol": "total"});
    let text = client.ok("find_references", at).await;
    assert!(text.starts_with("Found 2 reference(s)") && text.contains("src/main.rs:16:27  "), "{text}");
}

/// A server knows its own project and what that depends on, never who depends on it.
#[tokio::test(flavor = "multi_thread")]
async fn other_projects_that_have_the_name_are_told() {
    let crate_ = |name: &str, rest: &str| {
        format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n{rest}")
    };
    let (own, user) = (crate_("a", ""), crate_("b", "[dependencies]\na = { path = \"../a\" }\n"));
    let python = |name: &str| format!("[project]\nname = \"{name}\"\nversion = \"1\"\n");
    let (pa, pb) = (python("pa"), python("pb"));
    let bench = bench(&[
        ("a/Cargo.toml", &own),
        ("a/src/lib.rs", "pub fn shared_fn() -> i32 {\n    let inner = 1;\n    inner\n}\n"),
        ("b/Cargo.toml", &user),
        ("b/src/lib.rs", "pub fn user(inner: i32) -> i32 {\n    a::shared_fn() + inner\n}\n"),
        ("b/src/text.rs", "// shared_fn is used elsewhere\n"),
        ("pa/pyproject.toml", &pa),
        ("pa/pa/__init__.py", "def shared_py(x):\n    return x\n"),
        ("pb/pyproject.toml", &pb),
        ("pb/main.py", "from pa import shared_py\n\nshared_py(1)\n"),
        ("go/g/go.mod", "module ex.org/g\n\ngo 1.22\n"),
        ("go/g/g.go", "package g\n\nfunc SharedGo() int { return 1 }\n"),
        (
            "go/h/go.mod",
            "module ex.org/h\n\ngo 1.22\n\nrequire ex.org/g v0.0.0\n\nreplace ex.org/g => ../g\n",
        ),
        ("go/h/h.go", "package h\n\nimport \"ex.org/g\"\n\nvar N = g.SharedGo()\n"),
    ]);
    let client = bench.client();
    for (file, symbol, other) in [
        ("a/src/lib.rs", "shared_fn", "b/src/lib.rs"),
        ("pa/pa/__init__.py", "shared_py", "pb/main.py"),
        ("go/g/g.go", "SharedGo", "go/h/h.go"),
    ] {
        let told = format!(
            "\n1 file(s) of other projects have this name, and what they mean by it is not known here: {other}; ask there"
        );
        let at = json!({"file_path": file, "symbol": symbol, "new_name": "Renamed"});
        for tool in ["find_references", "call_hierarchy", "rename_symbol"] {
            let mut args = at.clone();
            if tool != "rename_symbol" {
                args.as_object_mut().unwrap().remove("new_name");
            }
            let text = client.ok(tool, args).await;
            assert!(text.ends_with(&told), "{tool}: {text}");
        }
    }
    // From there, both are known; and what is known in one function alone is nobody else's.
    let text = client
        .ok("find_references", json!({"file_path": "b/src/lib.rs", "line": 2, "symbol": "shared_fn"}))
        .await;
    assert!(text.starts_with("Found 2 reference(s)") && !text.contains("other projects"), "{text}");
    let text = client
        .ok("find_references", json!({"file_path": "a/src/lib.rs", "line": 2, "symbol": "inner"}))
        .await;
    assert!(text.starts_with("Found 2 reference(s)") && !text.contains("other projects"), "{text}");
}
